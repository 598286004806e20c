// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/thread.cpp: concurrent calls that the thread tags of the ABI allow.
#include <algorithm>
#include <atomic>
#include <mutex>

#include "groups.h"
#include "host_callback.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

constexpr unsigned kThreads = 8;

template <class Element>
Bytes bytes_of(const std::vector<Element>& elements) {
  const auto bytes = std::as_bytes(std::span(elements));
  return {bytes.begin(), bytes.end()};
}

// Threads also destroy buffers that others created.
void create_and_destroy(Kit& kit) {
  Device& device = kit.device();
  const std::uint64_t used = device.memory().used_bytes;
  using Filled = std::pair<Buffer, Bytes>;
  std::mutex mutex;
  std::vector<Filled> shared;
  for (unsigned i = 0; i < kThreads; ++i) {
    shared.emplace_back(Buffer(device, 100), Bytes(100, std::byte{1}));
    shared.back().first.write(0, shared.back().second);
  }
  run_threads(kThreads, [&](unsigned thread) {
    Random random = kit.random(thread);
    std::vector<Filled> alive;
    for (int i = 0; i < 600; ++i) {
      if (!alive.empty() && (alive.size() > 50 || random.chance(3))) {
        std::swap(alive[random.below(alive.size())], alive.back());
        if (random.chance(2)) {
          const std::lock_guard lock(mutex);
          std::swap(alive.back(), shared[random.below(kThreads)]);
        }
        check(alive.back().first.contents() == alive.back().second,
              "the contents of a buffer changed while other buffers were created and destroyed");
        alive.pop_back();
      } else {
        Bytes bytes = random.bytes(random.below(random.chance(20) ? 100'000 : 5000));
        Buffer buffer(device, bytes.size());
        buffer.write(0, bytes);
        alive.emplace_back(std::move(buffer), std::move(bytes));
      }
    }
  });
  shared.clear();
  check_equal(kit.plugin().live_counts().buffers, 0U, "the number of live buffers after all threads ended");
  check_equal(device.memory().used_bytes, used, "used_bytes after all threads ended");
}

// Several threads may use a NULL stream as long as they do not touch the same bytes.
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
      check(received == model, "one thread's part of a buffer changed while other threads wrote their parts");
    }
  });
}

// Calls the [any-thread] queries on shared objects while another thread creates and destroys buffers.
void queries(Kit& kit) {
  Device& device = kit.device();
  Plugin& plugin = kit.plugin();
  const Buffer buffer(device, 4096);
  std::atomic<bool> stop{false};
  const std::uint32_t count = plugin.device_count();
  run_threads(kThreads + 1, [&](unsigned thread) {
    if (thread == kThreads) {
      Random random = kit.random();
      for (int i = 0; i < 400; ++i) {
        const Buffer other(device, random.below(10000));
        other.write(0, Bytes(other.byte_count()));
      }
      stop = true;
      return;
    }
    while (!stop) {
      check_equal(plugin.device_count(), count, "device_count while other threads make calls");
      device.info();
      check_equal(buffer.describe().byte_count, 4096U,
                  "byte_count of a buffer while other threads make calls");
      check(device.memory().used_bytes >= 4096,
            "used_bytes is less than the size of a live 4096-byte buffer");
      check(plugin.live_counts().buffers >= 1, "live_counts reports no buffers while one is alive");
      check(plugin.get()->get_table(plugin.get(), "yoke.nothing/1") == nullptr,
            "get_table returned a table for an unknown id");
      yoke_device_info info = sized<yoke_device_info>();
      expect_code(plugin.device_describe(UINT32_MAX, &info), YOKE_STATUS_OUT_OF_RANGE,
                  "describing a device that does not exist, on several threads");
    }
  });
}

void open_and_close(Kit& kit) {
  kit.device();
  const std::uint32_t count = kit.plugin().device_count();
  const std::vector<yoke_option> options = kit.device_options();
  run_threads(kThreads, [&](unsigned thread) {
    for (int i = 0; i < 20; ++i) {
      Device device(kit, kit.plugin(), count > 1 ? thread % count : kit.settings().device, options);
      Buffer buffer(device, 1000);
      const Bytes sent = kit.random(thread).bytes(1000);
      buffer.write(0, sent);
      check(buffer.contents() == sent, "a device does not work while other threads open and close devices");
      buffer.reset();
      device.close();
    }
  });
  check_equal(kit.plugin().live_counts().devices, 1U,
              "the number of live devices after every thread closed its own");
}

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
      expect_ok(event.wait(), "waiting for an event while other threads use their streams");
      check(received == sent, "a stream returned wrong bytes while other threads used their streams");
    }
  });
  check_equal(kit.plugin().live_counts().streams, 0U, "the number of live streams after all threads ended");
  check_equal(kit.plugin().live_counts().events, 0U, "the number of live events after all threads ended");
}

// Copies a buffer from stream to stream, each stream waiting for the event of the one before it.
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
      run_threads(2, [&](unsigned thread) {  // one thread queues while the other one queries
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
    check(received == sent, "a buffer that was copied from stream to stream has wrong contents");
  }
  for (const Stream& stream : streams) {
    stream.synchronize();
  }
}

void run_small(Device& device, const SmallProgram& program, const Code& code, Random random) {
  const SmallRun add(device, code);
  for (int i = 0; i < 20; ++i) {
    std::vector<float> values(kSmallCount);
    for (float& value : values) {
      value = static_cast<float>(random.below(1000));
    }
    add.x.write(0, std::as_bytes(std::span(values)));
    add.launch();
    std::vector<float> results(kSmallCount);
    add.y.read(0, std::as_writable_bytes(std::span(results)));
    const std::vector<float> expected = program.results(values);
    for (std::size_t k = 0; k < results.size(); ++k) {
      check_equal(results[k], expected[k], "element ", k, " of ", program.name(),
                  "(x), computed on several threads,");
    }
  }
}

// One code and a routine per thread, while another thread compiles.
void many_routines(Kit& kit) {
  Device& device = kit.device();
  const SmallProgram program(device);
  const Code code = compile(device, program.text());
  run_threads(kThreads, [&](unsigned thread) {
    if (thread == 0) {
      for (int i = 0; i < 10; ++i) {
        describe_entry(kit.plugin(), compile(device, program.text()));
      }
    } else {
      run_small(device, program, code, kit.random(thread));
    }
  });
  check_equal(kit.plugin().live_counts().routines, 0U, "the number of live routines after all threads ended");
  check_equal(kit.plugin().live_counts().codes, 1U, "the number of live codes after all threads ended");
}

void errors(Kit& kit) {
  Device& device = kit.device();
  const Buffer buffer(device, 100);
  run_threads(kThreads, [&](unsigned thread) {
    Bytes host(8);
    for (int i = 0; i < 300; ++i) {
      if (thread % 2 == 0) {
        expect_code(kit.plugin().to_host(nullptr, buffer.get(), 100, host.data(), 8),
                    YOKE_STATUS_OUT_OF_RANGE, "a to_host out of range, on several threads");
      } else {
        expect_no_buffer(device, UINT64_MAX, YOKE_MEMORY_DEVICE, YOKE_STATUS_OUT_OF_DEVICE_MEMORY,
                         "creating a huge buffer, on several threads");
      }
    }
  });
}

// Queues many small copies faster than they finish, to detect a staging area that streams share.
void small_copies(Kit& kit) {
  Device& device = kit.device();
  kit.plugin().table<yoke_stream_api>();
  constexpr std::uint64_t kPart = 40;
  constexpr std::uint64_t kParts = 100;
  run_threads(kThreads, [&](unsigned thread) {
    Random random = kit.random(thread);
    const Buffer buffer(device, kPart * kParts);
    Stream stream(device);
    for (int round = 0; round < 5; ++round) {
      const Bytes sent = random.bytes(kPart * kParts);
      for (std::uint64_t part = 0; part < kParts; ++part) {
        const auto* const from = sent.data() + part * kPart;
        stream.write(buffer, part * kPart, {from, from + kPart});
      }
      stream.synchronize();
      check(buffer.contents() == sent,
            "small copies that were queued one after another copied wrong bytes (round ", round, ")");
    }
  });
}

// y[i] = x[i] * 8 + 7, computed with three temporaries; large enough that launches overlap.
constexpr std::uint64_t kCount = 20000;
constexpr std::string_view kByTemporaries =
    "yoke.program 1\nprogram by_temporaries() {\n  arg x : i32[20000] in\n  arg y : i32[20000] out\n  temp a "
    ": i32[20000]\n  temp b : i32[20000]\n  temp c : i32[20000]\n  a[i] = x[i] * 2\n  b[i] = a[19999 - i] * "
    "2\n  c[i] = b[19999 - i] * 2\n  y[i] = c[i] + 7\n}\n";

// The program linked to its own buffers. x[i] = value.
struct ByTemporaries {
  ByTemporaries(Device& device, const Code& code, const Buffer& workspace, std::int32_t value)
      : x(device, kCount * sizeof value), y(device, kCount * sizeof value) {
    x.write(0, bytes_of(std::vector<std::int32_t>(kCount, value)));
    y.write(0, Bytes(y.byte_count()));
    const yoke_binding bindings[] = {binding(x), binding(y)};
    routine = link(device.plugin(), code, 0, bindings, binding(workspace));
    expected = bytes_of(std::vector<std::int32_t>(kCount, value * 8 + 7));
  }
  // Clears y.
  bool is_computed() const {
    const bool is_right = y.contents() == expected;
    y.write(0, Bytes(y.byte_count()));
    return is_right;
  }

  Buffer x, y;
  Routine routine;
  Bytes expected;
};

// Routines of one code, each with its own workspace, run at the same time.
void temporaries(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_program_api>();
  require_supported(device, kByTemporaries, 4);
  const Code code = compile(device, kByTemporaries);
  run_threads(kThreads, [&](unsigned thread) {
    const Buffer workspace = workspace_for(device, code);
    const ByTemporaries one(device, code, workspace, static_cast<std::int32_t>(thread + 1));
    const std::optional<Stream> stream = stream_if_any(device);
    for (int round = 0; round < 6; ++round) {
      launch(plugin, one.routine, {}, stream ? &*stream : nullptr);
      check(one.is_computed(),
            "a routine with its own workspace used the temporaries of another routine (round ", round, ")");
    }
  });
}

// Four routines with one workspace, on one stream and on two streams that are ordered by events.
void shared_workspace(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_stream_api>();
  plugin.table<yoke_program_api>();
  require_supported(device, kByTemporaries, 4);
  const Code code = compile(device, kByTemporaries);
  const Buffer workspace = workspace_for(device, code);
  std::vector<ByTemporaries> bound;
  bound.reserve(4);
  for (int i = 0; i < 4; ++i) {
    bound.emplace_back(device, code, workspace, i);
  }
  const Stream streams[] = {Stream(device), Stream(device)};
  for (const std::size_t stream_count : {1U, 2U}) {
    const auto gate = HostCallback::gate(streams[0]);  // until all launches are queued
    for (std::size_t i = 0; i < bound.size(); ++i) {
      const Stream& stream = streams[i % stream_count];
      stream.wait_for(streams[(i + 1) % stream_count].record());
      expect_ok(plugin.routine_launch(stream.get(), bound[i].routine.get(), {}), "queueing a launch");
    }
    if (gate != nullptr) {
      gate->open();
    }
    for (const Stream& stream : streams) {
      stream.synchronize();
    }
    for (std::size_t i = 0; i < bound.size(); ++i) {
      check(bound[i].is_computed(), "routine ", i, " of 4 that share a workspace on ",
            stream_count == 1 ? "one stream" : "two ordered streams", " has a wrong result");
    }
  }
}

}  // namespace

std::vector<Test> thread_tests() {
  return {
      {"create-and-destroy",
       "eight threads create, write and destroy thousands of buffers; contents and live counts are correct",
       {14, 20},
       create_and_destroy,
       2},
      {"parts-of-one-buffer",
       "eight threads copy to different parts of one buffer",
       {20},
       parts_of_one_buffer,
       2},
      {"queries",
       "eight threads call [any-thread] functions while objects are created and destroyed",
       {20},
       queries,
       2},
      {"open-and-close", "eight threads open and close devices", {20}, open_and_close, 2},
      {"many-streams", "eight threads use one stream each", {18, 20}, many_streams, 2},
      {"relay", "events order copies on eight streams while another thread queries them", {18, 20}, relay, 2},
      {"many-routines",
       "seven threads launch routines of one code while another thread compiles",
       {20, 26},
       many_routines,
       2},
      {"errors", "each thread receives the codes and texts of its own failed calls", {10, 20}, errors, 2},
      {"small-copies", "small copies on eight streams copy the right bytes", {16, 18, 20}, small_copies, 2},
      {"temporaries",
       "routines of one code that run at the same time do not share temporaries",
       {20, 26},
       temporaries,
       2},
      {"shared-workspace",
       "routines can share a workspace when their launches are ordered",
       {54},
       shared_workspace},
  };
}

}  // namespace yoke::conformance
