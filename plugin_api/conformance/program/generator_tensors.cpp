// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/generator_tensors.cpp: contractions,
// convolutions, gathers, scatters, softmax, random bits.
#include <algorithm>
#include <utility>

#include "generator_impl.h"

namespace yoke::conformance {

using program::Access;
using program::Assign;
using program::Expr;
using program::Reduce;
using program::Role;

namespace {

template <class T>
void shuffle(std::vector<T>& values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[random.below(i)]);
  }
}

}  // namespace

// For each loop of a contraction's target: 0 if both factors use it, 1 if only the left one does, 2 if only
// the right one does.
std::vector<std::uint64_t> Generator::loop_kinds() {
  std::vector<std::uint64_t> kinds;
  for (std::uint64_t kind = 0; kind < 3; ++kind) {
    kinds.insert(
        kinds.end(),
        kind == 0 ? random_.below(4) / 3 + random_.below(2) : random_.below(4) / 2 + (chance(70) ? 1 : 0),
        kind);
  }
  kinds.resize(std::min<std::size_t>(kinds.size(), 6));
  shuffle(kinds, random_);
  return kinds;
}

// sum[k..] a * b with any number of batch, row, column and inner indices, in any order in each tensor.
void Generator::contraction_form() {
  const auto types = accumulation({});
  if (!types) {
    return map_form({}, number_type());
  }
  const std::vector<std::uint64_t> kinds = loop_kinds();
  const Dims sizes = dims(kinds.size(), iteration_limit_ / 8);
  const bool adds = chance(25);
  const std::uint32_t target = adds ? add_tensor(types->target, sizes, Role::kInOut, DataKind::kDyadic)
                                    : add_result(types->target, sizes);
  plain_target(target);
  statement_.assign = adds ? Assign::kAdd : Assign::kSet;
  statement_.reduce = Reduce::kSum;
  statement_.accumulator = types->accumulator;
  add_reduce_loops(iteration_limit_);
  const DataKind kind = one_of(
      {DataKind::kDyadic, DataKind::kDyadic, DataKind::kUniform, DataKind::kUniform, DataKind::kSparse});
  // Products of narrow types are usually computed in the accumulator's type.
  const bool widen = types->accumulator && chance(60);
  const Type product = widen ? *types->accumulator : types->value;
  const auto operand = [&](std::uint64_t mine) {
    std::vector<std::uint32_t> loops = statement_.reduce_loops;
    for (std::uint32_t loop = 0; loop < kinds.size(); ++loop) {
      if (kinds[loop] == 0 || kinds[loop] == mine) {
        loops.push_back(loop);
      }
    }
    loops.resize(std::min<std::size_t>(loops.size(), 8));
    shuffle(loops, random_);
    Access access;
    Dims size;
    for (const std::uint32_t loop : loops) {
      Affine affine = Affine::loop(loop);
      std::uint64_t dim = statement_.loops[loop].extent;
      if (chance(12)) {
        const auto pad = static_cast<std::int64_t>(random_.below(4));
        affine.constant = random_.between(0, pad);
        dim += static_cast<std::uint64_t>(pad);
      } else if (!case_.program.symbols.empty() && chance(15)) {
        const Range values = range(Affine::symbol(0));
        add_term(affine, true, 0, 1);
        affine.constant = -values.low;
        dim += static_cast<std::uint64_t>(values.high - values.low);
      }
      access.indices.push_back({affine, {}, {}});
      size.push_back(dim);
    }
    access.tensor = add_tensor(types->value, size, Role::kIn, kind);
    Expr read = Expr::read(types->value, std::move(access));
    return widen && product != types->value ? Expr::cast(product, std::move(read)) : read;
  };
  Expr left = operand(1);
  Expr right = operand(2);
  finish(Expr::make(Op::kMul, {std::move(left), std::move(right)}), !program::is_float(types->target));
  if (chance(50)) {
    epilogue(target);
  }
}

// y[n, o, h..] = sum[c, kh..] (x[n, c, stride * h + dilation * kh - pad] else 0) * w[o, c, kh..], or the
// gradient's form, x[n, c, (h + pad - dilation * kh) / stride]
void Generator::convolution_form() {
  const auto types = accumulation({});
  if (!types) {
    return map_form({}, number_type());
  }
  const std::size_t space = 1 + random_.below(2);
  Dims sizes = {1 + random_.below(3), 1 + random_.below(5)};
  for (std::size_t i = 0; i < space; ++i) {
    sizes.push_back(1 + random_.below(space == 1 ? 24 : 9));
  }
  const std::uint32_t target = add_result(types->target, sizes);
  plain_target(target);
  statement_.reduce = Reduce::kSum;
  statement_.accumulator = types->accumulator;
  const std::uint64_t channels = 1 + random_.below(4);
  const std::uint32_t channel = add_reduce_loop(channels);
  Access image{0, {at(0), at(channel)}, {}};
  Access kernel{0, {at(1), at(channel)}, {}};
  Dims image_size = {sizes[0], channels};
  Dims kernel_size = {sizes[1], channels};
  bool leaves = false;
  const bool backward = chance(40);
  for (std::size_t i = 0; i < space; ++i) {
    const std::uint64_t taps = 1 + random_.below(4);
    const std::uint32_t tap = add_reduce_loop(taps);
    const std::int64_t stride = random_.between(1, 3);
    const std::int64_t dilation = random_.between(1, 2);
    const std::int64_t pad = chance(50) ? random_.between(0, static_cast<std::int64_t>(taps)) : 0;
    Affine affine;
    affine.constant = backward ? pad : -pad;
    add_term(affine, false, static_cast<std::uint32_t>(2 + i), backward ? 1 : stride);
    add_term(affine, false, tap, backward ? -dilation : dilation);
    Range reach = range(affine);
    const std::int64_t divisor = backward ? stride : 1;
    reach.high /= divisor;
    const std::int64_t size = std::max<std::int64_t>(1, reach.high + 1 - (chance(50) ? pad : 0));
    leaves = leaves || reach.low < 0 || reach.high >= size || divisor != 1;
    image.indices.push_back({affine, {}, {}, divisor});
    kernel.indices.push_back(at(tap));
    image_size.push_back(static_cast<std::uint64_t>(size));
    kernel_size.push_back(taps);
  }
  // A guard of the product yields 0 also where the kernel is infinite or NaN.
  const bool guards = chance(40);
  const DataKind kind = chance(50) ? DataKind::kDyadic : DataKind::kUniform;
  image.tensor = add_tensor(types->value, image_size, Role::kIn, kind);
  kernel.tensor =
      add_tensor(types->value, kernel_size, Role::kIn, guards && chance(50) ? DataKind::kSpecial : kind);
  const program::Literal otherwise = Expr::constant(types->value, chance(85) ? 0 : 1).literal;
  if (!guards && (leaves || chance(20))) {
    image.otherwise = otherwise;
  }
  Expr product = Expr::make(Op::kMul, {Expr::read(types->value, image), Expr::read(types->value, kernel)});
  finish(guards ? Expr::guard(std::move(product), otherwise) : std::move(product),
         !program::is_float(types->target));
  if (chance(30)) {
    epilogue(target);
  }
}

// A value of one or two operands, whose reads may be out of range without an `else`.
Expr Generator::guarded(Type type, int depth, bool exact) {
  const bool outer = std::exchange(in_guard_, true);
  Expr made = value(type, depth - 1, exact);
  if (type == Type::kBool) {
    made = Expr::make(Op::kNot, {std::move(made)});
  } else if (made.op == Op::kRead || chance(60)) {
    made = Expr::make(one_of({Op::kAdd, Op::kMul, Op::kMax}), {std::move(made), value(type, 0, exact)});
  }
  in_guard_ = outer;
  return Expr::guard(std::move(made), literal(type));
}

void Generator::gather_form() {
  if (!type_where(program::is_integer)) {
    return map_form({}, number_type());
  }
  const Type type =
      chance(80) ? number_type() : type_where([](Type) { return true; }).value_or(number_type());
  const std::uint32_t target = add_result(type, dims(1 + random_.below(3), 1500));
  whole_target(target);
  Access access;
  Dims size;
  const std::size_t gathered = 1 + random_.below(2);
  for (std::size_t i = 0; i < gathered; ++i) {
    size.push_back(extent(scaled(40)));
    access.indices.push_back(gather_index(size.back()));
  }
  for (std::uint32_t loop = 0; loop < statement_.loops.size() && access.indices.size() < 6; ++loop) {
    if (chance(50) && statement_.loops[loop].extent <= 64) {
      size.push_back(statement_.loops[loop].extent);
      access.indices.insert(access.indices.begin() + static_cast<std::ptrdiff_t>(random_.below(2)), at(loop));
      if (access.indices.front() == at(loop)) {
        std::rotate(size.begin(), size.end() - 1, size.end());
      } else {
        std::rotate(size.begin() + 1, size.end() - 1, size.end());
      }
    }
  }
  access.tensor = add_tensor(type, size, Role::kIn, any_kind());
  access.otherwise = literal(type);
  Expr made = Expr::read(type, std::move(access));
  if (chance(30) && type != Type::kBool) {
    made = Expr::make(Op::kAdd, {std::move(made), value(type, 0, true)});
  }
  finish(std::move(made));
}

// y[idx[b], j] += x[b, j]
void Generator::scatter_form() {
  const auto target = type_where(program::is_integer) ? writable(true) : std::nullopt;
  if (!target || case_.program.tensors[*target].dims.empty()) {
    return map_form({}, number_type());
  }
  begin(*target);
  const Dims size = case_.program.tensors[*target].dims;
  const std::size_t by_element = random_.below(size.size());
  for (std::size_t dim = 0; dim < size.size(); ++dim) {
    if (dim == by_element || chance(15)) {
      const bool existing = !statement_.loops.empty() && chance(25);
      const std::uint32_t loop = existing ? 0 : add_loop(extent(scaled(200)));
      const Type type = type_where(program::is_integer).value_or(Type::kI32);
      const std::uint32_t indices = add_tensor(type, {statement_.loops[loop].extent}, Role::kIn,
                                               DataKind::kIndex, static_cast<std::int64_t>(size[dim]));
      statement_.target.indices.push_back({{}, indices, {Affine::loop(loop)}});
    } else if (chance(15)) {
      statement_.target.indices.push_back(
          {Affine::number(static_cast<std::int64_t>(random_.below(size[dim]))), {}, {}});
    } else {
      statement_.target.indices.push_back(at(add_loop(size[dim])));
    }
    if (iterations() > iteration_limit_) {
      for (program::Loop& loop : statement_.loops) {
        loop.extent = std::min<std::uint64_t>(loop.extent, 2);
      }
    }
  }
  const Type type = case_.program.tensors[*target].type;
  statement_.assign = chance(60) ? Assign::kAdd : random_assign();
  const bool product = statement_.assign == Assign::kMul;
  std::optional<Accumulation> types;
  if (chance(20)) {
    types = accumulation(type);
  }
  if (types) {
    statement_.reduce = product ? Reduce::kProd : one_of({Reduce::kSum, Reduce::kMax});
    statement_.accumulator = types->accumulator;
    add_reduce_loops(product ? 3 : 8);
  }
  const Type over = types ? types->value : type;
  Expr made = product || chance(50) ? read_new(over, product ? DataKind::kUnit : DataKind::kDyadic)
                                    : value(over, 1, chance(60));
  finish(std::move(made), statement_.assign != Assign::kAdd || !program::is_float(type));
}

// y[b * i + j]: two loops that share a dimension.
void Generator::radix_form() {
  const Type type = number_type();
  const std::uint64_t low = 1 + random_.below(6);
  const std::uint64_t high = extent(scaled(100));
  Dims size = dims(random_.below(3), 60);
  size.insert(size.begin() + static_cast<std::ptrdiff_t>(random_.below(size.size() + 1)), low * high);
  const std::uint32_t target = add_result(type, size);
  begin(target);
  bool done = false;
  for (const std::uint64_t dim : size) {
    if (dim != low * high || done) {
      statement_.target.indices.push_back(at(add_loop(dim)));
      continue;
    }
    done = true;
    Affine affine;
    const std::uint32_t outer = add_loop(high);
    add_term(affine, false, outer, static_cast<std::int64_t>(low));
    add_term(affine, false, add_loop(low), 1);
    statement_.target.indices.push_back({affine, {}, {}});
  }
  Expr made = value(type, 1 + static_cast<int>(random_.below(2)), false);
  finish(std::move(made));
}

// Counter-based random bits, usually converted to numbers in 0..1.
void Generator::random_form() {
  if (!has(Type::kI64) || !has(Type::kU32)) {
    return map_form({}, number_type());
  }
  const auto real = type_where([](Type type) { return type == Type::kF32 || type == Type::kF64; });
  const Type type = real && chance(60) ? *real : Type::kU32;
  const std::uint32_t target = add_result(type, dims(1 + random_.below(3), 1500));
  whole_target(target);
  const auto word = [&] {
    return chance(40) ? value(Type::kI64, 1, true)
                      : Expr::constant(Type::kI64, static_cast<double>(random_.between(-5, 1'000'000'007)));
  };
  Expr seed = word();
  Expr stream = word();
  Expr counter = statement_.loops.empty()
                     ? word()
                     : Expr::index_loop(static_cast<std::uint32_t>(random_.below(statement_.loops.size())));
  if (chance(50)) {
    counter = Expr::make(Op::kAdd, {std::move(counter), word()});
  }
  Expr bits = Expr::make(Op::kRandomBits, {std::move(seed), std::move(stream), std::move(counter)});
  if (type != Type::kU32) {
    bits = Expr::make(Op::kShiftRight, {std::move(bits), Expr::constant(Type::kU32, 8)});
    bits = Expr::make(Op::kMul, {Expr::cast(type, std::move(bits)), Expr::constant(type, 0x1p-24)});
  }
  finish(std::move(bits), true);
}

// The four statements of a softmax over the last dimension, usually with a hint.
void Generator::softmax_form() {
  const auto real = type_where([](Type type) { return type == Type::kF32 || type == Type::kF64; });
  if (!real) {
    return map_form({}, number_type());
  }
  const Dims rows = dims(random_.below(3), 100);
  Dims all = rows;
  all.push_back(extent(scaled(300)));
  const std::uint32_t x =
      add_tensor(*real, all, Role::kIn, chance(50) ? DataKind::kUniform : DataKind::kWide);
  const std::uint32_t highest = add_tensor(*real, rows, Role::kTemp, DataKind::kDyadic);
  const std::uint32_t powers = add_tensor(*real, all, Role::kTemp, DataKind::kDyadic);
  const std::uint32_t total =
      add_tensor(*real, rows, chance(30) ? Role::kOut : Role::kTemp, DataKind::kDyadic);
  const std::uint32_t y = add_tensor(*real, all, Role::kOut, DataKind::kDyadic);
  const auto start = [&](std::uint32_t target, bool reduces) {
    plain_target(target);
    if (reduces) {
      add_reduce_loop(all.back());
    }
  };
  const auto read_at = [&](std::uint32_t tensor) {
    Access access{tensor, {}, {}};
    for (std::uint32_t i = 0; i < case_.program.tensors[tensor].dims.size(); ++i) {
      access.indices.push_back(at(i));
    }
    return Expr::read(*real, std::move(access));
  };
  const auto hint = static_cast<std::int32_t>(case_.program.hints.size());
  const std::size_t first = case_.program.statements.size();
  start(highest, true);
  statement_.reduce = Reduce::kMax;
  finish(read_at(x), true);
  start(powers, false);
  finish(Expr::make(Op::kExp, {Expr::make(Op::kSub, {read_at(x), read_at(highest)})}), false);
  start(total, true);
  statement_.reduce = Reduce::kSum;
  finish(read_at(powers), false);
  start(y, false);
  finish(Expr::make(Op::kDiv, {read_at(powers), read_at(total)}), false);
  if (chance(60) && hint == 0) {
    case_.program.hints.push_back({"softmax", {}});
    for (std::size_t i = first; i < case_.program.statements.size(); ++i) {
      case_.program.statements[i].hint = hint;
    }
  }
}

}  // namespace yoke::conformance
