// SPDX-License-Identifier: Apache-2.0
// plugins/cc/dnnl_matmul.h: contractions through oneDNN.
#pragma once

#include <memory>
#include <string>

#include "contraction.h"
#include "dnnl_call.h"

namespace yoke::cc {

// Returns null and sets `why_not` if oneDNN has no fast implementation. With `plan_only` oneDNN generates no code and
// the result must not be bound. Precondition: a OneOpenMpThread exists.
std::shared_ptr<const DnnlCall> dnnl_matmul(const DnnlEngine& engine, const Contraction& contraction,
                                            bool with_bias, bool plan_only, std::string& why_not);

}  // namespace yoke::cc
