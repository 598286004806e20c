// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/include/yoke/program/program.h: a program as data. The grammar is in ../../../README.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::program {

// Element types; the numbers are those of backend.h.
enum class Type : std::int32_t { kF64 = 1, kF32, kF16, kBF16, kI64, kI32, kU32, kU8, kBool };

std::uint64_t byte_size(Type type);     // 8 4 2 2 8 4 4 1 1
std::string_view type_name(Type type);  // "f64", ... "bool"
std::optional<Type> type_by_name(std::string_view name);
bool is_float(Type type);
bool is_integer(Type type);  // i64 i32 u32 u8; bool is neither
// The ends of what an integer type holds; of bool 0 and 1.
std::int64_t lowest_integer(Type type);
std::int64_t highest_integer(Type type);

// A place in the text, both from 1; 0: made by code, not parsed.
struct Location {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

// A named integer given at launch: low, low + step, ... below high.
struct Symbol {
  std::string name;
  std::int64_t low = 0;
  std::int64_t high = 1;  // excluded
  std::int64_t step = 1;
  Location at;
};

enum class Role : std::int32_t { kIn = 1, kOut, kInOut, kTemp };  // the first three as YOKE_ACCESS_*

struct Tensor {
  std::string name;
  Type type = Type::kF32;
  std::vector<std::uint64_t> dims;  // row major; empty: a scalar
  Role role = Role::kTemp;
  Location at;

  std::uint64_t element_count() const;
  std::uint64_t byte_count() const { return element_count() * byte_size(type); }
};

// A loop index of one statement: 0, 1, ... below extent.
struct Loop {
  std::string name;
  std::uint64_t extent = 1;
  friend bool operator==(const Loop&, const Loop&) = default;
};

// constant + sum of coefficient * (loop index or symbol). Terms are unique, coefficients non-zero; loops
// first in order of their number, then symbols in order of theirs.
struct Affine {
  struct Term {
    bool is_symbol = false;
    std::uint32_t id = 0;  // into Statement::loops or Program::symbols
    std::int64_t coefficient = 1;
    friend bool operator==(const Term&, const Term&) = default;
  };
  std::int64_t constant = 0;
  std::vector<Term> terms;
  friend bool operator==(const Affine&, const Affine&) = default;

  static Affine loop(std::uint32_t id) { return {0, {{false, id, 1}}}; }
  static Affine symbol(std::uint32_t id) { return {0, {{true, id, 1}}}; }
  static Affine number(std::int64_t value) { return {value, {}}; }
  // The loop's number when this is exactly one loop index, else nothing.
  std::optional<std::uint32_t> single_loop() const;
};

// One index of an access: affine, or an element of an integer tensor (`idx[b]`: gather, scatter).
struct Index {
  Affine affine;                            // when element_of is empty
  std::optional<std::uint32_t> element_of;  // into Program::tensors
  std::vector<Affine> element_indices;      // indices of that element
  friend bool operator==(const Index&, const Index&) = default;
};

// A number in the text; float types use `number`, integer types and bool use `integer`.
struct Literal {
  double number = 0;
  std::int64_t integer = 0;
  friend bool operator==(const Literal&, const Literal&) = default;
};
// Equal as values of the type, bit for bit; every NaN is one value.
bool same(Type type, const Literal& a, const Literal& b);

struct Access {
  std::uint32_t tensor = 0;  // into Program::tensors
  std::vector<Index> indices;
  std::optional<Literal> otherwise;  // `else`: the value of a read outside the tensor; in the tensor's type
  friend bool operator==(const Access&, const Access&) = default;
};

// Operations, by the name they have in the text (see op_info). Inside the library only: names cross, never
// numbers.
enum class Op : std::uint8_t {
  kConst,  // literal
  kRead,   // access
  kIndex,  // value of an affine expression of one loop or symbol, i64
  kCast,   // one argument
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,
  kNeg,
  kMin,
  kMax,
  kAbs,
  kSign,
  kFloor,
  kCeil,
  kRound,
  kTrunc,
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog1p,
  kSqrt,
  kRsqrt,
  kRecip,
  kPow,
  kSin,
  kCos,
  kTanh,
  kSigmoid,
  kErf,
  kErfc,
  kFma,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual,
  kNotEqual,
  kAnd,
  kOr,
  kNot,  // bool
  kBitAnd,
  kBitOr,
  kBitXor,
  kBitNot,
  kShiftLeft,
  kShiftRight,  // integers
  kSelect,      // select(condition, then, otherwise)
  kRandomBits   // random_bits(seed, stream, counter): three i64 -> u32, Threefry 4x32, 20 rounds
};

// What an operation takes: values of one type, which is one of these. Of select this is said of the values
// it chooses from; its condition is a bool.
enum class Operands : std::uint8_t { kAny, kNumbers, kFloats, kIntegers, kBools, kI64s };
bool accepts(Operands operands, Type type);
std::string_view operands_name(Operands operands);  // "numbers": for messages

struct OpInfo {
  std::string_view name;  // "exp"; for infix operators their token: "+"
  int arity;              // -1: leaves
  bool infix;
  Operands operands;
  bool gives_bool;  // whatever it takes; other results have the type of the values (random_bits: u32)
};
const OpInfo& op_info(Op op);

// A pure scalar expression. `type` is set by the parser, or by whoever builds it; the verifier checks it.
struct Expr {
  Op op = Op::kConst;
  Type type = Type::kF32;
  Literal literal;         // kConst
  Access access;           // kRead
  Affine affine;           // kIndex: exactly one term with coefficient 1, no constant
  std::vector<Expr> args;  // the rest
  Location at;

  static Expr constant(Type type, double value);  // integers: the value truncated
  static Expr read(Type type, Access access);
  static Expr index_loop(std::uint32_t loop);
  static Expr index_symbol(std::uint32_t symbol);
  static Expr cast(Type type, Expr value);
  // Type of the result is inferred from the operation and the first value argument.
  static Expr make(Op op, std::vector<Expr> args);
};
// Equal in meaning: location is not compared.
bool same(const Expr& a, const Expr& b);

enum class Assign : std::uint8_t { kSet, kAdd, kMul, kMax, kMin };  // = += *= max= min=
enum class Reduce : std::uint8_t { kSum, kProd, kMin, kMax, kAny, kAll, kArgMax, kArgMin };

// target assign [reduce[loops]] value, over every combination of the loops.
struct Statement {
  std::vector<Loop> loops;  // those of the target first, in order of first use; then the reduction's, in
                            // order of the prefix
  Access target;  // no `else`: a write outside the tensor is dropped for element indices, an error for affine
                  // ones
  Assign assign = Assign::kSet;
  std::optional<Reduce> reduce;
  std::vector<std::uint32_t> reduce_loops;
  std::optional<Type> accumulator;  // stated with `sum:f32[...]`; absent: the type of `value`
  Expr value;
  std::int32_t hint = -1;  // into Program::hints
  Location at;

  bool reduces(std::uint32_t loop) const;
  Type accumulator_type() const { return accumulator.value_or(value.type); }
};

struct Program {
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<Tensor> tensors;
  std::vector<Statement> statements;
  std::vector<std::string> hints;  // "softmax"; a group's statements are neighbours

  std::optional<std::uint32_t> find_tensor(std::string_view name) const;
  std::optional<std::uint32_t> find_symbol(std::string_view name) const;
  // Arguments (not temporaries), in order of declaration: numbers into tensors.
  std::vector<std::uint32_t> arguments() const;
};

// What one text holds.
struct Module {
  std::vector<Program> programs;
};

}  // namespace yoke::program
