// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/objects.h: handles, which never repeat, so that use after destroy is found.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "settings.h"
#include "vendor.h"

namespace fake_gpu {

// The live objects of one kind. A handle is a number, not an address; a caller that dereferences it
// crashes.
template <class T>
class Objects {
 public:
  Objects(const char* name, std::uintptr_t kind) : name_(name), next_(kind << 44) {}

  void* add(std::shared_ptr<T> object) {
    const std::scoped_lock lock(mutex_);
    next_ += 16;
    all_[next_] = std::move(object);
    return reinterpret_cast<void*>(next_);  // NOLINT(performance-no-int-to-ptr)
  }

  std::shared_ptr<T> get(void* handle) {
    const std::scoped_lock lock(mutex_);
    const auto at = all_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (at == all_.end()) {
      refuse(handle);
    }
    return at->second;
  }

  std::shared_ptr<T> remove(void* handle) {
    const std::scoped_lock lock(mutex_);
    const auto at = all_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (at == all_.end()) {
      refuse(handle);
    }
    auto object = std::move(at->second);
    all_.erase(at);
    return object;
  }

  template <class Predicate>
  void remove_if(const Predicate& predicate) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(all_, [&](const auto& entry) { return predicate(*entry.second); });
  }

  // The number of live objects of a device, or of all.
  std::size_t count(int device = -1) {
    const std::scoped_lock lock(mutex_);
    std::size_t result = 0;
    for (const auto& [handle, object] : all_) {
      result += device < 0 || object->device == device ? std::size_t{1} : 0;
    }
    return result;
  }

  std::vector<std::shared_ptr<T>> of_device(int device) {
    const std::scoped_lock lock(mutex_);
    std::vector<std::shared_ptr<T>> result;
    for (const auto& [handle, object] : all_) {
      if (object->device == device) {
        result.push_back(object);
      }
    }
    return result;
  }

 private:
  [[noreturn]] void refuse(void* handle) {
    const auto value = reinterpret_cast<std::uintptr_t>(handle);
    const bool known = value >> 44 == next_ >> 44 && value <= next_;
    complain(std::string(known ? "use of a destroyed " : "a handle is not of the kind ") + name_);
    throw Error{kInvalidHandle};
  }

  const char* name_;
  std::mutex mutex_;
  std::uintptr_t next_;
  std::map<std::uintptr_t, std::shared_ptr<T>> all_;
};

}  // namespace fake_gpu
