// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/fault.cpp: what goes wrong arrives, says why, and leaves nothing behind.
#include <chrono>

#include "basic_use.h"
#include "groups.h"
#include "scenario.h"

namespace yoke::conformance {
namespace {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMillisecond = 1'000'000;  // ns

void arm(const Plugin& plugin, yoke_device* device, std::int32_t kind, std::uint64_t nth,
         std::uint64_t delay_ns = 0) {
  const Answer answer = plugin.call<&yoke_fault_api::fault_arm>(device, kind, nth, delay_ns);
  if (answer.code == YOKE_UNIMPLEMENTED) {
    expect_code(answer, YOKE_UNIMPLEMENTED, text("arming a fault of kind ", kind));
    unsupported(text("faults of kind ", kind, ": ", answer.status.text));
  }
  expect_ok(answer, text("arming a fault of kind ", kind));
}

void needs_device(Kit& kit) {
  kit.device();
}

// The n-th host allocation answers NULL, for each n until none is asked for any more.
void host_allocations(Kit& kit) {
  needs_device(kit);
  constexpr std::uint64_t kMost = 20000;
  std::uint64_t nth = 0;
  bool failed = true;
  while (failed) {
    ++nth;
    check(nth < kMost, "the plugin asks for more and more host memory when one allocation fails");
    Plugin plugin(kit.library());
    plugin.host().fail_allocation(nth);
    const std::optional<Answer> refused = play_scenario(kit, plugin);
    failed = plugin.host().allocation_failed();
    if (refused) {
      check(failed, "a plain use of the plugin: ", refused->words());
      expect_refused(*refused, text("after host allocation ", nth, " answered NULL"));
      check(refused->code == YOKE_RESOURCE_EXHAUSTED || refused->code == YOKE_OUT_OF_DEVICE_MEMORY,
            "host allocation ", nth, " answered NULL: ", refused->words(),
            "; due is RESOURCE_EXHAUSTED or OUT_OF_DEVICE_MEMORY");
    }
    check_nothing_alive(plugin, text("after host allocation ", nth, " answered NULL"));
    plugin.host().fail_allocation(0);
    plugin.leave();
  }
  if (nth == 1) {
    unsupported("the plugin takes no memory from the host");
  }
  kit.note(text("each of ", nth - 1, " host allocations failed once"));
}

// Each call of a kind fails once, in a scenario that ends at the first error.
void each_fails(Kit& kit, std::int32_t kind, std::int32_t code, const char* what) {
  needs_device(kit);
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_fault_api>();
  constexpr std::uint64_t kMost = 1000;
  Plugin own(kit.library());
  std::uint64_t nth = 1;
  for (; nth < kMost; ++nth) {
    kit.progress(text(what, " ", nth));
    const std::optional<Answer> refused =
        play_scenario(kit, own, [&](yoke_device* device) { arm(own, device, kind, nth); });
    if (!refused) {
      break;
    }
    expect_code(*refused, code, text(what, " ", nth, " was armed to fail"));
    check_nothing_alive(own, text("after ", what, " ", nth, " failed"));
  }
  check(nth > 1, "the first ", what, " was armed to fail, and nothing failed");
  check(nth < kMost, "a scenario of a few calls had ", kMost, " calls that failed as ", what);
  own.leave();
  kit.note(text("each of ", nth - 1, " failed once"));
}

void each_allocation(Kit& kit) {
  each_fails(kit, YOKE_FAULT_ALLOCATION, YOKE_OUT_OF_DEVICE_MEMORY, "allocation");
}
void each_copy(Kit& kit) {
  each_fails(kit, YOKE_FAULT_COPY, YOKE_UNAVAILABLE, "copy");
}
void each_launch(Kit& kit) {
  kit.plugin().table<yoke_program_api>();
  each_fails(kit, YOKE_FAULT_LAUNCH, YOKE_UNAVAILABLE, "launch");
}
void each_loss(Kit& kit) {
  each_fails(kit, YOKE_FAULT_DEVICE_LOST, YOKE_DEVICE_LOST, "copy or launch that loses the device");
}

void only_the_nth_allocation(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const std::uint64_t used = device.memory().used_bytes;
  for (std::uint64_t nth = 1; nth <= 5; ++nth) {
    arm(plugin, device.get(), YOKE_FAULT_ALLOCATION, nth);
    std::vector<Buffer> alive;
    for (std::uint64_t i = 1; i <= 5; ++i) {
      if (i != nth) {
        alive.emplace_back(device, 1000);
        continue;
      }
      yoke_buffer* const untouched = reinterpret_cast<yoke_buffer*>(&kit);
      yoke_buffer* raw = untouched;
      expect_code(plugin.call<&yoke_backend_api::buffer_create>(device.get(), std::uint64_t{1000},
                                                                YOKE_MEMORY_DEVICE, &raw),
                  YOKE_OUT_OF_DEVICE_MEMORY, text("allocation ", nth, " was armed to fail"));
      check(raw == untouched, "a failed buffer_create wrote *out_buffer");
    }
    check_equal(plugin.live_counts().buffers, alive.size(), "live buffers after one failed");
  }
  check_equal(device.memory().used_bytes, used, "used_bytes after failed allocations");
}

void only_the_nth_copy(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const Bytes sent = kit.random().bytes(100);
  const Buffer buffer(device, 100);
  for (std::uint64_t nth = 1; nth <= 4; ++nth) {
    arm(plugin, device.get(), YOKE_FAULT_COPY, nth);
    for (std::uint64_t i = 1; i <= 4; ++i) {
      const Answer answer = plugin.call<&yoke_backend_api::from_host>(
          nullptr, buffer.get(), std::uint64_t{0}, sent.data(), std::uint64_t{100}, nullptr);
      if (i == nth) {
        expect_code(answer, YOKE_UNAVAILABLE, text("copy ", nth, " was armed to fail"));
      } else {
        expect_ok(answer, text("copy ", i, ", while copy ", nth, " was armed to fail"));
      }
    }
    check(buffer.contents() == sent, "after a copy that failed the next does not work");
  }
}

void clear_disarms(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  expect_code(plugin.call<&yoke_fault_api::fault_arm>(device.get(), YOKE_FAULT_ALLOCATION, std::uint64_t{0},
                                                      std::uint64_t{0}),
              YOKE_INVALID_ARGUMENT, "arming a fault for call 0");
  for (const std::int32_t kind : {0, -1, 99}) {
    expect_code(
        plugin.call<&yoke_fault_api::fault_arm>(device.get(), kind, std::uint64_t{1}, std::uint64_t{0}),
        YOKE_UNIMPLEMENTED, text("arming a fault of the unknown kind ", kind));
  }
  arm(plugin, device.get(), YOKE_FAULT_ALLOCATION, 1);
  expect_ok(plugin.call<&yoke_fault_api::fault_clear>(device.get()), "disarming");
  { const Buffer buffer(device, 64); }
  arm(plugin, device.get(), YOKE_FAULT_ALLOCATION, 1);
  arm(plugin, device.get(), YOKE_FAULT_ALLOCATION, 3);  // in its place
  const Buffer first(device, 64);
  const Buffer second(device, 64);
  yoke_buffer* raw = nullptr;
  expect_code(plugin.call<&yoke_backend_api::buffer_create>(device.get(), std::uint64_t{64},
                                                            YOKE_MEMORY_DEVICE, &raw),
              YOKE_OUT_OF_DEVICE_MEMORY, "the third allocation, armed in place of the first");
}

// The error of a failed copy on a stream: it arrives in every wait behind it, and on nothing before it.
void poison(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const Buffer buffer(device, 100);
  {
    Stream bad(device);
    Stream good(device);
    bad.write(buffer, 0, Bytes(100));
    const Event before = bad.record();
    expect_ok(before.wait(), "waiting for an event before the copy that fails");
    arm(plugin, device.get(), YOKE_FAULT_COPY, 1);
    bad.write(buffer, 0, Bytes(100));
    const Event behind = bad.record();
    for (int i = 0; i < 3; ++i) {
      expect_code(bad.wait(), YOKE_UNAVAILABLE, "waiting for a stream whose copy failed");
      expect_code(behind.wait(), YOKE_UNAVAILABLE, "waiting for an event behind a copy that failed");
      std::int32_t done = 0;
      expect_code(plugin.call<&yoke_stream_api::stream_query>(bad.get(), &done), YOKE_UNAVAILABLE,
                  "asking a stream whose copy failed");
      expect_code(plugin.call<&yoke_stream_api::event_query>(behind.get(), &done), YOKE_UNAVAILABLE,
                  "asking an event behind a copy that failed");
      expect_code(bad.wait(0), YOKE_UNAVAILABLE, "waiting without time for a stream whose copy failed");
    }
    expect_ok(before.wait(), "waiting again for an event before the copy that failed");
    good.write(buffer, 0, Bytes(100));
    expect_ok(good.wait(), "waiting for a stream beside one that failed");
    good.wait_for(before);
    expect_ok(good.wait(), "waiting for a stream that waits for an event before a failure");
    good.wait_for(behind);
    expect_code(good.wait(), YOKE_UNAVAILABLE,
                "waiting for a stream that inherited a failure by stream_wait_event");
  }
  Stream fresh(device);
  fresh.write(buffer, 0, Bytes(100, std::byte{9}));
  fresh.synchronize();
  check(buffer.contents() == Bytes(100, std::byte{9}),
        "a fresh stream does not work after another one failed");
}

void late_event(Kit& kit) {
  constexpr std::uint64_t kDelay = 400 * kMillisecond;
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const Stream stream(device);
  const Stream other(device);
  arm(plugin, device.get(), YOKE_FAULT_EVENT_LATE, 2, kDelay);
  const Event first = stream.record();
  expect_ok(first.wait(), "waiting for the event before the late one");
  const auto begin = Clock::now();
  const Event late = stream.record();
  const Event dropped = stream.record();
  other.wait_for(late);
  // A loaded machine may come back here when the event's time is over: then nothing is to be seen.
  const auto is_early = [&] { return Clock::now() - begin < std::chrono::nanoseconds(kDelay); };
  const bool done_at_once = late.done();
  check(!done_at_once || !is_early(), "an event that is late by 400 ms is done at once");
  const auto expect_late = [&](std::uint64_t timeout_ns, const char* what) {
    const Answer answer = late.wait(timeout_ns);
    if (!answer.ok() || is_early()) {
      expect_code(answer, YOKE_DEADLINE_EXCEEDED, what);
    }
    return !answer.ok();
  };
  expect_late(0, "waiting without time for an event that is late");
  const auto before_wait = Clock::now();
  if (expect_late(20 * kMillisecond, "waiting 20 ms for an event that is late by 400 ms")) {
    const double short_wait = std::chrono::duration<double>(Clock::now() - before_wait).count();
    check(short_wait >= 0.015, "a wait of 20 ms gave up after ", short_wait, " s");
  }
  const bool other_done = other.done();
  check(!other_done || !is_early(), "a stream that waits for a late event is done before it");
  expect_ok(late.wait(), "waiting for an event that is late by 400 ms");
  const double whole_wait = std::chrono::duration<double>(Clock::now() - begin).count();
  check(whole_wait >= 0.38, "an event that is late by 0.4 s was done after ", whole_wait, " s");
  expect_ok(other.wait(), "waiting for a stream that waits for a late event");
  expect_ok(stream.wait(), "waiting for a stream with a late event");
}

// Every call that needs the device.
void check_lost(Device& device, const Buffer& buffer, const std::string& when) {
  const Plugin& plugin = device.plugin();
  Bytes host(16);
  const auto lost = [&](const Answer& answer) { expect_code(answer, YOKE_DEVICE_LOST, when); };
  lost(plugin.call<&yoke_backend_api::from_host>(nullptr, buffer.get(), std::uint64_t{0}, host.data(),
                                                 std::uint64_t{16}, nullptr));
  lost(plugin.call<&yoke_backend_api::to_host>(nullptr, buffer.get(), std::uint64_t{0}, host.data(),
                                               std::uint64_t{16}));
  if (plugin.has<&yoke_backend_api::fill>()) {
    lost(plugin.call<&yoke_backend_api::fill>(nullptr, buffer.get(), std::uint64_t{0}, std::uint64_t{16},
                                              host.data(), 4U));
  }
  if (plugin.has<&yoke_backend_api::device_to_device>()) {
    lost(plugin.call<&yoke_backend_api::device_to_device>(
        nullptr, buffer.get(), std::uint64_t{0}, buffer.get(), std::uint64_t{16}, std::uint64_t{16}));
  }
  yoke_buffer* raw = nullptr;
  lost(plugin.call<&yoke_backend_api::buffer_create>(device.get(), std::uint64_t{64}, YOKE_MEMORY_DEVICE,
                                                     &raw));
  if (plugin.has_table<yoke_stream_api>()) {
    yoke_stream* stream = nullptr;
    lost(plugin.call<&yoke_stream_api::stream_create>(device.get(), 0, &stream));
  }
  if (plugin.has_table<yoke_program_api>()) {
    const yoke_program_text source = program_text(kAddOne);
    yoke_code* code = nullptr;
    lost(plugin.call<&yoke_program_api::code_compile>(device.get(), &source, &code));
  }
}

void device_lost(Kit& kit) {
  needs_device(kit);
  Plugin& plugin = kit.plugin();
  plugin.need<&yoke_fault_api::fault_arm>();
  Device device(kit, plugin, kit.settings().device, kit.device_options());
  {
    const Buffer buffer(device, 64);
    Bytes host(64);
    std::optional<Stream> stream;
    Event event;
    if (plugin.has_table<yoke_stream_api>()) {
      stream.emplace(device);
      stream->write(buffer, 0, Bytes(64));
      event = stream->record();
    }
    arm(plugin, device.get(), YOKE_FAULT_DEVICE_LOST, 2);
    buffer.write(0, host);
    expect_code(plugin.call<&yoke_backend_api::to_host>(nullptr, buffer.get(), std::uint64_t{0}, host.data(),
                                                        std::uint64_t{64}),
                YOKE_DEVICE_LOST, "the copy that was armed to lose the device");
    for (int i = 0; i < 3; ++i) {
      check_lost(device, buffer, "after the device was lost");
      if (stream) {
        expect_code(stream->wait(), YOKE_DEVICE_LOST, "waiting for a stream of a lost device");
        expect_code(event.wait(), YOKE_DEVICE_LOST, "waiting for an event of a lost device");
      }
      expect_ok(plugin.call<&yoke_fault_api::fault_clear>(device.get()), "disarming faults of a lost device");
    }
  }
  device.close();
  Device again(kit, plugin, kit.settings().device, kit.device_options());
  {
    const Buffer buffer(again, 64);
    buffer.write(0, Bytes(64));
  }
  again.close();
}

// Without the extension: what cannot work is refused again and again, and costs nothing.
void refusals_cost_nothing(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const Buffer buffer(device, 256);
  buffer.write(0, Bytes(256, std::byte{5}));
  const std::uint64_t used = device.memory().used_bytes;
  Bytes host(64);
  for (int i = 0; i < 500; ++i) {
    yoke_buffer* raw = nullptr;
    expect_code(plugin.call<&yoke_backend_api::buffer_create>(device.get(), UINT64_MAX - 63,
                                                              YOKE_MEMORY_DEVICE, &raw),
                YOKE_OUT_OF_DEVICE_MEMORY, "creating an absurd buffer");
    expect_code(plugin.call<&yoke_backend_api::to_host>(nullptr, buffer.get(), std::uint64_t{255},
                                                        host.data(), std::uint64_t{2}),
                YOKE_OUT_OF_RANGE, "copying from outside of a buffer");
    if (plugin.has_table<yoke_program_api>()) {
      const yoke_program_text nonsense = program_text("yoke.program 1\nprogram p() {\n  y[i] = x[i\n}\n");
      yoke_code* code = nullptr;
      expect_code(plugin.call<&yoke_program_api::code_compile>(device.get(), &nonsense, &code),
                  YOKE_INVALID_ARGUMENT, "compiling what is no program");
    }
  }
  check_equal(device.memory().used_bytes, used, "used_bytes after a thousand refused calls");
  check_equal(plugin.live_counts().buffers, 1U, "live buffers after a thousand refused calls");
  check_equal(plugin.live_counts().codes, 0U, "live codes after a thousand refused calls");
  check(buffer.contents() == Bytes(256, std::byte{5}), "a buffer changed by refused calls");
}

}  // namespace

std::vector<Test> fault_tests() {
  return {
      {"refusals-cost-nothing",
       "a thousand refused calls leave no memory and no object behind",
       {10, 14},
       refusals_cost_nothing},
      {"host-allocations",
       "when any one host allocation fails, the call says so and everything is given back",
       {10, 13},
       host_allocations,
       2},
      {"each-allocation",
       "when any one allocation fails, the error has a text and everything is given back",
       {19},
       each_allocation},
      {"each-copy",
       "when any one copy fails, the error has a text and everything is given back",
       {19},
       each_copy},
      {"each-launch",
       "when any one launch fails, the error has a text and everything is given back",
       {19},
       each_launch},
      {"each-loss",
       "when any copy or launch loses the device, it says so, and everything is given back",
       {19},
       each_loss},
      {"nth-allocation",
       "only the allocation that was armed fails; its out-parameter stays",
       {10},
       only_the_nth_allocation},
      {"nth-copy", "only the copy that was armed fails, and the next works", {19}, only_the_nth_copy},
      {"arm-and-clear",
       "faults are replaced and disarmed; call 0 and unknown kinds are refused",
       {6},
       clear_disarms},
      {"poisoned-stream",
       "an error on a stream stays on it, on events behind it and streams that wait for them, and nowhere "
       "else",
       {18, 19},
       poison},
      {"late-event",
       "an event that is late is waited for until its deadline, and by streams",
       {18, 21},
       late_event},
      {"device-lost",
       "a lost device says so in every call, and is destroyed and opened again like any other",
       {19},
       device_lost},
  };
}

}  // namespace yoke::conformance
