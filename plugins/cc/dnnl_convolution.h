// SPDX-License-Identifier: Apache-2.0
// plugins/cc/dnnl_convolution.h: convolutions and their gradients through oneDNN.
#pragma once

#include <memory>
#include <string>

#include "convolution.h"
#include "dnnl_call.h"

namespace yoke::cc {

// Has the contract of dnnl_matmul(). The call copies its operands to the layouts that oneDNN prefers, and its
// result back; these copies are in the scratchpad.
std::shared_ptr<const DnnlCall> dnnl_convolution(const DnnlEngine& engine, const Convolution& convolution,
                                                 bool plan_only, std::string& why_not);

}  // namespace yoke::cc
