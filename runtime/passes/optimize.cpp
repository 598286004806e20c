// SPDX-License-Identifier: Apache-2.0
// runtime/passes/optimize.cpp: the public passes, each followed by
// verification, and all of them to a fixed point.
#include <yoke/program/text.h>
#include <yoke/runtime/error.h>
#include <yoke/runtime/passes.h>

#include "rewrite.h"

namespace yoke::passes {
namespace {

// Every round that changes a program removes or shrinks statements. The
// limit guards against passes that undo each other.
constexpr int kMaxRounds = 16;

using Pass = bool (*)(Program&);

bool run(Pass pass, const char* name, Program& program) {
  if (!pass(program)) {
    return false;
  }
  try {
    program::verify(program);
  } catch (const program::ProgramError& error) {
    throw Error(ErrorCode::kInternal,
                "program '" + program.name + "': pass " + name +
                    " produced an invalid program: " + error.reason() +
                    "; this is a bug in yoke: please report it with the text of the program");
  }
  return true;
}

Program once(Pass pass, const char* name, Program program) {
  run(pass, name, program);
  return program;
}

}  // namespace

Program remove_dead_statements(Program program) {
  return once(remove_dead_statements_in, "remove_dead_statements", std::move(program));
}

Program fold_constants(Program program) {
  return once(fold_constants_in, "fold_constants", std::move(program));
}

Program eliminate_common(Program program) {
  return once(eliminate_common_in, "eliminate_common", std::move(program));
}

Program fuse(Program program) {
  return once(fuse_in, "fuse", std::move(program));
}

Program optimize(Program program) {
  for (int round = 0; round < kMaxRounds; ++round) {
    bool changed = run(remove_dead_statements_in, "remove_dead_statements", program);
    changed = run(fold_constants_in, "fold_constants", program) || changed;
    changed = run(eliminate_common_in, "eliminate_common", program) || changed;
    changed = run(fuse_in, "fuse", program) || changed;
    if (!changed) {
      break;
    }
  }
  return program;
}

}  // namespace yoke::passes
