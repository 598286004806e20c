// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/stream_pause.cpp: work after seconds without work, when threads may have ended, devices
// may sleep and clocks of 32 bits have wrapped.
#include <deque>
#include <optional>
#include <thread>

#include "groups.h"
#include "host_callback.h"
#include "wide_kernels.h"

namespace yoke::conformance {
namespace {

// A stream with buffers for copies and fills.
struct Copier {
  explicit Copier(Device& device)
      : plugin(device.plugin()), a(device, kBytes), b(device, kBytes), received(kBytes), stream(device) {}

  void queue(std::byte value) {
    expected.assign(kBytes, value);
    stream.write(a, 0, expected);
    if (plugin.has<&yoke_backend_api::fill>()) {
      expected.back() = static_cast<std::byte>(~static_cast<unsigned>(value) & 0xffU);
      expect_ok(plugin.fill(stream.get(), a.get(), kBytes - 1, 1, &expected.back(), 1), "queueing a fill");
    }
    if (plugin.has<&yoke_backend_api::device_to_device>()) {
      stream.copy(b, 0, a, 0, kBytes);
      stream.read(b, 0, received);
    } else {
      stream.read(a, 0, received);
    }
  }

  static constexpr std::uint64_t kBytes = 1U << 20U;
  const Plugin& plugin;
  Buffer a;
  Buffer b;
  Bytes expected;
  Bytes received;
  Stream stream;
};

// Several streams and every kind of work.
class Work {
 public:
  explicit Work(Device& device) {
    for (int i = 0; i < 3; ++i) {
      copiers_.emplace_back(device);
    }
    try {
      kernels_.emplace(device);
    } catch (const Unsupported&) {
      // The copies are enough.
    }
  }
  const Stream& stream() const { return copiers_.front().stream; }

  void run(unsigned round, const char* when) {
    for (std::size_t i = 0; i < copiers_.size(); ++i) {
      if (i > 0) {
        copiers_[i].stream.wait_for(copiers_[i - 1].stream.record());
      }
      copiers_[i].queue(static_cast<std::byte>(std::size_t{16} * round + i));
    }
    for (const Copier& copier : copiers_) {
      expect_ok(copier.stream.wait(), text("waiting for a stream ", when));
      check(copier.received == copier.expected, "copies and fills have wrong results ", when);
    }
    if (const auto callback = HostCallback::gate(stream())) {
      callback->open();
      callback->wait();
    }
    if (kernels_) {
      kernels_->check_all(wide_input(round), when);
    }
  }

 private:
  std::deque<Copier> copiers_;
  std::optional<WideKernels> kernels_;
};

// The pause is longer than 2^32 ns, and takes no processor time.
void after_pause(Kit& kit) {
  constexpr std::chrono::milliseconds kPause(4400);
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_stream_api>();
  Work work(kit.device());
  work.run(0, "before a pause");
  const auto begin = Clock::now();
  const Event start = work.stream().record_timed();
  expect_ok(start.wait(), "waiting for an event");
  const auto between = Clock::now();
  std::this_thread::sleep_for(kPause);
  const std::uint64_t least = ns_since(between);
  for (unsigned round = 1; round < 3; ++round) {
    work.run(round, "after a pause of seconds");
  }
  const Event stop = work.stream().record_timed();
  expect_ok(stop.wait(), "waiting for an event after a pause of seconds");
  const std::uint64_t most = ns_since(begin);
  if (plugin.has<&yoke_stream_api::event_elapsed>()) {
    const std::uint64_t ns = stop.ns_since(start);
    // 5 percent: far more than the drift between the clocks of a device and its host.
    check(ns >= least - least / 20 && ns <= most + most / 20, "event_elapsed returned ", ns,
          " ns between events before and after a pause; the host measured ", least, " to ", most, " ns");
  }
}

}  // namespace

std::vector<Test> stream_pause_tests() {
  return {{"after-pause",
           "after seconds without work, copies, fills, kernels and the time between two events are right",
           {18, 43},
           after_pause}};
}

}  // namespace yoke::conformance
