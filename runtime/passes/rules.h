// SPDX-License-Identifier: Apache-2.0
// runtime/passes/rules.h: the identities that Pass::kFold applies, as a table that a test walks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "rewrite.h"

namespace yoke::passes {

// The types of x, y, z, c and d in a rule.
enum RuleTypes : std::uint8_t { kFloats = 1, kSigned = 2, kUnsigned = 4, kBools = 8 };

// Operands for which both sides of a rule differ, other than in the bits of a NaN. A rule without such
// operands is exact; only those are applied, and the others say why they are not.
enum RuleDiffers : std::uint8_t {
  kNowhere = 0,
  kAtZeros = 1,  // an operand or a result is 0 or -0
  kAtInfinities = 2,
  kAtNans = 4,
  kInRounding = 8  // elsewhere
};

enum class RuleNeeds : std::uint8_t {
  kNothing,
  kPowerOfTwo,     // c is a power of two, and so is 1 / c, both normal
  kNeverMinusZero  // x cannot be -0
};

struct Rule {
  // Expressions of the program format. x, y and z stand for any expression, p for any bool, c and d for
  // constants.
  const char* from;
  const char* to;
  unsigned types;
  unsigned differs = kNowhere;
  RuleNeeds needs = RuleNeeds::kNothing;
  bool gives_bool = false;
};

std::span<const Rule> rules();
bool applies_to(const Rule& rule, Type type);

// One side of a rule for operands of a type: a pattern in which reads of the tensors 0, 1, .. stand for the
// names in kRuleNames.
inline constexpr std::string_view kRuleNames = "xyzcdp";
struct Pattern {
  Expr from;
  Expr to;
};
Pattern pattern_of(const Rule& rule, Type type);

// Whether no value of the expression is -0.
bool is_never_minus_zero(const Expr& expr);

// Evaluates a node whose arguments are constants. Returns nothing for a NaN, because a literal does not keep
// its bits.
std::optional<Expr> computed(const Expr& expr);

// Returns the node after the first exact rule that applies: equal bit for bit for all values of its operands
// (a NaN may become a different NaN). Returns nothing if no rule applies.
std::optional<Expr> simplified(const Expr& expr);

}  // namespace yoke::passes
