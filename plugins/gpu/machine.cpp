// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/machine.cpp: starts the driver, lists its devices, and explains why there are none.
#include "machine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "context.h"

namespace yoke::gpu {
namespace {

// The variable that hides all devices, or null.
const char* hiding_variable(const VendorFacts& facts) {
  for (const char* name : facts.visible_variables) {
    const char* value = ::getenv(name);
    if (value != nullptr && (*value == '\0' || *value == '-')) {
      return name;
    }
  }
  return nullptr;
}

// A device node that exists but that this process may not use, or null.
const char* forbidden_node(const VendorFacts& facts) {
  for (const char* node : facts.nodes) {
    if (::access(node, F_OK) == 0 && ::access(node, R_OK | W_OK) != 0 && errno == EACCES) {
      return node;
    }
  }
  return nullptr;
}

std::string hexadecimal(const std::array<unsigned char, 16>& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    std::array<char, 3> digits = {};
    (void)std::snprintf(digits.data(), digits.size(), "%02x", byte);
    text += digits.data();
  }
  return text;
}

}  // namespace

std::string Machine::why_driver_fails(const char* function, int code) const {
  const VendorFacts& facts = vendor_->facts();
  if (const char* node = forbidden_node(facts)) {
    return "this user may not use " + std::string(node) + "; " + facts.permission_hint;
  }
  if (const char* variable = hiding_variable(facts)) {
    return std::string(variable) +
           " hides every device; unset it, or set it to the numbers of the devices to use";
  }
  if (code == 0 || code == kNoDevice || code == kInvalidDevice) {
    return std::string("the ") + facts.display +
           " driver finds no device; check that the machine has one and that its kernel module is loaded";
  }
  return std::string(function) + " failed: " + vendor_->error_text(code) + "; " + facts.driver_hint;
}

void Machine::start() {
  why_none_ = library_.open_driver();
  if (!why_none_.empty()) {
    return;
  }
  const VendorFacts& facts = vendor_->facts();
  if (const int code = driver().init(0); code != 0) {
    why_none_ = why_driver_fails(driver().init.name, code);
    return;
  }
  if (const int code = driver().driver_version(&driver_version_); code != 0) {
    why_none_ = why_driver_fails(driver().driver_version.name, code);
    return;
  }
  if (driver_version_ < facts.oldest_driver) {
    why_none_ = "the driver is too old: it supports " + std::string(facts.display) + " " +
                version_text(facts, driver_version_) + ", and yoke needs " +
                version_text(facts, facts.oldest_driver) + "; " + facts.driver_hint;
    return;
  }
  int count = 0;
  const int code = driver().device_count(&count);
  if (code != 0 || count == 0) {
    why_none_ = why_driver_fails(driver().device_count.name, code);
    return;
  }
  for (int i = 0; i < count; ++i) {
    try {
      Hardware hardware = describe(i);
      hardware.ordinal = static_cast<std::uint32_t>(devices_.size());
      devices_.push_back(std::move(hardware));
    } catch (const sdk::Failure& failure) {
      why_none_ = why_none_.empty() ? failure.text() : why_none_;
      host_.log(YOKE_LOG_WARN, "device.skip backend=" + std::string(facts.name) +
                                   " device=" + std::to_string(i) + " reason=\"" + failure.text() + "\"");
    }
  }
  if (!devices_.empty()) {
    why_none_.clear();
  }
}

int Machine::attribute(int number, int device, int otherwise) const {
  int value = 0;
  return driver().device_attribute(&value, number, device) == 0 && value > 0 ? value : otherwise;
}

Hardware Machine::describe(int number) const {
  const auto check = [&](const auto& function, auto... arguments) {
    if (const int code = function(arguments...); code != 0) {
      const sdk::Failure failure = failure_of(*vendor_, function.name, code);
      throw sdk::Failure(failure.code(), "device " + std::to_string(number) + ": " + failure.text(), code);
    }
  };
  const VendorFacts& facts = vendor_->facts();
  Hardware hardware;
  check(driver().device_get, &hardware.device, number);
  std::array<char, 100> name = {};
  check(driver().device_name, name.data(), static_cast<int>(name.size() - 1), hardware.device);
  std::array<unsigned char, 16> uuid = {};
  check(driver().device_uuid, static_cast<void*>(uuid.data()), hardware.device);
  std::array<char, 64> bus = {};
  check(driver().device_pci_bus_id, bus.data(), static_cast<int>(bus.size() - 1), hardware.device);
  std::size_t byte_count = 0;
  check(driver().device_total_memory, &byte_count, hardware.device);

  codegen::Target& target = hardware.target;
  if (const int code = vendor_->identify(driver(), hardware.device, target); code != 0) {
    throw failure_of(*vendor_, facts.identify_function, code);
  }
  target.warp_size = static_cast<std::uint32_t>(attribute(facts.warp_size, hardware.device, 32));
  target.max_threads = static_cast<std::uint32_t>(attribute(facts.threads_per_block, hardware.device, 1024));
  target.shared_bytes =
      static_cast<std::uint32_t>(attribute(facts.shared_bytes_per_block, hardware.device, 48 * 1024));

  sdk::DeviceInfo& info = hardware.info;
  info.name = std::string(name.data()) + " (" + target.architecture + ")";
  // The UUID is zero on some older devices; the bus id is unique within the machine.
  info.unique_id = std::string(facts.name) + ":" + hexadecimal(uuid) + ":" + bus.data();
  info.memory_bytes = byte_count;
  info.types = {YOKE_TYPE_F64, YOKE_TYPE_F32, YOKE_TYPE_F16, YOKE_TYPE_BF16, YOKE_TYPE_I64,
                YOKE_TYPE_I32, YOKE_TYPE_U32, YOKE_TYPE_U8,  YOKE_TYPE_BOOL};
  info.kind = YOKE_DEVICE_GPU;
  info.compute_unit_count =
      static_cast<std::uint32_t>(attribute(facts.multiprocessor_count, hardware.device, 1));
  info.suggested_stream_count = 4;
  return hardware;
}

const std::vector<Hardware>& Machine::devices() {
  std::call_once(started_, [this] { start(); });
  return devices_;
}

std::shared_ptr<Context> Machine::context(std::uint32_t ordinal) {
  const Hardware& hardware = devices().at(ordinal);
  const std::lock_guard lock(mutex_);
  std::weak_ptr<Context>& known = contexts_[ordinal];
  std::shared_ptr<Context> context = known.lock();
  if (context == nullptr) {
    context = std::make_shared<Context>(shared_from_this(), hardware);
    known = context;
  }
  return context;
}

std::shared_ptr<Image> Machine::image(const std::string& key) {
  const std::lock_guard lock(mutex_);
  std::erase_if(images_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Image>& known = images_[key];
  std::shared_ptr<Image> image = known.lock();
  if (image == nullptr) {
    image = std::make_shared<Image>();
    known = image;
  }
  return image;
}

}  // namespace yoke::gpu
