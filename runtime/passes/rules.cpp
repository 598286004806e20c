// SPDX-License-Identifier: Apache-2.0
// runtime/passes/rules.cpp: the table of identities, and how they are matched.
#include "rules.h"

#include <yoke/program/execute.h>
#include <yoke/program/text.h>

#include <array>
#include <cmath>

namespace yoke::passes {
namespace {

constexpr unsigned kIntegers = kSigned | kUnsigned;
constexpr unsigned kNumbers = kFloats | kIntegers;
constexpr unsigned kAny = kNumbers | kBools;
constexpr unsigned kSpecial = kAtZeros | kAtInfinities | kAtNans;
constexpr RuleNeeds kNothing = RuleNeeds::kNothing;

constexpr Rule kRules[] = {
    {"x - 0", "x", kNumbers},
    {"x + -0.0", "x", kFloats},
    {"x + 0", "x", kIntegers},
    {"x + 0", "x", kFloats, kNowhere, RuleNeeds::kNeverMinusZero},
    {"x + 0", "x", kFloats, kAtZeros},  // -0 + 0 is 0
    {"x - -0.0", "x", kFloats, kAtZeros},
    {"-0.0 - x", "-x", kFloats},
    {"0 - x", "-x", kIntegers},
    {"0 - x", "-x", kFloats, kAtZeros},
    {"x * 1", "x", kNumbers},
    {"x / 1", "x", kNumbers},
    {"x * -1", "-x", kFloats | kSigned},
    {"x * 0", "0", kIntegers},
    {"x * 0", "0", kFloats, kSpecial},
    {"x / 0", "0", kIntegers},  // defined by the format
    {"0 / x", "0", kIntegers},
    {"x % 0", "0", kIntegers},
    {"0 % x", "0", kIntegers},
    {"x % 1", "0", kIntegers},
    {"x - x", "0", kIntegers},
    {"x - x", "0", kFloats, kAtInfinities | kAtNans},
    {"x / x", "1", kFloats, kSpecial},
    {"-(-x)", "x", kNumbers},
    {"x + -y", "x - y", kNumbers},
    {"x - -y", "x + y", kNumbers},
    {"-x * -y", "x * y", kNumbers},
    {"-x / -y", "x / y", kFloats},
    {"-(x - y)", "y - x", kIntegers},
    {"-(x - y)", "y - x", kFloats, kAtZeros},
    {"x / c", "x * (1 / c)", kFloats, kNowhere, RuleNeeds::kPowerOfTwo},
    {"x / c", "x * (1 / c)", kFloats, kAtZeros | kInRounding},
    {"x + c + d", "x + (c + d)", kIntegers},
    {"x * c * d", "x * (c * d)", kIntegers},
    {"x + c + d", "x + (c + d)", kFloats, kAtZeros | kAtInfinities | kInRounding},
    {"fma(x, 1, y)", "x + y", kFloats},
    {"fma(1, x, y)", "x + y", kFloats},
    {"fma(x, y, -0.0)", "x * y", kFloats},
    {"pow(x, 1)", "x", kFloats},
    {"abs(-x)", "abs(x)", kFloats | kSigned},  // unsigned: -x has another magnitude
    {"abs(abs(x))", "abs(x)", kNumbers},
    {"max(x, -inf)", "x", kFloats},
    {"min(x, inf)", "x", kFloats},
    {"max(x, inf)", "inf", kFloats, kAtNans},
    {"max(x, 0)", "x", kUnsigned},
    {"max(x, ~0)", "~0", kUnsigned},
    {"min(x, 0)", "0", kUnsigned},
    {"min(x, ~0)", "x", kUnsigned},
    {"max(x, x)", "x", kNumbers},
    {"min(x, x)", "x", kNumbers},
    {"x & ~0", "x", kIntegers},
    {"x & 0", "0", kIntegers},
    {"x & x", "x", kIntegers},
    {"x | 0", "x", kIntegers},
    {"x | x", "x", kIntegers},
    {"x ^ 0", "x", kIntegers},
    {"x ^ x", "0", kIntegers},
    {"~~x", "x", kIntegers},
    {"x << 0", "x", kIntegers},
    {"x >> 0", "x", kIntegers},
    {"0 << x", "0", kIntegers},
    {"0 >> x", "0", kIntegers},
    {"x && true", "x", kBools},
    {"x && false", "false", kBools},
    {"x && x", "x", kBools},
    {"x || false", "x", kBools},
    {"x || true", "true", kBools},
    {"x || x", "x", kBools},
    {"!!x", "x", kBools},
    {"select(x, true, false)", "x", kBools},
    {"select(true, x, y)", "x", kAny},
    {"select(false, x, y)", "y", kAny},
    {"select(p, x, x)", "x", kAny},
    {"select(!p, x, y)", "select(p, y, x)", kAny},
    {"x == x", "true", kIntegers | kBools, kNowhere, kNothing, true},
    {"x == x", "true", kFloats, kAtNans, kNothing, true},
    {"x <= x", "true", kIntegers, kNowhere, kNothing, true},
    {"x >= x", "true", kIntegers, kNowhere, kNothing, true},
    {"x != x", "false", kIntegers | kBools, kNowhere, kNothing, true},
    {"x < x", "false", kNumbers, kNowhere, kNothing, true},
    {"x > x", "false", kNumbers, kNowhere, kNothing, true},
    {"!(x == y)", "x != y", kAny, kNowhere, kNothing, true},
    {"!(x != y)", "x == y", kAny, kNowhere, kNothing, true},
    {"!(x < y)", "x >= y", kIntegers, kNowhere, kNothing, true},
    {"!(x > y)", "x <= y", kIntegers, kNowhere, kNothing, true},
    {"!(x < y)", "x >= y", kFloats, kAtNans, kNothing, true},
};

constexpr std::uint32_t kFirstConstant = 3;  // c in kRuleNames
constexpr std::uint32_t kLastConstant = 4;   // d

// Evaluates constant parts.
void fold_pattern(Expr& expr) {
  for (Expr& arg : expr.args) {
    fold_pattern(arg);
  }
  if (std::optional<Expr> value = computed(expr)) {
    expr = std::move(*value);
  }
}

// `text` with an index after each name, as the parser requires it of scalars.
std::string with_indices(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end])) != 0) {
      ++end;
    }
    result += text.substr(i, std::max<std::size_t>(end - i, 1));
    if (end - i == 1) {
      result += "[]";
    }
    i = std::max(end, i + 1);
  }
  return result;
}

using Bindings = std::array<const Expr*, kRuleNames.size()>;

bool match(const Expr& pattern, const Expr& expr, Bindings& bindings) {
  if (pattern.type != expr.type) {
    return false;
  }
  if (pattern.op == Op::kRead) {
    const std::uint32_t name = pattern.access.tensor;
    if (name >= kFirstConstant && name <= kLastConstant && expr.op != Op::kConst) {
      return false;
    }
    const Expr*& bound = bindings[name];
    if (bound != nullptr) {
      return program::same(*bound, expr);
    }
    bound = &expr;
    return true;
  }
  if (pattern.op != expr.op) {
    return false;
  }
  if (pattern.op == Op::kConst) {
    return program::same(pattern.type, pattern.literal, expr.literal);
  }
  const Bindings before = bindings;
  bool matched = true;
  for (std::size_t i = 0; i < pattern.args.size() && matched; ++i) {
    matched = match(pattern.args[i], expr.args[i], bindings);
  }
  if (!matched && op_info(pattern.op).commutes) {
    bindings = before;
    matched =
        match(pattern.args[0], expr.args[1], bindings) && match(pattern.args[1], expr.args[0], bindings);
  }
  return matched;
}

Expr built(const Expr& pattern, const Bindings& bindings) {
  if (pattern.op == Op::kRead) {
    return *bindings[pattern.access.tensor];
  }
  Expr expr = pattern;
  for (Expr& arg : expr.args) {
    arg = built(arg, bindings);
  }
  return computed(expr).value_or(expr);
}

bool is_power_of_two(const Expr& constant) {
  int exponent = 0;
  if (std::abs(std::frexp(constant.literal.number, &exponent)) != 0.5) {
    return false;
  }
  const int limit = constant.type == Type::kF64 ? 1000 : constant.type == Type::kF16 ? 14 : 120;
  return std::abs(exponent - 1) <= limit;
}

bool holds(RuleNeeds needs, const Bindings& bindings) {
  switch (needs) {
    case RuleNeeds::kNothing:
      return true;
    case RuleNeeds::kPowerOfTwo:
      return is_power_of_two(*bindings[kFirstConstant]);
    case RuleNeeds::kNeverMinusZero:
      return is_never_minus_zero(*bindings[0]);
  }
  return false;
}

struct Candidate {
  Pattern pattern;
  RuleNeeds needs;
};

// The exact rules for all types, by the operation that they replace.
const std::vector<Candidate>& candidates(Op op) {
  static const auto by_op = [] {
    std::vector<std::vector<Candidate>> result(program::kOpCount);
    for (auto type = Type::kF64; type <= Type::kBool; type = static_cast<Type>(static_cast<int>(type) + 1)) {
      for (const Rule& rule : kRules) {
        if (rule.differs == kNowhere && applies_to(rule, type)) {
          Pattern pattern = pattern_of(rule, type);
          const auto number = static_cast<std::size_t>(pattern.from.op);
          result[number].push_back({std::move(pattern), rule.needs});
        }
      }
    }
    return result;
  }();
  return by_op[static_cast<std::size_t>(op)];
}

std::optional<Expr> simplified_cast(const Expr& expr) {
  const Expr& inner = expr.args[0];
  if (inner.type == expr.type) {
    return inner;
  }
  if (inner.op != Op::kCast) {
    return std::nullopt;
  }
  const Expr& source = inner.args[0];
  if (!program::holds_all(inner.type, source.type)) {
    return std::nullopt;
  }
  // A cast from integer through float to integer saturates; a direct cast would wrap around.
  const bool saturates = program::is_float(inner.type) && program::is_integer(source.type) &&
                         program::is_integer(expr.type) && !program::holds_all(expr.type, source.type);
  return saturates ? std::nullopt : std::optional(Expr::cast(expr.type, source));
}

}  // namespace

std::span<const Rule> rules() {
  return kRules;
}

bool applies_to(const Rule& rule, Type type) {
  const unsigned kind = program::is_float(type)                   ? kFloats
                        : type == Type::kBool                     ? kBools
                        : type == Type::kU32 || type == Type::kU8 ? kUnsigned
                                                                  : kSigned;
  return (rule.types & kind) != 0;
}

Pattern pattern_of(const Rule& rule, Type type) {
  const std::string name(program::type_name(type));
  std::string text = "yoke.program 1\nprogram rule() {\n";
  for (const char variable : kRuleNames) {
    text += std::string("arg ") + variable + " : " + (variable == 'p' ? "bool" : name) + "[] in\n";
  }
  text += "arg result : " + (rule.gives_bool ? "bool" : name) + "[] out\n";
  text += "result[] = " + with_indices(rule.from) + "\nresult[] = " + with_indices(rule.to) + "\n}\n";
  Program program = program::parse(text).programs[0];
  Pattern pattern{std::move(program.statements[0].value), std::move(program.statements[1].value)};
  fold_pattern(pattern.from);
  fold_pattern(pattern.to);
  return pattern;
}

bool is_never_minus_zero(const Expr& expr) {
  switch (expr.op) {
    case Op::kConst:
      return !(expr.literal.number == 0 && std::signbit(expr.literal.number));
    case Op::kAbs:
    case Op::kExp:
    case Op::kExp2:
    case Op::kSigmoid:
    case Op::kErfc:
      return true;
    case Op::kCast:  // a small negative number may round to -0
      return !program::is_float(expr.args[0].type);
    case Op::kMul:
      return program::same(expr.args[0], expr.args[1]);
    case Op::kAdd:  // only -0 + -0 is -0
      return is_never_minus_zero(expr.args[0]) || is_never_minus_zero(expr.args[1]);
    case Op::kSelect:
      return is_never_minus_zero(expr.args[1]) && is_never_minus_zero(expr.args[2]);
    default:
      return false;
  }
}

std::optional<Expr> computed(const Expr& expr) {
  const auto is_constant = [](const Expr& arg) { return arg.op == Op::kConst; };
  if (expr.args.empty() || !std::all_of(expr.args.begin(), expr.args.end(), is_constant)) {
    return std::nullopt;
  }
  Expr value = Expr::constant(expr.type, program::evaluate(expr));
  if (std::isnan(value.literal.number)) {
    return std::nullopt;
  }
  return value;
}

std::optional<Expr> simplified(const Expr& expr) {
  if (expr.op == Op::kCast) {
    return simplified_cast(expr);
  }
  for (const Candidate& candidate : candidates(expr.op)) {
    Bindings bindings{};
    if (match(candidate.pattern.from, expr, bindings) && holds(candidate.needs, bindings)) {
      return built(candidate.pattern.to, bindings);
    }
  }
  return std::nullopt;
}

}  // namespace yoke::passes
