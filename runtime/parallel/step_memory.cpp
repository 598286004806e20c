// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/step_memory.cpp: what a step will allocate and link, before it does.
#include <yoke/program/program.h>
#include <yoke/runtime/parallel.h>

#include <algorithm>
#include <utility>

#include "parallel/require_function.h"
#include "parallel/strategies.h"
#include "parallel/sum_program.h"
#include "schedule/range.h"

namespace yoke {

std::uint64_t StepPlan::largest_merge(std::size_t arena, std::uint64_t element_count) const {
  const std::uint64_t element = arenas_[arena].element_byte_count();
  std::uint64_t largest = 0;
  for (const detail::RingPiece& piece :
       detail::ring_pieces(element_count, element, strategy_ == MergeStrategy::kRing ? merging_ : 1)) {
    largest = std::max(largest, piece.range.count());
  }
  return largest * (packs(arenas_[arena].type) ? 2 : element);
}

StepMemory StepPlan::memory(std::uint32_t shard) const {
  if (shard >= shards_.size()) {
    throw Error(ErrorCode::kOutOfRange, "step plan: " + detail::outside_text("shard", shard, shards_.size()));
  }
  StepMemory result;
  result.number = has_number_ && (shard == 0 || !shares_parameters_) ? number_count_ * sizeof(double) : 0;
  for (const Arena& arena : arenas_) {
    const std::uint64_t bytes = arena.spec().byte_count();
    const bool has_own = shard == 0 || !shares_parameters_;
    result.parameters += has_own ? set_count_ * bytes : 0;
    result.gradients += shard < merging_ ? bytes : 0;
    if (has_number_ && !arena.is_running_state && shard == 0) {
      result.number += bytes / YOKE_BUFFER_ALIGNMENT * sizeof(double);
    }
    result.state += has_own && has_whole_state(shard) ? set_count_ * states_of(arena).size() * bytes : 0;
    const bool sends = strategy_ == MergeStrategy::kRing ? merging_ > 1 : shard > 0;
    result.wire += packs(arena.type) && sends && shard < merging_ ? bytes + bytes / 2 : 0;
  }
  std::uint64_t largest = 0;  // byte count that is added at once
  for (const Bucket& bucket : buckets_) {
    const std::uint64_t element = arenas_[bucket.arena].element_byte_count();
    largest = std::max(largest, largest_merge(bucket.arena, bucket.range.count()));
    for (const Part& part : measured_parts_of(bucket)) {
      const std::uint64_t pieces = part.range.count() * element / YOKE_BUFFER_ALIGNMENT;
      const std::uint64_t uses = terms_of(part.shard).size() > 1 ? 2 : 1;
      result.number +=
          part.shard == shard && !measures_in_place(bucket, part) ? uses * pieces * sizeof(double) : 0;
    }
    for (const Part& part : parts_of(bucket)) {
      const std::uint64_t states = states_of(arenas_[bucket.arena]).size();
      result.state +=
          !has_whole_state(shard) && part.shard == shard ? states * part.range.count() * element : 0;
    }
  }
  // A shard that cannot read another's gradients in place copies them into its merge buffer.
  const auto copies_from = [&](std::uint32_t from) {
    return merge_use_ == MergeUse::kCopy ||
           !shards_[shard].stream()->device()->can_access(*shards_[from].stream()->device());
  };
  bool copies = false;
  if (strategy_ == MergeStrategy::kTree) {
    for (const auto& [from, to] : merge_pairs(merging_)) {
      copies = copies || (to == shard && copies_from(from));
    }
  } else if (strategy_ == MergeStrategy::kRing && merging_ > 1 && shard < merging_) {
    copies = copies_from((shard + merging_ - 1) % merging_);
  } else if (strategy_ == MergeStrategy::kOwner && shard == 0) {
    for (std::uint32_t from = 1; from < merging_; ++from) {
      copies = copies || copies_from(from);
    }
  }
  result.merge_buffer = copies ? largest : 0;
  return result;
}

StepProgram StepPlan::running_program(const Arena& arena, std::uint64_t count, std::uint32_t terms) const {
  return {detail::running_text(static_cast<program::Type>(arena.type), count, terms, keeps_last_step()),
          detail::kRunningEntry};
}

// As the strategies in strategies.cpp.
void StepPlan::each_merge(
    const std::function<void(std::uint32_t shard, const StepProgram& program)>& visit) const {
  detail::require_function(visit, "step plan: each_merge");
  for (const Bucket& bucket : buckets_) {
    const Arena& arena = arenas_[bucket.arena];
    const auto type = static_cast<program::Type>(arena.type);
    const auto add = [&](std::uint32_t from, std::uint32_t to, std::uint64_t elements) {
      if (elements != 0 && packs(arena.type)) {
        visit(from, {detail::pack_text(elements), detail::kPackEntry});
      }
      if (elements != 0) {
        visit(to, {packs(arena.type) ? detail::unpack_text(elements) : detail::sum_text(type, elements, 2),
                   detail::kSumEntry});
      }
    };
    for (const Part& part : arena.is_running_state ? parts_of(bucket) : std::vector<Part>()) {
      const auto terms = static_cast<std::uint32_t>(terms_of(part.shard).size());
      visit(part.shard, running_program(arena, part.range.count(), terms));
      if (terms != 1) {
        visit(part.shard, running_program(arena, part.range.count(), 1));
      }
    }
    const std::uint64_t count = bucket.range.count();
    const std::uint64_t element = arena.element_byte_count();
    switch (strategy_) {
      case MergeStrategy::kNative:
        break;
      case MergeStrategy::kTree:
        for (const auto& [from, to] : merge_pairs(merging_)) {
          add(from, to, count);
        }
        break;
      case MergeStrategy::kRing:
        for (const detail::RingPiece& piece : detail::ring_pieces(count, element, merging_)) {
          for (std::uint32_t k = 1; k < merging_; ++k) {
            add((piece.first + k) % merging_, (piece.first + k + 1) % merging_, piece.range.count());
          }
        }
        break;
      case MergeStrategy::kDirect:
        for (const auto& round : detail::direct_rounds(merging_)) {
          for (const detail::DirectGroup& group : round) {
            const auto terms = static_cast<std::uint32_t>(group.terms().size());
            for (const detail::Share& share : detail::shares(count, element, group.end - group.first)) {
              if (terms > 1) {
                visit(group.first + share.member,
                      {detail::sum_text(type, share.range.count(), terms), detail::kSumEntry});
              }
            }
          }
        }
        break;
      default:
        for (std::uint32_t from = 1; from < merging_; ++from) {
          add(from, 0, count);
        }
    }
  }
}

std::vector<StatePiece> StepPlan::state_pieces(std::string_view parameter, std::string_view state) const {
  require(Stage::kAllocated, "state_pieces");
  const auto missing = [&] {
    return Error(ErrorCode::kNotFound, "step plan: there is no state '" + std::string(state) +
                                           "' of a parameter '" + std::string(parameter) + "'");
  };
  if (std::find(states_.begin(), states_.end(), state) == states_.end()) {
    throw missing();
  }
  for (std::size_t a = 0; a < arenas_.size(); ++a) {
    const Arena& arena = arenas_[a];
    for (std::size_t m = 0; m < arena.members.size(); ++m) {
      if (parameters_[arena.members[m]].name == parameter) {
        const std::uint64_t bytes = parameters_[arena.members[m]].spec.byte_count();
        const std::uint64_t element = arena.element_byte_count();
        return state_pieces(a, {arena.offsets[m], arena.offsets[m] + bytes / element}, state);
      }
    }
  }
  throw missing();
}

std::vector<StatePiece> StepPlan::state_pieces(std::size_t arena, const Slice& range,
                                               std::string_view state) const {
  std::vector<StatePiece> pieces;
  const std::uint64_t element = arenas_[arena].element_byte_count();
  for (std::uint32_t k = 0; k < shards_.size(); ++k) {
    if (has_whole_state(k) && (k == 0 || !shares_parameters_)) {
      pieces.push_back({k, arena_part(k, arenas_[arena], name_in(set_, state), range), 0});
    }
  }
  for (std::size_t b = 0; !has_whole_state(0) && b < buckets_.size(); ++b) {
    for (const Part& part : parts_of(buckets_[b])) {
      const std::uint64_t begin = std::max(range.begin, part.range.begin);
      const std::uint64_t end = std::min(range.end, part.range.end);
      if (buckets_[b].arena == arena && begin < end) {
        const BufferView& view = shards_[part.shard].tensor(part_name(state, b)).view;
        pieces.push_back(
            {part.shard,
             {view.buffer, view.offset + (begin - part.range.begin) * element, (end - begin) * element},
             (begin - range.begin) * element});
      }
    }
  }
  return pieces;
}

}  // namespace yoke
