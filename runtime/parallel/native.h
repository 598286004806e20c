// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/native.h: the strategy `native`, which leaves collectives to the backend.
#pragma once

#include <yoke/runtime/collective.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace yoke::detail {

// Throws Error kFailedPrecondition, with the reason, unless the backend of these contexts has collectives for
// this number of members that can add up elements of these types.
void check_native(std::span<const Context> members, std::span<const std::int32_t> types);

// Throws Error kInvalidArgument if the group has members in other processes, and the strategy cannot include them, or
// the ranks or the id are wrong.
void check_processes(const ProcessGroup& processes, MergeStrategy strategy, std::size_t member_count);

// Joins the members' communicators. Also throws the backend's errors.
std::unique_ptr<Collectives> create_native(std::span<const Context> members, MergeUse use,
                                           std::shared_ptr<yoke::CodeCache> codes,
                                           const ProcessGroup& processes);

}  // namespace yoke::detail
