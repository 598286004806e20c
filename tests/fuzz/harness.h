// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/harness.h: what each fuzzer checks for one input. libFuzzer calls these functions with
// generated inputs, an ordinary test with the regressions.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace yoke::fuzz {

// A property that does not hold. It is not caught under libFuzzer, which then keeps the input.
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
// accepts runs inside its buffers, twice with the same result, and reads only what was written.
void program_text(std::span<const std::uint8_t> input);

// A trace is read inside its bytes, with memory in proportion to its size, and printed; or it is refused.
void trace_reader(std::span<const std::uint8_t> input);

// The notes and headers of a plugin are read inside its bytes; a refusal has a reason and a hint.
void plugin_notes(std::span<const std::uint8_t> input);

}  // namespace yoke::fuzz
