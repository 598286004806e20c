// SPDX-License-Identifier: Apache-2.0
// runtime/loader/allow_list.cpp: the only file that uses libmd.
#include "loader/allow_list.h"

#include <fcntl.h>
#include <sha2.h>
#include <unistd.h>
#include <yoke/runtime/error.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "loader/memory_reader.h"
#include "loader/permissions.h"

namespace yoke::loader {
namespace {

constexpr std::size_t kSumDigits = 64;
constexpr std::uint64_t kMaxListBytes = 1U << 20U;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what, const std::string& fix) {
  throw Error(ErrorCode::kInvalidArgument,
              "the plugin allow-list " + path.string() + " " + what + "; " + fix);
}

std::string read_whole(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    fail(path, std::string("cannot be read: ") + std::strerror(errno), "name a file that this user may read");
  }
  if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) > kMaxListBytes) {
    fail(path, "is not a regular file of at most 1 MiB", "write it with sha256sum");
  }
  if (const auto rights = check_rights(path, status, Doubts::kRefusedPinned); rights.refusal) {
    fail(path, "cannot be trusted: " + rights.refusal.reason, rights.refusal.fix);
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  if (!read_at(file.get(), 0, text.data(), text.size())) {
    fail(path, "changed while it was read", "try again");
  }
  return text;
}

}  // namespace

std::string sha256_of(int descriptor) {
  SHA2_CTX state;
  SHA256Init(&state);
  std::array<unsigned char, 1U << 16U> bytes;
  for (off_t offset = 0;;) {
    const ssize_t count = ::pread(descriptor, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return {};
    }
    if (count == 0) {
      break;
    }
    SHA256Update(&state, bytes.data(), static_cast<std::size_t>(count));
    offset += count;
  }
  std::array<char, SHA256_DIGEST_STRING_LENGTH> text{};
  SHA256End(&state, text.data());
  return text.data();
}

AllowList AllowList::read(const std::filesystem::path& path) {
  AllowList list;
  std::error_code failed;
  list.path_ = std::filesystem::canonical(path, failed);
  if (failed) {
    fail(path, "cannot be read: " + failed.message(), "name a file that exists");
  }
  const std::string text = read_whole(list.path_);
  int number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.empty() || line.front() == '#') {
      continue;
    }
    Entry entry;
    const auto digits = line.substr(0, kSumDigits);
    for (const char digit : digits) {
      entry.sum += static_cast<char>(std::tolower(static_cast<unsigned char>(digit)));
    }
    // A space follows the sum, then a space or '*' (sha256sum --binary).
    if (line.size() < kSumDigits + 3 ||
        entry.sum.find_first_not_of("0123456789abcdef") != std::string::npos || line[kSumDigits] != ' ' ||
        (line[kSumDigits + 1] != ' ' && line[kSumDigits + 1] != '*')) {
      fail(list.path_,
           "has no checksum and file name in line " + std::to_string(number) + " ('" + printable(line) + "')",
           "write lines as sha256sum prints them");
    }
    entry.name = std::string(line.substr(kSumDigits + 2));
    if (entry.name.is_absolute()) {
      entry.name = std::filesystem::weakly_canonical(entry.name, failed);
    } else if (entry.name.has_parent_path()) {
      fail(list.path_,
           "names a relative path in line " + std::to_string(number) + " ('" + printable(line) + "')",
           "use an absolute path or a file name");
    }
    list.entries_.push_back(std::move(entry));
  }
  return list;
}

Refusal AllowList::check(const File& file, int descriptor) const {
  const auto is_called = [&](const std::filesystem::path& name) {
    return name == file.path || name == file.path.filename() ||
           std::any_of(file.links.begin(), file.links.end(),
                       [&](const auto& link) { return name == link.filename(); });
  };
  std::vector<const Entry*> named;
  for (const Entry& entry : entries_) {
    if (is_called(entry.name)) {
      named.push_back(&entry);
    }
  }
  if (named.empty()) {
    return {"it is not in the allow-list " + path_.string(),
            "to allow it, add the line that sha256sum prints for it"};
  }
  const std::string sum = sha256_of(descriptor);
  if (std::none_of(named.begin(), named.end(), [&](const Entry* entry) { return entry->sum == sum; })) {
    return {"its sha256 is " + (sum.empty() ? "unknown (it cannot be read)" : sum) + ", but the allow-list " +
                path_.string() + " has " + named.front()->sum,
            "install the listed build, or list this one"};
  }
  return {};
}

}  // namespace yoke::loader
