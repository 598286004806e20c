// SPDX-License-Identifier: Apache-2.0
// backend.cpp: options, and opening a device.
#include "backend.h"

#include <limits>

namespace ocl {
namespace {

// On a processor a kernel costs PoCL 90 ms to compile, and a statement more in it 15 ms; a GPU's kernel is as
// slow as its greediest statement.
constexpr std::int64_t kStatementsOnCpu = 32;
constexpr std::int64_t kMostStatements = 256;

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
