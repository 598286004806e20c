// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/builder_memory.cpp: loads and stores of a kernel.
#include <algorithm>
#include <numeric>

#include "builder.h"

namespace yoke::cc {

using program::Access;
using program::Type;

bool caches_tensor(const TileKernel& kernel, std::uint32_t tensor) {
  const auto caches = [&](const Stream& one) { return one.tensor == tensor && !one.past_caches; };
  const auto checks = [&](const Bounded& one) { return one.tensor == tensor; };
  return !kernel.fed && (std::any_of(kernel.streams.begin(), kernel.streams.end(), caches) ||
                         std::any_of(kernel.bounded.begin(), kernel.bounded.end(), checks));
}

std::uint16_t KernelBuilder::stream(std::uint32_t tensor, const Form& form) {
  const auto found = std::find_if(kernel_.streams.begin(), kernel_.streams.end(), [&](const Stream& other) {
    return other.tensor == tensor && other.form == form;
  });
  const auto number = static_cast<std::uint16_t>(found - kernel_.streams.begin());
  if (found == kernel_.streams.end()) {
    const auto size = static_cast<std::int64_t>(program::byte_size(program_.tensors[tensor].type));
    kernel_.streams.push_back({tensor, size, form});
  }
  return number;
}

KernelBuilder::Value KernelBuilder::widened(Value raw, Type type) {
  if (is_half(type)) {
    return map(type == Type::kF16 ? MapOp::kWidenF16 : MapOp::kWidenBF16, Reg::kF32, raw);
  }
  // Every nonzero byte is true.
  return type == Type::kBool ? cast_reg(raw, Reg::kU8, true) : raw;
}

KernelBuilder::Value KernelBuilder::load(const Access& access) {
  const auto forwarded = written_.find(access.tensor);
  if (forwarded != written_.end()) {
    return forwarded->second;
  }
  if (is_bounded(access, false)) {
    return load_bounded(access);
  }
  return load_linear(access.tensor, to_kernel(linear_form(program_, *statement_, access)));
}

KernelBuilder::Value KernelBuilder::load_linear(std::uint32_t tensor, const Form& form) {
  const Type type = program_.tensors[tensor].type;
  const std::uint16_t number = stream(tensor, form);
  const std::uint8_t mask = mask_of(form);
  bool invariant = !form.has_loops();
  for (const std::uint32_t id : statements_) {
    invariant = invariant && program_.statements[id].target.tensor != tensor;
  }
  if (in_place(form, mask)) {
    return widened({static_cast<std::uint16_t>(number | kStreamBit), mask, reg_of(type), invariant}, type);
  }
  const auto [raw, is_new] = known_.try_emplace(Key{-4, number, 0, 0, 0, 0, 0});
  if (is_new) {
    const std::int64_t size = kernel_.streams[number].element_size;
    raw->second = fresh(reg_of(type), mask, false, size);
    emit({.kind = Instr::Kind::kCopyIn,
          .mask = mask,
          .dst = raw->second.id,
          .a = static_cast<std::uint16_t>(number | kStreamBit),
          .extra = number,
          .copy = table_.copy(size)},
         false);
  }
  return widened(raw->second, type);
}

KernelBuilder::Value KernelBuilder::element_value(const program::Index& index) {
  Access element = access_of(index);
  // If the index's own position is out of range, the index is -1, which is out of range in every dimension.
  element.otherwise = program::Literal{-1.0, -1};
  return cast_reg(load(element), Reg::kI64);
}

std::uint32_t KernelBuilder::bounded(const Access& access, std::uint8_t& mask, bool is_target) {
  Bounded result;
  const program::Tensor& tensor = program_.tensors[access.tensor];
  result.tensor = access.tensor;
  result.element_size = static_cast<std::int64_t>(program::byte_size(tensor.type));
  const std::vector<std::uint64_t> strides = strides_of(tensor);
  for (std::size_t i = 0; i < access.indices.size(); ++i) {
    Bounded::Dim dim;
    dim.extent = static_cast<std::int64_t>(tensor.dims[i]);
    dim.stride = static_cast<std::int64_t>(strides[i]);
    if (access.indices[i].element_of) {
      const Value value = element_value(access.indices[i]);
      dim.element = true;
      dim.slot = value.id;
      dim.mask = value.mask;
      mask = static_cast<std::uint8_t>(mask | value.mask);
      result.by_row = result.by_row && (value.mask & kColumns) == 0;
    } else {
      const Form form =
          to_kernel(form_of(access.indices[i].affine, statement_->loops.size(), program_.symbols.size()));
      mask = static_cast<std::uint8_t>(mask | mask_of(form));
      dim.form = static_cast<std::uint32_t>(kernel_.forms.size());
      kernel_.forms.push_back(form);
      dim.divisor = access.indices[i].divisor;
      const std::int64_t period = dim.divisor / std::gcd(dim.divisor, kernel_.schedule.column_step(form));
      result.period = std::min(std::lcm(result.period, std::min(period, kTileElements)), kTileElements);
    }
    result.dims.push_back(dim);
  }
  result.gather = table_.gather(result.element_size);
  result.copy = table_.copy(result.element_size);
  if (is_target) {
    mask = target_mask_;
  }
  if (is_target || !result.by_row) {
    result.offsets = fresh(Reg::kI64, mask, false).id;
  }
  kernel_.element_wise = kernel_.element_wise || !result.by_row;
  kernel_.bounded.push_back(std::move(result));
  return static_cast<std::uint32_t>(kernel_.bounded.size() - 1);
}

KernelBuilder::Value KernelBuilder::load_bounded(const Access& access) {
  const Type type = program_.tensors[access.tensor].type;
  std::uint8_t mask = 0;
  const std::uint32_t number = bounded(access, mask, false);
  Bounded& place = kernel_.bounded[number];
  if (access.otherwise) {
    place.otherwise = stored_bytes(type, *access.otherwise);
  }
  const Value raw = fresh(reg_of(type), mask, false, place.element_size);
  if (inside_ != nullptr && !access.otherwise) {
    const Value inside = fresh(Reg::kU8, mask, false);
    kernel_.bounded[number].tells_inside = true;
    kernel_.bounded[number].inside = inside.id;
    inside_->push_back(inside);
  }
  emit({.kind = Instr::Kind::kBounded, .mask = mask, .dst = raw.id, .extra = number}, false);
  return widened(raw, type);
}

void KernelBuilder::write(Value value, std::size_t first_instr) {
  constexpr MapOp kOps[] = {MapOp::kCopy, MapOp::kAdd, MapOp::kMul, MapOp::kMax, MapOp::kMin};
  const MapOp op = kOps[static_cast<std::size_t>(statement_->assign)];
  const Access& target = statement_->target;
  if (is_bounded(target, true)) {
    scatter(value, op);
    return;
  }
  if (op != MapOp::kCopy) {
    const Value old = load(target);
    value = map(op, old.reg, old, &value);
  }
  if (op == MapOp::kAdd || op == MapOp::kMul) {
    value = rounded(value, program_.tensors[target.tensor].type);
  }
  store(value, first_instr);
}

void KernelBuilder::store(Value value, std::size_t first_instr) {
  const Access& access = statement_->target;
  const Type type = program_.tensors[access.tensor].type;
  const auto writes_later = [&](std::uint32_t tensor) {
    return std::any_of(statements_.begin() + static_cast<std::ptrdiff_t>(place_) + 1, statements_.end(),
                       [&](std::uint32_t id) { return program_.statements[id].target.tensor == tensor; });
  };
  const bool is_stream = (value.id & kStreamBit) != 0;
  if (is_stream && writes_later(kernel_.streams[value.id & static_cast<std::uint16_t>(~kStreamBit)].tensor)) {
    value = map(MapOp::kCopy, value.reg, value);
  }
  written_[access.tensor] = value;
  if (stores_[access.tensor] == Store::kNever || writes_later(access.tensor)) {
    return;
  }
  if (is_half(type)) {
    value = map(type == Type::kF16 ? MapOp::kNarrowF16 : MapOp::kNarrowBF16, Reg::kF32, value);
  }
  const Form form = to_kernel(linear_form(program_, *statement_, access));
  const std::uint8_t mask = target_mask_;
  const std::size_t stream_count = kernel_.streams.size();
  const auto number = stream(access.tensor, form);
  value = expand(value, mask);
  Instr instr{.mask = mask,
              .a_mask = mask,
              .dst = static_cast<std::uint16_t>(number | kStreamBit),
              .a = value.id,
              .extra = number};
  const bool is_unread = kernel_.streams.size() > stream_count;
  if (stores_[access.tensor] == Store::kPastCaches && is_unread && in_place(form, mask) &&
      (mask & kColumns) != 0) {
    kernel_.streams[number].past_caches = true;
    instr.kind = Instr::Kind::kCopyPast;
    emit(instr, false);
    return;
  }
  // A value that was just computed goes directly into the tensor.
  const bool just_made = segment_->size() > first_instr && segment_->back().dst == value.id;
  if (in_place(form, mask) && just_made) {
    virtuals_[value.id].home = number;
    return;
  }
  instr.kind = Instr::Kind::kCopyOut;
  instr.copy = table_.copy(kernel_.streams[number].element_size);
  emit(instr, false);
}

void KernelBuilder::scatter(Value value, MapOp op) {
  const Type type = program_.tensors[statement_->target.tensor].type;
  std::uint8_t mask = 0;
  const std::uint32_t number = bounded(statement_->target, mask, true);
  const Stored stored = type == Type::kF16    ? Stored::kF16
                        : type == Type::kBF16 ? Stored::kBF16
                                              : Stored::kPlain;
  Bounded& target = kernel_.bounded[number];
  target.scatter = table_.scatter(op, reg_of(type), stored);
  target.value_size = reg_size(reg_of(type));
  std::int64_t step = 0;
  for (const Bounded::Dim& dim : target.dims) {
    step += dim.element ? 0 : kernel_.schedule.column_step(kernel_.forms[dim.form]) * dim.stride;
  }
  constexpr std::int64_t kShortRow = 32;  // is as fast element by element
  const Schedule& schedule = kernel_.schedule;
  target.is_contiguous = target.by_row && target.period == 1 && step == 1 &&
                         schedule.loops[static_cast<std::size_t>(schedule.columns)].extent >= kShortRow;
  kernel_.element_wise = kernel_.element_wise || !target.is_contiguous;
  emit({.kind = Instr::Kind::kScatter, .mask = mask, .a = expand(value, mask).id, .extra = number}, false);
}

}  // namespace yoke::cc
