// SPDX-License-Identifier: Apache-2.0
// plugins/cc/backend.h: the CPU backend: devices that divide the cores, their memory, compiled programs.
#pragma once

#include <yoke/sdk/plugin.h>

#include <cstdint>
#include <memory>
#include <mutex>
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
  const Cell* pinned_;  // null: threads are not pinned. The device owns it and outlives its code.
};

class Device : public sdk::Device {
 public:
  Device(Cell cell, const DeviceOptions& options);
  std::uint64_t memory_limit() override { return options_.memory_limit; }
  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t kind) override;
  std::unique_ptr<sdk::Buffer> import_buffer(const sdk::Import& memory) override;
  // The CPU has no driver and hence no handles: device addresses are host addresses.
  sdk::Native native() override { return {.api = "host"}; }
  // Every cc device can address all memory of the process.
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
  sdk::Provides provides() const override {
    return {.streams = false, .programs = true, .peers = true, .memory = true, .faults = true};
  }
  std::vector<sdk::OptionSpec> option_specs() override;
  void configure(const sdk::Options& options) override;
  std::uint32_t device_count() override { return static_cast<std::uint32_t>(cells().size()); }
  sdk::DeviceInfo describe(std::uint32_t ordinal) override;
  std::unique_ptr<sdk::Device> open_device(std::uint32_t ordinal, const sdk::Options& options) override;

 private:
  const std::vector<Cell>& cells();  // [any-thread]; reads the machine's cores in the first call

  std::size_t wanted_device_count_ = 0;
  std::once_flag counted_;
  std::vector<Cell> cells_;
};

}  // namespace yoke::cc
