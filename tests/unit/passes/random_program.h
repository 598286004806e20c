// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/random_program.h: valid programs drawn from a seed, and their results on data drawn from
// it.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace yoke::passes {

// A program with slices, transposes, broadcasts, padding, gathers, scatters, reductions, contractions,
// in-place and partial writes, repeated work, hints. Nothing: the verifier refuses what was drawn.
std::optional<program::Program> random_program(std::uint32_t seed);

// The bytes of every argument behind a run on input drawn from the seed; every NaN is written as the same
// NaN.
std::vector<std::vector<unsigned char>> results_of(const program::Program& program, std::uint32_t seed);

}  // namespace yoke::passes
