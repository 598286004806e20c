// SPDX-License-Identifier: Apache-2.0
// frontends/cli/devices_command.cpp: yoke devices: copies and runs a small
// program on every device of every backend.
#include <yoke/program/text.h>
#include <yoke/runtime/counted.h>
#include <yoke/runtime/runtime.h>
#include <yoke/runtime/stream.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>
#include <numeric>

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
// Sums of 64 products of numbers below 1, each rounded by at most 2^-24,
// with some margin for the other operations.
constexpr double kTolerance = 80 * 0x1p-24;
constexpr std::chrono::seconds kWaitTimeout(60);

struct Outcome {
  std::string backend = {};
  std::string device = {};  // "cc:0"; empty if the backend has no devices or failed to load
  std::string hardware = {};
  bool passed = false;
  bool computes = true;       // false: the backend null
  std::string reason = {};    // why it did not pass
  std::string fallback = {};  // "cc:0" if it ran the program instead
  std::string fallback_reason = {};
  DeviceInfo info = {};
};

// Copies to, from and between the middles of buffers. Detects ignored offsets, also if a
// backend ignores them in both directions.
std::string try_offsets(const std::shared_ptr<Device>& device) {
  constexpr std::uint64_t kByteCount = 96;
  constexpr std::uint64_t kPart = 16;
  std::vector<std::uint8_t> sent(kByteCount);
  std::iota(sent.begin(), sent.end(), std::uint8_t{1});
  const std::vector<std::uint8_t> part(kPart, 0xa5);
  std::vector<std::uint8_t> whole(kByteCount);
  std::vector<std::uint8_t> piece(kPart);
  std::vector<std::uint8_t> copied(kByteCount);
  const BufferView first = {std::make_shared<Buffer>(device, kByteCount), 0, kByteCount};
  const BufferView second = {std::make_shared<Buffer>(device, kByteCount), 0, kByteCount};
  const auto stream = Stream::create(device, device->name() + "/try");

  stream->from_host(first, sent.data());
  stream->from_host(second, sent.data());
  stream->from_host({first.buffer, 32, kPart}, part.data());
  stream->to_host(whole.data(), first);
  stream->to_host(piece.data(), {first.buffer, 40, kPart});
  stream->copy({second.buffer, 64, kPart}, {first.buffer, 24, kPart});
  stream->to_host(copied.data(), second);
  stream->wait();

  auto expected = sent;
  std::copy(part.begin(), part.end(), expected.begin() + 32);
  if (whole != expected) {
    return "wrong copy: from_host of 16 bytes at offset 32 wrote different bytes";
  }
  if (!std::equal(piece.begin(), piece.end(), expected.begin() + 40)) {
    return "wrong copy: to_host of 16 bytes at offset 40 read different bytes";
  }
  std::copy_n(expected.begin() + 24, kPart, sent.begin() + 64);
  if (copied != sent) {
    return "wrong copy: device_to_device of 16 bytes from offset 24 to offset 64 copied different bytes";
  }
  return {};
}

// Returns why the device does not pass.
std::string try_device(const std::shared_ptr<Device>& device, Outcome& outcome) {
  if (std::string reason = try_offsets(device); !reason.empty()) {
    return reason;
  }
  const program::Module module = program::parse_and_verify(kTrial);
  const program::Program& trial = module.programs.front();
  for (const std::int64_t row : {0, 4}) {
    const std::int64_t symbols[] = {row};
    ArgumentBytes got = random_arguments(trial, 1 + row);
    ArgumentBytes expected = got;
    run_on_reference(trial, expected, symbols);
    const auto code = run_on_device(device, kTrial, trial, got, symbols);
    if (code->fallback() != nullptr) {
      outcome.fallback = code->fallback()->device()->name();
      outcome.fallback_reason = code->fallback_reason();
    }
    const Difference difference = largest_difference(trial, got, expected);
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
        outcome.reason = try_device(backend->open_device(ordinal), outcome);
        outcome.passed = outcome.reason.empty();
        outcome.computes = name != "null";
        if (!outcome.computes && !outcome.passed) {
          outcome.reason = "this backend computes nothing: " + outcome.reason;
        }
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
  Json devices = Json::array();
  for (const Outcome& outcome : outcomes) {
    const bool is_known = !outcome.hardware.empty();
    devices.push_back({{"backend", outcome.backend},
                       {"device", outcome.device},
                       {"hardware", outcome.hardware},
                       {"passed", outcome.passed},
                       {"computes", outcome.computes},
                       {"reason", outcome.reason},
                       {"fallback", outcome.fallback},
                       {"fallback_reason", outcome.fallback_reason},
                       {"memory_bytes", outcome.info.memory_bytes},
                       {"compute_units", is_known ? outcome.info.compute_unit_count : 0},
                       {"suggested_streams", is_known ? outcome.info.suggested_stream_count : 0}});
  }
  std::cout << json_text({{"devices", devices}}) << '\n';
}

void print(const Outcome& outcome) {
  const std::string who = outcome.device.empty() ? outcome.backend : outcome.device;
  const bool is_tried = !outcome.device.empty() && outcome.computes;
  std::cout << (outcome.passed ? "PASS  "
                : is_tried     ? "FAIL  "
                               : "NONE  ")
            << who << std::string(who.size() < 12 ? 12 - who.size() : 0, ' ');
  if (!outcome.hardware.empty()) {
    std::cout << "  " << outcome.hardware << ", "
              << detail::counted(outcome.info.compute_unit_count, "compute unit");
    if (outcome.info.memory_bytes != 0) {
      std::cout << ", " << byte_text(outcome.info.memory_bytes);
    }
  }
  if (!outcome.fallback.empty()) {
    std::cout << "; fallback: the program ran on " << outcome.fallback;
    if (!outcome.fallback_reason.empty()) {
      std::cout << "\n      " << outcome.fallback_reason;
    }
  }
  if (!outcome.reason.empty()) {
    std::cout << (outcome.hardware.empty() ? "  " : "\n      ") << outcome.reason;
  }
  std::cout << std::endl;  // flushed: the next backend may crash
}

}  // namespace

int devices_command(Arguments arguments) {
  bool as_json = false;
  std::string only;
  CommandLine line(
      "yoke devices [OPTION...]",
      "Loads every backend, and copies and runs a small program on each of its devices. Prints "
      "PASS, FAIL with the\n"
      "reason, or NONE with the reason if a backend cannot be loaded, has no devices or computes nothing; "
      "and the\n"
      "fallback, if another device ran the program because the backend cannot. Exit code 0 if at least one "
      "device passed.");
  line.flag("json", &as_json, "print one JSON object");
  line.text("backend", &only, "test only this backend", "NAME");
  if (!line.parse(arguments)) {
    return kDone;
  }
  check_backend_name(only);
  RuntimeOptions options = runtime_options();
  options.wait_timeout = kWaitTimeout;
  Runtime runtime = make_runtime(options);
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
            << (names.empty() ? "; no backend was found: build one, or add its folder to YOKE_PLUGIN_PATH"
                              : "")
            << '\n';
  return kFailed;
}

}  // namespace yoke::cli
