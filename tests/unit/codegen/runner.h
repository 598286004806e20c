// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/runner.h: compiles plans for the CPU and runs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen.h"

namespace yoke::codegen::test {

// Why kernels cannot be compiled for the CPU here; empty if they can.
std::string no_compiler();

// Plans compiled into one shared object.
class CpuPlans {
 public:
  // Throws std::runtime_error with the compiler's messages.
  explicit CpuPlans(std::vector<Plan> plans, const Target& target = {});

  const Plan& plan(std::size_t i) const { return plans_[i]; }
  // The workspace starts at the base, which the caller aligns to 256 bytes.
  void run(std::size_t plan, std::span<std::byte* const> arguments, std::byte* workspace,
           std::span<const std::int64_t> symbols) const;

 private:
  struct Close {
    void operator()(void* library) const;
  };

  std::vector<Plan> plans_;
  std::unique_ptr<void, Close> library_;
};

}  // namespace yoke::codegen::test
