// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/command.h: one piece of queued work as a value, and the ring that hands it to a worker.
#pragma once

#include <yoke/backend.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace yoke {
class Routine;
}

namespace yoke::detail {

struct StreamState;

enum class CommandKind : std::uint8_t { kWait, kFromHost, kToHost, kDeviceToDevice, kFill, kLaunch };

// Holds no buffer and no routine alive: their destructors wait until no command uses them.
struct Command {
  static constexpr std::size_t kInlineSymbols = 16;

  CommandKind kind = CommandKind::kWait;
  bool completes = true;  // false: a wait that belongs to the command behind it
  bool inherits = true;   // kWait: does the other stream's error become ours
  std::uint8_t pattern_byte_count = 0;
  std::uint32_t symbol_count = 0;
  std::uint64_t ticket = 0;
  yoke_buffer* dst = nullptr;
  yoke_buffer* src = nullptr;
  std::uint64_t dst_offset = 0;
  std::uint64_t src_offset = 0;
  std::uint64_t byte_count = 0;
  std::uint64_t unchanged = 0;  // kLaunch of a FallbackRoutine: the arguments that need no copy
  const void* from = nullptr;   // kFromHost
  void* to = nullptr;           // kToHost
  const Routine* routine = nullptr;
  std::array<std::byte, 8> pattern{};
  std::array<char, 40> label{};  // the tensor's name, for messages; cut where it is longer
  std::array<std::int64_t, kInlineSymbols> symbols{};
  std::vector<std::int64_t>
      more_symbols;  // of a program with more than kInlineSymbols; the slot keeps the memory
  std::shared_ptr<StreamState> other;  // kWait: until other's completed ticket is other_ticket
  std::uint64_t other_ticket = 0;

  const std::int64_t* symbol_values() const {
    return symbol_count > kInlineSymbols ? more_symbols.data() : symbols.data();
  }
};

// One producer, one consumer. Slots are filled and run in place; nothing is moved or allocated.
class CommandRing {
 public:
  static constexpr std::uint64_t kCapacity = 1024;

  CommandRing() : slots_(kCapacity) {}

  // Producer.
  std::uint64_t room() const { return kCapacity - (head_.load() - tail_.load()); }
  Command& next() { return slots_[head_.load(std::memory_order_relaxed) % kCapacity]; }
  void push() { head_.store(head_.load(std::memory_order_relaxed) + 1); }
  // Consumer.
  Command& front() { return slots_[tail_.load(std::memory_order_relaxed) % kCapacity]; }
  void pop() { tail_.store(tail_.load(std::memory_order_relaxed) + 1); }
  // Either.
  bool is_empty() const { return head_.load() == tail_.load(); }

 private:
  std::vector<Command> slots_;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
};

}  // namespace yoke::detail
