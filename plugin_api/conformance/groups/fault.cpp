// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/fault.cpp: injected faults: each error
// is reported with a text, and nothing leaks.
#include <yoke/runtime/counted.h>

#include "groups.h"
#include "scenario.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

// Makes the n-th host allocation return NULL, for each n until the plugin makes fewer.
void host_allocations(Kit& kit) {
  kit.device();
  constexpr std::uint64_t kMost = 20000;
  std::uint64_t nth = 0;
  bool failed = true;
  while (failed) {
    ++nth;
    check(nth < kMost, "the plugin makes ever more host allocations after one has failed");
    Plugin plugin(kit.library());
    plugin.host().fail_allocation(nth);
    const std::optional<Answer> refused = play_scenario(kit, plugin);
    failed = plugin.host().allocation_failed();
    if (refused) {
      check(failed, "a valid call failed: ", refused->words());
      expect_refused(*refused, text("after host allocation ", nth, " returned NULL"));
      check(refused->code == YOKE_STATUS_RESOURCE_EXHAUSTED ||
                refused->code == YOKE_STATUS_OUT_OF_DEVICE_MEMORY,
            "host allocation ", nth, " returned NULL: ", refused->words(),
            "; expected RESOURCE_EXHAUSTED or OUT_OF_DEVICE_MEMORY");
    }
    check_nothing_alive(plugin, text("after host allocation ", nth, " returned NULL"));
    plugin.host().fail_allocation(0);
    plugin.leave();
  }
  if (nth == 1) {
    unsupported("the plugin makes no host allocations");
  }
  kit.note(text(yoke::detail::counted(nth - 1, "host allocation"), " failed in turn"));
}

// Makes each call of a kind fail once, in a scenario that stops at the first error.
void each_fails(Kit& kit, std::int32_t kind, std::int32_t code, const char* what) {
  kit.device();
  kit.plugin().table<yoke_fault_api>();
  constexpr std::uint64_t kMost = 1000;
  Plugin own(kit.library());
  std::uint64_t nth = 1;
  for (; nth < kMost; ++nth) {
    kit.progress(text(what, " ", nth));
    const std::optional<Answer> refused =
        play_scenario(kit, own, [&](yoke_device* device) { arm_fault(own, device, kind, nth); });
    if (!refused) {
      break;
    }
    expect_code(*refused, code, text(what, " ", nth, ", for which a fault was armed"));
    check_nothing_alive(own, text("after ", what, " ", nth, " failed"));
  }
  check(nth > 1, "a fault was armed for the first ", what, ", but no call failed");
  check(nth < kMost, "a scenario of a few calls counted ", kMost, " calls as ", what);
  own.leave();
  kit.note(text("each of ", nth - 1, " failed once"));
}

void each_allocation(Kit& kit) {
  each_fails(kit, YOKE_FAULT_ALLOCATION, YOKE_STATUS_OUT_OF_DEVICE_MEMORY, "allocation");
}
void each_copy(Kit& kit) {
  each_fails(kit, YOKE_FAULT_COPY, YOKE_STATUS_UNAVAILABLE, "copy");
}
void each_launch(Kit& kit) {
  const SmallProgram check_that_one_runs(kit.device());
  each_fails(kit, YOKE_FAULT_LAUNCH, YOKE_STATUS_UNAVAILABLE, "launch");
}
void each_loss(Kit& kit) {
  each_fails(kit, YOKE_FAULT_DEVICE_LOST, YOKE_STATUS_DEVICE_LOST, "copy or launch");
}

void only_the_nth_allocation(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const std::uint64_t used = device.memory().used_bytes;
  for (std::uint64_t nth = 1; nth <= 5; ++nth) {
    arm_fault(plugin, device.get(), YOKE_FAULT_ALLOCATION, nth);
    std::vector<Buffer> alive;
    for (std::uint64_t i = 1; i <= 5; ++i) {
      if (i != nth) {
        alive.emplace_back(device, 1000);
        continue;
      }
      expect_no_buffer(device, 1000, YOKE_MEMORY_DEVICE, YOKE_STATUS_OUT_OF_DEVICE_MEMORY,
                       text("allocation ", nth, ", for which a fault was armed"));
    }
    check_equal(plugin.live_counts().buffers, alive.size(),
                "the number of live buffers after one allocation failed");
  }
  check_equal(device.memory().used_bytes, used, "used_bytes after failed allocations");
}

void only_the_nth_copy(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const Bytes sent = kit.random().bytes(100);
  const Buffer buffer(device, 100);
  for (std::uint64_t nth = 1; nth <= 4; ++nth) {
    arm_fault(plugin, device.get(), YOKE_FAULT_COPY, nth);
    for (std::uint64_t i = 1; i <= 4; ++i) {
      const Answer answer = plugin.from_host(nullptr, buffer.get(), 0, sent.data(), 100, nullptr);
      if (i == nth) {
        expect_code(answer, YOKE_STATUS_UNAVAILABLE, text("copy ", nth, ", for which a fault was armed"));
      } else {
        expect_ok(answer, text("copy ", i, ", when a fault was armed for copy ", nth));
      }
    }
    check(buffer.contents() == sent, "a copy after a failed copy has the wrong result");
  }
}

void clear_disarms(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  expect_code(plugin.call<&yoke_fault_api::fault_arm>(device.get(), YOKE_FAULT_ALLOCATION, std::uint64_t{0},
                                                      std::uint64_t{0}),
              YOKE_STATUS_INVALID_ARGUMENT, "arming a fault for call number 0");
  for (const std::int32_t kind : {0, -1, 99}) {
    expect_code(
        plugin.call<&yoke_fault_api::fault_arm>(device.get(), kind, std::uint64_t{1}, std::uint64_t{0}),
        YOKE_STATUS_UNIMPLEMENTED, text("arming a fault of the unknown kind ", kind));
  }
  arm_fault(plugin, device.get(), YOKE_FAULT_ALLOCATION, 1);
  expect_ok(plugin.call<&yoke_fault_api::fault_clear>(device.get()), "disarming");
  { const Buffer buffer(device, 64); }
  arm_fault(plugin, device.get(), YOKE_FAULT_ALLOCATION, 1);
  arm_fault(plugin, device.get(), YOKE_FAULT_ALLOCATION, 3);  // replaces the first one
  const Buffer first(device, 64);
  const Buffer second(device, 64);
  expect_no_buffer(device, 64, YOKE_MEMORY_DEVICE, YOKE_STATUS_OUT_OF_DEVICE_MEMORY,
                   "the third allocation, whose fault replaced that of the first");
}

// The error of a failed copy must be returned by every wait for work queued after it, and by no other wait.
void stream_error(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const Buffer buffer(device, 100);
  {
    Stream bad(device);
    Stream good(device);
    bad.write(buffer, 0, Bytes(100));
    const Event before = bad.record();
    expect_ok(before.wait(), "waiting for an event recorded before the failed copy");
    arm_fault(plugin, device.get(), YOKE_FAULT_COPY, 1);
    bad.write(buffer, 0, Bytes(100));
    const Event after = bad.record();
    for (int i = 0; i < 3; ++i) {
      expect_code(bad.wait(), YOKE_STATUS_UNAVAILABLE, "waiting for a stream with a failed copy");
      expect_code(after.wait(), YOKE_STATUS_UNAVAILABLE, "waiting for an event recorded after a failed copy");
      check_equal(bad.state(), YOKE_STATE_FAILED, "the state of a stream with a failed copy");
      check_equal(after.state(), YOKE_STATE_FAILED, "the state of an event recorded after a failed copy");
      check_equal(before.state(), YOKE_STATE_DONE, "the state of an event recorded before a failed copy");
      expect_code(bad.wait(0), YOKE_STATUS_UNAVAILABLE,
                  "waiting with timeout 0 for a stream with a failed copy");
    }
    expect_ok(before.wait(), "waiting again for an event recorded before the failed copy");
    good.write(buffer, 0, Bytes(100));
    expect_ok(good.wait(), "waiting for a stream while another stream has an error");
    good.wait_for(before);
    expect_ok(good.wait(), "waiting for a stream that waits for an event recorded before a failed copy");
    good.wait_for(after);
    expect_code(good.wait(), YOKE_STATUS_UNAVAILABLE,
                "waiting for a stream that waits for an event recorded after a failed copy");
  }
  Stream fresh(device);
  fresh.write(buffer, 0, Bytes(100, std::byte{9}));
  fresh.synchronize();
  check(buffer.contents() == Bytes(100, std::byte{9}),
        "a new stream does not work after another stream had an error");
}

void late_event(Kit& kit) {
  constexpr std::uint64_t kDelay = 400 * kMillisecond;
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const Stream stream(device);
  const Stream other(device);
  arm_fault(plugin, device.get(), YOKE_FAULT_EVENT_LATE, 2, kDelay);
  const Event first = stream.record();
  expect_ok(first.wait(), "waiting for the event before the delayed one");
  const auto begin = Clock::now();
  const Event late = stream.record();
  const Event unused = stream.record();
  other.wait_for(late);
  // On a loaded machine the delay may end before the next call returns; then the test cannot check anything.
  const auto is_early = [&] { return Clock::now() - begin < std::chrono::nanoseconds(kDelay); };
  const bool done_at_once = late.done();
  check(!done_at_once || !is_early(), "an event with a delay of 400 ms is done at once");
  const auto expect_late = [&](std::uint64_t timeout_ns, const char* what) {
    const Answer answer = late.wait(timeout_ns);
    if (!answer.ok() || is_early()) {
      expect_code(answer, YOKE_STATUS_DEADLINE_EXCEEDED, what);
    }
    return !answer.ok();
  };
  expect_late(0, "waiting with timeout 0 for an event with a delay");
  const auto before_wait = Clock::now();
  if (expect_late(20 * kMillisecond, "waiting 20 ms for an event with a delay of 400 ms")) {
    const double short_wait = std::chrono::duration<double>(Clock::now() - before_wait).count();
    check(short_wait >= 0.015, "a wait with a timeout of 20 ms returned after ", short_wait, " s");
  }
  const bool other_done = other.done();
  check(!other_done || !is_early(), "a stream that waits for a delayed event is done before the event");
  expect_ok(late.wait(), "waiting for an event with a delay of 400 ms");
  const double whole_wait = std::chrono::duration<double>(Clock::now() - begin).count();
  check(whole_wait >= 0.38, "an event with a delay of 0.4 s was done after ", whole_wait, " s");
  expect_ok(other.wait(), "waiting for a stream that waits for a delayed event");
  expect_ok(stream.wait(), "waiting for a stream with a delayed event");
}

// Makes each call that uses the device.
void check_lost(Device& device, const Buffer& buffer, const std::optional<SmallProgram>& program,
                const std::string& when) {
  const Plugin& plugin = device.plugin();
  Bytes host(16);
  const auto lost = [&](const Answer& answer) { expect_code(answer, YOKE_STATUS_DEVICE_LOST, when); };
  lost(plugin.from_host(nullptr, buffer.get(), 0, host.data(), 16, nullptr));
  lost(plugin.to_host(nullptr, buffer.get(), 0, host.data(), 16));
  if (plugin.has<&yoke_backend_api::fill>()) {
    lost(plugin.fill(nullptr, buffer.get(), 0, 16, host.data(), 4));
  }
  if (plugin.has<&yoke_backend_api::device_to_device>()) {
    lost(plugin.device_to_device(nullptr, buffer.get(), 0, buffer.get(), 16, 16));
  }
  expect_no_buffer(device, 64, YOKE_MEMORY_DEVICE, YOKE_STATUS_DEVICE_LOST, when);
  if (plugin.has_table<yoke_stream_api>()) {
    yoke_stream* stream = nullptr;
    lost(plugin.stream_create(device.get(), 0, &stream));
  }
  if (program) {
    yoke_code* code = nullptr;
    lost(plugin.code_compile(device.get(), program_text(program->text()), &code));
  }
}

void device_lost(Kit& kit) {
  kit.device();
  const Plugin& plugin = kit.plugin();
  plugin.need<&yoke_fault_api::fault_arm>();
  {
    Device device = another_handle(kit);
    const std::optional<SmallProgram> program = SmallProgram::if_any(device);
    const Buffer buffer(device, 64);
    Bytes host(64);
    std::optional<Stream> stream = stream_if_any(device);
    Event event;
    if (stream) {
      stream->write(buffer, 0, Bytes(64));
      event = stream->record();
    }
    arm_fault(plugin, device.get(), YOKE_FAULT_DEVICE_LOST, 2);
    buffer.write(0, host);
    expect_code(plugin.to_host(nullptr, buffer.get(), 0, host.data(), 64), YOKE_STATUS_DEVICE_LOST,
                "the copy for which DEVICE_LOST was armed");
    for (int i = 0; i < 3; ++i) {
      check_lost(device, buffer, program, "after the device was lost");
      if (stream) {
        expect_code(stream->wait(), YOKE_STATUS_DEVICE_LOST, "waiting for a stream of a lost device");
        expect_code(event.wait(), YOKE_STATUS_DEVICE_LOST, "waiting for an event of a lost device");
      }
      expect_ok(plugin.call<&yoke_fault_api::fault_clear>(device.get()),
                "clearing the faults of a lost device");
    }
  }
  Device again = another_handle(kit);
  const Buffer buffer(again, 64);
  buffer.write(0, Bytes(64));
}

}  // namespace

std::vector<Test> fault_tests() {
  return {
      {"host-allocations",
       "if any host allocation fails, the call fails with a text and nothing leaks",
       {10, 13},
       host_allocations,
       2},
      {"each-allocation",
       "if any allocation fails, the call fails with a text and nothing leaks",
       {19},
       each_allocation},
      {"each-copy", "if any copy fails, a call fails with a text and nothing leaks", {19}, each_copy},
      {"each-launch", "if any launch fails, a call fails with a text and nothing leaks", {19}, each_launch},
      {"each-loss",
       "if any copy or launch loses the device, a call fails with DEVICE_LOST and nothing leaks",
       {19},
       each_loss},
      {"nth-allocation",
       "only the allocation for which a fault was armed fails; its out-parameter does not change",
       {10},
       only_the_nth_allocation},
      {"nth-copy",
       "only the copy for which a fault was armed fails; the next copy works",
       {19},
       only_the_nth_copy},
      {"arm-and-clear",
       "faults can be replaced and cleared; call number 0 and unknown kinds are errors",
       {6},
       clear_disarms},
      {"stream-error",
       "an error stays on its stream, the events recorded after it and the streams that wait for them, and "
       "affects no other stream",
       {18, 19, 44},
       stream_error},
      {"late-event",
       "waits and streams wait for a delayed event until it is done or the timeout expires",
       {18, 21},
       late_event},
      {"device-lost",
       "every call on a lost device returns DEVICE_LOST; the device can be closed and opened again",
       {19},
       device_lost},
  };
}

}  // namespace yoke::conformance
