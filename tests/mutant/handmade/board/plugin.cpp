// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/plugin.cpp: launches, codes, devices.
#include <unistd.h>
#include <yoke/program/access.h>
#include <yoke/sdk/entry.h>
#include <yoke/sdk/program.h>

#include <string>
#include <string_view>

#include "memory.h"
#include "rounds.h"
#include "unit.h"

namespace yoke::board {
namespace {

class Routine final : public sdk::Routine {
 public:
  Routine(const Unit& unit, std::shared_ptr<Engine> engine, std::vector<std::byte*> tensors)
      : unit_(unit), engine_(std::move(engine)), tensors_(std::move(tensors)) {}
  void launch(sdk::Stream* stream, std::span<const std::int64_t> symbol_values) override {
    if (bug("result_leak")) {  // with it only: no one frees the first block
      std::byte* result = engine_->pool.take(kResult);
      result = engine_->pool.take(kResult);
      engine_->pool.give_back(result, kResult);
    }
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
  static constexpr std::uint64_t kResult = 256;  // with the bug result_leak

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
  std::shared_ptr<Engine> engine_;
  std::vector<std::byte*> tensors_;
  std::vector<std::vector<std::int64_t>> ring_;  // the symbols of the last launches; with the bug launch_ring
  std::size_t next_ = 0;
};

class Code final : public sdk::Code {
 public:
  Code(std::shared_ptr<const Units> units, std::shared_ptr<Engine> engine)
      : units_(std::move(units)), engine_(std::move(engine)) {
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
    return std::make_unique<Routine>(unit, engine_, std::move(tensors));
  }

 private:
  std::shared_ptr<const Units> units_;
  std::shared_ptr<Engine> engine_;
  std::vector<sdk::Entry> entries_;
};

// What the handles of one ordinal share.
struct Board : Engine {
  using Engine::Engine;
  Cache cache;
  std::uint64_t limit = 0;  // with the bug shared_limit
};

// The board that the thread opened last; with the bug current_device.
std::weak_ptr<Board>& current_board() {
  thread_local std::weak_ptr<Board> board;
  return board;
}

class Device final : public sdk::Device {
 public:
  Device(std::shared_ptr<Board> board, std::uint64_t limit) : board_(std::move(board)), limit_(limit) {
    board_->limit = limit;
    if (bug("current_device")) {
      current_board() = board_;
    }
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
    return std::make_unique<Code>(board_->cache.find_or_compile(text), board_);
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
    const std::shared_ptr<Board> current = bug("current_device") ? current_board().lock() : nullptr;
    // With the bug current_device only: the thread may have opened another device since then.
    Board& used = current != nullptr ? *current : *board_;
    return std::make_unique<Stream>(used.workers, this, is_aborted_, priority);
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
