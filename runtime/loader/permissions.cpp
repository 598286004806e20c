// SPDX-License-Identifier: Apache-2.0
// runtime/loader/permissions.cpp: a user who may write a folder may replace the files in it, so every folder
// up to the root is checked, for the file and for each link that leads to it.
#include "loader/permissions.h"

#include <sys/auxv.h>
#include <unistd.h>
#include <yoke/runtime/shell_word.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <set>
#include <system_error>

namespace yoke::loader {
namespace {

std::string mode_text(const struct stat& status) {
  char text[16];
  std::snprintf(text, sizeof(text), "%04o", status.st_mode & 07777U);
  return text;
}

// Adds the problems of one file or folder to `rights`.
void check_one(const std::filesystem::path& path, const struct stat& status, Doubts doubts, Rights& rights) {
  const bool folder = S_ISDIR(status.st_mode);
  const bool link = S_ISLNK(status.st_mode);  // its own mode has no meaning
  const std::string what = (folder ? "its folder " : link ? "the link " : "the file ") + path.string();
  // In a sticky folder only a file's owner may replace it, and owners are checked.
  const bool sticky = folder && (status.st_mode & S_ISVTX) != 0;
  if ((status.st_mode & S_IWOTH) != 0 && !sticky && !link) {
    rights.refusal = {
        what + " is writable by every user (mode " + mode_text(status) + "), so any user can replace it",
        "chmod o-w " + detail::shell_word(path.string())};
    return;
  }
  const auto doubt = [&](const std::string& reason, const std::string& fix) {
    if (doubts == Doubts::kWarn) {
      rights.warnings.push_back(reason + ": " + fix);
    } else if (!rights.refusal) {
      rights.refusal = {reason + (doubts == Doubts::kRefusedPrivileged
                                      ? ", and this process runs with more privileges than its user"
                                      : ", and an allow-list is in use"),
                        fix};
    }
  };
  if ((status.st_mode & S_IWGRP) != 0 && !sticky && !link) {
    doubt(
        what + " is writable by group " + std::to_string(status.st_gid) + " (mode " + mode_text(status) + ")",
        "chmod g-w " + detail::shell_word(path.string()));
  }
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
    doubt(what + " belongs to user " + std::to_string(status.st_uid) + ", not to root or to this user",
          "change its owner with chown" + std::string(link ? " -h" : ""));
  }
}

}  // namespace

bool starts_secure() {
  return ::getauxval(AT_SECURE) != 0;
}

bool is_privileged() {
  return starts_secure() || ::geteuid() != ::getuid() || ::getegid() != ::getgid();
}

std::vector<std::filesystem::path> links_on(const std::filesystem::path& path) {
  constexpr std::size_t kMaxLinks = 64;  // the kernel follows 40, and so does canonical()
  std::vector<std::filesystem::path> links;
  std::deque<std::filesystem::path> rest(path.begin(), path.end());
  std::filesystem::path done = "/";
  std::error_code failed;
  while (!rest.empty() && links.size() < kMaxLinks) {
    const auto part = rest.front();
    rest.pop_front();
    if (part == "..") {
      done = done.parent_path();
      continue;
    }
    const auto next = part.empty() || part == "." ? done : done / part;  // "/" replaces `done`
    if (std::filesystem::is_symlink(std::filesystem::symlink_status(next, failed))) {
      const auto target = std::filesystem::read_symlink(next, failed);
      rest.insert(rest.begin(), target.begin(), target.end());
      links.push_back(next);
    } else {
      done = next;
    }
  }
  return links;
}

Rights check_rights(const std::filesystem::path& path, const struct stat& file, Doubts doubts,
                    const std::vector<std::filesystem::path>& links) {
  Rights rights;
  std::set<std::filesystem::path> seen;
  // Checks `one`, without following it if it is a link, and its folders up to the root.
  const auto check_up = [&](std::filesystem::path one) {
    while (!rights.refusal && seen.insert(one).second) {
      struct stat status {};
      if (::lstat(one.c_str(), &status) != 0) {
        rights.refusal = {
            "the status of " + one.string() + " on its path cannot be read: " + std::strerror(errno),
            "fix its permissions"};
        return;
      }
      check_one(one, status, doubts, rights);
      one = one.parent_path();
    }
  };
  check_one(path, file, doubts, rights);
  check_up(path.parent_path());
  for (const auto& link : links) {
    check_up(link);
  }
  if (rights.refusal) {
    rights.warnings.clear();
  }
  return rights;
}

}  // namespace yoke::loader
