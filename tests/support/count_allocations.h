// SPDX-License-Identifier: Apache-2.0
// tests/support/count_allocations.h: counts calls of operator new by
// any thread and any library of the process, and lets them fail.
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

// While it exists, call number `first` of operator new fails, and with kAllFrom all later calls. The calls are
// those of all threads, numbered from 0. Calls by oneDNN and the OpenMP runtime do not fail. Not nestable.
class FailAllocations {
 public:
  enum class Which { kOne, kAllFrom };
  FailAllocations(std::uint64_t first, Which which);
  ~FailAllocations();
  FailAllocations(const FailAllocations&) = delete;
  FailAllocations& operator=(const FailAllocations&) = delete;
  // The number of calls so far.
  static std::uint64_t call_count();
};

}  // namespace yoke::test
