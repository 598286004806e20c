// SPDX-License-Identifier: Apache-2.0
// runtime/loader/probe_cache.cpp: verdicts on disk, read only from files that no other user can have written.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yoke/runtime/folder.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <vector>

#include "loader/memory_reader.h"
#include "loader/probe.h"

namespace yoke::loader {
namespace {

constexpr std::size_t kMaxCacheBytes = 1U << 14U;
constexpr std::size_t kMaxCacheFiles = 256;
constexpr const char* kEnd = "end";

// One line each: key, verdict, stage, reason, fix, path, end.
constexpr std::size_t kLines = 7;

std::optional<std::array<std::string, kLines>> read_lines(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
      static_cast<std::size_t>(status.st_size) > kMaxCacheBytes) {
    return std::nullopt;
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  if (!read_at(file.get(), 0, text.data(), text.size())) {
    return std::nullopt;
  }
  std::array<std::string, kLines> lines;
  std::string_view rest = text;
  for (std::string& line : lines) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    line = std::string(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  return lines.back() == kEnd && rest.empty() ? std::optional(lines) : std::nullopt;
}

constexpr std::string_view kNew = "new.";  // with six letters: a verdict that is being written

// Whether the cache created a file of this name. The application may keep other files in the folder.
bool is_ours(const std::string& name) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto dash = name.find_first_not_of(kDigits);
  const bool is_verdict = dash != 0 && dash != std::string::npos && name[dash] == '-' &&
                          dash + 1 < name.size() &&
                          name.find_first_not_of(kDigits, dash + 1) == std::string::npos;
  return is_verdict || (name.size() == kNew.size() + 6 && name.starts_with(kNew));
}

}  // namespace

std::filesystem::path ProbeCache::file_of(const Stamp& stamp) const {
  char name[64];
  std::snprintf(name, sizeof(name), "%llx-%llx", static_cast<unsigned long long>(stamp.device),
                static_cast<unsigned long long>(stamp.inode));
  return folder_ / name;
}

std::optional<ProbeVerdict> ProbeCache::find(const Stamp& stamp, const std::string& key) const {
  if (folder_.empty()) {
    return std::nullopt;
  }
  const auto lines = read_lines(file_of(stamp));
  if (!lines || (*lines)[0] != key || ((*lines)[1] != "passed" && (*lines)[1] != "refused")) {
    return std::nullopt;
  }
  ProbeVerdict verdict;
  verdict.lasting = true;
  verdict.stage = printable((*lines)[2], 20);
  if ((*lines)[1] == "refused") {
    verdict.refusal = {printable((*lines)[3], 2000), printable((*lines)[4], 500)};
    if (!verdict.refusal) {
      return std::nullopt;
    }
  }
  return verdict;
}

void ProbeCache::keep(const Stamp& stamp, const std::string& key, const std::filesystem::path& file,
                      const ProbeVerdict& verdict) const {
  if (folder_.empty()) {
    return;
  }
  std::error_code failed;  // ignored: after a failure the plugin is probed again next time
  std::filesystem::create_directories(folder_.parent_path(), failed);
  if (::mkdir(folder_.c_str(), 0700) == 0) {
    ::chmod(folder_.c_str(), 0700);
  }
  const std::string text = key + "\n" + (verdict.refusal ? "refused" : "passed") + "\n" + verdict.stage +
                           "\n" + verdict.refusal.reason + "\n" + verdict.refusal.fix + "\n" +
                           printable(file.string(), 4096) + "\n" + kEnd + "\n";
  std::string temporary = (folder_ / (std::string(kNew) + "XXXXXX")).string();
  const Descriptor out(::mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
  if (out.get() < 0) {
    return;
  }
  if (::write(out.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::rename(temporary.c_str(), file_of(stamp).c_str()) != 0) {
    ::unlink(temporary.c_str());
  }
  prune();
}

// Bounds the number of verdicts: removes those of deleted plugins, then the oldest.
void ProbeCache::prune() const {
  std::error_code failed;
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> kept;
  std::vector<std::filesystem::path> all;
  for (const std::string& name : detail::names_in(folder_)) {
    if (is_ours(name)) {
      all.push_back(folder_ / name);
    }
  }
  if (all.size() <= kMaxCacheFiles) {
    return;
  }
  for (const auto& path : all) {
    const auto lines = read_lines(path);
    if (!lines || !std::filesystem::exists((*lines)[5], failed)) {
      std::filesystem::remove(path, failed);
    } else {
      kept.emplace_back(std::filesystem::last_write_time(path, failed), path);
    }
  }
  std::sort(kept.begin(), kept.end());
  for (std::size_t i = 0; i + kMaxCacheFiles / 2 < kept.size(); ++i) {
    std::filesystem::remove(kept[i].second, failed);
  }
}

}  // namespace yoke::loader
