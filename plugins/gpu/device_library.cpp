// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/device_library.cpp: opens a library of the vendor for a device, and keeps what it planned.
#include "device_library.h"

#include <yoke/plugin.h>

#include <new>

#include "context.h"

namespace yoke::gpu {

DeviceLibrary::DeviceLibrary(Context& context, LibraryFacts facts, std::string kind, std::string option)
    : context_(context), facts_(std::move(facts)), kind_(std::move(kind)), option_(std::move(option)) {}

DeviceLibrary::~DeviceLibrary() {
  if (handles_.empty()) {
    return;
  }
  if (const Current current = context_.try_enter()) {
    for (void* handle : handles_) {
      (void)(*opened_.destroy)(handle);
    }
  }
}

const Vendor& DeviceLibrary::vendor() const noexcept {
  return context_.vendor();
}

void DeviceLibrary::check(const char* name, int code) const {
  if (code != 0) [[unlikely]] {
    throw sdk::Failure(YOKE_STATUS_UNAVAILABLE,
                       context_.hardware().info.name + ": " + name + " failed with status " +
                           std::to_string(code) + "; set the option " + option_ + "=off to run without " +
                           facts_.name,
                       code);
  }
}

void DeviceLibrary::check_launch(const char* name, int code) const {
  if (code != 0) [[unlikely]] {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    const auto& query = context_.driver().memory_info;
    if (const int state = query(&free_bytes, &total_bytes); is_sticky(state)) {
      context_.fail(query.name, state);
    }
  }
  check(name, code);
}

std::string DeviceLibrary::find_fault() {
  opened_ = open();
  if (!opened_.fault.empty()) {
    return opened_.fault;
  }
  try {
    check(facts_.version_function, version(take_handle().get(), version_));
  } catch (const sdk::Failure& failure) {
    return failure.text();
  }
  const auto text = [&](int version) {
    return std::to_string(version / facts_.major_unit) + "." +
           std::to_string(version % facts_.major_unit / facts_.minor_unit);
  };
  return version_ >= facts_.oldest
             ? ""
             : "its version is " + text(version_) + ", and yoke needs " + text(facts_.oldest);
}

bool DeviceLibrary::is_available() {
  std::call_once(once_, [this] {
    const std::string fault = find_fault();
    is_available_ = fault.empty();
    const std::string end =
        " device=" + std::to_string(context_.hardware().ordinal) + " library=" + facts_.name +
        (is_available_ ? " version=" + std::to_string(version_) : " reason=\"" + fault + "\"");
    context_.machine().host().log(is_available_ ? YOKE_LOG_INFO : YOKE_LOG_WARN,
                                  kind_ + (is_available_ ? "s.open" : "s.skip") + end);
  });
  return is_available_;
}

DeviceLibrary::Handle DeviceLibrary::take_handle() {
  {
    const std::lock_guard lock(handles_mutex_);
    if (!handles_.empty()) {
      Handle handle(handles_.back(), {this});
      handles_.pop_back();
      return handle;
    }
  }
  const Current current = context_.enter();
  void* handle = nullptr;
  check(opened_.create->name, (*opened_.create)(&handle));
  return Handle(handle, {this});
}

void DeviceLibrary::give_back(void* handle) noexcept {
  try {
    const std::lock_guard lock(handles_mutex_);
    handles_.push_back(handle);
  } catch (const std::bad_alloc&) {
    if (const Current current = context_.try_enter()) {
      (void)(*opened_.destroy)(handle);
    }
  }
}

DeviceLibrary::Planned DeviceLibrary::plan(const std::string& text,
                                           const std::function<std::shared_ptr<PlannedCall>()>& make,
                                           bool keeps_failures) {
  if (!is_available()) {
    return nullptr;
  }
  const std::string key = std::string(facts_.name) + " " + std::to_string(version_) + " " + text;
  const std::lock_guard lock(mutex_);
  const auto known = planned_.find(key);
  if (known != planned_.end()) {
    return known->second;
  }
  std::string fault = "it has no algorithm";
  std::int32_t level = YOKE_LOG_DEBUG;
  bool may_pass = false;
  std::shared_ptr<PlannedCall> made;
  try {
    made = make();
  } catch (const sdk::Failure& failure) {
    fault = failure.text();
    level = YOKE_LOG_WARN;
    may_pass = !keeps_failures;
  }
  if (made != nullptr) {
    made->identity.insert(0, key);
  }
  context_.machine().host().log(
      level,
      kind_ + "s.plan device=" + std::to_string(context_.hardware().ordinal) + " " + kind_ + "=\"" +
          (made != nullptr ? made->identity + "\" workspace=" + std::to_string(made->workspace_byte_count)
                           : key + "\" skipped=\"" + fault + "\""));
  if (!may_pass) {
    planned_[key] = made;
  }
  return made;
}

DeviceLibrary::Opened DnnLibrary::open() {
  Library& library = context().machine().library();
  dnn_ = library.dnn();
  return dnn_ == nullptr ? Opened{library.dnn_fault()} : Opened{{}, &dnn_->create, &dnn_->destroy};
}

int DnnLibrary::version(void*, int& version) {
  return vendor().dnn_version(*dnn_, version);
}

}  // namespace yoke::gpu
