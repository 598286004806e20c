// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/prediction.cpp: a model's program for a number of rows, and its outputs for all rows.
#include "prediction.h"

#include <yoke/mode.h>

#include <algorithm>

#include "host_copy.h"
#include "node.h"

namespace yoke::detail {
namespace {

constexpr const char* kInputs = "predict/inputs";
constexpr const char* kOutputs = "predict/outputs";

// Appends the outputs for rows begin to end - 1, `size` rows at a time, which divides their number.
void append_outputs(const LinkedRows& linked, const Tensor& inputs, std::uint64_t begin, std::uint64_t end,
                    std::uint64_t size, std::vector<std::byte>& outputs) {
  const std::uint64_t row_bytes = inputs.byte_count() / inputs.dims()[0];
  for (std::uint64_t row = begin; row < end; row += size) {
    const auto part = inputs.host_bytes().subspan(row * row_bytes, size * row_bytes);
    write_now(linked.context, kInputs, {part.begin(), part.end()});
    linked.run();
    const std::vector<std::byte> found = read_now(linked.context, kOutputs);
    outputs.insert(outputs.end(), found.begin(), found.end());
  }
}

}  // namespace

RowsProgram rows_program(const ModelOf& model, const Tensor& inputs, std::uint64_t rows) {
  Dims dims = inputs.dims();
  dims[0] = rows;
  const Tensor given = model(placeholder("inputs", inputs.type(), dims));
  if (!given || given.rank() == 0 || given.dims()[0] != rows) {
    fail("predict: for " + std::to_string(rows) + " rows, the model returned " +
         (given ? "a tensor of shape " + dims_text(given.dims()) : std::string("an empty Tensor")) +
         "; its first axis must be the rows");
  }
  Lowered lowered = lower("predict", {{"outputs", in_mode(given, Mode::kEval)}});
  NamedProgram program =
      name_program(lowered, {{"inputs", kInputs}, {"outputs", kOutputs}}, "literal/predict/");
  return {std::move(lowered),
          std::move(program),
          {static_cast<std::int32_t>(inputs.type()), dims},
          {static_cast<std::int32_t>(given.type()), given.dims()}};
}

Context rows_context(const Context& parent, const RowsProgram& program) {
  Context context = parent.child();
  context.allocate(kInputs, program.inputs);
  context.allocate(kOutputs, program.outputs);
  return context;
}

void check_prediction(const ModelOf& model, const Tensor& inputs, std::int64_t batch_rows) {
  if (!model || !inputs || inputs.source() != Source::kLiteral || inputs.rank() == 0 || batch_rows < 1) {
    fail(
        "predict: the model must not be empty, the inputs must be host data with at least one axis, and "
        "batch_rows must be at least 1");
  }
}

Tensor predict_rows(const Tensor& inputs, std::int64_t batch_rows,
                    const std::function<LinkedRows(std::uint64_t rows)>& link) {
  const std::uint64_t rows = inputs.dims()[0];
  const std::uint64_t size = std::min(rows, static_cast<std::uint64_t>(batch_rows));
  const std::uint64_t whole = rows / size * size;
  std::vector<std::byte> outputs;
  const LinkedRows linked = link(size);
  append_outputs(linked, inputs, 0, whole, size, outputs);
  Dims dims = linked.outputs.dims;
  if (whole < rows) {
    const LinkedRows rest = link(rows - whole);
    if (!std::equal(dims.begin() + 1, dims.end(), rest.outputs.dims.begin() + 1, rest.outputs.dims.end())) {
      fail("predict: the model returned rows of different shapes: " + dims_text(dims) + " and " +
           dims_text(rest.outputs.dims));
    }
    append_outputs(rest, inputs, whole, rows, rows - whole, outputs);
  }
  dims[0] = rows;
  return literal(static_cast<Type>(linked.outputs.type), dims, std::move(outputs));
}

}  // namespace yoke::detail
