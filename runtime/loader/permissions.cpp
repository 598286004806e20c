// SPDX-License-Identifier: Apache-2.0
// runtime/loader/permissions.cpp: whoever may write a folder may replace what lies in it, so every folder up
// to the root counts, of the file and of each link that leads to it.
#include "loader/permissions.h"

#include <sys/auxv.h>
#include <unistd.h>

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

// Adds to `rights` what is wrong with one file or folder.
void check_one(const std::filesystem::path& path, const struct stat& status, Doubts doubts, Rights& rights) {
  const bool folder = S_ISDIR(status.st_mode);
  const bool link = S_ISLNK(status.st_mode);  // its mode says nothing; who may replace it, its folder's does
  const std::string what = (folder ? "its folder " : link ? "the link " : "the file ") + path.string();
  // In a sticky folder only the owner of a file may replace it, and the file's owner is checked.
  const bool sticky = folder && (status.st_mode & S_ISVTX) != 0;
  if ((status.st_mode & S_IWOTH) != 0 && !sticky && !link) {
    rights.refusal = {
        what + " may be written by everybody (mode " + mode_text(status) + "), so anybody can replace it",
        "chmod o-w " + path.string()};
    return;
  }
  const auto doubt = [&](const std::string& reason, const std::string& mend) {
    if (doubts == Doubts::kTold) {
      rights.warnings.push_back(reason + ": " + mend);
    } else if (!rights.refusal) {
      rights.refusal = {
          reason + (doubts == Doubts::kRefusedPrivileged ? ", and this process has more rights than its user"
                                                         : ", and an allow-list pins what may load"),
          mend};
    }
  };
  if ((status.st_mode & S_IWGRP) != 0 && !sticky && !link) {
    doubt(what + " may be written by the group " + std::to_string(status.st_gid) + " (mode " +
              mode_text(status) + ")",
          "chmod g-w " + path.string());
  }
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
    doubt(what + " belongs to user " + std::to_string(status.st_uid) + ", neither to root nor to this user",
          link ? "chown -h it" : "chown it");
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
  constexpr std::size_t kMostLinks = 64;  // the kernel follows 40; canonical() has refused what has more
  std::vector<std::filesystem::path> links;
  std::deque<std::filesystem::path> rest(path.begin(), path.end());
  std::filesystem::path done = "/";
  std::error_code failed;
  while (!rest.empty() && links.size() < kMostLinks) {
    const auto part = rest.front();
    rest.pop_front();
    if (part == "..") {
      done = done.parent_path();
      continue;
    }
    const auto next = part.empty() || part == "." ? done : done / part;  // the root's part replaces all
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
  // Itself, as it lies there, and what it lies in, up to the root.
  const auto check_up = [&](std::filesystem::path one) {
    while (!rights.refusal && seen.insert(one).second) {
      struct stat status {};
      if (::lstat(one.c_str(), &status) != 0) {
        rights.refusal = {one.string() + " on its path cannot be examined: " + std::strerror(errno),
                          "mend its permissions"};
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
