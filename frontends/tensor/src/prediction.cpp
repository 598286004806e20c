// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/prediction.cpp: a model's program for a number of rows, and its outputs for all rows.
#include "prediction.h"

#include <yoke/mode.h>

#include <algorithm>

#include "host_copy.h"
#include "node.h"

namespace yoke::detail {
namespace {

constexpr const char* kPrefix = "predict/";
constexpr const char* kOutputs = "yoke/outputs";
constexpr const char* kOutputName = "yoke_outputs";  // in the program

// Appends the outputs for rows begin to end - 1, `size` rows at a time, which divides their number.
void append_outputs(const LinkedRows& linked, const Batch& data, std::uint64_t begin, std::uint64_t end,
                    std::uint64_t size, std::vector<std::byte>& outputs) {
  for (std::uint64_t row = begin; row < end; row += size) {
    for (const auto& [name, tensor] : data.fields()) {
      const std::uint64_t row_bytes = tensor.byte_count() / tensor.dims()[0];
      const auto part = tensor.host_bytes().subspan(row * row_bytes, size * row_bytes);
      write_now(linked.context, kPrefix + name, {part.begin(), part.end()});
    }
    linked.run();
    const std::vector<std::byte> found = read_now(linked.context, kOutputs);
    outputs.insert(outputs.end(), found.begin(), found.end());
  }
}

}  // namespace

RowsProgram rows_program(const ModelOf& model, const Batch& data, std::uint64_t rows) {
  const Batch batch = each_field(data, rows, [](const Tensor& all) { return all; });
  const Tensor given = model(batch);
  if (!given || given.rank() == 0 || given.dims()[0] != rows) {
    fail("predict: for " + detail::counted(rows, "row") + ", the model returned " +
         (given ? "a tensor of shape " + dims_text(given.dims()) : std::string("an empty Tensor")) +
         "; its first axis must be the rows");
  }
  Lowered lowered = lower("predict", {{kOutputName, in_mode(given, Mode::kEval)}});
  std::map<std::string, std::string> names = {{kOutputName, kOutputs}};
  std::vector<Feed::FieldSpec> specs;
  for (const auto& [name, tensor] : batch.fields()) {
    specs.push_back({name, {static_cast<std::int32_t>(tensor.type()), tensor.dims()}});
    names[name] = kPrefix + name;
  }
  NamedProgram program = name_program(lowered, names, "literal/predict/");
  return {std::move(lowered),
          std::move(program),
          std::move(specs),
          {static_cast<std::int32_t>(given.type()), given.dims()}};
}

Context rows_context(const Context& parent, const RowsProgram& program) {
  Context context = parent.child();
  for (const auto& [name, spec] : program.inputs) {
    context.allocate(kPrefix + name, spec);
  }
  context.allocate(kOutputs, program.outputs);
  return context;
}

void check_prediction(bool has_model, const Batch& data, std::int64_t batch_rows) {
  const bool is_host_data = std::all_of(data.fields().begin(), data.fields().end(), [&](const Field& field) {
    const Tensor& tensor = field.tensor;
    return tensor && tensor.source() == Source::kLiteral && tensor.rank() > 0 &&
           tensor.dims()[0] == data.row_count();
  });
  if (!has_model) {
    fail("predict: the model is empty");
  }
  if (data.row_count() == 0 || !is_host_data) {
    fail(
        "predict: the inputs must be host data, as tensor() makes it, with at least one axis, and as many "
        "rows each");
  }
  if (batch_rows < 1) {
    fail("predict: batch_rows must be at least 1, not " + std::to_string(batch_rows));
  }
}

Tensor predict_rows(const Batch& data, std::int64_t batch_rows,
                    const std::function<LinkedRows(std::uint64_t rows)>& link) {
  const std::uint64_t rows = data.row_count();
  const std::uint64_t size = std::min(rows, static_cast<std::uint64_t>(batch_rows));
  const std::uint64_t whole = rows / size * size;
  std::vector<std::byte> outputs;
  const LinkedRows linked = link(size);
  append_outputs(linked, data, 0, whole, size, outputs);
  Dims dims = linked.outputs.dims;
  if (whole < rows) {
    const LinkedRows rest = link(rows - whole);
    if (!std::equal(dims.begin() + 1, dims.end(), rest.outputs.dims.begin() + 1, rest.outputs.dims.end())) {
      fail("predict: the model returned rows of different shapes: " + dims_text(dims) + " and " +
           dims_text(rest.outputs.dims));
    }
    append_outputs(rest, data, whole, rows, rows - whole, outputs);
  }
  dims[0] = rows;
  return literal(static_cast<Type>(linked.outputs.type), dims, std::move(outputs));
}

}  // namespace yoke::detail
