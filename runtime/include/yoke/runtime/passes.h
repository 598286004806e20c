// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/passes.h: optimization of programs before they are compiled. Every pass maps
// a verified program to a verified program with the same results.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace yoke::passes {

enum class Pass : std::uint8_t {
  // Removes statements whose results are not read, and unused temporaries.
  kRemoveDead,
  // Evaluates operations on constants, and applies identities that are exact for every input, NaN and -0.0
  // included: x*1, select(true,..).
  kFold,
  // Computes equal statements over equal inputs once. Writes equal expressions of a statement in the same
  // form, so that the backend computes them once.
  kMergeEqual,
  // Substitutes elementwise temporaries in their only consumer, or in several if that costs little more
  // than reading them. A contraction's operands never become computed values.
  kFuse,
  // Orders statements so that temporaries need little memory and arguments become final early. An elementwise
  // statement directly follows the reduction whose result it reads, so that a backend can merge the two.
  kSchedule,
  // Like kSchedule, but also moves statements up to regions that they fit.
  kGather,
  // Recomputes large temporaries instead of keeping them through the peak of memory, if they can be computed
  // from tensors that are in memory anyway.
  kRecompute,
  // Lets an elementwise statement write its result where it reads a temporary for the last time.
  kShare,
  // Groups consecutive statements into regions, `@fused[n] { .. }`, that a backend can run together for each
  // iteration of the named loops, so that intermediate values stay in registers or in a cache.
  kFormRegions
};
// Runs one pass.
program::Program run(Pass pass, program::Program program);

// The program with these temporaries computed again by each read, so that they never have memory. No other pass stores
// them again. Errors: kNotFound: the program has no such tensor; kInvalidArgument: it is an argument or a reduction, is
// written in parts, or a statement that reads it cannot compute it.
program::Program without_memory(program::Program program, std::span<const std::string> temporaries);

// What a pass did with the statement that stood at `at` in the text.
struct Note {
  program::Location at;
  std::string text;
};

// What optimize() did. Counts do not depend on the machine.
struct Report {
  std::uint64_t sweeps = 0;       // how often optimize() ran the passes
  std::uint64_t visits = 0;       // statements and expressions that a pass looked at: the work done
  std::uint64_t folded = 0;       // operations evaluated, and rules applied
  std::uint64_t merged = 0;       // statements that computed a known value
  std::uint64_t substituted = 0;  // reads of temporaries replaced by their values
  std::uint64_t recomputed = 0;   // reads replaced because the temporary would take memory at the peak
  std::uint64_t removed = 0;      // statements
  std::uint64_t regions = 0;
  std::uint64_t grouped = 0;      // statements in regions
  std::uint64_t saved_bytes = 0;  // stores and loads that regions make unnecessary
  std::vector<Note> notes;        // in order of time; empty unless asked for
};

enum class Explain : bool { kNo, kYes };

struct Optimized {
  program::Program program;
  // Per argument, in order of declaration: its contents are final after this many statements; 0 if no
  // statement writes it. If the last write is in a group, this is the end of the group.
  std::vector<std::uint32_t> final_after;
  Report report;
};

// Runs all passes until none changes the program, then forms regions, which replace the `@fused` hints of the
// program. kYes fills Report::notes.
Optimized optimize(program::Program program, Explain explain = Explain::kNo);

// Per argument, in order of declaration: the number of statements up to the last one that uses it, or up to
// the end of the group (a repeat block or a hint) that contains that one. 0: no statement uses it.
std::vector<std::uint32_t> used_until(const program::Program& program);

// A program in parts.
struct Cut {
  // A temporary that several parts use, and which is therefore an argument of these parts.
  struct Carried {
    program::Tensor tensor;
    std::uint64_t offset = 0;  // in bytes, a multiple of YOKE_BUFFER_ALIGNMENT
  };
  // Run one after the other, they give the bits of the program. A part has those arguments of the program that
  // it uses, and all launch symbols. Its name is that of the program with the suffix "_part_1", "_part_2"
  // and so on. A part without statements has nothing to run.
  std::vector<program::Program> parts;
  // Together they need carried_byte_count bytes. Two that are never alive in the same part may share bytes.
  // Their initial contents do not matter.
  std::vector<Carried> carried;
  std::uint64_t carried_byte_count = 0;
};

// Cuts the program after each of these numbers of statements. A cut inside a group moves to its end: a repeat
// block or a hint stays whole. The result has after.size() + 1 parts; a number smaller than the one before it
// counts as that one. The program must be valid.
Cut cut(program::Program program, std::span<const std::uint32_t> after);

}  // namespace yoke::passes
