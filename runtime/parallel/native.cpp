// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/native.cpp: which collectives of a backend are queued for each collective of a group.
#include "parallel/native.h"

#include <yoke/program/program.h>

#include <algorithm>
#include <utility>

#include "device/state.h"
#include "parallel/sum_program.h"
#include "schedule/collective_call.h"
#include "schedule/range.h"

namespace yoke::detail {

namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::kFailedPrecondition,
              "merge strategy native: " + why + "; use owner, tree, direct or ring");
}

std::string type_text(std::int32_t type) {
  return std::string(program::type_name(static_cast<program::Type>(type)));
}

// The weakest promise about sums that a member makes.
std::int32_t sum_order(std::span<const Context> members) {
  std::int32_t order = YOKE_SUM_ORDER_RANKS;
  for (const Context& member : members) {
    order = std::min(order, describe_collectives(*member.stream()->device()).sum_order);
  }
  return order;
}

void log_created(std::span<const Context> members, std::uint32_t size) {
  const Backend& backend = *members[0].stream()->device()->backend();
  backend.state().runtime->logger.log_composed(LogLevel::kInfo, [&] {
    const std::int32_t order = sum_order(members);
    return "merge.native backend=" + backend.name() + " members=" + std::to_string(size) +
           (size != members.size() ? " here=" + std::to_string(members.size()) : "") + " sum_order=" +
           (order == YOKE_SUM_ORDER_RANKS   ? "ranks"
            : order == YOKE_SUM_ORDER_FIXED ? "fixed"
                                            : "any note=\"bits may differ from run to run\"");
  });
}

class NativeCollectives final : public Collectives {
 public:
  NativeCollectives(std::span<const Context> members, MergeUse use, std::shared_ptr<yoke::CodeCache> codes,
                    const ProcessGroup& processes)
      : Collectives(MergeStrategy::kNative, members, use, std::move(codes), Wire::kFull, processes),
        first_rank_(processes.size != 0 ? processes.first_rank : 0) {
    for (const Context& member : members) {
      streams_.push_back(member.stream());
    }
    if (size() > 1) {
      GroupRanks ranks = {first_rank_, size(), {}};
      if (processes.size == 0) {
        ranks.id = detail::create_group_id(*streams_[0]->device());
      } else {
        std::transform(processes.id.begin(), processes.id.end(), &ranks.id.bytes[0],
                       [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
      }
      group_ = CollectiveGroup::create(streams_, ranks);
    }
  }
  // The backend has no reduction to one member.
  LinkedCollective reduce(std::string_view node, Range range) override { return all_reduce(node, range); }
  LinkedCollective all_reduce(std::string_view node, Range range) override {
    const Slice all = checked(node, range);
    return linked(YOKE_COLLECTIVE_ALL_REDUCE, node, std::vector<Slice>(size(), all),
                  std::vector<Slice>(size(), all), all.count());
  }
  LinkedCollective reduce_scatter(std::string_view node, Range range) override {
    const Slice all = checked(node, range);
    const std::vector<Slice> cut = parts(node, all);
    return is_even(cut) ? linked(YOKE_COLLECTIVE_REDUCE_SCATTER, node, std::vector<Slice>(size(), all), cut,
                                 cut[0].count())
                        : all_reduce(node, range);
  }
  LinkedCollective all_gather(std::string_view node, Range range) override {
    const Slice all = checked(node, range);
    const std::vector<Slice> cut = parts(node, all);
    if (is_even(cut)) {
      return linked(YOKE_COLLECTIVE_ALL_GATHER, node, cut, std::vector<Slice>(size(), all), cut[0].count());
    }
    LinkedCollective each;
    for (std::uint32_t root = 0; root < size(); ++root) {
      each.add(broadcast_from(root, node, cut[root]));
    }
    return each;
  }
  LinkedCollective gather(std::string_view node, Range range) override {
    return is_local() ? Collectives::gather(node, range) : all_gather(node, range);
  }
  // An all-reduce of one element, between barriers of the members that are here.
  LinkedCollective barrier() override {
    if (is_local()) {
      return Collectives::barrier();
    }
    LinkedCollective all = Collectives::barrier();
    for (Context member : members()) {
      if (!member.has(kBarrier)) {
        member.allocate(kBarrier, {YOKE_TYPE_F32, {1}});
        const std::uint64_t zero = 0;
        member.stream()->fill(member.tensor(kBarrier).view, &zero, 1);
      }
    }
    all.add(all_reduce(kBarrier, {}));
    all.add(Collectives::barrier());
    return all;
  }
  LinkedCollective broadcast(std::string_view node, Range range) override {
    const Slice all = checked(node, range);
    const BufferView& owner = members()[0].tensor(node).view;
    const bool shares_memory =
        std::any_of(members().begin() + 1, members().end(), [&](const Context& member) {
          const BufferView& view = member.tensor(node).view;
          return view.buffer == owner.buffer && view.offset == owner.offset;
        });
    if (shares_memory && !is_local()) {
      throw Error(ErrorCode::kInvalidArgument, "collective of '" + std::string(node) +
                                                   "': members of a group over processes share memory");
    }
    return shares_memory ? Collectives::broadcast(node, range) : broadcast_from(0, node, all);
  }

 private:
  static constexpr const char* kBarrier = "collective/barrier";

  bool is_local() const { return size() == members().size(); }
  static bool is_even(const std::vector<Slice>& parts) {
    return std::all_of(parts.begin(), parts.end(),
                       [&](const Slice& part) { return part.count() == parts[0].count(); });
  }

  BufferView view_of(std::uint32_t k, std::string_view node, const Slice& slice) const {
    const ContextTensor& tensor = members()[k].tensor(node);
    const std::uint64_t element = program::byte_size(type_of(tensor.spec));
    return {tensor.view.buffer, tensor.view.offset + slice.begin * element, slice.count() * element};
  }

  LinkedCollective broadcast_from(std::uint32_t root, std::string_view node, const Slice& slice) const {
    std::vector<Slice> sources(size());
    sources[root] = slice;
    return linked(YOKE_COLLECTIVE_BROADCAST, node, sources, std::vector<Slice>(size(), slice), slice.count(),
                  root);
  }

  // The member of rank r reads sources[r], nothing if that is empty, and writes targets[r].
  LinkedCollective linked(std::int32_t kind, std::string_view node, const std::vector<Slice>& sources,
                          const std::vector<Slice>& targets, std::uint64_t count,
                          std::uint32_t root = 0) const {
    LinkedCollective all;
    if (count == 0 || size() == 1) {
      return all;
    }
    const std::int32_t type = members()[0].tensor(node).spec.type;
    if (kind == YOKE_COLLECTIVE_ALL_REDUCE || kind == YOKE_COLLECTIVE_REDUCE_SCATTER) {
      check_native(members(), std::span(&type, 1));
    }
    std::vector<CollectiveCall::Part> parts(members().size());
    for (std::uint32_t k = 0; k < parts.size(); ++k) {
      parts[k].target = view_of(k, node, targets[first_rank_ + k]);
      if (sources[first_rank_ + k].count() != 0) {
        parts[k].source = view_of(k, node, sources[first_rank_ + k]);
      }
    }
    all.add(CollectiveCall::link(group_, streams_, {kind, type, count, root}, std::move(parts), node));
    return all;
  }

  std::uint32_t first_rank_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::shared_ptr<CollectiveGroup> group_;  // null: one member
};

}  // namespace

void check_native(std::span<const Context> members, std::span<const std::int32_t> types) {
  if (members.empty()) {
    return;  // the constructor refuses that
  }
  const std::shared_ptr<Backend>& backend = members[0].stream()->device()->backend();
  for (std::size_t k = 0; k < members.size(); ++k) {
    const Device& device = *members[k].stream()->device();
    if (device.backend() != backend) {
      refuse("shards 0 and " + std::to_string(k) + " are on different backends, '" + backend->name() +
             "' and '" + device.backend()->name() + "'");
    }
    if (!has_collectives(device)) {
      refuse("the backend '" + backend->name() + "' does not offer " YOKE_COLLECTIVES_TABLE);
    }
    for (std::size_t j = 0; j < k; ++j) {
      if (members[j].stream() == members[k].stream()) {
        refuse("shards " + std::to_string(j) + " and " + std::to_string(k) + " use the same stream '" +
               members[k].stream()->name() + "'");
      }
    }
    const yoke_collectives_info info = [&] {
      try {
        return describe_collectives(device);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kUnimplemented) {
          throw;
        }
        refuse("the backend '" + backend->name() + "' does not offer " YOKE_COLLECTIVES_TABLE ": " +
               error.what());
      }
    }();
    if (info.member_limit != 0 && members.size() > info.member_limit) {
      refuse("a group of '" + device.name() + "' has at most " + counted(info.member_limit, "member") +
             ", not " + std::to_string(members.size()));
    }
    for (const std::int32_t type : types) {
      if ((info.sum_types >> static_cast<std::uint32_t>(type) & 1U) == 0) {
        refuse("'" + device.name() + "' does not add up elements of type " + type_text(type));
      }
    }
  }
}

void check_processes(const ProcessGroup& processes, MergeStrategy strategy, std::size_t member_count) {
  if (processes.size == 0) {
    return;
  }
  const auto refuse_group = [](const std::string& why) {
    throw Error(ErrorCode::kInvalidArgument, "group over processes: " + why);
  };
  if (strategy != MergeStrategy::kAuto && strategy != MergeStrategy::kNative) {
    refuse_group(std::string("merge strategy ") + merge_strategy_name(strategy) +
                 " works in one process only; use native");
  }
  if (processes.first_rank >= processes.size || member_count > processes.size - processes.first_rank) {
    refuse_group("ranks " + std::to_string(processes.first_rank) + " to " +
                 std::to_string(std::uint64_t{processes.first_rank} + member_count - 1) + " of " +
                 counted(processes.size, "member") + "; ranks are less than the size");
  }
  if (processes.id.size() != YOKE_GROUP_ID_BYTES) {
    refuse_group("an id of " + counted(processes.id.size(), "byte") +
                 "; pass what create_group_id() returned in one of the processes");
  }
}

std::unique_ptr<Collectives> create_native(std::span<const Context> members, MergeUse use,
                                           std::shared_ptr<yoke::CodeCache> codes,
                                           const ProcessGroup& processes) {
  try {
    auto result = std::make_unique<NativeCollectives>(members, use, std::move(codes), processes);
    log_created(members, result->size());
    return result;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnimplemented) {  // such as two members on one device
      refuse(error.what());
    }
    throw;
  }
}

}  // namespace yoke::detail

namespace yoke {

std::vector<std::byte> create_group_id(const Device& device) {
  if (!detail::has_collectives(device)) {
    throw Error(ErrorCode::kFailedPrecondition, "group id: the backend '" + device.backend()->name() +
                                                    "' does not offer " YOKE_COLLECTIVES_TABLE);
  }
  const yoke_group_id id = detail::create_group_id(device);
  const auto* bytes = reinterpret_cast<const std::byte*>(&id.bytes[0]);
  return {bytes, bytes + YOKE_GROUP_ID_BYTES};
}

}  // namespace yoke
