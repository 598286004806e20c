// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/small_program.h: a program with one input and one output of 256 elements, for tests
// that need any program. A backend that runs only some statements gets one that it supports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kit.h"
#include "program/run/launch.h"

namespace yoke::conformance {

inline constexpr std::uint32_t kSmallCount = 256;

class SmallProgram {
 public:
  // Throws Unsupported if the plugin has no programs, or runs none of the small programs.
  explicit SmallProgram(Device& device) {
    device.plugin().table<yoke_program_api>();
    const std::string_view texts[] = {kAddOne, kSquare};
    is_square_ = first_supported(device, texts, 1) == 1;
  }
  static std::optional<SmallProgram> if_any(Device& device) {
    try {
      return SmallProgram(device);
    } catch (const Unsupported&) {
      return std::nullopt;
    }
  }

  std::string_view text() const { return is_square_ ? kSquare : kAddOne; }
  std::string name() const { return is_square_ ? "square" : "add_one"; }
  // Exact for whole numbers from 0 to 999.
  std::vector<float> results(const std::vector<float>& x) const {
    std::vector<float> y(kSmallCount);
    for (std::size_t at = 0; at < kSmallCount; ++at) {
      for (std::size_t k = 0; is_square_ && k < 16; ++k) {
        y[at] += x[at / 16 * 16 + k] * x[k * 16 + at % 16];
      }
      y[at] = is_square_ ? y[at] : x[at] + 1;
    }
    return y;
  }

 private:
  static constexpr std::string_view kAddOne =
      "yoke.program 1\nprogram add_one() {\n  arg x : f32[256] in\n  arg y : f32[256] out\n  y[i] = x[i] + "
      "1\n}\n";
  static constexpr std::string_view kSquare =
      "yoke.program 1\nprogram square() {\n  arg x : f32[16, 16] in\n  arg y : f32[16, 16] out\n  y[i, j] = "
      "sum[k] x[i, k] * "
      "x[k, j]\n}\n";
  bool is_square_ = false;
};

inline Bytes bytes_of_floats(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// The program linked to its own buffers. x starts with ones.
struct SmallRun {
  SmallRun(Device& device, const Code& code)
      : plugin(device.plugin()),
        x(device, kSmallCount * sizeof(float)),
        y(device, kSmallCount * sizeof(float)),
        workspace(device, describe_entry(plugin, code).workspace_byte_count) {
    x.write(0, bytes_of_floats(start()));
    const yoke_binding bindings[] = {binding(x), binding(y)};
    routine = link(plugin, code, 0, bindings, binding(workspace));
  }
  static std::vector<float> start() { return std::vector<float>(kSmallCount, 1.0F); }
  void launch() const { conformance::launch(plugin, routine); }

  const Plugin& plugin;
  Buffer x;
  Buffer y;
  Buffer workspace;
  Routine routine;
};

// The program, its code and a run of it, if the plugin runs one of the small programs.
struct SmallRunIfAny {
  explicit SmallRunIfAny(Device& device) : program(SmallProgram::if_any(device)) {
    if (program) {
      code = compile(device, program->text());
      run.emplace(device, code);
    }
  }

  std::optional<SmallProgram> program;
  Code code;
  std::optional<SmallRun> run;
};

}  // namespace yoke::conformance
