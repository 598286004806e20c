// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/crossed.h: statements that are made of choices, for crossed_programs.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "case.h"

namespace yoke::conformance {

// The choices of a statement. A statement has the loops i and j, and k if it reduces.
enum Choice : std::uint8_t {
  kType,
  kReduction,
  kAssign,
  kCombination,  // of the two operands
  kContext,
  kData,
  kAccumulator,
  kRows,     // the extent of i
  kColumns,  // of j
  kTerms,    // of k
  kPitch,    // whether dimensions are longer than their loops
  kTargetOrder,
  kTargetFirst,
  kTargetLast,
  kLeftOrder,
  kLeftFirst,
  kLeftLast,
  kRightOrder,
  kRightFirst,
  kRightLast,
  kChoices
};

using Choices = std::array<std::uint8_t, kChoices>;

// How many values each choice has.
const Choices& choice_counts();

// How often the loops of the statement run.
std::int64_t crossed_iterations(const Choices& choices, const std::vector<program::Type>& types);

// A program with the statement. A choice that does not fit the others has the effect of a plain one. Throws
// program::ProgramError if the statement is invalid or its tensors are large.
Case crossed_program(std::uint64_t seed, std::uint64_t number, const Choices& choices,
                     const std::vector<program::Type>& types);

}  // namespace yoke::conformance
