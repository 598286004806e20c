// SPDX-License-Identifier: Apache-2.0
// A backend that uses the C++ SDK: host memory, one thread per stream, and programs run by the
// reference executor. To start your own backend, replace Routine::launch by your kernels and
// Buffer by your memory, and update describe().
#include <yoke/program/execute.h>
#include <yoke/program/text.h>
#include <yoke/sdk/entry.h>
#include <yoke/sdk/program.h>
#include <yoke/sdk/worker_stream.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace executor {

namespace sdk = yoke::sdk;
namespace program = yoke::program;

// A program bound to the addresses of its arguments.
class Routine final : public sdk::Routine {
 public:
  Routine(const program::Program& source, std::vector<void*> arguments)
      : source_(source), arguments_(std::move(arguments)) {}

  void launch(sdk::Stream* stream, std::span<const std::int64_t> symbol_values) override {
    // Copies the values, which are only borrowed during the call. This object outlives its launches.
    sdk::WorkerStream::run(stream, [this, values = std::vector(symbol_values.begin(), symbol_values.end())] {
      program::execute(source_, arguments_, values);
    });
  }

 private:
  const program::Program& source_;  // owned by Code, which the SDK keeps alive as long as its routines
  std::vector<void*> arguments_;
};

// A compiled program text. This backend only parses it.
class Code final : public sdk::Code {
 public:
  explicit Code(std::string_view text) : module_(sdk::read_program(text)) {
    for (const program::Program& source : module_.programs) {
      entries_.push_back(sdk::entry_of(source));  // no workspace: the executor allocates its temporaries
    }
  }
  std::span<const sdk::Entry> entries() const override { return entries_; }

  std::unique_ptr<sdk::Routine> link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                     const sdk::Binding&) override {
    std::vector<void*> arguments;
    for (const sdk::Binding& binding : bindings) {
      arguments.push_back(binding.host_address());
    }
    return std::make_unique<Routine>(module_.programs[entry], std::move(arguments));
  }

 private:
  program::Module module_;
  std::vector<sdk::Entry> entries_;
};

class Device final : public sdk::Device {
 public:
  explicit Device(std::uint64_t memory_limit) : memory_limit_(memory_limit) {}

  std::uint64_t memory_limit() override { return memory_limit_; }
  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t) override {
    return std::make_unique<sdk::WorkerBuffer>(byte_count, host());
  }

  std::unique_ptr<sdk::Code> compile(std::string_view text) override { return std::make_unique<Code>(text); }
  std::vector<sdk::Verdict> can_compile(std::string_view text) override {
    std::vector<sdk::Verdict> verdicts;
    const program::Module module = sdk::read_program(text);
    for (std::uint32_t p = 0; p < module.programs.size(); ++p) {
      for (std::uint32_t s = 0; s < module.programs[p].statements.size(); ++s) {
        verdicts.push_back({p, s, YOKE_VERDICT_DECOMPOSED, "interpreted by the reference executor"});
      }
    }
    return verdicts;
  }

  std::unique_ptr<sdk::Stream> create_stream(std::int32_t) override {
    return std::make_unique<sdk::WorkerStream>(streams_);
  }
  void abort() override { streams_->abort(); }

  // "yoke.memory/1". Pinned memory and device addresses are the SDK's defaults.
  std::unique_ptr<sdk::Buffer> import_buffer(const sdk::Import& memory) override {
    return std::make_unique<sdk::WorkerBuffer>(memory);
  }
  sdk::Native native() override { return {.api = "host"}; }

  bool can_fail(std::int32_t) override { return true; }  // WorkerStream simulates every kind of fault

 private:
  std::uint64_t memory_limit_;
  std::shared_ptr<sdk::WorkerGroup> streams_ = std::make_shared<sdk::WorkerGroup>();
};

class Backend final : public sdk::Backend {
 public:
  sdk::Provides provides() const override {
    return {.streams = true, .programs = true, .memory = true, .faults = true, .profile = true};
  }
  std::uint32_t device_count() override { return 1; }

  sdk::DeviceInfo describe(std::uint32_t) override {
    sdk::DeviceInfo info;
    info.name = "reference executor";
    info.unique_id = "executor:0";
    info.types = {YOKE_TYPE_F64, YOKE_TYPE_F32, YOKE_TYPE_F16, YOKE_TYPE_BF16, YOKE_TYPE_I64,
                  YOKE_TYPE_I32, YOKE_TYPE_U32, YOKE_TYPE_U8,  YOKE_TYPE_BOOL};
    info.kind = YOKE_DEVICE_CPU;
    info.compute_unit_count = std::max(1U, std::thread::hardware_concurrency());
    info.suggested_stream_count = info.compute_unit_count;
    info.host_visible = true;
    return info;
  }

  std::vector<sdk::OptionSpec> option_specs() override {
    return {sdk::OptionSpec::integer("memory_limit", "limit of the buffers' total size in bytes; 0: no limit",
                                     0, 0, std::int64_t{1} << 60)};
  }

  std::unique_ptr<sdk::Device> open_device(std::uint32_t, const sdk::Options& options) override {
    return std::make_unique<Device>(static_cast<std::uint64_t>(options.integer("memory_limit")));
  }
};

}  // namespace executor

YOKE_SDK_PLUGIN(executor::Backend, "executor", "1.0.0", "the quick start")
