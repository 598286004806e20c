// SPDX-License-Identifier: Apache-2.0
// runtime/loader/permissions.h: who else may write a file (abi.md rule 34).
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "loader/file_check.h"

namespace yoke::loader {

// This process was started with more rights than its user (AT_SECURE: set-user-id, file capabilities): the
// environment is the user's, and chooses no file here.
bool starts_secure();
// That, or it took other rights than its user's since.
bool is_privileged();

struct Rights {
  Refusal refusal;
  std::vector<std::string> warnings;
};

// The symbolic links that are followed on the way to `path` (absolute), in this order; each in a folder that
// has none on its own path.
std::vector<std::filesystem::path> links_on(const std::filesystem::path& path);

// What becomes of a doubt: it is told as a warning, or it is a refusal, and why.
enum class Doubts { kTold, kRefusedPrivileged, kRefusedPinned };

// `path` is canonical and `file` its status; `links` led there. Refused: the file, or a folder on its path or
// on that of a link, that others may write (sticky folders excepted). Doubtful: one that its group may write,
// or whose owner, or a link's, is neither root nor this user.
Rights check_rights(const std::filesystem::path& path, const struct stat& file, Doubts doubts,
                    const std::vector<std::filesystem::path>& links = {});

}  // namespace yoke::loader
