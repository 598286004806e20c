// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/step_layout.cpp: the layout of a step's memory: arenas, buckets, and the parts that shards
// update.
#include <yoke/program/program.h>
#include <yoke/runtime/closest.h>
#include <yoke/runtime/cost_model.h>
#include <yoke/runtime/parallel.h>

#include <algorithm>
#include <array>
#include <utility>

#include "device/state.h"
#include "parallel/native.h"
#include "parallel/require_function.h"
#include "parallel/strategies.h"
#include "parallel/sum_program.h"

namespace yoke {

namespace {

constexpr std::array<std::pair<Placement, const char*>, 4> kPlacements = {
    {{Placement::kAuto, "auto"},
     {Placement::kOwner, "owner"},
     {Placement::kEverywhere, "everywhere"},
     {Placement::kSharded, "sharded"}}};

constexpr std::array<std::pair<Overlap, const char*>, 3> kOverlaps = {
    {{Overlap::kAuto, "auto"}, {Overlap::kOn, "on"}, {Overlap::kOff, "off"}}};

bool resolve_overlap(Overlap overlap, std::span<const Context> shards, std::uint32_t process_group_size) {
  const auto is_on_cpu = [](const Context& shard) {
    return shard.stream()->device()->info().kind == YOKE_DEVICE_CPU;
  };
  return (shards.size() > 1 || process_group_size > 1) &&
         (overlap == Overlap::kOn ||
          (overlap == Overlap::kAuto && std::none_of(shards.begin(), shards.end(), is_on_cpu)));
}

// A number that is not an enumerator comes from another language, or from uninitialized memory.
void check_options(const StepOptions& options) {
  const auto refuse = [](const char* what, auto value) {
    throw Error(ErrorCode::kInvalidArgument, std::string("step plan: ") + what + " is " +
                                                 std::to_string(static_cast<int>(value)) +
                                                 ", which is not a value of its type");
  };
  if (merge_strategy_name(options.merge) == std::string_view("unknown")) {
    refuse("merge", options.merge);
  }
  if (placement_name(options.placement) == std::string_view("unknown")) {
    refuse("placement", options.placement);
  }
  if (overlap_name(options.overlap) == std::string_view("unknown")) {
    refuse("overlap", options.overlap);
  }
  if (wire_name(options.wire) == std::string_view("unknown")) {
    refuse("wire", options.wire);
  }
  if (options.whole_parameters && options.placement == Placement::kSharded) {
    throw Error(ErrorCode::kInvalidArgument,
                "step plan: the placement sharded cuts parameters, but updates need whole ones; use owner or "
                "everywhere");
  }
  if (options.number_count == 0 || (options.number_count > 1 && !options.has_number)) {
    throw Error(ErrorCode::kInvalidArgument,
                options.number_count == 0
                    ? "step plan: number_count is 0; use at least 1, and has_number = false for none"
                    : "step plan: number_count is set, but has_number is not; set both");
  }
  if (options.merge_use == MergeUse::kNone) {
    throw Error(ErrorCode::kInvalidArgument, "step plan: merge_use is kNone; use kCopy or kStreaming");
  }
  if (options.merge_use != MergeUse::kCopy && options.merge_use != MergeUse::kStreaming) {
    refuse("merge_use", options.merge_use);
  }
}

bool are_on_one_device(std::span<const Context> shards) {
  return std::all_of(shards.begin(), shards.end(), [&](const Context& shard) {
    return shard.stream()->device()->is_same(*shards[0].stream()->device());
  });
}

Placement resolve_placement(Placement placement, MergeStrategy strategy) {
  if (placement != Placement::kAuto) {
    return placement;
  }
  return strategy == MergeStrategy::kDirect || strategy == MergeStrategy::kRing ||
                 strategy == MergeStrategy::kNative
             ? Placement::kSharded
             : Placement::kOwner;
}

// What the layout relies on. Contexts refuse other mistakes when they allocate.
void check_parameters(const std::vector<StepParameter>& parameters) {
  if (parameters.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "step plan: the list of parameters is empty; pass at least one");
  }
  for (const StepParameter& parameter : parameters) {
    if (parameter.spec.type < YOKE_TYPE_F64 || parameter.spec.type > YOKE_TYPE_BOOL) {
      throw Error(ErrorCode::kInvalidArgument, "step plan: parameter '" + parameter.name +
                                                   "' has the unknown element type " +
                                                   std::to_string(parameter.spec.type));
    }
  }
}

void check_states(const std::vector<std::string>& states) {
  for (const std::string& state : states) {
    if (state.empty() || state == "parameters" || state == "gradients") {
      throw Error(ErrorCode::kInvalidArgument, state.empty()
                                                   ? "step plan: a state has an empty name; choose a name"
                                                   : "step plan: a state is named '" + state +
                                                         "', which is reserved; choose another name");
    }
  }
}

}  // namespace

const char* placement_name(Placement placement) {
  const auto found = std::find_if(kPlacements.begin(), kPlacements.end(),
                                  [&](const auto& entry) { return entry.first == placement; });
  return found != kPlacements.end() ? found->second : "unknown";
}

Placement placement_by_name(std::string_view name) {
  const auto found = std::find_if(kPlacements.begin(), kPlacements.end(),
                                  [&](const auto& entry) { return entry.second == name; });
  if (found == kPlacements.end()) {
    throw Error(ErrorCode::kInvalidArgument,
                "unknown placement of the update '" + std::string(name) +
                    "'; use auto, owner, everywhere or sharded" +
                    did_you_mean(name, {"auto", "owner", "everywhere", "sharded"}));
  }
  return found->first;
}

const char* overlap_name(Overlap overlap) {
  const auto found = std::find_if(kOverlaps.begin(), kOverlaps.end(),
                                  [&](const auto& entry) { return entry.first == overlap; });
  return found != kOverlaps.end() ? found->second : "unknown";
}

Overlap overlap_by_name(std::string_view name) {
  const auto found = std::find_if(kOverlaps.begin(), kOverlaps.end(),
                                  [&](const auto& entry) { return entry.second == name; });
  if (found == kOverlaps.end()) {
    throw Error(ErrorCode::kInvalidArgument, "unknown overlap '" + std::string(name) +
                                                 "'; use auto, on or off" +
                                                 did_you_mean(name, {"auto", "on", "off"}));
  }
  return found->first;
}

std::string Arena::name(std::string_view what) const {
  return std::string(what) + (is_running_state ? "/running/" : "/") +
         (group == 0 ? "" : "group" + std::to_string(group) + "/") +
         std::string(program::type_name(static_cast<program::Type>(type)));
}

std::uint64_t Arena::element_byte_count() const {
  return program::byte_size(static_cast<program::Type>(type));
}

StepPlan::StepPlan(std::span<const Context> shards, std::uint32_t merging,
                   std::vector<StepParameter> parameters, std::vector<std::string> states,
                   const StepOptions& options, std::shared_ptr<CodeCache> codes)
    : shards_(shards.begin(), shards.end()),
      merging_(merging),
      parameters_(std::move(parameters)),
      states_(std::move(states)),
      codes_(codes ? std::move(codes) : std::make_shared<CodeCache>()),
      merge_use_(options.merge_use),
      has_number_(options.has_number),
      number_count_(options.number_count),
      whole_parameters_(options.whole_parameters),
      processes_(options.processes) {
  if (shards_.empty() || merging == 0 || merging > shards_.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "step plan: " + std::to_string(merging) + " of " + std::to_string(shards_.size()) +
                    " shards compute gradients; use at least one, and at most all");
  }
  check_parameters(parameters_);
  check_states(states_);
  check_options(options);
  check_processes(options);
  const bool needs_copies = options.keep_last_step && !are_on_one_device(shards_);
  choose_merge(options, needs_copies);
  set_count_ = options.keep_last_step ? 2 : 1;
  shares_parameters_ =
      strategy_ == MergeStrategy::kDirect && placement_ == Placement::kSharded && !needs_copies;
  overlaps_ = resolve_overlap(options.overlap, shards_, processes_.size);
  lay_out(options.bucket_byte_count);
  if (strategy_ == MergeStrategy::kNative) {
    std::vector<std::int32_t> types;
    for (const Arena& arena : arenas_) {
      types.push_back(arena.type);
    }
    detail::check_native(shards_, types);
  }
  stage_ = Stage::kPlanned;
}

void StepPlan::check_processes(const StepOptions& options) const {
  detail::check_processes(processes_, options.merge, shards_.size());
  if (processes_.size == 0) {
    return;
  }
  if (merging_ != shards_.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "step plan: all shards of a group over processes compute gradients, not " +
                    std::to_string(merging_) + " of " + std::to_string(shards_.size()));
  }
  if (options.placement != Placement::kAuto && options.placement != Placement::kEverywhere) {
    throw Error(ErrorCode::kInvalidArgument, std::string("step plan: placement ") +
                                                 placement_name(options.placement) +
                                                 " works in one process only; use everywhere");
  }
  detail::check_wire(options.wire, MergeStrategy::kNative);
}

void StepPlan::choose_merge(const StepOptions& options, bool needs_copies) {
  merge_reason_ = "given";
  if (processes_.size > 1) {
    strategy_ = MergeStrategy::kNative;
    placement_ = Placement::kEverywhere;
    merge_reason_ = "the group has members in other processes";
    return;
  }
  if (shards_.size() == 1) {
    strategy_ = MergeStrategy::kOwner;
    placement_ = Placement::kOwner;
    merge_reason_ = "there is one shard";
    return;
  }
  wire_ = options.wire;
  const bool is_free = options.placement == Placement::kAuto;
  const Placement wanted = is_free && needs_copies        ? Placement::kEverywhere
                           : is_free && whole_parameters_ ? Placement::kOwner
                                                          : options.placement;
  if (options.merge != MergeStrategy::kAuto) {
    detail::check_wire(wire_, options.merge);
    strategy_ = resolve_strategy(options.merge, shards_);
    placement_ = resolve_placement(wanted, strategy_);
    return;
  }
  std::vector<std::int32_t> types;
  MergeWork work{
      .bucket_byte_count = std::max<std::uint64_t>(options.bucket_byte_count, YOKE_BUFFER_ALIGNMENT),
      .state_count = static_cast<std::uint32_t>(states_.size()),
      .wire = wire_};
  for (const StepParameter& parameter : parameters_) {
    types.push_back(parameter.spec.type);
    work.byte_count += parameter.spec.byte_count();
  }
  MergeChoice choice = yoke::choose_merge(costs_of(shards_, types), work, wanted);
  strategy_ = choice.strategy;
  placement_ = choice.placement;
  merge_reason_ = std::move(choice.reason);
  shards_[0].stream()->device()->backend()->state().runtime->logger.log_composed(LogLevel::kInfo, [&] {
    return std::string("merge.choice strategy=") + merge_strategy_name(strategy_) +
           " placement=" + placement_name(placement_) + " reason=\"" + merge_reason_ + "\"";
  });
}

void StepPlan::lay_out(std::uint64_t bucket_byte_count) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const TensorSpec& spec = parameters_[i].spec;
    const bool is_running = parameters_[i].is_running_state;
    auto arena = std::find_if(arenas_.begin(), arenas_.end(), [&](const Arena& a) {
      return a.type == spec.type && a.is_running_state == is_running && a.group == parameters_[i].group;
    });
    if (arena == arenas_.end()) {
      arena = arenas_.insert(arena, Arena{spec.type, 0, {}, {}, is_running, parameters_[i].group});
    }
    const std::uint64_t grain = YOKE_BUFFER_ALIGNMENT / arena->element_byte_count();
    arena->members.push_back(i);
    arena->offsets.push_back(arena->element_count);
    arena->element_count += (detail::flat_count(spec) + grain - 1) / grain * grain;
  }
  for (std::size_t a = 0; a < arenas_.size(); ++a) {
    const std::uint64_t count = arenas_[a].element_count;
    const std::uint64_t grain = YOKE_BUFFER_ALIGNMENT / arenas_[a].element_byte_count();
    // The backend's own collectives need parts of the same size; what remains is a small last bucket.
    const std::uint64_t unit =
        strategy_ == MergeStrategy::kNative ? std::max(merging_, processes_.size) * grain : grain;
    const std::uint64_t units =
        std::max<std::uint64_t>(1, bucket_byte_count / arenas_[a].element_byte_count() / unit);
    const bool is_whole = strategy_ == MergeStrategy::kDirect && !overlaps_;
    const std::uint64_t size = is_whole ? count : units * unit;
    for (std::uint64_t begin = 0, end = 0; begin < count; begin = end) {
      end = std::min(count, begin + size);
      end -= end - begin > unit ? (end - begin) % unit : 0;
      if (whole_parameters_) {
        const std::vector<std::uint64_t>& offsets = arenas_[a].offsets;
        const auto next = std::lower_bound(offsets.begin(), offsets.end(), end);
        end = next == offsets.end() ? count : *next;
      }
      buckets_.push_back({.arena = a, .range = {begin, end}});
    }
  }
}

std::vector<std::size_t> StepPlan::parameters_of(std::size_t bucket) const {
  const Arena& arena = arenas_[buckets_[bucket].arena];
  std::vector<std::size_t> result;
  for (std::size_t m = 0; m < arena.members.size(); ++m) {
    const std::uint64_t end = arena.offsets[m] + detail::flat_count(parameters_[arena.members[m]].spec);
    if (arena.offsets[m] < buckets_[bucket].range.end && end > buckets_[bucket].range.begin) {
      result.push_back(arena.members[m]);
    }
  }
  return result;
}

std::vector<StepPlan::Part> StepPlan::parts_of(const Bucket& bucket) const {
  std::vector<Part> parts;
  if (placement_ != Placement::kSharded) {
    const Arena& arena = arenas_[bucket.arena];
    for (std::uint32_t k = 0; k < (placement_ == Placement::kOwner ? 1 : merging_); ++k) {
      if (!whole_parameters_ || arena.is_running_state) {
        parts.push_back({k, bucket.range});
        continue;
      }
      for (std::size_t m = 0; m < arena.members.size(); ++m) {
        const std::uint64_t end = m + 1 < arena.members.size() ? arena.offsets[m + 1] : arena.element_count;
        if (arena.offsets[m] >= bucket.range.begin && end <= bucket.range.end && end != arena.offsets[m]) {
          parts.push_back({k, {arena.offsets[m], end}});
        }
      }
    }
    return parts;
  }
  const std::uint64_t element = arenas_[bucket.arena].element_byte_count();
  const auto add = [&](std::uint32_t shard, const Slice& part) {
    if (part.count() != 0) {
      parts.push_back({shard, {bucket.range.begin + part.begin, bucket.range.begin + part.end}});
    }
  };
  if (shares_parameters_) {
    for (const detail::Share& share :
         detail::shares(bucket.range.count(), element, static_cast<std::uint32_t>(shards_.size()))) {
      add(share.member, share.range);
    }
    return parts;
  }
  const std::vector<Slice> cut = slices(bucket.range.count(), element, merging_);
  for (std::uint32_t k = 0; k < merging_; ++k) {
    add(k, cut[k]);
  }
  return parts;
}

std::vector<std::uint32_t> StepPlan::terms_of(std::uint32_t shard) const {
  return shares_parameters_ ? detail::partial_terms(merging_) : std::vector<std::uint32_t>{shard};
}

UpdateShape StepPlan::shape_of(const Bucket& bucket, const Part& part, std::size_t terms) const {
  const Arena& arena = arenas_[bucket.arena];
  return {part.shard, arena.type, part.range.count(), static_cast<std::uint32_t>(terms), arena.group};
}

void StepPlan::each_update(const std::function<void(const UpdateShape& shape)>& visit) const {
  detail::require_function(visit, "step plan: each_update");
  for (const Bucket& bucket : buckets_) {
    if (arenas_[bucket.arena].is_running_state) {
      continue;
    }
    for (const Part& part : parts_of(bucket)) {
      const std::size_t terms = terms_of(part.shard).size();
      visit(shape_of(bucket, part, terms));
      if (terms != 1) {
        visit(shape_of(bucket, part, 1));
      }
    }
  }
}

bool StepPlan::has_whole_state(std::uint32_t shard) const {
  return keeps_last_step() || shares_parameters_ ||
         (placement_ == Placement::kOwner ? shard == 0
                                          : placement_ == Placement::kEverywhere && shard < merging_);
}

std::string StepPlan::name_in(std::uint32_t set, std::string_view name) {
  return (set == 0 ? "" : "set" + std::to_string(set) + "/") + std::string(name);
}

std::string StepPlan::part_name(std::string_view state, std::size_t bucket) const {
  return arenas_[buckets_[bucket].arena].name(state) + "/part of bucket " + std::to_string(bucket);
}

}  // namespace yoke
