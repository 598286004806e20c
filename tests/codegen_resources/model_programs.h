// SPDX-License-Identifier: Apache-2.0
// tests/codegen_resources/model_programs.h: the programs that training the known models sends to a backend.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace yoke::codegen::test {

// The model with the most kernels.
constexpr std::string_view kLargestModel = "resnet18";

// Pairs of a name, "gpt", and a text of programs: gradients in parts, merges, updates. Together they use every
// optimizer and every known model, the largest one only if `all` is set.
std::vector<std::pair<std::string, std::string>> model_programs(bool all);

// The programs of training gpt on one device, with products in bf16 or f16.
std::vector<std::string> gpt_programs(bool is_f16);

}  // namespace yoke::codegen::test
