// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/routine.cpp: the group 'routine': what an entry says of itself, linking,
// launching; routine_refusals.cpp has what must be refused.
#include <yoke/program/text.h>

#include <algorithm>
#include <cstring>

#include "groups.h"
#include "program/run/batch.h"
#include "program/run/counter.h"
#include "program/run/random_programs.h"

namespace yoke::conformance {
namespace {

using program::Role;
using program::Tensor;

void check_argument(const Case& one, const Tensor& tensor, const yoke_argument_info& info) {
  const std::string where = text("argument '", tensor.name, "' of ", one.program.name, ": ");
  check_equal(std::string(info.name), tensor.name, where, "its name");
  check_equal(info.type, static_cast<std::int32_t>(tensor.type), where, "its type");
  check_equal(info.access, static_cast<std::int32_t>(tensor.role), where, "its access");
  check_equal(info.rank, tensor.dims.size(), where, "its rank");
  check_equal(info.byte_count, tensor.byte_count(), where, "its byte_count");
  for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
    check_equal(info.dims[i], tensor.dims[i], where, "its dimension ", i);
  }
}

void describe(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const GeneratorOptions options = generator_options(device);
  BatchRunner runner(device);
  Tally tally;
  std::vector<Case> cases;
  for (std::uint64_t index = 0; index < 24; ++index) {
    cases.push_back(generate_case(kit.settings().seed, index, options));
  }
  const std::vector<std::size_t> good = runner.supported(cases, tally);
  std::vector<Case> chosen;
  for (const std::size_t number : good) {
    chosen.push_back(cases[number]);
  }
  if (chosen.empty()) {
    unsupported("no random program runs: " + tally.words());
  }
  const Code code = compile(device, text_of(chosen));
  for (std::uint32_t entry = 0; entry < chosen.size(); ++entry) {
    const Case& one = chosen[entry];
    const std::vector<std::uint32_t> arguments = one.program.arguments();
    const yoke_entry_info info = describe_entry(device, code, entry);
    check_equal(std::string(info.name), one.program.name, "the name of entry ", entry);
    check_equal(info.argument_count, arguments.size(), "argument_count of ", one.program.name);
    check_equal(info.symbol_count, one.program.symbols.size(), "symbol_count of ", one.program.name);
    check(info.deterministic == 0 || info.deterministic == 1, "deterministic is ", info.deterministic);
    for (std::uint32_t i = 0; i < arguments.size(); ++i) {
      check_argument(one, one.program.tensors[arguments[i]], describe_argument(device, code, entry, i));
    }
    yoke_argument_info none = sized<yoke_argument_info>();
    expect_code(
        device.plugin().call<&yoke_program_api::code_argument>(code.get(), entry, info.argument_count, &none),
        YOKE_OUT_OF_RANGE, "asking for the argument behind the last one");
  }
  yoke_entry_info none = sized<yoke_entry_info>();
  expect_code(device.plugin().call<&yoke_program_api::code_describe>(
                  code.get(), static_cast<std::uint32_t>(chosen.size()), &none),
              YOKE_OUT_OF_RANGE, "asking for the entry behind the last one");
}

void many_links(Kit& kit) {
  Device& device = kit.device();
  const Counter counter(device);
  std::vector<std::unique_ptr<CounterRun>> runs;
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

void launch_often(Kit& kit) {
  const Counter counter(kit.device());
  CounterRun run(counter, 1);
  for (int i = 0; i < 200; ++i) {
    run.launch(1 + i % 3 * 3);
  }
  run.check_values();
}

// Launches on one stream are in order; on several they do not mix.
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
  run.launch(4);
  run.check_values();
}

void touching_ranges(Kit& kit) {
  const Counter counter(kit.device());
  CounterRun run(counter, 3, CounterRun::Layout::kTouching);
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
              "asking for peer access");
    check(may == 0 || may == 1, "peer_access answered OK with ", may);
    if (may == 1) {
      ++allowed;
      CounterRun run(counter, 4, CounterRun::Layout::kApart, &other);
      run.launch(1);
      run.check_values();
    }
  }
  if (allowed == 0) {
    unsupported(count < 2 ? "there is one device only" : "no device may use another one's buffers");
  }
}

}  // namespace

std::vector<Test> routine_tests() {
  return {
      {"describe", "code_describe and code_argument agree with the program's text", {26}, describe},
      {"many-links", "one code linked to many buffers works on each alone", {26}, many_links},
      {"launch-often",
       "a routine can be launched many times, with other symbol values each time",
       {26},
       launch_often},
      {"streams", "launches on a stream run in order, those on several do not mix", {18, 26}, on_streams},
      {"outlives-code", "a routine goes on working after its code was destroyed", {14}, outlives_code},
      {"touching-ranges",
       "arguments may lie side by side in one buffer, at offsets that are multiples of the element's size",
       {26},
       touching_ranges},
      {"peer-buffers",
       "where peer_access says so, a routine works on another device's buffers in place",
       {6},
       peer_buffers},
  };
}

}  // namespace yoke::conformance
