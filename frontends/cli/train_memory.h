// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_memory.h: refuses a run that needs more memory than is available.
#pragma once

#include <yoke/data_parallel.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace yoke::cli {

class MemoryCheck {
 public:
  // `host_bytes`: what the host has left; empty: unknown. With `force`, a shortage is only a warning.
  MemoryCheck(std::optional<std::uint64_t> host_bytes, bool force) : host_bytes_(host_bytes), force_(force) {}

  // For DataParallelOptions::check_memory. Throws Error kResourceExhausted with the numbers.
  void operator()(std::span<const MemoryNeed> needs);

  const std::vector<MemoryNeed>& needs() const { return needs_; }  // of the latest call
  std::uint64_t total() const;

 private:
  std::vector<std::string> shortages() const;

  std::optional<std::uint64_t> host_bytes_;
  bool force_;
  bool warned_ = false;
  std::vector<MemoryNeed> needs_;
};

}  // namespace yoke::cli
