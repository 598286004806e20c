// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/mode.h: expressions that differ between training and evaluation, and updates of running
// state that layers report.
//
// Layers build one graph for both modes. A Trainer chooses Mode::kTrain for the loss, an Evaluation and predict()
// choose Mode::kEval. lower() and gradients() refuse expressions whose mode has not been chosen: call in_mode() first.
#pragma once

#include <yoke/optimizer.h>
#include <yoke/parameter.h>
#include <yoke/tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace yoke {

enum class Mode : std::uint8_t { kTrain, kEval };

// `train` or `eval`, as the mode says. If `train` is empty, there is no value in training, and in_mode() for it throws
// Error kInvalidArgument. Error kInvalidArgument: the shapes or types differ, or `eval` is empty.
Tensor by_mode(const Tensor& train, const Tensor& eval);

// The value of x, which also reports `next` as the next value of the running state `state` (Parameter::state). The
// report counts where the result is used in training; a state that is reported several times in a graph gets the mean
// of the values. With N shards or micro-batches, the state changes by the mean over all rows of what each reports.
// Error kInvalidArgument: `state` is not running state, or the shape or type of `next` differs from it.
Tensor report_state(const Tensor& x, const Parameter& state, const Tensor& next);

// What expressions are in a mode. Expressions that belong together must be converted in one call, so that they share
// what they have in common.
struct InMode {
  std::vector<Tensor> values;
  std::vector<Update> updates;  // of running state, one per state; empty for kEval
};
InMode in_mode(std::span<const Tensor> values, Mode mode);
Tensor in_mode(const Tensor& value, Mode mode);  // without the updates

}  // namespace yoke
