// SPDX-License-Identifier: Apache-2.0
// plugins/cc/group.h: finds statements that run as one kernel and temporaries that need no memory.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <vector>

namespace yoke::cc {

// The statements from `first` on that can share one loop: they are elementwise, have the same loops, and
// access each other's targets only at the same element.
std::vector<std::uint32_t> group_from(const program::Program& program, std::uint32_t first);

// True if the program or its caller may read the value that `tensor` has after statement `last`.
bool is_needed_after(const program::Program& program, std::uint32_t tensor, std::uint32_t last);

}  // namespace yoke::cc
