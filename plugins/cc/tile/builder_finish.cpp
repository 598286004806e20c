// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/builder_finish.cpp: translates reductions and allocates a kernel's registers.
#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "builder.h"

namespace yoke::cc {

using program::Reduce;
using program::Type;

namespace {

// The sizes of the parts of a reduction, which depend only on its reduced loops.
constexpr std::int64_t kMostParts = 64;
constexpr std::int64_t kPartRows = 2 * kFoldRows;
constexpr std::int64_t kPartTiles = 16;

static_assert(static_cast<int>(ReduceOp::kArgMin) == static_cast<int>(Reduce::kArgMin));
ReduceOp reduce_op(Reduce reduce) {
  return static_cast<ReduceOp>(reduce);
}

template <class T>
std::uint64_t neutral_of(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  T value{};
  switch (op) {
    case ReduceOp::kProd:
    case ReduceOp::kAll:
      value = T{1};
      break;
    case ReduceOp::kMin:
    case ReduceOp::kArgMin:
      value = Limits::has_infinity ? Limits::infinity() : Limits::max();
      break;
    case ReduceOp::kMax:
    case ReduceOp::kArgMax:
      value = Limits::has_infinity ? static_cast<T>(-Limits::infinity()) : Limits::lowest();
      break;
    default:
      break;
  }
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, &value, sizeof(value));
  return bytes;
}

std::uint64_t neutral(ReduceOp op, Reg reg) {
  return with_type(reg, [&](auto zero) { return neutral_of<decltype(zero)>(op); });
}

// Allocates registers in scratch memory and reuses the ones that were released.
class Registers {
 public:
  explicit Registers(std::size_t count) : offsets_(count), placed_(count, false) {}

  void place(std::size_t id, std::uint64_t byte_count, bool reuse) {
    if (placed_[id]) {
      return;
    }
    placed_[id] = true;
    const auto found = free_.find(byte_count);
    if (found != free_.end() && reuse) {
      offsets_[id] = found->second;
      free_.erase(found);
    } else {
      offsets_[id] = static_cast<std::uint32_t>(top_);
      top_ += byte_count;
    }
  }
  void release(std::size_t id, std::uint64_t byte_count) {
    if (placed_[id]) {
      free_.emplace(byte_count, offsets_[id]);
    }
  }
  const std::vector<std::uint32_t>& offsets() const { return offsets_; }
  std::uint64_t byte_count() const { return top_; }

 private:
  std::vector<std::uint32_t> offsets_;
  std::vector<bool> placed_;
  std::multimap<std::uint64_t, std::uint32_t> free_;  // bytes, offset
  std::uint64_t top_ = 0;
};

}  // namespace

std::int64_t rows_per_part(std::int64_t rows) {
  return std::max(kPartRows, (rows + kMostParts * kFoldRows - 1) / (kMostParts * kFoldRows) * kFoldRows);
}

// Decides how a reduction of `value` runs.
Reduction& KernelBuilder::begin_reduction(Value value) {
  const program::Statement& statement = *statement_;
  const program::Statement& original = original_.program == nullptr
                                           ? statement
                                           : original_.program->statements[original_.first + statements_[0]];
  const Schedule& schedule = kernel_.schedule;
  const bool columns = schedule.columns_reduced();
  const ReduceOp op = reduce_op(*statement.reduce);
  const bool is_float = value.reg == Reg::kF32 || value.reg == Reg::kF64;
  const bool float_sum = op == ReduceOp::kSum && is_float;
  std::int64_t terms = 1;
  std::int64_t tiles = 1;
  for (const std::uint32_t loop : original.reduce_loops) {
    terms *= static_cast<std::int64_t>(original.loops[loop].extent);
  }
  for (const TileLoop& loop : schedule.loops) {
    tiles *= loop.reduce ? (loop.extent + loop.chunk - 1) / loop.chunk : 1;
  }
  Reduction& reduce = kernel_.reduction.emplace();
  reduce.by_columns = columns;
  reduce.fn = table_.reduce(op, value.reg, columns);
  reduce.type = value.reg;
  reduce.acc_type = float_sum && columns ? Reg::kF64 : value.reg;
  reduce.neutral = neutral(op, reduce.acc_type);
  reduce.arg = op == ReduceOp::kArgMax || op == ReduceOp::kArgMin;
  reduce.folds = float_sum && !columns && terms > kFoldRows;
  reduce.result_type = reduce.folds ? Reg::kF64 : reduce.acc_type;
  reduce.combine = table_.reduce(op, reduce.result_type, false);
  reduce.units = columns ? tiles : terms;
  reduce.part_units =
      columns ? std::max(kPartTiles, (tiles + kMostParts - 1) / kMostParts) : rows_per_part(terms);
  reduce.part_count = (reduce.units + reduce.part_units - 1) / reduce.part_units;
  reduce.by_parts = reduce.part_count > 1 && is_float && (float_sum || op == ReduceOp::kProd);
  reduce.mask = schedule.rows_reduced() || columns ? target_mask_ : present_;
  reduce.value = value.id;
  return reduce;
}

// Reduces each row of the tile to one value, in the same order as a kernel of its own. If the statement is a
// carried sum, adds the rows to it and returns nothing.
std::optional<KernelBuilder::Value> KernelBuilder::row_reduction() {
  const program::Expr& expr = statement_->value;
  const Type type = statement_->accumulator_type();
  const bool columns = statement_->reduce_loops[0] + 1 == statement_->loops.size();
  const ReduceOp op = reduce_op(*statement_->reduce);
  const bool float_sum = op == ReduceOp::kSum && is_float(type);
  Instr instr{.kind = columns ? Instr::Kind::kReduce : Instr::Kind::kCarry, .mask = present_};
  Value value;
  if (float_sum && !is_half(type) && expr.op == program::Op::kMul && expr.type == type) {
    value = expand(expression(expr.args[0]), present_);
    instr.b = expand(expression(expr.args[1]), present_).id;
    instr.product_sum = table_.product_sum(value.reg, columns);
  } else {
    value = expand(cast(expression(expr), expr.type, type), present_);
    instr.b = value.id;
  }
  instr.a = instr.c = value.id;
  if (!columns) {
    instr.dst = value.id;
    instr.extra = carry_count_++;
    emit(instr, false);
    return std::nullopt;
  }
  const Reg acc_type = float_sum ? Reg::kF64 : value.reg;
  const Value acc = fresh(acc_type, row_mask_, false);
  instr.dst = acc.id;
  instr.extra = static_cast<std::uint32_t>(kernel_.row_reductions.size());
  kernel_.row_reductions.push_back({table_.reduce(op, value.reg, true), acc_type, neutral(op, acc_type)});
  emit(instr, false);
  return acc;
}

void KernelBuilder::reduction() {
  const program::Statement& statement = *statement_;
  segment_ = &kernel_.body;
  Value value = cast(expression(statement.value), statement.value.type, statement.accumulator_type());
  value = expand(value, present_);
  Reduction& reduce = begin_reduction(value);
  // Accumulators keep their values from tile to tile.
  Value result = fresh(reduce.acc_type, reduce.mask, true);
  reduce.acc = result.id;
  result.invariant = false;
  if (reduce.folds) {
    result = fresh(Reg::kF64, reduce.mask, true);
    result.invariant = false;
    reduce.total = result.id;
  }
  if (reduce.by_parts) {
    reduce.whole = fresh(reduce.result_type, reduce.mask, true).id;
  }
  if (reduce.arg) {
    result = fresh(Reg::kI64, reduce.mask, true);
    result.invariant = false;
    reduce.index = result.id;
  }

  // The epilogue runs after the last tile of the body: values that depend on the tile are no longer valid.
  std::erase_if(known_, [](const auto& entry) { return !entry.second.invariant; });
  segment_ = &kernel_.epilogue;
  const Type type = program_.tensors[statement.target.tensor].type;
  if (reduce.arg) {
    value = cast(result, Type::kI64, type);
  } else {
    value = cast(cast_reg(result, reg_of(statement.accumulator_type())), statement.accumulator_type(), type);
  }
  write(value, 0);
}

void KernelBuilder::finish() {
  allocate();
  const auto fix = [&](std::uint16_t& id) {
    if (id < virtuals_.size() && virtuals_[id].home >= 0) {
      id = static_cast<std::uint16_t>(virtuals_[id].home | kStreamBit);
    }
    if ((id & kStreamBit) != 0) {
      id =
          static_cast<std::uint16_t>(kernel_.register_count + (id & static_cast<std::uint16_t>(~kStreamBit)));
    }
  };
  for (std::vector<Instr>* segment : {&kernel_.prologue, &kernel_.body, &kernel_.epilogue}) {
    for (Instr& instr : *segment) {
      for (std::uint16_t* id : {&instr.dst, &instr.a, &instr.b, &instr.c}) {
        fix(*id);
      }
    }
  }
  for (Bounded& bounded : kernel_.bounded) {
    fix(bounded.offsets);
    fix(bounded.inside);
    for (Bounded::Dim& dim : bounded.dims) {
      fix(dim.slot);
    }
  }
  if (kernel_.reduction) {
    fix(kernel_.reduction->value);
  }
}

// For each register, the position of the last operation that uses it.
std::vector<std::size_t> KernelBuilder::last_uses(const std::vector<const Instr*>& order) const {
  std::vector<std::size_t> last(virtuals_.size(), 0);
  const auto use = [&](std::uint16_t id, std::size_t at) {
    if (id < virtuals_.size()) {  // otherwise a stream, or the unused operand of a kernel without registers
      last[id] = std::max(last[id], at);
    }
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const std::uint16_t id : {order[i]->dst, order[i]->a, order[i]->b, order[i]->c}) {
      use(id, i);
    }
    if (order[i]->kind == Instr::Kind::kBounded || order[i]->kind == Instr::Kind::kScatter) {
      const Bounded& bounded = kernel_.bounded[order[i]->extra];
      use(bounded.offsets, i);
      use(bounded.inside, bounded.tells_inside ? i : 0);
      for (const Bounded::Dim& dim : bounded.dims) {
        use(dim.slot, dim.element ? i : 0);
      }
    }
  }
  if (kernel_.reduction) {
    use(kernel_.reduction->value, kernel_.prologue.size() + kernel_.body.size());
  }
  return last;
}

// Allocates registers by liveness: a value's bytes are free after its last use.
void KernelBuilder::allocate() {
  std::vector<const Instr*> order;
  for (const std::vector<Instr>* segment : {&kernel_.prologue, &kernel_.body, &kernel_.epilogue}) {
    for (const Instr& instr : *segment) {
      order.push_back(&instr);
    }
  }
  const std::vector<std::size_t> last = last_uses(order);
  Registers registers(virtuals_.size());
  const auto bytes_of = [&](std::size_t id) -> std::uint64_t {
    const Virtual& value = virtuals_[id];
    return value.mask == 0 ? 64 : static_cast<std::uint64_t>(value.element_size * kTileElements);
  };
  const auto place = [&](std::size_t id) {
    if (id < virtuals_.size() && virtuals_[id].home < 0) {
      registers.place(id, bytes_of(id), !virtuals_[id].persistent);
    }
  };
  std::vector<std::vector<std::size_t>> dying(order.size());
  for (std::size_t id = 0; id < virtuals_.size(); ++id) {
    if (virtuals_[id].persistent) {
      place(id);
    } else if (virtuals_[id].home < 0 && last[id] < order.size()) {
      dying[last[id]].push_back(id);
    }
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Instr& instr = *order[i];
    const auto release = [&] {
      for (const std::size_t id : dying[i]) {
        registers.release(id, bytes_of(id));
      }
      dying[i].clear();
    };
    // A map may overwrite an operand of the same size. Other operations reorder elements and must not.
    if (instr.kind == Instr::Kind::kMap && instr.dst < virtuals_.size() && last[instr.dst] > i) {
      release();
    }
    if (instr.kind == Instr::Kind::kBounded || instr.kind == Instr::Kind::kScatter) {
      const Bounded& bounded = kernel_.bounded[instr.extra];
      place(bounded.offsets);
      if (bounded.tells_inside) {
        place(bounded.inside);
      }
    }
    if (instr.kind != Instr::Kind::kScatter) {
      place(instr.dst);
    }
    release();
  }
  kernel_.register_count = static_cast<std::uint16_t>(virtuals_.size());
  kernel_.register_offset = registers.offsets();
  kernel_.scratch_byte_count = (registers.byte_count() + 63) / 64 * 64;
}

}  // namespace yoke::cc
