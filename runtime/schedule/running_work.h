// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/running_work.h: the command that a worker runs, and those that a device has, for reports by other
// threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/command.h"

namespace yoke::detail {

// "launch of 'gradient'", "fill".
inline std::string describe_work(CommandKind kind, std::string_view name) {
  constexpr const char* kNames[] = {"wait", "from_host", "to_host",    "device_to_device",
                                    "fill", "launch",    "collective", "callback"};
  return kNames[static_cast<std::size_t>(kind)] +
         (name.empty() ? std::string() : " of '" + std::string(name) + "'");
}

// Written by the thread that runs the stream's commands, and read by any thread. The name is copied, because the
// routine may be destroyed during a read. A reader whose copy was overwritten tries again: a reader that sees a word of
// a later command also sees its version, because the words are stored with release and loaded with acquire.
class RunningWork {
 public:
  void begin(CommandKind kind, std::string_view name) noexcept {
    std::array<char, 8 * kWords> text{};
    name.copy(text.data(), text.size() - 1);
    std::array<std::uint64_t, kWords> words{};
    std::memcpy(words.data(), text.data(), text.size());
    const std::uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);  // odd: being written
    kind_.store(static_cast<int>(kind), std::memory_order_release);
    for (std::size_t i = 0; i < kWords; ++i) {
      words_[i].store(words[i], std::memory_order_release);
    }
    version_.store(version + 2, std::memory_order_release);
  }
  void end() noexcept { kind_.store(kNone, std::memory_order_release); }

  // "launch of 'gradient'"; empty: nothing runs.
  std::string text() const {
    for (int attempt = 0; attempt < 100; ++attempt) {
      const std::uint64_t version = version_.load(std::memory_order_acquire);
      const int kind = kind_.load(std::memory_order_acquire);
      std::array<std::uint64_t, kWords> words{};
      for (std::size_t i = 0; i < kWords; ++i) {
        words[i] = words_[i].load(std::memory_order_acquire);
      }
      if (version % 2 == 0 && version == version_.load(std::memory_order_relaxed)) {
        return kind == kNone ? std::string() : describe(static_cast<CommandKind>(kind), words);
      }
    }
    return "short commands";
  }

 private:
  static constexpr std::size_t kWords = 6;
  static constexpr int kNone = -1;

  static std::string describe(CommandKind kind, const std::array<std::uint64_t, kWords>& words) {
    std::array<char, 8 * kWords> text{};
    std::memcpy(text.data(), words.data(), text.size());
    return describe_work(kind, text.data());
  }

  std::atomic<std::uint64_t> version_{0};
  std::atomic<int> kind_{kNone};
  std::array<std::atomic<std::uint64_t>, kWords> words_{};
};

// The latest commands of a native stream, and its waits for other native streams, as they were issued to the device.
// Which of them the device runs is known only from events. Thread-safe; adding does not allocate.
class IssuedWork {
 public:
  // A wait belongs to the command with the same ticket, which is issued after it.
  struct Wait {
    std::uint64_t ticket = 0;
    std::weak_ptr<StreamState> awaited;
    std::uint64_t awaited_ticket = 0;
  };

  // Call it before the first command.
  void allocate() {
    commands_.resize(kCommands);
    waits_.resize(kWaits);
  }
  void add(std::uint64_t ticket, CommandKind kind, std::string_view name) noexcept;
  void add(const Wait& wait) noexcept;
  // The first wait whose ticket is in [first, last], of those that were issued after the `index` first ones. Then
  // `index` is after it. Returns false if there is none.
  bool next_wait(std::uint64_t first, std::uint64_t last, std::uint64_t& index, Wait& wait) const;
  // What may run if the device has completed the commands before `first` and not `last`: "launch of 'gradient' or one
  // of the 3 commands after it". Empty: nothing.
  std::string text(std::uint64_t first, std::uint64_t last) const;

 private:
  // The rings keep the latest ones. They are small, so that many streams stay in the cache.
  static constexpr std::uint64_t kCommands = 16;
  static constexpr std::uint64_t kWaits = 16;
  struct alignas(32) Issued {
    std::uint64_t ticket = 0;
    CommandKind kind = CommandKind::kWait;
    std::array<char, 23> name{};  // longer names are cut
  };

  mutable std::mutex mutex_;
  std::vector<Issued> commands_;
  std::uint64_t command_count_ = 0;  // so far
  std::uint64_t forgotten_ = 0;      // the ticket of the latest command that the ring no longer has
  std::vector<Wait> waits_;
  std::uint64_t wait_count_ = 0;
};

}  // namespace yoke::detail
