// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/program.cpp: the tables of types and operations,
// and functions that build expressions.
#include <yoke/program/program.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

#include "number.h"

namespace yoke::program {
namespace {

struct TypeRow {
  std::string_view name;
  std::uint64_t byte_size;
  std::int64_t low = 0;  // the range of an integer type
  std::int64_t high = 1;
};

template <class T>
constexpr TypeRow integer_row(std::string_view name) {
  return {name, sizeof(T), std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

// In the order of Type, whose first number is 1.
constexpr TypeRow kTypes[] = {{"f64", 8},
                              {"f32", 4},
                              {"f16", 2},
                              {"bf16", 2},
                              integer_row<std::int64_t>("i64"),
                              integer_row<std::int32_t>("i32"),
                              integer_row<std::uint32_t>("u32"),
                              integer_row<std::uint8_t>("u8"),
                              {"bool", 1}};
static_assert(std::size(kTypes) == static_cast<std::size_t>(Type::kBool));

const TypeRow& type_row(Type type) {
  const auto number = static_cast<std::size_t>(type) - 1;
  if (number >= std::size(kTypes)) {
    throw std::invalid_argument("unknown element type " + std::to_string(static_cast<std::int32_t>(type)));
  }
  return kTypes[number];
}

// Indexed by Op.
constexpr OpInfo kOps[] = {
#define YOKE_SPECIAL_OP(id, text, arity) {text, arity},
#define YOKE_OP(id, function, text, arity, precedence, operands, result, family, commutes, exact, cost, f32, \
                f64)                                                                                         \
  {text, arity, precedence, Operands::operands, Result::result, Family::family, commutes, exact,             \
   cost, f32,   f64},
#include <yoke/program/ops.def>
};
static_assert(std::size(kOps) == kOpCount);

bool same_access(Type type, const Access& a, const Access& b) {
  if (a.tensor != b.tensor || a.indices != b.indices || a.otherwise.has_value() != b.otherwise.has_value()) {
    return false;
  }
  return !a.otherwise || same(type, *a.otherwise, *b.otherwise);
}

// The number of the item with this name.
template <class Items>
std::optional<std::uint32_t> find(const Items& items, std::string_view name) {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const auto& one) { return one.name == name; });
  return found == items.end() ? std::nullopt
                              : std::optional(static_cast<std::uint32_t>(found - items.begin()));
}

}  // namespace

std::uint64_t byte_size(Type type) {
  return type_row(type).byte_size;
}

std::string_view type_name(Type type) {
  return type_row(type).name;
}

std::optional<Type> type_by_name(std::string_view name) {
  const auto place = find(std::span(kTypes), name);
  return place ? std::optional(static_cast<Type>(*place + 1)) : std::nullopt;
}

std::int64_t lowest_integer(Type type) {
  return type_row(type).low;
}

std::int64_t highest_integer(Type type) {
  return type_row(type).high;
}

bool is_float(Type type) {
  return type == Type::kF64 || type == Type::kF32 || type == Type::kF16 || type == Type::kBF16;
}

bool is_integer(Type type) {
  return type == Type::kI64 || type == Type::kI32 || type == Type::kU32 || type == Type::kU8;
}

bool holds_all(Type wide, Type narrow) {
  if (wide == narrow || narrow == Type::kBool) {
    return true;
  }
  if (wide == Type::kF64) {
    return narrow != Type::kI64;
  }
  if (is_float(wide)) {
    return narrow == Type::kU8 || (wide == Type::kF32 && byte_size(narrow) == 2);
  }
  return is_integer(wide) && is_integer(narrow) && lowest_integer(wide) <= lowest_integer(narrow) &&
         highest_integer(wide) >= highest_integer(narrow);
}

std::uint64_t Tensor::element_count() const {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : dims) {
    count *= dim;
  }
  return count;
}

std::uint64_t Symbol::value_count() const {
  const auto span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return (span - 1) / static_cast<std::uint64_t>(step) + 1;
}

std::optional<std::uint32_t> Affine::single_loop() const {
  if (constant == 0 && terms.size() == 1 && !terms[0].is_symbol && terms[0].coefficient == 1) {
    return terms[0].id;
  }
  return std::nullopt;
}

bool accepts(Operands operands, Type type) {
  switch (operands) {
    case Operands::kNumbers:
      return type != Type::kBool;
    case Operands::kFloats:
      return is_float(type);
    case Operands::kIntegers:
      return is_integer(type);
    case Operands::kBools:
      return type == Type::kBool;
    case Operands::kI64s:
      return type == Type::kI64;
    case Operands::kAny:
      return true;
  }
  return false;
}

std::string_view operands_name(Operands operands) {
  constexpr std::string_view kNames[] = {"anything", "numbers", "floats", "integers", "bool", "i64"};
  return kNames[static_cast<std::size_t>(operands)];
}

const OpInfo& op_info(Op op) {
  const auto number = static_cast<std::size_t>(op);
  if (number >= std::size(kOps)) {
    throw std::invalid_argument("unknown operation " + std::to_string(number));
  }
  return kOps[number];
}

Expr Expr::constant(Type type, double value) {
  return constant(type, is_float(type) ? Literal{round_to_type(type, value), 0}
                                       : Literal{0, float_to_integer(type, value)});
}

Expr Expr::constant(Type type, const Literal& literal) {
  return {.type = type, .literal = literal};
}

Expr Expr::read(Type type, Access access) {
  return {.op = Op::kRead, .type = type, .access = std::move(access)};
}

Expr Expr::index_loop(std::uint32_t loop) {
  return {.op = Op::kIndex, .type = Type::kI64, .affine = Affine::loop(loop)};
}

Expr Expr::index_symbol(std::uint32_t symbol) {
  return {.op = Op::kIndex, .type = Type::kI64, .affine = Affine::symbol(symbol)};
}

Expr Expr::cast(Type type, Expr value) {
  Expr expr{.op = Op::kCast, .type = type};
  expr.args.push_back(std::move(value));
  return expr;
}

Expr Expr::guard(Expr value, Literal otherwise) {
  if (value.op == Op::kRead && !value.access.otherwise) {
    value.access.otherwise = otherwise;
    return value;
  }
  Expr expr{.op = Op::kGuard, .type = value.type, .literal = otherwise};
  expr.args.push_back(std::move(value));
  return expr;
}

Expr Expr::make(Op op, std::vector<Expr> args) {
  const Result result = op_info(op).result;
  const std::size_t first = op == Op::kSelect ? 1 : 0;
  const Type type = result == Result::kBool  ? Type::kBool
                    : result == Result::kU32 ? Type::kU32
                    : args.size() > first    ? args[first].type
                                             : Type::kF32;
  return {.op = op, .type = type, .args = std::move(args)};
}

bool same(Type type, const Literal& a, const Literal& b) {
  if (!is_float(type)) {
    return a.integer == b.integer;
  }
  if (std::isnan(a.number) || std::isnan(b.number)) {
    return std::isnan(a.number) && std::isnan(b.number);
  }
  return std::bit_cast<std::uint64_t>(a.number) == std::bit_cast<std::uint64_t>(b.number);
}

bool same(const Expr& a, const Expr& b) {
  if (a.op != b.op || a.type != b.type || (a.op == Op::kGuard && !same(a.type, a.literal, b.literal))) {
    return false;
  }
  switch (a.op) {
    case Op::kConst:
      return same(a.type, a.literal, b.literal);
    case Op::kRead:
      return same_access(a.type, a.access, b.access);
    case Op::kIndex:
      return a.affine == b.affine;
    default:
      return std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(),
                        [](const Expr& x, const Expr& y) { return same(x, y); });
  }
}

std::optional<std::uint32_t> Statement::find_loop(std::string_view name) const {
  return find(loops, name);
}

bool Statement::reduces(std::uint32_t loop) const {
  return std::find(reduce_loops.begin(), reduce_loops.end(), loop) != reduce_loops.end();
}

std::optional<std::uint32_t> Program::find_tensor(std::string_view tensor_name) const {
  return find(tensors, tensor_name);
}

std::optional<std::uint32_t> Program::find_symbol(std::string_view symbol_name) const {
  return find(std::span(symbols).first(launch_symbol_count()), symbol_name);
}

std::size_t Program::launch_symbol_count() const {
  const auto variable =
      std::find_if(symbols.begin(), symbols.end(), [](const Symbol& symbol) { return symbol.is_variable; });
  return static_cast<std::size_t>(variable - symbols.begin());
}

std::vector<Block> Program::blocks() const {
  std::vector<Block> all;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    if (all.empty() || all.back().repeat != statements[i].repeat) {
      all.push_back({i, i, statements[i].repeat});
    }
    all.back().last = i + 1;
  }
  return all;
}

std::vector<std::uint32_t> Program::arguments() const {
  std::vector<std::uint32_t> numbers;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].role != Role::kTemp) {
      numbers.push_back(static_cast<std::uint32_t>(i));
    }
  }
  return numbers;
}

}  // namespace yoke::program
