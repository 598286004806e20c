// SPDX-License-Identifier: Apache-2.0
// tests/support/count_allocations.h: counts calls of operator new by
// any thread and any library of the process.
#pragma once

#include <cstdint>

namespace yoke::test {

std::uint64_t allocation_count();

// While it exists, calls of operator new by oneDNN and the OpenMP runtime are not counted. Not nestable.
class IgnoreVendorAllocations {
 public:
  IgnoreVendorAllocations();
  ~IgnoreVendorAllocations();
  IgnoreVendorAllocations(const IgnoreVendorAllocations&) = delete;
  IgnoreVendorAllocations& operator=(const IgnoreVendorAllocations&) = delete;
};

}  // namespace yoke::test
