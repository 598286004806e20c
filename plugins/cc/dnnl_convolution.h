// SPDX-License-Identifier: Apache-2.0
// plugins/cc/dnnl_convolution.h: convolutions and their gradients through oneDNN.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "convolution.h"
#include "dnnl_call.h"

namespace yoke::cc {

// Names an operand that `count` calls share.
struct Sharing {
  DnnlCall::Shared operand = DnnlCall::Shared::kNone;
  std::int64_t count = 1;
};

// Has the contract of dnnl_matmul(). The call copies its operands to the layouts that oneDNN prefers, and its
// result back; these copies are in the scratchpad. The caller copies the shared operand, if shared() of the call
// names it.
std::shared_ptr<const DnnlCall> dnnl_convolution(const DnnlEngine& engine, const Convolution& convolution,
                                                 const Sharing& sharing, bool plan_only,
                                                 std::string& why_not);

// The call copies images [first, last) of the shared operand from `a` to `t`.
struct SharedCopy {
  std::shared_ptr<const DnnlCall> call;  // null if oneDNN has no fast copy
  std::int64_t from = 0;                 // bytes from the start of the operand
  std::int64_t to = 0;                   // bytes from the start of the copy
};
SharedCopy copy_shared(const DnnlEngine& engine, const DnnlCall& call, std::int64_t first, std::int64_t last,
                       bool plan_only);

}  // namespace yoke::cc
