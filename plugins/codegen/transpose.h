// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/transpose.h: kernels for elementwise statements that read and write along different axes.
#pragma once

#include <optional>

#include "group.h"

namespace yoke::codegen {

// Threads of a section of elementwise statements.
constexpr std::uint32_t kGroupThreads = 256;

// A section whose blocks compute tiles. Reads whose neighbors lie along an axis other than the last go
// through shared memory. Empty if the group has no such read.
std::optional<Section> print_transposed(Builder& builder, const Group& group);

}  // namespace yoke::codegen
