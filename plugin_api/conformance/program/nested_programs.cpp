// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/nested_programs.cpp: border_programs.h, every operation inside every other one. Most
// rules by which compilers simplify expressions are about two operations; what they may assume depends on whether their
// operands are equal, constant or out of range.
#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <string_view>

#include "../check.h"
#include "../random.h"
#include "border_programs.h"
#include "borders.h"
#include "generator.h"
#include "number.h"

namespace yoke::conformance {

using program::Family;
using program::Op;
using program::OpInfo;
using program::Type;

namespace {

// An operation with the types of its result and its operands. kGuard is a guard around a sum of two values.
struct Operation {
  Op op;
  Type result;
  Type from;

  std::size_t arity() const {
    return op == Op::kGuard ? 2 : static_cast<std::size_t>(program::op_info(op).arity);
  }
  Type operand(std::size_t place) const { return op == Op::kSelect && place == 0 ? Type::kBool : from; }
  bool is_function() const { return program::op_info(op).family == Family::kFunction; }
};

// Every operation with this result.
std::vector<Operation> operations_of(Type result, const std::vector<Type>& types) {
  const auto has = [&](Type type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  std::vector<Operation> all;
  for (std::size_t number = 0; number < program::kOpCount; ++number) {
    const Op op = static_cast<Op>(number);
    const OpInfo& info = program::op_info(op);
    if (info.arity < 1) {
      continue;
    }
    if (op == Op::kCast || (info.result == program::Result::kBool && result == Type::kBool)) {
      for (const Type from : types) {
        if (op == Op::kCast ? from != result : takes_type(op, from)) {
          all.push_back({op, result, from});
        }
      }
    } else if (op == Op::kRandomBits) {
      if (result == Type::kU32 && has(Type::kI64)) {
        all.push_back({op, result, Type::kI64});
      }
    } else if (op == Op::kGuard ||
               (op == Op::kSelect ? has(Type::kBool)
                                  : info.result == program::Result::kSame && takes_type(op, result))) {
      all.push_back({op, result, result});
    }
  }
  return all;
}

// What the operands are. In the last three, reads may be out of range.
enum class Leaves : std::uint8_t {
  kDifferent,      // (x + z) * v
  kConstants,      // (x + 0.1) * 0.3
  kConstantFirst,  // (0.1 + x) * 0.3
  kShared,         // (x + z) * x
  kExchanged,      // (x + z) * z
  kEqual,          // (x + x) * x
  kLoops,          // (f32(i) + x) * f32(s)
  kGuarded,        // ((x + z) * v else 3)
  kGuardedTwice,   // ((x + z else 2) * v else 3)
  kGuardedInside   // (x + z else 2) * v
};
constexpr int kLeafKinds = 10;

constexpr std::int64_t kCount = 20;   // of a statement's elements
constexpr std::int64_t kExtent = 24;  // of an operand

std::string number_text(Type type, Random& random) {
  if (type == Type::kBool) {
    return random.chance(2) ? "true" : "false";
  }
  if (program::is_float(type)) {
    constexpr const char* kUsual[] = {"0.1", "0.3", "0.7", "-0.9", "1.1"};
    constexpr const char* kSpecial[] = {"0", "1", "-1", "2", "0.5", "3", "inf", "-0.0", "nan", "-inf"};
    return random.chance(2) ? kUsual[random.below(std::size(kUsual))]
                            : kSpecial[random.below(std::size(kSpecial))];
  }
  const std::int64_t values[] = {
      1, 2, 3, 7, 8, 0, 100, 31, 33, program::highest_integer(type), -1, -3, program::lowest_integer(type)};
  const std::size_t count = program::lowest_integer(type) < 0 ? std::size(values) : std::size(values) - 3;
  return std::to_string(values[random.below(count)]);
}

// Statements about one operation inside another.
class Nest {
 public:
  Nest(Operation outer, std::size_t place, Operation inner, Random& random)
      : outer_(outer), place_(place), inner_(inner), random_(random) {}

  // Whether the kind differs from the others for these operations.
  bool has(Leaves leaves) const {
    switch (leaves) {
      case Leaves::kConstantFirst:
        return inner_.arity() > 1;
      case Leaves::kShared:
      case Leaves::kExchanged:
        return outer_.arity() > 1;
      default:
        return true;
    }
  }

  // The inner operation alone, for a statement that reduces it over k.
  std::string reduced(Leaves leaves) {
    index_ = "i + k";
    return inner_value(leaves, leaves >= Leaves::kGuarded);
  }

  std::string value(Leaves leaves) {
    std::string made =
        inner_value(leaves, leaves == Leaves::kGuardedTwice || leaves == Leaves::kGuardedInside);
    is_guarded_ = is_guarded_ && leaves != Leaves::kGuardedInside;
    std::vector<std::string> outer_args;
    std::size_t other = 0;
    for (std::size_t k = 0; k < outer_.arity(); ++k) {
      outer_args.push_back(k == place_ ? made : outer_leaf(leaves, outer_.operand(k), other++));
    }
    made = applied(outer_, outer_args);
    return is_guarded_ && outer_.op != Op::kGuard
               ? "(" + made + " else " + number_text(outer_.result, random_) + ")"
               : made;
  }

  const std::set<Type>& used() const { return used_; }

 private:
  std::string inner_value(Leaves leaves, bool has_guard) {
    is_guarded_ = leaves >= Leaves::kGuarded;
    std::vector<std::string> args;
    for (std::size_t k = 0; k < inner_.arity(); ++k) {
      args.push_back(inner_leaf(leaves, k));
    }
    std::string made = applied(inner_, args);
    return has_guard && inner_.op != Op::kGuard
               ? "(" + made + " else " + number_text(inner_.result, random_) + ")"
               : made;
  }
  std::string applied(const Operation& operation, const std::vector<std::string>& args) {
    const OpInfo& info = program::op_info(operation.op);
    if (operation.op == Op::kGuard) {
      return "(" + args[0] + (operation.result == Type::kBool ? " && " : " + ") + args[1] + " else " +
             number_text(operation.result, random_) + ")";
    }
    if (info.is_operator()) {
      return args.size() == 1 ? "(" + std::string(info.name) + args[0] + ")"
                              : "(" + args[0] + " " + std::string(info.name) + " " + args[1] + ")";
    }
    std::string made = operation.op == Op::kCast ? name_of(operation.result) : std::string(info.name);
    for (std::size_t i = 0; i < args.size(); ++i) {
      made += (i == 0 ? "(" : ", ") + args[i];
    }
    return made + ")";
  }

  // Element i of one of three tensors; in a guard, often one that is out of range.
  std::string element(Type type, std::size_t number) {
    used_.insert(type);
    const std::string name = std::string(1, "xzv"[number % 3]) + name_of(type);
    if (!is_guarded_ || random_.chance(4)) {
      const bool is_fixed = index_ != "i" && random_.chance(4);  // along one of the loops of a reduction
      return text(name, "[", is_fixed ? (number % 2 == 0 ? "k" : "i") : index_,
                  number < 3 || index_ != "i" ? "]" : " + 2]");
    }
    const std::string outside[] = {text(index_, " - 3"),
                                   text(index_, " + 9"),
                                   "-i + 14",
                                   text("(", index_, " + 1) / 2"),
                                   "2*i",
                                   "p[i]",
                                   text(index_, " + sy"),
                                   text("(", index_, " - 4) / 3")};
    const std::string read = text(name, "[", outside[random_.below(std::size(outside))], "]");
    return random_.chance(5) ? text("(", read, " else ", number_text(type, random_), ")") : read;
  }
  std::string loop(Type type) {
    const std::string name = random_.chance(2) ? "sy" : index_ != "i" && random_.chance(2) ? "k" : "i";
    return type == Type::kI64    ? name
           : type == Type::kBool ? "(" + name + " < 4)"
                                 : name_of(type) + "(" + name + ")";
  }
  // The operand that a constant must not replace, because the others take their type from it.
  bool is_typed(const Operation& operation, std::size_t k, bool is_first) const {
    const std::size_t first = operation.op == Op::kSelect ? 1 : 0;
    return k < first || k == (is_first ? first : operation.arity() - 1);
  }
  std::string inner_leaf(Leaves leaves, std::size_t k) {
    const Type type = inner_.operand(k);
    switch (leaves) {
      case Leaves::kConstants:
        return is_typed(inner_, k, true) ? element(type, 0) : number_text(type, random_);
      case Leaves::kConstantFirst:
        return is_typed(inner_, k, false) ? element(type, 0) : number_text(type, random_);
      case Leaves::kEqual:
        return element(type, 0);
      case Leaves::kLoops:
        return random_.chance(2) ? loop(type) : element(type, k);
      default:
        return element(type, k);
    }
  }
  std::string outer_leaf(Leaves leaves, Type type, std::size_t other) {
    switch (leaves) {
      case Leaves::kConstants:
      case Leaves::kConstantFirst:
        return number_text(type, random_);
      case Leaves::kEqual:
        return element(type, 0);
      case Leaves::kShared:
        return element(type, std::min(first_of(type) + other, inner_.arity() - 1));
      case Leaves::kExchanged:
        return element(type, inner_.arity() - 1 - std::min(other, inner_.arity() - 1));
      case Leaves::kLoops:
        return loop(type);
      default:
        return element(type, inner_.arity() + other);
    }
  }
  // The first operand of the inner operation that has the type.
  std::size_t first_of(Type type) const { return inner_.op == Op::kSelect && type != Type::kBool ? 1 : 0; }

  Operation outer_;
  std::size_t place_;
  Operation inner_;
  Random& random_;
  std::string index_ = "i";
  bool is_guarded_ = false;
  std::set<Type> used_;
};

struct Line {
  Type result;
  std::string value;
  std::set<Type> used;
  std::string assign = "=";
};

Case nested_program(std::uint64_t seed, std::uint64_t number, std::span<const Line> lines) {
  ProgramText made(seed, text("nested", number));
  std::set<Type> used;
  bool has_indices = false;
  for (const Line& line : lines) {
    used.insert(line.used.begin(), line.used.end());
    has_indices = has_indices || line.value.find("p[i]") != std::string::npos;
  }
  made.symbol("sy in 1..9 step 3");
  for (const Type type : used) {
    for (const char* name : {"x", "z", "v"}) {
      made.input(name + name_of(type), type, std::to_string(kExtent), {DataKind::kMixed, 1, -1});
    }
  }
  if (has_indices) {
    made.input("p", Type::kI32, std::to_string(kCount), {DataKind::kIndex, kExtent, -1});
  }
  for (const Line& line : lines) {
    made.output(line.result, std::to_string(kCount), "i", line.value, line.assign);
  }
  return made.finished();
}

// The statements about one operation: others in each of its operands, with some kinds of leaves. Functions have few
// rules, so most of their pairs have one statement.
void add_lines(std::vector<Line>& lines, const Operation& outer, const std::vector<Type>& types,
               std::uint64_t rotation, Random& random) {
  const std::uint64_t share = program::byte_size(outer.result) >= 4 && outer.result != Type::kU32 ? 2 : 1;
  for (std::size_t place = 0; place < outer.arity(); ++place) {
    for (const Operation& inner : operations_of(outer.operand(place), types)) {
      const std::uint64_t functions = (outer.is_function() ? 1U : 0U) + (inner.is_function() ? 1U : 0U);
      if (functions == 2 && !random.chance(4)) {
        continue;
      }
      const std::uint64_t chosen = random.below(kLeafKinds);
      for (std::uint64_t kind = 0; kind < kLeafKinds; ++kind) {
        // Each type has some of the kinds; together, the types of floats and those of integers have all.
        const bool has_constants =
            kind == static_cast<int>(Leaves::kConstants) || kind == static_cast<int>(Leaves::kConstantFirst);
        const bool is_mine = functions == 0
                                 ? (kind + rotation + place) % 4 < share || (has_constants && share == 2)
                                 : kind == chosen;
        Nest nest(outer, place, inner, random);
        if (is_mine && nest.has(static_cast<Leaves>(kind))) {
          std::string value = nest.value(static_cast<Leaves>(kind));
          lines.push_back({outer.result, std::move(value), nest.used()});
        }
      }
    }
  }
}

// Reductions of every operation, with every assignment.
void add_reductions(std::vector<Line>& lines, Type type, const std::vector<Type>& types, Random& random) {
  constexpr const char* kAssigns[] = {"=", "=", "+=", "*=", "max=", "min="};
  constexpr Leaves kKinds[] = {Leaves::kDifferent, Leaves::kConstants, Leaves::kEqual, Leaves::kLoops,
                               Leaves::kGuarded};
  const bool is_bool = type == Type::kBool;
  const std::string accumulator = program::byte_size(type) == 2 ? ":f32" : "";
  for (const std::string reduce : {"sum", "prod", "max", "min", "argmax", "argmin", "any", "all"}) {
    if (is_bool != (reduce == "any" || reduce == "all")) {
      continue;
    }
    const bool is_argument = reduce.starts_with("arg");
    for (const Operation& inner : operations_of(type, types)) {
      for (const Leaves leaves : kKinds) {
        if (!random.chance(inner.is_function() ? 6 : 2)) {
          continue;
        }
        Nest nest(inner, 0, inner, random);
        const std::string value = nest.reduced(leaves);
        lines.push_back({is_argument ? Type::kI32 : type,
                         text(reduce, is_argument ? "" : accumulator, "[k:5] ", value), nest.used(),
                         is_argument || is_bool ? "=" : kAssigns[random.below(std::size(kAssigns))]});
      }
    }
  }
}

}  // namespace

std::vector<Case> nested_programs(std::uint64_t seed, std::uint64_t type_mask) {
  constexpr std::size_t kLines = 32;
  std::vector<Case> all;
  const std::vector<Type> types = types_of(type_mask);
  const auto has = [&](Type type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  if (!has(Type::kI64) || !has(Type::kI32)) {
    return all;
  }
  const auto add = [&](const std::vector<Line>& lines) {
    for (std::size_t first = 0; first < lines.size(); first += kLines) {
      append(all, {nested_program(seed, all.size(),
                                  std::span(lines).subspan(first, std::min(kLines, lines.size() - first)))});
    }
  };
  for (const Type result : types) {
    Random random(seed, "nested", static_cast<std::uint64_t>(result));
    for (const Operation& outer : operations_of(result, types)) {
      std::vector<Line> lines;
      add_lines(lines, outer, types, seed + static_cast<std::uint64_t>(result), random);
      add(lines);
    }
    std::vector<Line> lines;
    add_reductions(lines, result, types, random);
    add(lines);
  }
  return all;
}

}  // namespace yoke::conformance
