// SPDX-License-Identifier: Apache-2.0
// runtime/layers/error_slots.h: status objects that a layer lends to its plugin for one call, and the host
// table that goes with them.
#pragma once

#include <yoke/plugin.h>

#include "layers/layer.h"

namespace yoke::layers {

// A slot for the time of one call.
class OpenSlot {
 public:
  OpenSlot(Layer& layer, Call& call);
  OpenSlot(Layer& layer, yoke_error* outer, const char* call);
  ~OpenSlot();
  OpenSlot(const OpenSlot&) = delete;
  OpenSlot& operator=(const OpenSlot&) = delete;

  ErrorSlot* get() const noexcept { return slot_; }

 private:
  ErrorSlot* slot_;
};

// `host`: what the plugin of `layer` gets, with as much as `outer` offers in its first `known` bytes.
void fill_host(Layer& layer, yoke_host_api& host, const yoke_host_api& outer, std::uint64_t known);

}  // namespace yoke::layers
