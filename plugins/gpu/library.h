// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/library.h: opens the driver, the run-time compiler, and the optional libraries.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "driver.h"

namespace yoke::gpu {

// Sorts files by release; those of the driver's own release come first. A driver may refuse the code of a
// newer compiler, and may be too old for a newer library.
std::vector<const char*> own_release_first(const VendorFacts& facts, std::vector<const char*> files,
                                           int driver_version);

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
  // Opens the library of matrix products at the first call. If it returns null, blas_fault() says why it
  // cannot be used.
  const Blas* blas();
  const std::string& blas_fault() const noexcept { return blas_fault_; }
  int blas_version(void* handle, int& version) const;

  // Opens the library of convolutions at the first call. If it returns null, dnn_fault() says why it cannot be
  // used.
  const Dnn* dnn();
  const std::string& dnn_fault() const noexcept { return dnn_fault_; }

  // Opens the library of collectives at the first call. If it returns null, comm_fault() says why it cannot be
  // used.
  const Comm* comm();
  const std::string& comm_fault() const noexcept { return comm_fault_; }

  const Driver& driver() const noexcept { return driver_; }

 private:
  void open_compiler();
  void open_blas();
  void open_dnn();
  void open_comm();
  std::string other_driver(void* library) const;

  Vendor& vendor_;
  void* handle_ = nullptr;  // of the driver
  Driver driver_;
  Compiler compiler_;
  void* blas_handle_ = nullptr;
  Blas blas_;
  Dnn dnn_;
  Comm comm_;
  std::string driver_fault_;
  std::string compiler_fault_;
  std::string compiler_identity_;
  std::string blas_fault_;
  std::string dnn_fault_;
  std::string comm_fault_;
  std::once_flag driver_once_;
  std::once_flag compiler_once_;
  std::once_flag blas_once_;
  std::once_flag dnn_once_;
  std::once_flag comm_once_;
};

}  // namespace yoke::gpu
