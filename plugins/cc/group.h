// SPDX-License-Identifier: Apache-2.0
// plugins/cc/group.h: which statements run as one kernel, and which tensors then need no memory.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <vector>

namespace yoke::cc {

// The statements from `first` on that can go through one loop together: same loops, elementwise, and what one
// of them writes the others touch at the very same element only.
std::vector<std::uint32_t> group_from(const program::Program& program, std::uint32_t first);

// Is what `tensor` holds behind statement `last` still read, by the program or by its caller?
bool is_needed_after(const program::Program& program, std::uint32_t tensor, std::uint32_t last);

}  // namespace yoke::cc
