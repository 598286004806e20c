// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/checkpoint_file.h: the files of one checkpoint.
#pragma once

#include <yoke/checkpoint.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace yoke::detail {

inline constexpr const char* kLatest = "latest";

// Writes the files into an empty folder, checkpoint.json last, and flushes each, but not the folder.
void write_checkpoint(const std::filesystem::path& folder, const TrainerState& state,
                      const std::map<std::string, std::string>& notes);

// "step-000000000120"
std::string step_name(std::int64_t step);
// The step in such a name; empty for other names.
std::optional<std::int64_t> step_of(const std::string& name);
// The latest checkpoint of a folder of checkpoints, if it has one.
std::optional<std::filesystem::path> latest_in(const std::filesystem::path& folder);

}  // namespace yoke::detail
