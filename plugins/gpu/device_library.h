// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/device_library.h: what products, convolutions and attention of the vendor's libraries have in common.
//
// The libraries are optional. They choose an algorithm when a program is compiled, without timing, and a routine
// launches it, also within a graph.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "driver.h"

namespace yoke::gpu {

class Context;
class DeviceLibrary;

struct LibraryOptions {
  bool vendor = true;         // use libraries
  bool tf32 = false;          // f32 factors are rounded to 10 bits
  bool relu = false;          // the library of products may apply relu, which may turn NaN into 0
  bool convolutions = false;  // use the library of convolutions, which may turn padding into NaN
  bool attention = false;     // use the library of convolutions for attention, which rounds elsewhere
};

// An object of a library, destroyed with its owner.
class LibraryObject {
 public:
  explicit LibraryObject(const Function<int(void*)>& destroy) : destroy_(&destroy) {}
  LibraryObject(LibraryObject&& other) noexcept
      : handle(std::exchange(other.handle, nullptr)), destroy_(other.destroy_) {}
  LibraryObject& operator=(LibraryObject&&) = delete;
  LibraryObject(const LibraryObject&) = delete;
  LibraryObject& operator=(const LibraryObject&) = delete;
  ~LibraryObject() {
    if (handle != nullptr) {
      (void)(*destroy_)(handle);
    }
  }

  void* handle = nullptr;

 private:
  const Function<int(void*)>* destroy_;
};

// A call that is bound to memory.
class LinkedCall {
 public:
  virtual ~LinkedCall() = default;
  // Precondition: the context is current.
  virtual void launch(void* stream) const = 0;

 protected:
  LinkedCall() = default;
  LinkedCall(const LinkedCall&) = delete;
  LinkedCall& operator=(const LinkedCall&) = delete;
};

// A call with its algorithm. Immutable, shared by all routines that make it.
class PlannedCall {
 public:
  explicit PlannedCall(DeviceLibrary& owner) : library(owner) {}
  virtual ~PlannedCall() = default;
  PlannedCall(const PlannedCall&) = delete;
  PlannedCall& operator=(const PlannedCall&) = delete;
  // `addresses` are those of the launch's slots. `handle` is the library's.
  virtual std::unique_ptr<LinkedCall> link(const codegen::Launch& launch, std::span<const Address> addresses,
                                           void* handle) const = 0;

  DeviceLibrary& library;
  std::string
      identity;  // of the library, the call, the options and the algorithm: results may depend on them
  std::uint64_t workspace_byte_count = 0;
};

// One device's use of a library. Thread-safe.
class DeviceLibrary {
 public:
  using Planned = std::shared_ptr<const PlannedCall>;

  virtual ~DeviceLibrary();
  DeviceLibrary(const DeviceLibrary&) = delete;
  DeviceLibrary& operator=(const DeviceLibrary&) = delete;

  // Whether the library can be used. The first call opens it, and logs its version or why it is not used.
  bool is_available();

  // A handle of the library. Work with the same handle must not run at the same time: handles may own memory.
  // Destroying a Handle keeps the library's handle for the next call.
  struct GiveBack {
    DeviceLibrary* library = nullptr;
    void operator()(void* handle) const noexcept { library->give_back(handle); }
  };
  using Handle = std::unique_ptr<void, GiveBack>;
  Handle take_handle();

  // Throws YOKE_STATUS_UNAVAILABLE, with the name of the function, unless `code` is 0.
  void check(const char* name, int code) const;
  // Like check, for launches, which also fail if earlier work has lost the device. Precondition: the context
  // is current.
  void check_launch(const char* name, int code) const;
  const Vendor& vendor() const noexcept;
  Context& context() const noexcept { return context_; }

 protected:
  // `kind` is what it computes, for the log: "product". `option` turns it off.
  DeviceLibrary(Context& context, LibraryFacts facts, std::string kind, std::string option);

  struct Opened {
    std::string fault;  // why the library cannot be used
    const Function<int(void** handle)>* create = nullptr;
    const Function<int(void* handle)>* destroy = nullptr;
  };
  virtual Opened open() = 0;
  virtual int version(void* handle, int& version) = 0;

  // Returns the call that `make` makes. Returns null if it makes none, because the library does not support the
  // call, or if it fails. Equal texts get the same object. After a failure the next call asks the library again,
  // unless it `keeps_failures`.
  Planned plan(const std::string& text, const std::function<std::shared_ptr<PlannedCall>()>& make,
               bool keeps_failures = false);

 private:
  std::string find_fault();
  void give_back(void* handle) noexcept;

  Context& context_;
  LibraryFacts facts_;
  std::string kind_;
  std::string option_;
  Opened opened_;
  int version_ = 0;
  bool is_available_ = false;
  std::once_flag once_;
  std::mutex mutex_;
  std::map<std::string, Planned> planned_;  // null: unsupported, or a kept failure
  std::mutex handles_mutex_;
  std::vector<void*> handles_;  // free ones
};

// The vendor's library of convolutions, which may compute attention, too.
class DnnLibrary : public DeviceLibrary {
 public:
  const Dnn& dnn() const noexcept { return *dnn_; }

 protected:
  using DeviceLibrary::DeviceLibrary;

 private:
  Opened open() override;
  int version(void* handle, int& version) override;

  const Dnn* dnn_ = nullptr;
};

}  // namespace yoke::gpu
