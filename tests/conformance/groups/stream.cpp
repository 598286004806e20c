// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/stream.cpp: order on one stream and between streams, waits, abort.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "groups.h"

namespace yoke::conformance {
namespace {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMillisecond = 1'000'000;  // ns

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Each step needs what the one before it wrote: a chain through three buffers and back to the host.
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
          " of write, copy, read on one stream gave bytes of another round");
  }
}

void fills_in_order(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  const Buffer buffer(kit.device(), 4096);
  const Stream stream(kit.device());
  // Again and again: what a wait leaves undone is often done before anybody looks.
  for (int round = 0; round < 5; ++round) {
    Bytes received(4096);
    for (std::uint32_t i = 0; i < 500; ++i) {
      std::uint32_t pattern = i;
      expect_ok(plugin.call<&yoke_backend_api::fill>(stream.get(), buffer.get(), std::uint64_t{0},
                                                     std::uint64_t{4096}, &pattern, 4U));
      pattern = 0xffffffffU;  // copied in the call
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

// The source word: with COPIED it may change at once, with UNTIL_EVENT when an event behind the copy is done.
void source_word(Kit& kit) {
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
    expect_ok(plugin.call<&yoke_backend_api::from_host>(stream.get(), buffer.get(), std::uint64_t{0},
                                                        source.data(), byte_count, &word));
    check(word == YOKE_SOURCE_COPIED || word == YOKE_SOURCE_UNTIL_EVENT, "*out_source of a from_host is ",
          word);
    if (word == YOKE_SOURCE_UNTIL_EVENT) {
      expect_ok(stream.record().wait(), "waiting for an event behind a from_host");
    }
    copied += word == YOKE_SOURCE_COPIED ? 1 : 0;
    std::fill(source.begin(), source.end(), std::byte{0xdd});
    stream.synchronize();
    check(buffer.contents() == meant, "from_host said ",
          word == YOKE_SOURCE_COPIED ? "COPIED" : "UNTIL_EVENT (and an event was waited for)",
          ", but what was written to the source afterwards arrived");
  }
  kit.note(text(copied, " of 60 sources were copied in the call"));
}

void comes_and_goes(Kit& kit) {
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
    check_equal(kit.plugin().live_counts().streams, i, "live streams");
  }
  many.clear();
  check_equal(kit.plugin().live_counts().streams, 0U, "live streams when all are destroyed");
  kit.plugin().call<&yoke_stream_api::stream_destroy>(static_cast<yoke_stream*>(nullptr));
}

void idle(Kit& kit) {
  const Stream stream(kit.device());
  check(stream.done(), "a fresh stream says that it has work");
  expect_ok(stream.wait(0), "waiting without time for a fresh stream");
  expect_ok(stream.wait(), "waiting for a fresh stream");
  expect_ok(stream.wait(UINT64_MAX), "waiting for a fresh stream with the largest deadline");
}

// Keeps the stream busy for a while, as far as copies can.
void queue_work(const Stream& stream, const Buffer& a, const Buffer& b, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    stream.copy(i % 2 == 0 ? a : b, 0, i % 2 == 0 ? b : a, 0, a.byte_count());
  }
}

void deadlines(Kit& kit) {
  constexpr std::uint64_t kBytes = 4U << 20U;
  const Buffer a(kit.device(), kBytes);
  const Buffer b(kit.device(), kBytes);
  const Stream stream(kit.device());
  unsigned late = 0;
  for (const std::uint64_t timeout :
       {std::uint64_t{0}, std::uint64_t{1}, kMillisecond / 10, kMillisecond, 20 * kMillisecond}) {
    for (int i = 0; i < 5; ++i) {
      queue_work(stream, a, b, 20);
      const auto begin = Clock::now();
      const Answer answer = stream.wait(timeout);
      const double took = seconds_since(begin);
      if (!answer.ok()) {
        expect_code(answer, YOKE_DEADLINE_EXCEEDED, text("waiting ", timeout, " ns for a busy stream"));
        check(took * 1e9 >= static_cast<double>(timeout) * 0.5, "a wait of ", timeout, " ns gave up after ",
              took, " s");
        ++late;
      }
    }
  }
  stream.synchronize();
  check(stream.done(), "a stream is not done after a wait that answered OK");
  kit.note(text(late, " of 25 waits met their deadline before the work was done"));
}

void query_turns_true(Kit& kit) {
  const Buffer a(kit.device(), 8U << 20U);
  const Buffer b(kit.device(), 8U << 20U);
  const Stream stream(kit.device());
  for (int round = 0; round < 5; ++round) {
    queue_work(stream, a, b, 10);
    for (const Patience patience; !stream.done();) {
      check(!patience.is_over(), "stream_query does not turn 1 when nobody waits");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    expect_ok(stream.wait(0), "waiting without time for a stream whose query said done");
  }
}

// A long queue on one stream, then a copy of its result on another: a wait that is forgotten shows as old
// bytes.
void wait_event_holds(Kit& kit) {
  constexpr std::uint64_t kBytes = 8U << 20U;
  Random random = kit.random();
  const Buffer a(kit.device(), kBytes);
  const Buffer b(kit.device(), kBytes);
  const Buffer result(kit.device(), kBytes);
  Bytes received(kBytes);
  for (int i = 0; i < 12; ++i) {
    Stream first(kit.device());
    const Stream second(kit.device());
    const Bytes sent = random.bytes(kBytes);
    queue_work(first, a, b, 8);
    first.write(a, 0, sent);
    first.copy(b, 0, a, 0, kBytes);
    second.wait_for(first.record());  // the event is gone before it is done
    second.copy(result, 0, b, 0, kBytes);
    second.read(result, 0, received);
    second.synchronize();
    check(received == sent, "round ", i, ": work behind stream_wait_event ran before the event was done");
    first.synchronize();
  }
}

// A call that is refused queues nothing, and does not poison the stream.
void refusals_do_not_poison(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  const Buffer buffer(kit.device(), 100);
  buffer.write(0, Bytes(100, std::byte{1}));
  Stream stream(kit.device());
  Bytes host(200, std::byte{2});
  expect_code(plugin.call<&yoke_backend_api::from_host>(stream.get(), buffer.get(), std::uint64_t{50},
                                                        host.data(), std::uint64_t{51}, nullptr),
              YOKE_OUT_OF_RANGE, "queueing a from_host that does not fit");
  expect_code(plugin.call<&yoke_backend_api::to_host>(stream.get(), buffer.get(), UINT64_MAX, host.data(),
                                                      std::uint64_t{2}),
              YOKE_OUT_OF_RANGE, "queueing a to_host that does not fit");
  if (plugin.has<&yoke_backend_api::fill>()) {
    expect_code(plugin.call<&yoke_backend_api::fill>(stream.get(), buffer.get(), std::uint64_t{0},
                                                     std::uint64_t{99}, host.data(), 3U),
                YOKE_INVALID_ARGUMENT, "queueing a fill with a pattern of 3 bytes");
  }
  stream.synchronize();
  check(buffer.contents() == Bytes(100, std::byte{1}), "a refused call changed the buffer");
  check(host == Bytes(200, std::byte{2}), "a refused call changed host memory");
  stream.write(buffer, 0, Bytes(100, std::byte{3}));
  stream.synchronize();
  check(buffer.contents() == Bytes(100, std::byte{3}), "a stream does not work after a refused call");
}

void abort_ends_waits(Kit& kit) {
  Plugin& plugin = kit.plugin();
  plugin.need<&yoke_stream_api::device_abort>();
  // A device of its own, as an aborted one stays so.
  Device device(kit, plugin, kit.settings().device, kit.device_options());
  {
    const Buffer a(device, 16U << 20U);
    const Buffer b(device, 16U << 20U);
    const Stream stream(device);
    queue_work(stream, a, b, 50);
    const Event event = stream.record();
    std::thread aborting([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      try {
        expect_ok(plugin.call<&yoke_stream_api::device_abort>(device.get()), "aborting a device");
      } catch (const std::exception& failure) {
        kit.complain(failure.what());
      }
    });
    const Answer first = stream.wait();
    aborting.join();
    check(first.ok() || first.code == YOKE_ABORTED, "a wait that device_abort ended: ", first.words());
    expect_code(stream.wait(), YOKE_ABORTED, "waiting for a stream of an aborted device");
    expect_code(stream.wait(0), YOKE_ABORTED, "waiting without time for a stream of an aborted device");
    const Answer behind = event.wait();
    check(behind.code == YOKE_ABORTED || (behind.ok() && first.ok()),
          "waiting for an event of an aborted device: ", behind.words());
  }
  device.close();
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
              "asking for a debug text");
    check(std::all_of(text.begin() + static_cast<std::ptrdiff_t>(capacity), text.end(),
                      [](char c) { return c == '\x55'; }),
          "stream_debug_text wrote behind its capacity of ", capacity);
    check(capacity == 0 || std::memchr(text.data(), '\0', capacity) != nullptr,
          "stream_debug_text is not closed by a zero with a capacity of ", capacity);
    check(capacity < 64 || is_utf8(text.data()), "stream_debug_text gives text that is not UTF-8");
  }
}

// A NULL stream still means: done on return, whatever is queued elsewhere.
void null_stream_beside(Kit& kit) {
  Random random = kit.random();
  const Buffer a(kit.device(), 4U << 20U);
  const Buffer b(kit.device(), 4U << 20U);
  const Buffer own(kit.device(), 5000);
  const Stream stream(kit.device());
  for (int i = 0; i < 20; ++i) {
    queue_work(stream, a, b, 4);
    const Bytes sent = random.bytes(5000);
    own.write(0, sent);
    check(own.contents() == sent, "a copy with a NULL stream was not done on return while a stream had work");
  }
  stream.synchronize();
}

}  // namespace

std::vector<Test> stream_tests() {
  return {
      {"in-order", "work on one stream runs in the order in which it was queued", {18}, in_order},
      {"fills-in-order",
       "hundreds of fills on one stream end with the last; patterns are copied in the call",
       {16, 18},
       fills_in_order},
      {"source-word",
       "the source of a queued from_host may change when out_source says so, and not before",
       {16},
       source_word},
      {"comes-and-goes",
       "streams of any priority are made, counted and destroyed; destroying NULL is nothing",
       {14},
       comes_and_goes},
      {"idle", "a stream without work is done, with any deadline", {18, 21}, idle},
      {"deadlines",
       "a wait that gives up answers DEADLINE_EXCEEDED, and not before its deadline; 0 asks and returns",
       {21},
       deadlines},
      {"query-turns-true", "stream_query turns 1 without anybody waiting", {18}, query_turns_true},
      {"wait-event-holds",
       "work behind stream_wait_event sees what was queued before the event, which may be destroyed at once",
       {18},
       wait_event_holds},
      {"refusals-do-not-poison",
       "a refused call queues nothing and leaves its stream good",
       {19},
       refusals_do_not_poison},
      {"abort",
       "device_abort ends every wait with ABORTED; other handles of the device go on",
       {21},
       abort_ends_waits},
      {"debug-text", "stream_debug_text keeps to its capacity and closes its text", {12}, debug_texts},
      {"null-stream",
       "a call with a NULL stream is done on return while streams have work",
       {18},
       null_stream_beside},
  };
}

}  // namespace yoke::conformance
