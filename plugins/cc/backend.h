// SPDX-License-Identifier: Apache-2.0
// plugins/cc/backend.h: the CPU as a backend: devices that share out the cores, memory, compiled programs.
#pragma once

#include <yoke/sdk/plugin.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "compile.h"
#include "machine.h"
#include "routine.h"

namespace yoke::cc {

struct DeviceOptions {
  int threads = 1;
  bool pin = false;  // memory and threads stay on the device's node
  std::uint64_t memory_limit = 0;
  const KernelTable* table = nullptr;
};

class Code : public sdk::Code {
 public:
  Code(std::string_view text, const CompileOptions& options, const Cell* pinned);
  std::span<const sdk::Entry> entries() const override { return entries_; }
  std::unique_ptr<sdk::Routine> link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                     const sdk::Binding& workspace) override;

 private:
  std::vector<sdk::Entry> entries_;
  std::vector<std::shared_ptr<const CompiledProgram>> programs_;
  const Cell* pinned_;  // of the device, which outlives its code
};

class Device : public sdk::Device {
 public:
  Device(Cell cell, const DeviceOptions& options);
  std::uint64_t memory_limit() override { return options_.memory_limit; }
  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t kind) override;
  // Every cc device addresses the whole memory of the process.
  bool peer_access(sdk::Device&) override { return true; }
  std::unique_ptr<sdk::Code> compile(std::string_view text) override;
  std::vector<sdk::Verdict> can_compile(std::string_view text) override;

 private:
  CompileOptions compile_options() const { return {&engine_, options_.table, options_.threads}; }

  Cell cell_;
  DeviceOptions options_;
  DnnlEngine engine_;
};

class Backend : public sdk::Backend {
 public:
  Backend() : cells_(machine_cells()) {}
  sdk::Provides provides() const override {
    return {.streams = false, .programs = true, .peers = true, .faults = true};
  }
  std::uint32_t device_count() override { return static_cast<std::uint32_t>(cells_.size()); }
  sdk::DeviceInfo describe(std::uint32_t ordinal) override;
  std::vector<sdk::OptionSpec> option_specs() override;
  std::unique_ptr<sdk::Device> open_device(std::uint32_t ordinal, const sdk::Options& options) override;

 private:
  std::vector<Cell> cells_;
};

}  // namespace yoke::cc
