// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/access_programs.cpp: border_programs.h, every operation with every kind of operand.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "border_programs.h"
#include "borders.h"
#include "generator.h"

namespace yoke::conformance {

using program::Op;
using program::OpInfo;
using program::Type;

namespace {

constexpr std::int64_t kRows = 3;
constexpr std::int64_t kColumns = 37;  // a vector of 32 and a rest

// Operands for loops i and j. T is the type; the tensors are those of `declare`.
constexpr std::string_view kOperands[] = {"a[i, j]",
                                          "b[i, 2*j + 1]",
                                          "a[i, -j + 36]",
                                          "t[j, i]",
                                          "r[j]",
                                          "c[i]",
                                          "s[]",
                                          "a[1, j]",
                                          "b[i, j + 3]",
                                          "(a[i, j + 5] else 1)",
                                          "(a[i, p[j]] else 1)",
                                          "(r[(j + i) / 2] else 1)",
                                          "3",
                                          "T(j - 4)",
                                          "T(sy)",
                                          "b[i, j]"};

constexpr std::size_t kElementForms = 12;  // the first ones are elements of tensors

// Targets of the same loops; a partial one is an inout.
struct Target {
  std::string_view dims;
  std::string_view indices;
  bool is_whole;
};
constexpr Target kTargets[] = {{"3, 37", "i, j", true},
                               {"37, 3", "j, i", true},
                               {"3, 41", "i, j + 2", false},
                               {"3, 75", "i, 2*j + 1", false},
                               {"3, 37", "i, -j + 36", true}};

std::string operand_text(std::size_t number, Type type) {
  const std::string_view form = kOperands[number % std::size(kOperands)];
  if (type == Type::kBool && form == "3") {
    return "true";
  }
  std::string made;
  for (const char character : form) {
    // Only the `else` values of bool reads are the digit 1 after a space and before a parenthesis.
    made += character == 'T' ? name_of(type) : std::string(1, character);
  }
  const std::size_t otherwise = made.find("else 1");
  return type == Type::kBool && otherwise != std::string::npos ? made.replace(otherwise, 6, "else true")
                                                               : made;
}

std::string operation_text(const OpInfo& info, const std::vector<std::string>& args) {
  if (info.is_operator()) {
    return args.size() == 1 ? std::string(info.name) + args[0]
                            : args[0] + " " + std::string(info.name) + " " + args[1];
  }
  std::string text = std::string(info.name) + "(";
  for (std::size_t i = 0; i < args.size(); ++i) {
    text += (i == 0 ? "" : ", ") + args[i];
  }
  return text + ")";
}

void declare(ProgramText& text, Type type, bool is_positive) {
  const DataKind kind = is_positive ? DataKind::kPositive : DataKind::kUniform;
  const auto input = [&](const char* name, const std::string& dims) {
    text.input(name, type, dims, {kind, 1, -1});
  };
  text.symbol("sy in 1..6");
  input("a", "3, 37");
  input("b", "3, 75");
  input("t", "37, 3");
  input("r", "37");
  input("c", "3");
  input("s", "");
  text.input("p", Type::kI32, "37", {DataKind::kIndex, kColumns, -1});
}

void write(ProgramText& text, std::size_t number, Type type, std::size_t target_number,
           const std::string& value) {
  const Target& target = kTargets[target_number % std::size(kTargets)];
  const std::string name = "z" + std::to_string(number);
  text.input(name, type, std::string(target.dims), {DataKind::kDyadic, 1, -1},
             target.is_whole ? "out" : "inout");
  text.statement(name + "[" + std::string(target.indices) + "] for[i:" + std::to_string(kRows) +
                 ", j:" + std::to_string(kColumns) + "] = " + value);
}

// Each operand form at each place of the operation, with each target in turn.
Case access_program(std::uint64_t seed, std::uint64_t draw, Op op, Type type, bool has_bool) {
  const OpInfo& info = program::op_info(op);
  ProgramText text(seed, "access_" + std::to_string(static_cast<int>(op)) + "_" + name_of(type));
  declare(text, type, draw % 2 == 0);
  for (std::size_t form = 0; form < std::size(kOperands); ++form) {
    std::vector<std::string> args;
    // 5 and 11 have no factor in common with the number of forms. Each seed makes different pairs.
    const std::size_t steps[] = {1, 5, 11};
    for (std::size_t place = 0; place < static_cast<std::size_t>(info.arity); ++place) {
      const std::string arg = operand_text((form + draw * place) * steps[place] + place, type);
      // A literal takes its type from a tensor's element beside it.
      args.push_back(arg == "3" && (info.arity == 1 || args == std::vector<std::string>{"3"}) ? "a[i, j]"
                                                                                              : arg);
    }
    std::string value = operation_text(info, args);
    Type result = type;
    if (info.result == program::Result::kBool) {
      if (has_bool && form % 2 == 0) {
        result = Type::kBool;
      } else {
        value.insert(0, "select(").append(", a[i, j], c[i])");
      }
    }
    write(text, form, result, form + draw, value);
  }
  return text.finished();
}

// Conversions from the type to every other, of every form of operand that is a tensor's element.
Case conversion_program(std::uint64_t seed, std::uint64_t draw, Type from, const std::vector<Type>& types) {
  ProgramText text(seed, "access_casts_" + name_of(from));
  declare(text, from, false);
  std::size_t number = 0;
  for (const Type to : types) {
    for (std::size_t i = 0; i < 3; ++i, ++number) {
      write(text, number, to, number + draw,
            name_of(to) + "(" + operand_text((number * 5 + draw) % kElementForms, from) + ")");
    }
  }
  return text.finished();
}

// select with every form of operand at each place.
Case select_program(std::uint64_t seed, std::uint64_t draw, Type type) {
  constexpr std::string_view kConditions[] = {
      "m[i, j]",         "m[i, -j + 36]",          "n[j, i]", "u[j]", "v[i]", "!m[1, j]", "j < 20",
      "m[i, j] && u[j]", "(m[i, j + 3] else true)"};
  ProgramText text(seed, "access_select_" + name_of(type));
  declare(text, type, false);
  const auto input = [&](const char* name, const char* dims) {
    text.input(name, Type::kBool, dims, {DataKind::kDyadic, 1, -1});
  };
  input("m", "3, 37");
  input("n", "37, 3");
  input("u", "37");
  input("v", "3");
  for (std::size_t number = 0; number < 2 * std::size(kConditions); ++number) {
    write(text, number, type, number + draw,
          "select(" + std::string(kConditions[number % std::size(kConditions)]) + ", " +
              operand_text((number + draw) % kElementForms, type) + ", " +
              operand_text(number * 7 + 3 * draw, type) + ")");
  }
  return text.finished();
}

}  // namespace

std::vector<Case> access_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Case> all;
  const std::vector<Type> types = types_of(type_mask);
  const bool has_bool = types.back() == Type::kBool;
  if (std::find(types.begin(), types.end(), Type::kI64) == types.end() ||
      std::find(types.begin(), types.end(), Type::kI32) == types.end()) {
    return {};
  }
  std::uint64_t draw = seed % 15;
  for (const Type type : types) {
    append(all, {conversion_program(seed, ++draw, type, types)});
    if (has_bool) {
      append(all, {select_program(seed, ++draw, type)});
    }
    for (std::size_t number = 0; number < program::kOpCount; ++number) {
      const Op op = static_cast<Op>(number);
      const OpInfo& info = program::op_info(op);
      if (info.arity < 1 || op == Op::kCast || op == Op::kGuard || op == Op::kRandomBits ||
          op == Op::kSelect || !takes_type(op, type)) {
        continue;
      }
      append(all, {access_program(seed, ++draw, op, type, has_bool)});
    }
  }
  return all;
}

}  // namespace yoke::conformance
