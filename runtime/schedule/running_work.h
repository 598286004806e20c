// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/running_work.h: the command that a worker runs, for reports by other threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "schedule/command.h"

namespace yoke::detail {

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
    constexpr const char* kNames[] = {"wait", "from_host", "to_host",    "device_to_device",
                                      "fill", "launch",    "collective", "callback"};
    std::array<char, 8 * kWords> text{};
    std::memcpy(text.data(), words.data(), text.size());
    const std::string name(text.data());
    return kNames[static_cast<std::size_t>(kind)] + (name.empty() ? std::string() : " of '" + name + "'");
  }

  std::atomic<std::uint64_t> version_{0};
  std::atomic<int> kind_{kNone};
  std::array<std::atomic<std::uint64_t>, kWords> words_{};
};

}  // namespace yoke::detail
