// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/stream_pending.cpp: long timeouts while work is pending, aborts while a kernel runs,
// and the error that a stream keeps.
#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "groups.h"
#include "held.h"
#include "program/run/launch.h"

namespace yoke::conformance {
namespace {

// Opens a held stream after a while.
class Pending {
 public:
  explicit Pending(Device& device)
      : held_(device), opener_([this] {
          std::this_thread::sleep_for(std::chrono::milliseconds(4));
          is_opened_ = true;
          held_.open();
        }) {}
  ~Pending() { opener_.join(); }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  const Stream& stream() const { return held_.stream(); }
  const Event& event() const { return held_.event(); }
  void check_over(const Answer& answer, std::uint64_t timeout_ns, const char* what) const {
    const bool was_opened = is_opened_;
    expect_ok(answer, text("a wait of ", timeout_ns, " ns for ", what, " with pending work"));
    check(was_opened || !held_.is_closed(), "a wait of ", timeout_ns, " ns for ", what,
          " returned OK while its work was pending");
  }

 private:
  Held held_;
  std::atomic<bool> is_opened_{false};
  std::thread opener_;
};

void longest_timeouts(Kit& kit) {
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 63U;
  for (const std::uint64_t timeout_ns :
       {UINT64_MAX, UINT64_MAX - 1, kHalf + 1, kHalf, kHalf - 1, kHalf / 2, UINT64_MAX / 1000,
        UINT64_MAX / 1'000'000, std::uint64_t{1'000'000'000'000'000'000},
        std::uint64_t{0x1'0000'0000'0000}}) {
    kit.progress(text("timeouts of ", timeout_ns, " ns"));
    const Pending first(kit.device());
    first.check_over(first.stream().wait(timeout_ns), timeout_ns, "a stream");
    const Pending second(kit.device());
    second.check_over(second.event().wait(timeout_ns), timeout_ns, "an event");
  }
}

// One statement that writes its output little by little.
struct LongForm {
  const char* what;
  const char* body;  // # stands for the number of terms
};
constexpr LongForm kLongForms[] = {
    {"a product", "y[i, j] = sum[k] x[i, k] * w[k, j]\n"},
    {"a maximum", "y[i, j] = max[k] x[i, k] * w[k, j]\n"},
    {"a function of many terms", "y[i, j] = sum[k] tanh(x[i, k] * w[k, j])\n"}};

class LongKernel {
 public:
  static constexpr std::uint64_t kRows = 256;
  static constexpr std::uint64_t kColumns = 256;
  static constexpr std::uint64_t kLeast = 40 * kMillisecond;

  // Chooses a number of terms that keeps the device busy.
  LongKernel(Device& device, const LongForm& form)
      : device_(device), y_(device, kRows * kColumns * sizeof(float)) {
    for (std::uint64_t terms = 16; terms <= 1U << 16U; terms *= 4) {
      link_with(form, terms);
      const auto begin = Clock::now();
      launch(device.plugin(), routine_);
      took_ns_ = ns_since(begin);
      if (took_ns_ >= kLeast) {
        return;
      }
    }
    unsupported("the device is too fast for a statement that runs for a while");
  }

  const Buffer& y() const { return y_; }
  std::uint64_t took_ns() const { return took_ns_; }
  void queue(const Stream& stream) const {
    expect_ok(device_.plugin().routine_launch(stream.get(), routine_.get(), {}), "queueing a long launch");
  }

 private:
  void link_with(const LongForm& form, std::uint64_t terms) {
    const std::string bytes = text("yoke.program 1\nprogram long() {\n  arg x : f32[", kRows, ", ", terms,
                                   "] in\n  arg w : f32[", terms, ", ", kColumns, "] in\n  arg y : f32[",
                                   kRows, ", ", kColumns, "] out\n  ", form.body, "}\n");
    require_supported(device_, bytes, 1);
    routine_.reset();
    const Code code = compile(device_, bytes);
    x_ = Buffer(device_, kRows * terms * sizeof(float));
    w_ = Buffer(device_, kColumns * terms * sizeof(float));
    x_.write(0, Bytes(x_.byte_count(), std::byte{0x3c}));
    w_.write(0, Bytes(w_.byte_count(), std::byte{0x3d}));
    workspace_ = workspace_for(device_, code);
    const yoke_binding bindings[] = {binding(x_), binding(w_), binding(y_)};
    routine_ = link(device_.plugin(), code, 0, bindings,
                    workspace_.get() == nullptr ? yoke_binding{} : binding(workspace_));
  }

  Device& device_;
  Buffer x_;
  Buffer w_;
  Buffer y_;
  Buffer workspace_;
  Routine routine_;
  std::uint64_t took_ns_ = 0;
};

// Aborts while the kernel runs. After the wait no work may write the output.
void abort_once(const LongKernel& kernel, Device& device, const char* what, bool whole_device, int attempt) {
  const Plugin& plugin = device.plugin();
  const Bytes marks(kernel.y().byte_count(), std::byte{0x5c});
  const Stream stream(device);
  kernel.queue(stream);
  const Event event = stream.record();
  std::this_thread::sleep_for(
      std::chrono::nanoseconds(kernel.took_ns() / static_cast<std::uint64_t>(2 + 3 * attempt)));
  expect_supported(whole_device ? plugin.call<&yoke_stream_api::device_abort>(device.get())
                                : plugin.call<&yoke_stream_api::stream_abort>(stream.get()),
                   "aborting while a launch runs");
  if (attempt == 1) {
    Patience::wait_until([&] { return event.state() != YOKE_STATE_PENDING; },
                         "an event stays pending although its stream was aborted");
  }
  const Answer answer = attempt == 1 ? event.wait(0) : stream.wait();
  check(answer.ok() || answer.code == YOKE_STATUS_ABORTED, "waiting for an aborted launch: ", answer.words());
  if (!plugin.from_host(nullptr, kernel.y().get(), 0, marks.data(), marks.size(), nullptr).ok()) {
    return;  // an aborted device may refuse copies
  }
  std::this_thread::sleep_for(
      std::chrono::nanoseconds(std::min(kernel.took_ns() * 5 / 4, 500 * kMillisecond)));
  Bytes now(marks.size());
  check(!plugin.to_host(nullptr, kernel.y().get(), 0, now.data(), now.size()).ok() || now == marks, what,
        " still wrote its output after an abort, when a wait for its ", attempt == 1 ? "event" : "stream",
        " had returned ", code_name(answer.code));
}

void abort_running(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.need<&yoke_stream_api::stream_abort>();
  plugin.table<yoke_program_api>();
  std::string reason;
  bool has_run = false;
  for (const LongForm& form : kLongForms) {
    try {
      const LongKernel kernel(kit.device(), form);
      for (int attempt = 0; attempt < 2; ++attempt) {
        kit.progress(text(form.what, ", attempt ", attempt));
        abort_once(kernel, kit.device(), form.what, false, attempt);
      }
      if (!has_run && plugin.has<&yoke_stream_api::device_abort>()) {
        Device device = another_handle(kit);  // because an aborted handle stays so
        const LongKernel other(device, form);
        abort_once(other, device, form.what, true, 0);
      }
      has_run = true;
    } catch (const Unsupported& unsupported_form) {
      reason = unsupported_form.what();
    }
  }
  if (!has_run) {
    unsupported(reason);
  }
}

// Every way to learn that a launch is done. Each must find all of its results.
void launch_completion(Kit& kit) {
  kit.plugin().table<yoke_stream_api>();
  kit.plugin().table<yoke_program_api>();
  Device& device = kit.device();
  const LongKernel kernel(device, kLongForms[0]);
  const Bytes expected = kernel.y().contents();
  const Bytes marks(expected.size(), std::byte{0x5c});
  check(expected != marks, "a launch did not write its output");
  const auto check_way = [&](const char* what, const std::function<void(const Stream&)>& wait) {
    kit.progress(what);
    kernel.y().write(0, marks);
    const Stream stream(device);
    kernel.queue(stream);
    wait(stream);
    check(kernel.y().contents() == expected, what,
          " reported that a launch was done before all of its results were written");
  };
  check_way("stream_wait", [](const Stream& stream) { stream.synchronize(); });
  check_way("event_wait",
            [](const Stream& stream) { expect_ok(stream.record().wait(), "waiting for an event"); });
  check_way("event_wait after short ones", [](const Stream& stream) {
    const Event event = stream.record();
    while (event.wait(kMillisecond / 4).code == YOKE_STATUS_DEADLINE_EXCEEDED) {
    }
    expect_ok(event.wait(0), "waiting again for an event that is done");
  });
  check_way("event_query", [](const Stream& stream) {
    const Event event = stream.record();
    Patience::wait_until([&] { return event.done(); }, "event_query never reports that a launch is done");
  });
  check_way("stream_query", [](const Stream& stream) {
    Patience::wait_until([&] { return stream.done(); }, "stream_query never reports that a launch is done");
  });
  check_way("a stream that waits for an event", [&](const Stream& stream) {
    const Stream other(device);
    other.wait_for(stream.record());
    other.synchronize();
  });
  check_way("a copy on a stream that waits for an event", [&](const Stream& stream) {
    const Stream other(device);
    Bytes now(expected.size());
    other.wait_for(stream.record());
    other.read(kernel.y(), 0, now);
    other.synchronize();
    check(now == expected,
          "a copy on a stream that waits for the event of a launch ran before the launch was done");
  });
  check_way("a small copy queued while it runs", [&](const Stream& stream) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(LongKernel::kLeast / 4));
    Bytes now(64);
    stream.read(kernel.y(), expected.size() - now.size(), now);
    stream.synchronize();
    check(std::equal(now.begin(), now.end(), expected.end() - 64),
          "a small to_host that was queued while a launch ran did not wait for the launch");
  });
  if (kit.plugin().has<&yoke_stream_api::stream_host_callback>()) {
    check_way("a host callback", [](const Stream& stream) { HostCallback(stream).wait(); });
  }
}

void abort_stream(const Stream& stream) {
  expect_supported(stream.device().plugin().call<&yoke_stream_api::stream_abort>(stream.get()),
                   "aborting a stream");
}

void expect_error(const Stream& stream, std::int32_t code, const std::string& what) {
  const Event event = stream.record();
  expect_code(stream.wait(), code, "waiting for " + what);
  expect_code(event.wait(), code, "waiting for an event of " + what);
  expect_code(stream.wait(0), code, "waiting with timeout 0 for " + what);
  check_equal(stream.state(), YOKE_STATE_FAILED, "the state of ", what);
  if (stream.device().plugin().has<&yoke_stream_api::stream_host_callback>()) {
    const HostCallback callback(stream);
    callback.wait();
    check_equal(code_name(callback.status()), code_name(code), "the status that a host callback received on ",
                what);
  }
}

void first_error(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  plugin.need<&yoke_stream_api::stream_abort>();
  plugin.need<&yoke_fault_api::fault_arm>();
  const Buffer buffer(device, 64);
  Stream failed(device);
  arm_fault(plugin, device.get(), YOKE_FAULT_COPY, 1);
  failed.write(buffer, 0, Bytes(64));
  expect_code(failed.wait(), YOKE_STATUS_UNAVAILABLE, "waiting for a stream with a failed copy");
  const Event event = failed.record();
  abort_stream(failed);
  expect_error(failed, YOKE_STATUS_UNAVAILABLE, "a stream that was aborted after a copy had failed");
  const Stream heir(device);
  heir.wait_for(event);
  expect_code(heir.wait(), YOKE_STATUS_UNAVAILABLE, "waiting for a stream that inherits the error of a copy");
  abort_stream(heir);
  expect_error(heir, YOKE_STATUS_UNAVAILABLE, "a stream that was aborted after it had inherited an error");
  Stream aborted(device);
  abort_stream(aborted);
  expect_code(aborted.wait(), YOKE_STATUS_ABORTED, "waiting for an aborted stream");
  aborted.wait_for(event);
  abort_stream(aborted);
  expect_error(aborted, YOKE_STATUS_ABORTED, "an aborted stream that waits for an event with another error");
  arm_fault(plugin, device.get(), YOKE_FAULT_COPY, 1);
  aborted.write(buffer, 0, Bytes(64));
  expect_error(aborted, YOKE_STATUS_ABORTED, "an aborted stream to which a copy was queued that would fail");
  (void)plugin.call<&yoke_fault_api::fault_clear>(device.get());
}

}  // namespace

std::vector<Test> stream_pending_tests() {
  return {
      {"longest-timeouts",
       "a wait with a timeout of many years returns when the work is done, not earlier",
       {21},
       longest_timeouts},
      {"launch-completion",
       "waits, queries, events and callbacks report a launch as done when all of its results are written",
       {18, 44},
       launch_completion},
      {"abort-running",
       "when a wait for an aborted stream ends, the kernel that was running no longer writes",
       {45, 46},
       abort_running,
       2},
      {"first-error",
       "a stream keeps its first error when it is aborted or fails again",
       {19, 46},
       first_error},
  };
}

}  // namespace yoke::conformance
