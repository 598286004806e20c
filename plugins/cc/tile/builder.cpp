// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/builder.cpp: translates expressions to a kernel's operations.
#include "builder.h"

#include <algorithm>
#include <utility>

namespace yoke::cc {

using program::Expr;
using program::Op;
using program::Type;

KernelBuilder::Value KernelBuilder::fresh(Reg reg, std::uint8_t mask, bool invariant,
                                          std::int64_t element_size) {
  virtuals_.push_back({element_size != 0 ? element_size : reg_size(reg), mask, invariant});
  return {static_cast<std::uint16_t>(virtuals_.size() - 1), mask, reg, invariant};
}

void KernelBuilder::emit(const Instr& instr, bool invariant) {
  (invariant ? kernel_.prologue : *segment_).push_back(instr);
}

KernelBuilder::Value KernelBuilder::expand(Value value, std::uint8_t mask) {
  if (value.mask == mask) {
    return value;
  }
  const std::int64_t size =
      (value.id & kStreamBit) != 0
          ? kernel_.streams[value.id & static_cast<std::uint16_t>(~kStreamBit)].element_size
          : virtuals_[value.id].element_size;
  const auto [known, is_new] = known_.try_emplace(Key{-1, value.id, mask, 0, 0, 0, 0});
  if (is_new) {
    known->second = fresh(value.reg, mask, false, size);
    emit({.kind = Instr::Kind::kExpand,
          .mask = mask,
          .a_mask = value.mask,
          .dst = known->second.id,
          .a = value.id,
          .copy = table_.copy(size)},
         false);
  }
  return known->second;
}

template <class Find>
KernelBuilder::Value KernelBuilder::map_with(const Find& find, int op, Reg type, Reg result, Value a,
                                             const Value* b, const Value* c, std::int64_t element_size) {
  std::uint8_t mask = a.mask;
  bool invariant = a.invariant;
  for (const Value* other : {b, c}) {
    if (other != nullptr) {
      mask = static_cast<std::uint8_t>(mask | other->mask);
      invariant = invariant && other->invariant;
    }
  }
  const Key key{op,   static_cast<int>(type),    static_cast<int>(result), static_cast<int>(element_size),
                a.id, b == nullptr ? -1 : b->id, c == nullptr ? -1 : c->id};
  const auto [known, is_new] = known_.try_emplace(key);
  if (!is_new) {
    return known->second;
  }
  Instr instr{.mask = mask};
  unsigned scalars = 0;
  const auto operand = [&](const Value* value, unsigned bit, std::uint16_t& slot) {
    if (value == nullptr) {
      return;
    }
    if (value->mask == 0 && mask != 0) {
      scalars |= bit;
    }
    slot = value->mask == 0 ? value->id : expand(*value, mask).id;
  };
  operand(&a, kScalarA, instr.a);
  instr.b = instr.c = instr.a;  // missing operands are never read, but must name a valid slot
  operand(b, kScalarB, instr.b);
  operand(c, kScalarC, instr.c);
  instr.map = find(scalars);
  known->second = fresh(result, mask, invariant, element_size);
  instr.dst = known->second.id;
  emit(instr, invariant);
  return known->second;
}

KernelBuilder::Value KernelBuilder::map(MapOp op, Reg result, Value a, const Value* b, const Value* c) {
  const Reg type = op == MapOp::kSelect && b != nullptr ? b->reg : a.reg;
  const auto find = [&](unsigned scalars) { return table_.map(op, type, scalars); };
  const std::int64_t size = op == MapOp::kNarrowF16 || op == MapOp::kNarrowBF16 ? 2 : reg_size(result);
  return map_with(find, static_cast<int>(op), type, result, a, b, c, size);
}

KernelBuilder::Value KernelBuilder::cast_reg(Value value, Reg to, bool to_bool) {
  if (value.reg == to && !to_bool) {
    return value;
  }
  const auto find = [&](unsigned) { return table_.cast(value.reg, to, to_bool); };
  return map_with(find, to_bool ? 1001 : 1000, value.reg, to, value, nullptr, nullptr, reg_size(to));
}

KernelBuilder::Value KernelBuilder::cast(Value value, Type from, Type to) {
  if (from == to) {
    return value;
  }
  if (to == Type::kBool) {
    return cast_reg(value, Reg::kU8, true);
  }
  const Value converted = cast_reg(value, reg_of(to));
  return is_half(to) ? rounded(converted, to) : converted;
}

KernelBuilder::Value KernelBuilder::rounded(Value value, Type type) {
  if (!is_half(type)) {
    return value;
  }
  return map(type == Type::kF16 ? MapOp::kRoundF16 : MapOp::kRoundBF16, Reg::kF32, value);
}

KernelBuilder::Value KernelBuilder::constant(Type type, const program::Literal& literal) {
  const std::uint64_t bytes = stored_bytes(is_half(type) ? Type::kF32 : type, literal);
  const auto found = std::find(kernel_.constants.begin(), kernel_.constants.end(), bytes);
  const auto number = static_cast<std::uint32_t>(found - kernel_.constants.begin());
  if (found == kernel_.constants.end()) {
    kernel_.constants.push_back(bytes);
  }
  const auto [value, is_new] =
      known_.try_emplace(Key{-2, static_cast<int>(reg_of(type)), static_cast<int>(number), 0, 0, 0, 0});
  if (is_new) {
    value->second = fresh(reg_of(type), 0, true);
    emit({.kind = Instr::Kind::kConst, .dst = value->second.id, .extra = number}, true);
  }
  return rounded(value->second, type);
}

KernelBuilder::Value KernelBuilder::loop_value(const Form& form) {
  const auto found = std::find(kernel_.forms.begin(), kernel_.forms.end(), form);
  const auto number = static_cast<std::uint32_t>(found - kernel_.forms.begin());
  if (found == kernel_.forms.end()) {
    kernel_.forms.push_back(form);
  }
  const auto [known, is_new] = known_.try_emplace(Key{-3, static_cast<int>(number), 0, 0, 0, 0, 0});
  if (is_new) {
    const Value value = fresh(Reg::kI64, mask_of(form), !form.has_loops());
    emit({.kind = Instr::Kind::kIota, .mask = value.mask, .dst = value.id, .extra = number}, value.invariant);
    known->second = value;
  }
  return known->second;
}

KernelBuilder::Value KernelBuilder::expression(const Expr& expr) {
  switch (expr.op) {
    case Op::kConst:
      return constant(expr.type, expr.literal);
    case Op::kRead:
      return load(expr.access);
    case Op::kIndex:
      return loop_value(to_kernel(form_of(expr.affine, statement_->loops.size(), program_.symbols.size())));
    case Op::kCast:
      return cast(expression(expr.args[0]), expr.args[0].type, expr.type);
    case Op::kGuard:
      return guarded(expr);
    default:
      return operation(expr);
  }
}

// Computes a float operation and one of its operands in one pass over the tile.
std::optional<KernelBuilder::Value> KernelBuilder::operation_pair(const Expr& expr) {
  struct Pair {
    Op outer;
    Op inner;
    bool on_the_left;  // the inner operation may be the left operand
    MapOp both;
  };
  constexpr Pair kPairs[] = {{Op::kAdd, Op::kMul, true, MapOp::kMulAdd},
                             {Op::kSub, Op::kMul, false, MapOp::kMulSub},
                             {Op::kMul, Op::kSub, true, MapOp::kSubMul},
                             {Op::kMul, Op::kMul, true, MapOp::kMulMul},
                             {Op::kExp, Op::kSub, true, MapOp::kSubExp}};
  for (const Pair& pair : kPairs) {
    for (std::size_t i = expr.args.size(); pair.outer == expr.op && i-- > (pair.on_the_left ? 0U : 1U);) {
      const Expr& inner = expr.args[i];
      if (inner.op != pair.inner || (expr.args.size() == 2 && program::same(expr.args[0], expr.args[1]))) {
        continue;
      }
      const Value a = expression(inner.args[0]);
      const Value b = expression(inner.args[1]);
      if (expr.args.size() == 1) {
        return map(pair.both, a.reg, a, &b);
      }
      const Value c = expression(expr.args[1 - i]);
      return map(pair.both, a.reg, a, &b, &c);
    }
  }
  return std::nullopt;
}

KernelBuilder::Value KernelBuilder::operation(const Expr& expr) {
  if (expr.type == Type::kF32 || expr.type == Type::kF64) {
    if (const auto pair = operation_pair(expr)) {
      return *pair;
    }
  }
  Value args[3];
  for (std::size_t i = 0; i < expr.args.size(); ++i) {
    args[i] = expression(expr.args[i]);
  }
  const Value result =
      map(static_cast<MapOp>(expr.op), reg_of(expr.type), args[0], expr.args.size() > 1 ? &args[1] : nullptr,
          expr.args.size() > 2 ? &args[2] : nullptr);
  return program::op_info(expr.op).is_exact ? result : rounded(result, expr.type);
}

KernelBuilder::Value KernelBuilder::guarded(const Expr& expr) {
  std::vector<Value> reads;
  std::vector<Value>* const outer = std::exchange(inside_, &reads);
  const Value value = expression(expr.args[0]);
  inside_ = outer;
  if (reads.empty()) {
    return value;
  }
  Value inside = reads[0];
  for (std::size_t i = 1; i < reads.size(); ++i) {
    inside = map(MapOp::kBitAnd, Reg::kU8, inside, &reads[i]);
  }
  const Value otherwise = constant(expr.type, expr.literal);
  return map(MapOp::kSelect, value.reg, inside, &value, &otherwise);
}

void KernelBuilder::elementwise() {
  segment_ = &kernel_.body;
  for (place_ = 0; place_ < statements_.size(); ++place_) {
    statement_ = &program_.statements[statements_[place_]];
    const std::size_t first = kernel_.body.size();
    const Type type = program_.tensors[statement_->target.tensor].type;
    Value value;
    if (statement_->reduce) {
      const Type sum_type = statement_->accumulator_type();
      const std::optional<Value> sum = row_reduction();
      if (!sum) {
        continue;
      }
      // Later statements of the kernel read what the tensor would hold.
      value = rounded(cast_reg(*sum, reg_of(sum_type)), sum_type);
      value = cast(value, sum_type, type);
    } else {
      value = cast(expression(statement_->value), statement_->value.type, type);
    }
    if (spans_rows_) {
      const bool has_columns = !statement_->reduce && statement_->loops.size() == loop_count_;
      target_mask_ = static_cast<std::uint8_t>(row_mask_ | (has_columns ? kColumns : 0));
    }
    write(value, first);
  }
}

TileKernel KernelBuilder::build() {
  kernel_.table = &table_;
  statement_ = &program_.statements[statements_[0]];
  schedule();
  if (statement_->reduce && !spans_rows_) {
    reduction();
  } else {
    elementwise();
  }
  finish();
  return std::move(kernel_);
}

KernelBuilder::KernelBuilder(const program::Program& program, std::span<const std::uint32_t> statements,
                             const std::vector<Store>& stores, const KernelTable& table,
                             const Original& original)
    : program_(program), statements_(statements), stores_(stores), table_(table), original_(original) {}

TileKernel build_tile_kernel(const program::Program& program, std::span<const std::uint32_t> statements,
                             const std::vector<Store>& stores, const KernelTable& table,
                             const Original& original) {
  return KernelBuilder(program, statements, stores, table, original).build();
}

}  // namespace yoke::cc
