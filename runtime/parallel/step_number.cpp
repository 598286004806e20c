// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/step_number.cpp: a number over all gradients of a step, which updates read.
#include <yoke/runtime/parallel.h>

#include "parallel/require_function.h"
#include "schedule/range.h"

namespace yoke {

namespace {

constexpr const char* kPieces = "pieces";  // both in contexts and as an argument

TensorSpec numbers(std::uint64_t count) {
  return {YOKE_TYPE_F64, {count}};
}

std::uint64_t piece_size(const Arena& arena) {
  return YOKE_BUFFER_ALIGNMENT / arena.element_byte_count();
}

}  // namespace

void StepPlan::check_number(const StepNumber& number) const {
  if (has_number_ != static_cast<bool>(number.measure) || has_number_ != static_cast<bool>(number.combine)) {
    throw Error(ErrorCode::kInvalidArgument,
                has_number_ ? "step plan: link: has_number is set, but a function of the number is empty"
                            : "step plan: link: there is a function for a number; set has_number, too");
  }
}

// What each shard measures: what it updates, if it alone has that part of the sum; else the owner measures all.
std::vector<StepPlan::Part> StepPlan::measured_parts_of(const Bucket& bucket) const {
  if (!has_number_ || arenas_[bucket.arena].is_running_state) {
    return {};
  }
  return placement_ == Placement::kSharded ? parts_of(bucket) : std::vector<Part>{{0, bucket.range}};
}

void StepPlan::each_measure(const std::function<void(const UpdateShape& shape)>& visit) const {
  detail::require_function(visit, "step plan: each_measure");
  for (const Bucket& bucket : buckets_) {
    for (const Part& part : measured_parts_of(bucket)) {
      const std::size_t terms = terms_of(part.shard).size();
      visit(shape_of(bucket, part, terms));
      if (terms != 1) {
        visit(shape_of(bucket, part, 1));
      }
    }
  }
}

TensorSpec StepPlan::number_spec() const {
  return number_count_ > 1 ? numbers(number_count_) : TensorSpec{YOKE_TYPE_F64, {}};
}

void StepPlan::allocate_pieces() {
  for (const Arena& arena : arenas_) {
    if (has_number_ && !arena.is_running_state && !shards_[0].has(arena.name(kPieces))) {
      shards_[0].allocate(arena.name(kPieces), numbers(arena.element_count / piece_size(arena)));
    }
  }
}

void StepPlan::allocate_number() {
  if (!has_number_) {
    return;
  }
  for (std::size_t k = shards_.size(); k-- > 0;) {
    if ((k == 0 || !shares_parameters_) && !shards_[k].has(kNumber)) {
      shards_[k].allocate(kNumber, number_spec());
    }
  }
  for (std::size_t k = 1; shares_parameters_ && k < shards_.size(); ++k) {
    if (!shards_[k].has(kNumber)) {
      shards_[k].adopt(kNumber, number_spec(), shards_[0].tensor(kNumber).view);
    }
  }
}

// Only what begins at a multiple of the alignment can be written in place. The rest is copied.
bool StepPlan::measures_in_place(const Bucket& bucket, const Part& part) const {
  const std::uint64_t first = part.range.begin / piece_size(arenas_[bucket.arena]);
  return part.shard == 0 && first * sizeof(double) % YOKE_BUFFER_ALIGNMENT == 0;
}

LinkedCollective StepPlan::link_measure(const StepNumber& number, const Bucket& bucket, bool after_collect) {
  LinkedCollective all;
  LinkedCollective copies;
  const Arena& arena = arenas_[bucket.arena];
  for (const Part& part : measured_parts_of(bucket)) {
    const std::vector<std::uint32_t> terms =
        after_collect ? std::vector<std::uint32_t>{0} : terms_of(part.shard);
    Context own = workers_[part.shard].child();
    for (std::size_t i = 0; i < terms.size(); ++i) {
      own.adopt("gradient_" + std::to_string(i), {arena.type, {part.range.count()}},
                arena_part(terms[i], arena, "gradients", part.range));
    }
    if (number_count_ > 1) {
      own.adopt("number", number_spec(), shards_[part.shard].tensor(kNumber).view);
    }
    const std::uint64_t first = part.range.begin / piece_size(arena);
    const std::uint64_t count = part.range.count() / piece_size(arena);
    const BufferView& pieces = shards_[0].tensor(arena.name(kPieces)).view;
    const BufferView target = {pieces.buffer, pieces.offset + first * sizeof(double), count * sizeof(double)};
    if (measures_in_place(bucket, part)) {
      own.adopt(kPieces, numbers(count), target);
    } else {
      own.allocate(kPieces, numbers(count));
    }
    const StepProgram program = number.measure(shape_of(bucket, part, terms.size()));
    const auto code = codes_->get(own.stream()->device(), program.text);
    all.add(own.link(code, program.entry, program.rename));
    if (!measures_in_place(bucket, part)) {
      Context owner = workers_[0].child();
      owner.adopt(kPieces, numbers(count), target);
      copies.add(own.stream());
      copies.add(device_to_device(kPieces, MergeUse::kNone, owner, own));
    }
  }
  all.add(std::move(copies));
  return all;
}

void StepPlan::link_number(const StepNumber& number) {
  if (!has_number_) {
    return;
  }
  const StepProgram program = number.combine();
  Context own = workers_[0].child();
  for (std::size_t a = 0; a < arenas_.size(); ++a) {
    if (!arenas_[a].is_running_state) {
      const ContextTensor& pieces = shards_[0].tensor(arenas_[a].name(kPieces));
      own.adopt("pieces_" + std::to_string(a), pieces.spec, pieces.view);
    }
  }
  own.adopt("number", number_spec(), shards_[0].tensor(kNumber).view);
  const auto code = codes_->get(own.stream()->device(), program.text);
  combine_ = {};
  combine_.add(own.link(code, program.entry, program.rename));
  if (placement_ != Placement::kOwner || (number_count_ > 1 && merging_ > 1)) {
    combine_.add(group_->broadcast(kNumber));
  }
}

}  // namespace yoke
