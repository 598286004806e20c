// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/backend.h: the plugin: its options and devices.
#pragma once

#include <yoke/sdk/plugin.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "machine.h"

namespace yoke::gpu {

class Backend : public sdk::Backend {
 public:
  sdk::Provides provides() const override;
  std::uint32_t device_count() override { return static_cast<std::uint32_t>(machine().devices().size()); }
  std::string why_no_device() override { return machine().why_none(); }
  sdk::DeviceInfo describe(std::uint32_t ordinal) override { return machine().devices().at(ordinal).info; }
  std::vector<sdk::OptionSpec> option_specs() override;
  std::unique_ptr<sdk::Device> open_device(std::uint32_t ordinal, const sdk::Options& options) override;
  void queue_collectives(std::span<const sdk::Collective> rows) override;

 protected:
  virtual std::unique_ptr<Vendor> make_vendor() const = 0;

 private:
  Machine& machine() const;

  mutable std::once_flag made_;
  mutable std::shared_ptr<Machine> machine_;
};

// The Backend of a vendor, for YOKE_SDK_PLUGIN.
template <class VendorType>
class BackendOf final : public Backend {
 protected:
  std::unique_ptr<Vendor> make_vendor() const override { return std::make_unique<VendorType>(); }
};

}  // namespace yoke::gpu
