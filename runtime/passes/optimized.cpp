// SPDX-License-Identifier: Apache-2.0
// runtime/passes/optimized.cpp: keeps the programs that were optimized last.
#include "passes/optimized.h"

#include <yoke/program/text.h>
#include <yoke/runtime/passes.h>

#include <list>
#include <map>
#include <mutex>
#include <utility>

namespace yoke::passes {
namespace {

using Result = std::shared_ptr<const OptimizedModule>;

class Cache {
 public:
  Result get(const std::string& text, const program::Module& module) {
    const std::shared_ptr<Slot> slot = find(text);
    const std::lock_guard lock(slot->mutex);
    if (slot->result == nullptr) {
      slot->result = make(module);
      keep(text, slot);
    }
    return slot->result;
  }

 private:
  struct Slot {
    std::mutex mutex;
    Result result;  // empty: not yet, or optimize() threw
  };
  struct Row {
    std::shared_ptr<Slot> slot;
    std::size_t byte_count = 0;
    std::list<const std::string*>::iterator place = {};  // in order_; of rows with bytes
  };

  static Result make(const program::Module& module) {
    auto made = std::make_shared<OptimizedModule>();
    made->module = module;
    for (program::Program& program : made->module.programs) {
      program = optimize(std::move(program)).program;
    }
    made->text = program::print(made->module);
    return made;
  }

  // The slot of the text, which becomes the last one used.
  std::shared_ptr<Slot> find(const std::string& text) {
    const std::lock_guard lock(mutex_);
    std::erase_if(rows_, [](const auto& each) {  // of calls that threw
      return each.second.byte_count == 0 && each.second.slot.use_count() <= 1;
    });
    const auto found = rows_.try_emplace(text).first;
    Row& row = found->second;
    if (row.slot == nullptr) {
      row.slot = std::make_shared<Slot>();
    } else if (row.byte_count != 0) {
      order_.splice(order_.end(), order_, row.place);
    }
    return row.slot;
  }

  // Counts a new result, and forgets the oldest ones if they are too many.
  void keep(const std::string& text, const std::shared_ptr<Slot>& slot) {
    const std::lock_guard lock(mutex_);
    const auto found = rows_.find(text);
    found->second.place = order_.insert(order_.end(), &found->first);
    found->second.byte_count = text.size() + slot->result->text.size();
    byte_count_ += found->second.byte_count;
    while (byte_count_ > kMostOptimizedBytes) {
      const auto oldest = rows_.find(*order_.front());
      byte_count_ -= oldest->second.byte_count;
      order_.pop_front();
      rows_.erase(oldest);
    }
  }

  std::mutex mutex_;
  std::map<std::string, Row> rows_;
  std::list<const std::string*> order_;  // keys of rows_ with results, the one used last at the end
  std::size_t byte_count_ = 0;
};

}  // namespace

std::shared_ptr<const OptimizedModule> optimized(const std::string& text, const program::Module& module) {
  static Cache cache;
  return cache.get(text, module);
}

}  // namespace yoke::passes
