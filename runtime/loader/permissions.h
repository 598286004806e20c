// SPDX-License-Identifier: Apache-2.0
// runtime/loader/permissions.h: which other users may change a file (rule 34).
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "loader/file_check.h"

namespace yoke::loader {

// Whether the process was started with more privileges than its user (AT_SECURE: set-user-id, file
// capabilities). The environment, which the user controls, must then not choose any file.
bool starts_secure();
// Whether the process has more privileges than its user, since its start or since a later setuid.
bool is_privileged();

struct Rights {
  Refusal refusal;
  std::vector<std::string> warnings;
};

// The symbolic links that are followed to resolve `path` (absolute), in
// this order. The folder of each is free of links.
std::vector<std::filesystem::path> links_on(const std::filesystem::path& path);

// How doubtful permissions are handled: with a warning, or refused because
// the process is privileged or has an allow-list.
enum class Doubts { kWarn, kRefusedPrivileged, kRefusedPinned };

// Checks the file, its folders, and the links that led to it with their folders. Refused: a file or folder
// that every user may write, except a sticky folder. Doubtful: a file or folder that a group may write, or
// that belongs to neither root nor this user. Preconditions: `path` is canonical, and `file` is its status.
Rights check_rights(const std::filesystem::path& path, const struct stat& file, Doubts doubts,
                    const std::vector<std::filesystem::path>& links = {});

}  // namespace yoke::loader
