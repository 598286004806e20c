// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/border_programs.cpp: operations and casts.
#include "border_programs.h"

#include <yoke/program/text.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "borders.h"
#include "corpus.h"
#include "generator.h"

namespace yoke::conformance {

using program::Op;
using program::OpInfo;
using program::Type;

namespace {

constexpr std::int64_t kPairs = kCrossedBorders * kCrossedBorders;

// Values that compilers and authors of kernels simplify, of a, b and c.
constexpr std::string_view kNumberValues[] = {"a - a",
                                              "a / a",
                                              "a % a",
                                              "a * 0",
                                              "a + 0",
                                              "a - 0",
                                              "0 - a",
                                              "0 / a",
                                              "a / 0",
                                              "a % 0",
                                              "a * 1",
                                              "a / 1",
                                              "a % 1",
                                              "a * 2",
                                              "a / 2",
                                              "a / 3",
                                              "a % 3",
                                              "(a - b) + b",
                                              "a * b + a",
                                              "a * b - b",
                                              "a * b + c",
                                              "(a + b) / 2",
                                              "min(a, a)",
                                              "max(min(a, 3), 1)",
                                              "min(max(a, b), c)",
                                              "abs(a - b)",
                                              "select(a == a, a, 1)",
                                              "select(a != a, 1, a)",
                                              "select(a > 0, a, 0)",
                                              "select(a < b && b < c, a, b)",
                                              "select(a < b || a >= b, 1, 0)",
                                              "select(!(a < b), a, c)",
                                              "select(!(a == b), a, c)",
                                              "select(a <= b, select(b != c, a, b), c)",
                                              "select(a < b, 1, 0) + select(a > b, 2, 0)",
                                              "max(a, 1) * select(b == 0, 0, 1)"};
constexpr std::string_view kSignedValues[] = {
    "a * -1", "a / -1",      "a % -1",  "a / -2",      "a % -2",   "a / -7",     "a % -7",     "-(-a)",
    "-a - 1", "abs(-a) - 1", "-abs(a)", "sign(a) * b", "-(a - b)", "max(a, -a)", "min(a, -1)", "a - -1"};
constexpr std::string_view kFloatValues[] = {"a + inf",
                                             "a - inf",
                                             "a * inf",
                                             "min(a, inf)",
                                             "max(a, -inf)",
                                             "max(a, nan)",
                                             "min(nan, a)",
                                             "a + nan",
                                             "1 / a",
                                             "pow(a, 2)",
                                             "pow(a, 0)",
                                             "pow(a, 0.5)",
                                             "pow(a, -1)",
                                             "pow(a, 3)",
                                             "pow(2, a)",
                                             "pow(1, a)",
                                             "a * -0.0",
                                             "a + 0.1",
                                             "a * 0.1",
                                             "a / 0.1",
                                             "a + -0.0",
                                             "sqrt(a)",
                                             "a % 0.5",
                                             "fma(a, 0, b)",
                                             "fma(a, 1, b)",
                                             "fma(a, b, 0)",
                                             "fma(a, b, -1)",
                                             "max(a, 0)",
                                             "min(a, 0)",
                                             "max(-0.0, a)",
                                             "abs(-0.0 * a)",
                                             "select(a < inf, a, 0)",
                                             "floor(a) + 1",
                                             "round(a) - a",
                                             "select(a == -inf, 0, exp(a))"};
constexpr std::string_view kIntegerValues[] = {"a << 1",        "a << 7",        "a << 8",
                                               "a << 31",       "a << 32",       "a << 33",
                                               "a << 63",       "a << 64",       "a >> 1",
                                               "a >> 7",        "a >> 8",        "a >> 31",
                                               "a >> 32",       "a >> 63",       "a >> 65",
                                               "1 << b",        "(a + b) >> 1",  "a & 127",
                                               "a | 1",         "a ^ a",         "~a + 1",
                                               "a & (0 - a)",   "a % 7 + b / 7", "a * 3 / 3",
                                               "a / 16",        "a % 16",        "(a / b) * b + a % b",
                                               "(a * b) % 7",   "a * a",         "~(a | b)",
                                               "(a << 3) >> 3", "a / b / c"};
constexpr std::string_view kBoolValues[] = {"a == b",
                                            "a != b",
                                            "a && !b",
                                            "!(a || b)",
                                            "a || (b && c)",
                                            "select(a, b, c)",
                                            "select(!a, b, true)",
                                            "a && true",
                                            "a || false"};

// "x + y", "min(x, y)", "-x"
std::string applied(const OpInfo& info, std::vector<std::string> args) {
  if (info.is_operator() && info.arity == 2) {
    return args[0] + " " + std::string(info.name) + " " + args[1];
  }
  std::string text(info.name);
  text += info.is_operator() ? "" : "(";
  for (std::size_t i = 0; i < args.size(); ++i) {
    text += (i == 0 ? "" : ", ") + args[i];
  }
  return text + (info.is_operator() ? "" : ")");
}

// Replaces the names a, b and c by reads.
std::string with_reads(std::string_view value) {
  std::string text;
  const auto is_letter = [&](std::size_t at) {
    return at < value.size() &&
           ((value[at] >= 'a' && value[at] <= 'z') || (value[at] >= '0' && value[at] <= '9'));
  };
  for (std::size_t at = 0; at < value.size(); ++at) {
    text += value[at];
    const bool is_name =
        value[at] >= 'a' && value[at] <= 'c' && !is_letter(at + 1) && (at == 0 || !is_letter(at - 1));
    text += is_name ? "[i]" : "";
  }
  return text;
}

// Values of a, b and c, one in each statement.
class Operators {
 public:
  Operators(std::uint64_t seed, Type type, bool has_bool)
      : type_(type),
        has_bool_(has_bool),
        batches_(seed, "operators_" + name_of(type), [type](ProgramText& text) {
          const std::string dims = std::to_string(kPairs);
          text.input("a", type, dims, {DataKind::kEdges, 1, -1});
          text.input("b", type, dims, {DataKind::kEdges, kCrossedBorders, -1});
          text.input("c", type, dims, {DataKind::kEdges, 0, -1});
        }) {}

  void add(Type result, const std::string& value) {
    batches_.next().output(result, std::to_string(kPairs), "i", with_reads(value));
  }

  void add_operations() {
    for (std::size_t number = 0; number < program::kOpCount; ++number) {
      const Op op = static_cast<Op>(number);
      const OpInfo& info = program::op_info(op);
      if (info.arity < 1 || op == Op::kCast || op == Op::kGuard || op == Op::kRandomBits ||
          op == Op::kSelect || !takes_type(op, type_)) {
        continue;
      }
      std::vector<std::string> args = {"a", "b", "c"};
      args.resize(static_cast<std::size_t>(info.arity));
      const std::string value = applied(info, args);
      if (info.result != program::Result::kBool) {
        add(type_, value);
        continue;
      }
      if (has_bool_) {
        add(Type::kBool, value);
      }
      add(type_, "select(" + value + ", c, a)");
    }
  }
  template <class Values>
  void add_all(const Values& values) {
    for (const std::string_view value : values) {
      add(type_, std::string(value));
    }
  }

  std::vector<Case> made() { return batches_.made(); }

 private:
  Type type_;
  bool has_bool_;
  Batches batches_;
};

// The neighbors of a literal that a wider or narrower type rounds.
std::vector<std::string> literal_values(Type type) {
  std::vector<std::string> values;
  if (type == Type::kF64) {
    return {"a + 0.1", "a * 16777217.0", "a + 1e300", "select(a < 16777217.0, a, 0.30000000000000004)"};
  }
  if (program::is_float(type)) {
    return {"a + 0.3", "a * 0.7"};
  }
  for (const std::int64_t about : {program::highest_integer(type), std::int64_t{9007199254740993},
                                   std::int64_t{16777217}, std::int64_t{2147483647}}) {
    if (about <= program::highest_integer(type)) {
      const std::string number = std::to_string(about);
      values.insert(values.end(), {"a + " + number, "a % " + number, "select(a < " + number + ", a, 1)",
                                   "select(a == " + number + ", 1, 0)", "max(a, " + number + ")"});
    }
  }
  return values;
}

}  // namespace

std::vector<Type> types_of(std::uint64_t mask) {
  std::vector<Type> found;
  for (int type = 1; type <= static_cast<int>(Type::kBool); ++type) {
    if ((mask >> static_cast<unsigned>(type) & 1U) != 0) {
      found.push_back(static_cast<Type>(type));
    }
  }
  return found;
}

void append(std::vector<Case>& all, std::vector<Case> more) {
  for (Case& one : more) {
    one.index = all.size();
    all.push_back(std::move(one));
  }
}

void ProgramText::symbol(const std::string& declaration) {
  symbols_ += (symbols_.empty() ? "symbol " : ", symbol ") + declaration;
}

void ProgramText::input(const std::string& name, Type type, const std::string& dims, Data data,
                        const char* role) {
  arguments_ += "  arg " + name + " : " + name_of(type) + "[" + dims + "] " + role + "\n";
  data_.push_back(data);
}

void ProgramText::temporary(const std::string& name, Type type, const std::string& dims) {
  arguments_ += "  temp " + name + " : " + name_of(type) + "[" + dims + "]\n";
  data_.emplace_back();
}

void ProgramText::output(Type type, const std::string& dims, const std::string& indices,
                         const std::string& value, const std::string& assign) {
  const std::string name = "y" + std::to_string(outputs_++);
  const bool is_read = assign != "=";
  input(name, type, dims, {DataKind::kEdges, kCrossedBorders, -1}, is_read ? "inout" : "out");
  body_ += "  " + name + "[" + indices + "] " + assign + " " + value + "\n";
}

void ProgramText::statement(const std::string& line) {
  body_ += "  " + line + "\n";
}

Case ProgramText::finished() const {
  Case one = corpus_case(
      "yoke.program 1\nprogram " + name_ + "(" + symbols_ + ") {\n" + arguments_ + body_ + "}\n", seed_);
  one.data = data_;
  return one;
}

std::vector<Case> operator_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Case> all;
  const std::vector<Type> types = types_of(type_mask);
  const bool has_bool = types.back() == Type::kBool;
  for (const Type type : types) {
    Operators operators(seed, type, has_bool);
    operators.add_operations();
    if (type == Type::kBool) {
      operators.add_all(kBoolValues);
    } else {
      operators.add_all(kNumberValues);
      operators.add_all(literal_values(type));
      if (program::is_float(type)) {
        operators.add_all(kFloatValues);
      } else {
        operators.add_all(kIntegerValues);
      }
      if (type != Type::kU8 && type != Type::kU32) {
        operators.add_all(kSignedValues);
      }
    }
    append(all, operators.made());
  }
  return all;
}

std::vector<Case> cast_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Case> all;
  constexpr const char* kCount = "240";
  const std::vector<Type> types = types_of(type_mask);
  for (const Type from : types) {
    for (const bool is_random : {false, true}) {
      ProgramText text(seed, "casts_" + name_of(from) + (is_random ? "_random" : ""));
      text.input("a", from, kCount,
                 is_random ? Data{DataKind::kWide, 1, -1} : Data{DataKind::kEdges, -1, -1});
      text.input("b", from, kCount, {DataKind::kEdges, 0, -1});
      for (const Type to : types) {
        text.output(to, kCount, "i", name_of(to) + "(a[i])");
        if (from != Type::kBool) {
          text.output(to, kCount, "i", name_of(to) + "(max(a[i], b[i]))");
        }
      }
      append(all, {text.finished()});
    }
  }
  return all;
}

}  // namespace yoke::conformance
