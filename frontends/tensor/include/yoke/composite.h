// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/composite.h: operations with a name, which a backend may compute as a whole.
#pragma once

#include <yoke/tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace yoke {

struct CompositeOptions {
  // The hint's name: letters, digits and `_`, at most 100 characters. "fused" is reserved.
  std::string name;
  // Computes one or more outputs from the inputs.
  std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)> forward;
  // Returns the gradient of each input, with the input's shape and type, or an empty Tensor if no gradient
  // flows to this input. `gradients` are those of the outputs: zeros for an output that the loss does not
  // depend on, and an empty Tensor for an output that is not of floating-point type. If `backward` is not
  // given, forward is differentiated.
  std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                                    const std::vector<Tensor>& gradients)>
      backward = {};
};

// Returns the outputs of forward(inputs). The statements of `forward` are in a hint @name, those of its
// gradient in @name_gradient, and those of that gradient's gradient in @name_gradient_gradient. A backend
// may call a library instead. Other backends run the statements, and get the values that they would get
// without the hint.
//   const auto silu = yoke::composite({.name = "silu", .forward = [](const auto& x) {
//     return std::vector<yoke::Tensor>{x[0] * sigmoid(x[0])};
//   }}, {x})[0];
//
// The statements of @name_gradient read the inputs, the outputs, and the gradients of the outputs. All other
// values of `forward` that a derived gradient needs are computed again there. So return what should be
// kept, for example the maximum and the sum of a softmax. Gradients that are not needed are not computed.
//
// composite() calls `forward` once; gradients() calls `backward`. Neither may use a scan. Both may use
// other composites, whose statements then join the hint. Use the tensors that they create only through the
// outputs of composite(): lower() refuses any other use outside of the outermost composite. The optimizer
// works within a hint, but moves nothing into it or out of it, and does not form regions there.
//
// Error kInvalidArgument: the name is not valid; `forward` returns nothing, or uses a scan. gradients()
// throws it if the gradients that `backward` returns differ from the inputs in number, shape or type, or if
// `forward` uses a tensor that needs a gradient but is not an input. gradients() also throws it if
// `backward` uses a scan, or if the name with `_gradient` is too long.
std::vector<Tensor> composite(const CompositeOptions& options, const std::vector<Tensor>& inputs);

}  // namespace yoke
