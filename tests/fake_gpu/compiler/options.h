// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/compiler/options.h: the options that NVRTC 13.0 or hiprtc of ROCm 5.2 accept.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace fake_gpu {

// The capabilities of devices that NVRTC 13.0 knows.
inline constexpr std::array kCapabilities = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

inline constexpr int kInvalidOption = 5;
inline constexpr int kCompilationFailed = 6;

struct Options {
  int code = 0;
  std::string log;
  std::string architecture;  // such as sm_90 or gfx90a
  bool is_virtual = false;   // only PTX
  bool is_specific = false;  // sm_90a: code for this architecture only
};

Options read_options(const std::vector<std::string>& words);

}  // namespace fake_gpu
