// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/command.h: one queued operation as a value, and the
// ring buffer that passes it to a worker.
#pragma once

#include <yoke/backend.h>
#include <yoke/runtime/error.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace yoke {
class Routine;
}

namespace yoke::detail {

class CollectiveCall;
struct StreamState;

// Does not own the stream's state, because a backend must not destroy its objects from a callback. An
// abandoned stream keeps its state in memory (StreamState::close_native).
struct HostCallback {
  std::function<void(ErrorCode)> function;
  StreamState* stream = nullptr;
  std::uint64_t ticket = 0;
};

enum class CommandKind : std::uint8_t {
  kWait,
  kFromHost,
  kToHost,
  kDeviceToDevice,
  kFill,
  kLaunch,
  kCollective,
  kCallback
};

// Does not keep buffers, routines and collectives alive: their destructors wait until no command uses them.
struct Command {
  static constexpr std::size_t kInlineSymbols = 16;

  CommandKind kind = CommandKind::kWait;
  bool completes = true;  // false: a wait that belongs to the next command
  bool inherits = true;   // kWait: whether this stream fails if the other one failed
  bool quiesces = false;  // kWait: see Dependency
  std::uint8_t pattern_byte_count = 0;
  std::uint32_t symbol_count = 0;
  std::uint64_t ticket = 0;
  yoke_buffer* dst = nullptr;
  yoke_buffer* src = nullptr;
  std::uint64_t dst_offset = 0;
  std::uint64_t src_offset = 0;
  std::uint64_t byte_count = 0;
  std::uint64_t unchanged = 0;  // kLaunch of a FallbackRoutine: the arguments that need no copy, as bits
  const void* from = nullptr;   // kFromHost
  void* to = nullptr;           // kToHost
  const Routine* routine = nullptr;
  const CollectiveCall* collective = nullptr;
  std::uint32_t member = 0;  // for `collective`
  std::array<std::byte, 8> pattern{};
  std::array<char, 40> label{};  // the tensor's name for messages; longer names are cut
  std::array<std::int64_t, kInlineSymbols> symbols{};
  // The values if there are more than kInlineSymbols. The slot keeps the memory.
  std::vector<std::int64_t> more_symbols;
  std::shared_ptr<StreamState> other;  // kWait: waits for this stream's other_ticket
  std::uint64_t other_ticket = 0;
  std::unique_ptr<HostCallback> callback;  // kCallback

  const std::int64_t* symbol_values() const {
    return symbol_count > kInlineSymbols ? more_symbols.data() : symbols.data();
  }
};

// For one producer and one consumer. Slots are filled and executed in place, without moves or allocations.
class CommandRing {
 public:
  static constexpr std::uint64_t kCapacity = 1024;
  // A caller that waits for room is woken when this many commands fit: waking it for each command would take a core
  // from the backend's threads each time.
  static constexpr std::uint64_t kWakeRoom = 16;

  // Call it before the first command. A native stream that needs no worker has no slots.
  void allocate() { slots_.resize(kCapacity); }

  // For the producer.
  std::uint64_t room() const { return kCapacity - (head_.load() - tail_.load()); }
  // Restarts at the first slot when the ring is empty, so that a stream with few commands touches few lines of cache.
  // push() publishes first_.
  Command& next() {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load()) {
      first_.store(head, std::memory_order_relaxed);
    }
    return slot(head);
  }
  void push() { head_.store(head_.load(std::memory_order_relaxed) + 1); }
  // For the consumer.
  Command& front() { return slot(tail_.load(std::memory_order_relaxed)); }
  void pop() { tail_.store(tail_.load(std::memory_order_relaxed) + 1); }
  // For both.
  bool is_empty() const { return head_.load() == tail_.load(); }

 private:
  Command& slot(std::uint64_t number) {
    return slots_[(number - first_.load(std::memory_order_relaxed)) % kCapacity];
  }

  std::vector<Command> slots_;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  // The number of the command in the first slot. Stored while the ring is empty.
  std::atomic<std::uint64_t> first_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
};

}  // namespace yoke::detail
