// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/native.h: the strategy `native`, which leaves collectives to the backend.
#pragma once

#include <yoke/runtime/collective.h>

#include <cstdint>
#include <memory>
#include <span>

namespace yoke::detail {

// Throws Error kFailedPrecondition, with the reason, unless the backend of these contexts has collectives for
// this number of members that can add up elements of these types.
void check_native(std::span<const Context> members, std::span<const std::int32_t> types);

// Joins the members' communicators. Also throws the backend's errors.
std::unique_ptr<Collectives> create_native(std::span<const Context> members, MergeUse use,
                                           std::shared_ptr<yoke::CodeCache> codes);

}  // namespace yoke::detail
