// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/event.cpp: events: querying, waiting, destroying.
#include <algorithm>
#include <atomic>
#include <thread>

#include "groups.h"
#include "held.h"

namespace yoke::conformance {
namespace {

void completion(Kit& kit) {
  Random random = kit.random();
  Busy busy(kit.device());
  const Bytes sent = random.bytes(busy.a.byte_count());
  for (int i = 0; i < 10; ++i) {
    Bytes received(sent.size());
    busy.queue(4);
    busy.stream.write(busy.a, 0, sent);
    busy.stream.read(busy.a, 0, received);
    const Event event = busy.stream.record();
    if (i % 2 == 0) {
      expect_ok(event.wait(), "waiting for an event");
    } else {
      Patience::wait_until([&] { return event.done(); },
                           "event_query never reports that the event is done if no one waits for it");
    }
    check(received == sent, "an event is done, but the to_host queued before it is not");
    check(event.done(), "event_query reports that an event is pending after it was done");
    expect_ok(event.wait(0), "waiting with timeout 0 for an event that is done");
    expect_ok(event.wait(UINT64_MAX), "waiting with the longest timeout for an event that is done");
  }
  busy.stream.synchronize();
}

void in_order(Kit& kit) {
  const Busy busy(kit.device());
  std::vector<Event> events;
  for (int i = 0; i < 20; ++i) {
    busy.queue(2);
    events.push_back(busy.stream.record());
  }
  for (std::size_t next = 0; next < events.size(); ++next) {
    expect_ok(events[next].wait(), "waiting for an event");
    for (std::size_t i = 0; i <= next; ++i) {
      check(events[i].done(), "event ", next, " of a stream is done, but the earlier event ", i, " is not");
    }
  }
}

void destroy_before_done(Kit& kit) {
  const Busy busy(kit.device());
  for (int i = 0; i < 200; ++i) {
    busy.queue(i % 8 == 0 ? 2 : 0);
    Event event = busy.stream.record();
    event.reset();
  }
  check_equal(kit.plugin().live_counts().events, 0U, "the number of live events after all were destroyed");
  busy.stream.synchronize();
}

void many(Kit& kit) {
  Stream stream(kit.device());
  const Buffer buffer(kit.device(), 64);
  std::vector<Event> events;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    if (i % 50 == 0) {
      stream.write(buffer, 0, Bytes(64));
    }
    events.push_back(stream.record());
  }
  check_equal(kit.plugin().live_counts().events, events.size(), "the number of live events");
  stream.synchronize();
  for (const Event& event : events) {
    check(event.done(), "a stream is done, but one of its events is not");
  }
}

void elapsed(Kit& kit) {
  kit.plugin().need<&yoke_stream_api::event_elapsed>();
  const Busy busy(kit.device());
  const auto begin = Clock::now();
  const Event start = busy.stream.record_timed();
  busy.queue(10);
  const Event middle = busy.stream.record_timed();
  busy.queue(10);
  const Event stop = busy.stream.record_timed();
  busy.stream.synchronize();
  const std::uint64_t most = ns_since(begin);
  const std::uint64_t whole = stop.ns_since(start);
  const std::uint64_t parts = middle.ns_since(start) + stop.ns_since(middle);
  check(whole <= most + most / 100 + kMillisecond, "event_elapsed returned ", whole,
        " ns, but the host measured ", most, " ns for all of it");
  check(parts <= whole + whole / 100 + 10'000 && whole <= parts + parts / 100 + 10'000,
        "event_elapsed from start to stop is ", whole, " ns, but the sum of its two parts is ", parts, " ns");
  check_equal(stop.ns_since(stop), 0U, "event_elapsed from an event to itself");
}

void timing(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.need<&yoke_stream_api::event_elapsed>();
  const Stream stream(kit.device());
  yoke_event* raw = nullptr;
  const Answer recorded = plugin.event_record(stream.get(), &raw, /*flags=*/0);
  const Event untimed(plugin, {plugin, recorded, raw, "recording an event without timing"});
  const Event timed = stream.record_timed();
  expect_ok(timed.wait(), "waiting for an event");
  expect_ok(untimed.wait(), "waiting for an event without timing");
  std::uint64_t ns = 0;
  expect_supported(timed.elapsed_since(timed, ns), "event_elapsed");
  const auto refused = [&](const Event& from, const Event& to, const char* what) {
    expect_code(to.elapsed_since(from, ns), YOKE_STATUS_FAILED_PRECONDITION, what);
  };
  refused(untimed, timed, "event_elapsed from an event without YOKE_EVENT_TIMING");
  refused(timed, untimed, "event_elapsed to an event without YOKE_EVENT_TIMING");
  {
    const auto gate = HostCallback::gate(stream);
    const Event pending = stream.record_timed();
    if (gate != nullptr && gate->is_closed()) {
      refused(timed, pending, "event_elapsed to a pending event");
    }
  }
  expect_ok(stream.wait(), "waiting for a stream");
  expect_supported(plugin.call<&yoke_stream_api::stream_abort>(stream.get()), "aborting a stream");
  refused(timed, stream.record_timed(), "event_elapsed to a failed event");
}

// Work on a stream of `there` must wait for an event of `here` and inherit its error.
void wait_across(Device& here, Device& there, const std::string& what) {
  const Plugin& plugin = here.plugin();
  const Busy busy(here);
  const Stream waiting(there);
  busy.queue(8);
  const auto gate = HostCallback::gate(busy.stream);
  const Event event = busy.stream.record();
  waiting.wait_for(event);
  if (gate != nullptr && gate->is_closed()) {
    expect_code(waiting.wait(20 * kMillisecond), YOKE_STATUS_DEADLINE_EXCEEDED,
                "waiting for a stream that waits for a pending event of " + what);
    gate->open();
  }
  expect_ok(waiting.wait(), "waiting for a stream that waits for an event of " + what);
  check(event.done(), "a stream that waits for an event of ", what, " is done before the event");
  if (plugin.has<&yoke_stream_api::stream_abort>()) {
    expect_supported(plugin.call<&yoke_stream_api::stream_abort>(busy.stream.get()), "aborting a stream");
    waiting.wait_for(busy.stream.record());
    expect_code(waiting.wait(), YOKE_STATUS_ABORTED,
                "waiting for a stream that waits for a failed event of " + what);
  }
}

void other_devices(Kit& kit) {
  Device& device = kit.device();
  Plugin& plugin = kit.plugin();
  plugin.table<yoke_stream_api>();
  const std::uint32_t count = plugin.device_count();
  for (std::uint32_t ordinal = 0; ordinal < std::min(count, 4U); ++ordinal) {
    const bool is_same = ordinal == kit.settings().device;
    Device other(kit, plugin, ordinal, is_same ? kit.device_options() : std::vector<yoke_option>());
    const std::string what = is_same ? "another handle of the device" : text("device ", ordinal);
    wait_across(other, device, what);
    wait_across(device, other, what + " (the other way round)");
  }
}

// More threads than a backend expects wait for one event and its stream, and all of them wake up.
void many_waiters(Kit& kit) {
  constexpr unsigned kThreads = 80;
  Device& device = kit.device();
  kit.plugin().table<yoke_stream_api>();
  const Stream stream(device);
  for (int i = 0; i < 3; ++i) {
    const Held held(device);
    held.hold(stream);
    const Event event = stream.record();
    std::atomic<unsigned> begun{0};
    run_threads(kThreads + 1, [&](unsigned thread) {
      if (thread == kThreads) {
        Patience::wait_until([&] { return begun == kThreads; }, "threads do not start");
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return held.open();
      }
      ++begun;
      const Answer answer =
          thread % 2 == 0 ? event.wait(longest_wait_ns() / 2) : stream.wait(longest_wait_ns() / 2);
      expect_ok(answer, text("waiting for ", thread % 2 == 0 ? "an event" : "a stream", " on ", kThreads,
                             " threads"));
      check(event.done(), "an event is not done after a wait that returned OK");
    });
  }
}

}  // namespace

std::vector<Test> event_tests() {
  return {
      {"completion",
       "when an event is done, all work queued before it is done, and it stays done",
       {18, 44},
       completion},
      {"in-order",
       "the events of a stream are done in the order in which they were recorded",
       {18},
       in_order},
      {"destroy-before-done", "an event may be destroyed before it is done", {14}, destroy_before_done},
      {"many",
       "thousands of live events are counted, and are done when their stream is done",
       {14, 18},
       many},
      {"elapsed",
       "the times between three events add up, and do not exceed the time on the host's clock",
       {18},
       elapsed},
      {"timing",
       "event_elapsed fails with FAILED_PRECONDITION for events that are pending, failed or recorded without "
       "timing",
       {43},
       timing},
      {"other-devices",
       "a stream can wait for an event of another device or handle, and inherits its error",
       {53, 55},
       other_devices},
      {"many-waiters",
       "80 threads may wait for the same event and its stream, and all of them wake up",
       {20, 21},
       many_waiters},
  };
}

}  // namespace yoke::conformance
