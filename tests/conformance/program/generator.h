// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/generator.h: random valid programs over the whole grammar.
#pragma once

#include <cstdint>

#include "case.h"

namespace yoke::conformance {

struct GeneratorOptions {
  std::uint64_t type_mask = 0x3FE;  // bits 1 << YOKE_F32 ..., as a device lists them; at least one
  bool large = true;                // some programs cross the boundaries of tiles, blocks and threads
};

// Case `index` of `seed`: made valid by construction, and a function of the three arguments alone. Every op
// on every type, and every form of statement, is the subject of one in about 250 programs, and met by chance
// in more.
Case generate_case(std::uint64_t seed, std::uint64_t index, const GeneratorOptions& options = {});

// Whether an operation takes arguments of the type (for select: of what is chosen). Leaves: whether there are
// such.
bool takes_type(program::Op op, program::Type type);

}  // namespace yoke::conformance
