// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/collective.h: tensors merged over shards:
// gradients on the owner, sums on all shards.
#pragma once

#include <yoke/runtime/context.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace yoke {

enum class Reduction { kMean, kSum };

// How gradients are summed. Each strategy fixes the order of the sum by shard number, independent of timing.
enum class MergeStrategy {
  // kDirect if every device can access every other's memory, else kOwner for two shards and kTree for more.
  kAuto,
  // ((0 + 1) + 2) + 3, on the owner.
  kOwner,
  // (0 + 2) + (1 + 3): in pairs, each on its receiver.
  kTree,
  // ((0 + 1) + 2) + 3: shard k sums slice k of all shards, reading them in place.
  kDirect
};
// "auto", "owner", "tree", "direct"; "unknown" for another number.
const char* merge_strategy_name(MergeStrategy strategy);
// Throws Error kInvalidArgument, which lists the names.
MergeStrategy merge_strategy_by_name(std::string_view name);

// The pairs (from, to) of a tree that ends at shard 0; for 4 shards (2,0)
// (3,1) (1,0). Every shard but 0 is `from` once.
std::vector<std::pair<std::uint32_t, std::uint32_t>> merge_pairs(std::uint32_t shard_count);
// Calls `merge` for each of these pairs, in order. Throws Error kInvalidArgument if it is empty.
void parallel_merge(std::uint32_t shard_count,
                    const std::function<void(std::uint32_t from, std::uint32_t to)>& merge);

// The elements [begin, end) of a flat tensor that one shard works on. Slices begin at multiples of 256
// bytes (YOKE_BUFFER_ALIGNMENT) and may be empty.
struct Slice {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
// Throws Error kInvalidArgument unless element_byte_count is between 1 and 256.
std::vector<Slice> slices(std::uint64_t element_count, std::uint64_t element_byte_count,
                          std::uint32_t shard_count);

// Whether every device of `contexts` can access every other's buffers.
bool memory_is_shared(std::span<const Context> contexts);

// Resolves kAuto for these contexts. Throws Error kFailedPrecondition for kDirect if memory is not shared.
MergeStrategy resolve_strategy(MergeStrategy strategy, std::span<const Context> contexts);

// Sums the tensor `node` over contexts, one per shard, into the first context's. Linked once; run() only
// queues, does not allocate, and leaves the other contexts' tensors undefined. Precondition: all tensors
// have the same type and shape.
class GradientMerge {
 public:
  GradientMerge(std::span<const Context> contexts, std::string_view node, MergeStrategy strategy,
                MergeUse use = MergeUse::kStreaming);
  void run() const;
  MergeStrategy strategy() const { return strategy_; }

 private:
  void link_pair(const Context& to, const Context& from, std::string_view node, MergeUse use);
  void link_slices(std::span<const Context> contexts, std::string_view node);

  struct Step {
    Transfer transfer;
    bool has_transfer = false;
    LinkedRoutine add;
  };
  MergeStrategy strategy_;
  std::vector<Step> steps_;
};

// Copies the first context's tensor to the others. Skips contexts that share its memory.
class Broadcast {
 public:
  Broadcast(std::span<const Context> contexts, std::string_view node);
  void run() const;

 private:
  std::vector<Transfer> transfers_;
};

// The result of a collective that may still be running.
class CollectiveTensor {
 public:
  CollectiveTensor(ContextTensor tensor, Event filled)
      : tensor_(std::move(tensor)), filled_(std::move(filled)) {}
  // Makes later work on `consumer` wait for the collective, without blocking the host.
  const ContextTensor& resolve(Stream& consumer) const;
  // Precondition: the caller has ordered its work after the collective.
  const ContextTensor& assume_resolved() const { return tensor_; }
  // Throws the collective's error.
  bool is_done() const { return filled_.is_done(); }
  const Event& filled() const { return filled_; }

 private:
  ContextTensor tensor_;
  Event filled_;
};

// Computes the sum or mean of `input` over all shards into `output` on every shard. Linked once. The
// gradient of a shard's input is the same reduction over the gradients of all outputs, so a backward pass
// is a second AllReduce over those.
class AllReduce {
 public:
  // Allocates `output` in each context that has none.
  AllReduce(std::span<Context> contexts, std::string_view input, std::string_view output,
            Reduction reduction);
  // Returns one result per shard. A moved-from AllReduce throws Error kFailedPrecondition.
  std::vector<CollectiveTensor> run() const;

 private:
  std::vector<Context> contexts_;
  std::string output_;
  ContextTensor owner_input_, owner_output_;
  struct Step {
    Transfer transfer;
    LinkedRoutine add;
  };
  std::vector<Step> steps_;
  std::vector<LinkedRoutine> scale_;  // empty for a sum
  std::vector<Broadcast> broadcast_;
};

}  // namespace yoke
