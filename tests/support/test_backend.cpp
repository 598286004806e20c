// SPDX-License-Identifier: Apache-2.0
// tests/support/test_backend.cpp: built on the SDK, as a plugin would be.
#include "test_backend.h"

#include <yoke/program/execute.h>
#include <yoke/sdk/entry.h>
#include <yoke/sdk/program.h>

#include <array>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

#include "test_stream.h"

namespace yoke::test {

void Control::call() {
  call_count.fetch_add(1);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (is_blocked.load() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  if (const std::uint32_t delay = delay_us.load(); delay != 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(delay));
  }
  std::int64_t left = fail_after.load();
  while (left >= 0 && !fail_after.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 0) {
    throw sdk::Failure(fail_code.load(), "the test asked for this failure");
  }
}

namespace {

using ControlPointer = std::shared_ptr<Control>;

// Does `work` now, or on the stream.
template <class Work>
void perform(sdk::Stream* stream, const Work& work) {
  if (stream == nullptr) {
    work();
  } else {
    static_cast<TestStream*>(stream)->post(work);
  }
}

// Nothing may come with NULL.
void copy_bytes(void* to, const void* from, std::uint64_t byte_count) {
  if (byte_count != 0) {
    std::memcpy(to, from, byte_count);
  }
}

class TestBuffer final : public sdk::HostBuffer {
 public:
  TestBuffer(std::uint64_t byte_count, ControlPointer control)
      : HostBuffer(byte_count), control_(std::move(control)) {
    std::memset(host_address(), 0x5a, byte_count);  // what nobody wrote is no zero
  }

  std::int32_t from_host(sdk::Stream* stream, std::uint64_t offset, const void* source,
                         std::uint64_t byte_count) override {
    perform(stream, [control = control_, to = at(offset), source, byte_count] {
      control->call();
      copy_bytes(to, source, byte_count);
    });
    return stream == nullptr ? YOKE_SOURCE_COPIED : YOKE_SOURCE_UNTIL_EVENT;
  }
  void to_host(sdk::Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) override {
    perform(stream, [control = control_, from = at(offset), target, byte_count] {
      control->call();
      copy_bytes(target, from, byte_count);
    });
  }
  void copy_from(sdk::Stream* stream, std::uint64_t offset, sdk::Buffer& source, std::uint64_t source_offset,
                 std::uint64_t byte_count) override {
    perform(stream, [control = control_, to = at(offset),
                     from = static_cast<TestBuffer&>(source).at(source_offset), byte_count] {
      control->call();
      copy_bytes(to, from, byte_count);
    });
  }
  void fill(sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
            std::span<const std::byte> pattern) override {
    std::array<std::byte, 8> copy{};
    std::copy(pattern.begin(), pattern.end(), copy.begin());
    perform(stream, [control = control_, to = at(offset), byte_count, copy, size = pattern.size()] {
      control->call();
      for (std::uint64_t i = 0; i < byte_count; i += size) {
        std::memcpy(to + i, copy.data(), size);
      }
    });
  }

 private:
  std::byte* at(std::uint64_t offset) { return static_cast<std::byte*>(host_address()) + offset; }
  ControlPointer control_;
};

class TestRoutine final : public sdk::Routine {
 public:
  TestRoutine(const program::Program& program, std::vector<void*> arguments, ControlPointer control)
      : program_(program), arguments_(std::move(arguments)), control_(std::move(control)) {}

  void launch(sdk::Stream* stream, std::span<const std::int64_t> symbol_values) override {
    if (stream == nullptr) {
      execute(symbol_values);
    } else {
      perform(stream, [this, values = std::vector<std::int64_t>(symbol_values.begin(), symbol_values.end())] {
        execute(values);
      });
    }
  }

 private:
  void execute(std::span<const std::int64_t> values) {
    control_->call();
    control_->launch_count.fetch_add(1);
    program::execute(program_, arguments_, values);
  }
  const program::Program& program_;
  std::vector<void*> arguments_;
  ControlPointer control_;
};

class TestCode final : public sdk::Code {
 public:
  TestCode(std::string_view text, ControlPointer control)
      : module_(sdk::read_program(text)), control_(std::move(control)) {
    for (const program::Program& program : module_.programs) {
      entries_.push_back(sdk::entry_of(program));
      entries_.back().fingerprint = program::fingerprint(program::Module{{program}});
    }
  }
  std::span<const sdk::Entry> entries() const override { return entries_; }
  std::unique_ptr<sdk::Routine> link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                     const sdk::Binding&) override {
    std::vector<void*> arguments;
    for (const sdk::Binding& binding : bindings) {
      arguments.push_back(binding.host_address());
    }
    return std::make_unique<TestRoutine>(module_.programs[entry], std::move(arguments), control_);
  }

 private:
  program::Module module_;
  std::vector<sdk::Entry> entries_;
  ControlPointer control_;
};

class TestDevice final : public sdk::Device {
 public:
  explicit TestDevice(ControlPointer control) : control_(std::move(control)) {}
  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t) override {
    return std::make_unique<TestBuffer>(byte_count, control_);
  }
  bool peer_access(sdk::Device& other) override { return this == &other || control_->has_peers; }
  std::unique_ptr<sdk::Code> compile(std::string_view text) override {
    for (const sdk::Verdict& verdict : can_compile(text)) {
      if (verdict.verdict == YOKE_VERDICT_UNSUPPORTED) {
        throw sdk::Failure(YOKE_UNIMPLEMENTED, verdict.reason);
      }
    }
    return std::make_unique<TestCode>(text, control_);
  }
  std::vector<sdk::Verdict> can_compile(std::string_view text) override {
    std::vector<sdk::Verdict> verdicts;
    const program::Module module = sdk::read_program(text);
    for (std::uint32_t p = 0; p < module.programs.size(); ++p) {
      for (std::uint32_t s = 0; s < module.programs[p].statements.size(); ++s) {
        const program::Program& program = module.programs[p];
        const bool runs =
            control_->unsupported.empty() ||
            program::print(program, program.statements[s]).find(control_->unsupported) == std::string::npos;
        verdicts.push_back(
            {p, s, runs ? YOKE_VERDICT_DECOMPOSED : YOKE_VERDICT_UNSUPPORTED,
             runs ? "the reference executor" : "there is no unit for " + control_->unsupported});
      }
    }
    return verdicts;
  }
  std::unique_ptr<sdk::Stream> create_stream(std::int32_t) override {
    return std::make_unique<TestStream>(aborted_, control_->abort_ends_waits);
  }
  void abort() override {
    aborted_->store(true);
    control_->is_aborted = true;
  }

 private:
  ControlPointer control_;
  std::shared_ptr<std::atomic<bool>> aborted_ = std::make_shared<std::atomic<bool>>(false);
};

class TestBackend final : public sdk::Backend {
 public:
  explicit TestBackend(ControlPointer control) : control_(std::move(control)) {}
  sdk::Provides provides() const override {
    return {.streams = control_->has_streams, .programs = control_->has_programs, .peers = true};
  }
  std::uint32_t device_count() override { return control_->device_count; }
  sdk::DeviceInfo describe(std::uint32_t ordinal) override {
    sdk::DeviceInfo info;
    info.name = "test device " + std::to_string(ordinal);
    info.unique_id = "test:" + std::to_string(ordinal);
    info.types = {YOKE_F64, YOKE_F32, YOKE_F16, YOKE_BF16, YOKE_I64, YOKE_I32, YOKE_U32, YOKE_U8, YOKE_BOOL};
    info.host_visible = !control_->is_bare;
    return info;
  }
  std::unique_ptr<sdk::Device> open_device(std::uint32_t, const sdk::Options&) override {
    return std::make_unique<TestDevice>(control_);
  }

 private:
  ControlPointer control_;
};

constexpr int kSlotCount = 8;
constexpr std::array<const char*, kSlotCount> kNames = {"test0", "test1", "test2", "test3",
                                                        "test4", "test5", "test6", "test7"};

std::array<ControlPointer, kSlotCount>& controls() {
  static std::array<ControlPointer, kSlotCount> all;
  return all;
}

// The table of a backend that leaves out what it may.
const void* bare_table(yoke_plugin* plugin, const char* id) {
  if (std::strcmp(id, YOKE_BACKEND_TABLE) != 0) {
    return sdk::detail::plugin_table(plugin, id);
  }
  static const yoke_backend_api table = [plugin] {
    yoke_backend_api copy =
        *static_cast<const yoke_backend_api*>(sdk::detail::plugin_table(plugin, YOKE_BACKEND_TABLE));
    copy.device_to_device = nullptr;
    copy.fill = nullptr;
    copy.buffer_describe = [](yoke_buffer* buffer, yoke_buffer_info* info, yoke_error* error) {
      const std::int32_t code = sdk::detail::buffer_describe(buffer, info, error);
      info->host_address = 0;
      return code;
    };
    return copy;
  }();
  return &table;
}

template <int kSlot>
std::int32_t entry(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  const ControlPointer control = controls()[kSlot];
  const std::int32_t code = sdk::enter(args, out_plugin, error, {kNames[kSlot], "1.0.0", "the tests"},
                                       [&] { return std::make_unique<TestBackend>(control); });
  if (code == YOKE_OK && control->is_bare) {
    (*out_plugin)->get_table = bare_table;
  }
  return code;
}

constexpr std::array<yoke_plugin_entry_fn, kSlotCount> kEntries = {entry<0>, entry<1>, entry<2>, entry<3>,
                                                                   entry<4>, entry<5>, entry<6>, entry<7>};

}  // namespace

std::shared_ptr<Control> register_backend(Runtime& runtime, int slot, std::shared_ptr<Control> control) {
  if (slot < 0 || slot >= kSlotCount) {
    throw std::invalid_argument("test backends have slots 0 to 7");
  }
  const auto index = static_cast<std::size_t>(slot);
  if (control == nullptr) {
    control = std::make_shared<Control>();
  }
  controls()[index] = control;
  runtime.register_backend(kNames[index], kEntries[index]);
  return control;
}

}  // namespace yoke::test
