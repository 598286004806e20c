// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_predict.cpp: computes a model's outputs with the current parameters.
#include <yoke/mode.h>

#include <algorithm>

#include "host_copy.h"
#include "node.h"
#include "trainer_impl.h"

namespace yoke {

using detail::fail;

// Appends the outputs for rows begin to end - 1, `size` rows at a time, which divides their number.
Dims Trainer::Impl::predict_rows(const std::function<Tensor(const Tensor&)>& model, const Tensor& data,
                                 std::uint64_t begin, std::uint64_t end, std::uint64_t size,
                                 std::vector<std::byte>& outputs, Type& type) {
  constexpr const char* kInputs = "predict/inputs";
  constexpr const char* kOutputs = "predict/outputs";
  Dims dims = data.dims();
  dims[0] = size;
  const Tensor given = model(placeholder("inputs", data.type(), dims));
  if (!given || given.rank() == 0 || given.dims()[0] != size) {
    fail("predict: for " + std::to_string(size) + " rows, the model returned " +
         (given ? "a tensor of shape " + dims_text(given.dims()) : std::string("an empty Tensor")) +
         "; its first axis must be the rows");
  }
  const Lowered lowered = lower("predict", {{"outputs", in_mode(given, Mode::kEval)}});
  check_symbols(lowered);
  const detail::NamedProgram program =
      detail::name_program(lowered, {{"inputs", kInputs}, {"outputs", kOutputs}}, "literal/predict/");
  Context context = contexts[0].child();
  context.allocate(kInputs, {static_cast<std::int32_t>(data.type()), dims});
  context.allocate(kOutputs, {static_cast<std::int32_t>(given.type()), given.dims()});
  StepRoutine routine = link(context, program, (*symbols)[0], nullptr, *whole_set);
  scalars->send();
  const std::uint64_t row_bytes = data.byte_count() / data.dims()[0];
  for (std::uint64_t row = begin; row < end; row += size) {
    const auto part = data.host_bytes().subspan(row * row_bytes, size * row_bytes);
    detail::write_now(context, kInputs, {part.begin(), part.end()});
    routine.run((*symbols)[0]);
    const std::vector<std::byte> found = detail::read_now(context, kOutputs);
    outputs.insert(outputs.end(), found.begin(), found.end());
  }
  type = given.type();
  return given.dims();
}

Tensor Trainer::Impl::predict(const std::function<Tensor(const Tensor&)>& model, const Tensor& data,
                              std::uint64_t rows_at_once) {
  const std::uint64_t rows = data.dims()[0];
  const std::uint64_t size = std::min(rows, rows_at_once);
  const std::uint64_t whole = rows / size * size;
  std::vector<std::byte> outputs;
  Type type = Type::kF32;
  Dims dims = predict_rows(model, data, 0, whole, size, outputs, type);
  if (whole < rows) {
    const Dims rest = predict_rows(model, data, whole, rows, rows - whole, outputs, type);
    if (!std::equal(dims.begin() + 1, dims.end(), rest.begin() + 1, rest.end())) {
      fail("predict: the model returned rows of different shapes: " + dims_text(dims) + " and " +
           dims_text(rest));
    }
  }
  dims[0] = rows;
  return literal(type, dims, std::move(outputs));
}

Tensor Trainer::predict(const std::function<Tensor(const Tensor&)>& model, const Tensor& data,
                        std::int64_t batch_rows) {
  if (!model || !data || data.source() != Source::kLiteral || data.rank() == 0 || batch_rows < 1) {
    fail(
        "predict: the model must not be empty, the inputs must be host data with at least one axis, and "
        "batch_rows must be at least 1");
  }
  return Impl::at_step(impl_, "predict()",
                       [&] { return impl_->predict(model, data, static_cast<std::uint64_t>(batch_rows)); });
}

}  // namespace yoke
