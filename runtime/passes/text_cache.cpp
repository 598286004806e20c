// SPDX-License-Identifier: Apache-2.0
// runtime/passes/text_cache.cpp: a map with a lock per key, and a list in the order of use.
#include "passes/text_cache.h"

namespace yoke::detail {

TextCache::Text TextCache::get(const std::string& key, const std::function<std::string()>& make) {
  const std::shared_ptr<Slot> slot = find(key);
  const std::lock_guard lock(slot->mutex);
  if (slot->text == nullptr) {
    slot->text = std::make_shared<const std::string>(make());
    ++made_count_;
    keep(key, *slot);
  }
  return slot->text;
}

// The slot of the key, which becomes the one used last.
std::shared_ptr<TextCache::Slot> TextCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  // Rows of calls that threw, and of texts that are too large to be kept.
  std::erase_if(rows_, [](const auto& each) {
    return each.second.byte_count == 0 && each.second.slot.use_count() <= 1;
  });
  Row& row = rows_.try_emplace(key).first->second;
  if (row.slot == nullptr) {
    row.slot = std::make_shared<Slot>();
  } else if (row.byte_count != 0) {
    order_.splice(order_.end(), order_, row.place);
  }
  return row.slot;
}

// Drops those that were used longest ago to make room for a new text.
void TextCache::keep(const std::string& key, const Slot& slot) {
  const std::lock_guard lock(mutex_);
  const std::size_t byte_count = key.size() + slot.text->size();
  if (byte_count > most_bytes_) {
    return;
  }
  const auto found = rows_.find(key);
  found->second.place = order_.insert(order_.end(), &found->first);
  found->second.byte_count = byte_count;
  byte_count_ += byte_count;
  while (byte_count_ > most_bytes_) {
    const auto oldest = rows_.find(*order_.front());
    byte_count_ -= oldest->second.byte_count;
    order_.pop_front();
    rows_.erase(oldest);
  }
}

TextCache& optimized_texts() {
  constexpr std::size_t kMostBytes = std::size_t{4} << 20U;
  static TextCache& cache =
      *new TextCache(kMostBytes);  // never destroyed, because programs may be compiled at exit
  return cache;
}

}  // namespace yoke::detail
