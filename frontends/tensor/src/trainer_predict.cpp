// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_predict.cpp: computes a model's outputs with the current parameters.
#include <memory>

#include "prediction.h"
#include "trainer_impl.h"

namespace yoke {

detail::LinkedRows Trainer::Impl::link_rows(const std::function<Tensor(const Batch&)>& model,
                                            const Batch& given, std::uint64_t rows) {
  const detail::RowsProgram made = detail::rows_program(model, given, rows);
  check_symbols(made.lowered);
  Context context = detail::rows_context(contexts[0], made);
  const auto routine =
      std::make_shared<StepRoutine>(link(context, made.program, (*symbols)[0], nullptr, *whole_set));
  const auto run = [this, routine] {
    scalars->send();
    (*symbols)[0].set(batch_row_symbol().name, 0);
    routine->run((*symbols)[0]);
  };
  return {context, run, made.outputs};
}

Tensor Trainer::predict(const std::function<Tensor(const Tensor&)>& model, const Tensor& inputs,
                        std::int64_t batch_rows) {
  const auto of_batch = [&](const Batch& batch) { return model(batch["inputs"]); };
  return predict(model ? of_batch : std::function<Tensor(const Batch&)>(), Batch{{"inputs", inputs}},
                 batch_rows);
}

Tensor Trainer::predict(const std::function<Tensor(const Batch&)>& model, const Batch& data,
                        std::int64_t batch_rows) {
  detail::check_prediction(model != nullptr, data, batch_rows);
  return Impl::at_step(impl_, "predict()", [&] {
    return detail::predict_rows(data, batch_rows,
                                [&](std::uint64_t rows) { return impl_->link_rows(model, data, rows); });
  });
}

}  // namespace yoke
