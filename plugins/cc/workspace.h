// SPDX-License-Identifier: Apache-2.0
// plugins/cc/workspace.h: lays out the memory of a compiled program's temporaries and scratch.
#pragma once

#include <yoke/program/memory.h>

#include <vector>

#include "compile.h"

namespace yoke::cc {

// Places temporaries by liveness over the steps, then the scratch that all steps share. `lives` are counted
// in statements.
void place_memory(CompiledProgram& compiled, std::vector<program::Lifetime> lives);

}  // namespace yoke::cc
