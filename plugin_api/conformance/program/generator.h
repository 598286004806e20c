// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/generator.h: random valid programs over the whole grammar.
#pragma once

#include <cstdint>

#include "case.h"

namespace yoke::conformance {

struct GeneratorOptions {
  std::uint64_t type_mask = 0x3FE;  // bits 1 << YOKE_TYPE_F32 ..., as a device lists them; at least one
  bool large = true;                // include programs large enough for several tiles, blocks and threads
  // For tests of optimizers: many small statements, most of them connected by
  // temporaries; repeated statements and whole copies.
  bool chains = false;
  // Few statements, most of them over 10,000 to 200,000 iterations, with extents beyond 2^16 and around tiles.
  bool vast = false;
};

// Returns case `index` of `seed`, which is valid by construction and depends only on the three
// arguments. Every op on every type, and every form of statement, is the subject of one in about
// 250 programs, and occurs in others by chance.
Case generate_case(std::uint64_t seed, std::uint64_t index, const GeneratorOptions& options = {});

// Whether an operation accepts arguments of the type (for select: of its second and third argument). For
// constants, reads and indices: whether they can have the type.
bool takes_type(program::Op op, program::Type type);

}  // namespace yoke::conformance
