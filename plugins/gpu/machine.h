// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/machine.h: the devices of one driver.
#pragma once

#include <yoke/sdk/plugin.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "host_memory.h"
#include "library.h"

namespace yoke::gpu {

class Context;

struct Hardware {
  std::uint32_t ordinal = 0;  // among the devices that can be described
  int device = 0;             // the driver's number
  codegen::Target target;
  sdk::DeviceInfo info;
};

// A compiled program, shared by all devices of one architecture.
struct Image {
  std::mutex mutex;  // held while it is compiled
  std::string bytes;
};

// The driver and its devices. Shared by the backend and its contexts.
class Machine : public std::enable_shared_from_this<Machine> {
 public:
  Machine(std::unique_ptr<Vendor> vendor, const sdk::Host& host)
      : host_(host),
        vendor_(std::move(vendor)),
        library_(*vendor_),
        host_memory_(*vendor_, library_.driver()) {}

  // The first call starts the driver.
  const std::vector<Hardware>& devices();
  const std::string& why_none() const noexcept { return why_none_; }
  // The context of a device, shared by all its handles.
  std::shared_ptr<Context> context(std::uint32_t ordinal);
  // The image with this key. It lives as long as a caller holds it.
  std::shared_ptr<Image> image(const std::string& key);

  const sdk::Host& host() const noexcept { return host_; }
  const Vendor& vendor() const noexcept { return *vendor_; }
  const Driver& driver() const noexcept { return library_.driver(); }
  Library& library() noexcept { return library_; }
  HostMemory& host_memory() noexcept { return host_memory_; }
  int driver_version() const noexcept { return driver_version_; }

 private:
  void start();
  std::string why_driver_fails(const char* function, int code) const;
  Hardware describe(int number) const;
  int attribute(int number, int device, int otherwise) const;

  sdk::Host host_;
  std::unique_ptr<Vendor> vendor_;
  Library library_;
  HostMemory host_memory_;
  int driver_version_ = 0;
  std::vector<Hardware> devices_;
  std::string why_none_;
  std::once_flag started_;
  std::mutex mutex_;
  std::map<std::uint32_t, std::weak_ptr<Context>> contexts_;
  std::map<std::string, std::weak_ptr<Image>> images_;
};

}  // namespace yoke::gpu
