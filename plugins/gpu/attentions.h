// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/attentions.h: attention that the vendor's library computes on one device.
#pragma once

#include <optional>

#include "device_library.h"

namespace yoke::gpu {

// The library of convolutions, in a release that computes attention. Thread-safe.
class Attentions final : public DnnLibrary {
 public:
  explicit Attentions(Context& context);

  Planned plan(const codegen::LibraryAttention& attention);
};

// The interface to the library that the kernel generator uses.
class AttentionChooser final : public codegen::VendorLibrary<codegen::LibraryAttention> {
 public:
  explicit AttentionChooser(Attentions& attentions) : attentions_(attentions) {}
  const char* name() const override { return attentions_.vendor().facts().dnn.library.name; }
  bool is_available() override { return attentions_.is_available(); }
  std::optional<std::uint64_t> workspace_for(const codegen::LibraryAttention& call) override;

 private:
  Attentions& attentions_;
};

}  // namespace yoke::gpu
