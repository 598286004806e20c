// SPDX-License-Identifier: Apache-2.0
// runtime/layers/surroundings.h: what a plugin must leave alone (rule 22): looked at before and after a call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace yoke::layers {

struct Surroundings {
  std::uint32_t float_mode = 0;  // of this thread: rounding, flushing, exception masks
  std::uint64_t signal_mask = 0;
  bool is_whole = false;  // what follows was looked at, which takes some microseconds
  std::string folder;
  std::string locale;
  std::vector<std::uint64_t> handlers;  // one word per signal
};

Surroundings look_around(bool whole);

// What differs, in words; empty: nothing.
std::string difference(const Surroundings& before, const Surroundings& after);

std::uint64_t thread_count();  // of this process; 0: unknown

}  // namespace yoke::layers
