// SPDX-License-Identifier: Apache-2.0
// backend.cpp: options, and opening a device.
#include "backend.h"

#include <limits>

namespace ocl {
namespace {

// On a processor PoCL compiles a kernel of its own for each statement two to three times as long; a GPU's
// kernel is as slow as its greediest statement.
constexpr std::int64_t kStatementsOnCpu = 32;
constexpr std::int64_t kMostStatements = 256;
// Below it most of a launch is PoCL's own 10 us, and a statement compiles in a fifth of the time.
constexpr std::int64_t kOptimizeFromOnCpu = 1024;

}  // namespace

std::vector<yoke::sdk::OptionSpec> Backend::option_specs() {
  using yoke::sdk::OptionSpec;
  return {
      OptionSpec::integer("memory_limit", "Bytes that buffers of the device may take; 0: no limit.", 0, 0,
                          std::numeric_limits<std::int64_t>::max()),
      OptionSpec::text("build_options", "Added to the options of OpenCL's compiler for every program.", ""),
      OptionSpec::integer(
          "statements_per_kernel",
          "Statements that share a kernel, which saves compile time; 0: 32 on a processor, else 1.", 0, 0,
          kMostStatements),
      OptionSpec::integer("optimize_from",
                          "Iterations from which on OpenCL's compiler optimizes a statement; -1: 1024 on a "
                          "processor, else 0.",
                          -1, -1, std::numeric_limits<std::int64_t>::max()),
      OptionSpec::text("contractions",
                       "Sums of products on a processor: tiles of vectors where their accesses allow it and "
                       "the compiler optimizes them, or loops always.",
                       "tiles", "tiles|loops"),
  };
}

std::unique_ptr<yoke::sdk::Device> Backend::open_device(std::uint32_t ordinal,
                                                        const yoke::sdk::Options& options) {
  const Hardware& hardware = machine().devices[ordinal];
  DeviceOptions chosen;
  chosen.memory_limit = static_cast<std::uint64_t>(options.integer("memory_limit"));
  chosen.build_options = options.text("build_options");
  const std::int64_t statements = options.integer("statements_per_kernel");
  chosen.statements_per_kernel = static_cast<std::uint32_t>(statements != 0   ? statements
                                                            : hardware.is_cpu ? kStatementsOnCpu
                                                                              : 1);
  const std::int64_t optimize_from = options.integer("optimize_from");
  chosen.optimize_from = static_cast<std::uint64_t>(optimize_from >= 0 ? optimize_from
                                                    : hardware.is_cpu  ? kOptimizeFromOnCpu
                                                                       : 0);
  chosen.tiles = hardware.is_cpu && options.text("contractions") == "tiles";

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
  return std::make_unique<Device>(std::move(context), std::move(chosen), host());
}

}  // namespace ocl
