// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/collective.h: tensors merged over shards: gradients onto the owner, sums onto
// everybody.
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

// How gradients come together. Within one strategy the order of the sum is fixed by shard number, never by
// timing.
enum class MergeStrategy {
  kAuto,  // direct where every device can read every other's memory in place, else owner for two shards, tree
          // for more
  kOwner,  // ((0 + 1) + 2) + 3, on the owner
  kTree,   // pairs towards 0, each on the receiver: (0 + 2) + (1 + 3)
  kDirect  // shard k sums slice k of everybody's, in place: ((0 + 1) + 2) + 3
};
const char* merge_strategy_name(MergeStrategy strategy);      // "owner"
MergeStrategy merge_strategy_by_name(std::string_view name);  // Error kInvalidArgument lists the names

// Pairs (from, to) of a tree towards 0; n = 4: (2,0) (3,1) (1,0). Every shard is `from` once, but 0.
std::vector<std::pair<std::uint32_t, std::uint32_t>> merge_pairs(std::uint32_t shard_count);
void parallel_merge(std::uint32_t shard_count,
                    const std::function<void(std::uint32_t from, std::uint32_t to)>& merge);

// Elements [begin, end) of a flat tensor: what shard k of n works on; begins are 64-byte aligned, some may be
// empty.
struct Slice {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
std::vector<Slice> slices(std::uint64_t element_count, std::uint64_t element_byte_count,
                          std::uint32_t shard_count);

// Whether every device of `contexts` may use every other's buffers in place.
bool memory_is_shared(std::span<const Context> contexts);

// What kAuto means for these contexts; kDirect is refused (Error kFailedPrecondition) where memory is not
// shared.
MergeStrategy resolve_strategy(MergeStrategy strategy, std::span<const Context> contexts);

// Sums a tensor over contexts (one per shard, all with a flat tensor `node` of one spec) into the first
// one's. Linked once; run() only queues, allocates nothing, and leaves the others' tensors undefined.
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

// Gives the first context's tensor to the others. Contexts that share the memory already are skipped.
class Broadcast {
 public:
  Broadcast(std::span<const Context> contexts, std::string_view node);
  void run() const;

 private:
  std::vector<Transfer> transfers_;
};

// A tensor that a collective may still be filling.
class CollectiveTensor {
 public:
  CollectiveTensor(ContextTensor tensor, Event filled)
      : tensor_(std::move(tensor)), filled_(std::move(filled)) {}
  // Orders work queued on `consumer` from now on behind the collective, without stopping the host.
  const ContextTensor& resolve(Stream& consumer) const;
  // Skips that: the caller has ordered it.
  const ContextTensor& assume_resolved() const { return tensor_; }
  bool is_done() const { return filled_.is_done(); }  // throws the collective's error
  const Event& filled() const { return filled_; }

 private:
  ContextTensor tensor_;
  Event filled_;
};

// output[k] = sum or mean over shards of input, on every shard. Linked once. Its derivative is itself: the
// gradient of shard k's input is the same reduction over the gradients of all outputs, so a backward pass is
// a second AllReduce over those.
class AllReduce {
 public:
  // `output` is allocated in each context where it is missing.
  AllReduce(std::span<Context> contexts, std::string_view input, std::string_view output,
            Reduction reduction);
  std::vector<CollectiveTensor> run() const;  // one per shard

 private:
  std::vector<Context> contexts_;
  std::string output_;
  ContextTensor owner_input_, owner_output_;
  struct Step {
    Transfer transfer;
    LinkedRoutine add;
  };
  std::vector<Step> steps_;
  std::vector<LinkedRoutine> scale_;  // none for a sum
  std::vector<Broadcast> broadcast_;
};

}  // namespace yoke
