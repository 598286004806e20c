// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/basic_use.h: a little of everything that a plugin claims, for tests about what
// happens beside it.
#pragma once

#include <cstdint>
#include <string_view>

#include "kit.h"

namespace yoke::conformance {

inline constexpr std::uint32_t kAddCount = 256;
// y[i] = x[i] + 1 over kAddCount floats: a program that every backend with programs can run.
inline constexpr std::string_view kAddOne =
    "yoke.program 1\n"
    "program add_one() {\n"
    "  arg x : f32[256] in\n"
    "  arg y : f32[256] out\n"
    "  y[i] = x[i] + 1\n"
    "}\n";

yoke_program_text program_text(std::string_view bytes);

// kAddOne compiled for a device, and linked from `x` to `y`.
Code compile_add_one(Device& device);
Routine link_add_one(const Plugin& plugin, const Code& code, const Buffer& x, const Buffer& y,
                     const Buffer& workspace);
std::uint64_t workspace_byte_count(const Plugin& plugin, const Code& code);

// Describes, allocates, copies, and where it is offered queues, waits, compiles and launches. Right answers
// are not its business. Gives back how many calls answered OK and yet filled the status object.
std::uint64_t use_everything(Device& device);

}  // namespace yoke::conformance
