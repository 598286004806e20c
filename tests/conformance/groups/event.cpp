// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/event.cpp: points in streams: asked, waited for, destroyed at any time.
#include <chrono>
#include <thread>

#include "groups.h"

namespace yoke::conformance {
namespace {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kBytes = 8U << 20U;

// Two buffers and a stream that is kept busy by copies between them.
struct Busy {
  explicit Busy(Device& device) : a(device, kBytes), b(device, kBytes), stream(device) {}
  void queue(int rounds) const {
    for (int i = 0; i < rounds; ++i) {
      stream.copy(i % 2 == 0 ? a : b, 0, i % 2 == 0 ? b : a, 0, kBytes);
    }
  }
  Buffer a;
  Buffer b;
  Stream stream;
};

void done_means_done(Kit& kit) {
  Random random = kit.random();
  Busy busy(kit.device());
  const Bytes sent = random.bytes(kBytes);
  for (int i = 0; i < 10; ++i) {
    Bytes received(kBytes);
    busy.queue(4);
    busy.stream.write(busy.a, 0, sent);
    busy.stream.read(busy.a, 0, received);
    const Event event = busy.stream.record();
    if (i % 2 == 0) {
      expect_ok(event.wait(), "waiting for an event");
    } else {
      const Patience patience;
      while (!event.done()) {
        check(!patience.is_over(), "event_query does not turn 1 when nobody waits");
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }
    check(received == sent, "an event is done, but the to_host before it is not");
    check(event.done(), "an event that was done is not done any more");
    expect_ok(event.wait(0), "waiting without time for an event that is done");
    expect_ok(event.wait(UINT64_MAX), "waiting with the largest deadline for an event that is done");
  }
  busy.stream.synchronize();
}

// An earlier event of a stream is done when a later one is.
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
      check(events[i].done(), "event ", next, " of a stream is done, event ", i, " is not");
    }
  }
}

void deadlines(Kit& kit) {
  const Busy busy(kit.device());
  for (const std::uint64_t timeout : {0U, 1U, 100'000U, 5'000'000U}) {
    busy.queue(20);
    const Event event = busy.stream.record();
    const auto begin = Clock::now();
    const Answer answer = event.wait(timeout);
    if (!answer.ok()) {
      expect_code(answer, YOKE_DEADLINE_EXCEEDED, text("waiting ", timeout, " ns for an event"));
      check(Clock::now() - begin >= std::chrono::nanoseconds(timeout / 2), "a wait of ", timeout,
            " ns for an event gave up early");
    }
    // That it ends before the work does, where the work is long, is asked by stream.deadline-cuts.
    expect_ok(event.wait(), "waiting again for an event whose first wait had a short deadline");
  }
}

void destroyed_early(Kit& kit) {
  const Busy busy(kit.device());
  for (int i = 0; i < 200; ++i) {
    busy.queue(i % 8 == 0 ? 2 : 0);
    Event event = busy.stream.record();
    event.reset();
  }
  check_equal(kit.plugin().live_counts().events, 0U, "live events when all are destroyed");
  busy.stream.synchronize();
  kit.plugin().call<&yoke_stream_api::event_destroy>(static_cast<yoke_event*>(nullptr));
}

void outlives_stream(Kit& kit) {
  Event event;
  {
    const Busy busy(kit.device());
    busy.queue(2);
    event = busy.stream.record();
    busy.stream.synchronize();
  }
  check(event.done(), "the event of a stream that was waited for and destroyed is not done");
  expect_ok(event.wait(), "waiting for the event of a destroyed stream");
  const Stream other(kit.device());
  other.wait_for(event);
  other.synchronize();
}

void own_stream(Kit& kit) {
  const Busy busy(kit.device());
  busy.queue(2);
  busy.stream.wait_for(busy.stream.record());
  busy.queue(1);
  expect_ok(busy.stream.wait(), "waiting for a stream that waits for its own event");
}

void waited_for_when_done(Kit& kit) {
  const Busy busy(kit.device());
  const Stream other(kit.device());
  const Event event = busy.stream.record();
  expect_ok(event.wait(), "waiting for an event");
  for (int i = 0; i < 50; ++i) {
    other.wait_for(event);
  }
  expect_ok(other.wait(), "waiting for a stream that waits for an event that was done");
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
  check_equal(kit.plugin().live_counts().events, events.size(), "live events");
  stream.synchronize();
  for (const Event& event : events) {
    check(event.done(), "a stream is done, but not its event");
  }
}

void elapsed(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.need<&yoke_stream_api::event_elapsed>();
  const Busy busy(kit.device());
  const auto begin = Clock::now();
  const Event start = busy.stream.record();
  busy.queue(10);
  const Event middle = busy.stream.record();
  busy.queue(10);
  const Event stop = busy.stream.record();
  busy.stream.synchronize();
  const auto most = static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
  const auto between = [&](const Event& from, const Event& to) {
    std::uint64_t ns = UINT64_MAX;
    expect_ok(plugin.call<&yoke_stream_api::event_elapsed>(from.get(), to.get(), &ns),
              "asking for the time between two events");
    return ns;
  };
  const std::uint64_t whole = between(start, stop);
  const std::uint64_t parts = between(start, middle) + between(middle, stop);
  check(whole <= most + most / 100 + 1'000'000, "event_elapsed is ", whole, " ns, but all of it took ", most,
        " ns");
  check(parts <= whole + whole / 100 + 10'000 && whole <= parts + parts / 100 + 10'000,
        "event_elapsed from start to stop is ", whole, " ns, the sum of its two parts ", parts, " ns");
  check_equal(between(stop, stop), 0U, "event_elapsed from an event to itself");
}

// Many hosts' threads wait for one event.
void many_waiters(Kit& kit) {
  const Busy busy(kit.device());
  for (int i = 0; i < 5; ++i) {
    busy.queue(20);
    const Event event = busy.stream.record();
    run_threads(8, [&](unsigned thread) {
      if (thread % 2 == 0) {
        expect_ok(event.wait(), "waiting for an event on several threads");
      } else {
        expect_ok(busy.stream.wait(), "waiting for a stream on several threads");
      }
      check(event.done(), "an event is not done after a wait that answered OK");
    });
  }
}

}  // namespace

std::vector<Test> event_tests() {
  return {
      {"done-means-done",
       "when an event is done, the work before it is; it stays done",
       {18},
       done_means_done},
      {"in-order",
       "the events of a stream are done in the order in which they were recorded",
       {18},
       in_order},
      {"deadlines",
       "a wait for an event that gives up answers DEADLINE_EXCEEDED, and not before its deadline",
       {21},
       deadlines},
      {"destroyed-early",
       "an event may be destroyed before it is done; destroying NULL is nothing",
       {14},
       destroyed_early},
      {"outlives-stream",
       "an event whose stream is destroyed stays done, and can be waited for",
       {14, 18},
       outlives_stream},
      {"own-stream", "a stream may wait for its own event", {18}, own_stream},
      {"waited-for-when-done",
       "a stream may wait many times for an event that is done",
       {18},
       waited_for_when_done},
      {"many",
       "thousands of events at a time are counted, and each is done when its stream is",
       {14, 18},
       many},
      {"elapsed",
       "the time between events adds up, and fits into the time that the host saw pass",
       {18},
       elapsed},
      {"many-waiters", "several threads wait for one event and one stream", {20, 21}, many_waiters},
  };
}

}  // namespace yoke::conformance
