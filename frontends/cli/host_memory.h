// SPDX-License-Identifier: Apache-2.0
// frontends/cli/host_memory.h: how much memory this process can still use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace yoke::cli {

// The bytes that the system can give without swapping, or less if a control group (v1 or v2) of this process
// has less left. Empty: unknown. `root` is the folder that contains proc and sys.
std::optional<std::uint64_t> available_host_memory(const std::filesystem::path& root = "/");

}  // namespace yoke::cli
