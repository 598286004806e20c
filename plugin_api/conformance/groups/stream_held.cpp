// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/stream_held.cpp: streams that are held back while others work: what their work uses
// must not be recycled, however much is queued on them and on others.
#include <deque>
#include <thread>

#include "groups.h"
#include "held.h"
#include "program/run/counter.h"
#include "small_program.h"
#include "traffic.h"

namespace yoke::conformance {
namespace {

void abort_stream(const Stream& stream) {
  expect_supported(stream.device().plugin().call<&yoke_stream_api::stream_abort>(stream.get()),
                   "aborting a stream");
}

constexpr const char* kRunning = "a stream that runs while others wait for an event";
constexpr const char* kWaiting = "a stream that waited for an event while others made many copies";

// Two streams that wait and two that run.
class Recycling {
 public:
  Recycling(Kit& kit, Random& random, std::uint64_t waiting_bytes) : device_(kit.device()), random_(random) {
    for (int i = 0; i < 2; ++i) {
      waiting_.emplace_back(device_, random, waiting_bytes);
      running_.emplace_back(device_, random, 1U << 17U);
    }
  }

  // Queues `held_pieces` on the streams that wait, and `steps` on those that run.
  void episode(int held_pieces, int steps, std::uint64_t piece, bool is_aborted) {
    const Held held(device_, Held::Others::kCopy);
    for (const Traffic& one : waiting_) {
      held.hold(one.stream());
    }
    for (int step = 0; step < steps; ++step) {
      // Spread over the steps.
      if (held_pieces > 0 && random_.below(static_cast<std::uint64_t>(steps - step)) <=
                                 static_cast<std::uint64_t>(held_pieces)) {
        Traffic& one = waiting_[random_.below(2)];
        if (random_.chance(30)) {
          run_threads(1, [&](unsigned) { one.step(piece); });  // the thread ends before the work
        } else {
          one.step(piece);
        }
        --held_pieces;
      }
      Traffic& one = running_[random_.below(2)];
      one.step(random_.chance(50) ? 70000 : piece);
      if (random_.chance(60)) {
        one.finish(kRunning);
      }
    }
    if (held.is_closed()) {
      for (const Traffic& one : waiting_) {
        one.check_pending();
      }
    }
    if (is_aborted) {
      abort_stream(waiting_[0].stream());
    }
    held.open();
    for (Traffic& one : running_) {
      one.finish(kRunning);
    }
    if (is_aborted) {
      waiting_[0].drop();
      return waiting_[1].finish(kWaiting);
    }
    for (Traffic& one : waiting_) {
      one.finish(kWaiting);
    }
  }

 private:
  Device& device_;
  Random& random_;
  std::deque<Traffic> waiting_;
  std::deque<Traffic> running_;
};

// Memory for staging is used many times while a few sources, or many, wait.
void recycled_sources(Kit& kit) {
  kit.plugin().table<yoke_stream_api>();
  Random random = kit.random();
  const int episodes = (Held::blocks_copies(kit.device()) ? 60 : 800) * kit.effort();
  constexpr std::uint64_t kPieces[] = {4096, 4096, 4096, 500, 60000};
  {
    Recycling recycling(kit, random, 1U << 16U);
    for (int i = 0; i < episodes; ++i) {
      kit.progress(text("short episode ", i, " of ", episodes));
      recycling.episode(1 + static_cast<int>(random.below(3)), 4 << random.below(7), kPieces[random.below(5)],
                        false);
    }
  }
  const bool can_abort = kit.plugin().has<&yoke_stream_api::stream_abort>();
  int rounds = 0;
  for (int repetition = 0; repetition < kit.effort(); ++repetition) {
    for (const int held_pieces : {10, 100, 600}) {
      for (const bool is_aborted : {false, true}) {
        if (!is_aborted || can_abort) {
          kit.progress(text("long episode ", ++rounds));
          Recycling(kit, random, 1U << 22U).episode(held_pieces, 1200, 4096, is_aborted);
        }
      }
    }
  }
  kit.note(text(episodes, " short and ", rounds, " long episodes"));
}

// Thousands of pieces of work on a stream that cannot start. No call may wait for the work.
void full_queue(Kit& kit) {
  constexpr std::uint32_t kCount = 5000;
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_stream_api>();
  const bool fills = plugin.has<&yoke_backend_api::fill>();
  const Buffer buffer(device, kCount * sizeof(std::uint32_t));
  std::vector<std::uint32_t> numbers(kCount);
  std::vector<std::uint32_t> received(kCount);
  std::vector<Event> events;
  const Stream stream(device);
  const Stream other(device);
  const Held held(device);
  held.hold(stream);
  const bool is_closed = held.is_closed();
  for (std::uint32_t i = 0; i < kCount; ++i) {
    numbers[i] = i * 2654435761U;
    const std::uint64_t offset = i * sizeof(std::uint32_t);
    if (fills && i % 4 != 0) {
      expect_ok(plugin.fill(stream.get(), buffer.get(), offset, sizeof(std::uint32_t), &numbers[i],
                            sizeof(std::uint32_t)),
                "queueing a fill");
    } else {
      expect_ok(
          plugin.from_host(stream.get(), buffer.get(), offset, &numbers[i], sizeof(std::uint32_t), nullptr),
          "queueing a from_host");
    }
    if (i % 8 == 0) {
      events.push_back(stream.record());
      other.wait_for(events.back());
    }
  }
  stream.read(buffer, 0, std::as_writable_bytes(std::span(received)));
  if (is_closed) {
    check(held.is_closed(), "a call that queues one of ", kCount,
          " pieces of work waited until the stream could run");
    for (const Event& event : events) {
      check_equal(event.state(), YOKE_STATE_PENDING, "the state of an event on a stream that cannot run");
    }
    check_equal(other.state(), YOKE_STATE_PENDING, "the state of a stream that waits for such events");
  }
  held.open();
  expect_ok(other.wait(), "waiting for a stream that waits for events of another");
  check(events.back().done(), "an event is pending after a stream that waited for it is done");
  stream.synchronize();
  check(received == numbers, "after ", kCount,
        " copies and fills that were queued while the stream could not run, "
        "bytes are wrong");
}

// Launches on a stream that cannot start, each with other symbol values, then all at once. Meanwhile their code is
// destroyed.
void queued_launches(Kit& kit) {
  constexpr int kRuns = 3;
  constexpr int kLaunches = 250;  // the values of the counter stay below 256
  Device& device = kit.device();
  kit.plugin().table<yoke_stream_api>();
  Counter counter(device);
  std::deque<CounterRun> runs;
  std::deque<Stream> streams;
  for (int i = 0; i < kRuns; ++i) {
    runs.emplace_back(counter, i);
    streams.emplace_back(device);
  }
  Random random = kit.random();
  {
    const Held held(device);
    for (const Stream& stream : streams) {
      held.hold(stream);
    }
    for (int i = 0; i < kLaunches; ++i) {
      for (std::size_t run = 0; run < kRuns; ++run) {
        runs[run].launch(1 + 3 * static_cast<std::int64_t>(random.below(3)), &streams[run]);
      }
    }
    run_threads(2, [&](unsigned thread) {
      if (thread == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return held.open();
      }
      counter.destroy_code();  // may wait for the launches, which do not need it
      const Counter another(device);
    });
  }
  for (std::size_t run = 0; run < kRuns; ++run) {
    streams[run].synchronize();
    runs[run].check_values();
  }
}

// Events of a stream that cannot run, while thousands of others are recorded, waited for and destroyed.
void recycled_events(Kit& kit) {
  Device& device = kit.device();
  kit.plugin().table<yoke_stream_api>();
  const Buffer source(device, 4096);
  const Buffer target(device, 4096);
  source.write(0, Bytes(4096, std::byte{1}));
  Bytes received(4096);
  Stream held_stream(device);
  const Stream waiting(device);
  const Stream busy(device);
  const Held held(device);
  held.hold(held_stream);
  const bool is_closed = held.is_closed();
  std::vector<Event> pending;
  for (int round = 0; round < 30; ++round) {
    pending.push_back(held_stream.record());
    waiting.wait_for(held_stream.record());  // destroyed at once
    std::vector<Event> done;
    for (int i = 0; i < 100; ++i) {
      done.push_back(busy.record());
      if (i % 3 == 0) {
        busy.wait_for(done.back());
      }
    }
    busy.synchronize();
    for (const Event& event : done) {
      check(event.done(),
            "an event is pending after its stream was waited for, while another stream cannot run");
    }
    if (round % 3 == 2) {
      pending.erase(pending.begin() + round / 3);
    }
  }
  held_stream.write(source, 0, Bytes(4096, std::byte{2}));
  waiting.wait_for(held_stream.record());
  waiting.read(source, 0, received);
  if (is_closed && held.is_closed()) {
    for (const Event& event : pending) {
      check_equal(
          event.state(), YOKE_STATE_PENDING,
          "the state of an event on a stream that cannot run, after many other events were destroyed,");
    }
    expect_code(waiting.wait(kMillisecond), YOKE_STATUS_DEADLINE_EXCEEDED,
                "waiting for a stream that waits for events of a stream that cannot run");
  }
  held.open();
  waiting.synchronize();
  check(received == Bytes(4096, std::byte{2}),
        "a stream that waits for destroyed events of a stream that cannot run copied too early");
  for (const Event& event : pending) {
    check(event.done(), "an event is pending after later work of its stream is done");
  }
}

// Bounded calls while a stream cannot run and a host callback does not return.
void bounded_calls(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_stream_api>();
  const SmallRunIfAny small(device);
  const Buffer buffer(device, 4096);
  const Stream stream(device);
  const Held held(device);
  held.hold(stream);
  stream.record().reset();
  if (small.run) {
    expect_ok(plugin.routine_launch(stream.get(), small.run->routine.get(), {}), "queueing a launch");
  }
  const bool is_closed = held.is_closed();
  buffer.describe();
  device.memory();
  plugin.live_counts();
  plugin.option_specs();
  if (small.program) {
    std::uint32_t entries = 0;
    expect_ok(plugin.call<&yoke_program_api::code_entry_count>(small.code.get(), &entries),
              "counting entries");
    describe_entry(plugin, small.code);
  }
  if (plugin.has<&yoke_stream_api::stream_debug_text>()) {
    char text[64];
    expect_ok(
        plugin.call<&yoke_stream_api::stream_debug_text>(stream.get(), text, std::uint64_t{sizeof text}));
  }
  if (plugin.has<&yoke_memory_api::buffer_device_address>()) {
    std::uint64_t address = 0;
    (void)plugin.call<&yoke_memory_api::buffer_device_address>(buffer.get(), &address);
  }
  if (plugin.has<&yoke_fault_api::fault_clear>()) {
    expect_ok(plugin.call<&yoke_fault_api::fault_clear>(device.get()), "disarming");
  }
  check(stream.state() == YOKE_STATE_PENDING || !is_closed, "a stream that cannot run is done");
  check(!is_closed || held.is_closed(), "a call that must return at once waited until a stream could run");
}

// A stream makes progress while several others wait.
void independent(Kit& kit) {
  Device& device = kit.device();
  kit.plugin().table<yoke_stream_api>();
  const SmallRunIfAny small(device);
  Random random = kit.random();
  std::deque<Traffic> waiting;
  for (int i = 0; i < 6; ++i) {
    waiting.emplace_back(device, random, 100'000);
  }
  Traffic running(device, random, 100'000);
  const Held held(device, Held::Others::kCopy);
  for (Traffic& one : waiting) {
    held.hold(one.stream());
    one.step(5000);
  }
  const bool is_closed = held.is_closed();
  for (int i = 0; i < 20; ++i) {
    running.step(5000);
    if (small.run) {
      launch(device.plugin(), small.run->routine, {}, &running.stream());
    }
    running.finish("a stream that does not wait");
  }
  check(!is_closed || held.is_closed(),
        "a stream that waits for nothing was held up by 6 streams that wait for an event");
  held.open();
  for (Traffic& one : waiting) {
    one.finish("a stream that waited for an event");
  }
}

}  // namespace

std::vector<Test> stream_held_tests() {
  return {
      {"recycled-sources",
       "sources and patterns of streams that wait for an event are kept, however many copies other streams "
       "make",
       {16, 18},
       recycled_sources,
       3},
      {"recycled-events",
       "events of a stream that waits stay pending while thousands of others are recorded and destroyed",
       {14, 18, 44},
       recycled_events,
       2},
      {"full-queue",
       "5,000 pieces of work can be queued on a stream that waits; they run in order when it continues",
       {18, 20},
       full_queue,
       2},
      {"queued-launches",
       "hundreds of launches queued on streams that wait use the symbol values of their calls",
       {18, 26},
       queued_launches,
       2},
      {"bounded-calls",
       "calls that must return at once do so while a stream waits and a host callback runs",
       {20},
       bounded_calls},
      {"independent", "a stream finishes its work while six others wait for an event", {18}, independent, 2},
  };
}

}  // namespace yoke::conformance
