// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/compiler/options.h: the options that NVRTC 13.0 or hiprtc of ROCm 5.2 accept.
#pragma once

#include <string>
#include <vector>

namespace fake_gpu {

inline constexpr int kInvalidOption = 5;
inline constexpr int kCompilationFailed = 6;

struct Options {
  int code = 0;
  std::string log;
  std::string architecture;  // such as sm_90 or gfx90a; empty: only PTX
};

Options read_options(const std::vector<std::string>& words);

}  // namespace fake_gpu
