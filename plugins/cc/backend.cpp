// SPDX-License-Identifier: Apache-2.0
// plugins/cc/backend.cpp: the CPU backend: devices that divide the cores, their memory, compiled programs.
#include "backend.h"

#include <sys/mman.h>
#include <yoke/sdk/program.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "compile.h"
#include "routine.h"

namespace yoke::cc {
namespace {

// Buffers from this size on use huge pages, which cause fewer TLB misses.
constexpr std::uint64_t kLargeBuffer = std::uint64_t{4} << 20;
constexpr std::uint64_t kLargePage = std::uint64_t{2} << 20;

class Routine : public sdk::Routine {
 public:
  Routine(std::shared_ptr<const CompiledProgram> compiled, std::span<std::byte* const> arguments,
          std::byte* workspace, const Cell* pinned)
      : bound_(std::move(compiled), arguments, workspace), pinned_(pinned) {}
  void launch(sdk::Stream*, std::span<const std::int64_t> symbol_values) override {
    if (pinned_ != nullptr) {
      stay_on(*pinned_);
    }
    bound_.launch(symbol_values);
  }

 private:
  BoundProgram bound_;
  const Cell* pinned_;
};

const KernelTable* table_by_name(const std::string& name) {
  const KernelTable* tables[8];
  const int count = usable_kernels(tables, 8);
  for (int i = 0; i < count; ++i) {
    if (name == tables[i]->name) {
      return tables[i];
    }
  }
  if (name == "best") {
    return tables[count - 1];
  }
  throw sdk::Failure(YOKE_STATUS_INVALID_ARGUMENT,
                     "this machine cannot run the kernels '" + name + "'; use kernels=best");
}

// Precondition: the device, which owns `pinned`, outlives its code. Null: threads are not pinned.
class Code : public sdk::Code {
 public:
  Code(std::string_view text, const CompileOptions& options, const Cell* pinned) : pinned_(pinned) {
    for (program::Program& source : sdk::read_program(text).programs) {
      sdk::Entry entry = sdk::entry_of(source);
      entry.fingerprint = "cc-" + std::string(options.table->name) + "-" + std::to_string(options.threads) +
                          "-" + program::fingerprint(program::Module{{source}});
      programs_.push_back(
          std::make_shared<const CompiledProgram>(compile_program(std::move(source), options)));
      entry.workspace_byte_count = programs_.back()->workspace_byte_count;
      entries_.push_back(std::move(entry));
    }
  }
  std::span<const sdk::Entry> entries() const override { return entries_; }
  std::unique_ptr<sdk::Routine> link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                     const sdk::Binding& workspace) override {
    std::vector<std::byte*> arguments;
    for (const sdk::Binding& binding : bindings) {
      arguments.push_back(static_cast<std::byte*>(binding.host_address()));
    }
    return std::make_unique<Routine>(programs_[entry], arguments,
                                     static_cast<std::byte*>(workspace.host_address()), pinned_);
  }

 private:
  std::vector<sdk::Entry> entries_;
  std::vector<std::shared_ptr<const CompiledProgram>> programs_;
  const Cell* pinned_;
};

class Device : public sdk::Device {
 public:
  Device(const Cell& cell, const sdk::Options& options)
      : cell_(cell),
        pins_(options.flag("pin") && cell.node >= 0),
        memory_limit_(static_cast<std::uint64_t>(options.integer("memory_limit"))),
        compile_options_{&engine_, table_by_name(options.text("kernels")),
                         static_cast<int>(options.integer("threads"))} {}
  std::uint64_t memory_limit() override { return memory_limit_; }
  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t) override {
    auto buffer = std::make_unique<sdk::HostBuffer>(byte_count, host());
    if (byte_count >= kLargeBuffer) {
      auto* start = static_cast<std::byte*>(buffer->host_address());
      const std::uint64_t skipped =
          (kLargePage - reinterpret_cast<std::uintptr_t>(start) % kLargePage) % kLargePage;
      static_cast<void>(
          ::madvise(start + skipped, (byte_count - skipped) / kLargePage * kLargePage, MADV_HUGEPAGE));
    }
    if (pins_) {
      prefer_node(buffer->host_address(), byte_count, cell_.node);
    }
    return buffer;
  }
  std::unique_ptr<sdk::Buffer> import_buffer(const sdk::Import& memory) override {
    return std::make_unique<sdk::HostBuffer>(memory);
  }
  // The CPU has no driver and hence no handles: device addresses are host addresses.
  sdk::Native native() override { return {.api = "host"}; }
  // Every cc device can address all memory of the process.
  bool peer_access(sdk::Device&) override { return true; }
  std::unique_ptr<sdk::Code> compile(std::string_view text) override {
    return std::make_unique<Code>(text, compile_options_, pins_ ? &cell_ : nullptr);
  }
  std::vector<sdk::Verdict> can_compile(std::string_view text) override {
    std::vector<sdk::Verdict> verdicts;
    program::Module module = sdk::read_program(text);
    for (std::uint32_t p = 0; p < module.programs.size(); ++p) {
      const std::vector<Note> notes = plan_program(std::move(module.programs[p]), compile_options_);
      for (std::uint32_t s = 0; s < notes.size(); ++s) {
        verdicts.push_back(
            {p, s, notes[s].native ? YOKE_VERDICT_NATIVE : YOKE_VERDICT_DECOMPOSED, notes[s].reason});
      }
    }
    return verdicts;
  }

 private:
  Cell cell_;
  bool pins_;  // memory and threads stay on the device's node
  std::uint64_t memory_limit_;
  DnnlEngine engine_;
  CompileOptions compile_options_;
};

}  // namespace

void Backend::configure(const sdk::Options& options) {
  wanted_device_count_ = static_cast<std::size_t>(options.integer("devices"));
}

const std::vector<Cell>& Backend::cells() {
  std::call_once(counted_, [this] { cells_ = machine_cells(wanted_device_count_); });
  return cells_;
}

sdk::DeviceInfo Backend::describe(std::uint32_t ordinal) {
  const Cell& cell = cells()[ordinal];
  sdk::DeviceInfo info;
  info.name = processor_name();
  info.unique_id = unique_id(cells(), ordinal);
  info.memory_bytes = memory_byte_count();
  info.types = {YOKE_TYPE_F64, YOKE_TYPE_F32, YOKE_TYPE_F16, YOKE_TYPE_BF16, YOKE_TYPE_I64,
                YOKE_TYPE_I32, YOKE_TYPE_U32, YOKE_TYPE_U8,  YOKE_TYPE_BOOL};
  info.kind = YOKE_DEVICE_CPU;
  info.compute_unit_count = static_cast<std::uint32_t>(cell.cores.size());
  info.suggested_stream_count = info.compute_unit_count;
  info.host_visible = true;
  info.numa_node = cell.node;
  return info;
}

std::vector<sdk::OptionSpec> Backend::option_specs() {
  return {
      sdk::OptionSpec::integer("devices",
                               "Number of devices, at least one per NUMA node; 0: one per core, from 2 to 8.",
                               0, 0, 1024)
          .for_plugin(),
      sdk::OptionSpec::integer("threads", "Threads per launch, including the launching thread.", 1, 1, 1024),
      sdk::OptionSpec::text("kernels",
                            "Instruction set of cc's kernels; values other than 'best' are for tests.",
                            "best", "best|plain|avx2|avx512"),
      sdk::OptionSpec::flag(
          "pin", "Keep memory and launching threads on the device's NUMA node if there are several nodes.",
          true),
      sdk::OptionSpec::integer("memory_limit",
                               "Maximum number of bytes that the device's buffers may use; 0: no limit.", 0,
                               0, INT64_MAX),
  };
}

std::unique_ptr<sdk::Device> Backend::open_device(std::uint32_t ordinal, const sdk::Options& options) {
  return std::make_unique<Device>(cells()[ordinal], options);
}

}  // namespace yoke::cc
