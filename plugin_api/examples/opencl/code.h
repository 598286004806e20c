// SPDX-License-Identifier: Apache-2.0
// code.h: a text compiled for one device, and programs bound to memory.
#pragma once

#include <yoke/sdk/program.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device.h"
#include "kernel.h"

namespace ocl {

// One verdict per statement of the text.
std::vector<yoke::sdk::Verdict> verdicts(const Hardware& hardware, std::string_view text);

// One statement of a program: its case in a kernel, and its number of work-items.
struct Step {
  Body body;
  std::size_t kernel = 0;
  std::int32_t which = 0;
  std::int64_t chunk = 1;
  std::uint64_t work_items = 1;
};

class Code final : public yoke::sdk::Code {
 public:
  Code(Device& device, std::string_view text);
  std::span<const yoke::sdk::Entry> entries() const override { return entries_; }
  std::unique_ptr<yoke::sdk::Routine> link(std::uint32_t entry, std::span<const yoke::sdk::Binding> bindings,
                                           const yoke::sdk::Binding& workspace) override;

 private:
  friend class Routine;
  void print_program(const yoke::program::Program& program, std::set<std::string>& helpers);
  std::string print_kernels(bool optimized);
  void build(const std::string& source);
  void finish_on_cpu() const;
  OwnedKernel make_kernel(std::size_t number, const std::string& what) const;

  Device& device_;
  std::vector<yoke::sdk::Entry> entries_;
  std::vector<yoke::program::Program> programs_;                 // by entry
  std::vector<std::vector<Step>> steps_;                         // by entry
  std::vector<std::pair<std::size_t, std::size_t>> parameters_;  // by kernel: slots, symbols
  OwnedProgram program_;
};

class Routine final : public yoke::sdk::Routine {
 public:
  Routine(const Code& code, std::uint32_t entry, std::span<const yoke::sdk::Binding> bindings,
          const yoke::sdk::Binding& workspace);
  void launch(yoke::sdk::Stream* stream, std::span<const std::int64_t> symbol_values) override;

 private:
  // Each step has its own kernel object, because setting the arguments of a shared one is not thread-safe.
  struct Bound {
    const Step* step;
    OwnedKernel kernel;
    std::uint32_t first_symbol;  // parameter number of y0
  };

  // Enqueues the kernel after `before`, and replaces `before` by the kernel's event.
  void enqueue(cl_command_queue queue, const Bound& bound, std::span<const std::int64_t> symbol_values,
               OwnedEvent& before);

  Device& device_;
  const yoke::program::Program& program_;
  std::string what_;  // for messages: "program 'f'"
  std::vector<Bound> steps_;
};

}  // namespace ocl
