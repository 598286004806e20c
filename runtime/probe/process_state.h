// SPDX-License-Identifier: Apache-2.0
// runtime/probe/process_state.h: what a plugin must leave alone (abi.md rule 22), before and after.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace yoke::probe {

struct ProcessState {
  struct Signal {
    std::uintptr_t handler = 0;
    int flags = 0;
    bool operator==(const Signal&) const = default;
  };
  std::array<Signal, 65> signals;
  std::string blocked_signals;
  std::string locale;
  std::uint64_t float_mode = 0;  // rounding, traps, flushing of denormal numbers; not the sticky flags
  std::string working_directory;
  std::vector<std::string> environment;  // sorted
  std::size_t thread_count = 0;
};

ProcessState process_state();

// "the locale (from 'C' to 'de_DE')", ...: one per difference.
std::vector<std::string> differences(const ProcessState& before, const ProcessState& after);

}  // namespace yoke::probe
