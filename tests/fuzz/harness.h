// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/harness.h: what each fuzzer does with one input. Ordinary functions: libFuzzer calls them with
// what it made up, an ordinary test with what it once found.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace yoke::fuzz {

// A property that does not hold. Nothing catches it under libFuzzer: the input is kept.
class Finding : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

inline void require(bool holds, const std::string& what) {
  if (!holds) {
    throw Finding(what);
  }
}

// What the parser takes makes the round trip through the printer; what the verifier takes runs inside its
// buffers, the same twice, and reads nothing that was not written.
void program_text(std::span<const std::uint8_t> input);

// A trace: read inside its bytes, with memory that its bytes pay for, printed and drawn; or refused.
void replay(std::span<const std::uint8_t> input);

// As ReplayOptions has them. The fuzzer has little time for each input; a test wants none cut short.
struct ReplayTimes {
  std::chrono::milliseconds timeout{3};
  std::chrono::milliseconds time_limit{300};
};

// The same trace, replayed on two backends in this process: it ends in its time with a report or an Error,
// and with nothing alive. How many calls were done on the one that did fewest, none where there is no report.
// In fuzz_replay_harness.
std::uint64_t replay_run(std::span<const std::uint8_t> input, const ReplayTimes& times = {});

// A file that should be a plugin: notes and headers are read without leaving the bytes, and refused in words.
void plugin_notes(std::span<const std::uint8_t> input);

}  // namespace yoke::fuzz
