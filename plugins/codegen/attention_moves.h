// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention_moves.h: whether the statements of attention may run together.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <set>
#include <string>

#include "attention.h"

namespace yoke::codegen {

// Returns why the calls must not replace their statements: other statements in between use the same memory, or no
// library accepts the layout of a volume. `replaced` are the tensors that the calls do not compute. Empty: they may.
std::string move_fault(const program::Program& program, const program::Block& block,
                       const FoundAttention& found, const std::set<std::uint32_t>& replaced);

// Whether the calls use memory in another order than their statements do, because both run at other places.
bool may_conflict(const AttentionCall& one, const AttentionCall& other);

}  // namespace yoke::codegen
