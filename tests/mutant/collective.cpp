// SPDX-License-Identifier: Apache-2.0
// tests/mutant/collective.cpp: groups, and the four kinds of collectives.
#include "collective.h"

#include <yoke/sdk/detail/collectives_table.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "bug.h"
#include "stream.h"

namespace yoke::mutant {
namespace {

std::uint64_t part_bytes(const sdk::Collective& row) {
  return row.count * sdk::detail::element_bytes(row.type);
}

// The groups with their ids. A group lives as long as its members.
struct Registry {
  std::mutex mutex;
  std::uint64_t last = 0;
  std::map<std::uint64_t, std::weak_ptr<Group>> groups;
};

Registry& registry() {
  static Registry all;
  return all;
}

bool agree(const Part& a, const Part& b) {
  return a.row.kind == b.row.kind && a.row.type == b.row.type && a.row.reduction == b.row.reduction &&
         a.row.root == b.row.root && a.row.count == b.row.count;
}

// Reduces `count` elements of all members, starting at element `first` of their sources.
std::vector<std::byte> reduced(std::span<const Part* const> parts, std::uint64_t first, std::uint64_t count,
                               std::uint32_t rotation) {
  const sdk::Collective& row = parts[0]->row;
  const std::uint64_t element = sdk::detail::element_bytes(row.type);
  const auto size = static_cast<std::uint32_t>(parts.size());
  const auto source = [&](std::uint32_t i) {
    return parts[(i + rotation) % size]->source() + first * element;
  };
  std::vector<std::byte> sum(source(0), source(0) + count * element);
  const std::uint32_t members = on<"all_reduce_forgets_a_member">() && size > 1 ? size - 1 : size;
  const std::uint64_t elements = on<"all_reduce_misses_the_last_element">() && count > 1 ? count - 1 : count;
  for (std::uint32_t i = 1; i < members; ++i) {
    reduce(row.type, on<"max_of_collectives_is_a_sum">() ? YOKE_REDUCTION_SUM : row.reduction, sum.data(),
           source(i), elements);
  }
  return sum;
}

// The result of a member, which is computed before any target is written.
std::vector<std::byte> result_of(std::span<const Part* const> parts, std::uint32_t rank) {
  const sdk::Collective& row = parts[rank]->row;
  const std::uint64_t bytes = part_bytes(row);
  const auto size = static_cast<std::uint32_t>(parts.size());
  if (row.kind == YOKE_COLLECTIVE_ALL_REDUCE) {
    return reduced(parts, 0, row.count,
                   on<"members_receive_different_sums">()       ? rank
                   : on<"sums_are_not_in_the_order_of_ranks">() ? size - 1
                                                                : 0);
  }
  if (row.kind == YOKE_COLLECTIVE_REDUCE_SCATTER) {
    return reduced(parts, on<"reduce_scatter_gives_part_zero">() ? 0 : rank * row.count, row.count, 0);
  }
  if (row.kind == YOKE_COLLECTIVE_BROADCAST) {
    const std::byte* const from = parts[on<"broadcast_comes_from_rank_zero">() ? 0 : row.root]->source();
    return from == nullptr ? std::vector<std::byte>(bytes) : std::vector<std::byte>(from, from + bytes);
  }
  std::vector<std::byte> all;
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::byte* const from = parts[on<"all_gather_reverses_the_parts">() ? size - 1 - i : i]->source();
    all.insert(all.end(), from, from + bytes);
  }
  return all;
}

}  // namespace

Part::Part(const sdk::Collective& of) : row(of) {
  if (on<"collective_reads_its_source_when_queued">() && row.source != nullptr) {
    const std::byte* const from = source();
    early_.assign(from, from + part_bytes(row));
  }
}

Part::~Part() {
  if (!is_performed_ && !on<"skipped_part_is_forgotten">()) {
    static_cast<Communicator*>(row.communicator)
        ->fail(
            sdk::Failure(YOKE_STATUS_UNAVAILABLE, "the stream of this member failed before its collective"));
  }
}

void Part::perform() {
  is_performed_ = true;
  static_cast<Communicator*>(row.communicator)->perform(*this);
}

const std::byte* Part::source() const {
  return !early_.empty() ? early_.data()
         : row.source == nullptr
             ? nullptr
             : static_cast<const std::byte*>(row.source->host_address()) + row.source_offset;
}

std::byte* Part::target() const {
  return static_cast<std::byte*>(row.target->host_address()) +
         (on<"collective_forgets_the_target_offset">() ? 0 : row.target_offset);
}

void Group::join(std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  if (has_joined_[rank]) {
    throw sdk::Failure(YOKE_STATUS_ALREADY_EXISTS, "rank " + std::to_string(rank) + " has joined already");
  }
  has_joined_[rank] = true;
  ++joined_;
  changed_.notify_all();
}

std::int32_t Group::state(std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  return failures_[rank] ? YOKE_STATE_FAILED : joined_ == size() ? YOKE_STATE_DONE : YOKE_STATE_PENDING;
}

void Group::wait(std::uint32_t rank, std::uint64_t timeout_ns) {
  constexpr std::uint64_t kLongest = 1'000'000'000'000'000'000U;  // ns; avoids an overflow of the clock
  std::unique_lock lock(mutex_);
  const auto is_over = [&] { return failures_[rank] || joined_ == size(); };
  if (on<"group_wait_ignores_its_deadline">()) {
    changed_.wait(lock, is_over);
  }
  if (!changed_.wait_for(lock, std::chrono::nanoseconds(std::min(timeout_ns, kLongest)), is_over)) {
    throw sdk::Failure(YOKE_STATUS_DEADLINE_EXCEEDED,
                       std::to_string(size() - joined_) + " members of the group have not joined");
  }
  if (failures_[rank]) {
    throw sdk::Failure(*failures_[rank]);
  }
}

void Group::fail(std::uint32_t rank, const sdk::Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (!failures_[rank]) {
    failures_[rank].emplace(failure);
  }
  changed_.notify_all();
}

void Group::perform(std::uint32_t rank, const Part& part) {
  std::unique_lock lock(mutex_);
  const std::uint64_t number = ++sequence_[rank];
  Round& round = rounds_[number];
  round.parts.resize(size());
  round.parts[rank] = &part;
  if (++round.arrived == size()) {
    finish(round);
    round.is_done = true;
    changed_.notify_all();
  }
  const bool is_done_early = on<"collective_is_done_before_its_result">() && !round.is_done;
  if (is_done_early) {
    return;
  }
  changed_.wait(
      lock, [&] { return round.is_done || (failures_[rank] && !on<"communicator_abort_does_not_wake">()); });
  if (!round.is_done) {
    if (!on<"aborted_collective_still_writes">()) {
      round.parts[rank] = nullptr;
      --round.arrived;
    }
    throw sdk::Failure(*failures_[rank]);
  }
  const std::optional<sdk::Failure> failure = round.failure;
  if (++round.left == size()) {
    rounds_.erase(number);
  }
  if (failure) {
    throw sdk::Failure(*failure);
  }
}

// Precondition: the mutex is locked, so that no member leaves and no memory is freed.
void Group::finish(Round& round) const {
  for (const Part* part : round.parts) {
    if (!agree(*part, *round.parts[0])) {
      round.failure.emplace(YOKE_STATUS_INVALID_ARGUMENT,
                            "the members of the group queued different collectives; queue the same ones");
      return;
    }
  }
  std::vector<std::vector<std::byte>> results(size());
  const auto write = [&](std::uint32_t rank) {
    if (!results[rank].empty()) {
      std::memcpy(round.parts[rank]->target(), results[rank].data(), results[rank].size());
    }
  };
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    results[rank] = result_of(round.parts, rank);
    if (on<"collective_writes_while_it_reads">()) {
      write(rank);
    }
  }
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    write(rank);
  }
}

Communicator::Communicator(std::shared_ptr<Group> group, std::uint32_t rank)
    : group_(std::move(group)), rank_(rank) {
  group_->join(rank);
}

Communicator::~Communicator() {
  if (state() == YOKE_STATE_PENDING) {
    abort();
  }
}

void Communicator::abort() {
  group_->fail(rank_, sdk::Failure(YOKE_STATUS_ABORTED, "the communicator was aborted; make another group"));
}

sdk::CollectivesInfo collectives_info() {
  const std::vector<std::int32_t> types = {YOKE_TYPE_F64, YOKE_TYPE_F32, YOKE_TYPE_F16, YOKE_TYPE_BF16,
                                           YOKE_TYPE_I64, YOKE_TYPE_I32, YOKE_TYPE_U32, YOKE_TYPE_U8};
  return {.sum_types = types, .order_types = types, .sum_order = YOKE_SUM_ORDER_RANKS};
}

sdk::GroupId create_group_id() {
  const std::lock_guard lock(registry().mutex);
  registry().last += on<"group_ids_repeat">() && registry().last != 0 ? 0U : 1U;
  registry().groups.try_emplace(registry().last);
  sdk::GroupId id{};
  std::memcpy(id.data(), &registry().last, sizeof(std::uint64_t));
  return id;
}

std::unique_ptr<sdk::Communicator> join_group(const sdk::GroupId& id, std::uint32_t rank,
                                              std::uint32_t size) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.data(), sizeof number);
  std::shared_ptr<Group> group;
  {
    const std::lock_guard lock(registry().mutex);
    const auto found = registry().groups.find(number);
    if (found == registry().groups.end()) {
      throw sdk::Failure(YOKE_STATUS_INVALID_ARGUMENT, "the id of the group is not from group_id_create");
    }
    group = found->second.lock();
    if (group == nullptr) {
      group = std::make_shared<Group>(size);
      found->second = group;
    }
  }
  if (group->size() != size) {
    throw sdk::Failure(YOKE_STATUS_INVALID_ARGUMENT, "the group has " + std::to_string(group->size()) +
                                                         " members, not " + std::to_string(size));
  }
  return std::make_unique<Communicator>(std::move(group), rank);
}

void queue_collectives(std::span<const sdk::Collective> rows) {
  for (const sdk::Collective& row : rows) {
    static_cast<Stream*>(row.stream)->post([part = std::make_shared<Part>(row)] { part->perform(); });
  }
}

}  // namespace yoke::mutant
