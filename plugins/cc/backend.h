// SPDX-License-Identifier: Apache-2.0
// plugins/cc/backend.h: the CPU backend: devices that divide the cores, their memory, compiled programs.
#pragma once

#include <yoke/sdk/plugin.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "machine.h"

namespace yoke::cc {

class Backend : public sdk::Backend {
 public:
  sdk::Provides provides() const override {
    return {.streams = false, .programs = true, .peers = true, .memory = true, .faults = true};
  }
  std::vector<sdk::OptionSpec> option_specs() override;
  void configure(const sdk::Options& options) override;
  std::uint32_t device_count() override { return static_cast<std::uint32_t>(cells().size()); }
  sdk::DeviceInfo describe(std::uint32_t ordinal) override;
  std::unique_ptr<sdk::Device> open_device(std::uint32_t ordinal, const sdk::Options& options) override;

 private:
  const std::vector<Cell>& cells();  // [any-thread]; reads the machine's cores in the first call

  std::size_t wanted_device_count_ = 0;
  std::once_flag counted_;
  std::vector<Cell> cells_;
};

}  // namespace yoke::cc
