// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/collective.h: tensors summed, gathered and broadcast over a group of shards.
#pragma once

#include <yoke/runtime/context.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace yoke {

namespace detail {
class CollectiveCall;
}

enum class Reduction { kMean, kSum };

// How tensors are summed over a group. Each strategy fixes the order of the sum by rank, independent of timing.
enum class MergeStrategy {
  // What the cost model expects to be fastest; see choose_merge in cost_model.h.
  kAuto,
  // ((0 + 1) + 2) + 3, on the owner.
  kOwner,
  // (0 + 2) + (1 + 3): in pairs, each on its receiver.
  kTree,
  // ((0 + 1) + 2) + 3: member k sums part k of all members, reading them in place. More than 16 members sum up
  // in groups of 16, then the groups' sums in groups of 16, and so on.
  kDirect,
  // ((1 + 2) + 3) + 0 for part 0: each part goes around the ring and ends at the member of its number.
  // Parts of less than 64 KiB are sent around together, in 4 pieces.
  kRing,
  // The backend's own collectives, yoke.collectives/1, which states the order of the sum. All members are on
  // devices of one backend, each with its own stream; a backend may allow one member per device.
  kNative
};
// "auto", "owner", "tree", "direct", "ring", "native"; "unknown" for another number.
const char* merge_strategy_name(MergeStrategy strategy);
// Throws Error kInvalidArgument, which lists the names.
MergeStrategy merge_strategy_by_name(std::string_view name);

// How gradients of type f32 are sent to the members that add them up.
enum class Wire {
  kFull,  // unchanged
  // Rounded to bf16: half the bytes. Sums stay f32. Each member keeps the rounding error of a tensor and adds it to the
  // same tensor the next time (error feedback). Works neither with kDirect, which sends nothing, nor with kNative,
  // which adds in the type that it sends.
  kBF16
};
// "full", "bf16"; "unknown" for another number.
const char* wire_name(Wire wire);
// Throws Error kInvalidArgument, which lists the names.
Wire wire_by_name(std::string_view name);

// The pairs (from, to) of a tree that ends at shard 0; for 4 shards (2,0)
// (3,1) (1,0). Every shard but 0 is `from` once.
std::vector<std::pair<std::uint32_t, std::uint32_t>> merge_pairs(std::uint32_t shard_count);
// Calls `merge` for each of these pairs, in order. Throws Error kInvalidArgument if it is empty.
void parallel_merge(std::uint32_t shard_count,
                    const std::function<void(std::uint32_t from, std::uint32_t to)>& merge);

// The elements [begin, end) of a flat tensor.
struct Slice {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t count() const { return end - begin; }
};
// One slice per shard, which together are all elements. Slices begin at multiples of 256 bytes
// (YOKE_BUFFER_ALIGNMENT) and may be empty. Throws Error kInvalidArgument unless element_byte_count is between 1
// and 256.
std::vector<Slice> slices(std::uint64_t element_count, std::uint64_t element_byte_count,
                          std::uint32_t shard_count);

// Whether every device of `contexts` can access every other's buffers.
bool memory_is_shared(std::span<const Context> contexts);

// A group with members in several processes: each process passes its own members, and the same id and size. Ranks count
// through all processes. Such a group merges with kNative only; kAuto is kNative.
struct ProcessGroup {
  std::uint32_t first_rank = 0;    // of the first member that is in this process
  std::uint32_t size = 0;          // number of members in all processes; 0: all members are in this process
  std::vector<std::byte> id = {};  // from create_group_id() in one of the processes; ignored if size is 0
};
// Makes the id of a new group, which serves one Collectives or StepPlan per process; the application carries its bytes
// to the other processes. Throws Error kFailedPrecondition if the device's backend has no collectives, and the
// backend's errors.
std::vector<std::byte> create_group_id(const Device& device);

// Resolves kAuto for these contexts and tensors of 4 MiB. Throws Error kFailedPrecondition for kDirect if memory is not
// shared, and for kNative if the backend has no collectives for these members; kInvalidArgument for a number that is
// not an enumerator.
MergeStrategy resolve_strategy(MergeStrategy strategy, std::span<const Context> contexts,
                               Wire wire = Wire::kFull);

// Compiles each text once per device. Not thread-safe.
class CodeCache {
 public:
  std::shared_ptr<const Code> get(const std::shared_ptr<Device>& device, const std::string& text);
  // Drops the code of a device, such as a lost one.
  void forget(const Device& device);
  double compile_seconds() const { return seconds_; }

 private:
  std::map<std::pair<const Device*, std::string>, std::shared_ptr<const Code>> codes_;
  double seconds_ = 0;
};

// Work that was linked once. run() queues it on the members' streams; it allocates nothing. A collective of the
// backend fails for all members if it fails for one: this and every later run() throw that member's error.
class LinkedCollective {
 public:
  void run() const;
  void add(Transfer transfer) { steps_.emplace_back(std::move(transfer)); }
  void add(LinkedRoutine routine) { steps_.emplace_back(std::move(routine)); }
  void add(std::shared_ptr<const detail::CollectiveCall> call);  // Error kInvalidArgument: it is null
  void add(LinkedCollective other);
  // run() records an event at this point: streams that wait for earlier work do not wait for later work. Throws Error
  // kInvalidArgument if the stream is null.
  void add(std::shared_ptr<Stream> stream);
  // See Collectives::barrier. Throws Error kInvalidArgument if a stream is null.
  void add_barrier(std::vector<std::shared_ptr<Stream>> streams);
  bool is_empty() const { return steps_.empty(); }

 private:
  std::vector<
      std::variant<Transfer, LinkedRoutine, std::shared_ptr<Stream>,
                   std::shared_ptr<const detail::CollectiveCall>, std::vector<std::shared_ptr<Stream>>>>
      steps_;
};

// Links collectives of a group. A member's rank is its position in `members`, plus ProcessGroup::first_rank; member 0
// is the owner. Each collective covers the elements `range` (default: all) of the tensor `node`, which every member has
// with the same type and shape, else Error kInvalidArgument. A range that exceeds the tensor is Error kOutOfRange; the
// device may refuse one that does not begin at a multiple of 256 bytes. Part k of the range is slices(...)[k].
//
// Tensors of two members may be the same memory only where a collective says so. Not thread-safe.
class Collectives {
 public:
  using Range = std::optional<Slice>;

  // Throws Error kInvalidArgument if `members` is empty, and as resolve_strategy. `codes` may be shared, null
  // creates a new one. kNative waits until the backend has connected all members, also those of other processes: Error
  // kDeadlineExceeded after RuntimeOptions::wait_timeout. A process that ends makes waits of the others end with an
  // error of the backend, or by their deadline. `wire` applies to sums; with
  // kBF16, a member that sends parts of a sum gets the tensors "wire/<node>" and "residual/<node>" when the sum is
  // linked, and kDirect and kNative are Error kInvalidArgument.
  static std::unique_ptr<Collectives> create(MergeStrategy strategy, std::span<const Context> members,
                                             MergeUse use = MergeUse::kStreaming,
                                             std::shared_ptr<CodeCache> codes = nullptr,
                                             Wire wire = Wire::kFull, const ProcessGroup& processes = {});
  // `strategy` is not kAuto.
  Collectives(MergeStrategy strategy, std::span<const Context> members, MergeUse use,
              std::shared_ptr<CodeCache> codes, Wire wire = Wire::kFull, const ProcessGroup& processes = {});
  virtual ~Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  // The owner gets the sum; the other members' tensors are undefined afterwards.
  virtual LinkedCollective reduce(std::string_view node, Range range = {}) = 0;
  // Member k gets part k of the sum; the rest of its range is undefined afterwards.
  virtual LinkedCollective reduce_scatter(std::string_view node, Range range = {});
  // Every member gets the sum.
  virtual LinkedCollective all_reduce(std::string_view node, Range range = {});
  // Every member gets part k of member k.
  virtual LinkedCollective all_gather(std::string_view node, Range range = {});
  // The owner gets part k of member k.
  virtual LinkedCollective gather(std::string_view node, Range range = {});
  // Every member gets the owner's elements. Members that share the owner's memory are left out; in a group over
  // processes, they are Error kInvalidArgument.
  virtual LinkedCollective broadcast(std::string_view node, Range range = {});
  // Work queued on any member's stream after the barrier waits for the work queued before it on all members' streams,
  // and fails if that work failed. The host does not wait.
  virtual LinkedCollective barrier();

  MergeStrategy strategy() const { return strategy_; }
  std::span<const Context> members() const { return members_; }  // of this process
  // The number of members in all processes.
  std::uint32_t size() const { return size_; }

 protected:
  // Checks the members' tensors. Returns the range, in elements.
  Slice checked(std::string_view node, const Range& range) const;
  std::vector<Slice> parts(std::string_view node, const Slice& range) const;
  // Begins a round, in which several members read what others have written before: none waits for another's
  // work of the same round.
  void begin_round(LinkedCollective& all) const;
  // Rounds a slice of member `from` for an add() of this slice. With Wire::kFull, does nothing.
  void pack(LinkedCollective& all, std::uint32_t from, std::string_view node, const Slice& slice);
  // Adds or copies a slice of member `from` to that of member `to`. An empty slice does nothing.
  void add(LinkedCollective& all, std::uint32_t to, std::uint32_t from, std::string_view node,
           const Slice& slice);
  void copy(LinkedCollective& all, std::uint32_t to, std::uint32_t from, std::string_view node,
            const Slice& slice);
  // Member `on` computes target = sum over `sources` of a slice; the target is the first source.
  void sum(LinkedCollective& all, std::uint32_t on, std::span<const std::uint32_t> sources,
           std::string_view node, const Slice& slice);

 private:
  bool packs(std::string_view node) const;
  MergeStrategy strategy_;
  std::vector<Context> members_;
  MergeUse use_;
  std::shared_ptr<CodeCache> codes_;
  Wire wire_;
  std::uint32_t size_;
};

// The result of a collective that may still be running.
class CollectiveTensor {
 public:
  // The tensor as all work that is queued so far leaves it, also that of other streams. Throws Error kNotFound, or
  // kInvalidArgument if it is in memory of another device.
  CollectiveTensor(const Context& member, std::string_view name);
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
  std::vector<std::pair<BufferView, BufferView>> copies_;  // per shard: to the output, from the input
  LinkedCollective all_;
};

}  // namespace yoke
