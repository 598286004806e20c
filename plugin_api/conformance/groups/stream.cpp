// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/stream.cpp: order within a stream
// and between streams, waits, and device_abort.
#include <algorithm>
#include <cstring>
#include <thread>

#include "busy.h"
#include "groups.h"

namespace yoke::conformance {
namespace {

// Each command needs the result of the one before it: a chain through two buffers and back to the host.
void in_order(Kit& kit) {
  constexpr std::uint64_t kBytes = 1 << 16U;
  Random random = kit.random();
  const Buffer a(kit.device(), kBytes);
  const Buffer b(kit.device(), kBytes);
  Stream stream(kit.device());
  const bool copies = kit.plugin().has<&yoke_backend_api::device_to_device>();
  std::vector<Bytes> sent;
  std::vector<Bytes> received(100, Bytes(kBytes));
  for (Bytes& target : received) {
    sent.push_back(random.bytes(kBytes));
    stream.write(a, 0, sent.back());
    if (copies) {
      stream.copy(b, 0, a, 0, kBytes);
    }
    stream.read(copies ? b : a, 0, target);
  }
  stream.synchronize();
  for (std::size_t i = 0; i < received.size(); ++i) {
    check(received[i] == sent[i], "round ", i,
          " of from_host, device_to_device, to_host on one stream returned bytes of another round");
  }
}

void fills_in_order(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  const Buffer buffer(kit.device(), 4096);
  const Stream stream(kit.device());
  // Several rounds, because work that a wait misses may still finish before the contents are read.
  for (int round = 0; round < 5; ++round) {
    Bytes received(4096);
    for (std::uint32_t i = 0; i < 500; ++i) {
      std::uint32_t pattern = i;
      expect_ok(plugin.fill(stream.get(), buffer.get(), 0, 4096, &pattern, sizeof pattern),
                "queueing a fill");
      pattern = 0xffffffffU;  // the call has copied it
    }
    stream.read(buffer, 0, received);
    stream.synchronize();
    for (std::size_t i = 0; i < received.size(); i += 4) {
      std::uint32_t value = 0;
      std::memcpy(&value, received.data() + i, sizeof value);
      check_equal(value, 499U, "element ", i / 4, " after 500 fills on one stream (round ", round, ")");
    }
  }
}

// The caller may change the source at once if from_host returned COPIED, and after an event recorded
// after the copy if it returned UNTIL_EVENT.
void source_lifetime(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  Random random = kit.random();
  const Stream stream(kit.device());
  unsigned copied = 0;
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t byte_count = random.chance(4) ? 8U << 20U : 1 + random.below(100000);
    const Buffer buffer(kit.device(), byte_count);
    Bytes source = random.bytes(byte_count);
    const Bytes meant = source;
    std::int32_t word = 0;
    expect_ok(plugin.from_host(stream.get(), buffer.get(), 0, source.data(), byte_count, &word),
              "queueing a from_host");
    check(word == YOKE_SOURCE_COPIED || word == YOKE_SOURCE_UNTIL_EVENT,
          "from_host returned the unknown *out_source ", word);
    if (word == YOKE_SOURCE_UNTIL_EVENT) {
      expect_ok(stream.record().wait(), "waiting for an event after a from_host");
    }
    copied += word == YOKE_SOURCE_COPIED ? 1 : 0;
    std::fill(source.begin(), source.end(), std::byte{0xdd});
    stream.synchronize();
    check(
        buffer.contents() == meant, "from_host returned ",
        word == YOKE_SOURCE_COPIED ? "YOKE_SOURCE_COPIED" : "YOKE_SOURCE_UNTIL_EVENT and the event was done",
        ", but copied bytes that were written to the source later");
  }
  kit.note(text(copied, " of 60 sources were copied during the call"));
}

void create_and_destroy(Kit& kit) {
  const Buffer buffer(kit.device(), 1000);
  for (const std::int32_t priority : {0, -1, 1, -100, 100, INT32_MIN, INT32_MAX}) {
    for (int i = 0; i < 20; ++i) {
      Stream stream(kit.device(), priority);
      stream.write(buffer, 0, Bytes(1000));
      stream.synchronize();
    }
  }
  std::vector<Stream> many;
  for (std::uint64_t i = 1; i <= 32; ++i) {
    many.emplace_back(kit.device());
    check_equal(kit.plugin().live_counts().streams, i, "the number of live streams");
  }
  many.clear();
  check_equal(kit.plugin().live_counts().streams, 0U, "the number of live streams after all were destroyed");
}

void idle(Kit& kit) {
  const Stream stream(kit.device());
  check(stream.done(), "stream_query reports work on a new stream");
  expect_ok(stream.wait(0), "waiting for a new stream with timeout 0");
  expect_ok(stream.wait(), "waiting for a new stream");
  expect_ok(stream.wait(UINT64_MAX), "waiting for a new stream with the longest timeout");
}

// The test stream.deadline-during-work checks that the wait returns before long work ends.
void deadlines(Kit& kit) {
  const Busy busy(kit.device(), 4U << 20U);
  unsigned late = 0;
  const auto wait_for = [&](const auto& object, std::uint64_t timeout, const char* what) {
    const auto begin = Clock::now();
    const Answer answer = object.wait(timeout);
    const std::uint64_t took = ns_since(begin);
    if (!answer.ok()) {
      expect_code(answer, YOKE_STATUS_DEADLINE_EXCEEDED, text("waiting ", timeout, " ns for ", what));
      check(took >= timeout / 2, "a wait for ", what, " with a timeout of ", timeout,
            " ns returned DEADLINE_EXCEEDED after ", took, " ns");
      ++late;
    }
  };
  for (const std::uint64_t timeout :
       {std::uint64_t{0}, std::uint64_t{1}, kMillisecond / 10, kMillisecond, 20 * kMillisecond}) {
    for (int i = 0; i < 5; ++i) {
      busy.queue(20);
      wait_for(busy.stream, timeout, "a busy stream");
      const Event event = busy.stream.record();
      wait_for(event, timeout, "an event of a busy stream");
      expect_ok(event.wait(), "waiting again for an event after a wait with a short timeout");
    }
  }
  busy.stream.synchronize();
  check(busy.stream.done(), "stream_query reports work after a wait that returned OK");
  kit.note(text(late, " of 50 waits reached their deadline before the work was done"));
}

void query_completes(Kit& kit) {
  const Busy busy(kit.device());
  for (int round = 0; round < 5; ++round) {
    busy.queue(10);
    Patience::wait_until([&] { return busy.stream.done(); },
                         "stream_query never reports that the work is done if no one waits for it");
    expect_ok(busy.stream.wait(0),
              "waiting with timeout 0 for a stream whose query reported that it is done");
  }
}

// A long queue on one stream, then a copy of its result on another: a
// wait_event that is ignored copies old bytes.
void wait_event_orders(Kit& kit) {
  Random random = kit.random();
  Busy first(kit.device());
  const std::uint64_t byte_count = first.a.byte_count();
  const Buffer result(kit.device(), byte_count);
  Bytes received(byte_count);
  for (int i = 0; i < 12; ++i) {
    const Stream second(kit.device());
    const Bytes sent = random.bytes(byte_count);
    first.queue(8);
    first.stream.write(first.a, 0, sent);
    first.stream.copy(first.b, 0, first.a, 0, byte_count);
    second.wait_for(first.stream.record());  // the event is destroyed before it is done
    second.copy(result, 0, first.b, 0, byte_count);
    second.read(result, 0, received);
    second.synchronize();
    check(received == sent, "round ", i,
          ": work queued after stream_wait_event ran before the event was done");
    first.stream.synchronize();
  }
}

// A call that fails at once queues nothing, and the stream stays usable.
void rejected_calls(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  const Buffer buffer(kit.device(), 100);
  buffer.write(0, Bytes(100, std::byte{1}));
  Stream stream(kit.device());
  Bytes host(200, std::byte{2});
  expect_code(plugin.from_host(stream.get(), buffer.get(), 50, host.data(), 51, nullptr),
              YOKE_STATUS_OUT_OF_RANGE, "queueing a from_host out of range");
  expect_code(plugin.to_host(stream.get(), buffer.get(), UINT64_MAX, host.data(), 2),
              YOKE_STATUS_OUT_OF_RANGE, "queueing a to_host out of range");
  if (plugin.has<&yoke_backend_api::fill>()) {
    expect_code(plugin.fill(stream.get(), buffer.get(), 0, 99, host.data(), 3), YOKE_STATUS_INVALID_ARGUMENT,
                "queueing a fill with a 3-byte pattern");
  }
  stream.synchronize();
  check(buffer.contents() == Bytes(100, std::byte{1}), "a failed call changed the buffer");
  check(host == Bytes(200, std::byte{2}), "a failed call changed host memory");
  stream.write(buffer, 0, Bytes(100, std::byte{3}));
  stream.synchronize();
  check(buffer.contents() == Bytes(100, std::byte{3}), "a stream does not work after a failed call");
}

void abort_ends_waits(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.need<&yoke_stream_api::device_abort>();
  plugin.some_devices();
  {
    Device device = another_handle(kit);  // because an aborted handle stays aborted
    const Busy busy(device, 16U << 20U);
    busy.queue(50);
    const Event event = busy.stream.record();
    bool was_done = false;
    std::thread aborting([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      try {
        was_done = event.state() == YOKE_STATE_DONE;
        expect_ok(plugin.call<&yoke_stream_api::device_abort>(device.get()), "aborting a device");
      } catch (const std::exception& failure) {
        kit.complain(failure.what());
      }
    });
    const Answer first = busy.stream.wait();
    aborting.join();
    check(first.ok() || first.code == YOKE_STATUS_ABORTED, "a wait during device_abort: ", first.words());
    expect_code(busy.stream.wait(), YOKE_STATUS_ABORTED, "waiting for a stream of an aborted device");
    expect_code(busy.stream.wait(0), YOKE_STATUS_ABORTED,
                "waiting with timeout 0 for a stream of an aborted device");
    const Answer after = event.wait();
    check(after.code == YOKE_STATUS_ABORTED || (after.ok() && (first.ok() || was_done)),
          "waiting for an event of an aborted device: ", after.words());
  }
  const Buffer fresh(kit.device(), 64);
  fresh.write(0, Bytes(64));
}

void debug_texts(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  const Stream stream(kit.device());
  plugin.need<&yoke_stream_api::stream_debug_text>();
  for (const std::uint64_t capacity : {0U, 1U, 2U, 7U, 64U, 4096U}) {
    std::vector<char> text(5000, '\x55');
    expect_ok(plugin.call<&yoke_stream_api::stream_debug_text>(stream.get(), text.data(), capacity),
              "stream_debug_text");
    check(std::all_of(text.begin() + static_cast<std::ptrdiff_t>(capacity), text.end(),
                      [](char c) { return c == '\x55'; }),
          "stream_debug_text wrote past its capacity of ", capacity);
    check(capacity == 0 || std::memchr(text.data(), '\0', capacity) != nullptr,
          "stream_debug_text with a capacity of ", capacity, " wrote no terminating zero");
    check(capacity < 64 || is_utf8(text.data()), "stream_debug_text wrote text that is not UTF-8");
  }
}

// A copy with a NULL stream is done when it returns, even while streams have work.
void null_stream(Kit& kit) {
  Random random = kit.random();
  const Busy busy(kit.device(), 4U << 20U);
  const Buffer own(kit.device(), 5000);
  for (int i = 0; i < 20; ++i) {
    busy.queue(4);
    const Bytes sent = random.bytes(5000);
    own.write(0, sent);
    check(own.contents() == sent,
          "a copy with a NULL stream was not done when it returned, while a stream had work");
  }
  busy.stream.synchronize();
}

}  // namespace

std::vector<Test> stream_tests() {
  return {
      {"in-order", "the work of a stream runs in the order in which it was queued", {18}, in_order},
      {"fills-in-order",
       "hundreds of fills on one stream run in order; each pattern is copied during its call",
       {16, 18},
       fills_in_order},
      {"source-lifetime",
       "the source of a queued from_host may change when *out_source allows it",
       {16},
       source_lifetime},
      {"create-and-destroy",
       "streams of any priority can be created, are counted, and can be destroyed",
       {14},
       create_and_destroy},
      {"idle", "a wait for a stream without work returns OK with any timeout", {18, 21}, idle},
      {"deadlines",
       "a wait returns DEADLINE_EXCEEDED only after its timeout; timeout 0 returns at once",
       {21},
       deadlines},
      {"query-completes", "stream_query reports the end of the work without a wait", {18}, query_completes},
      {"wait-event-orders",
       "work queued after stream_wait_event runs after the event, even if the event was destroyed",
       {18},
       wait_event_orders},
      {"rejected-calls",
       "a call that fails at once queues nothing, and its stream stays usable",
       {19},
       rejected_calls},
      {"abort",
       "device_abort ends every wait with ABORTED, and other handles of the device stay usable",
       {21},
       abort_ends_waits},
      {"debug-text",
       "stream_debug_text writes at most `capacity` bytes and a terminating zero",
       {12},
       debug_texts},
      {"null-stream",
       "a copy with a NULL stream is done when it returns, while streams have work",
       {18},
       null_stream},
  };
}

}  // namespace yoke::conformance
