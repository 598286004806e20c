// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/gradient_sum.h: the sum of the gradients of one shard's micro-batches.
#pragma once

#include <yoke/runtime/parallel.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace yoke {

// The order in which gradients are added; left is the earlier micro-batch.
enum class SumOrder {
  kSequence,  // ((0 + 1) + 2) + 3, with one more arena
  kTree       // (0 + 1) + (2 + 3), with log2(count) more arenas; `count` is a power of two
};

// Adds up the gradients of `count` micro-batches in a shard's gradient arenas. Each micro-batch stores its
// gradients in an arena of its level; level 0 is the shard's own. In every step, and for every micro-batch in
// turn, the caller launches its program or calls clear(), and then calls add(). Afterwards the shard's gradients
// are the sum. A micro-batch may be computed in pieces, which are added up in sequence. Needs the gradients of a
// StepPlan to be allocated. The functions that take a number throw Error kOutOfRange if it is not less than `count`,
// which is 0 for a default-constructed sum. A moved-from sum throws Error kFailedPrecondition. Not thread-safe.
class GradientSum {
 public:
  // The number of arenas besides the shard's own, each as large as its gradients.
  // Throws Error kInvalidArgument: `count` is 0, or not a power of two for kTree. `in_pieces`: micro-batches may be
  // computed in pieces; otherwise the functions for later pieces throw Error kFailedPrecondition.
  static std::uint32_t extra_levels(std::uint32_t count, SumOrder order, bool in_pieces = false);

  // Calls `visit` with each program that the constructor will link, once per routine. Error kInvalidArgument: `visit`
  // is empty.
  static void each_sum(std::span<const Arena> arenas, std::uint32_t extra_levels,
                       const std::function<void(const StepProgram& program)>& visit);

  GradientSum() = default;
  // Allocates and links. `parameters` are all that the plan was made for. Throws Error as extra_levels(), and
  // kNotFound if the shard has no gradients.
  GradientSum(const Context& shard, std::span<const Arena> arenas, std::span<const StepParameter> parameters,
              std::uint32_t count, SumOrder order, CodeCache& codes, bool in_pieces = false);

  // Gives `context`, a child of the shard's, the tensors "gradient/<parameter>" that micro-batch `number` stores:
  // its first piece, or every later one. Does nothing for level 0, whose tensors the shard has.
  void adopt_gradients(Context& context, std::uint32_t number, bool is_later_piece = false) const;
  // Links add_bucket() for the buckets of the plan. Throws Error kFailedPrecondition unless the order is kSequence.
  void link_buckets(const StepPlan& plan, CodeCache& codes);

  // These queue work and allocate nothing.
  void add_piece(std::uint32_t number) const;  // adds a later piece to the earlier ones
  void clear(std::uint32_t number) const;      // micro-batch `number` has no rows: its gradients are zero
  void add(std::uint32_t number) const;
  // As add(), for the elements of one bucket: the micro-batch stores its gradients bucket by bucket.
  // Throws Error kFailedPrecondition without link_buckets(), kOutOfRange if the plan has no such bucket.
  void add_bucket(std::uint32_t number, std::size_t bucket) const;

 private:
  std::uint32_t level_of(std::uint32_t number) const;
  void require_levels() const;
  void require_pieces() const;

  std::uint32_t count_ = 0;
  bool in_pieces_ = false;
  SumOrder order_ = SumOrder::kSequence;
  std::vector<StepParameter> parameters_;
  std::vector<std::string> arena_names_;
  std::vector<Context> levels_;                // the shard's context, then one child per extra level
  std::vector<LinkedCollective> adds_;         // adds level i + 1 to level i
  std::vector<LinkedCollective> bucket_adds_;  // of level 1 to level 0, per bucket
};

}  // namespace yoke
