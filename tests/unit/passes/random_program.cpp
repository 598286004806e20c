// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/random_program.cpp: valid programs drawn from a seed, and their results on data drawn
// from it.
#include "random_program.h"

#include <yoke/program/execute.h>
#include <yoke/program/text.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace yoke::passes {
namespace {

using namespace program;  // NOLINT(google-build-using-namespace): every name here is one of its

constexpr std::uint64_t kDims[] = {3, 4, 5};
constexpr Type kTypes[] = {Type::kF32, Type::kF32, Type::kF32, Type::kF64,
                           Type::kF16, Type::kI32, Type::kU8,  Type::kBool};

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed) {}

  Program make() {
    program_.name = "random";
    program_.symbols.push_back({"row", 0, 12, 4, {}});
    program_.symbols.push_back({"step", 2, 9, 3, {}});
    declare_arguments();
    const std::uint32_t temp_count = 4 + draw(14);
    for (std::uint32_t i = 0; i < temp_count; ++i) {
      add_statement();
    }
    write_outputs();
    return std::move(program_);
  }

 private:
  std::uint32_t draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }
  bool chance(std::uint32_t percent) { return draw(100) < percent; }

  std::uint32_t declare(const std::string& name, Type type, std::vector<std::uint64_t> dims, Role role) {
    program_.tensors.push_back({name, type, std::move(dims), role, {}});
    return static_cast<std::uint32_t>(program_.tensors.size() - 1);
  }

  void declare_arguments() {
    readable_.push_back(declare("a", Type::kF32, {4, 5}, Role::kIn));
    readable_.push_back(declare("b", Type::kF32, {5, 4}, Role::kIn));
    readable_.push_back(declare("long", Type::kF32, {16, 5}, Role::kIn));
    readable_.push_back(declare("v", Type::kF32, {5}, Role::kIn));
    readable_.push_back(declare("s", Type::kF32, {}, Role::kIn));
    readable_.push_back(declare("d", Type::kF64, {3, 4}, Role::kIn));
    readable_.push_back(declare("h", Type::kF16, {4, 3}, Role::kIn));
    readable_.push_back(declare("k", Type::kI32, {5, 3}, Role::kIn));
    readable_.push_back(declare("u", Type::kU8, {16}, Role::kIn));
    readable_.push_back(declare("m", Type::kBool, {4, 5}, Role::kIn));
    readable_.push_back(declare("state", Type::kF32, {4, 5}, Role::kInOut));
    readable_.push_back(declare("table", Type::kF32, {5}, Role::kInOut));
    indices_.push_back(declare("n", Type::kI32, {4}, Role::kIn));
    indices_.push_back(declare("o", Type::kI32, {16}, Role::kIn));
  }

  std::vector<std::uint64_t> shape() {
    std::vector<std::uint64_t> dims(draw(8) == 0 ? 0 : 1 + draw(2));
    for (std::uint64_t& dim : dims) {
      dim = kDims[draw(3)];
    }
    return dims;
  }

  std::string fresh(const char* prefix) { return prefix + std::to_string(program_.tensors.size()); }

  void add_statement() {
    const std::uint32_t kind = draw(20);
    if (kind == 0 && !program_.statements.empty()) {
      repeat_statement();
    } else if (kind == 1) {
      update_in_place();
    } else if (kind == 2) {
      scatter();
    } else if (kind == 3) {
      partial_writes();
    } else if (kind < 6) {
      contraction();
    } else if (kind == 6) {
      index_tensor();
    } else {
      compute(declare(fresh("t"), kTypes[draw(8)], shape(), Role::kTemp));
    }
  }

  // The statement of before into another temporary.
  void repeat_statement() {
    Statement copy = program_.statements[draw(static_cast<std::uint32_t>(program_.statements.size()))];
    if (copy.assign != Assign::kSet) {
      return;
    }
    const Tensor target = program_.tensors[copy.target.tensor];
    copy.target.tensor = declare(fresh("r"), target.type, target.dims, Role::kTemp);
    copy.hint = -1;
    finish(std::move(copy));
  }

  void update_in_place() {
    const std::uint32_t target = readable_[10 + draw(2)];
    Statement statement = start(target);
    Expr old = Expr::read(Type::kF32, statement.target);
    if (chance(50)) {
      statement.value = Expr::make(Op::kSub, {std::move(old), value(Type::kF32, statement.loops, 2)});
    } else {
      statement.assign = chance(50) ? Assign::kAdd : Assign::kMax;
      statement.value = value(Type::kF32, statement.loops, 2);
    }
    finish(std::move(statement));
  }

  void scatter() {
    Statement statement;
    statement.loops = {{"i", 4}};
    statement.target.tensor = *program_.find_tensor("table");
    Index index;
    index.element_of = indices_[draw(static_cast<std::uint32_t>(indices_.size()))];
    index.element_indices = {Affine::loop(0)};
    if (chance(30)) {
      index.element_indices[0].constant = 0;
    }
    statement.target.indices = {index};
    statement.assign = Assign::kAdd;
    statement.value = value(Type::kF32, statement.loops, 2);
    if (program_.tensors[*index.element_of].dims[0] >= 4) {
      finish(std::move(statement));
    }
  }

  void partial_writes() {
    const std::uint32_t target = declare(fresh("t"), Type::kF32, {5, 4}, Role::kTemp);
    for (const std::int64_t first : {0, 2}) {
      Statement statement;
      statement.loops = {{"i", first == 0 ? 2U : 3U}, {"j", 4}};
      statement.target.tensor = target;
      Affine row = Affine::loop(0);
      row.constant = first;
      statement.target.indices = {{row, {}, {}}, {Affine::loop(1), {}, {}}};
      statement.value = value(Type::kF32, statement.loops, 2);
      program_.statements.push_back(std::move(statement));
    }
    readable_.push_back(target);
  }

  void index_tensor() {
    const std::uint32_t target = declare(fresh("n"), Type::kI32, {4}, Role::kTemp);
    Statement statement = start(target);
    statement.value = value(Type::kI32, statement.loops, 1);
    finish(std::move(statement));
    indices_.push_back(target);
  }

  void contraction() {
    const std::uint32_t target =
        declare(fresh("t"), Type::kF32, {kDims[draw(3)], kDims[draw(3)]}, Role::kTemp);
    Statement statement = start(target);
    statement.reduce = Reduce::kSum;
    statement.loops.push_back({"k", kDims[draw(3)]});
    statement.reduce_loops = {2};
    statement.value =
        Expr::make(Op::kMul, {read(Type::kF32, statement.loops), read(Type::kF32, statement.loops)});
    finish(std::move(statement));
  }

  Statement start(std::uint32_t target) {
    Statement statement;
    statement.target.tensor = target;
    const std::vector<std::uint64_t>& dims = program_.tensors[target].dims;
    for (std::uint32_t d = 0; d < dims.size(); ++d) {
      statement.loops.push_back({std::string(1, static_cast<char>('i' + d)), dims[d]});
      statement.target.indices.push_back({Affine::loop(d), {}, {}});
    }
    return statement;
  }

  void compute(std::uint32_t target) {
    Statement statement = start(target);
    const Type type = program_.tensors[target].type;
    if (chance(20)) {
      const auto loop = static_cast<std::uint32_t>(statement.loops.size());
      statement.loops.push_back({"r", kDims[draw(3)]});
      statement.reduce_loops = {loop};
      statement.reduce = type == Type::kBool ? (chance(50) ? Reduce::kAny : Reduce::kAll)
                                             : (chance(50) ? Reduce::kSum : Reduce::kMax);
      if (type == Type::kF16) {
        statement.accumulator = Type::kF32;
      }
    }
    statement.value = value(type, statement.loops, 3);
    if (chance(10) && program_.hints.size() < 3) {
      statement.hint = static_cast<std::int32_t>(program_.hints.size());
      program_.hints.emplace_back("softmax");
    }
    finish(std::move(statement));
  }

  void finish(Statement statement) {
    const std::uint32_t target = statement.target.tensor;
    program_.statements.push_back(std::move(statement));
    if (program_.tensors[target].role == Role::kTemp) {
      readable_.push_back(target);
    }
  }

  void write_outputs() {
    for (const Type type : {Type::kF32, Type::kF32, Type::kI32, Type::kF16}) {
      compute(declare(fresh("y"), type, shape(), Role::kOut));
    }
    // Some results are copied out as they are.
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t source = readable_[draw(static_cast<std::uint32_t>(readable_.size()))];
      const Tensor tensor = program_.tensors[source];
      Statement statement = start(declare(fresh("z"), tensor.type, tensor.dims, Role::kOut));
      Access access = statement.target;
      access.tensor = source;
      statement.value = Expr::read(tensor.type, std::move(access));
      program_.statements.push_back(std::move(statement));
    }
  }

  Expr constant(Type type) {
    constexpr double kNumbers[] = {0, 1, 2, -1, 3, 0.5, -0.0, 8, 255, 0.1};
    return Expr::constant(type, kNumbers[draw(10)]);
  }

  // A read of any readable tensor, cast where its type is another.
  Expr read(Type type, const std::vector<Loop>& loops) {
    std::uint32_t tensor = 0;
    for (int attempt = 0; attempt < 12; ++attempt) {
      // Late ones more often: they make chains.
      const auto count = static_cast<std::uint32_t>(readable_.size());
      tensor = readable_[chance(50) ? count - 1 - draw(std::min(count, 4U)) : draw(count)];
      if (program_.tensors[tensor].type == type) {
        break;
      }
    }
    Expr expr = Expr::read(program_.tensors[tensor].type, access(tensor, loops));
    return expr.type == type ? expr : Expr::cast(type, std::move(expr));
  }

  Access access(std::uint32_t tensor, const std::vector<Loop>& loops) {
    Access result;
    result.tensor = tensor;
    bool needs_else = false;
    for (const std::uint64_t dim : program_.tensors[tensor].dims) {
      result.indices.push_back(index(dim, loops, needs_else));
    }
    if (needs_else || chance(3)) {
      result.otherwise = constant(program_.tensors[tensor].type).literal;
    }
    return result;
  }

  Index index(std::uint64_t dim, const std::vector<Loop>& loops, bool& needs_else) {
    if (loops.empty()) {
      return {Affine::number(draw(static_cast<std::uint32_t>(dim))), {}, {}};
    }
    const std::uint32_t first = draw(static_cast<std::uint32_t>(loops.size()));
    if (chance(8)) {
      for (const std::uint32_t list : indices_) {
        if (program_.tensors[list].dims[0] >= loops[first].extent && chance(60)) {
          needs_else = true;
          return {{}, list, {Affine::loop(first)}};
        }
      }
    }
    for (std::uint32_t i = 0; i < loops.size(); ++i) {
      const std::uint32_t loop = (first + i) % static_cast<std::uint32_t>(loops.size());
      const std::uint64_t extent = loops[loop].extent;
      Affine affine = Affine::loop(loop);
      if (extent == dim) {
        if (chance(8)) {
          needs_else = true;
          affine.constant = chance(50) ? -1 : 2;
        } else if (chance(8)) {
          affine = {static_cast<std::int64_t>(dim) - 1, {{false, loop, -1}}};
        }
        return {affine, {}, {}};
      }
      if (extent < dim && chance(40)) {
        if (dim == 16 && chance(50)) {
          affine.terms.push_back({true, 0, 1});  // row + loop
        } else {
          affine.constant = static_cast<std::int64_t>(draw(static_cast<std::uint32_t>(dim - extent) + 1));
        }
        return {affine, {}, {}};
      }
    }
    if (chance(30)) {
      needs_else = true;
      return {{1, {{false, first, 2}}}, {}, {}};
    }
    return {Affine::number(draw(static_cast<std::uint32_t>(dim))), {}, {}};
  }

  Expr value(Type type, const std::vector<Loop>& loops, int depth) {
    const std::uint32_t kind = draw(12);
    if (depth == 0 || kind < 4) {
      if (chance(20)) {
        return constant(type);
      }
      if (chance(8)) {
        const bool symbol = loops.empty() || chance(50);
        Expr number =
            symbol ? Expr::index_symbol(1) : Expr::index_loop(draw(static_cast<std::uint32_t>(loops.size())));
        return type == Type::kI64 ? number : Expr::cast(type, std::move(number));
      }
      return read(type, loops);
    }
    if (kind == 4) {
      const Type other = kTypes[draw(8)];
      return other == type ? value(type, loops, depth - 1) : Expr::cast(type, value(other, loops, depth - 1));
    }
    if (kind == 5) {
      return Expr::make(Op::kSelect, {value(Type::kBool, loops, depth - 1), value(type, loops, depth - 1),
                                      value(type, loops, depth - 1)});
    }
    return operation(type, loops, depth - 1);
  }

  Expr operation(Type type, const std::vector<Loop>& loops, int depth) {
    const auto binary = [&](Op op, Type operands) {
      Expr left = value(operands, loops, depth);
      return Expr::make(op, {std::move(left), value(operands, loops, depth)});
    };
    if (type == Type::kBool) {
      constexpr Op kLogic[] = {Op::kAnd, Op::kOr};
      constexpr Op kCompare[] = {Op::kLess, Op::kEqual, Op::kGreaterEqual};
      if (chance(30)) {
        return Expr::make(Op::kNot, {value(type, loops, depth)});
      }
      return chance(30) ? binary(kLogic[draw(2)], type) : binary(kCompare[draw(3)], kTypes[draw(7)]);
    }
    if (is_float(type)) {
      constexpr Op kUnary[] = {Op::kNeg, Op::kAbs, Op::kExp, Op::kTanh, Op::kFloor};
      constexpr Op kBinary[] = {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kMin, Op::kMax};
      return chance(30) ? Expr::make(kUnary[draw(5)], {value(type, loops, depth)})
                        : binary(kBinary[draw(6)], type);
    }
    constexpr Op kUnary[] = {Op::kNeg, Op::kBitNot, Op::kAbs};
    constexpr Op kBinary[] = {Op::kAdd,   Op::kSub,    Op::kMul,       Op::kDiv,
                              Op::kMod,   Op::kMax,    Op::kMin,       Op::kBitAnd,
                              Op::kBitOr, Op::kBitXor, Op::kShiftLeft, Op::kShiftRight};
    return chance(20) ? Expr::make(kUnary[draw(3)], {value(type, loops, depth)})
                      : binary(kBinary[draw(12)], type);
  }

  std::mt19937 random_;
  Program program_;
  std::vector<std::uint32_t> readable_;
  std::vector<std::uint32_t> indices_;
};

template <typename T>
void put(std::vector<unsigned char>& bytes, std::size_t element, T value) {
  std::memcpy(bytes.data() + element * sizeof(T), &value, sizeof(T));
}

template <typename T>
T take(const std::vector<unsigned char>& bytes, std::size_t element) {
  T value;
  std::memcpy(&value, bytes.data() + element * sizeof(T), sizeof(T));
  return value;
}

std::vector<unsigned char> input_of(const Tensor& tensor, std::mt19937& random) {
  constexpr float kSpecial[] = {
      -0.0F,  0.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
      1e-41F, 1.0F};
  std::vector<unsigned char> bytes(tensor.byte_count());
  for (std::size_t i = 0; i < tensor.element_count(); ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(random());
    const float number =
        bits % 8 == 0 ? kSpecial[bits / 8 % 6] : (static_cast<float>(bits % 2001) - 1000.0F) / 256.0F;
    const std::int32_t integer = static_cast<std::int32_t>(bits % 9) - 2;
    switch (tensor.type) {
      case Type::kF64:
        put(bytes, i, static_cast<double>(number));
        break;
      case Type::kF32:
        put(bytes, i, number);
        break;
      case Type::kF16:
        put(bytes, i, f32_to_f16(number));
        break;
      case Type::kI32:
        put(bytes, i, integer);
        break;
      case Type::kBool:
        put(bytes, i, static_cast<std::uint8_t>(bits % 2));
        break;
      default:
        put(bytes, i, static_cast<std::uint8_t>(bits % 256));
        break;
    }
  }
  return bytes;
}

void make_nan_one(const Tensor& tensor, std::vector<unsigned char>& bytes) {
  for (std::size_t i = 0; i < tensor.element_count(); ++i) {
    if (tensor.type == Type::kF64 && std::isnan(take<double>(bytes, i))) {
      put(bytes, i, std::numeric_limits<double>::quiet_NaN());
    } else if (tensor.type == Type::kF32 && std::isnan(take<float>(bytes, i))) {
      put(bytes, i, std::numeric_limits<float>::quiet_NaN());
    } else if (tensor.type == Type::kF16 && std::isnan(f16_to_f32(take<std::uint16_t>(bytes, i)))) {
      put(bytes, i, std::uint16_t{0x7e00});
    }
  }
}

}  // namespace

std::optional<program::Program> random_program(std::uint32_t seed) {
  Program program = Generator(seed).make();
  try {
    verify(program);
  } catch (const ProgramError&) {
    return std::nullopt;
  }
  return program;
}

std::vector<std::vector<unsigned char>> results_of(const program::Program& program, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<unsigned char>> memory;
  std::vector<void*> pointers;
  for (const std::uint32_t argument : program.arguments()) {
    memory.push_back(input_of(program.tensors[argument], random));
  }
  for (std::vector<unsigned char>& bytes : memory) {
    pointers.push_back(bytes.data());
  }
  std::vector<std::int64_t> symbols;
  for (const Symbol& symbol : program.symbols) {
    const std::int64_t count = (symbol.high - symbol.low + symbol.step - 1) / symbol.step;
    symbols.push_back(symbol.low +
                      symbol.step * static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count)));
  }
  execute(program, pointers, symbols);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    make_nan_one(program.tensors[program.arguments()[i]], memory[i]);
  }
  return memory;
}

}  // namespace yoke::passes
