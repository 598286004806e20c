// SPDX-License-Identifier: Apache-2.0
// runtime/passes/text_cache.h: keeps the texts that were used last, as the optimized forms of programs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace yoke::detail {

// Maps a text to another one that is made from it. Thread-safe.
class TextCache {
 public:
  using Text = std::shared_ptr<const std::string>;

  // Keeps the texts that were used last, with their keys, as long as they have at most `most_bytes`.
  explicit TextCache(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // The text for `key`: a kept one, or what make() returns. Of several threads with one key, one makes it, and the others
  // wait. If make() throws, its exception is passed on, and the next caller tries again.
  Text get(const std::string& key, const std::function<std::string()>& make);

  // How many texts were made so far.
  std::uint64_t made_count() const { return made_count_; }

 private:
  struct Slot {
    std::mutex mutex;
    Text text;  // empty: not made yet
  };
  struct Row {
    std::shared_ptr<Slot> slot;
    std::size_t byte_count = 0;                          // 0: not kept
    std::list<const std::string*>::iterator place = {};  // in order_, of a row that is kept
  };

  std::shared_ptr<Slot> find(const std::string& key);
  void keep(const std::string& key, const Slot& slot);

  const std::size_t most_bytes_;
  std::atomic<std::uint64_t> made_count_{0};
  std::mutex mutex_;  // locked after a slot's
  std::map<std::string, Row> rows_;
  std::list<const std::string*> order_;  // keys of rows_ that are kept, the one used last at the end
  std::size_t byte_count_ = 0;           // of these
};

// The canonical texts of programs after optimize(), by those before it, for all runtimes of the process.
TextCache& optimized_texts();

}  // namespace yoke::detail
