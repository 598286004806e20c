// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/cost_model.h: estimates the time to merge gradients with each strategy from the costs of
// launches, memory and links; and estimates how to divide cores between shards.
#pragma once

#include <yoke/runtime/parallel.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace yoke {

// The cost of moving bytes from one member to another.
struct LinkCost {
  double latency = 0;    // seconds
  double bandwidth = 1;  // bytes per second, per member and direction
};

// The costs of a group.
struct GroupCosts {
  std::vector<std::uint32_t> nodes;  // per member; members of the same node read each other's memory in place
  bool has_one_memory = false;       // reading another member's memory costs the same as reading one's own
  bool has_native = false;        // the backend has collectives for this group, and fixes the order of sums
  double command = 0;             // host seconds for each copy and launch; 0: each member has its own host
  double launch = 4e-6;           // seconds before each copy and launch
  double memory = 2e12;           // bytes per second, of a member's own memory
  LinkCost near = {3e-6, 2e11};   // in a node
  LinkCost far = {8e-6, 2.5e10};  // between nodes
  std::string source = "given";   // of these figures: "given", "fixed for CPUs", "measured"

  std::uint32_t size() const { return static_cast<std::uint32_t>(nodes.size()); }
  bool is_near(std::uint32_t a, std::uint32_t b) const { return nodes[a] == nodes[b]; }
  bool is_one_node() const;
};

// Until when each link is busy. A member sends one transfer at a time, and receives one at a time.
class LinkClocks {
 public:
  explicit LinkClocks(const GroupCosts& costs);
  // Moves bytes between two members, not before `start`. Returns the time at which they have arrived. Error
  // kOutOfRange: a member is out of range; a moved-from object has none.
  double transfer(double start, std::uint32_t from, std::uint32_t to, std::uint64_t byte_count);

 private:
  const GroupCosts* costs_;
  std::vector<double> out_, in_;  // per member
};

// What a step merges.
struct MergeWork {
  std::uint64_t byte_count = 0;  // of one member's gradients
  std::uint64_t bucket_byte_count = 4U << 20U;
  std::uint32_t state_count = 0;  // of the optimizer
  Wire wire = Wire::kFull;
};

// Seconds from the last gradient until all members have the new parameters. With the strategy kDirect and the
// placement kSharded, includes the time in which other members then read the parameters over links.
// Precondition: neither is kAuto, and the strategy works for this group.
double merge_seconds(const GroupCosts& costs, const MergeWork& work, MergeStrategy strategy,
                     Placement placement);

struct MergeChoice {
  MergeStrategy strategy = MergeStrategy::kOwner;
  Placement placement = Placement::kOwner;
  double seconds = 0;  // merge_seconds of both
  // "tree 1.2 ms; owner 1.9 ms, ring 2.4 ms; 4 members, 1.6 MB, launch 4 us, links 8 us and 16 GB/s, measured"
  std::string reason;
};
// The fastest strategy, and the fastest placement if `placement` is kAuto. Of strategies within 5 % of the fastest,
// chooses the first one in the order direct, owner, tree, ring, native.
MergeChoice choose_merge(const GroupCosts& costs, const MergeWork& work,
                         Placement placement = Placement::kAuto);

// The costs of a group of shards of this process. If all are on CPUs, or on one device, the figures are fixed, so that
// the choice, and with it the bits of a run, depend only on sizes and counts. Otherwise launches and links are measured
// once per pair of devices and Runtime, in some milliseconds, and rounded to powers of two. If that fails, for example
// because it takes more than a second, the reason is logged and fixed figures are used. `types` are the gradients'
// types.
GroupCosts costs_of(std::span<const Context> members, std::span<const std::int32_t> types = {});

// What one step of a model computes.
struct ComputeWork {
  std::int64_t rows = 1;          // of a batch
  double operations_per_row = 0;  // multiplications and additions, forward and backward
  std::uint64_t parameter_count = 0;
  std::uint32_t layer_count = 1;  // layers with matrix products
};
// A number of shards, and of threads per shard.
struct CoreSplit {
  std::int64_t shards = 1;
  std::int64_t threads = 1;
};
// Estimated seconds of a training step on `shards` times `threads` cores of a CPU.
double step_seconds(const CoreSplit& split, const ComputeWork& work);

}  // namespace yoke
