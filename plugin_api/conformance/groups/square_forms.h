// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/square_forms.h: small programs whose results are inputs of each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kit.h"
#include "program/run/launch.h"

namespace yoke::conformance {

// Programs of one input x and one output y of 16 * 16 floats, so that every buffer fits every argument. Values stay in
// -99..99, so that all results are exact.
inline constexpr std::uint64_t kSide = 16;
inline constexpr std::uint64_t kSquareCount = kSide * kSide;
struct SquareForm {
  std::string_view body;
  std::size_t statements;
};
inline constexpr SquareForm kSquareForms[] = {
    {"y[i, j] = max(min(x[i, j] * 2 + 1, 99), -99)\n", 1},
    {"y[i, j] = max(min(x[j, i] - x[i, 0], 99), -99)\n", 1},
    {"y[i, j] = sum[k] x[i, k] * x[k, j]\n  y[i, j] = max(min(y[i, j], 99), -99)\n", 2},
    {"temp t : f32[16]\n  t[i] = max[j] x[i, j]\n  y[i, j] = max(min(x[i, j] - t[j], 99), -99)\n", 2}};

inline std::vector<float> square_result(std::size_t form, const std::vector<float>& x) {
  std::vector<float> y(kSquareCount);
  const auto at = [&](std::uint64_t i, std::uint64_t j) { return x[i * kSide + j]; };
  for (std::uint64_t i = 0; i < kSide; ++i) {
    for (std::uint64_t j = 0; j < kSide; ++j) {
      float value = 0;
      if (form == 0) {
        value = at(i, j) * 2 + 1;
      } else if (form == 1) {
        value = at(j, i) - at(i, 0);
      } else {
        float most = at(j, 0);
        for (std::uint64_t k = 0; k < kSide; ++k) {
          value += form == 2 ? at(i, k) * at(k, j) : 0;
          most = std::max(most, at(j, k));
        }
        value = form == 2 ? value : at(i, j) - most;
      }
      y[i * kSide + j] = std::clamp(value, -99.0F, 99.0F);
    }
  }
  return y;
}

// The codes of the forms that a device runs.
struct SquareCodes {
  struct Known {
    std::size_t form;
    Code code;
  };
  // Throws Unsupported if the device runs none of them.
  explicit SquareCodes(Device& device) {
    device.plugin().table<yoke_program_api>();
    std::string reason;
    for (std::size_t form = 0; form < std::size(kSquareForms); ++form) {
      try {
        require_supported(device, text_of(form), kSquareForms[form].statements);
        all.push_back({form, compile(device, text_of(form))});
      } catch (const Unsupported& missing) {
        reason = missing.what();
      }
    }
    if (all.empty()) {
      unsupported(reason);
    }
  }
  static std::string text_of(std::size_t form) {
    return text("yoke.program 1\nprogram form", form,
                "() {\n  arg x : f32[16, 16] in\n  arg y : f32[16, 16] out\n  ", kSquareForms[form].body,
                "}\n");
  }

  std::vector<Known> all;
};

}  // namespace yoke::conformance
