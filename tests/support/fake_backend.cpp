// SPDX-License-Identifier: Apache-2.0
// tests/support/fake_backend.cpp: implements the SDK's classes as a Control requests.
#include "fake_backend.h"

#include <dlfcn.h>
#include <yoke/program/execute.h>
#include <yoke/program/text.h>
#include <yoke/sdk/program.h>
#include <yoke/sdk/worker_stream.h>

#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

namespace yoke::test {
namespace {

using ControlPointer = std::shared_ptr<Control>;

template <class Hook, class... Args>
void run_hook(const Hook& hook, Args&&... args) {
  if (hook) {
    hook(std::forward<Args>(args)...);
  }
}

// Counts, blocks, delays and fails a call as the test requests.
void begin_call(Control& control) {
  const std::uint64_t number = control.call_count.fetch_add(1);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (control.is_blocked.load() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  if (std::uint64_t delay = control.delay_us.load(); delay != 0) {
    if (const std::uint64_t seed = control.delay_seed.load(); seed != 0) {
      delay = std::mt19937_64(seed * 0x9E3779B97F4A7C15U + number)() % (delay + 1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(delay));
  }
  std::int64_t left = control.fail_after.load();
  while (left >= 0 && !control.fail_after.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 0) {
    throw sdk::Failure(control.fail_code.load(), "the test injected this failure");
  }
}

class Buffer final : public sdk::HostBuffer {
 public:
  Buffer(std::uint64_t byte_count, const sdk::Host& host, ControlPointer control)
      : HostBuffer(byte_count, host), control_(std::move(control)) {
    if (byte_count != 0) {
      std::memset(host_address(), 0x5a, byte_count);  // so that tests notice reads of unwritten memory
    }
  }
  Buffer(const sdk::Import& memory, ControlPointer control)
      : HostBuffer(memory), control_(std::move(control)) {}
  ~Buffer() override {
    if (call_count_ != 0) {
      control_->freed_in_use = true;
    }
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::int32_t from_host(sdk::Stream* stream, std::uint64_t offset, const void* source,
                         std::uint64_t byte_count) override {
    queue(stream, [=, this] { HostBuffer::from_host(nullptr, offset, source, byte_count); });
    return stream == nullptr ? YOKE_SOURCE_COPIED : YOKE_SOURCE_UNTIL_EVENT;
  }
  void to_host(sdk::Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) override {
    queue(stream, [=, this] { HostBuffer::to_host(nullptr, offset, target, byte_count); });
  }
  void copy_from(sdk::Stream* stream, std::uint64_t offset, sdk::Buffer& source, std::uint64_t source_offset,
                 std::uint64_t byte_count) override {
    queue(stream, [=, this, from = &source] {
      HostBuffer::copy_from(nullptr, offset, *from, source_offset, byte_count);
    });
  }
  void fill(sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
            std::span<const std::byte> pattern) override {
    std::array<std::byte, 8> copy{};
    std::copy(pattern.begin(), pattern.end(), copy.begin());
    queue(stream, [=, this, size = pattern.size()] {
      HostBuffer::fill(nullptr, offset, byte_count, std::span(copy).first(size));
    });
  }

 private:
  // Runs `work` as a call: immediately, or in stream order.
  template <class Work>
  void queue(sdk::Stream* stream, Work work) {
    sdk::WorkerStream::run(stream, [this, work] {
      const auto leave = [](std::atomic<int>* count) { --*count; };
      const std::unique_ptr<std::atomic<int>, decltype(leave)> in_use(&call_count_, leave);
      ++call_count_;
      begin_call(*control_);
      work();
      control_->ended_count.fetch_add(1);
    });
  }

  ControlPointer control_;
  std::atomic<int> call_count_{0};  // calls running
};

class Routine final : public sdk::Routine {
 public:
  // `program` is null if the test supplied the entries; a launch then computes nothing.
  Routine(const program::Program* program, std::vector<void*> arguments, ControlPointer control)
      : program_(program), arguments_(std::move(arguments)), control_(std::move(control)) {}

  void launch(sdk::Stream* stream, std::span<const std::int64_t> symbol_values) override {
    if (stream == nullptr) {
      return execute(symbol_values);
    }
    std::vector<std::int64_t> values(symbol_values.begin(), symbol_values.end());
    sdk::WorkerStream::run(stream, [this, values = std::move(values)] { execute(values); });
  }

 private:
  void execute(std::span<const std::int64_t> values) {
    begin_call(*control_);
    control_->launch_count.fetch_add(1);
    run_hook(control_->on_launch, values);
    if (program_ != nullptr) {
      run_hook(control_->on_run, program_->name);
      program::execute(*program_, arguments_, values);
    }
  }

  const program::Program* program_;
  std::vector<void*> arguments_;
  ControlPointer control_;
};

class Code final : public sdk::Code {
 public:
  Code(std::string_view text, ControlPointer control)
      : entries_(control->entries), control_(std::move(control)) {
    if (entries_.empty()) {
      module_ = sdk::read_program(text);
      for (const program::Program& program : module_.programs) {
        entries_.push_back(sdk::entry_of(program));
        entries_.back().fingerprint = program::fingerprint(program::Module{{program}});
      }
    }
    run_hook(control_->on_describe, entries_);
    ++control_->live_code_count;
  }
  ~Code() override { --control_->live_code_count; }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  std::span<const sdk::Entry> entries() const override { return entries_; }
  std::unique_ptr<sdk::Routine> link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                     const sdk::Binding&) override {
    ++control_->link_count;
    std::vector<void*> arguments;
    for (const sdk::Binding& binding : bindings) {
      arguments.push_back(binding.host_address());
    }
    const program::Program* program = entry < module_.programs.size() ? &module_.programs[entry] : nullptr;
    return std::make_unique<Routine>(program, std::move(arguments), control_);
  }

 private:
  program::Module module_;
  std::vector<sdk::Entry> entries_;
  ControlPointer control_;
};

// A member of a group whose other members are always there. Its collectives compute nothing.
class Communicator final : public sdk::Communicator {
 public:
  std::int32_t state() override { return is_aborted_ ? YOKE_STATE_FAILED : YOKE_STATE_DONE; }
  void wait(std::uint64_t) override {
    if (is_aborted_) {
      throw sdk::Failure(YOKE_STATUS_ABORTED, "the communicator was aborted");
    }
  }
  void abort() override { is_aborted_ = true; }

 private:
  std::atomic<bool> is_aborted_{false};
};

class Device final : public sdk::Device {
 public:
  explicit Device(ControlPointer control) : control_(std::move(control)) {}

  std::uint64_t memory_limit() override { return control_->memory_limit; }
  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t) override {
    return std::make_unique<Buffer>(byte_count, host(), control_);
  }
  bool peer_access(sdk::Device& other) override { return this == &other || control_->has_peers; }
  std::unique_ptr<sdk::Code> compile(std::string_view text) override {
    run_hook(control_->on_compile, text);
    if (control_->entries.empty()) {
      for (const sdk::Verdict& verdict : can_compile(text)) {
        if (verdict.verdict == YOKE_VERDICT_UNSUPPORTED) {
          throw sdk::Failure(YOKE_STATUS_UNIMPLEMENTED, verdict.reason);
        }
      }
    }
    return std::make_unique<Code>(text, control_);
  }
  std::vector<sdk::Verdict> can_compile(std::string_view text) override {
    std::vector<sdk::Verdict> verdicts = control_->verdicts;
    if (!verdicts.empty()) {
      return verdicts;
    }
    const program::Module module = sdk::read_program(text);
    for (std::uint32_t p = 0; p < module.programs.size(); ++p) {
      const program::Program& program = module.programs[p];
      for (std::uint32_t s = 0; s < program.statements.size(); ++s) {
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
  void* pinned_allocate(std::uint64_t byte_count) override {
    ++control_->pinned_count;
    ++control_->live_pinned_count;
    return sdk::Device::pinned_allocate(byte_count);
  }
  void pinned_free(void* memory) noexcept override {
    --control_->live_pinned_count;
    sdk::Device::pinned_free(memory);
  }
  std::unique_ptr<sdk::Buffer> import_buffer(const sdk::Import& memory) override {
    return std::make_unique<Buffer>(memory, control_);
  }
  sdk::Native native() override { return {.api = "fake", .handle = 1}; }
  sdk::CollectivesInfo collectives() override {
    return {.sum_types = {YOKE_TYPE_F32},
            .order_types = {YOKE_TYPE_F32},
            .features = control_->collectives_features,
            .member_limit = control_->member_limit};
  }
  sdk::GroupId create_group_id() override { return {}; }
  std::unique_ptr<sdk::Communicator> join_group(const sdk::GroupId&, std::uint32_t, std::uint32_t) override {
    return std::make_unique<Communicator>();
  }
  std::unique_ptr<sdk::Stream> create_stream(std::int32_t) override {
    return std::make_unique<sdk::WorkerStream>(streams_);
  }
  void abort() override {
    streams_->abort();
    control_->is_aborted = true;
  }

 private:
  ControlPointer control_;
  std::shared_ptr<sdk::WorkerGroup> streams_ = std::make_shared<sdk::WorkerGroup>();
};

class Backend final : public sdk::Backend {
 public:
  explicit Backend(ControlPointer control) : control_(std::move(control)) {}

  const ControlPointer& control() const { return control_; }
  sdk::Provides provides() const override { return control_->provides; }
  std::uint32_t device_count() override {
    ++control_->enumeration_count;
    return control_->device_count;
  }
  std::string why_no_device() override { return control_->no_device_reason; }
  sdk::DeviceInfo describe(std::uint32_t ordinal) override {
    sdk::DeviceInfo info = control_->device_info;
    info.name = info.name.empty() ? "test device" : info.name;
    info.unique_id = info.unique_id.empty() ? "test:" + std::to_string(ordinal) : info.unique_id;
    return info;
  }
  std::vector<sdk::OptionSpec> option_specs() override { return control_->option_specs; }
  void configure(const sdk::Options& options) override { run_hook(control_->on_configure, options); }
  std::unique_ptr<sdk::Device> open_device(std::uint32_t, const sdk::Options& options) override {
    run_hook(control_->on_open, options);
    return control_->opens_nothing ? nullptr : std::make_unique<Device>(control_);
  }
  void queue_collectives(std::span<const sdk::Collective> rows) override {
    for (const sdk::Collective& row : rows) {
      sdk::WorkerStream::run(row.stream, [control = control_] { begin_call(*control); });
    }
  }

 private:
  ControlPointer control_;
};

ControlPointer control_of(yoke_plugin* plugin) {
  return static_cast<const Backend&>(*sdk::detail::state_of(plugin).backend).control();
}

const void* get_table(yoke_plugin* plugin, const char* id) {
  Control& control = *control_of(plugin);
  const void* found = sdk::detail::plugin_table(plugin, id);
  const std::pair<const void*, const void*> replaced[] = {{&sdk::detail::kBackendTable, &control.backend},
                                                          {&sdk::detail::kStreamTable, &control.stream},
                                                          {&sdk::detail::kProgramTable, &control.program},
                                                          {&sdk::detail::kPeerTable, &control.peer},
                                                          {&sdk::detail::kMemoryTable, &control.memory}};
  for (const auto& [table, own] : replaced) {
    found = found == table ? own : found;
  }
  return control.on_table ? control.on_table(id, found) : found;
}

void destroy(yoke_plugin* plugin) {
  const ControlPointer control = plugin == nullptr ? nullptr : control_of(plugin);
  sdk::detail::plugin_destroy(plugin);
  if (control != nullptr) {
    run_hook(control->on_destroy);
  }
}

std::array<ControlPointer, kSlotCount>& slots() {
  static std::array<ControlPointer, kSlotCount> all;
  return all;
}

template <std::size_t kSlot>
std::int32_t slot_entry(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  return enter(slots()[kSlot], args, out_plugin, error);
}

template <std::size_t... kSlots>
constexpr auto slot_entries(std::index_sequence<kSlots...>) {
  return std::array<yoke_plugin_entry_fn, sizeof...(kSlots)>{slot_entry<kSlots>...};
}

}  // namespace

void Control::make_bare() {
  backend.device_to_device = nullptr;
  backend.fill = nullptr;
  backend.buffer_describe = [](yoke_buffer* buffer, yoke_buffer_info* info, yoke_error* error) {
    const std::int32_t code = sdk::detail::buffer_describe(buffer, info, error);
    info->host_address = 0;
    return code;
  };
}

std::int32_t enter(const ControlPointer& control, const yoke_entry_args* args, yoke_plugin** out_plugin,
                   yoke_error* error) {
  const std::int32_t code = sdk::enter(args, out_plugin, error, {control->name.c_str(), "1.2.3", "the tests"},
                                       [&] { return std::make_unique<Backend>(control); });
  if (code == YOKE_STATUS_OK) {
    control->host = args->host;
    (*out_plugin)->get_table = get_table;
    (*out_plugin)->destroy = destroy;
    try {
      run_hook(control->on_entry, **out_plugin);
    } catch (...) {  // the caller gets no plugin to destroy
      (*out_plugin)->destroy(*out_plugin);
      throw;
    }
  }
  return code;
}

yoke_plugin_entry_fn entry_of(int slot, ControlPointer control) {
  static constexpr auto kEntries = slot_entries(std::make_index_sequence<kSlotCount>());
  if (slot < 0 || slot >= kSlotCount) {
    throw std::invalid_argument("slots are numbered from 0 to " + std::to_string(kSlotCount - 1));
  }
  if (control == nullptr) {
    control = std::make_shared<Control>();
  }
  if (control->name.empty()) {
    control->name = "test" + std::to_string(slot);
  }
  const auto index = static_cast<std::size_t>(slot);
  slots()[index] = std::move(control);
  return kEntries[index];
}

std::string module_name() {
  constexpr std::string_view kPrefix = "libyoke_backend_";
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&module_name), &info) == 0 || info.dli_fname == nullptr) {
    return {};
  }
  const std::string path = info.dli_fname;
  const std::size_t begin = path.rfind(kPrefix);
  return begin == std::string::npos
             ? std::string()
             : path.substr(begin + kPrefix.size(), path.find('.', begin) - begin - kPrefix.size());
}

}  // namespace yoke::test
