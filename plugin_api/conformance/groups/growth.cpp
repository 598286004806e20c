// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/growth.cpp: what a process holds after thousands of launches, copies, events, texts,
// compilations and objects.
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "groups.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

constexpr int kWarmUp = 2000;
constexpr int kRounds = 10000;

// What the process holds.
struct Held {
  std::uint64_t heap_bytes = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t descriptors = 0;
  std::uint64_t threads = 0;
  std::uint64_t device_bytes = 0;
};

Held held(const Device& device) {
  Held now;
  device.plugin().host().forget_lines();  // the kit keeps what the plugin logs
  const struct mallinfo2 heap = ::mallinfo2();
  now.heap_bytes = heap.uordblks + heap.hblkhd;
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  now.resident_bytes = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  now.descriptors = static_cast<std::uint64_t>(std::distance(
      std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
  now.threads = thread_count();
  now.device_bytes = device.memory().used_bytes;
  return now;
}

// How much the process may grow per round. Caches may still fill, so a few bytes per round are not a leak.
struct Allowed {
  std::uint64_t heap_bytes = 8;
  std::uint64_t resident_bytes = 256;
};
constexpr Allowed kAnyMemory = {std::uint64_t{1} << 32U, std::uint64_t{1} << 32U};

void check_growth(const Held& before, const Held& after, const char* what, std::uint64_t rounds,
                  const Allowed& allowed) {
  const auto grown = [](std::uint64_t from, std::uint64_t to) { return to > from ? to - from : 0; };
  check(grown(before.heap_bytes, after.heap_bytes) <= allowed.heap_bytes * rounds, "the heap grew by ",
        grown(before.heap_bytes, after.heap_bytes), " bytes in ", rounds, " ", what);
  if (!is_sanitized()) {
    check(grown(before.resident_bytes, after.resident_bytes) <= allowed.resident_bytes * rounds,
          "the memory of the process grew by ", grown(before.resident_bytes, after.resident_bytes),
          " bytes in ", rounds, " ", what);
  }
  check(after.descriptors <= before.descriptors, "the process opened ",
        grown(before.descriptors, after.descriptors), " more files in ", rounds, " ", what);
  check(after.threads <= before.threads, "the process started ", grown(before.threads, after.threads),
        " more threads in ", rounds, " ", what);
  check(after.device_bytes <= before.device_bytes, "used_bytes grew by ",
        grown(before.device_bytes, after.device_bytes), " in ", rounds, " ", what);
}

// Runs `round` many times; waits for the work after every 100 rounds.
struct Rounds {
  int warm_up = kWarmUp;
  int watched = kRounds;
  Allowed allowed = {};
};
void watch(Kit& kit, const char* what, const std::function<void(int)>& round,
           const std::function<void()>& wait, const Rounds& rounds = {}) {
  const auto run = [&](int count, int first) {
    for (int i = 0; i < count; ++i) {
      round(first + i);
      if (i % 100 == 99) {
        wait();
        kit.progress(text(what, ": round ", first + i));
      }
    }
    wait();
  };
  run(rounds.warm_up, 0);
  const Held before = held(kit.device());
  run(rounds.watched, rounds.warm_up);
  wait_for_threads(before.threads, 100);
  check_growth(before, held(kit.device()), what, static_cast<std::uint64_t>(rounds.watched), rounds.allowed);
}

void launches(Kit& kit) {
  Device& device = kit.device();
  const SmallProgram program(device);
  const Code code = compile(device, program.text());
  const SmallRun add(device, code);
  const std::optional<Stream> stream = stream_if_any(device);
  const auto check_result = [&](int round) {
    const std::vector<float> values(kSmallCount, static_cast<float>(round % 997));
    std::vector<float> results(kSmallCount);
    add.x.write(0, std::as_bytes(std::span(values)));
    launch(device.plugin(), add.routine, {}, stream ? &*stream : nullptr);
    add.y.read(0, std::as_writable_bytes(std::span(results)));
    check(results == program.results(values), "launch ", round, " of ", kWarmUp + kRounds,
          " has a wrong result");
  };
  watch(
      kit, "launches",
      [&](int round) {
        if (round % 100 == 0) {
          check_result(round);
        } else {
          expect_ok(device.plugin().routine_launch(raw_of(stream), add.routine.get(), {}),
                    "queueing a launch");
        }
      },
      [&] {
        if (stream) {
          stream->synchronize();
        }
      });
}

void links(Kit& kit) {
  Device& device = kit.device();
  const SmallProgram program(device);
  const Code code = compile(device, program.text());
  const SmallRun add(device, code);
  const yoke_binding bindings[] = {binding(add.x), binding(add.y)};
  watch(
      kit, "links", [&](int) { link(device.plugin(), code, 0, bindings, binding(add.workspace)); }, [] {},
      {6000, 60'000});
}

// The time of one round, in seconds.
double seconds_of(const std::function<void(int)>& round) {
  constexpr int kTimed = 20;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimed; ++i) {
    round(i);
  }
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - start;
  return all.count() / kTimed;
}

// A tenth of the rounds if all of them would take more than 4 seconds.
Rounds rounds_within(Kit& kit, const std::function<void(int)>& round, Rounds rounds) {
  if (seconds_of(round) * (rounds.warm_up + rounds.watched) > 4 && !kit.settings().thorough) {
    rounds.warm_up /= 10;
    rounds.watched /= 10;
    rounds.allowed.heap_bytes *= 10;
    rounds.allowed.resident_bytes *= 10;
  }
  return rounds;
}

// Different texts of several KiB, each compiled, launched and destroyed.
void texts(Kit& kit) {
  Device& device = kit.device();
  const SmallProgram program(device);
  const std::string_view plain = program.text();
  const std::string filler = "# " + std::string(6000, 'x') + "\n";
  const Buffer x(device, kSmallCount * sizeof(float));
  const Buffer y(device, kSmallCount * sizeof(float));
  const std::vector<float> values(kSmallCount, 3.0F);
  x.write(0, bytes_of_floats(values));
  const yoke_binding bindings[] = {binding(x), binding(y)};
  const Bytes expected = bytes_of_floats(program.results(values));
  const Bytes marks(expected.size(), std::byte{0x5c});
  const auto round = [&](int number) {
    std::string other(plain);
    other.replace(other.find(program.name()), program.name().size(), "p" + std::to_string(number));
    const Code code = compile(device, other + filler);
    if (number % 10 == 0) {
      y.write(0, marks);
      const Buffer workspace = workspace_for(device, code);
      const Routine routine = link(device.plugin(), code, 0, bindings, binding(workspace));
      launch(device.plugin(), routine);
      check(y.contents() == expected, "text ", number, " has a wrong result");
    }
  };
  const double seconds = seconds_of(round);
  // A cache of 1,000 texts is full when the watch begins.
  Rounds rounds = {1000, 2000, {2048, 4096}};
  constexpr double kLongest = 60;
  if (seconds * (rounds.warm_up + rounds.watched) > kLongest && !kit.settings().thorough) {
    rounds = {100, 200, kAnyMemory};
    kit.note(text("a text takes ", seconds * 1e3,
                  " ms, so only 300 were compiled, and growth of memory, which may be that of a cache, was "
                  "not checked; use --thorough"));
  }
  watch(
      kit, "different texts", round, [] {}, rounds);
}

// One text, compiled, linked, launched and destroyed again and again. A cache holds it once. PoCL 3.1 keeps 420 bytes
// for each program, and 70 for each context.
void compiles(Kit& kit) {
  Device& device = kit.device();
  const SmallProgram program(device);
  const Buffer x(device, kSmallCount * sizeof(float));
  const Buffer y(device, kSmallCount * sizeof(float));
  x.write(0, bytes_of_floats(SmallRun::start()));
  const yoke_binding bindings[] = {binding(x), binding(y)};
  const auto round = [&](int) {
    const Code code = compile(device, program.text());
    const Buffer workspace = workspace_for(device, code);
    launch(device.plugin(), link(device.plugin(), code, 0, bindings, binding(workspace)));
  };
  watch(
      kit, "compilations of one text", round, [] {}, rounds_within(kit, round, {500, 3000, {512, 4096}}));
}

// Every kind of object of a device, created, used and destroyed, and the device's handle itself.
void objects(Kit& kit) {
  Device& device = kit.device();
  const Bytes sent = kit.random().bytes(64);
  const auto use = [&](Device& of) {
    const Buffer buffer(of, 64);
    std::optional<Stream> stream = stream_if_any(of);
    if (stream) {
      stream->write(buffer, 0, sent);
      stream->record().wait();
      stream->synchronize();
    } else {
      buffer.write(0, sent);
    }
    check(buffer.contents() == sent, "a new buffer has wrong contents after a copy");
  };
  const auto round = [&](int) { use(device); };
  watch(
      kit, "rounds with a new buffer, stream and event", round, [] {},
      rounds_within(kit, round, {300, 1500, {16, 512}}));
  const auto open = [&](int) {
    Device handle = another_handle(kit);
    use(handle);
  };
  watch(
      kit, "rounds with a new device handle", open, [] {}, rounds_within(kit, open, {30, 150, {256, 8192}}));
}

void copies(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = device.plugin();
  const Buffer a(device, 1000);
  const Buffer b(device, 1000);
  Bytes sent = kit.random().bytes(1000);
  Bytes received(1000);
  const std::optional<Stream> stream = stream_if_any(device);
  std::optional<Event> last;
  watch(
      kit, "copies and events",
      [&](int round) {
        expect_ok(plugin.from_host(raw_of(stream), a.get(), 0, sent.data(), sent.size(), nullptr));
        if (plugin.has<&yoke_backend_api::device_to_device>()) {
          expect_ok(plugin.device_to_device(raw_of(stream), b.get(), 0, a.get(), 0, 1000));
        }
        if (plugin.has<&yoke_backend_api::fill>()) {
          expect_ok(plugin.fill(raw_of(stream), b.get(), 0, 1000, &round, sizeof round));
        }
        expect_ok(plugin.to_host(raw_of(stream), a.get(), 0, received.data(), received.size()));
        if (stream) {
          last = stream->record();
          stream->wait_for(*last);
        }
      },
      [&] {
        if (stream) {
          stream->synchronize();
        }
        check(received == sent, "a copy returned different bytes after many copies");
      });
}

}  // namespace

std::vector<Test> growth_tests() {
  return {
      {"growth-launches",
       "10,000 launches add no memory, files or threads, and stay correct",
       {14, 26},
       launches,
       3},
      {"growth-links", "linking a code 66,000 times adds no memory, files or threads", {14, 26}, links, 3},
      {"growth-texts",
       "compiling thousands of different texts does not add memory, files or threads for each of them",
       {14, 26},
       texts,
       3},
      {"growth-compiles",
       "compiling, linking and launching one text again and again adds no memory, files or threads",
       {14, 26},
       compiles,
       3},
      {"growth-objects",
       "creating and destroying buffers, streams, events and device handles again and again adds no memory, "
       "files or threads",
       {14, 15},
       objects,
       3},
      {"growth-copies",
       "10,000 copies, fills and events add no memory, files or threads",
       {14, 16},
       copies,
       3}};
}

}  // namespace yoke::conformance
