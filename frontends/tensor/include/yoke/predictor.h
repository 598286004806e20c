// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/predictor.h: a trained model's outputs, without a trainer.
#pragma once

#include <yoke/batch.h>
#include <yoke/npz.h>
#include <yoke/runtime/runtime.h>
#include <yoke/tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace yoke {

struct PredictorOptions {
  std::string backend_name = "cc";
  std::uint32_t device = 0;                    // of the backend
  std::vector<Option> device_options = {};     // as in DataParallelOptions
  std::shared_ptr<Runtime> runtime = nullptr;  // null: one with default options
};

// Computes a model in Mode::kEval on one device. Its parameters and running states have the values of a checkpoint; the
// host values of the model do not change. Not thread-safe.
class Predictor {
 public:
  // A module, or any function of the inputs or of a batch with named fields. The first axis of each tensor is the rows,
  // as that of the outputs.
  class Model {
    template <class F>
    static constexpr bool kTakesInputs = std::is_invocable_r_v<Tensor, F&, const Tensor&>;
    template <class F>
    static constexpr bool takes_batch() {  // a Handle would not compile if it were asked
      if constexpr (!kTakesInputs<F>) {
        return std::is_invocable_r_v<Tensor, F&, const Batch&>;
      }
      return false;
    }
    // A module or a std::function without contents. A lambda, which converts to bool as a pointer, is never empty.
    template <class F>
    static bool is_empty(const F& function) {
      if constexpr (requires { function.operator bool(); }) {
        return !static_cast<bool>(function);
      }
      return false;
    }

   public:
    Model() = default;
    Model(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): empty, as a std::function
    template <class F>
    requires(kTakesInputs<F>) Model(F function) {  // NOLINT(google-explicit-constructor): for lambdas
      if (is_empty(function)) {
        return;  // a std::function of an empty module would not be empty
      }
      std::function<Tensor(const Tensor&)> of_inputs(std::move(function));
      if (of_inputs) {
        function_ = [of_inputs](const Batch& batch) { return of_inputs(batch["inputs"]); };
      }
    }
    template <class F>
    requires(takes_batch<F>()) Model(F function) {  // NOLINT(google-explicit-constructor): for lambdas
      if (!is_empty(function)) {
        function_ = std::move(function);
      }
    }

    explicit operator bool() const { return function_ != nullptr; }
    Tensor operator()(const Batch& batch) const { return function_(batch); }

   private:
    std::function<Tensor(const Batch&)> function_;
  };

  // Of a model that has been trained in this process: with the host values that its parameters have when they are first
  // used. Errors: kInvalidArgument: the model is empty; those of opening a device.
  explicit Predictor(Model model, const PredictorOptions& options = {});
  // With values by the names of the parameters, such as those of load_arrays().
  Predictor(std::vector<NamedArray> parameters, Model model, const PredictorOptions& options = {});
  // With those of a checkpoint, or of the latest one of a folder of checkpoints. Errors: also those of
  // load_checkpoint().
  Predictor(const std::filesystem::path& checkpoint, Model model, const PredictorOptions& options = {});
  ~Predictor();
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;

  // The outputs for all rows of the data, which is host data, computed `batch_rows` rows at a time. Another
  // `batch_rows` may round differently. A model of a batch gets `inputs` as the field "inputs". The model is compiled
  // once for each shape, and stays compiled. Errors:
  // kFailedPrecondition: the object is moved from; kNotFound: the data lacks a field that the model uses;
  // kInvalidArgument: the data is not host data; the model returns a tensor with another number of rows, or uses
  // symbols; a parameter has no value, or one of another type or shape.
  Tensor predict(const Tensor& inputs, std::int64_t batch_rows = 1000);
  Tensor predict(const Batch& data, std::int64_t batch_rows = 1000);

  const std::string& device_name() const;  // "cc:0"

 private:
  struct Impl;
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace yoke
