// SPDX-License-Identifier: Apache-2.0
// tests/support/count_allocations.h: how often this process has called operator new, in any thread and any
// library.
#pragma once

#include <cstdint>

namespace yoke::test {

std::uint64_t allocation_count();

}  // namespace yoke::test
