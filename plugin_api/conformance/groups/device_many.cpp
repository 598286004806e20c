// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/device_many.cpp: many live objects, and several devices at work.
#include <algorithm>
#include <deque>
#include <iterator>
#include <list>

#include "groups.h"
#include "held.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

// More buffers than a table of fixed length holds. Some are destroyed, and others take their places.
void many_buffers(Kit& kit) {
  constexpr std::size_t kCount = 3000;
  Device& device = kit.device();
  Random random = kit.random();
  std::deque<Buffer> buffers(kCount);
  std::vector<Bytes> contents(kCount);
  const auto renew = [&](std::size_t i) {
    contents[i] = random.bytes(1 + random.below(600));
    buffers[i] = Buffer(device, contents[i].size());
    buffers[i].write(0, contents[i]);
  };
  for (std::size_t i = 0; i < kCount; ++i) {
    renew(i);
  }
  for (std::size_t i = 0; i < kCount; i += 1 + random.below(5)) {
    buffers[i].reset();
    renew(i);
  }
  check_equal(kit.plugin().live_counts().buffers, kCount, "the number of live buffers");
  for (std::size_t i = 0; i < kCount; ++i) {
    check(buffers[i].contents() == contents[i], "buffer ", i, " of ", kCount,
          " live ones has wrong contents");
  }
}

// More routines than a table of fixed length holds, launched in turn without a wait.
void many_routines(Kit& kit) {
  constexpr std::size_t kCount = 300;
  Device& device = kit.device();
  const SmallProgram program(device);
  const Code code = compile(device, program.text());
  const std::optional<Stream> stream = stream_if_any(device);
  std::deque<SmallRun> runs;
  std::vector<float> values(kSmallCount);
  const auto input = [&](std::size_t i) {
    std::fill(values.begin(), values.end(), static_cast<float>(i % 900));
    return values;
  };
  for (std::size_t i = 0; i < kCount; ++i) {
    runs.emplace_back(device, code).x.write(0, bytes_of_floats(input(i)));
  }
  check_equal(kit.plugin().live_counts().routines, kCount, "the number of live routines");
  for (const SmallRun& run : runs) {
    expect_ok(device.plugin().routine_launch(raw_of(stream), run.routine.get(), {}), "queueing a launch");
  }
  if (stream) {
    stream->synchronize();
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    check(runs[i].y.contents() == bytes_of_floats(program.results(input(i))), "routine ", i, " of ", kCount,
          " has a wrong result");
  }
}

// What one device of several runs.
struct Worker {
  Worker(Kit& kit, Plugin& plugin, std::uint32_t ordinal)
      : device(kit, plugin, ordinal,
               ordinal == kit.settings().device ? kit.device_options() : std::vector<yoke_option>()),
        stream(stream_if_any(device)),
        small(device) {
    if (!small.run) {
      x = Buffer(device, kSmallCount * sizeof(float));
    }
  }

  void queue(Random& random) {
    values.resize(kSmallCount);
    received.assign(kSmallCount, 0);
    for (float& value : values) {
      value = static_cast<float>(random.below(900));
    }
    const Plugin& plugin = device.plugin();
    expect_ok(plugin.from_host(raw_of(stream), (small.run ? small.run->x : x).get(), 0, values.data(),
                               kSmallCount * sizeof(float), nullptr));
    if (small.run) {
      expect_ok(plugin.routine_launch(raw_of(stream), small.run->routine.get(), {}), "queueing a launch");
    }
    expect_ok(plugin.to_host(raw_of(stream), (small.run ? small.run->y : x).get(), 0, received.data(),
                             kSmallCount * sizeof(float)));
  }
  void check_results(const char* when) const {
    if (stream) {
      expect_ok(stream->wait(), text("waiting for a stream of one of several devices", when));
    }
    check(values.empty() || received == (small.run ? small.program->results(values) : values),
          "the results of one of several devices are wrong", when);
  }

  Device device;
  std::optional<Stream> stream;
  SmallRunIfAny small;
  Buffer x;
  std::vector<float> values;
  std::vector<float> received;
};

void several(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  const std::uint32_t count = std::min(plugin.device_count(), 4U);
  if (count < 2) {
    unsupported("the plugin has only one device");
  }
  Random random = kit.random();
  std::deque<Worker> workers;
  for (std::uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    workers.emplace_back(kit, kit.plugin(), ordinal);
  }
  for (int round = 0; round < 40 * kit.effort(); ++round) {
    for (Worker& worker : workers) {
      worker.queue(random);
    }
    for (const Worker& worker : workers) {
      worker.check_results("");
    }
  }
  const std::uint64_t used = workers[0].device.memory().used_bytes;
  {
    const Buffer other(workers[1].device, 1U << 20U);
    check_equal(workers[0].device.memory().used_bytes, used,
                "used_bytes of a device after another created a buffer");
  }
  if (!plugin.has<&yoke_stream_api::device_abort>()) {
    return;
  }
  expect_ok(plugin.call<&yoke_stream_api::device_abort>(workers.back().device.get()),
            "aborting one of several devices");
  workers.front().queue(random);
  workers.front().check_results(" after another was aborted");
  expect_code(workers.back().stream->wait(), YOKE_STATUS_ABORTED,
              "waiting for a stream of an aborted device");
}

// Handles of all devices are opened and closed in any order, also the first one before later ones, while others have
// work.
void in_turn(Kit& kit) {
  Plugin plugin(kit.library());
  const std::uint32_t count = plugin.some_devices();
  check(count > kit.settings().device, "another instance has fewer devices");
  Random random = kit.random();
  std::list<Worker> workers;
  std::size_t opened = 0;
  const auto begin = Clock::now();  // opening a device may take a part of a second
  for (int step = 0; step < 60 * kit.effort() && ns_since(begin) < 3000 * kMillisecond; ++step) {
    if (workers.size() < 2 || (workers.size() < 24 && random.chance(2))) {
      workers.emplace_back(kit, plugin, opened % 2 == 0 ? kit.settings().device : opened / 2 % count);
      ++opened;
    }
    for (Worker& worker : workers) {
      if (random.chance(2)) {
        worker.queue(random);
      }
    }
    if (workers.size() > 1 && random.chance(2)) {
      const auto one = std::next(
          workers.begin(), static_cast<std::ptrdiff_t>(random.chance(2) ? 0 : random.below(workers.size())));
      one->check_results(" before its handle is closed");
      workers.erase(one);
    }
    for (const Worker& worker : workers) {
      worker.check_results(" while handles are opened and closed");
    }
  }
  workers.clear();
  plugin.leave();
}

// Each of four handles in turn is aborted while all have work that cannot run yet. Their streams and buffers were
// created after all were open, so none of them belongs to the device that was opened last.
void abort_one(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.need<&yoke_stream_api::device_abort>();
  const std::uint32_t own = kit.settings().device;
  const std::uint32_t other = (own + 1) % plugin.some_devices();
  const Bytes sent = kit.random().bytes(64);
  for (std::size_t aborted = 0; aborted < 4; ++aborted) {
    std::deque<Device> devices;
    for (const std::uint32_t ordinal : {own, other, own, other}) {
      devices.emplace_back(kit, kit.plugin(), ordinal,
                           ordinal == own ? kit.device_options() : std::vector<yoke_option>());
    }
    std::deque<Buffer> buffers;
    std::deque<Stream> streams;
    for (Device& device : devices) {
      buffers.emplace_back(device, sent.size());
      buffers.back().write(0, Bytes(sent.size()));
      streams.emplace_back(device);
    }
    {
      const Held held(kit.device());
      for (std::size_t i = 0; i < devices.size(); ++i) {
        held.hold(streams[i]);
        expect_ok(plugin.from_host(streams[i].get(), buffers[i].get(), 0, sent.data(), sent.size(), nullptr));
      }
      if (!held.is_closed()) {
        unsupported("the plugin has no host callbacks, so work may end before the abort");
      }
      expect_supported(plugin.call<&yoke_stream_api::device_abort>(devices[aborted].get()),
                       "aborting a device");
    }
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const std::string which = text("handle ", i, " of 4, after handle ", aborted, " was aborted");
      if (i == aborted) {
        expect_code(streams[i].wait(), YOKE_STATUS_ABORTED, "waiting for the stream of " + which);
      } else {
        expect_ok(streams[i].wait(), "waiting for the stream of " + which);
        check(buffers[i].contents() == sent, "a copy has wrong results on ", which);
      }
    }
  }
}

}  // namespace

std::vector<Test> device_many_tests() {
  return {
      {"many-buffers",
       "3,000 live buffers keep their contents while others are destroyed and created",
       {14, 16},
       many_buffers},
      {"many-routines",
       "300 live routines of one code, launched in turn, have their own results",
       {14, 26},
       many_routines},
      {"several",
       "several devices work at the same time, each with its own results, memory and aborts",
       {53, 55},
       several},
      {"abort-one",
       "device_abort ends the work of one handle, also if others were opened after it",
       {45, 53},
       abort_one},
      {"in-turn", "handles work while others are opened and closed in any order", {14, 53}, in_turn},
  };
}

}  // namespace yoke::conformance
