// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/stream_failed.cpp: streams that failed or were aborted: all later work is skipped, and
// waits for other streams end.
#include <algorithm>
#include <functional>

#include "groups.h"
#include "held.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

void abort_stream(const Stream& stream) {
  expect_supported(stream.device().plugin().call<&yoke_stream_api::stream_abort>(stream.get()),
                   "aborting a stream");
}

// The memory that work on a failed stream must not change.
class Untouched {
 public:
  explicit Untouched(Device& device)
      : plugin_(device.plugin()), buffer_(device, kBytes), other_(device, kBytes), small_(device) {
    buffer_.write(0, Bytes(kBytes, kOld));
    other_.write(0, Bytes(kBytes, kNew));
    if (small_.run) {
      small_.run->y.write(0, Bytes(small_.run->y.byte_count(), kOld));
    }
  }

  // Queues every kind of work. Each call succeeds; the work is skipped.
  void queue(const Stream& stream) {
    for (std::size_t i = 0; i < std::size(kSizes); ++i) {
      const std::uint64_t byte_count = kSizes[i];
      const std::uint64_t offset = i * 8;
      expect_ok(plugin_.to_host(stream.get(), other_.get(), offset, host_.data(), byte_count),
                text("queueing a to_host of ", byte_count, " bytes on a stream that has failed"));
      expect_ok(plugin_.from_host(stream.get(), buffer_.get(), offset, source_.data(), byte_count, nullptr),
                text("queueing a from_host of ", byte_count, " bytes on a stream that has failed"));
      if (plugin_.has<&yoke_backend_api::device_to_device>()) {
        stream.copy(buffer_, offset, other_, offset, byte_count);
      }
      if (plugin_.has<&yoke_backend_api::fill>()) {
        expect_ok(plugin_.fill(stream.get(), buffer_.get(), offset, byte_count, &kNew, 1),
                  "queueing a fill on a stream that has failed");
      }
    }
    if (small_.run) {
      expect_ok(plugin_.routine_launch(stream.get(), small_.run->routine.get(), {}),
                "queueing a launch on a stream that has failed");
    }
  }
  // Precondition: the stream was waited for.
  void check_unchanged(const std::string& what) const {
    check(host_ == Bytes(kBytes, kOld), "a to_host on ", what, " wrote its target");
    check(buffer_.contents() == Bytes(kBytes, kOld), "a copy or fill on ", what, " wrote a buffer");
    if (small_.run) {
      check(small_.run->y.contents() == Bytes(small_.run->y.byte_count(), kOld), "a launch on ", what,
            " wrote its output");
    }
  }

 private:
  static constexpr std::uint64_t kBytes = (1U << 20U) + 64;
  static constexpr std::uint64_t kSizes[] = {1, 8, 4096, 65537, 1U << 20U};
  static constexpr std::byte kOld{0x37};
  static constexpr std::byte kNew{0x73};
  const Plugin& plugin_;
  Buffer buffer_;
  Buffer other_;
  Bytes host_ = Bytes(kBytes, kOld);
  Bytes source_ = Bytes(kBytes, kNew);
  SmallRunIfAny small_;
};

void check_skips(Device& memory, const Stream& stream, std::int32_t code, const std::string& what) {
  Untouched untouched(memory);
  for (int round = 0; round < 2; ++round) {  // idle, and after work that was skipped
    untouched.queue(stream);
    const Event event = stream.record();
    expect_code(stream.wait(), code, "waiting for " + what);
    expect_code(event.wait(), code, "waiting for an event of " + what);
    untouched.check_unchanged(what);
  }
}

// The ways in which a stream without pending work can have failed.
void skips_all(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_stream_api>();
  bool any = false;
  std::optional<Event> failed;
  if (plugin.has<&yoke_stream_api::stream_abort>()) {
    any = true;
    const Stream unused(device);
    abort_stream(unused);
    check_skips(device, unused, YOKE_STATUS_ABORTED, "an aborted stream that had no work");
    const Busy used(device, 1U << 20U);
    used.queue(16);
    abort_stream(used.stream);
    check_skips(device, used.stream, YOKE_STATUS_ABORTED, "an aborted stream that had work");
    failed = unused.record();
  }
  if (plugin.has<&yoke_stream_api::device_abort>()) {
    any = true;
    Device other = another_handle(kit);
    const Stream stream(other);
    expect_supported(plugin.call<&yoke_stream_api::device_abort>(other.get()), "aborting a device");
    check_skips(device, stream, YOKE_STATUS_ABORTED, "a stream of an aborted device");
  }
  if (plugin.has<&yoke_fault_api::fault_arm>()) {
    any = true;
    const Buffer buffer(device, 64);
    Stream stream(device);
    arm_fault(plugin, device.get(), YOKE_FAULT_COPY, 1);
    stream.write(buffer, 0, Bytes(64));
    expect_code(stream.wait(), YOKE_STATUS_UNAVAILABLE, "waiting for a stream with a failed copy");
    check_skips(device, stream, YOKE_STATUS_UNAVAILABLE, "a stream with a failed copy");
  }
  if (failed) {
    const Stream heir(device);
    heir.wait_for(*failed);
    expect_code(heir.wait(), YOKE_STATUS_ABORTED, "waiting for a stream that inherits an abort");
    check_skips(device, heir, YOKE_STATUS_ABORTED, "a stream that inherits an abort");
  }
  if (!any) {
    unsupported("the plugin has neither stream_abort, device_abort nor yoke.fault/1");
  }
}

enum class Way { kStreamWait, kEventWait, kDeviceAbort };

// A stream that waits for another is aborted. Its work has not started, so a wait for it need not last until the other
// stream continues, unless the device already has the work and runs it to its end. Returns false if it lasted that
// long, although the work was skipped.
bool ends_early(Kit& kit, Way way, std::uint64_t patience_ns) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  std::optional<Device> other;
  if (way == Way::kDeviceAbort) {
    other.emplace(kit, kit.plugin(), kit.settings().device, kit.device_options());
  }
  const Buffer buffer(device, 4096);
  buffer.write(0, Bytes(4096, std::byte{1}));
  Stream stream(other ? *other : device);
  const Held held(device);
  held.hold(stream);
  stream.write(buffer, 0, Bytes(4096, std::byte{2}));
  const Event event = stream.record();
  if (!held.is_closed()) {
    unsupported("without host callbacks no stream waits long enough for this test");
  }
  if (other) {
    expect_supported(plugin.call<&yoke_stream_api::device_abort>(other->get()), "aborting a device");
  } else {
    abort_stream(stream);
  }
  const auto wait = [&](std::uint64_t timeout_ns) {
    return way == Way::kEventWait ? event.wait(timeout_ns) : stream.wait(timeout_ns);
  };
  const Answer early = wait(patience_ns);
  const bool was_closed = held.is_closed();
  held.open();
  expect_code(wait(longest_wait_ns()), YOKE_STATUS_ABORTED,
              "waiting for an aborted stream that waited for an event");
  const bool was_skipped = buffer.contents() == Bytes(4096, std::byte{1});
  if (early.code == YOKE_STATUS_ABORTED) {
    check(was_skipped, "a wait for an aborted stream returned ABORTED, and its work still ran later");
    return true;
  }
  expect_code(early, YOKE_STATUS_DEADLINE_EXCEEDED, "waiting for an aborted stream that waits for an event");
  return !was_closed || !was_skipped;
}

void abort_waiting(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.need<&yoke_stream_api::stream_abort>();
  for (const Way way : {Way::kStreamWait, Way::kEventWait, Way::kDeviceAbort}) {
    if (way != Way::kDeviceAbort || plugin.has<&yoke_stream_api::device_abort>()) {
      // The second try is for machines that are loaded.
      check(ends_early(kit, way, 250 * kMillisecond) || ends_early(kit, way, longest_wait_ns() / 2),
            "an aborted stream skips its work, but a wait for it does not end before the event for which it "
            "waited; a host callback or copies of another stream kept that event pending");
    }
  }
}

}  // namespace

std::vector<Test> stream_failed_tests() {
  return {
      {"skips-all",
       "a stream that has failed or was aborted skips copies of every size, fills and launches, also when it "
       "is idle",
       {19, 46},
       skips_all},
      {"abort-waiting",
       "aborting a stream that waits for an event of another ends its waits before that event, or runs its "
       "work",
       {21, 46},
       abort_waiting,
       2},
  };
}

}  // namespace yoke::conformance
