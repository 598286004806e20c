// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/collectives_failure.cpp: yoke.collectives/1: refusals, deadlines, aborts,
// members whose stream has failed.
#include <algorithm>
#include <functional>
#include <thread>

#include "groups.h"
#include "team.h"

namespace yoke::conformance {
namespace {

using Shape = Exercise::Shape;

std::int32_t state_of(const Plugin& plugin, const Communicator& communicator) {
  std::int32_t state = -1;
  expect_ok(plugin.call<&yoke_collectives_api::communicator_query>(communicator.get(), &state),
            "querying a communicator");
  check(state >= YOKE_STATE_PENDING && state <= YOKE_STATE_FAILED,
        "communicator_query wrote the unknown state ", state);
  return state;
}

Answer wait_for(const Plugin& plugin, const Communicator& communicator,
                std::uint64_t timeout_ns = longest_wait_ns()) {
  return plugin.call<&yoke_collectives_api::communicator_wait>(communicator.get(), timeout_ns);
}

void expect_aborted(const Plugin& plugin, const Communicator& communicator, const std::string& what) {
  expect_code(wait_for(plugin, communicator), YOKE_STATUS_ABORTED, "waiting for " + what);
  check_equal(state_of(plugin, communicator), YOKE_STATE_FAILED, "the state of ", what);
}

// A collective of which only the part of member 0 is queued. Precondition: the team has two members.
struct Held {
  explicit Held(Team& of) : team(of), exercise(of, Shape{.kind = YOKE_COLLECTIVE_ALL_GATHER, .count = 2000}) {
    expect_ok(team.queue(exercise.row(0)), "queuing the part of one member");
    expect_code(team[0].stream->wait(5 * kMillisecond), YOKE_STATUS_DEADLINE_EXCEEDED,
                "waiting for a collective whose other members are missing");
  }

  // Member 0 has been aborted. Its memory must stay as it is, even when the others queue their parts.
  void check_ended(const std::string& after) {
    expect_code(team[0].stream->wait(), YOKE_STATUS_ABORTED,
                "waiting for the stream of a collective after " + after);
    expect_aborted(team.plugin(), team[0].communicator, "a communicator after " + after);
    const Buffer& target = exercise.target_buffer(0);
    const Bytes marks(target.byte_count(), std::byte{0x5c});
    const bool is_marked =
        team.plugin().from_host(nullptr, target.get(), 0, marks.data(), marks.size(), nullptr).ok();
    std::vector<yoke_collective> rest = exercise.rows();
    rest.erase(rest.begin());
    (void)team.queue(rest);  // refused if the others noticed
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    team.abort_all();
    for (std::uint32_t rank = 1; rank < team.size(); ++rank) {
      const Answer answer = team[rank].stream->wait();
      check(answer.code != YOKE_STATUS_DEADLINE_EXCEEDED, "the stream of member ", rank,
            " is still busy after its communicator was aborted: ", answer.words());
    }
    Bytes now(marks.size());
    check(!is_marked || !team.plugin().to_host(nullptr, target.get(), 0, now.data(), now.size()).ok() ||
              now == marks,
          "after ", after, ", the collective still wrote the target of the aborted member");
  }

  Team& team;
  const Exercise exercise;
};

void deadlines(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_collectives_api>();
  Device& device = kit.device();
  const Buffer buffer(device, 64);
  const Stream stream(device);
  const yoke_group_id id = make_group_id(device);
  yoke_communicator* raw = nullptr;
  const Answer made = create_communicator(device, id, 0, 2, &raw);
  expect_supported(made, "creating the first of two communicators");
  const Communicator communicator(plugin, made, raw, "creating the first of two communicators");
  check_equal(state_of(plugin, communicator), YOKE_STATE_PENDING, "the state while a member is missing");
  for (const std::uint64_t timeout : {std::uint64_t{0}, 10 * kMillisecond}) {
    const auto begin = Clock::now();
    expect_code(wait_for(plugin, communicator, timeout), YOKE_STATUS_DEADLINE_EXCEEDED,
                "waiting for a missing member");
    check(ns_since(begin) >= timeout, "communicator_wait gave up before its deadline");
  }
  yoke_collective row{};
  row.communicator = communicator.get();
  row.stream = stream.get();
  row.source = row.target = buffer.get();
  row.count = 4;
  row.kind = YOKE_COLLECTIVE_ALL_GATHER;
  row.type = YOKE_TYPE_U8;
  row.target_offset = 16;
  expect_code(
      plugin.call<&yoke_collectives_api::collectives_queue>(&row, 1U, static_cast<std::uint32_t>(sizeof row)),
      YOKE_STATUS_FAILED_PRECONDITION, "queuing a collective while a member is missing");
  expect_ok(plugin.call<&yoke_collectives_api::communicator_abort>(communicator.get()),
            "aborting a communicator while a member is missing");
  expect_aborted(plugin, communicator, "a communicator that was aborted while a member was missing");
}

void abort_member(Kit& kit) {
  Team team(kit, 2);
  {
    Held held(team);
    team.abort(0);
    held.check_ended("communicator_abort");
  }
  expect_code(team.queue(Exercise(team, {}).row(0)), YOKE_STATUS_ABORTED,
              "queuing on an aborted communicator");
  Team next(kit, team);
  const Exercise exercise(next, {});
  expect_ok(next.queue(exercise.rows()), "queuing for a group made after another one was aborted");
  next.synchronize();
  exercise.check_targets();
}

void abort_stream(Kit& kit) {
  kit.plugin().need<&yoke_stream_api::stream_abort>();
  Team team(kit, 2);
  Held held(team);
  expect_supported(kit.plugin().call<&yoke_stream_api::stream_abort>(team[0].stream->get()),
                   "aborting a stream with a collective");
  held.check_ended("stream_abort");
}

void abort_device(Kit& kit) {
  kit.plugin().need<&yoke_stream_api::device_abort>();
  Team team(kit, 2);
  Held held(team);
  expect_supported(kit.plugin().call<&yoke_stream_api::device_abort>(team[0].device->get()),
                   "aborting a device with a collective");
  held.check_ended("device_abort");
}

void failed_stream(Kit& kit) {
  Team team(kit);
  const Exercise exercise(team, {});
  arm_fault(kit.plugin(), team[0].device->get(), YOKE_FAULT_COPY, 1);
  team[0].stream->write(exercise.source_buffer(0), exercise.row(0).source_offset, Bytes(16));
  expect_ok(team.queue(exercise.rows()), "queuing after a copy that fails");
  expect_code(team[0].stream->wait(), YOKE_STATUS_UNAVAILABLE, "waiting for a stream with a failed copy");
  Patience::wait_until(
      [&] { return state_of(kit.plugin(), team[0].communicator) == YOKE_STATE_FAILED; },
      "the stream of a member failed before its collective, but its communicator did not fail");
  team.abort_all();
  for (std::uint32_t rank = 1; rank < team.size(); ++rank) {
    const Answer answer = team[rank].stream->wait();
    check(!answer.ok() && answer.code != YOKE_STATUS_DEADLINE_EXCEEDED, "waiting for member ", rank,
          " of a group with a failed and aborted member: ", answer.words());
  }
}

void refusals(Kit& kit) {
  Team team(kit);
  const Exercise exercise(team, {.count = 64});
  const std::uint32_t last = team.size() - 1;
  const auto refused = [&](std::int32_t code, const std::string& doing,
                           const std::function<void(yoke_collective&)>& change) {
    std::vector<yoke_collective> rows = exercise.rows();
    change(rows[last]);
    expect_code(team.queue(rows), code, doing);
    for (std::uint32_t rank = 0; rank < team.size(); ++rank) {
      check_equal(team[rank].stream->state(), YOKE_STATE_DONE, doing, ": the stream of member ", rank,
                  " after the call was refused: its state");
    }
  };
  refused(YOKE_STATUS_OUT_OF_RANGE, "a target beyond its buffer",
          [](auto& row) { row.target_offset = 4096; });
  refused(YOKE_STATUS_OUT_OF_RANGE, "a source beyond its buffer", [](auto& row) { row.source_offset = 257; });
  for (const std::uint64_t count : {std::uint64_t{1} << 62U, UINT64_MAX, UINT64_MAX / 4 + 65}) {
    refused(YOKE_STATUS_OUT_OF_RANGE, text(count, " elements"), [&](auto& row) { row.count = count; });
  }
  refused(YOKE_STATUS_OUT_OF_RANGE, "a root that is no member", [&](auto& row) {
    row.kind = YOKE_COLLECTIVE_BROADCAST;
    row.root = team.size();
  });
  refused(YOKE_STATUS_INVALID_ARGUMENT, "kind 0", [](auto& row) { row.kind = 0; });
  refused(YOKE_STATUS_INVALID_ARGUMENT, "kind 99", [](auto& row) { row.kind = 99; });
  refused(YOKE_STATUS_INVALID_ARGUMENT, "type 0", [](auto& row) { row.type = 0; });
  refused(YOKE_STATUS_INVALID_ARGUMENT, "type -5", [](auto& row) { row.type = -5; });
  refused(YOKE_STATUS_INVALID_ARGUMENT, "reduction 4", [](auto& row) { row.reduction = 4; });
  refused(YOKE_STATUS_INVALID_ARGUMENT, "no target", [](auto& row) { row.target = nullptr; });
  refused(YOKE_STATUS_INVALID_ARGUMENT, "no source", [](auto& row) { row.source = nullptr; });
  refused(YOKE_STATUS_INVALID_ARGUMENT, "no stream", [](auto& row) { row.stream = nullptr; });
  refused(YOKE_STATUS_INVALID_ARGUMENT, "an overlap", [](auto& row) {
    row.source = row.target;
    row.source_offset = row.target_offset + 4;
  });
  refused(YOKE_STATUS_UNIMPLEMENTED, "an unknown flag",
          [](auto& row) { row.flags = std::uint64_t{1} << 40U; });
  const std::uint64_t sums = describe_collectives(*team[0].device).sum_types;
  if ((sums >> unsigned{YOKE_TYPE_BOOL} & 1U) == 0) {
    refused(YOKE_STATUS_UNIMPLEMENTED, "a type that is not offered",
            [](auto& row) { row.type = YOKE_TYPE_BOOL; });
  }
  expect_ok(team.queue(exercise.rows()), "queuing after refusals");
  team.synchronize();
  exercise.check_targets();
}

void create_refusals(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_collectives_api>();
  const Device& device = kit.device();
  const yoke_group_id id = make_group_id(device);
  const auto rejected = [&](std::int32_t code, const std::string& doing, auto change) {
    yoke_communicator_args args = sized<yoke_communicator_args>();
    args.id = &id.bytes[0];
    args.size = 1;
    change(args);
    expect_no_object<yoke_communicator>(code, doing, [&](yoke_communicator** out) {
      return plugin.call<&yoke_collectives_api::communicator_create>(device.get(), &args, out);
    });
  };
  rejected(YOKE_STATUS_INVALID_ARGUMENT, "rank 1 of 1", [](auto& args) { args.rank = 1; });
  rejected(YOKE_STATUS_INVALID_ARGUMENT, "a group of 0 members", [](auto& args) { args.size = 0; });
  rejected(YOKE_STATUS_INVALID_ARGUMENT, "no id", [](auto& args) { args.id = nullptr; });
  rejected(YOKE_STATUS_UNIMPLEMENTED, "an unknown flag",
           [](auto& args) { args.flags = std::uint64_t{1} << 40U; });
}

void lifetime(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_collectives_api>();
  const std::uint32_t limit = describe_collectives(kit.device()).member_limit;
  Device device = another_handle(kit);
  plugin.call<&yoke_collectives_api::communicator_destroy>(static_cast<yoke_communicator*>(nullptr));
  for (const std::uint32_t size : {1U, limit == 1 ? 1U : 2U}) {  // the second does not join
    const yoke_group_id id = make_group_id(device);
    yoke_communicator* raw = nullptr;
    const Answer made = create_communicator(device, id, 0, size, &raw);
    const Communicator communicator(plugin, made, raw, "creating a communicator");
    expect_code(plugin.device_close(device.get()), YOKE_STATUS_FAILED_PRECONDITION,
                "closing a device with a live communicator");
  }
  device.close();
}

}  // namespace

std::vector<Test> collectives_failure_tests() {
  return {
      {"deadlines", "a wait for missing members ends at its deadline", {21, 63}, deadlines},
      {"abort", "communicator_abort ends the work of a member that waits for others", {45, 63}, abort_member},
      {"abort-stream", "stream_abort aborts the communicators of its work", {46, 63}, abort_stream},
      {"abort-device", "device_abort aborts the communicators of its work", {45, 63}, abort_device},
      {"failed-stream",
       "a member whose stream has failed makes its communicator fail",
       {19, 63},
       failed_stream},
      {"refusals", "a call with an invalid row queues nothing", {40, 63}, refusals},
      {"create-refusals", "a communicator with invalid arguments is not created", {40, 63}, create_refusals},
      {"lifetime",
       "a communicator keeps its device open; destroying it waits for no one",
       {14, 63},
       lifetime},
  };
}

}  // namespace yoke::conformance
