// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/code.h: programs as lists of kernels.
#pragma once

#include <yoke/program/memory.h>
#include <yoke/sdk/plugin.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "kernels.h"

namespace yoke::handmade {

// What the codes of a device share. Routines keep it alive.
struct Engine {
  explicit Engine(std::size_t thread_count) : pool(thread_count) {}
  Pool pool;
  PlanCache plans;
};

// The addresses of a routine's tensors, and those of the code's last routine if it still exists.
using Table = std::vector<std::byte*>;
struct Addresses {
  std::mutex mutex;
  const void* first = nullptr;  // of the first argument
  std::weak_ptr<const Table> table;
};

// A compiled program.
struct Unit {
  program::Program source;
  std::vector<std::unique_ptr<Kernel>> kernels;  // one per statement
  program::MemoryPlan memory;                    // of the temporaries
  std::uint64_t scratch_offset = 0;              // in the workspace
  std::uint64_t scratch_byte_count = 0;
  std::vector<std::byte> own_scratch;     // with the bug shared_scratch
  std::vector<bool> runs_in_first_round;  // one per statement; with the bug repeat_invariant
  std::vector<bool> is_constant;          // one per statement; with the bug constant_temporary
  Addresses linked;                       // with the bug bindings_key
  std::vector<std::size_t> same_as;       // one per statement: the one whose result it copies, else itself
  std::vector<bool> overlaps_next;        // one per statement; with the bug overlapped_statements
};

class Code final : public sdk::Code {
 public:
  Code(std::string_view text, std::shared_ptr<Engine> engine);
  ~Code() override;
  std::span<const sdk::Entry> entries() const override { return entries_; }
  std::unique_ptr<sdk::Routine> link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                     const sdk::Binding& workspace) override;

 private:
  std::shared_ptr<Engine> engine_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<sdk::Entry> entries_;
};

std::vector<sdk::Verdict> verdicts(std::string_view text);

}  // namespace yoke::handmade
