// SPDX-License-Identifier: Apache-2.0
// runtime/layers/trace_argument.h: an argument of a call that has returned, as the fields of its record.
#pragma once

#include "layers/layer.h"
#include "layers/trace_format.h"
#include "layers/trace_writer.h"

namespace yoke::layers {

// Contents that belong to it become records of their own.
void encode_argument(const Call& call, std::size_t i, Encoder& to, TraceWriter& writer);

}  // namespace yoke::layers
