// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/stream_abort.cpp: stream_abort, quiescence after an abort or a loss, host
// callbacks.
#include <algorithm>
#include <thread>

#include "groups.h"
#include "host_callback.h"

namespace yoke::conformance {
namespace {

// Queued work that writes a buffer and host memory. If the backend has host callbacks, it starts after
// gate->open().
struct Writer {
  explicit Writer(Device& device) : buffer(device, kBytes), host(kBytes), stream(device) {
    stream.write(buffer, 0, Bytes(kBytes));
    gate = HostCallback::gate(stream);
    for (int i = 0; i < 8; ++i) {
      stream.write(buffer, 0, Bytes(kBytes, kWritten));
      stream.read(buffer, 0, host);
    }
    event = stream.record();
    if (gate != nullptr) {
      last = std::make_unique<HostCallback>(stream);
    }
  }

  bool is_held() const { return gate != nullptr && gate->is_closed(); }
  void open() const {
    if (gate != nullptr) {
      gate->open();
    }
  }

  // Precondition: a wait or a query has promised that the work is quiescent. Marks the memory, lets work that
  // runs nevertheless run to its end, and checks the marks.
  void check_quiescent(const std::string& after) {
    const Plugin& plugin = stream.device().plugin();
    const Bytes marks(kBytes, std::byte{0x5c});
    host = marks;
    const bool is_marked = plugin.from_host(nullptr, buffer.get(), 0, marks.data(), kBytes, nullptr).ok();
    open();
    if (last != nullptr) {
      last->wait();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    check(host == marks, after, ", its work still wrote host memory");
    Bytes now(kBytes);
    check(!is_marked || !plugin.to_host(nullptr, buffer.get(), 0, now.data(), kBytes).ok() || now == marks,
          after, ", its work still wrote a buffer");
  }

  static constexpr std::uint64_t kBytes = 1U << 18U;
  static constexpr std::byte kWritten{0x11};
  Buffer buffer;
  Bytes host;
  Stream stream;
  std::unique_ptr<HostCallback> gate;
  Event event;
  std::unique_ptr<HostCallback> last;
};

void abort_stream(const Stream& stream) {
  expect_supported(stream.device().plugin().call<&yoke_stream_api::stream_abort>(stream.get()),
                   "aborting a stream");
}

void abort_one(Kit& kit) {
  kit.plugin().need<&yoke_stream_api::stream_abort>();
  Device& device = kit.device();
  Bytes unread(Writer::kBytes);
  const Stream stream(device);
  const Event earlier = stream.record();
  expect_ok(earlier.wait(), "waiting for an event");
  const Writer writer(device);
  const bool is_held = writer.is_held();
  const Writer other(device);
  abort_stream(writer.stream);
  abort_stream(stream);
  writer.open();  // before `other`: a driver may call the host callbacks of all streams on one thread
  other.open();
  expect_ok(other.stream.wait(), "waiting for a stream that was busy while another stream was aborted");
  check(other.host == Bytes(Writer::kBytes, Writer::kWritten),
        "work of a stream was skipped because another stream was aborted");
  expect_code(writer.stream.wait(), YOKE_STATUS_ABORTED, "waiting for an aborted stream");
  check_equal(writer.stream.state(), YOKE_STATE_FAILED, "the state of an aborted stream");
  const Answer event = writer.event.wait();
  check(event.code == YOKE_STATUS_ABORTED || (event.ok() && !is_held),
        "waiting for an event of aborted work: ", event.words());
  check_equal(writer.event.state(), event.ok() ? YOKE_STATE_DONE : YOKE_STATE_FAILED,
              "the state of an event of aborted work");
  expect_code(stream.wait(), YOKE_STATUS_ABORTED, "waiting for a stream that was idle when it was aborted");
  expect_ok(earlier.wait(), "waiting for an event that was done before its stream was aborted");
  check_equal(earlier.state(), YOKE_STATE_DONE, "the state of an event that was done before stream_abort");

  // The stream stays poisoned, and streams that wait for its events inherit that.
  stream.read(other.buffer, 0, unread);
  const Event later = stream.record();
  const Stream waiting(device);
  waiting.wait_for(later);
  expect_code(stream.wait(), YOKE_STATUS_ABORTED, "waiting for work that was queued on an aborted stream");
  expect_code(later.wait(), YOKE_STATUS_ABORTED, "waiting for an event recorded on an aborted stream");
  check(unread == Bytes(Writer::kBytes), "work that was queued on an aborted stream was not skipped");
  expect_code(waiting.wait(), YOKE_STATUS_ABORTED,
              "waiting for a stream that waits for an event of an aborted stream");
  const Writer fresh(device);
  fresh.open();
  expect_ok(fresh.stream.wait(), "waiting for a stream that was created after another stream was aborted");
}

// What ends the work of the writer, and the status that its waits return then.
struct End {
  const char* words;
  std::int32_t code;
  void (*begin)(const Writer& writer);
};

constexpr End kStreamAbort = {"stream_abort", YOKE_STATUS_ABORTED,
                              [](const Writer& writer) { abort_stream(writer.stream); }};
constexpr End kDeviceAbort = {"device_abort", YOKE_STATUS_ABORTED, [](const Writer& writer) {
                                Device& device = writer.stream.device();
                                expect_supported(
                                    device.plugin().call<&yoke_stream_api::device_abort>(device.get()),
                                    "aborting a device");
                              }};
constexpr End kLoss = {"the loss of the device", YOKE_STATUS_DEVICE_LOST,
                       [](const Writer& writer) { lose_device(writer.stream.device()); }};

// Ends the writer's work and waits. Opens the gate if the first wait reports that work is pending, because then
// the plugin waits for the gate.
template <class Wait>
void expect_quiescent(Writer& writer, const End& end, const char* what, const Wait& wait) {
  const bool is_held = writer.is_held();
  end.begin(writer);
  Answer answer = wait(10 * kMillisecond);
  if (answer.code == YOKE_STATUS_DEADLINE_EXCEEDED) {
    writer.open();
    answer = wait(longest_wait_ns());
  }
  check(answer.code == end.code || (answer.ok() && !is_held), what, " after ", end.words, ": ",
        answer.words());
  writer.check_quiescent(text("after ", end.words, ", when ", what, " had returned"));
}

// A query as a wait.
template <class Object>
Answer poll(const Object& object, std::uint64_t timeout_ns) {
  for (const auto begin = Clock::now(); object.state() == YOKE_STATE_PENDING;) {
    if (ns_since(begin) > timeout_ns) {
      return {"a query", YOKE_STATUS_DEADLINE_EXCEEDED, {}};
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return object.wait(0);
}

void quiescence(Kit& kit, const End& end) {
  kit.device();
  const auto with_writer = [&](const char* what, const auto& wait) {
    Device device = another_handle(kit);  // because an aborted or lost handle stays so
    Writer writer(device);
    expect_quiescent(writer, end, what, [&](std::uint64_t timeout_ns) { return wait(writer, timeout_ns); });
  };
  with_writer("stream_wait", [](const Writer& writer, std::uint64_t ns) { return writer.stream.wait(ns); });
  with_writer("event_wait", [](const Writer& writer, std::uint64_t ns) { return writer.event.wait(ns); });
  with_writer("stream_query", [](const Writer& writer, std::uint64_t ns) { return poll(writer.stream, ns); });
  with_writer("event_query", [](const Writer& writer, std::uint64_t ns) { return poll(writer.event, ns); });
}

template <auto kNeeded, const End& kEnd>
void quiescent_after(Kit& kit) {
  kit.plugin().table<yoke_stream_api>();
  kit.plugin().need<kNeeded>();
  quiescence(kit, kEnd);
}

// The writer's gate is running work, so its stream and its event stay pending until the gate returns.
template <auto kNeeded, const End& kEnd>
void pending_after(Kit& kit) {
  kit.plugin().need<&yoke_stream_api::stream_host_callback>();
  kit.plugin().need<kNeeded>();
  if (const Writer probe(kit.device()); !probe.is_held()) {
    unsupported("host callbacks run on the thread that queues them");
  }
  Device device = another_handle(kit);  // because an aborted or lost handle stays so
  const Writer writer(device);
  if (!writer.is_held()) {  // a slow machine: the gate has opened by itself
    return;
  }
  kEnd.begin(writer);
  const auto expect_pending = [&](const char* what, bool is_pending, const std::string& found) {
    check(is_pending || !writer.gate->is_closed(), what, " after ", kEnd.words,
          ", while a host callback runs, ", found);
  };
  for (int i = 0; i < 3; ++i) {
    for (const std::int32_t state : {writer.stream.state(), writer.event.state()}) {
      expect_pending("a query", state == YOKE_STATE_PENDING, text("answers ", state));
    }
    for (const Answer& answer : {writer.stream.wait(kMillisecond), writer.event.wait(kMillisecond)}) {
      expect_pending("a short wait", answer.code == YOKE_STATUS_DEADLINE_EXCEEDED,
                     text("returns ", answer.words()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  writer.open();
  expect_code(poll(writer.stream, longest_wait_ns()), kEnd.code, text("polling a stream after ", kEnd.words));
  expect_code(poll(writer.event, longest_wait_ns()), kEnd.code, text("polling an event after ", kEnd.words));
}

void host_callback(Kit& kit) {
  kit.plugin().need<&yoke_stream_api::stream_host_callback>();
  constexpr std::uint64_t kBytes = 1U << 20U;
  const Buffer buffer(kit.device(), kBytes);
  const Bytes sent = kit.random().bytes(kBytes);
  Bytes before(kBytes);
  Bytes after(kBytes);
  bool is_copied = false;
  Stream stream(kit.device());
  stream.write(buffer, 0, sent);
  stream.read(buffer, 0, before);
  const HostCallback gate(stream, HostCallback::Kind::kGate, [&] { is_copied = before == sent; });
  stream.read(buffer, 0, after);
  const Event event = stream.record();
  if (gate.is_closed()) {
    expect_code(event.wait(100 * kMillisecond), YOKE_STATUS_DEADLINE_EXCEEDED,
                "waiting for work that was queued after a host callback, before the callback has returned");
    check_equal(event.state(), YOKE_STATE_PENDING,
                "the state of an event after a host callback that has not returned");
    check_equal(stream.state(), YOKE_STATE_PENDING,
                "the state of a stream whose host callback has not returned");
    check(after == Bytes(kBytes),
          "work that was queued after a host callback ran before the callback had returned");
    gate.open();
  }
  stream.synchronize();
  check(is_copied, "a host callback was called before the work that was queued before it was done");
  check(after == sent, "work that was queued after a host callback was not done");
  int position = gate.position();
  for (int i = 0; i < 20; ++i) {
    const HostCallback next(stream);
    next.wait();  // the plugin calls it although no one waits for the stream
    check(next.position() > position, "host callbacks were called in the wrong order");
    position = next.position();
  }
  stream.synchronize();
  check_equal(gate.calls(), 1, "the number of calls of a host callback");
  check_equal(code_name(gate.status()), code_name(YOKE_STATUS_OK),
              "the status that a host callback received");
}

void check_failed_callback(const HostCallback& callback, std::int32_t status, const char* what) {
  callback.wait();
  check_equal(callback.calls(), 1, "the number of calls of a host callback on ", what);
  check_equal(code_name(callback.status()), code_name(status), "the status that a host callback received on ",
              what);
}

void callback_after_abort(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.need<&yoke_stream_api::stream_host_callback>();
  plugin.need<&yoke_stream_api::stream_abort>();
  const Writer writer(kit.device());
  const bool is_held = writer.is_held();
  abort_stream(writer.stream);
  const HostCallback later(writer.stream);
  writer.open();
  check_failed_callback(later, YOKE_STATUS_ABORTED, "an aborted stream");
  if (is_held) {
    check_failed_callback(*writer.last, YOKE_STATUS_ABORTED, "a stream that was aborted before its turn");
  }
  expect_code(writer.stream.wait(), YOKE_STATUS_ABORTED, "waiting for an aborted stream");
  check(later.calls() == 1 && writer.last->calls() == 1,
        "a host callback was called twice on an aborted stream");
}

// The stream is aborted while a callback runs: the next one waits for it.
void callback_beside_abort(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.need<&yoke_stream_api::stream_host_callback>();
  plugin.need<&yoke_stream_api::stream_abort>();
  const Stream stream(kit.device());
  const HostCallback running(stream, HostCallback::Kind::kGate);
  const HostCallback next(stream);
  const bool is_closed = running.is_closed();
  abort_stream(stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  check(!is_closed || next.calls() == 0,
        "stream_abort called a queued host callback while work before it was running");
  running.open();
  if (is_closed) {  // otherwise both callbacks may have returned before the stream was aborted
    check_failed_callback(next, YOKE_STATUS_ABORTED, "a stream that was aborted during another callback");
  }
  expect_code(stream.wait(), YOKE_STATUS_ABORTED, "waiting for an aborted stream");
}

}  // namespace

std::vector<Test> stream_abort_tests() {
  return {
      {"abort-one",
       "stream_abort fails its stream, later work and later events; earlier events and other streams are "
       "unaffected",
       {44, 46},
       abort_one},
      {"quiescent-after-stream-abort",
       "when a wait or a query ends after stream_abort, no work of the stream still accesses memory",
       {45, 46},
       quiescent_after<&yoke_stream_api::stream_abort, kStreamAbort>},
      {"quiescent-after-device-abort",
       "when a wait or a query ends after device_abort, no work of the stream still accesses memory",
       {45},
       quiescent_after<&yoke_stream_api::device_abort, kDeviceAbort>},
      {"quiescent-after-loss",
       "when a wait or a query ends on a lost device, no work of the stream still accesses memory",
       {45},
       quiescent_after<&yoke_fault_api::fault_arm, kLoss>},
      {"pending-after-stream-abort",
       "after stream_abort, queries and short waits report pending work while a host callback runs",
       {44, 45},
       pending_after<&yoke_stream_api::stream_abort, kStreamAbort>},
      {"pending-after-device-abort",
       "after device_abort, queries and short waits report pending work while a host callback runs",
       {44, 45},
       pending_after<&yoke_stream_api::device_abort, kDeviceAbort>},
      {"pending-after-loss",
       "on a lost device, queries and short waits report pending work while a host callback runs",
       {44, 45},
       pending_after<&yoke_fault_api::fault_arm, kLoss>},
      {"host-callback",
       "a host callback runs once, after the work before it; later work waits until it returns",
       {44, 58},
       host_callback},
      {"host-callback-after-abort",
       "host callbacks of an aborted stream run once, with ABORTED",
       {58},
       callback_after_abort},
      {"host-callback-beside-abort",
       "a host callback of an aborted stream waits for the work that runs, such as another callback",
       {45, 58},
       callback_beside_abort},
  };
}

}  // namespace yoke::conformance
