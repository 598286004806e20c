// SPDX-License-Identifier: Apache-2.0
// runtime/probe/process_state.h: the settings of the process that a plugin must not change (rule 22).
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
  std::uint64_t float_mode = 0;  // rounding, traps, flushing of denormals; not the sticky flags
  std::string working_directory;
  std::vector<std::string> environment;  // sorted
  std::size_t thread_count = 0;
};

ProcessState process_state();

// Describes each difference: "the locale (from 'C' to 'de_DE')".
std::vector<std::string> differences(const ProcessState& before, const ProcessState& after);

}  // namespace yoke::probe
