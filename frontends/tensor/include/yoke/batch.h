// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/batch.h: the named tensors of a data set or a batch, and losses computed from them.
#pragma once

#include <yoke/runtime/context.h>
#include <yoke/tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace yoke {

struct Field {
  std::string name;
  Tensor tensor;
};

// Fields with the same number of rows along axis 0: host data, or the rows of a shard in functions that data_parallel()
// calls.
class Batch {
 public:
  Batch() = default;
  Batch(Tensor inputs, Tensor targets);  // the fields "inputs" and "targets"
  Batch(std::initializer_list<Field> fields) : fields_(fields) {}
  explicit Batch(std::vector<Field> fields) : fields_(std::move(fields)) {}

  // Error kNotFound: the field does not exist; the message lists the fields.
  Tensor operator[](std::string_view name) const;
  const std::vector<Field>& fields() const& { return fields_; }
  std::vector<Field> fields() && { return std::move(fields_); }  // for loops over the fields of a temporary
  std::uint64_t row_count() const;  // of the first field; 0 without fields or without axes

 private:
  std::vector<Field> fields_;
};

// Training data that the caller supplies batch by batch, so that it need not fit the devices.
struct Feed {
  struct FieldSpec {
    std::string name;
    TensorSpec spec;
  };

  Feed() = default;
  Feed(std::vector<FieldSpec> of_fields, std::function<Batch(std::int64_t number)> of_number)
      : fields(std::move(of_fields)), next(std::move(of_number)) {}
  Feed(TensorSpec inputs, TensorSpec targets, std::function<Batch(std::int64_t number)> of_number)
      : Feed({{"inputs", std::move(inputs)}, {"targets", std::move(targets)}}, std::move(of_number)) {}

  // The types and shapes of all rows of an epoch; dims[0] is their number. options.batch_size divides them into
  // batches, as it does for data in memory. With options.varying_rows, a batch may have fewer rows, at least one.
  std::vector<FieldSpec> fields;
  // Returns the batch of step `number`, counted from 0: number % Trainer::steps_per_epoch() in its epoch.
  // Called on the thread that uses the Trainer, in order, up to two steps ahead: by step() or advance(), when
  // the work of the step has been queued. If it throws, or returns a batch with other fields, types or shapes, the step
  // that needs this batch throws an Error that names both, and queues nothing; earlier steps run. The next
  // step() asks for the batch again.
  std::function<Batch(std::int64_t number)> next;
};

// What loss_of returns: a floating-point scalar, and optionally metrics, such as an accuracy. A metric is a scalar: a
// mean over the rows that loss_of is given. Trainer::metric_value() reads it.
struct Loss {
  Loss(Tensor value) : loss(std::move(value)) {}  // NOLINT(google-explicit-constructor): without metrics
  Loss(Tensor value, std::vector<Field> watched) : loss(std::move(value)), metrics(std::move(watched)) {}

  Tensor loss;
  std::vector<Field> metrics;  // with distinct names
};

// A function of a Batch, or of two tensors, which are the fields "inputs" and "targets".
template <class Result>
class BatchFunction {
  template <class F>
  static constexpr bool kTakesTwo = std::is_invocable_v<F&, const Tensor&, const Tensor&>;
  template <class F>
  static constexpr bool kTakesBatch = !kTakesTwo<F> && std::is_invocable_v<F&, const Batch&>;

 public:
  BatchFunction() = default;
  BatchFunction(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): empty, as a std::function
  template <class F>
  requires(kTakesTwo<F>) BatchFunction(F function) {  // NOLINT(google-explicit-constructor): for lambdas
    std::function<std::invoke_result_t<F&, const Tensor&, const Tensor&>(const Tensor&, const Tensor&)>
        of_two(std::move(function));
    if (of_two) {
      function_ = [of_two](const Batch& batch) -> Result {
        const Tensor inputs = batch["inputs"];
        return of_two(inputs, batch["targets"]);
      };
    }
  }
  template <class F>
  requires(kTakesBatch<F>) BatchFunction(F function) {  // NOLINT(google-explicit-constructor): for lambdas
    std::function<std::invoke_result_t<F&, const Batch&>(const Batch&)> of_batch(std::move(function));
    if (of_batch) {
      function_ = [of_batch](const Batch& batch) -> Result { return of_batch(batch); };
    }
  }

  explicit operator bool() const { return function_ != nullptr; }
  Result operator()(const Batch& batch) const { return function_(batch); }

 private:
  std::function<Result(const Batch&)> function_;
};

using LossOf = BatchFunction<Loss>;
using MetricsOf = BatchFunction<std::vector<Tensor>>;

}  // namespace yoke
