// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/library.h: opens the driver and the run-time compiler.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "driver.h"

namespace yoke::gpu {

// The files in which the compiler is looked for, in order: first those of the driver's own release. A driver
// may refuse the code of a newer compiler.
std::vector<const char*> compiler_files_for(const VendorFacts& facts, int driver_version);

// The libraries stay open until the process ends: their threads and exit handlers need them.
class Library {
 public:
  explicit Library(Vendor& vendor) : vendor_(vendor) {}

  // Opens the driver. Returns why it cannot be used and how to fix that; empty if it can be used.
  const std::string& open_driver();
  // Opens the compiler at the first call. Throws YOKE_STATUS_FAILED_PRECONDITION if it is missing.
  const Compiler& compiler();
  // The compiler's path, size and modification time, which identify its build.
  const std::string& compiler_identity();

  const Driver& driver() const noexcept { return driver_; }

 private:
  void open_compiler();

  Vendor& vendor_;
  void* handle_ = nullptr;  // of the driver
  Driver driver_;
  Compiler compiler_;
  std::string driver_fault_;
  std::string compiler_fault_;
  std::string compiler_identity_;
  std::once_flag driver_once_;
  std::once_flag compiler_once_;
};

}  // namespace yoke::gpu
