// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/example_loop.h: a complete training loop as an example, for simple models and losses.
#pragma once

#include <yoke/data_parallel.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace yoke {

// The argument of callbacks. Numbers count from 0.
struct ExampleProgress {
  std::int64_t at_epoch = 0;
  std::int64_t at_batch = 0;  // in the epoch
  std::int64_t at_step = 0;
  double learning_rate = 0;  // of this step
  double batch_loss = 0;
  double epoch_loss = 0;  // the sum of the epoch's batch losses so far
};

struct ExampleLoop {
  // Without a learning rate, init_lr and lr_schedule set it. options.prior_contexts: live contexts to go on from.
  DataParallelOptions options;
  double init_lr = 0.1;
  // The learning rate, as an expression of the batch's number in its epoch and the step's number, both f32 scalars.
  // Empty: it decreases from 2 * init_lr to init_lr, as init_lr * (2 * steps - step) / steps.
  std::function<Tensor(const Tensor& batch_n, const Tensor& step_n)> lr_schedule = {};
  std::int64_t epochs = 1;
  // If options.shards and options.prior_contexts are empty: at most this many shards, and at most as many as the
  // devices suggest.
  std::optional<std::int64_t> max_num_devices = std::nullopt;
  // Called after every step. The loop waits for the loss of every step, with or without this function.
  std::function<void(Trainer&, const ExampleProgress&)> per_batch = {};
  // Called after every epoch, with its last batch.
  std::function<void(Trainer&, const ExampleProgress&)> per_epoch = {};
};

struct ExampleResult {
  Tensor inputs;  // as given
  Tensor outputs;
  Tensor model_result;  // the model in evaluation mode, applied to a placeholder "infer" of one row
  // The model's outputs for rows of inputs, host data [n, ...], with the current values of its parameters. It compiles
  // the model once for each number of rows, and copies the parameters to the device in each call. Not thread-safe.
  std::function<std::vector<double>(const Tensor& rows)> infer_callback;
  // In the order of the run.
  std::vector<double> batch_losses;    // per step
  std::vector<double> epoch_losses;    // per epoch: the sum of the batch losses
  std::vector<double> learning_rates;  // per epoch: of its last step
};

// Trains `model` for the given number of epochs. `loss_fn` compares its output with the expected output; if its result
// is not a scalar, it is summed and divided by the number of rows. Parameters that already have values start from them,
// so a second call continues training. Errors: those of data_parallel().
ExampleResult example_train_loop(
    const ExampleLoop& loop, const Tensor& inputs, const Tensor& outputs,
    const std::function<Tensor(const Tensor& input)>& model,
    const std::function<Tensor(const Tensor& output, const Tensor& expectation)>& loss_fn);

}  // namespace yoke
