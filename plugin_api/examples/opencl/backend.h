// SPDX-License-Identifier: Apache-2.0
// backend.h: the entry point of the SDK: devices and options.
#pragma once

#include <yoke/sdk/plugin.h>

#include <memory>
#include <mutex>
#include <vector>

#include "device.h"

namespace ocl {

class Backend final : public yoke::sdk::Backend {
 public:
  yoke::sdk::Provides provides() const override {
    return {.streams = true, .programs = true, .peers = true, .memory = true, .faults = true};
  }
  std::uint32_t device_count() override { return static_cast<std::uint32_t>(machine().devices.size()); }
  std::string why_no_device() override { return machine().why_none; }
  yoke::sdk::DeviceInfo describe(std::uint32_t ordinal) override { return machine().devices[ordinal].info; }
  std::vector<yoke::sdk::OptionSpec> option_specs() override;
  std::unique_ptr<yoke::sdk::Device> open_device(std::uint32_t ordinal,
                                                 const yoke::sdk::Options& options) override;

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<Context>> contexts_;  // by ordinal; open handles keep them alive
};

}  // namespace ocl
