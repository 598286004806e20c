// SPDX-License-Identifier: Apache-2.0
// A backend that runs only products of two tensors (product.cpp). With the device option rest=refuse, the default, it
// reports other statements as unsupported, and the host runs texts that contain them on `cc`. With rest=interpret the
// reference executor runs them, between the backend's own kernels.
#include <yoke/sdk/entry.h>
#include <yoke/sdk/mixed.h>
#include <yoke/sdk/worker_stream.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "product.h"

namespace partial {

namespace sdk = yoke::sdk;
namespace program = yoke::program;

// A program bound to the addresses of its arguments and its workspace.
class Routine final : public sdk::Routine {
 public:
  Routine(const sdk::MixedProgram& source, std::vector<void*> arguments, void* workspace)
      : source_(source), arguments_(std::move(arguments)), workspace_(workspace) {}

  void launch(sdk::Stream* stream, std::span<const std::int64_t> symbol_values) override {
    // Copies the values, which are only borrowed during the call. This object outlives its launches.
    sdk::WorkerStream::run(stream, [this, values = std::vector(symbol_values.begin(), symbol_values.end())] {
      source_.run(arguments_, workspace_, values);
    });
  }

 private:
  const sdk::MixedProgram& source_;  // owned by Code, which the SDK keeps alive as long as its routines
  std::vector<void*> arguments_;
  void* workspace_;
};

std::vector<sdk::Verdict> verdicts(const program::Module& module, bool interprets) {
  std::vector<sdk::Verdict> all = sdk::mixed_verdicts(module, product_kernel);
  for (sdk::Verdict& verdict : all) {
    if (!interprets && verdict.verdict != YOKE_VERDICT_NATIVE) {
      verdict.verdict = YOKE_VERDICT_UNSUPPORTED;
      verdict.reason = "it is not a product of two f32 tensors";
    }
  }
  return all;
}

class Code final : public sdk::Code {
 public:
  Code(std::string_view text, bool interprets) : module_(sdk::read_program(text)) {
    for (const sdk::Verdict& verdict : verdicts(module_, interprets)) {
      if (verdict.verdict == YOKE_VERDICT_UNSUPPORTED) {
        const program::Program& source = module_.programs[verdict.program];
        throw sdk::Failure(YOKE_STATUS_UNIMPLEMENTED,
                           "statement '" + program::print(source, source.statements[verdict.statement]) +
                               "' of program '" + source.name + "': " + verdict.reason);
      }
    }
    for (const program::Program& source : module_.programs) {
      programs_.emplace_back(source, product_kernel);
      entries_.push_back(sdk::entry_of(source));
      entries_.back().workspace_byte_count = programs_.back().workspace_byte_count();
    }
  }
  std::span<const sdk::Entry> entries() const override { return entries_; }

  std::unique_ptr<sdk::Routine> link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                     const sdk::Binding& workspace) override {
    std::vector<void*> arguments;
    for (const sdk::Binding& binding : bindings) {
      arguments.push_back(binding.host_address());
    }
    return std::make_unique<Routine>(programs_[entry], std::move(arguments), workspace.host_address());
  }

 private:
  program::Module module_;
  std::deque<sdk::MixedProgram> programs_;
  std::vector<sdk::Entry> entries_;
};

class Device final : public sdk::Device {
 public:
  explicit Device(bool interprets) : interprets_(interprets) {}

  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t) override {
    return std::make_unique<sdk::WorkerBuffer>(byte_count, host());
  }
  std::unique_ptr<sdk::Code> compile(std::string_view text) override {
    return std::make_unique<Code>(text, interprets_);
  }
  std::vector<sdk::Verdict> can_compile(std::string_view text) override {
    return verdicts(sdk::read_program(text), interprets_);
  }
  std::unique_ptr<sdk::Stream> create_stream(std::int32_t) override {
    return std::make_unique<sdk::WorkerStream>(streams_);
  }
  void abort() override { streams_->abort(); }
  bool can_fail(std::int32_t) override { return true; }  // WorkerStream simulates every kind of fault

 private:
  bool interprets_;
  std::shared_ptr<sdk::WorkerGroup> streams_ = std::make_shared<sdk::WorkerGroup>();
};

class Backend final : public sdk::Backend {
 public:
  sdk::Provides provides() const override { return {.streams = true, .programs = true, .faults = true}; }
  std::uint32_t device_count() override { return 2; }  // the kit then also tests two devices with options

  sdk::DeviceInfo describe(std::uint32_t ordinal) override {
    sdk::DeviceInfo info;
    info.name = "products only";
    info.unique_id = "partial:" + std::to_string(ordinal);
    info.types = {YOKE_TYPE_F64, YOKE_TYPE_F32, YOKE_TYPE_I64, YOKE_TYPE_I32,
                  YOKE_TYPE_U32, YOKE_TYPE_U8,  YOKE_TYPE_BOOL};
    info.kind = YOKE_DEVICE_CPU;
    info.host_visible = true;
    return info;
  }

  std::vector<sdk::OptionSpec> option_specs() override {
    return {sdk::OptionSpec::text("rest", "statements other than products", "refuse", "refuse|interpret")};
  }

  std::unique_ptr<sdk::Device> open_device(std::uint32_t, const sdk::Options& options) override {
    return std::make_unique<Device>(options.text("rest") == "interpret");
  }
};

}  // namespace partial

YOKE_SDK_PLUGIN(partial::Backend, "partial", "1.0.0", "the guide for authors")
