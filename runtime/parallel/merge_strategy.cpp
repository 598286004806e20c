// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/merge_strategy.cpp: names of strategies and wire formats, the pairs of a tree, slices, and which
// strategy a group may use.
#include <yoke/runtime/closest.h>
#include <yoke/runtime/collective.h>
#include <yoke/runtime/cost_model.h>
#include <yoke/runtime/counted.h>

#include <algorithm>
#include <iterator>

#include "parallel/native.h"
#include "parallel/require_function.h"

namespace yoke {

const char* merge_strategy_name(MergeStrategy strategy) {
  constexpr const char* kNames[] = {"auto", "owner", "tree", "direct", "ring", "native"};
  const auto number = static_cast<std::size_t>(strategy);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

MergeStrategy merge_strategy_by_name(std::string_view name) {
  for (const auto strategy : {MergeStrategy::kAuto, MergeStrategy::kOwner, MergeStrategy::kTree,
                              MergeStrategy::kDirect, MergeStrategy::kRing, MergeStrategy::kNative}) {
    if (name == merge_strategy_name(strategy)) {
      return strategy;
    }
  }
  throw Error(ErrorCode::kInvalidArgument,
              "unknown merge strategy '" + std::string(name) +
                  "'; use auto, owner, tree, direct, ring or native" +
                  did_you_mean(name, {"auto", "owner", "tree", "direct", "ring", "native"}));
}

const char* wire_name(Wire wire) {
  return wire == Wire::kFull ? "full" : wire == Wire::kBF16 ? "bf16" : "unknown";
}

Wire wire_by_name(std::string_view name) {
  for (const Wire wire : {Wire::kFull, Wire::kBF16}) {
    if (name == wire_name(wire)) {
      return wire;
    }
  }
  throw Error(ErrorCode::kInvalidArgument, "unknown wire format '" + std::string(name) +
                                               "'; use full or bf16" + did_you_mean(name, {"full", "bf16"}));
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> merge_pairs(std::uint32_t shard_count) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::uint32_t live = shard_count; live > 1;) {
    const std::uint32_t kept = (live + 1) / 2;
    // With an odd count, shard 0 is not part of this round.
    const std::uint32_t first = live % 2;
    for (std::uint32_t to = first; to < kept; ++to) {
      pairs.emplace_back(kept + to - first, to);
    }
    live = kept;
  }
  return pairs;
}

void parallel_merge(std::uint32_t shard_count,
                    const std::function<void(std::uint32_t, std::uint32_t)>& merge) {
  detail::require_function(merge, "parallel_merge");
  for (const auto& [from, to] : merge_pairs(shard_count)) {
    merge(from, to);
  }
}

std::vector<Slice> slices(std::uint64_t element_count, std::uint64_t element_byte_count,
                          std::uint32_t shard_count) {
  if (element_byte_count == 0 || element_byte_count > YOKE_BUFFER_ALIGNMENT) {
    throw Error(ErrorCode::kInvalidArgument, "slices: an element of " +
                                                 detail::counted(element_byte_count, "byte") + "; use 1 to " +
                                                 std::to_string(YOKE_BUFFER_ALIGNMENT));
  }
  const std::uint64_t grain = YOKE_BUFFER_ALIGNMENT / element_byte_count;
  const std::uint64_t grains = (element_count + grain - 1) / grain;
  std::vector<Slice> result(shard_count);
  for (std::uint32_t k = 0; k < shard_count; ++k) {
    result[k].begin = std::min(element_count, grains * k / shard_count * grain);
    result[k].end = std::min(element_count, grains * (k + 1) / shard_count * grain);
  }
  return result;
}

namespace {

// Each device once.
std::vector<std::shared_ptr<Device>> devices_of(std::span<const Context> contexts) {
  std::vector<std::shared_ptr<Device>> devices;
  for (const Context& context : contexts) {
    devices.push_back(context.stream()->device());
  }
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

}  // namespace

bool memory_is_shared(std::span<const Context> contexts) {
  const std::vector<std::shared_ptr<Device>> devices = devices_of(contexts);
  return std::all_of(devices.begin(), devices.end(), [&](const auto& a) {
    return std::all_of(devices.begin(), devices.end(), [&](const auto& b) { return a->can_access(*b); });
  });
}

MergeStrategy resolve_strategy(MergeStrategy strategy, std::span<const Context> contexts, Wire wire) {
  if (merge_strategy_name(strategy) == std::string_view("unknown")) {
    throw Error(ErrorCode::kInvalidArgument,
                "merge strategy " + std::to_string(static_cast<int>(strategy)) + " does not exist");
  }
  if (strategy == MergeStrategy::kDirect && !memory_is_shared(contexts)) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        "merge strategy direct: the devices cannot access each other's memory; use owner, tree or ring");
  }
  if (strategy == MergeStrategy::kNative) {
    detail::check_native(contexts, {});
  }
  if (strategy != MergeStrategy::kAuto || contexts.empty()) {
    return strategy;
  }
  const MergeWork work;
  return choose_merge(costs_of(contexts), {.byte_count = work.bucket_byte_count, .wire = wire}).strategy;
}

}  // namespace yoke
