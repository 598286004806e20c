// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/stream_time.cpp: tests that need a stream with long work: deadlines,
// lifetimes of patterns, time between events.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <thread>

#include "busy.h"
#include "groups.h"

namespace yoke::conformance {
namespace {

constexpr std::uint64_t kLongWork = 80 * kMillisecond;
constexpr int kTries = 5;  // each with twice as much work

// Calls `wait` with a short timeout while the stream has long work. A wait that returns OK must find the
// work done. A wait that fails must return DEADLINE_EXCEEDED, and must return while the stream has work;
// on a loaded machine it may return late, so a late return is tried again with more work.
template <class Wait>
void expect_cut(Device& device, const char* what, const Wait& wait) {
  const Busy busy(device, 4U << 20U);
  std::uint64_t copies = busy.copies_for(kLongWork);
  std::uint64_t waited = 0;
  for (int i = 0; i < kTries; ++i, copies *= 2) {
    const auto begin = Clock::now();
    busy.queue(copies);
    const auto before = Clock::now();
    const Answer answer = wait(busy.stream);
    waited = ns_since(before);
    const bool is_done = busy.stream.done();
    if (answer.ok()) {
      check(is_done, what, " returned OK at its deadline, but the work is not done");
    } else {
      expect_code(answer, YOKE_STATUS_DEADLINE_EXCEEDED, text(what, " with a short timeout"));
    }
    busy.stream.synchronize();
    if (!is_done || waited <= ns_since(begin) / 4) {
      return;
    }
  }
  fail(text(what, " with a timeout of 1 ms returned after ", waited / kMillisecond,
            " ms, when all work was done; it ignores its deadline"));
}

void deadline_during_work(Kit& kit) {
  expect_cut(kit.device(), "stream_wait", [](const Stream& stream) { return stream.wait(kMillisecond); });
  expect_cut(kit.device(), "event_wait",
             [](const Stream& stream) { return stream.record().wait(kMillisecond); });
}

// The target of one large command. The test sees it change while the command runs.
class Progress {
 public:
  Progress(const std::byte* target, std::uint64_t byte_count)
      : target_(target), step_((byte_count - 1) / kSamples) {}
  enum class State { kNone, kSome, kAll };
  // Whether none, some or all of the target has the value.
  State of(std::byte value) const {
    std::uint64_t changed = 0;
    for (std::uint64_t i = 0; i <= kSamples; ++i) {
      changed += *static_cast<const volatile std::byte*>(target_ + i * step_) == value ? 1U : 0U;
    }
    return changed == 0 ? State::kNone : changed <= kSamples ? State::kSome : State::kAll;
  }

 private:
  static constexpr std::uint64_t kSamples = 64;
  const std::byte* target_;
  std::uint64_t step_;
};

// Calls that must not wait for the work of a stream.
constexpr std::array<const char*, 3> kQuickCalls = {"stream_query", "event_query", "event_record"};

void make_quick_call(std::size_t call, const Stream& stream, const std::optional<Event>& event) {
  if (call == 0) {
    (void)stream.done();
  } else if (call == 1 && event) {
    (void)event->done();
  } else {
    (void)stream.record();
  }
}

// `queue(value)` queues a command that writes `value` to the target. Of many calls during the command, at least one
// must return before it ends; a busy machine may delay the others. A quick call near the end of the command proves
// nothing.
template <class Queue>
void expect_quick_calls(const Stream& stream, const char* what, const Progress& progress,
                        const Queue& queue) {
  constexpr int kMost = 10;
  constexpr std::size_t kMostRecords = 64;         // the stream works on each of them after the command
  std::array<int, kQuickCalls.size()> waited{};    // until the command was done
  std::array<int, kQuickCalls.size()> returned{};  // during the command
  // A command may start only at a query. Only a query that did not wait is repeated soon, because a query that waits
  // until the command is done hides it from the other calls.
  std::uint64_t patience = 500 * kMillisecond;
  for (unsigned round = 1; round <= 80; ++round) {
    const auto value = static_cast<std::byte>(round);
    queue(value);
    std::optional<Event> event;
    if (round % 2 == 0) {  // not always, because this call may be the one that waits
      event.emplace(stream.record());
    }
    const auto begin = Clock::now();
    auto asked = begin;
    Progress::State state = Progress::State::kNone;
    std::size_t records = 0;
    for (std::size_t i = 0; state != Progress::State::kAll && ns_since(begin) < longest_wait_ns(); ++i) {
      if (state == Progress::State::kNone && ns_since(asked) > patience) {
        asked = Clock::now();
        (void)stream.done();
        const bool has_waited = ns_since(asked) > kMillisecond && progress.of(value) == Progress::State::kAll;
        waited[0] += has_waited ? 1 : 0;
        patience = has_waited ? patience : 10 * kMillisecond;
      }
      const std::size_t call = event ? 1 : records < kMostRecords ? i % 2 * 2 : 0;
      state = progress.of(value);
      if (state == Progress::State::kSome) {
        const auto before = Clock::now();
        make_quick_call(call, stream, event);
        records += call == 2 ? 1 : 0;
        const bool is_slow = ns_since(before) > kMillisecond;
        state = progress.of(value);
        returned[call] += state == Progress::State::kSome ? 1 : 0;
        waited[call] += is_slow && state == Progress::State::kAll ? 1 : 0;
      }
    }
    stream.synchronize();
    for (std::size_t call = 0; call < kQuickCalls.size(); ++call) {
      check(waited[call] < kMost || returned[call] != 0, kQuickCalls[call], " was called ", waited[call],
            " times during a large ", what, " and returned only after it");
    }
    if (std::all_of(returned.begin(), returned.end(), [](int count) { return count != 0; })) {
      return;
    }
  }
}

void calls_during_work(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_stream_api>();
  constexpr std::uint64_t kBytes = std::uint64_t{32} << 20U;
  const Buffer a(device, kBytes);
  const Buffer b(device, kBytes);
  Bytes host(kBytes);
  const Stream stream(device);
  const auto set = [&](const Buffer& buffer, std::byte value) {
    std::fill(host.begin(), host.end(), value);
    expect_ok(plugin.from_host(nullptr, buffer.get(), 0, host.data(), kBytes, nullptr));
  };
  expect_quick_calls(stream, "to_host", Progress(host.data(), kBytes), [&](std::byte value) {
    set(a, value);
    std::fill(host.begin(), host.end(), std::byte{0});
    stream.read(a, 0, host);
  });
  const auto address = static_cast<std::uintptr_t>(b.describe().host_address);
  const auto* const there = reinterpret_cast<const std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
  if (there == nullptr) {
    return;  // the host cannot see the other commands run
  }
  set(b, std::byte{0});
  const Progress progress(there, kBytes);
  expect_quick_calls(stream, "from_host", progress, [&](std::byte value) {
    std::fill(host.begin(), host.end(), value);
    expect_ok(plugin.from_host(stream.get(), b.get(), 0, host.data(), kBytes, nullptr),
              "queueing a from_host");
  });
  set(b, std::byte{0});
  if (plugin.has<&yoke_backend_api::device_to_device>()) {
    expect_quick_calls(stream, "device_to_device", progress, [&](std::byte value) {
      set(a, value);
      stream.copy(b, 0, a, 0, kBytes);
    });
  }
  set(b, std::byte{0});
  if (plugin.has<&yoke_backend_api::fill>()) {
    expect_quick_calls(stream, "fill", progress, [&](std::byte value) {
      expect_ok(plugin.fill(stream.get(), b.get(), 0, kBytes, &value, 1), "queueing a fill");
    });
  }
}

// The caller overwrites each pattern as soon as its fill is queued.
void pattern_reuse(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.need<&yoke_backend_api::fill>();
  const Busy busy(kit.device(), 4U << 20U);
  busy.queue(16);
  constexpr std::uint64_t kBytes = 4096;
  const Buffer target(kit.device(), kBytes);
  std::array<std::uint64_t, 64> patterns{};
  Bytes received(kBytes);
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    patterns[i] = i + 1;
    expect_ok(plugin.fill(busy.stream.get(), target.get(), i * 64, 64, &patterns[i], sizeof patterns[i]),
              "queueing a fill");
    patterns[i] = 0;
  }
  busy.stream.read(target, 0, received);
  busy.stream.synchronize();
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    std::uint64_t there = 0;
    std::memcpy(&there, received.data() + i * 64, sizeof there);
    check_equal(there, i + 1, "the result of queued fill ", i,
                ", whose pattern was overwritten after the call,");
  }
}

// The host sleeps between two events, so at least that time has passed between them. The streams are idle, after work;
// the second one is newer.
void elapsed_unit(Kit& kit) {
  kit.plugin().need<&yoke_stream_api::event_elapsed>();
  Stream stream(kit.device());
  const Buffer buffer(kit.device(), 64);
  stream.write(buffer, 0, Bytes(64));
  stream.synchronize();
  const auto begin = Clock::now();
  const Event start = stream.record_timed();
  expect_ok(start.wait(), "waiting for an event");
  const auto between = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const std::uint64_t least = ns_since(between);
  Stream other(kit.device());
  other.write(buffer, 0, Bytes(64));
  other.synchronize();
  for (const Stream* one : {&stream, &other}) {
    const Event stop = one->record_timed();
    expect_ok(stop.wait(), "waiting for an event");
    const std::uint64_t most = ns_since(begin);
    const std::uint64_t ns = stop.ns_since(start);
    // 5 percent: far more than the drift between the clocks of a device and its host.
    check(ns >= least - least / 20 && ns <= most + most / 20, "event_elapsed returned ", ns,
          " ns; the host measured ", least, " to ", most, " ns", one == &other ? " between two streams" : "");
  }
}

}  // namespace

std::vector<Test> stream_time_tests() {
  return {
      {"deadline-during-work",
       "a wait with a short timeout returns long before the work ends, and returns OK only if the work is "
       "done",
       {21},
       deadline_during_work},
      {"calls-during-work",
       "queries of a stream or an event, and recording an event, return during a large copy or fill",
       {20},
       calls_during_work,
       2},
      {"pattern-reuse",
       "the pattern of a queued fill may change as soon as the call returns",
       {15, 16},
       pattern_reuse},
  };
}

std::vector<Test> event_time_tests() {
  return {{"elapsed-unit", "event_elapsed returns nanoseconds of real time", {18}, elapsed_unit}};
}

}  // namespace yoke::conformance
