// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/profile.h: the records of one device handle ("yoke.profile/1"). Work
// on a stream is timed by an event before it and one after it.
#pragma once

#include <yoke/ext/profile.h>
#include <yoke/sdk/plugin.h>
#include <yoke/sdk/sized.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace yoke::sdk::detail {

// Every piece of work checks is_on(); while it is off that costs one load. Thread-safe.
class Profile {
 public:
  bool is_on() const noexcept { return is_on_.load(std::memory_order_relaxed); }

  void start(std::uint64_t capacity) {
    constexpr std::uint64_t kDefault = 65536;
    std::deque<Item> dropped;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    dropped.swap(items_);
    lost_ = 0;
    capacity_ = capacity == 0 ? kDefault : capacity;
    is_on_ = true;
  }
  void stop() noexcept { is_on_ = false; }
  // Before the device is closed: the events must not outlive it.
  void clear() {
    const std::lock_guard lock(mutex_);
    items_.clear();
  }

  // One piece of work, from begin() to end().
  struct Item {
    yoke_profile_record record{};
    std::unique_ptr<Event> begin;  // null: a null stream; the record has its times
    std::unique_ptr<Event> end;
  };
  // Called before and after the work is queued on `queue`, or done if that is null.
  static Item begin(yoke_stream* stream, Stream* queue, std::int32_t kind, std::string_view name) {
    Item item;
    item.record.stream = stream;
    item.record.kind = kind;
    set_text(item.record.name, name);
    if (queue == nullptr) {
      item.record.begin_ns = now_ns();
    } else {
      item.begin = queue->record(true);
    }
    return item;
  }
  void end(Item item, Stream* queue) {
    if (queue == nullptr) {
      item.record.end_ns = now_ns();
    } else {
      try {
        item.end = queue->record(true);
      } catch (const Failure&) {  // the device was lost after the work was queued, which succeeded
        const std::lock_guard lock(mutex_);
        ++lost_;
        return;
      }
    }
    const std::lock_guard lock(mutex_);
    if (items_.size() < capacity_) {
      items_.push_back(std::move(item));
    } else {
      ++lost_;
    }
  }

  // Takes at most `most` records of finished work.
  std::vector<yoke_profile_record> take(std::uint64_t most, std::uint64_t& out_lost) {
    std::vector<yoke_profile_record> records;
    std::deque<Item> done;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    std::deque<Item> rest;
    for (Item& item : items_) {
      const std::int32_t state = item.end == nullptr ? YOKE_STATE_DONE : item.end->state();
      if (records.size() == most || state == YOKE_STATE_PENDING) {
        rest.push_back(std::move(item));
        continue;
      }
      if (state == YOKE_STATE_DONE) {
        if (item.end != nullptr) {
          item.record.begin_ns = item.begin->time_ns();
          item.record.end_ns = std::max(item.record.begin_ns, item.end->time_ns());
        }
        records.push_back(item.record);
      }
      done.push_back(std::move(item));
    }
    items_.swap(rest);
    out_lost = std::exchange(lost_, 0);
    return records;
  }

 private:
  static std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  }

  std::atomic<bool> is_on_{false};
  std::mutex mutex_;
  std::deque<Item> items_;  // in the order of the calls
  std::uint64_t capacity_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace yoke::sdk::detail
