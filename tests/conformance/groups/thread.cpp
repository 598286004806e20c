// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/thread.cpp: what the thread tags allow, done by many threads at once.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "basic_use.h"
#include "groups.h"

namespace yoke::conformance {
namespace {

using Bytes = std::vector<std::byte>;

constexpr unsigned kThreads = 8;

void create_and_destroy(Kit& kit) {
  Device& device = kit.device();
  const std::uint64_t used = device.memory().used_bytes;
  run_threads(kThreads, [&](unsigned thread) {
    Random random = kit.random(thread);
    std::vector<std::pair<Buffer, Bytes>> alive;
    for (int i = 0; i < 300; ++i) {
      if (!alive.empty() && random.chance(2)) {
        check(alive.back().first.contents() == alive.back().second,
              "a buffer lost its contents while other threads worked");
        alive.pop_back();
      } else {
        Bytes bytes = random.bytes(random.below(3000));
        Buffer buffer(device, bytes.size());
        buffer.write(0, bytes);
        alive.emplace_back(std::move(buffer), std::move(bytes));
      }
    }
  });
  check_equal(kit.plugin().live_counts().buffers, 0U, "live buffers when every thread is done");
  check_equal(device.memory().used_bytes, used, "used_bytes when every thread is done");
}

// NULL streams from several threads: allowed as long as they do not touch the same bytes.
void parts_of_one_buffer(Kit& kit) {
  constexpr std::uint64_t kPart = 10007;
  const Buffer buffer(kit.device(), kPart * kThreads);
  buffer.write(0, Bytes(buffer.byte_count(), std::byte{0xee}));
  run_threads(kThreads, [&](unsigned thread) {
    Random random = kit.random(thread);
    const std::uint64_t begin = thread * kPart;
    Bytes model(kPart, std::byte{0xee});
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t offset = random.below(kPart);
      const Bytes sent = random.bytes(random.below(kPart - offset + 1));
      buffer.write(begin + offset, sent);
      std::copy(sent.begin(), sent.end(), model.begin() + static_cast<std::ptrdiff_t>(offset));
      Bytes received(kPart);
      buffer.read(begin, received);
      check(received == model, "a thread's own part of a buffer changed while others wrote to theirs");
    }
  });
}

// Every function that any thread may call at any time, about objects that others use as well.
void ask_everything(Kit& kit) {
  Device& device = kit.device();
  Plugin& plugin = kit.plugin();
  const Buffer buffer(device, 4096);
  std::atomic<bool> stop{false};
  const std::uint32_t count = plugin.device_count();
  run_threads(kThreads + 1, [&](unsigned thread) {
    if (thread == kThreads) {  // meanwhile things come and go
      Random random = kit.random();
      for (int i = 0; i < 400; ++i) {
        const Buffer other(device, random.below(10000));
        other.write(0, Bytes(other.byte_count()));
      }
      stop = true;
      return;
    }
    while (!stop) {
      check_equal(plugin.device_count(), count, "device_count while other threads work");
      yoke_device_info info = sized<yoke_device_info>();
      expect_ok(plugin.call<&yoke_backend_api::device_describe>(plugin.get(), kit.settings().device, &info));
      check_equal(buffer.describe().byte_count, 4096U, "byte_count of a buffer while other threads work");
      check(device.memory().used_bytes >= 4096,
            "used_bytes is less than one living buffer while other threads work");
      check(plugin.live_counts().buffers >= 1, "live_counts has no buffer while one lives");
      check(plugin.get()->get_table(plugin.get(), "yoke.nothing/1") == nullptr,
            "get_table gave an unknown table");
      expect_code(plugin.call<&yoke_backend_api::device_describe>(plugin.get(), UINT32_MAX, &info),
                  YOKE_OUT_OF_RANGE, "describing a device that is not there, on many threads");
    }
  });
}

void open_and_close(Kit& kit) {
  const std::uint32_t count = [&] {
    kit.device();
    return kit.plugin().device_count();
  }();
  const std::vector<yoke_option> options = kit.device_options();
  run_threads(kThreads, [&](unsigned thread) {
    for (int i = 0; i < 20; ++i) {
      Device device(kit, kit.plugin(), count > 1 ? thread % count : kit.settings().device, options);
      Buffer buffer(device, 1000);
      const Bytes sent = kit.random(thread).bytes(1000);
      buffer.write(0, sent);
      check(buffer.contents() == sent, "a device opened beside others does not work");
      buffer.reset();
      device.close();
    }
  });
  check_equal(kit.plugin().live_counts().devices, 1U, "live devices when every thread has closed its own");
}

// A stream for each thread, with buffers of its own.
void many_streams(Kit& kit) {
  Device& device = kit.device();
  kit.plugin().table<yoke_stream_api>();
  run_threads(kThreads, [&](unsigned thread) {
    Random random = kit.random(thread);
    for (int round = 0; round < 10; ++round) {
      const Buffer a(device, 100000);
      const Buffer b(device, 100000);
      Stream stream(device);
      Bytes received(100000);
      Bytes sent;
      for (int i = 0; i < 10; ++i) {
        sent = random.bytes(100000);
        stream.write(a, 0, sent);
        stream.copy(b, 0, a, 0, 100000);
      }
      stream.read(b, 0, received);
      const Event event = stream.record();
      expect_ok(event.wait(), "waiting for an event on one of many threads");
      check(received == sent, "a stream of one thread gave bytes of another one's work");
    }
  });
  check_equal(kit.plugin().live_counts().streams, 0U, "live streams when every thread is done");
  check_equal(kit.plugin().live_counts().events, 0U, "live events when every thread is done");
}

// Threads pass a buffer on: each waits on its own stream for the event of the one before it.
void relay(Kit& kit) {
  Device& device = kit.device();
  constexpr std::uint64_t kBytes = 1U << 20U;
  std::vector<Stream> streams;
  std::vector<Buffer> buffers;
  for (unsigned i = 0; i < kThreads; ++i) {
    streams.emplace_back(device);
    buffers.emplace_back(device, kBytes);
  }
  Random random = kit.random();
  for (int round = 0; round < 10; ++round) {
    const Bytes sent = random.bytes(kBytes);
    streams[0].write(buffers[0], 0, sent);
    Event last = streams[0].record();
    for (unsigned i = 1; i < kThreads; ++i) {
      run_threads(2, [&](unsigned thread) {  // another thread asks while this one queues
        if (thread == 0) {
          streams[i].wait_for(last);
          streams[i].copy(buffers[i], 0, buffers[i - 1], 0, kBytes);
        } else {
          last.done();
          streams[i - 1].done();
        }
      });
      last = streams[i].record();
    }
    streams[0].wait_for(last);
    Bytes received(kBytes);
    streams[kThreads - 1].read(buffers[kThreads - 1], 0, received);
    streams[kThreads - 1].synchronize();
    check(received == sent, "a buffer passed on from stream to stream arrived with other bytes");
  }
  for (const Stream& stream : streams) {
    stream.synchronize();
  }
}

void run_add_one(Device& device, const Code& code, Random random) {
  const Plugin& plugin = device.plugin();
  const Buffer x(device, kAddCount * sizeof(float));
  const Buffer y(device, kAddCount * sizeof(float));
  const Buffer workspace(device, workspace_byte_count(plugin, code));
  const Routine routine = link_add_one(plugin, code, x, y, workspace);
  for (int i = 0; i < 20; ++i) {
    std::vector<float> values(kAddCount);
    for (float& value : values) {
      value = static_cast<float>(random.below(1000));
    }
    x.write(0, std::as_bytes(std::span(values)));
    expect_ok(plugin.call<&yoke_program_api::routine_launch>(nullptr, routine.get(), nullptr, 0U),
              "launching on one of many threads");
    std::vector<float> results(kAddCount);
    y.read(0, std::as_writable_bytes(std::span(results)));
    for (std::size_t k = 0; k < results.size(); ++k) {
      check(results[k] == values[k] + 1, "element ", k, " of y[i] = x[i] + 1 is ", results[k], ", x is ",
            values[k], ", while other threads compute");
    }
  }
}

// One code, a routine for each thread; another thread compiles and asks.
void many_routines(Kit& kit) {
  Device& device = kit.device();
  kit.plugin().table<yoke_program_api>();
  const Code code = compile_add_one(device);
  run_threads(kThreads, [&](unsigned thread) {
    if (thread == 0) {
      for (int i = 0; i < 10; ++i) {
        const Code own = compile_add_one(device);
        workspace_byte_count(kit.plugin(), own);
      }
    } else {
      run_add_one(device, code, kit.random(thread));
    }
  });
  check_equal(kit.plugin().live_counts().routines, 0U, "live routines when every thread is done");
  check_equal(kit.plugin().live_counts().codes, 1U, "live codes when every thread is done");
}

// Errors of many threads do not mix.
void errors_do_not_mix(Kit& kit) {
  Device& device = kit.device();
  const Buffer buffer(device, 100);
  run_threads(kThreads, [&](unsigned thread) {
    Bytes host(8);
    for (int i = 0; i < 300; ++i) {
      if (thread % 2 == 0) {
        expect_code(kit.plugin().call<&yoke_backend_api::to_host>(nullptr, buffer.get(), std::uint64_t{100},
                                                                  host.data(), std::uint64_t{8}),
                    YOKE_OUT_OF_RANGE, "a copy that does not fit, on one of many threads");
      } else {
        yoke_buffer* raw = nullptr;
        expect_code(kit.plugin().call<&yoke_backend_api::buffer_create>(device.get(), UINT64_MAX,
                                                                        YOKE_MEMORY_DEVICE, &raw),
                    YOKE_OUT_OF_DEVICE_MEMORY, "an absurd buffer, on one of many threads");
      }
    }
  });
}

}  // namespace

std::vector<Test> thread_tests() {
  return {
      {"create-and-destroy",
       "eight threads create, fill and destroy buffers; contents and counters are right",
       {14, 20},
       create_and_destroy,
       2},
      {"parts-of-one-buffer",
       "eight threads copy to their own parts of one buffer",
       {20},
       parts_of_one_buffer,
       2},
      {"ask-everything",
       "any-thread functions are asked by eight threads while objects come and go",
       {20},
       ask_everything,
       2},
      {"open-and-close", "eight threads open and close devices", {20}, open_and_close, 2},
      {"many-streams", "eight threads work on streams of their own", {18, 20}, many_streams, 2},
      {"relay", "streams pass a buffer on by events while other threads ask about them", {18, 20}, relay, 2},
      {"many-routines",
       "eight threads launch routines of one code while another compiles",
       {20, 26},
       many_routines,
       2},
      {"errors-do-not-mix",
       "calls that fail on many threads get their own codes and texts",
       {10, 20},
       errors_do_not_mix,
       2},
  };
}

}  // namespace yoke::conformance
