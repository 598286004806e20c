// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/include/yoke/program/program.h: a program as data. FORMAT.md has the grammar.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::program {

// The longest name of a program, tensor, symbol, loop or hint, in bytes: with a closing
// zero it fits in YOKE_NAME_CAPACITY bytes.
inline constexpr std::size_t kMaxNameBytes = 127;

// Element types, numbered like YOKE_TYPE_*.
enum class Type : std::int32_t { kF64 = 1, kF32, kF16, kBF16, kI64, kI32, kU32, kU8, kBool };

std::uint64_t byte_size(Type type);     // 8 4 2 2 8 4 4 1 1
std::string_view type_name(Type type);  // "f64", ... "bool"
std::optional<Type> type_by_name(std::string_view name);
bool is_float(Type type);
bool is_integer(Type type);  // i64 i32 u32 u8; bool is neither
// The range of an integer type; for bool, 0 and 1.
std::int64_t lowest_integer(Type type);
std::int64_t highest_integer(Type type);
// Whether every value of `narrow` is a value of `wide`. bool counts as the numbers 0 and 1.
bool holds_all(Type wide, Type narrow);

// A place in the text, counted from 1. Line 0 means that the object was built by code, not parsed.
struct Location {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

// A named integer given at launch, or the variable of a repeat block. Its values are low, low + step, ...,
// less than high.
struct Symbol {
  std::string name;
  std::int64_t low = 0;
  std::int64_t high = 1;  // excluded
  std::int64_t step = 1;
  Location at;
  bool is_variable = false;

  std::uint64_t value_count() const;
};

// The first three are numbered like YOKE_ACCESS_*.
enum class Role : std::int32_t { kIn = 1, kOut, kInOut, kTemp };

struct Tensor {
  std::string name;
  Type type = Type::kF32;
  std::vector<std::uint64_t> dims;  // row major; empty for a scalar
  Role role = Role::kTemp;
  Location at;

  std::uint64_t element_count() const;
  std::uint64_t byte_count() const { return element_count() * byte_size(type); }
};

// A loop of one statement. Its index runs over [0, extent).
struct Loop {
  std::string name;
  std::uint64_t extent = 1;
  friend bool operator==(const Loop&, const Loop&) = default;
};

// constant + sum of coefficient * (loop index or symbol). Invariant: no loop or symbol appears twice, no
// coefficient is 0, loops come before symbols, and both are sorted by id.
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
  // The loop, if this is exactly one loop index.
  std::optional<std::uint32_t> single_loop() const;
};

// One index of an access: affine, affine divided by a number, or an element of an integer tensor (`idx[b]`,
// in a gather or scatter).
struct Index {
  Affine affine;                            // if element_of is empty
  std::optional<std::uint32_t> element_of;  // into Program::tensors
  std::vector<Affine> element_indices;      // indices of that element
  // `(affine) / divisor`: out of range unless the division is exact. 1: no division. Only in reads.
  std::int64_t divisor = 1;
  friend bool operator==(const Index&, const Index&) = default;
};

// A number in the text. Float types use `number`; integer types and bool use `integer`.
struct Literal {
  double number = 0;
  std::int64_t integer = 0;
  friend bool operator==(const Literal&, const Literal&) = default;
};
// Whether both are bit-equal as values of `type`. All NaNs are equal.
bool same(Type type, const Literal& a, const Literal& b);

struct Access {
  std::uint32_t tensor = 0;  // into Program::tensors
  std::vector<Index> indices;
  std::optional<Literal> otherwise;  // `else`: the value of a read out of range, in the tensor's type
  friend bool operator==(const Access&, const Access&) = default;
};

// Operations, as listed in ops.def. The numbers are internal to this library and may change between versions;
// only the text is stable.
enum class Op : std::uint8_t {
#define YOKE_SPECIAL_OP(id, text, arity) k##id,
#define YOKE_OP(id, ...) k##id,
#include <yoke/program/ops.def>
};
inline constexpr std::size_t kOpCount = 0
#define YOKE_SPECIAL_OP(id, text, arity) +1
#define YOKE_OP(id, ...) +1
#include <yoke/program/ops.def>
    ;

// The types that an operation accepts. All its arguments have the same type, except
// for select, whose first argument is a bool.
enum class Operands : std::uint8_t { kAny, kNumbers, kFloats, kIntegers, kBools, kI64s };
bool accepts(Operands operands, Type type);
std::string_view operands_name(Operands operands);  // for messages: "numbers"

enum class Result : std::uint8_t { kSame, kBool, kU32 };  // kSame: the type of the operands

enum class Family : std::uint8_t {
  kSpecial,     // leaves, casts and guards
  kArithmetic,  // continuous: + - * min max abs fma, unary -
  kDivision,    // / %
  kStep,        // floor, sign, ...: constant between its steps
  kFunction,    // exp, pow, ...: floats only, with an error budget
  kComparison,
  kLogic,
  kBits,
  kChoice,  // select
  kRandom
};

inline constexpr int kUnary = 11;  // the precedence of prefix operators
inline constexpr int kCall = 12;   // of everything that is not written as an operator

// A row of ops.def, which explains the columns.
struct OpInfo {
  std::string_view name;  // a function's name, "exp", or an operator, "+"
  int arity = -1;         // -1 for leaves: kConst, kRead, kIndex
  int precedence = kCall;
  Operands operands = Operands::kAny;
  Result result = Result::kSame;
  Family family = Family::kSpecial;
  bool commutes = false;
  bool is_exact = false;
  int cost = 0;
  double f32_units = 0;
  double f64_units = 0;
  bool is_operator() const { return precedence < kCall; }
};
const OpInfo& op_info(Op op);  // throws std::invalid_argument for a number that is not an operation

// A scalar expression without side effects. The parser, or the code that builds the expression, sets
// `type`; the verifier checks it.
struct Expr {
  Op op = Op::kConst;
  Type type = Type::kF32;
  Literal literal{};         // kConst, kGuard
  Access access{};           // kRead
  Affine affine{};           // kIndex: one term with coefficient 1 and constant 0
  std::vector<Expr> args{};  // all other operations
  Location at{};

  // `value` is rounded to a float type, and truncated to an integer type.
  static Expr constant(Type type, double value);
  static Expr constant(Type type, const Literal& literal);
  static Expr read(Type type, Access access);
  static Expr index_loop(std::uint32_t loop);
  static Expr index_symbol(std::uint32_t symbol);
  static Expr cast(Type type, Expr value);
  // `(value else otherwise)`. A read without an `else` gets one; any other value becomes the argument of
  // kGuard.
  static Expr guard(Expr value, Literal otherwise);
  // The result type follows from the operation and its first value argument.
  static Expr make(Op op, std::vector<Expr> args);
};
// Whether both have the same structure and types; locations are ignored.
bool same(const Expr& a, const Expr& b);

enum class Assign : std::uint8_t { kSet, kAdd, kMul, kMax, kMin };  // = += *= max= min=
enum class Reduce : std::uint8_t { kSum, kProd, kMin, kMax, kAny, kAll, kArgMax, kArgMin };

// `target assign [reduce[loops]] value`, over all combinations of the loops.
struct Statement {
  // Loops of the target in order of first use, then loops of the reduction as listed in the text.
  std::vector<Loop> loops;
  // Has no `else`. Writes through an element index that is out of range are dropped; the verifier rejects
  // affine indices that may be out of range.
  Access target;
  Assign assign = Assign::kSet;
  std::optional<Reduce> reduce;
  std::vector<std::uint32_t> reduce_loops;
  std::optional<Type> accumulator;  // stated as `sum:f32[...]`; defaults to the type of `value`
  Expr value;
  std::int32_t hint = -1;    // into Program::hints; -1: not part of a hint
  std::int32_t repeat = -1;  // into Program::symbols: the variable of its repeat block; -1: runs once
  Location at;

  bool reduces(std::uint32_t loop) const;
  std::optional<std::uint32_t> find_loop(std::string_view name) const;
  Type accumulator_type() const { return accumulator.value_or(value.type); }
};

// Marks statements that a backend may run together. With `loops`, the verifier has proved that the group can
// run one iteration of these loops after the other: each is a loop of every statement's target, and a tensor
// that the group writes is read and written at the current values of these loops only.
struct Hint {
  std::string name;                // "fused", or what a library may do whole: "softmax"
  std::vector<std::string> loops;  // by name; required for "fused"
  friend bool operator==(const Hint&, const Hint&) = default;
};

// Consecutive statements [first, last) that run once, or once for each value of a variable, in order.
struct Block {
  std::size_t first = 0;
  std::size_t last = 0;
  std::int32_t repeat = -1;  // as in Statement
};

struct Program {
  std::string name;
  std::vector<Symbol> symbols;  // those given at launch, then the variables of the repeat blocks, in order
  std::vector<Tensor> tensors;
  std::vector<Statement> statements;
  std::vector<Hint> hints;  // the statements of one hint are consecutive

  std::optional<std::uint32_t> find_tensor(std::string_view name) const;
  std::optional<std::uint32_t> find_symbol(std::string_view name) const;  // of those given at launch
  std::size_t launch_symbol_count() const;
  std::vector<Block> blocks() const;  // together all statements
  // Indices into `tensors` of the arguments, in order of declaration; temporaries are left out.
  std::vector<std::uint32_t> arguments() const;
};

// The contents of one program text.
struct Module {
  std::vector<Program> programs;
};

}  // namespace yoke::program
