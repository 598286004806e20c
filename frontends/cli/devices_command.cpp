// SPDX-License-Identifier: Apache-2.0
// frontends/cli/devices_command.cpp: yoke devices: loads every backend and runs a small program on each of
// its devices.
#include <yoke/program/text.h>
#include <yoke/runtime/runtime.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>

#include "command_line.h"
#include "global_options.h"
#include "json.h"
#include "run_program.h"
#include "text.h"

namespace yoke::cli {
namespace {

// A contraction, a fused elementwise chain, and a launch with a symbol.
constexpr const char* kTrial = R"(yoke.program 1
program trial(symbol row in 0..8 step 4) {
  arg x : f32[12, 64] in
  arg w : f32[16, 64] in
  arg b : f32[16] in
  arg y : f32[4, 16] out
  arg top : f32[4] out
  y[n, o] = sum[i] x[row + n, i] * w[o, i]
  y[n, o] = max(y[n, o] + b[o], 0.0)
  top[n] = max[o] y[n, o]
}
)";
// Sums of 64 products of numbers below 1, each rounded at most at 2^-24, and some more for the rest.
constexpr double kTolerance = 80 * 0x1p-24;
constexpr std::chrono::seconds kPatience(60);

struct Outcome {
  std::string backend = {};
  std::string device = {};  // "cc:0"; empty: the backend has none, or did not load
  std::string hardware = {};
  bool passed = false;
  std::string reason = {};  // why not
  DeviceInfo info = {};
};

std::string try_device(const std::shared_ptr<Device>& device) {
  const program::Module module = program::parse_and_verify(kTrial);
  const program::Program& trial = module.programs.front();
  for (const std::int64_t row : {0, 4}) {
    const std::int64_t symbols[] = {row};
    ArgumentBytes got = random_arguments(trial, 1 + row);
    ArgumentBytes wanted = got;
    run_on_reference(trial, wanted, symbols);
    run_on_device(device, kTrial, trial, got, symbols);
    const Difference difference = largest_difference(trial, got, wanted);
    if (difference.relative > kTolerance) {
      return "wrong result: " + difference.place;
    }
  }
  return {};
}

std::vector<Outcome> try_backend(Runtime& runtime, const std::string& name) {
  std::vector<Outcome> outcomes;
  Outcome outcome{.backend = name};
  try {
    const auto backend = runtime.backend(name);
    if (backend->device_count() == 0) {
      const std::string reason = backend->no_device_reason();
      outcome.reason = "0 devices" + (reason.empty() ? "" : ": " + reason);
      return {outcome};
    }
    for (std::uint32_t ordinal = 0; ordinal < backend->device_count(); ++ordinal) {
      outcome = {.backend = name, .device = name + ":" + std::to_string(ordinal)};
      try {
        outcome.info = backend->device_info(ordinal);
        outcome.hardware = outcome.info.name;
        outcome.reason = try_device(backend->open_device(ordinal));
        outcome.passed = outcome.reason.empty();
      } catch (const std::exception& error) {
        outcome.reason = error.what();
      }
      outcomes.push_back(outcome);
    }
  } catch (const std::exception& error) {
    outcome.reason = error.what();
    outcomes.push_back(outcome);
  }
  return outcomes;
}

void print_json(const std::vector<Outcome>& outcomes) {
  JsonWriter json;
  json.begin_object().key("devices").begin_array();
  for (const Outcome& outcome : outcomes) {
    json.begin_object()
        .field("backend", outcome.backend)
        .field("device", outcome.device)
        .field("hardware", outcome.hardware)
        .field("passed", outcome.passed)
        .field("reason", outcome.reason)
        .field("memory_bytes", outcome.info.memory_bytes)
        .field("compute_units", outcome.info.compute_unit_count)
        .field("suggested_streams", outcome.info.suggested_stream_count)
        .end_object();
  }
  std::cout << json.end_array().end_object().text() << '\n';
}

void print(const Outcome& outcome) {
  const std::string who = outcome.device.empty() ? outcome.backend : outcome.device;
  std::cout << (outcome.passed           ? "PASS  "
                : outcome.device.empty() ? "NONE  "
                                         : "FAIL  ")
            << who << std::string(who.size() < 12 ? 12 - who.size() : 0, ' ');
  if (!outcome.hardware.empty()) {
    std::cout << "  " << outcome.hardware << ", " << outcome.info.compute_unit_count << " compute units";
    if (outcome.info.memory_bytes != 0) {
      std::cout << ", " << byte_text(outcome.info.memory_bytes);
    }
  }
  if (!outcome.reason.empty()) {
    std::cout << (outcome.hardware.empty() ? "  " : "\n      ") << outcome.reason;
  }
  std::cout << '\n';
}

}  // namespace

int devices_command(Arguments arguments) {
  bool as_json = false;
  std::string only;
  CommandLine line("yoke devices [OPTION...]",
                   "Loads every backend that is found and runs a small program on each of its devices: PASS, "
                   "FAIL with what was wrong, or\n"
                   "NONE with the reason. Exit code 0 when at least one device passed.");
  line.flag("json", &as_json, "print one JSON object");
  line.text("backend", &only, "only this one");
  if (!line.parse(arguments)) {
    return kDone;
  }
  RuntimeOptions options = runtime_options();
  options.wait_timeout = kPatience;
  Runtime runtime(options);
  std::vector<std::string> names;
  if (!only.empty()) {
    names = {only};
  } else {
    for (const BackendCandidate& candidate : runtime.list_backends()) {
      if (!candidate.name.empty() && std::find(names.begin(), names.end(), candidate.name) == names.end()) {
        names.push_back(candidate.name);
      }
    }
  }
  std::vector<Outcome> outcomes;
  for (const std::string& name : names) {
    for (Outcome& outcome : try_backend(runtime, name)) {
      if (!as_json) {
        print(outcome);
      }
      outcomes.push_back(std::move(outcome));
    }
  }
  if (as_json) {
    print_json(outcomes);
  }
  if (std::any_of(outcomes.begin(), outcomes.end(), [](const Outcome& outcome) { return outcome.passed; })) {
    return kDone;
  }
  std::cerr << "yoke: no device passed"
            << (names.empty() ? "; no backend was found: build one, or name its folder in YOKE_PLUGIN_PATH"
                              : "")
            << '\n';
  return kFailed;
}

}  // namespace yoke::cli
