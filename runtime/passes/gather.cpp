// SPDX-License-Identifier: Apache-2.0
// runtime/passes/gather.cpp: moves statements up to an earlier region that they fit, and scalar statements out of its
// way.
#include "region.h"

namespace yoke::passes {
namespace {

// The most statements that a statement may move past.
constexpr std::size_t kWindow = 16;

class Gathering {
 public:
  Gathering(const Graph& graph, const Summaries& summaries, const Places& order)
      : graph_(graph),
        order_(order),
        bytes_(bytes_in_use(graph, order)),
        peak_(static_cast<std::int64_t>(peak_bytes(graph, order))),
        region_(graph, summaries),
        is_done_(graph.size(), false),
        lives_(lives_in(graph, order)),
        is_read_(graph.program().tensors.size(), 0),
        is_written_(graph.program().tensors.size(), 0) {}

  // Returns the new order. With a window of 0, the order stays the same.
  Places run(std::size_t window) {
    for (std::size_t k = 0; k < order_.size(); ++k) {
      if (!is_done_[order_[k]]) {
        take(k);
        if (!graph_.is_grouped(order_[k]) && region_.start(order_[k])) {
          grow(k, window);
        }
      }
    }
    return std::move(result_);
  }

  std::uint64_t worth() const { return worth_; }
  // Of scalars that are computed earlier than before.
  std::uint64_t scalar_bytes() const { return scalar_bytes_; }

 private:
  void take(std::size_t k) {
    is_done_[order_[k]] = true;
    result_.push_back(order_[k]);
  }

  void grow(std::size_t first, std::size_t window) {
    ++version_;
    extra_bytes_ = 0;
    bytes_passed_ = 0;
    std::size_t passed = 0;
    std::size_t size = 1;  // statements of the region before others move to it
    Numbers named;
    std::size_t begin = result_.size() - 1;  // of the region, in the result
    for (std::size_t k = first + 1; k < order_.size() && passed <= window; ++k) {
      const Place next = order_[k];
      if (is_done_[next]) {
        continue;
      }
      if (window != 0 && goes_before(next)) {
        is_done_[next] = true;
        result_.insert(result_.begin() + static_cast<std::ptrdiff_t>(begin++), next);
        scalar_bytes_ += byte_size(graph_.target_of(next).type);
        continue;
      }
      if (passed == 0 ? adds(next, true) : moves(k)) {
        take(k);
        continue;
      }
      if (passed++ == 0) {
        size = region_.statements().size();
        named = region_.named();
      }
      pass(next);
      bytes_passed_ = std::max(bytes_passed_, static_cast<std::int64_t>(bytes_[k]));
    }
    if (bytes_passed_ + extra_bytes_ > peak_) {
      undo(size, named);
    }
    worth_ += region_.worth();
  }

  void pass(Place i) {
    is_written_[graph_.at(i).target.tensor] = version_;
    for (const std::uint32_t tensor : graph_.reads(i)) {
      is_read_[tensor] = version_;
    }
  }

  void undo(std::size_t size, const Numbers& named) {
    for (; region_.statements().size() > size; region_.cut(region_.statements().size() - 1, named)) {
      is_done_[result_.back()] = false;
      result_.pop_back();
    }
  }

  // Adds a statement if the region is then worth more. It gives up loops only for the statement that directly
  // follows it.
  bool adds(Place next, bool follows) {
    const Numbers named = region_.named();
    const std::size_t size = region_.statements().size();
    const std::uint64_t before = region_.worth();
    if (region_.add(next) && region_.worth() > before &&
        (follows || region_.named().size() == named.size())) {
      return true;
    }
    if (region_.statements().size() != size) {
      region_.cut(size, named);
    }
    return false;
  }

  bool is_passed_in_conflict(Place i) const {
    const std::uint32_t target = graph_.at(i).target.tensor;
    const std::vector<std::uint32_t>& reads = graph_.reads(i);
    return is_read_[target] == version_ || is_written_[target] == version_ ||
           std::any_of(reads.begin(), reads.end(),
                       [&](std::uint32_t tensor) { return is_written_[tensor] == version_; });
  }

  // Whether a statement is scalar, and can run before the region and all that was passed.
  bool goes_before(Place next) const {
    const std::uint32_t target = graph_.at(next).target.tensor;
    return graph_.at(next).loops.empty() && !graph_.is_grouped(next) && !is_passed_in_conflict(next) &&
           std::none_of(region_.statements().begin(), region_.statements().end(), [&](Place i) {
             const std::uint32_t written = graph_.at(i).target.tensor;
             return written == target || graph_.reads(next, written) || graph_.reads(i, target);
           });
  }

  // Moves a statement to the region, past statements that the region does not take.
  bool moves(std::size_t k) {
    const Place next = order_[k];
    if (is_passed_in_conflict(next)) {
      return false;
    }
    std::int64_t allocated = 0;
    std::int64_t freed = 0;
    graph_.for_each_use(next, [&](std::uint32_t tensor) {
      const Tensor& used = graph_.program().tensors[tensor];
      if (used.role == Role::kTemp) {
        const auto bytes = static_cast<std::int64_t>(used.byte_count());
        allocated += lives_[tensor].first == k ? bytes : 0;
        freed += lives_[tensor].end == k + 1 && is_read_[tensor] != version_ ? bytes : 0;
      }
    });
    // While the moved statement runs, memory may exceed the peak by 1/64. grow() undoes moves if the total
    // stays higher.
    if (bytes_passed_ + extra_bytes_ + allocated > peak_ + peak_ / 64 || !adds(next, false)) {
      return false;
    }
    extra_bytes_ += allocated - freed;
    return true;
  }

  const Graph& graph_;
  const Places& order_;
  std::vector<std::uint64_t> bytes_;  // bytes in use during each statement of the order
  std::int64_t peak_;
  Region region_;
  std::vector<bool> is_done_;
  Places result_;
  std::vector<Span> lives_;  // by tensor, in the order
  // By tensor: the version_ of the last region for which a passed statement reads or writes it.
  std::vector<std::uint64_t> is_read_;
  std::vector<std::uint64_t> is_written_;
  std::uint64_t version_ = 0;
  std::int64_t bytes_passed_ = 0;  // the most bytes in use during a passed statement
  std::int64_t extra_bytes_ = 0;   // bytes that the moved statements add to bytes_passed_
  std::uint64_t worth_ = 0;
  std::uint64_t scalar_bytes_ = 0;
};

}  // namespace

Places gathered(const Graph& graph, const Summaries& summaries, const Places& order) {
  Gathering before(graph, summaries, order);
  before.run(0);
  Gathering after(graph, summaries, order);
  Places result = after.run(kWindow);
  const bool is_better = after.worth() > before.worth() &&
                         peak_bytes(graph, result) <= peak_bytes(graph, order) + after.scalar_bytes();
  return is_better ? result : order;
}

}  // namespace yoke::passes
