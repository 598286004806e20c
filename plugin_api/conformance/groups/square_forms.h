// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/square_forms.h: small programs whose results are inputs of each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
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
  bool has_symbol = false;  // `by`, from 0 to 3
  bool has_scalar = false;  // an input `s` between x and y
};
inline constexpr SquareForm kSquareForms[] = {
    {"y[i, j] = max(min(x[i, j] * 2 + f32(by), 99), -99)\n", 1, true},
    {"y[i, j] = max(min(x[j, i] - x[i, 0], 99), -99)\n", 1},
    {"y[i, j] = sum[k] x[i, k] * x[k, j]\n  y[i, j] = max(min(y[i, j], 99), -99)\n", 2},
    {"temp t : f32[16]\n  t[i] = max[j] x[i, j]\n  y[i, j] = max(min(x[i, j] - t[j], 99), -99)\n", 2},
    {"y[i, j] = max(min(x[i, j] + s[] + f32(by), 99), -99)\n", 1, true, true}};

// What a launch computes.
inline std::vector<float> square_result(std::size_t form, const std::vector<float>& x, std::int64_t by,
                                        float s = 0) {
  std::vector<float> y(kSquareCount);
  const auto at = [&](std::uint64_t i, std::uint64_t j) { return x[i * kSide + j]; };
  for (std::uint64_t i = 0; i < kSide; ++i) {
    for (std::uint64_t j = 0; j < kSide; ++j) {
      float value = at(i, j);
      if (form == 0) {
        value = value * 2 + static_cast<float>(by);
      } else if (form == 1) {
        value = at(j, i) - at(i, 0);
      } else if (form == 2) {
        value = 0;
        for (std::uint64_t k = 0; k < kSide; ++k) {
          value += at(i, k) * at(k, j);
        }
      } else if (form == 3) {
        value -= *std::max_element(x.begin() + static_cast<std::ptrdiff_t>(j * kSide),
                                   x.begin() + static_cast<std::ptrdiff_t>((j + 1) * kSide));
      } else {
        value += s + static_cast<float>(by);
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
  explicit SquareCodes(Device& device, bool with_scalars = false) {
    device.plugin().table<yoke_program_api>();
    std::string reason;
    for (std::size_t form = 0; form < std::size(kSquareForms); ++form) {
      if (kSquareForms[form].has_scalar && !with_scalars) {
        continue;
      }
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
    const SquareForm& one = kSquareForms[form];
    return text("yoke.program 1\nprogram form", form, one.has_symbol ? "(symbol by in 0..4)" : "()",
                " {\n  arg x : f32[16, 16] in\n", one.has_scalar ? "  arg s : f32[] in\n" : "",
                "  arg y : f32[16, 16] out\n  ", one.body, "}\n");
  }
  // Launches with a symbol value that is overwritten as soon as the call returns.
  static void queue(const Plugin& plugin, yoke_stream* stream, const Routine& routine, std::size_t form,
                    std::int64_t by) {
    std::vector<std::int64_t> symbols(kSquareForms[form].has_symbol ? 1 : 0, by);
    expect_ok(plugin.routine_launch(stream, routine.get(), symbols), "queueing a launch");
    std::fill(symbols.begin(), symbols.end(), 3 - by);
  }

  std::vector<Known> all;
};

}  // namespace yoke::conformance
