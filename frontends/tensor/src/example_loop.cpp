// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/example_loop.cpp: the example of a training loop.
#include <yoke/example_loop.h>
#include <yoke/mode.h>
#include <yoke/ops.h>
#include <yoke/program/text.h>
#include <yoke/train_helpers.h>

#include <algorithm>
#include <map>

#include "node.h"
#include "trainer_types.h"

namespace yoke {

using detail::fail;

namespace {

std::int64_t steps_in_epoch(const DataParallelOptions& options, const Tensor& inputs) {
  const auto rows = static_cast<std::int64_t>(inputs.dims()[0]);
  const std::int64_t batch = options.batch_size > 0 ? options.batch_size : rows;
  return (rows + batch - 1) / batch;
}

void set_rate(const ExampleLoop& loop, std::int64_t steps_per_epoch, DataParallelOptions& options) {
  const Tensor step = cast(symbol_value(step_symbol()), Type::kF32);
  if (loop.lr_schedule) {
    options.bindings.push_back({"batch", 0, steps_per_epoch, 1});
    options.learning_rate = loop.lr_schedule(cast(symbol_value(options.bindings.back()), Type::kF32), step);
  } else if (!options.learning_rate) {
    const auto steps = static_cast<double>(loop.epochs * steps_per_epoch);
    options.learning_rate = (2 * steps - step) * (loop.init_lr / steps);
  }
}

void limit_shards(std::int64_t most, DataParallelOptions& options) {
  if (most < 1) {
    fail("example_train_loop: max_num_devices is " + std::to_string(most) + "; choose at least 1");
  }
  if (options.shards || !options.prior_contexts.empty() ||
      options.backend_name.find(':') != std::string::npos) {
    return;  // the number of shards is given
  }
  const auto backend = options.runtime->backend(options.backend_name);
  std::int64_t suggested = 0;
  for (std::uint32_t ordinal = 0; ordinal < backend->device_count(); ++ordinal) {
    suggested += suggested_stream_count(backend->device_info(ordinal), options.stream_use);
  }
  options.shards = std::clamp<std::int64_t>(suggested, 1, most);
}

Tensor scalar_loss(const Tensor& loss, std::uint64_t rows) {
  return loss && loss.rank() > 0 ? sum(loss) / static_cast<double>(rows) : loss;
}

// Predicts on the first device that training used. Keeps the code for each number of rows, because the runtime does not
// compile a text again while its code lives.
std::function<std::vector<double>(const Tensor&)> inference(
    const DataParallelOptions& options, const std::function<Tensor(const Tensor&)>& model) {
  const std::string name = options.backend_name.substr(0, options.backend_name.find_first_of(":,"));
  const auto device =
      options.prior_contexts.empty()
          ? options.runtime->backend(name)->open_device(0, detail::options_for(name, options.device_options))
          : options.prior_contexts[0].stream()->device();
  const auto stream = Stream::create(device);
  const auto codes = std::make_shared<std::map<std::string, std::shared_ptr<const Code>>>();
  return [stream, model, codes](const Tensor& rows) {
    const Tensor value = in_mode(model(rows), Mode::kEval);
    const std::string text = program::print(forward(value).program);
    std::shared_ptr<const Code>& code = (*codes)[text];
    if (code == nullptr) {
      code = compile(stream->device(), text);
    }
    return forward_and_forget(stream, value);
  };
}

}  // namespace

ExampleResult example_train_loop(
    const ExampleLoop& loop, const Tensor& inputs, const Tensor& outputs,
    const std::function<Tensor(const Tensor& input)>& model,
    const std::function<Tensor(const Tensor& output, const Tensor& expectation)>& loss_fn) {
  if (!model || !loss_fn) {
    fail(std::string("example_train_loop: the function ") + (model ? "loss_fn" : "model") + " is empty");
  }
  if (!inputs || inputs.rank() == 0) {
    fail("example_train_loop: the inputs must have at least one axis, that of the rows");
  }
  DataParallelOptions options = loop.options;
  if (options.runtime == nullptr) {
    options.runtime = std::make_shared<Runtime>();
  }
  set_rate(loop, steps_in_epoch(options, inputs), options);
  if (loop.max_num_devices) {
    limit_shards(*loop.max_num_devices, options);
  }
  ExampleResult result{inputs, outputs, {}, {}, {}, {}, {}};
  const auto loss_of = [&](const Tensor& x, const Tensor& y) {
    return scalar_loss(loss_fn(model(x), y), x.dims()[0]);
  };
  data_parallel(options, inputs, outputs, loss_of, [&](Trainer& trainer) {
    ExampleProgress now;
    for (now.at_epoch = 0; now.at_epoch < loop.epochs; ++now.at_epoch) {
      now.epoch_loss = 0;
      trainer.run_epoch([&](std::int64_t) {
        now.at_step = trainer.step_count() - 1;
        now.at_batch = now.at_step % trainer.steps_per_epoch();
        now.batch_loss = trainer.loss_value();
        now.epoch_loss += now.batch_loss;
        result.batch_losses.push_back(now.batch_loss);
        if (loop.per_batch) {
          now.learning_rate = trainer.learning_rate_value();
          loop.per_batch(trainer, now);
        }
        return true;
      });
      now.learning_rate = trainer.learning_rate_value();
      result.learning_rates.push_back(now.learning_rate);
      result.epoch_losses.push_back(now.epoch_loss);
      if (loop.per_epoch) {
        loop.per_epoch(trainer, now);
      }
    }
  });
  Dims row = inputs.dims();
  row[0] = 1;
  result.model_result = in_mode(model(placeholder("infer", inputs.type(), row)), Mode::kEval);
  result.infer_callback = inference(options, model);
  return result;
}

}  // namespace yoke
