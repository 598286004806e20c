// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/rules_test.cpp: every rule of the table is exact, or differs exactly where it says.
#include "passes/rules.h"

#include <gtest/gtest.h>
#include <yoke/program/execute.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>

namespace yoke::passes {
namespace {

using Values = std::vector<Literal>;

constexpr Type kTypes[] = {Type::kF64, Type::kF32, Type::kF16, Type::kBF16, Type::kI64,
                           Type::kI32, Type::kU32, Type::kU8,  Type::kBool};

Literal literal_of(Type type, double value) {
  return Expr::constant(type, value).literal;
}

Expr constant_of(Type type, const Literal& literal) {
  Expr expr = Expr::constant(type, 0);
  expr.literal = literal;
  return expr;
}

// All 65,536 values of f16; with sanitizers, which are ten times slower, those around the powers of two and
// every 15th.
#if defined(NDEBUG)
constexpr bool kEveryHalf = true;
#else
constexpr bool kEveryHalf = false;
#endif
Values all_halves() {
  Values values;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if (kEveryHalf || bits % 15 == 0 || (bits & 0x1ffU) < 2) {
      values.push_back({program::f16_to_f32(static_cast<std::uint16_t>(bits)), 0});
    }
  }
  return values;
}

double smallest_normal(Type type) {
  return type == Type::kF64 ? 0x1p-1022 : type == Type::kF16 ? 0x1p-14 : 0x1p-126;
}

double largest(Type type) {
  switch (type) {
    case Type::kF64:
      return std::numeric_limits<double>::max();
    case Type::kF32:
      return std::numeric_limits<float>::max();
    case Type::kF16:
      return 65504;
    default:
      return 0x1.fep127;
  }
}

// All values of f16, u8 and bool.
Values all_values(Type type) {
  if (type == Type::kF16) {
    return all_halves();
  }
  Values values;
  for (std::int64_t i = lowest_integer(type); i <= highest_integer(type); ++i) {
    values.push_back({0, i});
  }
  return values;
}

bool has_few_values(Type type) {
  return type == Type::kF16 || type == Type::kU8 || type == Type::kBool;
}

// Zeros, infinities, NaN, the ends of the ranges of normal and subnormal numbers, and ordinary numbers.
Values special_values(Type type) {
  if (type == Type::kBool) {
    return all_values(type);
  }
  Values values;
  if (!program::is_float(type)) {
    const std::int64_t low = lowest_integer(type);
    const std::int64_t high = highest_integer(type);
    for (const std::int64_t i : {low, low + 1, high, high - 1, high / 3, std::int64_t{0}, std::int64_t{1},
                                 std::int64_t{2}, std::int64_t{7}, std::int64_t{31}, std::int64_t{64}}) {
      values.push_back({0, i});
      values.push_back({0, low < 0 ? -(i + 1) : high - i});
    }
    return values;
  }
  const double normal = smallest_normal(type);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double v : {0.0, 1.0, 0.5, 2.0, 3.0, 1.0 / 3, 0.1, 1.5, 10.0, 255.0, 2049.0, normal,
                         normal * 0.75, normal / 64, largest(type), largest(type) / 2, infinity}) {
    values.push_back(literal_of(type, v));
    values.push_back(literal_of(type, -v));
  }
  values.push_back({std::nan(""), 0});
  return values;
}

bool is_minus_zero(const Literal& value) {
  return value.number == 0 && std::signbit(value.number);
}

// The values of the name that satisfy what the rule needs of it.
Values values_of(const Rule& rule, Type type, char name) {
  Values values = special_values(name == 'p' ? Type::kBool : type);
  if (rule.needs == RuleNeeds::kNeverMinusZero && name == 'x') {
    std::erase_if(values, is_minus_zero);
  }
  if (rule.needs == RuleNeeds::kPowerOfTwo && name == 'c') {
    values.clear();
    const int limit = type == Type::kF64 ? 1000 : type == Type::kF16 ? 14 : 120;
    for (int k = -limit; k <= limit; k += limit > 100 ? 8 : 1) {
      values.push_back({std::ldexp(1.0, k), 0});
      values.push_back({-std::ldexp(1.0, k), 0});
    }
  }
  return values;
}

bool mentions(const Expr& pattern, std::size_t name) {
  bool found = false;
  visit_expr(pattern, [&](const Expr& node) {
    found = found || (node.op == Op::kRead && node.access.tensor == name);
  });
  return found;
}

// The pattern with values for its names.
Expr with(const Expr& pattern, const std::array<Expr, 6>& operands) {
  if (pattern.op == Op::kRead) {
    return operands[pattern.access.tensor];
  }
  Expr result = pattern;
  for (Expr& arg : result.args) {
    arg = with(arg, operands);
  }
  return result;
}

// Where the two sides differ, for all combinations of the values.
class Comparison {
 public:
  Comparison(const Rule& rule, Type type) : rule_(rule), type_(type), pattern_(pattern_of(rule, type)) {
    std::size_t used = 0;
    for (std::size_t name = 0; name < kRuleNames.size(); ++name) {
      used += mentions(pattern_.from, name) ? 1U : 0U;
    }
    assign(0, used == 1 && has_few_values(type));
  }

  unsigned differs() const { return differs_; }
  std::uint64_t count() const { return count_; }

 private:
  void assign(std::size_t name, bool exhaustive) {
    if (name == kRuleNames.size()) {
      compare();
      return;
    }
    if (!mentions(pattern_.from, name)) {
      assign(name + 1, exhaustive);
      return;
    }
    Values values = exhaustive ? all_values(type_) : values_of(rule_, type_, kRuleNames[name]);
    if (rule_.needs == RuleNeeds::kNeverMinusZero) {
      std::erase_if(values, is_minus_zero);
    }
    for (const Literal& value : values) {
      operands_[name] = constant_of(kRuleNames[name] == 'p' ? Type::kBool : type_, value);
      assign(name + 1, exhaustive);
    }
  }

  void compare() {
    ++count_;
    const Literal from = program::evaluate(with(pattern_.from, operands_));
    const Literal to = program::evaluate(with(pattern_.to, operands_));
    if (program::same(pattern_.from.type, from, to)) {
      return;
    }
    bool zero = from.number == 0 || to.number == 0;
    bool infinity = false;
    for (std::size_t name = 0; name < kRuleNames.size(); ++name) {
      if (mentions(pattern_.from, name) && kRuleNames[name] != 'p') {
        const double value = operands_[name].literal.number;
        if (std::isnan(value)) {
          differs_ |= kAtNans;
          return;
        }
        zero = zero || value == 0;
        infinity = infinity || std::isinf(value);
      }
    }
    differs_ |= infinity ? kAtInfinities : zero && !rule_.gives_bool ? kAtZeros : kInRounding;
  }

  const Rule& rule_;
  Type type_;
  Pattern pattern_;
  std::array<Expr, 6> operands_;
  unsigned differs_ = 0;
  std::uint64_t count_ = 0;
};

TEST(Rules, DifferExactlyWhereTheTableSays) {
#if !defined(NDEBUG)
  GTEST_SKIP() << "it compares numbers only, and is slow without optimization";
#endif
  std::uint64_t count = 0;
  for (const Rule& rule : rules()) {
    unsigned differs = 0;
    for (const Type type : kTypes) {
      if (applies_to(rule, type)) {
        const Comparison comparison(rule, type);
        EXPECT_EQ(comparison.differs() & ~rule.differs, 0U)
            << rule.from << " -> " << rule.to << " for " << program::type_name(type);
        EXPECT_GT(comparison.count(), 0U) << rule.from;
        differs |= comparison.differs();
        count += comparison.count();
      }
    }
    EXPECT_EQ(differs, rule.differs) << rule.from << " -> " << rule.to;
  }
  EXPECT_GT(count, 100'000U);
}

TEST(Rules, OnlyExactOnesAreApplied) {
  for (const Rule& rule : rules()) {
    for (const Type type : kTypes) {
      if (!applies_to(rule, type) || rule.needs != RuleNeeds::kNothing) {
        continue;
      }
      // Reads of the pattern stand for operands of which nothing is known; constants are 3, for which no other
      // rule applies.
      const Pattern pattern = pattern_of(rule, type);
      std::array<Expr, 6> operands;
      for (std::uint32_t name = 0; name < operands.size(); ++name) {
        const bool is_constant = kRuleNames[name] == 'c' || kRuleNames[name] == 'd';
        const Type own = kRuleNames[name] == 'p' ? Type::kBool : type;
        operands[name] = is_constant ? Expr::constant(own, 3) : Expr::read(own, {name, {}, std::nullopt});
      }
      const Expr from = with(pattern.from, operands);
      EXPECT_EQ(simplified(from).has_value(), rule.differs == kNowhere)
          << rule.from << " for " << program::type_name(type);
    }
  }
}

TEST(Rules, ProvesOnlyWhatIsNeverMinusZero) {
  using Make = std::function<Expr(const Expr&, const Expr&)>;
  const Make makes[] = {[](const Expr& x, const Expr&) { return x; },
                        [](const Expr& x, const Expr& y) {
                          return Expr::make(Op::kAdd, {x, y});
                        },
                        [](const Expr& x, const Expr& y) {
                          return Expr::make(Op::kAdd, {x, Expr::make(Op::kAbs, {y})});
                        },
                        [](const Expr& x, const Expr&) {
                          return Expr::make(Op::kMul, {x, x});
                        },
                        [](const Expr& x, const Expr&) { return Expr::make(Op::kAbs, {x}); },
                        [](const Expr& x, const Expr&) { return Expr::make(Op::kExp, {x}); },
                        [](const Expr& x, const Expr&) { return Expr::make(Op::kExp2, {x}); },
                        [](const Expr& x, const Expr&) { return Expr::make(Op::kSigmoid, {x}); },
                        [](const Expr& x, const Expr&) { return Expr::make(Op::kErfc, {x}); },
                        [](const Expr& x, const Expr&) { return Expr::make(Op::kSqrt, {x}); },
                        [](const Expr& x, const Expr&) { return Expr::make(Op::kNeg, {x}); },
                        [](const Expr& x, const Expr& y) {
                          return Expr::make(Op::kMul, {x, y});
                        },
                        [](const Expr& x, const Expr&) { return Expr::cast(Type::kF32, x); },
                        [](const Expr& x, const Expr& y) {
                          return Expr::make(Op::kSelect,
                                            {Expr::make(Op::kLess, {x, y}), Expr::make(Op::kAbs, {x}),
                                             Expr::make(Op::kExp, {y})});
                        }};
  for (const Type type : {Type::kF32, Type::kF16, Type::kF64}) {
    for (const Make& make : makes) {
      for (const Literal& x : special_values(type)) {
        for (const Literal& y : special_values(type)) {
          const Expr value = make(constant_of(type, x), constant_of(type, y));
          EXPECT_FALSE(is_never_minus_zero(value) && is_minus_zero(program::evaluate(value)));
        }
      }
    }
  }
}

TEST(Rules, KnowsWhichConstantsAreMinusZero) {
  for (const double value : {0.0, 2.0, -2.0}) {
    EXPECT_TRUE(is_never_minus_zero(Expr::constant(Type::kF32, value))) << value;
  }
  EXPECT_FALSE(is_never_minus_zero(Expr::constant(Type::kF32, -0.0)));
}

TEST(Rules, CastsThatAreRemovedLoseNothing) {
  std::uint64_t removed = 0;
  for (const Type from : kTypes) {
    const Values values = has_few_values(from) ? all_values(from) : special_values(from);
    for (const Type via : kTypes) {
      for (const Type to : kTypes) {
        for (const Literal& value : values) {
          const Expr twice = Expr::cast(to, Expr::cast(via, constant_of(from, value)));
          const std::optional<Expr> once = simplified(twice);
          if (!once) {
            break;
          }
          ++removed;
          ASSERT_TRUE(program::same(to, program::evaluate(twice), program::evaluate(*once)))
              << program::type_name(to) << "(" << program::type_name(via) << "(" << program::type_name(from)
              << ")) of " << value.number << " or " << value.integer;
        }
      }
    }
  }
  EXPECT_GT(removed, 100'000U);
}

TEST(Rules, CastsThroughATypeThatHoldsAllValuesAreRemovedUnlessTheySaturate) {
  const auto is_removed = [](Type to, Type via, Type from) {
    return simplified(Expr::cast(to, Expr::cast(via, constant_of(from, {1, 1})))).has_value();
  };
  EXPECT_TRUE(is_removed(Type::kU8, Type::kI64, Type::kI32));
  EXPECT_TRUE(is_removed(Type::kI32, Type::kF64, Type::kF32));
  EXPECT_TRUE(is_removed(Type::kI64, Type::kF64, Type::kI32));
  EXPECT_TRUE(is_removed(Type::kF16, Type::kF64, Type::kI32));
  EXPECT_FALSE(is_removed(Type::kU8, Type::kF64, Type::kI32)) << "values above 255 become 255";
  EXPECT_FALSE(is_removed(Type::kI64, Type::kI32, Type::kI64)) << "the upper half is lost";
}

}  // namespace
}  // namespace yoke::passes
