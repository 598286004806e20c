// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/map.cpp: statements without a reduction, 16 elements at a time.
#include "kernels.h"

namespace yoke::handmade {
namespace {

class MapKernel final : public Kernel {
 public:
  MapKernel(const program::Statement& statement, Formula formula, Walk target)
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
  }

  void run(const Launch& launch) const override {
    with_type(formula_.type, [&](auto zero) { run_typed<decltype(zero)>(launch); });
  }

 private:
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
      for (std::int64_t i = 0; i < extent; i += kLanes) {
        i = bug("overlapping_tail") && extent > kLanes ? std::min(i, extent - kLanes) : i;
        const std::size_t count = static_cast<std::size_t>(std::min(kLanes, extent - i));
        if (is_direct) {
          lanes.evaluate(i, count, row + i);
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
  return std::make_unique<MapKernel>(statement, std::move(*formula), std::move(*target));
}

}  // namespace yoke::handmade
