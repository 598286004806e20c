// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/queue_copies.h: queues copies together with the tensor's name, for error messages.
#pragma once

#include <yoke/runtime/device.h>

#include <array>
#include <string_view>

#include "schedule/hazards.h"

namespace yoke::detail {

struct StreamState;

// Like Stream's functions of the same names. `label` is the name of the tensor, or empty.
void queue_from_host(StreamState& state, const BufferView& dst, const void* src, std::string_view label);
void queue_to_host(StreamState& state, void* dst, const BufferView& src, std::string_view label);
void queue_copy(StreamState& state, const BufferView& dst, const BufferView& src, std::string_view label);

// The two accesses of a copy, in locking order.
std::array<Access, 2> in_order(const Access& a, const Access& b);

// Whether a copy between the two devices goes through host memory.
bool is_staged(const Device& dst, const Device& src);

}  // namespace yoke::detail
