// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/routine.cpp: describing entries, linking and launching. Calls
// that must fail are in routine_refusals.cpp.
#include <yoke/program/text.h>

#include <algorithm>
#include <cstring>

#include "groups.h"
#include "program/run/batch.h"
#include "program/run/counter.h"
#include "program/run/random_programs.h"

namespace yoke::conformance {
namespace {

void describe(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const std::vector<Case> chosen = supported_cases(device, 24);
  const Code code = compile(device, text_of(chosen));
  for (std::uint32_t entry = 0; entry < chosen.size(); ++entry) {
    const Case& one = chosen[entry];
    check_description(device, code, entry, one);
    const yoke_entry_info info = describe_entry(device.plugin(), code, entry);
    yoke_argument_info none = sized<yoke_argument_info>();
    expect_code(
        device.plugin().call<&yoke_program_api::code_argument>(code.get(), entry, info.argument_count, &none),
        YOKE_STATUS_OUT_OF_RANGE, "describing the argument after the last one");
  }
  yoke_entry_info none = sized<yoke_entry_info>();
  expect_code(device.plugin().call<&yoke_program_api::code_describe>(
                  code.get(), static_cast<std::uint32_t>(chosen.size()), &none),
              YOKE_STATUS_OUT_OF_RANGE, "describing the entry after the last one");
}

void many_links(Kit& kit) {
  Device& device = kit.device();
  const Counter counter(device);
  std::vector<std::unique_ptr<CounterRun>> runs;
  runs.reserve(20);
  for (int i = 0; i < 20; ++i) {
    runs.push_back(std::make_unique<CounterRun>(counter, i));
  }
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      runs[(i * 7) % runs.size()]->launch(1);
    }
  }
  for (const auto& run : runs) {
    run->check_values();
  }
}

void repeated_launch(Kit& kit) {
  const Counter counter(kit.device());
  CounterRun run(counter, 1);
  for (int i = 0; i < 200; ++i) {
    run.launch(1 + i % 3 * 3);
  }
  run.check_values();
}

// Launches on one stream run in order. Launches on several streams are independent.
void on_streams(Kit& kit) {
  Device& device = kit.device();
  const Counter counter(device);
  std::vector<Stream> streams;
  std::vector<std::unique_ptr<CounterRun>> runs;
  for (int i = 0; i < 4; ++i) {
    streams.emplace_back(device);
    runs.push_back(std::make_unique<CounterRun>(counter, i));
  }
  for (int round = 0; round < 50; ++round) {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      runs[i]->launch(1 + round % 3 * 3, &streams[i]);
    }
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    streams[i].synchronize();
    runs[i]->check_values();
  }
}

void outlives_code(Kit& kit) {
  Counter counter(kit.device());
  CounterRun run(counter, 2);
  run.launch(1);
  counter.destroy_code();
  for (int i = 0; i < 5; ++i) {
    const Counter other(kit.device());  // may reuse the memory of the destroyed code
    run.launch(4);
  }
  run.check_values();
}

void adjacent_ranges(Kit& kit) {
  const Counter counter(kit.device());
  CounterRun run(counter, 3, CounterRun::Layout::kAdjacent);
  run.launch(1);
  run.launch(7);
  run.check_values();
}

void peer_buffers(Kit& kit) {
  Device& device = kit.device();
  Plugin& plugin = device.plugin();
  plugin.table<yoke_peer_api>();
  const Counter counter(device);
  const std::uint32_t count = plugin.device_count();
  std::uint64_t allowed = 0;
  for (std::uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    if (ordinal == kit.settings().device) {
      continue;
    }
    Device other(kit, plugin, ordinal);
    std::int32_t may = -1;
    expect_ok(plugin.call<&yoke_peer_api::peer_access>(device.get(), other.get(), &may),
              "querying peer access");
    check(may == 0 || may == 1, "peer_access returned OK with the invalid value ", may);
    if (may == 1) {
      ++allowed;
      CounterRun run(counter, 4, CounterRun::Layout::kSeparate, &other);
      run.launch(1);
      run.check_values();
    }
  }
  if (allowed == 0) {
    unsupported(count < 2 ? "the plugin has only one device"
                          : "no device can access the buffers of another one");
  }
}

}  // namespace

std::vector<Test> routine_tests() {
  return {
      {"describe", "code_describe and code_argument match the program's text", {26}, describe},
      {"many-links", "routines of one code use only the buffers that they are linked to", {26}, many_links},
      {"repeated-launch",
       "a routine can be launched many times, each time with other symbol values",
       {26},
       repeated_launch},
      {"streams",
       "launches on one stream run in order, and launches on several streams are independent",
       {18, 26},
       on_streams},
      {"outlives-code", "a routine can be launched after its code was destroyed", {14}, outlives_code},
      {"adjacent-ranges",
       "arguments may be adjacent in one buffer, at offsets that are multiples of their alignment",
       {26},
       adjacent_ranges},
      {"peer-buffers",
       "a routine can use another device's buffers in place if peer_access allows it",
       {6},
       peer_buffers},
  };
}

}  // namespace yoke::conformance
