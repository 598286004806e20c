// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/builder.h: collects the kernels, launches and workspace of a plan.
#pragma once

#include <yoke/program/memory.h>
#include <yoke/program/program.h>

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codegen.h"

namespace yoke::codegen {

// Statements that are computed together are a step. Every launch and every block of scratch memory belongs to
// the current step.
class Builder {
 public:
  Builder(const program::Program& program, const Target& target, const Libraries& libraries = {});

  const program::Program& program() const { return program_; }
  const Target& target() const { return target_; }
  const Libraries& libraries() const { return libraries_; }

  void begin_step(std::span<const std::size_t> statements);
  void begin_step(std::size_t statement) { begin_step(std::span(&statement, 1)); }

  // The memory of a tensor, 256-byte aligned if it is a temporary, else aligned to its elements. The slots of
  // different tensors do not overlap while a step uses them. Until finish(), the offset in a slot of the
  // workspace is the number of a block.
  Slot slot(std::uint32_t tensor);
  // The current step uses the tensor although its statements do not.
  void keep(std::uint32_t tensor);
  // Memory that only the launches of the current step use, 256-byte aligned. Its contents are undefined.
  Slot scratch(std::uint64_t byte_count);

  // Declares a function before all kernels. Equal texts are declared once.
  void function(const std::string& text);
  // A kernel with this text: "(<parameters>) {...}\n". Equal kernels are emitted once. The parameters are
  // those of Launch: the pointers, "const long long* symbols", "long long variable".
  std::uint32_t kernel(std::uint32_t threads, const std::string& text,
                       std::uint32_t dynamic_shared_bytes = 0);
  void launch(Launch launch);
  std::uint32_t launch_count() const { return static_cast<std::uint32_t>(plan_.launches.size()); }

  // The current step adds floats in an order that may change from run to run.
  void adds_in_any_order() { plan_.is_deterministic = false; }
  void round(const Round& round) { plan_.rounds.push_back(round); }
  Plan finish();

 private:
  struct Block {
    std::uint64_t byte_count = 0;
    std::uint64_t last_step = 0;  // of scratch, or until which a tensor is kept
    std::int64_t tensor = -1;     // -1: scratch
  };

  const program::Program& program_;
  const Target& target_;
  Libraries libraries_;
  std::vector<std::uint32_t> argument_of_;  // by tensor
  std::map<std::uint32_t, std::uint64_t> block_of_;
  std::vector<Block> blocks_;
  std::vector<std::vector<std::uint32_t>> steps_;  // their statements, ascending
  std::vector<std::uint32_t> step_of_;             // by statement
  std::set<std::string> functions_;
  std::string function_text_;
  std::string kernel_text_;
  std::map<std::string, std::uint32_t> kernels_;
  Plan plan_;
};

}  // namespace yoke::codegen
