// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/code_cache.cpp: reads, writes and evicts files of the cache.
#include "code_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

namespace yoke::gpu {
namespace {

namespace fs = std::filesystem;

// The header of a file: this line, the digest of the image, its size, each on a line.
constexpr std::string_view kMagic = "yoke code 1\n";

std::string header_of(const std::string& key, std::string_view image) {
  return std::string(kMagic) + key + "\n" + program::digest(image) + "\n" + std::to_string(image.size()) +
         "\n";
}

bool is_private(const std::string& folder) {
  struct stat status = {};
  return ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// A key, which is a digest, or a file that is being written.
bool is_own_name(std::string_view name) {
  constexpr std::size_t kKeyLength = 32;
  return name.substr(0, kKeyLength).find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         (name.size() == kKeyLength ||
          (name.size() > kKeyLength && name[kKeyLength] == '.' && name.ends_with(".new")));
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

std::string CodeCache::folder_of(const std::string& option, const std::string& backend) {
  if (option == "off") {
    return {};
  }
  if (option != "on") {
    return option;
  }
  const char* cache = ::secure_getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') {
    return std::string(cache) + "/yoke/" + backend;
  }
  const char* home = ::secure_getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.cache/yoke/" + backend : std::string();
}

CodeCache::CodeCache(sdk::Host host, std::string folder, std::uint64_t limit_bytes)
    : host_(host), folder_(std::move(folder)), limit_bytes_(limit_bytes) {}

std::optional<std::string> CodeCache::find(const std::string& key) const {
  const std::string path = folder_ + "/" + key;
  if (folder_.empty() || !is_private(folder_)) {
    return std::nullopt;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return std::nullopt;
  }
  std::string bytes;  // not `stringstream << rdbuf()`, which swallows bad_alloc
  char block[8192];
  do {
    file.read(block, sizeof(block));
    bytes.append(block, static_cast<std::size_t>(file.gcount()));
  } while (file);
  std::size_t lines = 0;
  std::size_t end = 0;
  while (lines < 4 && end < bytes.size()) {
    lines += bytes[end++] == '\n' ? 1U : 0U;
  }
  const std::string_view image = std::string_view(bytes).substr(end);
  if (bytes.compare(0, end, header_of(key, image)) != 0) {
    host_.log(YOKE_LOG_WARN, "cache.broken file=" + path);
    remove(key);
    return std::nullopt;
  }
  (void)::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // eviction goes by this time
  return std::string(image);
}

bool CodeCache::prepare_folder() const {
  std::error_code error;
  fs::create_directories(fs::path(folder_).parent_path(), error);
  if (::mkdir(folder_.c_str(), S_IRWXU) != 0 && !is_private(folder_)) {
    host_.log(YOKE_LOG_WARN,
              "cache.skip folder=" + folder_ +
                  " reason=\"it cannot be created, or users other than its owner may write it\"");
    return false;
  }
  return true;
}

void CodeCache::store(const std::string& key, std::string_view image) const {
  static std::atomic<unsigned> counter{0};
  if (folder_.empty() || image.size() > limit_bytes_ || !prepare_folder()) {
    return;
  }
  const std::string path = folder_ + "/" + key;
  const unsigned number = counter++;
  const std::string header = header_of(key, image);
  const std::string aside = path + "." + std::to_string(::getpid()) + "." + std::to_string(number) + ".new";
  const int file = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) {
    return;
  }
  const bool is_written = write_all(file, header) && write_all(file, image);
  const bool is_closed = ::close(file) == 0;
  if (!is_written || !is_closed || ::rename(aside.c_str(), path.c_str()) != 0) {
    (void)::unlink(aside.c_str());
    return;
  }
  evict();
}

void CodeCache::remove(const std::string& key) const {
  (void)::unlink((folder_ + "/" + key).c_str());
}

void CodeCache::evict() const {
  struct Entry {
    std::pair<std::time_t, std::int64_t> time;  // of the last write, in seconds and nanoseconds
    std::uint64_t byte_count;
    std::string path;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  // fs::directory_iterator ends the process if no memory is left.
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(folder_.c_str()), ::closedir);
  while (const dirent* const at = folder ? ::readdir(folder.get()) : nullptr) {
    if (!is_own_name(at->d_name)) {
      continue;  // the folder is the user's choice and may contain other files
    }
    std::string path = folder_ + "/" + at->d_name;
    struct stat status = {};
    // Another process may have removed it.
    if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
      const auto byte_count = static_cast<std::uint64_t>(status.st_size);
      entries.push_back({{status.st_mtim.tv_sec, status.st_mtim.tv_nsec}, byte_count, std::move(path)});
      total += byte_count;
    }
  }
  if (total <= limit_bytes_) {
    return;
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.time < b.time; });
  for (const Entry& entry : entries) {
    if (total <= limit_bytes_ / 4 * 3) {
      break;
    }
    total -= ::unlink(entry.path.c_str()) == 0 ? entry.byte_count : 0;
  }
}

}  // namespace yoke::gpu
