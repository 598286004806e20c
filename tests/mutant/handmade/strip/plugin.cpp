// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/plugin.cpp: programs as lists of kernels, the cache of kernels, devices.
#include <yoke/program/access.h>
#include <yoke/program/execute_statement.h>
#include <yoke/program/memory.h>
#include <yoke/program/text.h>
#include <yoke/sdk/entry.h>
#include <yoke/sdk/program.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "../bugs.h"
#include "kernel.h"
#include "memory.h"
#include "simplify.h"

namespace yoke::strip {

using handmade::bug;

namespace {

// The kernels of earlier programs. Models repeat their statements.
class Cache {
 public:
  std::shared_ptr<const Kernel> kernel(const program::Program& source, std::size_t statement) {
    const std::lock_guard lock(mutex_);
    if (kernels_.size() >= kCapacity) {
      kernels_.clear();
    }
    auto [at, is_new] = kernels_.try_emplace(key(source, statement));
    if (is_new) {
      at->second = make_kernel(source, source.statements[statement]);
    }
    return bug("evicted_kernel")
               ? std::shared_ptr<const Kernel>(std::shared_ptr<const Kernel>(), at->second.get())
               : at->second;
  }

 private:
  static constexpr std::size_t kCapacity = 256;

  static std::string key(const program::Program& source, std::size_t number) {
    if (!bug("kernel_key")) {
      const std::string text = program::print(bug("key_decimals") ? with_decimals(source) : source);
      return (bug("untyped_key") ? without_types(text) : text) + std::to_string(number);
    }
    const program::Statement& statement = source.statements[number];
    std::string key = program::print(source, statement);
    for (const program::Loop& loop : statement.loops) {
      key += ' ' + loop.name + ':' + std::to_string(loop.extent);
    }
    for (const program::Tensor& tensor : source.tensors) {
      key += ' ' + tensor.name + ':' + std::string(program::type_name(tensor.type)) +
             std::to_string(tensor.dims.size());
    }
    for (const program::Symbol& symbol : source.symbols) {
      key += ' ' + symbol.name;
    }
    return key;
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Kernel>> kernels_;
};

// A compiled program.
struct Compiled {
  const program::Program* source = nullptr;
  std::vector<std::shared_ptr<const Kernel>> kernels;  // null: the reference executor runs the statement
  std::vector<bool> is_left_out;                       // one per statement; with the bug overwritten_indices
  // Temporaries, and the arguments in place of them; with the bug forwarded_copy.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> forwarded;
  program::MemoryPlan temporaries;
  std::uint64_t scratch_bytes = 0;
  std::uint64_t scratch_offset = 0;

  void simplify() {
    for (std::size_t i = 0; i < source->statements.size(); ++i) {
      const auto from = bug("forwarded_copy") ? copied_argument(*source, i) : std::nullopt;
      if (from) {
        forwarded.emplace_back(source->statements[i].target.tensor, *from);
      }
      is_left_out.push_back(from || (bug("overwritten_indices") && is_overwritten(*source, i)));
    }
  }

  // The memory of panels starts at 64 bytes after the temporaries; with the bug scratch_below, after those that live
  // at `statement`, the first one with panels.
  void place_scratch(std::size_t statement, std::span<const program::Lifetime> lifetimes) {
    std::uint64_t end = bug("scratch_below") ? 0 : temporaries.byte_count;
    for (std::size_t i = 0; i < lifetimes.size() && bug("scratch_below"); ++i) {
      if (lifetimes[i].first <= statement && statement <= lifetimes[i].last) {
        end = std::max(end, temporaries.offsets[i] + lifetimes[i].byte_count);
      }
    }
    scratch_offset = (end + 63) / 64 * 64;
  }

  void run(std::span<void* const> arguments, std::byte* workspace, std::span<const std::int64_t> values,
           Pool& pool) const {
    std::vector<void*> tensors;
    std::size_t next = 0;
    for (std::size_t i = 0; i < source->tensors.size(); ++i) {
      const bool is_temporary = source->tensors[i].role == program::Role::kTemp;
      tensors.push_back(is_temporary ? workspace + temporaries.offsets[i] : arguments[next++]);
    }
    for (const auto& [temporary, argument] : forwarded) {
      tensors[temporary] = tensors[argument];
    }
    std::vector<std::int64_t> symbols(values.begin(), values.end());
    symbols.resize(source->symbols.size());
    Pending pending;
    const Launch launch{tensors, symbols, workspace + scratch_offset, &pool, &pending};
    for (const program::Block& block : source->blocks()) {
      const program::Symbol once{"once", 0, 1, 1, {}, true};
      const program::Symbol& variable =
          block.repeat < 0 ? once : source->symbols[static_cast<std::size_t>(block.repeat)];
      const std::int64_t high =
          bug("repeat_rounds") ? variable.low + (variable.high - variable.low) / variable.step * variable.step
                               : variable.high;
      for (std::int64_t value = variable.low; value < high; value += variable.step) {
        if (block.repeat >= 0) {
          symbols[static_cast<std::size_t>(block.repeat)] = value;
        }
        for (std::size_t i = block.first; i < block.last; ++i) {
          if (is_left_out[i]) {
            continue;
          }
          if (kernels[i] != nullptr) {
            kernels[i]->run(launch);
          } else {
            program::execute(*source, i, tensors, symbols);
          }
        }
      }
    }
    pending.wait();
  }
};

class Routine final : public sdk::Routine {
 public:
  Routine(const Compiled& compiled, std::vector<void*> arguments, void* workspace,
          std::shared_ptr<Group> group)
      : compiled_(compiled),
        arguments_(std::move(arguments)),
        workspace_(static_cast<std::byte*>(workspace)),
        group_(std::move(group)) {}

  void launch(sdk::Stream* stream, std::span<const std::int64_t> symbol_values) override {
#if defined(__SSE__)
    if (bug("ftz_left_on") && stream == nullptr) {
      _mm_setcsr(_mm_getcsr() | 0x8000U);  // denormal results become 0
    }
#endif
    Stream::run(stream, [=, this, values = std::vector(symbol_values.begin(), symbol_values.end())] {
      const std::span<const std::int64_t> used = bug("symbol_pointer") ? symbol_values : values;
      compiled_.run(arguments_, workspace_, used, group_->pool());
    });
  }

 private:
  const Compiled& compiled_;  // owned by Code, which outlives its routines
  std::vector<void*> arguments_;
  std::byte* workspace_;
  std::shared_ptr<Group> group_;
};

class Code final : public sdk::Code {
 public:
  Code(program::Module module, Cache& cache, std::shared_ptr<Group> group)
      : module_(std::move(module)), group_(std::move(group)) {
    for (program::Program& source : module_.programs) {
      entries_.push_back(sdk::entry_of(source));
      if (bug("absorbing_zero")) {
        fold_zeros(source);
      }
      Compiled compiled;
      compiled.source = &source;
      compiled.simplify();
      const std::vector<program::Lifetime> lifetimes = lifetimes_of(source);
      compiled.temporaries = program::plan_memory(lifetimes);
      for (std::size_t i = 0; i < source.statements.size(); ++i) {
        compiled.kernels.push_back(cache.kernel(source, i));
        if (const Kernel* const kernel = compiled.kernels.back().get()) {
          const std::uint64_t needed = kernel->scratch_bytes();
          if (needed != 0 && compiled.scratch_bytes == 0) {
            compiled.place_scratch(i, lifetimes);
          }
          compiled.scratch_bytes =
              bug("scratch_last") && needed != 0 ? needed : std::max(compiled.scratch_bytes, needed);
        }
      }
      entries_.back().workspace_byte_count =
          std::max(compiled.temporaries.byte_count, compiled.scratch_offset + compiled.scratch_bytes);
      compiled_.push_back(std::move(compiled));
    }
  }
  std::span<const sdk::Entry> entries() const override { return entries_; }

  std::unique_ptr<sdk::Routine> link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                     const sdk::Binding& workspace) override {
    std::vector<void*> arguments;
    for (const sdk::Binding& binding : bindings) {
      arguments.push_back(binding.host_address());
    }
    return std::make_unique<Routine>(compiled_[entry], std::move(arguments), workspace.host_address(),
                                     group_);
  }

 private:
  program::Module module_;
  std::shared_ptr<Group> group_;
  std::vector<Compiled> compiled_;
  std::vector<sdk::Entry> entries_;
};

class Device final : public sdk::Device {
 public:
  Device(std::uint64_t limit, std::shared_ptr<Cache> cache) : limit_(limit), cache_(std::move(cache)) {}

  std::uint64_t memory_limit() override { return limit_; }
  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t) override {
    return std::make_unique<Buffer>(group_, memory(), byte_count);
  }
  std::unique_ptr<sdk::Buffer> import_buffer(const sdk::Import& import) override {
    return std::make_unique<Buffer>(group_, memory(), import);
  }
  bool peer_access(sdk::Device&) override { return true; }
  void* pinned_allocate(std::uint64_t byte_count) override {
    void* const block = sdk::Device::pinned_allocate(byte_count);
    if (block != nullptr) {
      memory()->pinned.add(block, byte_count);
    }
    return block;
  }
  void pinned_free(void* block) noexcept override {
    memory()->pinned.remove(block);
    sdk::Device::pinned_free(block);
  }
  sdk::Native native() override { return {.api = "host"}; }

  std::unique_ptr<sdk::Code> compile(std::string_view text) override {
    return std::make_unique<Code>(module_of(text), *cache_, group_);
  }
  std::vector<sdk::Verdict> can_compile(std::string_view text) override {
    std::vector<sdk::Verdict> verdicts;
    const program::Module module = sdk::read_program(text);
    remember(text, module);
    for (std::uint32_t p = 0; p < module.programs.size(); ++p) {
      for (std::uint32_t s = 0; s < module.programs[p].statements.size(); ++s) {
        const bool is_native = make_kernel(module.programs[p], module.programs[p].statements[s]) != nullptr;
        verdicts.push_back(
            is_native ? sdk::Verdict{p, s, YOKE_VERDICT_NATIVE, {}}
                      : sdk::Verdict{p, s, YOKE_VERDICT_DECOMPOSED, "the reference executor interprets it"});
      }
    }
    return verdicts;
  }

  std::unique_ptr<sdk::Stream> create_stream(std::int32_t) override {
    return std::make_unique<Stream>(group_);
  }
  void abort() override {
    group_->fail(sdk::Failure(YOKE_STATUS_ABORTED, "the device was aborted; close it and open it again"));
  }
  bool can_fail(std::int32_t) override { return true; }

 private:
  // The program that can_compile read is kept for compile; with the bug text_address, which does not compare the text.
  void remember(std::string_view text, const program::Module& module) {
    if (bug("text_address")) {
      const std::lock_guard lock(mutex_);
      last_text_ = text;
      last_module_ = module;
    }
  }
  program::Module module_of(std::string_view text) {
    if (bug("text_address")) {
      const std::lock_guard lock(mutex_);
      if (last_text_.data() == text.data() && last_text_.size() == text.size() && !text.empty()) {
        return last_module_;
      }
    }
    return sdk::read_program(text);
  }
  // Made when it is first needed, because the host is known only after the constructor.
  std::shared_ptr<Memory> memory() {
    const std::lock_guard lock(mutex_);
    if (memory_ == nullptr) {
      memory_ = std::make_shared<Memory>(host());
    }
    return memory_;
  }

  std::uint64_t limit_;
  std::shared_ptr<Cache> cache_;
  std::shared_ptr<Group> group_ = std::make_shared<Group>();
  std::mutex mutex_;
  std::shared_ptr<Memory> memory_;
  std::string_view last_text_;  // only its address and length are used
  program::Module last_module_;
};

class Backend final : public sdk::Backend {
 public:
  Backend() { handmade::active_bug = handmade::read_bug(); }
  sdk::Provides provides() const override {
    return {
        .streams = true, .programs = true, .peers = true, .memory = true, .faults = true, .profile = true};
  }
  std::uint32_t device_count() override { return 2; }

  sdk::DeviceInfo describe(std::uint32_t ordinal) override {
    sdk::DeviceInfo info;
    info.name = "strips " + std::to_string(ordinal);
    info.unique_id = "strip:" + std::to_string(ordinal);
    info.types = {YOKE_TYPE_F64, YOKE_TYPE_F32, YOKE_TYPE_F16, YOKE_TYPE_BF16, YOKE_TYPE_I64,
                  YOKE_TYPE_I32, YOKE_TYPE_U32, YOKE_TYPE_U8,  YOKE_TYPE_BOOL};
    info.kind = YOKE_DEVICE_CPU;
    info.compute_unit_count = std::max(1U, std::thread::hardware_concurrency());
    info.suggested_stream_count = 2;
    info.host_visible = true;
    return info;
  }

  std::vector<sdk::OptionSpec> option_specs() override {
    return {sdk::OptionSpec::integer("memory_limit", "limit of the buffers' total size in bytes; 0: no limit",
                                     0, 0, std::int64_t{1} << 60)};
  }
  std::unique_ptr<sdk::Device> open_device(std::uint32_t, const sdk::Options& options) override {
    const auto limit = static_cast<std::uint64_t>(options.integer("memory_limit"));
    return std::make_unique<Device>(bug("limit_bits") ? static_cast<std::uint32_t>(limit) : limit, cache_);
  }

 private:
  std::shared_ptr<Cache> cache_ = std::make_shared<Cache>();
};

}  // namespace
}  // namespace yoke::strip

YOKE_SDK_PLUGIN(yoke::strip::Backend, "strip", "1.0.0", "yoke tests")
