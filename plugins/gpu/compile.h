// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/compile.h: compiles kernels for a device, with the run-time compiler and the cache.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "code_cache.h"
#include "codegen.h"
#include "context.h"

namespace yoke::gpu {

// Options of a device that change plans.
struct PlanOptions {
  LibraryOptions libraries;
  bool atomics = false;  // scatters may add in any order
  bool wgmma = false;    // products may use the instructions of sm_90a
  bool fused_attention = false;
};

// A generated program whose kernels are loaded on one device.
class Kernels {
 public:
  // Throws YOKE_STATUS_UNIMPLEMENTED for a statement that the device does not support, and
  // YOKE_STATUS_INTERNAL with program, statement and log for a kernel that does not compile.
  Kernels(std::shared_ptr<Context> context, const program::Program& program, const CodeCache& cache,
          const PlanOptions& options);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  Context& context() const noexcept { return *context_; }
  const std::shared_ptr<Context>& shared_context() const noexcept { return context_; }
  const codegen::Plan& plan() const noexcept { return plan_; }
  void* function(std::uint32_t kernel) const { return functions_[kernel]; }
  // By launch: the call of a library; null for a kernel.
  const std::vector<std::shared_ptr<const PlannedCall>>& calls() const noexcept { return calls_; }
  // Changes with the source, the options, the compiler, the architecture and the calls of libraries.
  const std::string& key() const noexcept { return key_; }

 private:
  int load(const std::string& bytes);

  std::shared_ptr<Context> context_;
  codegen::Plan plan_;  // without the source
  std::string key_;
  std::shared_ptr<Image> image_;
  void* module_ = nullptr;
  std::vector<void*> functions_;
  std::vector<std::shared_ptr<const PlannedCall>> calls_;
};

// What the generator targets: the device with these options.
codegen::Target target_for(const Context& context, const PlanOptions& options);

// The plan of a program on a device.
codegen::Plan plan_for(Context& context, const program::Program& program, const PlanOptions& options);

// "program 'p', statement 3 '...'", from the first line number in the compiler's log.
std::string place_of(const program::Program& program, const codegen::Plan& plan, std::string_view log);

}  // namespace yoke::gpu
