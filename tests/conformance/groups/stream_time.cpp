// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/stream_time.cpp: what only a stream that is busy for a while can show: deadlines,
// fates of patterns, time between events.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "groups.h"

namespace yoke::conformance {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t ns_since(Clock::time_point begin) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
}

// A stream with work for a while, by copies there and back.
class Busy {
 public:
  explicit Busy(Device& device) : a_(device, kBytes), b_(device, kBytes), stream_(device) {}

  const Stream& stream() const { return stream_; }
  const Buffer& buffer() const { return a_; }

  void queue() const {
    for (std::uint64_t i = 0; i < copies_; ++i) {
      stream_.copy(i % 2 == 0 ? b_ : a_, 0, i % 2 == 0 ? a_ : b_, 0, kBytes);
    }
  }
  void grow() { copies_ *= 2; }
  // Makes queue() work that takes at least `least_ns`, also when the machine has nothing else to do. False:
  // it never takes that long.
  bool grow_until(std::uint64_t least_ns) {
    constexpr std::uint64_t kMost = 8192;
    for (; copies_ <= kMost; grow()) {
      std::uint64_t shortest = UINT64_MAX;
      for (int i = 0; i < 3 && (i == 0 || shortest >= least_ns); ++i) {
        const auto begin = Clock::now();
        queue();
        stream_.synchronize();
        shortest = std::min(shortest, ns_since(begin));
      }
      if (shortest >= least_ns) {
        return true;
      }
    }
    return false;
  }

 private:
  static constexpr std::uint64_t kBytes = 4U << 20U;
  Buffer a_;
  Buffer b_;
  Stream stream_;
  std::uint64_t copies_ = 16;
};

constexpr std::uint64_t kLongWork = 80'000'000;  // ns
constexpr int kTries = 5;                        // so up to 16 times as long

// A wait for long work with hardly any time. OK is an answer only when the work is done. The wait comes back
// while there is work, or when most of the time had gone into queueing it; a loaded machine may come back
// late, but not later than work that gets longer with each try.
template <class Wait>
void expect_cut(Device& device, const char* what, const Wait& wait) {
  Busy busy(device);
  if (!busy.grow_until(kLongWork)) {
    unsupported("no queue of copies keeps the device busy for long enough");
  }
  std::uint64_t waited = 0;
  for (int i = 0; i < kTries; ++i) {
    const auto begin = Clock::now();
    busy.queue();
    const auto before = Clock::now();
    const Answer answer = wait(busy.stream());
    waited = ns_since(before);
    const bool is_done = busy.stream().done();
    if (answer.ok()) {
      check(is_done, what, " answered OK at its deadline, but the work is not done");
    } else {
      expect_code(answer, YOKE_DEADLINE_EXCEEDED, text(what, " with a short deadline"));
    }
    busy.stream().synchronize();
    if (!is_done || waited <= ns_since(begin) / 4) {
      return;
    }
    busy.grow();
  }
  fail(text(what, " with a deadline of 1 ms came back after ", waited / 1'000'000,
            " ms, when all work was done; it does not end at its deadline"));
}

void deadline_cuts(Kit& kit) {
  constexpr std::uint64_t kShort = 1'000'000;
  expect_cut(kit.device(), "stream_wait", [](const Stream& stream) { return stream.wait(kShort); });
  expect_cut(kit.device(), "event_wait", [](const Stream& stream) { return stream.record().wait(kShort); });
}

// The pattern stays where it is, and is another one as soon as the call is over.
void pattern_is_free(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.need<&yoke_backend_api::fill>();
  Busy busy(kit.device());
  busy.queue();
  constexpr std::uint64_t kBytes = 4096;
  const Buffer target(kit.device(), kBytes);
  std::array<std::uint64_t, 64> patterns{};
  std::vector<std::byte> received(kBytes);
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    patterns[i] = i + 1;
    expect_ok(plugin.call<&yoke_backend_api::fill>(busy.stream().get(), target.get(), std::uint64_t{i * 64},
                                                   std::uint64_t{64}, static_cast<const void*>(&patterns[i]),
                                                   std::uint32_t{sizeof patterns[i]}),
              "queueing a fill");
    patterns[i] = 0;
  }
  busy.stream().read(target, 0, received);
  busy.stream().synchronize();
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    std::uint64_t there = 0;
    std::memcpy(&there, received.data() + i * 64, sizeof there);
    check_equal(there, i + 1, "the pattern of queued fill ", i,
                ", which the host changed after the call (a pattern is copied in the call)");
  }
}

// The host sleeps between two events, so at least that long lies between them.
void elapsed_unit(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.need<&yoke_stream_api::event_elapsed>();
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
  std::uint64_t ns = 0;
  expect_ok(plugin.call<&yoke_stream_api::event_elapsed>(start.get(), stop.get(), &ns),
            "asking for the time between two events");
  // Clocks of devices drift by far less than a twentieth.
  check(ns >= least - least / 20 && ns <= most + most / 20, "event_elapsed is ", ns,
        " ns; the host saw at least ", least, " and at most ", most, " ns pass");
}

}  // namespace

std::vector<Test> stream_time_tests() {
  return {
      {"deadline-cuts",
       "a wait with a short deadline ends long before the work does, and OK means done",
       {21},
       deadline_cuts},
      {"pattern-is-free",
       "the pattern of a queued fill may change as soon as the call is over",
       {15, 16},
       pattern_is_free},
  };
}

std::vector<Test> event_time_tests() {
  return {{"elapsed-unit",
           "event_elapsed is in nanoseconds, as the host's clock counts them",
           {18},
           elapsed_unit}};
}

}  // namespace yoke::conformance
