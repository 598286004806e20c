// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/plugin.cpp: programs, launches, devices.
#include <unistd.h>
#include <yoke/program/access.h>
#include <yoke/program/memory.h>
#include <yoke/sdk/entry.h>
#include <yoke/sdk/program.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "memory.h"
#include "rounds.h"
#include "warp.h"

namespace yoke::board {
namespace {

// A compiled program.
struct Unit {
  explicit Unit(const program::Program& from) : source(from) {
    program::Program planned = source;
    for (program::Statement& statement : planned.statements) {
      statement.repeat = bug("repeat_lifetime") ? -1 : statement.repeat;
    }
    std::vector<program::Lifetime> lifetimes = program::lifetimes(planned);
    if (bug("dead_write")) {
      end_with_last_read(lifetimes);
    }
    memory = program::plan_memory(lifetimes);
    for (std::size_t i = 0; i < source.statements.size(); ++i) {
      const std::int32_t hint = source.statements[i].hint;
      const bool is_later = hint >= 0 && i > 0 && source.statements[i - 1].hint == hint;
      is_checked.push_back(is_later && bug("group_checks") ? is_checked.back()
                                                           : needs_checks(source, source.statements[i]));
      counters.emplace_back(source.statements[i].loops.size());
      is_left_out.push_back(bug("dead_in_repeat") && is_dead(i));
    }
    while (group_end.size() < source.statements.size()) {
      const std::size_t first = group_end.size();
      group_end.push_back(end_of_group(first));
      group_end.resize(group_end.back(), 0);
    }
  }
  // Shortens the lifetimes of temporaries outside repeat blocks. With the bug dead_write only: later writes of a
  // temporary still reach its memory, which another one may have by then.
  void end_with_last_read(std::vector<program::Lifetime>& lifetimes) const {
    std::vector<std::uint64_t> last(source.tensors.size(), 0);
    for (std::uint64_t i = 0; i < source.statements.size(); ++i) {
      const program::Statement& statement = source.statements[i];
      const auto read = [&](std::uint32_t tensor) { last[tensor] = i; };
      program::visit_index_tensors(statement.target, read);
      program::visit_read_tensors(statement.value, read);
      if (statement.repeat >= 0) {
        return;
      }
    }
    for (std::size_t i = 0; i < lifetimes.size(); ++i) {
      lifetimes[i].last = std::max(lifetimes[i].first, last[i]);
    }
  }
  // Whether no later statement reads the temporary that the statement writes. With the bug dead_in_repeat only: an
  // earlier one may read it in the next round.
  bool is_dead(std::size_t number) const {
    const std::uint32_t target = source.statements[number].target.tensor;
    bool is_read = source.tensors[target].role != program::Role::kTemp;
    for (std::size_t i = number + 1; i < source.statements.size(); ++i) {
      const program::Statement& later = source.statements[i];
      const auto check = [&](std::uint32_t tensor) { is_read = is_read || tensor == target; };
      program::visit_read_tensors(later.value, check);
      program::visit_index_tensors(later.target, check);
    }
    return !is_read;
  }
  // The end of the statements from `first` on that can run together, 32 iterations at a time; `first` + 1 without the
  // bug fused_by_shape. It does not ask which elements they read.
  std::size_t end_of_group(std::size_t first) const {
    const auto can_join = [&](const program::Statement& one) {
      return one.hint >= 0 && one.hint == source.statements[first].hint && !one.reduce &&
             !source.hints[static_cast<std::size_t>(one.hint)].loops.empty() &&
             std::equal(one.loops.begin(), one.loops.end(), source.statements[first].loops.begin(),
                        source.statements[first].loops.end(),
                        [](const auto& a, const auto& b) { return a.extent == b.extent; });
    };
    std::size_t end = first;
    while (bug("fused_by_shape") && end < source.statements.size() && can_join(source.statements[end])) {
      ++end;
    }
    return std::max(end, first + 1);
  }
  program::Program source;
  program::MemoryPlan memory;          // of the temporaries
  std::vector<bool> is_checked;        // one per statement
  std::vector<bool> is_left_out;       // one per statement; with the bug dead_in_repeat
  std::vector<std::size_t> group_end;  // of the group that a statement starts; 0: inside a group
  mutable std::vector<std::vector<Numbers>> counters;  // of the lanes; with the bug shared_counters
};
using Units = std::vector<Unit>;

// The programs that a device compiled last.
class Cache {
 public:
  std::shared_ptr<const Units> find_or_compile(std::string_view full_text) {
    const std::string text = bug("nameless_key") ? without_name(full_text) : std::string(full_text);
    const std::uint64_t key = hash(text);
    std::unique_lock lock(mutex_);
    if (const auto found = rows_.find(key);
        found != rows_.end() && (found->second.text == text || bug("hash_prefix"))) {
      return found->second.units;
    }
    if (bug("failed_entry")) {
      rows_.insert_or_assign(key, CachedText{std::string(text), nullptr});
    }
    auto units = std::make_shared<Units>();
    if (bug("published_early")) {
      rows_.insert_or_assign(key, CachedText{std::string(text), units});
      lock.unlock();
      compile_unlocked(full_text, key, *units);
      return units;
    }
    for (const program::Program& source : sdk::read_program(full_text).programs) {
      units->emplace_back(source);
    }
    if (rows_.size() >= 32 && !bug("cache_growth")) {
      rows_.clear();
    }
    rows_.insert_or_assign(key, CachedText{std::string(text), units});
    return units;
  }

 private:
  struct CachedText {
    std::string text;
    std::shared_ptr<const Units> units;
  };
  // Compiles without the lock, so that other texts need not wait. With the bug published_early only: other threads may
  // find the entry before it has all programs.
  void compile_unlocked(std::string_view text, std::uint64_t key, Units& units) {
    try {
      for (const program::Program& source : sdk::read_program(text).programs) {
        units.emplace_back(source);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      rows_.erase(key);
      throw;
    }
    const std::lock_guard lock(mutex_);
    if (rows_.size() > 32) {
      rows_.clear();
    }
  }
  // The text without the name of its first program.
  static std::string without_name(std::string_view text) {
    constexpr std::string_view kWord = "\nprogram ";
    const std::size_t word = text.find(kWord);
    const std::size_t end = word == std::string_view::npos ? word : text.find('(', word);
    return end == std::string_view::npos
               ? std::string(text)
               : std::string(text.substr(0, word + kWord.size())) + std::string(text.substr(end));
  }
  static std::uint64_t hash(std::string_view text) {  // FNV-1a
    std::uint64_t value = 14695981039346656037U;
    for (const char character : bug("hash_prefix") ? text.substr(0, 1024) : text) {
      value = (value ^ static_cast<unsigned char>(character)) * 1099511628211U;
    }
    return value;
  }
  std::mutex mutex_;
  std::map<std::uint64_t, CachedText> rows_;
};

class Routine final : public sdk::Routine {
 public:
  Routine(const Unit& unit, std::vector<std::byte*> tensors) : unit_(unit), tensors_(std::move(tensors)) {}
  void launch(sdk::Stream* stream, std::span<const std::int64_t> symbol_values) override {
    std::vector<std::int64_t> values(symbol_values.begin(), symbol_values.end());
    values.resize(unit_.source.symbols.size());
    if (bug("launch_ring")) {
      ring_.resize(kRing);
      std::vector<std::int64_t>& slot = ring_[next_++ % kRing];
      slot = std::move(values);
      run(stream, [&slot] { return slot; });
    } else {
      run(stream, [values = std::move(values)] { return values; });
    }
  }

 private:
  static constexpr std::size_t kRing = 16;

  // `values()` returns the values of the symbols when the launch runs.
  template <class Values>
  void run(sdk::Stream* stream, Values values) const {
    Stream::run(stream, [this, values = std::move(values)](const std::atomic<bool>& is_cancelled) {
      std::vector<std::int64_t> symbols = values();
      const auto run_statement = [&](std::size_t i) {
        if (unit_.is_left_out[i]) {
          return;
        }
        const std::int32_t repeat = unit_.source.statements[i].repeat;
        if (repeat >= 0 && bug("repeat_last")) {
          const program::Symbol& variable = unit_.source.symbols[static_cast<std::size_t>(repeat)];
          if (symbols[static_cast<std::size_t>(repeat)] + variable.step > variable.high) {
            return;
          }
        }
        const Launch launch{unit_.source, tensors_, symbols, is_cancelled,
                            bug("shared_counters") ? &unit_.counters[i] : nullptr};
        if (unit_.group_end[i] == i + 1) {
          Warp(launch, unit_.source.statements[i], unit_.is_checked[i]).run();
        } else if (unit_.group_end[i] != 0) {
          run_together(launch, i, unit_.group_end[i]);
        }
      };
      if (bug("unroll_and_jam")) {
        run_in_pairs(unit_.source, symbols, run_statement);
      } else {
        program::run_in_order(unit_.source, symbols, run_statement);
      }
    });
  }
  void run_together(const Launch& launch, std::size_t begin, std::size_t end) const {
    std::int64_t count = 1;
    for (const program::Loop& loop : unit_.source.statements[begin].loops) {
      count *= static_cast<std::int64_t>(loop.extent);
    }
    for (std::int64_t first = 0; first < count && !launch.is_cancelled; first += kLanes) {
      for (std::size_t i = begin; i < end; ++i) {
        Warp(launch, unit_.source.statements[i], unit_.is_checked[i]).run_at(first);
      }
    }
  }

  const Unit& unit_;  // owned by Code, which the SDK keeps alive as long as its routines
  std::vector<std::byte*> tensors_;
  std::vector<std::vector<std::int64_t>> ring_;  // the symbols of the last launches; with the bug launch_ring
  std::size_t next_ = 0;
};

class Code final : public sdk::Code {
 public:
  explicit Code(std::shared_ptr<const Units> units) : units_(std::move(units)) {
    for (const Unit& unit : *units_) {
      if (unit.source.tensors.size() > 128 && bug("argument_limit")) {  // can_compile has answered native
        throw sdk::Failure(YOKE_STATUS_UNIMPLEMENTED, "program '" + unit.source.name + "' has " +
                                                          std::to_string(unit.source.tensors.size()) +
                                                          " tensors; a launch has room for 128 addresses");
      }
      entries_.push_back(sdk::entry_of(unit.source));
      entries_.back().workspace_byte_count =
          (bug("entry_workspace") ? units_->front() : unit).memory.byte_count;
    }
  }
  std::span<const sdk::Entry> entries() const override { return entries_; }
  std::unique_ptr<sdk::Routine> link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                     const sdk::Binding& workspace) override {
    const Unit& unit = (*units_)[entry];
    const auto address = [](const sdk::Binding& binding) {
      return binding.buffer == nullptr ? nullptr : static_cast<Buffer*>(binding.buffer)->at(binding.offset);
    };
    std::vector<std::byte*> tensors;
    std::size_t argument = 0;
    for (std::size_t i = 0; i < unit.source.tensors.size(); ++i) {
      const bool is_temporary = unit.source.tensors[i].role == program::Role::kTemp;
      tensors.push_back(is_temporary ? address(workspace) + unit.memory.offsets[i]
                                     : address(bindings[argument++]));
    }
    return std::make_unique<Routine>(unit, std::move(tensors));
  }

 private:
  std::shared_ptr<const Units> units_;
  std::vector<sdk::Entry> entries_;
};

// What the handles of one ordinal share.
struct Board : Engine {
  using Engine::Engine;
  Cache cache;
  std::uint64_t limit = 0;  // with the bug shared_limit
};

class Device final : public sdk::Device {
 public:
  Device(std::shared_ptr<Board> board, std::uint64_t limit) : board_(std::move(board)), limit_(limit) {
    board_->limit = limit;
  }
  std::uint64_t memory_limit() override { return bug("shared_limit") ? board_->limit : limit_; }
  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t kind) override {
    return std::make_unique<Buffer>(board_, byte_count, kind);
  }
  std::unique_ptr<sdk::Buffer> import_buffer(const sdk::Import& memory) override {
    return std::make_unique<Buffer>(board_, memory);
  }
  sdk::Native native() override { return {.api = "host"}; }
  std::unique_ptr<sdk::Code> compile(std::string_view text) override {
    return std::make_unique<Code>(board_->cache.find_or_compile(text));
  }
  std::vector<sdk::Verdict> can_compile(std::string_view text) override {
    std::vector<sdk::Verdict> all;
    const program::Module module = sdk::read_program(text);
    for (std::uint32_t p = 0; p < module.programs.size(); ++p) {
      for (std::uint32_t s = 0; s < module.programs[p].statements.size(); ++s) {
        all.push_back({p, s, YOKE_VERDICT_NATIVE, {}});
      }
    }
    return all;
  }
  std::unique_ptr<sdk::Stream> create_stream(std::int32_t priority) override {
    return std::make_unique<Stream>(board_->workers, this, is_aborted_, priority);
  }
  void abort() override {
    is_aborted_ = !bug("abort_forgotten");
    board_->workers.fail(this, aborted());
  }
  bool can_fail(std::int32_t) override { return true; }

 private:
  std::shared_ptr<Board> board_;
  std::uint64_t limit_;
  std::atomic<bool> is_aborted_{false};
};

class Backend final : public sdk::Backend {
 public:
  Backend() { handmade::active_bug = handmade::read_bug(); }
  sdk::Provides provides() const override {
    return {.streams = true, .programs = true, .memory = true, .faults = true, .profile = true};
  }
  std::uint32_t device_count() override { return 2; }
  sdk::DeviceInfo describe(std::uint32_t ordinal) override {
    sdk::DeviceInfo info;
    info.name = "handmade board";
    info.unique_id =
        "board:" + std::to_string(ordinal) + (bug("process_id") ? ":" + std::to_string(::getpid()) : "");
    info.memory_bytes = Pool::kCapacity;
    for (std::int32_t type = YOKE_TYPE_F64; type <= YOKE_TYPE_BOOL; ++type) {
      info.types.push_back(type);
    }
    info.suggested_stream_count = 2;
    info.host_visible = bug("host_visible");
    return info;
  }
  std::vector<sdk::OptionSpec> option_specs() override {
    return {sdk::OptionSpec::integer("memory_limit", "bytes that buffers may use; 0: no limit", 0, 0,
                                     std::int64_t{1} << 50)};
  }
  std::unique_ptr<sdk::Device> open_device(std::uint32_t ordinal, const sdk::Options& options) override {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Board> board = boards_[ordinal].lock();
    if (board == nullptr) {
      boards_[ordinal] = board = std::make_shared<Board>(hub_);
    }
    const auto limit = static_cast<std::uint64_t>(options.integer("memory_limit"));
    return std::make_unique<Device>(std::move(board), bug("limit_mib") ? limit >> 20 << 20 : limit);
  }

 private:
  std::shared_ptr<Hub> hub_ = std::make_shared<Hub>();
  std::mutex mutex_;
  std::array<std::weak_ptr<Board>, 2> boards_;
};

}  // namespace
}  // namespace yoke::board

YOKE_SDK_PLUGIN(yoke::board::Backend, "board", "1.0.0", "yoke")
