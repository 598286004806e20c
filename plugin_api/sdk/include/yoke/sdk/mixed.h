// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/mixed.h: runs the statements of programs on the author's kernels, or else on the
// reference executor, in host memory. Needs yoke::program.
//
//   sdk::Kernel kernel_for(const program::Program& program, std::size_t statement);   // yours; empty: not native
//
//   std::vector<sdk::Verdict> can_compile(std::string_view text) override {
//     return sdk::mixed_verdicts(sdk::read_program(text), kernel_for);
//   }
//   ...
//   sdk::MixedProgram mixed(program, kernel_for);         // in the code, once
//   entry.workspace_byte_count = mixed.workspace_byte_count();
//   mixed.run(arguments, workspace, symbols);              // in each launch
#pragma once

#include <yoke/program/access.h>
#include <yoke/program/execute_statement.h>
#include <yoke/program/memory.h>
#include <yoke/sdk/program.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace yoke::sdk {

// Runs one statement. `tensors` has the address of each tensor of the program, including temporaries; `symbols` has the
// value of each symbol, including repeat variables. Several threads may call it at the same time, with other memory.
using Kernel = std::function<void(std::span<void* const> tensors, std::span<const std::int64_t> symbols)>;

// Returns the kernel for a statement; empty if the reference executor must run it. The kernel may refer to the program,
// which outlives it.
using KernelFor = std::function<Kernel(const program::Program& program, std::size_t statement)>;

// Native where there is a kernel, and decomposed elsewhere.
inline std::vector<Verdict> mixed_verdicts(const program::Module& module, const KernelFor& kernel_for) {
  std::vector<Verdict> verdicts;
  for (std::uint32_t p = 0; p < module.programs.size(); ++p) {
    for (std::uint32_t s = 0; s < module.programs[p].statements.size(); ++s) {
      const bool is_native = static_cast<bool>(kernel_for(module.programs[p], s));
      verdicts.push_back(
          is_native ? Verdict{p, s, YOKE_VERDICT_NATIVE, {}}
                    : Verdict{p, s, YOKE_VERDICT_DECOMPOSED, "the reference executor interprets it"});
    }
  }
  return verdicts;
}

// A program with a kernel for each statement that has one. Immutable, so several threads may run it.
class MixedProgram {
 public:
  // `program` must outlive this object.
  MixedProgram(const program::Program& program, const KernelFor& kernel_for)
      : program_(&program), plan_(program::plan_memory(program::lifetimes(program))) {
    for (std::size_t i = 0; i < program.statements.size(); ++i) {
      kernels_.push_back(kernel_for(program, i));
    }
  }

  // The memory of the temporaries, in bytes.
  std::uint64_t workspace_byte_count() const { return plan_.byte_count; }

  // Runs the statements in order. `arguments` holds the addresses of the arguments, in order of declaration;
  // `workspace` is the address of workspace_byte_count() bytes, or null if that is 0. It keeps nothing between runs.
  // Concurrent runs may not share it.
  void run(std::span<void* const> arguments, void* workspace,
           std::span<const std::int64_t> symbol_values) const {
    std::vector<void*> tensors;
    std::size_t next = 0;
    for (std::size_t i = 0; i < program_->tensors.size(); ++i) {
      const bool is_temporary = program_->tensors[i].role == program::Role::kTemp;
      tensors.push_back(!is_temporary          ? arguments[next++]
                        : workspace == nullptr ? nullptr
                                               : static_cast<std::byte*>(workspace) + plan_.offsets[i]);
    }
    std::vector<std::int64_t> symbols(symbol_values.begin(), symbol_values.end());
    symbols.resize(program_->symbols.size());
    program::run_in_order(*program_, symbols, [&](std::size_t statement) {
      if (kernels_[statement]) {
        kernels_[statement](tensors, symbols);
      } else {
        program::execute(*program_, statement, tensors, symbols);
      }
    });
  }

 private:
  const program::Program* program_;
  program::MemoryPlan plan_;
  std::vector<Kernel> kernels_;  // one per statement; empty: the reference executor runs it
};

}  // namespace yoke::sdk
