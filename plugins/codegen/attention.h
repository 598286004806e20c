// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention.h: recognizes attention and its gradient, for libraries of the vendor.
#pragma once

#include <yoke/program/program.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen.h"

namespace yoke::codegen {

// One call of a library, or launches of a few kernels, instead of statements of a program.
struct AttentionCall {
  LibraryAttention attention;
  std::vector<std::uint32_t> tensors;   // of the volumes, then of the statistics if it has them
  std::vector<std::size_t> statements;  // that it replaces, ascending
  std::size_t place = 0;                // it runs instead of this one of them
  bool by_kernels = false;              // of attention_kernel.h; otherwise a library computes it
};

struct FoundAttention {
  std::size_t scores = 0;  // the statement that starts it
  AttentionCall forward;
  std::optional<AttentionCall> backward;  // only together with `forward`
  std::string why_not;                    // why no library computes it; empty: a library may
};

// The attention of a block, in order. No two of them have a statement in common.
std::vector<FoundAttention> find_attention(const program::Program& program, const program::Block& block);

}  // namespace yoke::codegen
