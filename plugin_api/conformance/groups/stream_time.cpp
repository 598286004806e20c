// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/stream_time.cpp: tests that need a stream with long work: deadlines,
// lifetimes of patterns, time between events.
#include <array>
#include <cstring>
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

// The host sleeps between two events, so at least that time has passed between them.
void elapsed_unit(Kit& kit) {
  kit.plugin().need<&yoke_stream_api::event_elapsed>();
  const Stream stream(kit.device());
  const auto begin = Clock::now();
  const Event start = stream.record();
  expect_ok(start.wait(), "waiting for an event");
  const auto between = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const std::uint64_t least = ns_since(between);
  const Event stop = stream.record();
  expect_ok(stop.wait(), "waiting for an event");
  const std::uint64_t most = ns_since(begin);
  const std::uint64_t ns = stop.ns_since(start);
  // 5 percent: far more than the drift between the clocks of a device and its host.
  check(ns >= least - least / 20 && ns <= most + most / 20, "event_elapsed returned ", ns,
        " ns; the host measured ", least, " to ", most, " ns");
}

}  // namespace

std::vector<Test> stream_time_tests() {
  return {
      {"deadline-during-work",
       "a wait with a short timeout returns long before the work ends, and returns OK only if the work is "
       "done",
       {21},
       deadline_during_work},
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
