// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/harness.h: the checks of each fuzzer for one input. libFuzzer calls these functions with
// generated inputs, and an ordinary test calls them with the regressions.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace yoke::fuzz {

// Thrown if a property does not hold. The libFuzzer programs do not
// catch it, so that libFuzzer keeps the input.
class Finding : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

inline void require(bool holds, const std::string& what) {
  if (!holds) {
    throw Finding(what);
  }
}

// A program that the parser accepts survives a round trip through the printer. A program that the verifier
// accepts stays inside its buffers, gives the same result twice, and reads only elements that were written.
void program_text(std::span<const std::uint8_t> input);

// Reading a trace does not access memory outside of its bytes and uses memory in proportion to its size. The
// trace is printed or refused.
void trace_reader(std::span<const std::uint8_t> input);

// Reading the notes and headers of a plugin does not access memory outside
// of its bytes. A refusal has a reason and a fix.
void plugin_notes(std::span<const std::uint8_t> input);

}  // namespace yoke::fuzz
