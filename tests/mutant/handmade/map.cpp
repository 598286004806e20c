// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/map.cpp: statements without a reduction, 16 elements at a time.
#include <yoke/program/access.h>

#include "kernels.h"

namespace yoke::handmade {
namespace {

class MapKernel final : public Kernel {
 public:
  MapKernel(const program::Program& program, const program::Statement& statement, Formula formula,
            Walk target)
      : loops_(statement.loops),
        assign_(statement.assign),
        formula_(std::move(formula)),
        target_(std::move(target)) {
    // The loop along which the target is contiguous, else the last one.
    inner_ = loops_.empty() ? 0 : loops_.size() - 1;
    for (std::size_t i = 0; i < loops_.size(); ++i) {
      inner_ = target_.strides[i] == 1 && loops_[i].extent > 1 ? i : inner_;
    }
    for (std::uint32_t i = 0; i < loops_.size(); ++i) {
      if (i != inner_) {
        outer_.push_back(i);
      }
    }
    if (bug("merged_rows") && !outer_.empty()) {
      merge_rows();
    }
    is_copy_ = assign_ == program::Assign::kSet && formula_.nodes.size() == 1 && formula_.reads.size() == 1;
    // With the bug trailing_index only: the dimension has one index here, but the rows before it have all its elements.
    if (bug("trailing_index") && is_copy_ && !loops_.empty() && target_.strides[inner_] == 1 &&
        formula_.reads[0].strides[inner_] > 1 && statement.value.access.indices.back().affine.terms.empty()) {
      formula_.reads[0].strides[inner_] = 1;
    }
    // With the bug tail_overwrite only: other memory may follow the last element.
    overwrites_tail_ = bug("tail_overwrite") && !loops_.empty() &&
                       std::all_of(formula_.reads.begin(), formula_.reads.end(), [&](const Walk& read) {
                         return read.strides[inner_] == 0 || read.strides[inner_] == 1;
                       });
    is_aligned_ = bug("assumed_alignment") && is_copy_ && !loops_.empty() &&
                  !(is_contiguous(target_) && is_contiguous(formula_.reads[0])) &&
                  has_even_strides(program, target_) && has_even_strides(program, formula_.reads[0]);
  }

  void run(const Launch& launch) const override {
    with_type(formula_.type, [&](auto zero) { run_typed<decltype(zero)>(launch); });
  }

 private:
  bool is_contiguous(const Walk& walk) const {
    std::int64_t stride = 1;
    for (std::size_t i = loops_.size(); i-- > 0; stride *= static_cast<std::int64_t>(loops_[i].extent)) {
      if (loops_[i].extent > 1 && walk.strides[i] != stride) {
        return false;
      }
    }
    return true;
  }
  // Whether rows are contiguous and all strides of the tensor are multiples of 16, which a compiler takes for
  // alignment. With the bug assumed_alignment only: the first element need not be aligned.
  bool has_even_strides(const program::Program& program, const Walk& walk) const {
    const std::vector<std::uint64_t> strides = program::strides_of(program.tensors[walk.tensor]);
    return walk.strides[inner_] == 1 && std::all_of(strides.begin(), strides.end(), [](std::uint64_t stride) {
             return stride == 1 || stride % 16 == 0;
           });
  }
  static void check_alignment(const void* row) {
    if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) {
      throw sdk::Failure(YOKE_STATUS_INTERNAL, "misaligned address");
    }
  }

  // Makes one row of all rows along the last outer loop, if they are contiguous.
  void merge_rows() {
    const std::uint32_t outer = outer_.back();
    const auto extent = static_cast<std::int64_t>(loops_[inner_].extent);
    const auto follows = [&](const Walk& walk) {
      return walk.strides[outer] == extent * walk.strides[inner_];
    };
    if (target_.strides[inner_] == 1 && follows(target_) &&
        std::all_of(formula_.reads.begin(), formula_.reads.end(),
                    [&](const Walk& read) { return read.strides[inner_] == 0 || follows(read); })) {
      loops_[inner_].extent *= loops_[outer].extent;
      outer_.pop_back();
    }
  }

  template <class T>
  void run_typed(const Launch& launch) const {
    Lanes<T> lanes(formula_, launch, inner_);
    T* const target = target_.base<T>(launch);
    const auto extent = static_cast<std::int64_t>(loops_.empty() ? 1 : loops_[inner_].extent);
    const std::int64_t stride = loops_.empty() ? 1 : target_.strides[inner_];
    const bool is_direct =
        assign_ == program::Assign::kSet && stride == 1 && (!formula_.reads_target || bug("aliased_target"));
    std::vector<std::int64_t> counters(loops_.size());
    do {
      lanes.start(counters);
      T* const row = target + target_.at(counters);
      if (is_aligned_) {
        check_alignment(row);
        check_alignment(formula_.reads[0].base<T>(launch) + formula_.reads[0].at(counters));
      }
      for (std::int64_t i = 0; i < extent; i += kLanes) {
        i = bug("overlapping_tail") && extent > kLanes ? std::min(i, extent - kLanes) : i;
        const std::size_t count = static_cast<std::size_t>(std::min(kLanes, extent - i));
        if (is_direct) {
          lanes.evaluate(i, overwrites_tail_ ? kLanes : count, row + i);
          continue;
        }
        std::array<T, kLanes> value{};
        lanes.evaluate(i, count, value.data());
        for (std::size_t lane = 0; lane < count; ++lane) {
          T& element = row[(i + static_cast<std::int64_t>(lane)) * stride];
          element = assigned(assign_, element, value[lane]);
        }
      }
    } while (advance(loops_, outer_, counters));
  }

  std::vector<program::Loop> loops_;
  program::Assign assign_;
  Formula formula_;
  Walk target_;
  bool is_copy_ = false;     // of one tensor
  bool is_aligned_ = false;  // with the bug assumed_alignment
  bool overwrites_tail_ = false;
  std::size_t inner_;
  std::vector<std::uint32_t> outer_;
};

}  // namespace

std::unique_ptr<Kernel> map_kernel(const program::Program& program, const program::Statement& statement) {
  std::optional<Walk> target = walk_of(program, statement, statement.target);
  if (statement.reduce || !target || program.tensors[target->tensor].type != statement.value.type) {
    return nullptr;
  }
  std::optional<Formula> formula = formula_of(program, statement);
  if (!formula) {
    return nullptr;
  }
  return std::make_unique<MapKernel>(program, statement, std::move(*formula), std::move(*target));
}

}  // namespace yoke::handmade
