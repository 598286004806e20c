// SPDX-License-Identifier: Apache-2.0
// backend.cpp: options, and how a device is opened.
#include "backend.h"

#include <limits>

namespace ocl {
namespace {

// On a CPU, one kernel per statement takes PoCL two to three times as long to compile as a shared kernel.
// On a GPU, the statement that needs the most registers would slow down all others in its kernel.
constexpr std::uint32_t kStatementsOnCpu = 32;
// With fewer iterations, most of a launch is PoCL's overhead of 10 us, and compiling without the optimizer
// takes a fifth of the time.
constexpr std::int64_t kOptimizeFromOnCpu = 1024;

}  // namespace

std::vector<yoke::sdk::OptionSpec> Backend::option_specs() {
  using yoke::sdk::OptionSpec;
  return {
      OptionSpec::integer("memory_limit",
                          "Limit of the total size of the device's buffers in bytes; 0: no limit.", 0, 0,
                          std::numeric_limits<std::int64_t>::max()),
      OptionSpec::text("build_options", "Additional options for the OpenCL compiler.", ""),
      OptionSpec::integer("optimize_from",
                          "Statements with at least this many iterations are compiled with optimization; -1: "
                          "1024 on a CPU, 0 otherwise.",
                          -1, -1, std::numeric_limits<std::int64_t>::max()),
  };
}

std::unique_ptr<yoke::sdk::Device> Backend::open_device(std::uint32_t ordinal,
                                                        const yoke::sdk::Options& options) {
  const Hardware& hardware = machine().devices[ordinal];
  DeviceOptions chosen;
  chosen.memory_limit = static_cast<std::uint64_t>(options.integer("memory_limit"));
  chosen.build_options = options.text("build_options");
  chosen.statements_per_kernel = hardware.is_cpu ? kStatementsOnCpu : 1;
  const std::int64_t optimize_from = options.integer("optimize_from");
  chosen.optimize_from = static_cast<std::uint64_t>(optimize_from >= 0 ? optimize_from
                                                    : hardware.is_cpu  ? kOptimizeFromOnCpu
                                                                       : 0);

  std::shared_ptr<Context> context;
  {
    const std::lock_guard lock(mutex_);
    contexts_.resize(machine().devices.size());
    context = contexts_[ordinal].lock();
    if (context == nullptr) {
      context = std::make_shared<Context>(hardware);
      contexts_[ordinal] = context;
    }
  }
  host().log(YOKE_LOG_DEBUG, "device.open backend=opencl device=" + std::to_string(ordinal) + " name=\"" +
                                 hardware.info.name + "\"");
  return std::make_unique<Device>(std::move(context), std::move(chosen));
}

}  // namespace ocl
