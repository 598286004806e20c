// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/stream_counts.cpp: more commands and objects than 16 bits count; deadlines while other
// streams finish work.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <thread>

#include "groups.h"
#include "held.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

constexpr std::uint32_t kMany = 66'000;  // more than 2^16

// On a slow backend, the tests end before they have counted that far.
bool is_over(Kit& kit, Clock::time_point begin) {
  return ns_since(begin) > 4000 * kMillisecond * static_cast<std::uint64_t>(kit.effort());
}

// Copies of a few bytes, one for each number.
class Numbered {
 public:
  explicit Numbered(Device& device)
      : plugin_(device.plugin()), buffer_(device, sizeof numbers_), stream_(device) {}
  const Stream& stream() const { return stream_; }
  void queue(std::uint32_t number) {
    std::uint32_t& source = numbers_[number % std::size(numbers_)];
    if (number % std::size(numbers_) == 0) {
      stream_.synchronize();  // because the sources are used again
    }
    source = number;
    expect_ok(plugin_.from_host(stream_.get(), buffer_.get(), 0, &source, sizeof source, nullptr),
              "queueing a from_host");
  }
  void check_last(std::uint32_t number) const {
    std::uint32_t last = 0;
    stream_.synchronize();
    buffer_.read(0, std::as_writable_bytes(std::span(&last, 1)));
    check_equal(last, number, "the number that the last of many copies wrote");
  }

 private:
  const Plugin& plugin_;
  Buffer buffer_;
  std::uint32_t numbers_[1024] = {};
  Stream stream_;
};

// Events recorded before and after every power of two from 2^7 to 2^16 pieces of work.
void many_commands(Kit& kit) {
  Device& device = kit.device();
  kit.plugin().table<yoke_stream_api>();
  Numbered work(device);
  const Stream other(device);
  std::vector<Event> done;
  done.push_back(work.stream().record());
  const auto begin = Clock::now();
  std::uint32_t number = 0;
  while (number < kMany && !is_over(kit, begin)) {
    work.queue(++number);
    const std::uint32_t next = number + 1;
    const bool is_border = (number & (number - 1)) == 0 || (next & (next - 1)) == 0 || number % 8000 == 0;
    if (!is_border || number < 100) {
      continue;
    }
    work.stream().synchronize();
    for (std::size_t i = 0; i < done.size(); ++i) {
      check(done[i].done(), "event ", i, " of a stream is pending again after ", number, " more copies");
      expect_ok(done[i].wait(0), "waiting for an event that was done before many copies");
    }
    other.wait_for(done.front());
    expect_ok(other.wait(), "waiting for a stream that waits for an event that was done before many copies");
    const Held held(device);
    held.hold(work.stream());
    done.push_back(work.stream().record());
    if (held.is_closed()) {
      const std::int32_t state = done.back().state();
      check(state == YOKE_STATE_PENDING || !held.is_closed(),
            "an event is done before the work before it, after ", number, " copies on its stream");
      expect_code(done.back().wait(kMillisecond), YOKE_STATUS_DEADLINE_EXCEEDED,
                  text("waiting for an event on a stream that cannot run, after ", number, " copies"));
    }
  }
  work.check_last(number);
  kit.note(text(number, " copies"));
}

// More objects, one after the other, than 16 bits count.
void many_objects(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const std::optional<Stream> stream = stream_if_any(device);
  const Buffer kept(device, 600);
  const Bytes sent = kit.random().bytes(600);
  kept.write(0, sent);
  std::optional<Event> first;
  if (stream) {
    first = stream->record();
    expect_ok(first->wait(), "waiting for an event");
  }
  const auto begin = Clock::now();
  for (std::uint32_t i = 1; i <= kMany && !is_over(kit, begin); ++i) {
    if (stream) {
      (void)stream->record();
    }
    const Buffer buffer(device, 8 + i % 500);
    if (i % 5000 == 0 || i > kMany - 3) {
      kit.progress(text("object ", i));
      const std::uint64_t value = i;
      buffer.write(0, std::as_bytes(std::span(&value, 1)));
      std::uint64_t there = 0;
      buffer.read(0, std::as_writable_bytes(std::span(&there, 1)));
      check_equal(there, value, "the contents of buffer ", i);
      check(kept.contents() == sent, "a live buffer changed after ", i, " others were created and destroyed");
      check(!first || first->done(), "an old event is pending after ", i,
            " others were recorded and destroyed");
      check_equal(plugin.live_counts().buffers, 2U, "the number of live buffers");
    }
  }
  // A backend may keep a few threads of destroyed streams.
  constexpr std::size_t kKept = 64;
  std::size_t threads = 0;
  const std::uint32_t streams = stream ? 3000 : 0;
  for (std::uint32_t i = 0; i < streams; ++i) {
    Stream one(device);
    if (i % 100 == 0) {
      one.write(kept, 0, sent);
    }
    expect_ok(one.wait(), text("waiting for stream ", i));
    threads = i == 10 ? thread_count() : threads;
  }
  if (stream) {
    Patience::wait_until([&] { return thread_count() <= threads + kKept; },
                         "the threads of thousands of destroyed streams do not end");
  }
}

// Launches of one routine, with new inputs before and after every power of two.
void many_launches(Kit& kit) {
  Device& device = kit.device();
  const SmallProgram program(device);
  const Code code = compile(device, program.text());
  const SmallRun run(device, code);
  const std::optional<Stream> stream = stream_if_any(device);
  std::vector<float> values(kSmallCount);
  const auto begin = Clock::now();
  std::uint32_t number = 0;
  while (number < kMany && !is_over(kit, begin)) {
    ++number;
    const bool is_checked =
        (number & (number - 1)) == 0 || (number & (number + 1)) == 0 || number % 5000 == 0;
    if (is_checked) {
      if (stream) {
        stream->synchronize();
      }
      std::fill(values.begin(), values.end(), static_cast<float>(number % 997));
      run.x.write(0, bytes_of_floats(values));
    }
    expect_ok(device.plugin().routine_launch(raw_of(stream), run.routine.get(), {}), "queueing a launch");
    if (is_checked || number % 500 == 0) {
      if (stream) {
        stream->synchronize();
      }
      check(run.y.contents() == bytes_of_floats(program.results(values)), "launch ", number,
            " of one routine has a wrong result");
    }
  }
  kit.note(text(number, " launches"));
}

// Waits with a timeout while other streams finish work all the time. The wait must end at its own deadline.
void expect_ends(Device& device, const char* what,
                 const std::function<Answer(const Held&, std::uint64_t)>& wait) {
  const std::uint64_t limit = longest_wait_ns() / 4;
  const Stream stream(device);
  const Buffer buffer(device, 4096);
  const Bytes source(4096);
  const Held held(device, Held::Others::kCopy);
  std::atomic<bool> is_over{false};
  std::string failure;
  std::thread traffic([&] {
    try {
      for (const auto begin = Clock::now(); !is_over && ns_since(begin) < limit;) {
        expect_ok(
            device.plugin().from_host(stream.get(), buffer.get(), 0, source.data(), source.size(), nullptr));
        expect_ok(stream.record().wait());
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    } catch (const std::exception& caught) {
      failure = caught.what();
    }
  });
  const auto begin = Clock::now();
  const Answer answer = wait(held, 60 * kMillisecond);
  const std::uint64_t took = ns_since(begin);
  const bool was_closed = held.is_closed();
  is_over = true;
  traffic.join();
  check(failure.empty(), failure);
  if (!was_closed) {
    return;  // no host callbacks: the work may be done
  }
  expect_code(answer, YOKE_STATUS_DEADLINE_EXCEEDED, text("waiting for ", what, " that cannot run"));
  check(took >= 60 * kMillisecond * 9 / 10, "a wait for ", what, " with a timeout of 60 ms ended after ",
        took, " ns");
  check(took < limit * 9 / 10, "a wait for ", what, " with a timeout of 60 ms lasted ", took / kMillisecond,
        " ms, as long as another stream finished work");
}

void deadline_beside_work(Kit& kit) {
  Device& device = kit.device();
  kit.plugin().table<yoke_stream_api>();
  expect_ends(device, "a stream", [](const Held& held, std::uint64_t ns) { return held.stream().wait(ns); });
  expect_ends(device, "an event", [](const Held& held, std::uint64_t ns) { return held.event().wait(ns); });
  const Stream waiting(device);
  expect_ends(device, "a stream that waits for an event", [&](const Held& held, std::uint64_t ns) {
    held.hold(waiting);
    return waiting.wait(ns);
  });
}

// Several threads wait for one stream with different timeouts. Each wait ends at its own deadline or with the work.
void many_deadlines(Kit& kit) {
  Device& device = kit.device();
  kit.plugin().table<yoke_stream_api>();
  constexpr std::uint64_t kShort[] = {0, kMillisecond, 20 * kMillisecond, 50 * kMillisecond};
  constexpr unsigned kShortWaits = std::size(kShort) * 2;
  for (int round = 0; round < 3 * kit.effort(); ++round) {
    const Held held(device);
    std::atomic<unsigned> over{0};
    run_threads(kShortWaits + 5, [&](unsigned thread) {
      if (thread == 0) {
        Patience::wait_until([&] { return over == kShortWaits; },
                             "waits with timeouts of at most 50 ms do not end");
        return held.open();
      }
      const bool is_short = thread <= kShortWaits;
      const std::uint64_t timeout = is_short ? kShort[thread % std::size(kShort)] : longest_wait_ns();
      const Answer answer = thread % 2 == 0 ? held.stream().wait(timeout) : held.event().wait(timeout);
      const bool was_closed = held.is_closed();
      over += is_short ? 1 : 0;
      check(!is_short || !was_closed || !answer.ok(), "a wait with a timeout of ", timeout,
            " ns returned OK although the work cannot run");
      if (!is_short) {
        expect_ok(answer, "waiting for work that other threads wait for with short timeouts");
      } else if (!answer.ok()) {
        expect_code(answer, YOKE_STATUS_DEADLINE_EXCEEDED,
                    text("waiting ", timeout, " ns beside waits of other threads"));
      }
    });
  }
}

// A wait is for the work before the call, so it ends although another thread queues more and more.
void wait_beside_queueing(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_stream_api>();
  const std::uint64_t limit = longest_wait_ns() / 4;
  const Buffer buffer(device, 1U << 20U);
  const Bytes source(1U << 20U);
  const Stream stream(device);
  std::atomic<bool> is_over{false};
  std::atomic<bool> has_begun{false};
  run_threads(2, [&](unsigned thread) {
    if (thread == 0) {
      std::deque<Event> queued;  // always several, so that the stream is not idle
      for (const auto begin = Clock::now(); !is_over && ns_since(begin) < limit;) {
        if (queued.size() == 6 && !queued.front().done()) {
          std::this_thread::sleep_for(std::chrono::microseconds(50));
          continue;
        }
        has_begun = queued.size() == 6;
        if (has_begun) {
          queued.pop_front();
        }
        for (int i = 0; i < 64; ++i) {
          expect_ok(plugin.from_host(stream.get(), buffer.get(), 0, source.data(), source.size(), nullptr));
        }
        queued.push_back(stream.record());
      }
      has_begun = true;
      return;
    }
    Patience::wait_until([&] { return has_begun.load(); }, "the work on a stream does not end");
    const auto begin = Clock::now();
    const Answer answer = stream.wait();
    const std::uint64_t took = ns_since(begin);
    is_over = true;
    expect_ok(answer, "waiting for a stream to which another thread queues work");
    check(took < limit / 2, "a wait for a stream lasted ", took / kMillisecond,
          " ms, as long as another thread queued work to it");
  });
}

}  // namespace

std::vector<Test> stream_count_tests() {
  return {
      {"many-commands",
       "events of a stream stay done, and new ones pending, before and after 2^7 to 2^16 copies",
       {18, 44},
       many_commands,
       3},
      {"many-objects",
       "66,000 buffers and events and 3,000 streams can be created one after the other, beside live ones",
       {14, 18},
       many_objects,
       3},
      {"many-launches", "a routine is right before and after 2^7 to 2^16 launches", {26}, many_launches, 3},
      {"deadline-beside-work",
       "a wait ends at its deadline although other streams finish work all the time",
       {21},
       deadline_beside_work},
      {"many-deadlines",
       "waits of several threads for one stream and one event end at their own deadlines, or with the work",
       {20, 21},
       many_deadlines},
      {"wait-beside-queueing",
       "a wait for a stream ends with the work before it although another thread queues more",
       {18, 20},
       wait_beside_queueing},
  };
}

}  // namespace yoke::conformance
