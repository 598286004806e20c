// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/large_forms.h: one program for each form of statement, with sizes beyond 2^16 and
// around tiles, where kernels change their tiling, their number of threads or the width of their indices.
#pragma once

#include <cstdint>

#include "case.h"

namespace yoke::conformance {

// Programs 0 .. large_form_count() - 1 have different forms; later ones repeat them with other sizes. Uses f32, i32,
// bool and others: check can_compile and the types of the device.
std::uint64_t large_form_count();
Case large_form(std::uint64_t seed, std::uint64_t index);

// A program with many arguments, statements and symbols.
Case wide_program(std::uint64_t seed, int inputs, int statements, int symbols);

}  // namespace yoke::conformance
