// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/wide_kernels.h: kernels over 2^20 elements, which a backend may give to many threads.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kit.h"
#include "program/run/launch.h"

namespace yoke::conformance {

inline constexpr std::uint64_t kWideSide = 1024;

// Programs with one input x of 1024 * 1024 floats and one output y. All results are exact.
struct WideForm {
  std::string_view body;
  std::uint64_t rows;  // of y
  std::uint64_t columns;
};
inline constexpr WideForm kWideForms[] = {
    {"arg y : f32[1024, 1024] out\n  y[i, j] = x[i, j] * 2 + 1\n", 1024, 1024},
    {"arg y : f32[1024] out\n  y[i] = sum[j] x[i, j]\n", 1024, 1},
    {"arg y : f32[] out\n  y[] = sum[i, j] x[i, j]\n", 1, 1},
    {"arg y : f32[256, 64] out\n  y[i, j] = sum[k:128] x[i, k] * x[k, j]\n", 256, 64}};

inline std::string wide_text(std::size_t form) {
  return text("yoke.program 1\nprogram wide", form, "() {\n  arg x : f32[1024, 1024] in\n  ",
              kWideForms[form].body, "}\n");
}

// Element i of the input of a round.
inline std::vector<float> wide_input(std::uint64_t round) {
  std::vector<float> x(kWideSide * kWideSide);
  for (std::uint64_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>((i * 7 + i / kWideSide + round) % 4);
  }
  return x;
}

inline std::vector<float> wide_result(std::size_t form, const std::vector<float>& x) {
  std::vector<float> y(kWideForms[form].rows * kWideForms[form].columns);
  for (std::uint64_t i = 0; i < (form == 3 ? kWideForms[form].rows : kWideSide); ++i) {
    for (std::uint64_t j = 0; j < (form == 3 ? kWideForms[form].columns : kWideSide); ++j) {
      const float value = x[i * kWideSide + j];
      if (form == 0) {
        y[i * kWideSide + j] = value * 2 + 1;
      } else if (form == 1) {
        y[i] += value;
      } else if (form == 2) {
        y[0] += value;
      } else {
        for (std::uint64_t k = 0; k < 128; ++k) {
          y[i * kWideForms[form].columns + j] += x[i * kWideSide + k] * x[k * kWideSide + j];
        }
      }
    }
  }
  return y;
}

// The forms that a device runs, compiled and linked on one handle.
class WideKernels {
 public:
  // Throws Unsupported if the device runs none of them.
  explicit WideKernels(Device& device)
      : device_(device), x_(device, kWideSide * kWideSide * sizeof(float)), stream_(stream_if_any(device)) {
    device.plugin().table<yoke_program_api>();
    std::string reason;
    for (std::size_t form = 0; form < std::size(kWideForms); ++form) {
      try {
        require_supported(device, wide_text(form), 1);
      } catch (const Unsupported& missing) {
        reason = missing.what();
        continue;
      }
      const std::uint64_t count = kWideForms[form].rows * kWideForms[form].columns;
      Code code = compile(device, wide_text(form));
      Buffer y(device, count * sizeof(float));
      Buffer workspace = workspace_for(device, code);
      const yoke_binding bindings[] = {binding(x_), binding(y)};
      Routine routine = link(device.plugin(), code, 0, bindings,
                             workspace.get() == nullptr ? yoke_binding{} : binding(workspace));
      all_.push_back({form, std::move(code), std::move(y), std::move(workspace), std::move(routine)});
    }
    if (all_.empty()) {
      unsupported(reason);
    }
  }

  // Runs every kernel and compares its results.
  void check_all(const std::vector<float>& x, const char* when) const {
    x_.write(0, std::as_bytes(std::span(x)));
    for (const Linked& one : all_) {
      launch(device_.plugin(), one.routine, {}, stream_ ? &*stream_ : nullptr);
      std::vector<float> results(one.y.byte_count() / sizeof(float));
      one.y.read(0, std::as_writable_bytes(std::span(results)));
      check(results == wide_result(one.form, x), "wrong results ", when, " of\n", wide_text(one.form));
    }
  }

 private:
  struct Linked {
    std::size_t form;
    Code code;
    Buffer y;
    Buffer workspace;
    Routine routine;
  };
  Device& device_;
  Buffer x_;
  std::optional<Stream> stream_;
  std::vector<Linked> all_;
};

}  // namespace yoke::conformance
