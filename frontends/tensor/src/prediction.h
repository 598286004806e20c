// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/prediction.h: what the predict() of Trainer and of Predictor have in common.
#pragma once

#include <yoke/runtime/context.h>

#include <cstdint>
#include <functional>

#include "trainer_types.h"

namespace yoke::detail {

using ModelOf = std::function<Tensor(const Batch& batch)>;

// The program of a model for a number of rows, without its tensors.
struct RowsProgram {
  Lowered lowered;
  NamedProgram program;
  std::vector<Feed::FieldSpec> inputs;
  TensorSpec outputs;
};
// Error kInvalidArgument: the model returns a tensor with another number of rows.
RowsProgram rows_program(const ModelOf& model, const Batch& data, std::uint64_t rows);

// The same in a context.
struct LinkedRows {
  Context context;
  std::function<void()> run;  // queues it
  TensorSpec outputs;
};
// Creates a child of `parent` with the program's inputs and outputs.
Context rows_context(const Context& parent, const RowsProgram& program);

// Error kInvalidArgument: the data is not host data, `has_model` is false, or batch_rows is less than 1.
void check_prediction(bool has_model, const Batch& data, std::int64_t batch_rows);
// Runs a model on all rows, `batch_rows` at a time; `link` is called for each number of rows.
Tensor predict_rows(const Batch& data, std::int64_t batch_rows,
                    const std::function<LinkedRows(std::uint64_t rows)>& link);

}  // namespace yoke::detail
