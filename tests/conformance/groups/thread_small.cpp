// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/thread_small.cpp: what a backend may be tempted to keep once for all streams:
// staging areas of small copies, room for temporaries.
#include <cstring>

#include "basic_use.h"
#include "groups.h"

namespace yoke::conformance {
namespace {

constexpr unsigned kThreads = 8;

// Many copies of a few bytes, queued faster than they are done.
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
      const std::vector<std::byte> sent = random.bytes(kPart * kParts);
      for (std::uint64_t part = 0; part < kParts; ++part) {
        const auto* const from = sent.data() + part * kPart;
        stream.write(buffer, part * kPart, {from, from + kPart});
      }
      stream.synchronize();
      check(buffer.contents() == sent,
            "small copies queued one after the other arrived with other bytes (round ", round, ")");
    }
  });
}

// y[i] is x[i] * 8 + 7, by way of three temporaries; long enough that launches meet.
constexpr std::uint64_t kCount = 20000;
constexpr std::string_view kByTemporaries =
    "yoke.program 1\n"
    "program by_temporaries() {\n"
    "  arg x : i32[20000] in\n"
    "  arg y : i32[20000] out\n"
    "  temp a : i32[20000]\n"
    "  temp b : i32[20000]\n"
    "  temp c : i32[20000]\n"
    "  a[i] = x[i] * 2\n"
    "  b[i] = a[19999 - i] * 2\n"
    "  c[i] = b[19999 - i] * 2\n"
    "  y[i] = c[i] + 7\n"
    "}\n";

Code compile(Device& device, std::string_view text) {
  const yoke_program_text source = program_text(text);
  yoke_code* raw = nullptr;
  expect_ok(device.plugin().call<&yoke_program_api::code_compile>(device.get(), &source, &raw),
            "compiling a program with temporaries");
  check(raw != nullptr, "code_compile answered OK without code");
  return {device.plugin(), raw};
}

template <class Element>
std::vector<std::byte> bytes_of(const std::vector<Element>& elements) {
  const auto* const begin = reinterpret_cast<const std::byte*>(elements.data());
  return {begin, begin + elements.size() * sizeof(Element)};
}

// Routines of one code, each with a workspace of its own, run at the same time.
void temporaries(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_program_api>();
  const Code code = compile(device, kByTemporaries);
  const std::uint64_t workspace_size = workspace_byte_count(plugin, code);
  const bool has_streams = plugin.has_table<yoke_stream_api>();
  run_threads(kThreads, [&](unsigned thread) {
    const Buffer x(device, kCount * sizeof(std::int32_t));
    const Buffer y(device, kCount * sizeof(std::int32_t));
    const Buffer workspace(device, workspace_size);
    std::vector<std::int32_t> sent(kCount, static_cast<std::int32_t>(thread + 1));
    const std::vector<std::int32_t> due(kCount, sent[0] * 8 + 7);
    x.write(0, bytes_of(sent));
    const Routine routine = link_add_one(plugin, code, x, y, workspace);
    const auto stream = has_streams ? std::make_unique<Stream>(device) : nullptr;
    for (int round = 0; round < 6; ++round) {
      y.write(0, std::vector<std::byte>(y.byte_count()));
      expect_ok(plugin.call<&yoke_program_api::routine_launch>(stream == nullptr ? nullptr : stream->get(),
                                                               routine.get(),
                                                               static_cast<const std::int64_t*>(nullptr), 0U),
                "launching a routine");
      if (stream != nullptr) {
        stream->synchronize();
      }
      check(y.contents() == bytes_of(due),
            "a routine with a workspace of its own computed with temporaries of another one (round ", round,
            ")");
    }
  });
}

}  // namespace

std::vector<Test> thread_small_tests() {
  return {
      {"small-copies",
       "small copies on eight streams at a time bring their own bytes",
       {16, 18, 20},
       small_copies,
       2},
      {"temporaries",
       "routines of one code that run at the same time do not share temporaries",
       {20, 26},
       temporaries,
       2},
  };
}

}  // namespace yoke::conformance
