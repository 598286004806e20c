// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/queue_copies.h: copies with the name of their tensor, so that messages can say which one
// failed.
#pragma once

#include <yoke/runtime/device.h>

#include <string_view>

namespace yoke::detail {

struct StreamState;

// As Stream's functions of the same names.
void queue_from_host(StreamState& state, const BufferView& dst, const void* src, std::string_view label);
void queue_to_host(StreamState& state, void* dst, const BufferView& src, std::string_view label);
void queue_copy(StreamState& state, const BufferView& dst, const BufferView& src, std::string_view label);

// Does a copy between the two go through host memory?
bool is_staged(const Device& dst, const Device& src);

}  // namespace yoke::detail
