// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/generator_statements.cpp: the forms
// of statements, each valid by construction.
#include <algorithm>

#include "generator_impl.h"

namespace yoke::conformance {

using program::Access;
using program::Assign;
using program::Expr;
using program::Index;
using program::Reduce;
using program::Role;
using program::Tensor;
using program::Type;

namespace {

bool holds(Type wide, Type narrow) {
  if (program::is_float(narrow)) {
    return wide == Type::kF64 || (wide == Type::kF32 && narrow != Type::kF64);
  }
  if (!program::is_integer(narrow) || !program::is_integer(wide)) {
    return false;
  }
  return wide == narrow || wide == Type::kI64 || (narrow == Type::kU8 && wide != Type::kU8);
}

const char* const kLoopNames[] = {"i", "j", "k", "l", "m", "n", "o", "q", "r", "u", "v", "w"};

}  // namespace

void Generator::begin(std::uint32_t target) {
  statement_ = {};
  statement_.target.tensor = target;
}

std::uint32_t Generator::add_loop(std::uint64_t extent) {
  const std::size_t number = statement_.loops.size();
  const std::string name = number < std::size(kLoopNames) ? kLoopNames[number] : "z" + std::to_string(number);
  statement_.loops.push_back({name, extent});
  return static_cast<std::uint32_t>(number);
}

std::uint32_t Generator::add_reduce_loop(std::uint64_t extent) {
  const std::uint32_t loop = add_loop(extent);
  statement_.reduce_loops.push_back(loop);
  return loop;
}

std::uint64_t Generator::iterations() const {
  std::uint64_t count = 1;
  for (const program::Loop& loop : statement_.loops) {
    count *= loop.extent;
  }
  return count;
}

// Adds one to three loops with at most `limit` iterations in total.
void Generator::add_reduce_loops(std::uint64_t limit) {
  limit = std::max<std::uint64_t>(1, std::min(scaled(limit), iteration_limit_ / iterations()));
  const std::uint64_t count = 1 + (chance(35) ? 1 + random_.below(2) : 0);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t size = extent(limit);
    add_reduce_loop(size);
    limit /= size;
  }
}

// Writes every element in its own iteration: usually one loop per dimension, sometimes reversed.
void Generator::whole_target(std::uint32_t target) {
  begin(target);
  for (const std::uint64_t dim : case_.program.tensors[target].dims) {
    Index index;
    if (dim == 1 && chance(50)) {
      index.affine = Affine::number(0);
    } else {
      index.affine = Affine::loop(add_loop(dim));
      if (chance(8)) {
        index.affine.terms[0].coefficient = -1;
        index.affine.constant = static_cast<std::int64_t>(dim) - 1;
      }
    }
    statement_.target.indices.push_back(std::move(index));
  }
}

// One loop per dimension, in order.
void Generator::plain_target(std::uint32_t target) {
  begin(target);
  for (const std::uint64_t dim : case_.program.tensors[target].dims) {
    statement_.target.indices.push_back(at(add_loop(dim)));
  }
}

void Generator::finish(Expr value, std::optional<bool> exact) {
  Known& known = known_[statement_.target.tensor];
  known.exact = known.exact && exact.value_or(is_exact(value));
  known.whole = true;
  statement_.value = std::move(value);
  case_.program.statements.push_back(std::move(statement_));
  statement_ = {};
}

void Generator::map_form(std::optional<Op> op, Type over) {
  Type type = over;
  if (op) {
    std::vector<Expr> shape(3, Expr::constant(over, 0));
    type = program::op_info(*op).family == program::Family::kSpecial ? over
                                                                     : Expr::make(*op, std::move(shape)).type;
    type = has(type) ? type : over;
  }
  const std::uint32_t target = add_result(type, dims(rank(), iteration_limit_ / 8));
  whole_target(target);
  Expr made = op ? apply(*op, over, 1, false) : value(type, 1 + static_cast<int>(random_.below(3)), false);
  if (made.type != type) {
    made = Expr::cast(type, std::move(made));
  }
  finish(std::move(made));
}

// Returns a tensor that was already written, or a new inout argument.
std::optional<std::uint32_t> Generator::writable(bool number) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < known_.size(); ++i) {
    const Tensor& tensor = case_.program.tensors[i];
    if (known_[i].whole && tensor.role != Role::kIn && (!number || tensor.type != Type::kBool)) {
      found.push_back(i);
    }
  }
  if (!found.empty() && chance(60)) {
    return found[random_.below(found.size())];
  }
  const auto type = number ? type_where(is_number) : std::optional(number_type());
  if (!type) {
    return std::nullopt;
  }
  return add_tensor(*type, dims(rank(), 600), Role::kInOut, DataKind::kDyadic);
}

void Generator::in_place_form() {
  const auto target = writable(true);
  if (!target) {
    return map_form({}, number_type());
  }
  whole_target(*target);
  const Type type = case_.program.tensors[*target].type;
  Expr self = Expr::read(type, statement_.target);
  Expr other = value(type, static_cast<int>(random_.below(2)), chance(60));
  const Op op = one_of({Op::kAdd, Op::kSub, Op::kMin, Op::kMax, Op::kMul});
  Expr made = chance(50) ? Expr::make(op, {std::move(self), std::move(other)})
                         : Expr::make(op, {std::move(other), std::move(self)});
  finish(std::move(made));
}

// Two statements that write the halves of a new tensor.
void Generator::split_form() {
  Dims size = dims(std::max<std::size_t>(1, std::min<std::size_t>(rank(), 4)), 600);
  size[0] = std::max<std::uint64_t>(size[0], 2);
  const Type type = number_type();
  const std::uint32_t target = add_result(type, size);
  const std::uint64_t cut = 1 + random_.below(size[0] - 1);
  for (const bool upper : {false, true}) {
    whole_target(target);
    Index first;
    if (statement_.target.indices[0].affine.terms.empty()) {
      return;  // unreachable: a dimension of at least 2 has a loop
    }
    statement_.loops[0].extent = upper ? size[0] - cut : cut;
    first.affine = Affine::loop(0);
    first.affine.constant = upper ? static_cast<std::int64_t>(cut) : 0;
    statement_.target.indices[0] = first;
    finish(value(type, 1, false));
  }
}

Assign Generator::random_assign() {
  return one_of({Assign::kAdd, Assign::kMul, Assign::kMax, Assign::kMin});
}

// Writes a slice, a stride or one row of a tensor that already has values.
void Generator::partial_form() {
  const auto target = writable(true);
  if (!target) {
    return map_form({}, number_type());
  }
  begin(*target);
  const Dims size = case_.program.tensors[*target].dims;
  for (const std::uint64_t dim : size) {
    const auto limit = static_cast<std::int64_t>(dim);
    Affine affine;
    switch (random_.below(5)) {
      case 0:
        affine.constant = random_.between(0, limit - 1);
        break;
      case 1: {
        const std::int64_t stride = random_.between(1, std::min<std::int64_t>(3, limit));
        affine.constant = random_.between(0, stride - 1);
        const std::int64_t count = (limit - 1 - affine.constant) / stride + 1;
        add_term(affine, false, add_loop(static_cast<std::uint64_t>(random_.between(1, count))), stride);
        break;
      }
      case 2: {
        for (std::uint32_t symbol = 0; symbol < case_.program.symbols.size(); ++symbol) {
          Affine wanted = Affine::symbol(symbol);
          const Range values = range(wanted);
          if (values.high - values.low < limit && affine.terms.empty()) {
            affine = wanted;
            affine.constant = random_.between(-values.low, limit - 1 - values.high);
          }
        }
        break;
      }
      default:
        affine = Affine::loop(add_loop(dim));
    }
    statement_.target.indices.push_back({affine, {}, {}});
  }
  const Type type = case_.program.tensors[*target].type;
  statement_.assign = chance(60) ? Assign::kSet : random_assign();
  Expr made = statement_.assign == Assign::kMul ? read_new(type, DataKind::kUnit) : value(type, 1, false);
  finish(std::move(made));
}

// Chooses compatible types for target, accumulator and value. Returns nothing if the mask has none.
std::optional<Generator::Accumulation> Generator::accumulation(std::optional<Type> target) {
  const auto chosen = target ? target : type_where(is_number);
  if (!chosen || *chosen == Type::kBool) {
    return std::nullopt;
  }
  Accumulation types{*chosen, {}, *chosen};
  const bool half = program::byte_size(*chosen) == 2;
  if (!half && chance(60)) {
    return types;
  }
  std::vector<Type> accumulators;
  for (const Type type : {Type::kF64, Type::kF32, Type::kI64, Type::kI32, Type::kU32, Type::kU8}) {
    if (has(type) && program::is_float(type) == program::is_float(*chosen)) {
      accumulators.push_back(type);
    }
  }
  if (accumulators.empty()) {
    return std::nullopt;
  }
  types.accumulator = accumulators[random_.below(accumulators.size())];
  std::vector<Type> values;
  for (const Type type :
       {Type::kF64, Type::kF32, Type::kF16, Type::kBF16, Type::kI64, Type::kI32, Type::kU32, Type::kU8}) {
    if (has(type) && holds(*types.accumulator, type)) {
      values.push_back(type);
    }
  }
  types.value = half && holds(*types.accumulator, *chosen) && chance(50)
                    ? *chosen
                    : values[random_.below(values.size())];
  return types;
}

DataKind Generator::kind_for(Reduce reduce) {
  return reduce == Reduce::kProd ? DataKind::kUnit : any_kind();
}

void Generator::reduce_form(Reduce reduce) {
  // Sums of i64, which need 64 bits, are more frequent than those of the other types.
  const bool needs_i64 = reduce == Reduce::kSum && has(Type::kI64) && chance(20);
  const auto types = accumulation(needs_i64 ? std::optional(Type::kI64) : std::nullopt);
  if (!types) {
    return map_form({}, number_type());
  }
  const std::uint32_t target = add_result(types->target, dims(std::min<std::size_t>(rank(), 4), 300));
  whole_target(target);
  statement_.reduce = reduce;
  add_reduce_loops(reduce == Reduce::kProd ? 12 : chance(25) ? 4000 : 100);
  statement_.accumulator = types->accumulator;
  const bool sums = reduce == Reduce::kSum && program::is_float(types->target);
  // Sums of integers of all magnitudes show whether the accumulator holds them.
  const bool wide = reduce == Reduce::kSum && program::is_integer(types->value) && chance(75);
  Expr made = wide ? read_new(types->value, DataKind::kWide)
              : reduce == Reduce::kProd || chance(40)
                  ? read_new(types->value, kind_for(reduce))
                  : value(types->value, 1 + static_cast<int>(random_.below(2)), chance(50));
  const bool exact = is_exact(made) && !sums;
  finish(std::move(made), exact);
  if (chance(30)) {
    epilogue(target);
  }
}

void Generator::accumulate_form() {
  const auto target = writable(true);
  const auto types = target ? accumulation(case_.program.tensors[*target].type) : std::nullopt;
  if (!types) {
    return map_form({}, number_type());
  }
  whole_target(*target);
  statement_.assign = random_assign();
  const bool product = statement_.assign == Assign::kMul;
  if (chance(60)) {
    statement_.reduce =
        product ? Reduce::kProd : one_of({Reduce::kSum, Reduce::kSum, Reduce::kMin, Reduce::kMax});
    add_reduce_loops(product ? 6 : 60);
    statement_.accumulator = types->accumulator;
  }
  const Type type = statement_.reduce ? types->value : types->target;
  Expr made = product || chance(40) ? read_new(type, product ? DataKind::kUnit : any_kind())
                                    : value(type, 1, chance(60));
  if (type == types->target && !product && chance(20)) {  // the element that it accumulates to
    made = Expr::make(one_of({Op::kMul, Op::kSub}), {Expr::read(type, statement_.target), std::move(made)});
  }
  const bool exact = is_exact(made) && statement_.reduce != Reduce::kSum;
  finish(std::move(made), exact);
}

void Generator::arg_form(Reduce reduce) {
  const auto type = type_where([](Type one) { return one == Type::kI32 || one == Type::kI64; });
  const auto over = type_where(is_number);
  if (!type || !over) {
    return map_form({}, number_type());
  }
  const std::uint32_t target = add_result(*type, dims(std::min<std::size_t>(rank(), 4), 300));
  whole_target(target);
  statement_.reduce = reduce;
  add_reduce_loop(extent(std::max<std::uint64_t>(1, iteration_limit_ / iterations())));
  Expr made = chance(60) ? read_new(*over, any_kind()) : value(*over, 1, true);
  finish(std::move(made), true);
}

void Generator::bool_reduce_form(Reduce reduce) {
  if (!has(Type::kBool)) {
    return map_form({}, number_type());
  }
  const std::uint32_t target = add_result(Type::kBool, dims(std::min<std::size_t>(rank(), 4), 300));
  whole_target(target);
  statement_.reduce = reduce;
  add_reduce_loops(40);
  Expr made = value(Type::kBool, 1, true);
  finish(std::move(made), true);
}

// y = max(y + bias, 0) and similar statements after a sum, which backends often fuse with it.
void Generator::epilogue(std::uint32_t from) {
  const Tensor source = case_.program.tensors[from];
  if (!known_[from].whole || source.type == Type::kBool) {
    return;
  }
  const std::uint32_t target = chance(40) ? from : add_result(source.type, source.dims);
  if (case_.program.tensors[target].role == Role::kIn) {
    return;
  }
  plain_target(target);
  Access access = statement_.target;
  access.tensor = from;
  Expr sum = Expr::read(source.type, std::move(access));
  if (chance(70)) {
    sum = Expr::make(one_of({Op::kAdd, Op::kAdd, Op::kSub, Op::kMul}),
                     {std::move(sum), read_new(source.type, DataKind::kDyadic)});
  }
  if (chance(60)) {
    sum = Expr::make(Op::kMax, {std::move(sum), Expr::constant(source.type, 0)});
  } else if (program::is_float(source.type) && chance(50)) {
    sum = Expr::make(one_of({Op::kTanh, Op::kSigmoid}), {std::move(sum)});
  }
  finish(std::move(sum));
}

}  // namespace yoke::conformance
