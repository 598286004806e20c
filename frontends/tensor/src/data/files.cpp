// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/files.cpp: file access by POSIX calls,
// because std::ofstream does not report why a write failed.
#include "data/files.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yoke/runtime/utf8.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace yoke::detail {
namespace {

std::string reason(int number) {
  return std::generic_category().message(number);
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

ErrorCode code_of_errno(int number) {
  switch (number) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ErrorCode::kResourceExhausted;
    case EISDIR:
    case EINVAL:
    case ENAMETOOLONG:
      return ErrorCode::kInvalidArgument;
    default:
      return ErrorCode::kUnavailable;
  }
}

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  const auto failed = [&](int number) {
    return Error(code_of_errno(number), "cannot read " + path.string() + ": " + reason(number));
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // does not wait for a pipe
  if (file.number() < 0) {
    throw failed(errno);
  }
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) {
    throw failed(errno);
  }
  if (S_ISDIR(status.st_mode)) {
    throw failed(EISDIR);
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::kInvalidArgument,
                "cannot read " + path.string() +
                    ": it is a pipe or a device, not a regular file; copy the data "
                    "to a file first");
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file.number(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno != EINTR) {
      throw failed(errno);
    }
    if (count == 0) {
      throw Error(ErrorCode::kDataLoss,
                  "cannot read " + path.string() + ": the file shrank while it was being read");
    }
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  return bytes;
}

std::string read_utf8(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto fail = [&](const std::string& why) { throw Error(ErrorCode::kDataLoss, path.string() + why); };
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    fail(": the text is encoded in UTF-16; save it as UTF-8");
  }
  if (const std::size_t zero = text.find('\0'); zero != std::string::npos) {
    fail(": byte " + std::to_string(zero) +
         " is zero, so this is not text, or text in UTF-16; save it as UTF-8 text");
  }
  // In quotes, a CR is part of a field. After the last line, it does no harm.
  const std::size_t cr = std::min(text.find('\r'), text.size());
  if (cr + 1 < text.size() && text.find('\n') == std::string::npos &&
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(cr), '"') % 2 == 0) {
    fail(": lines end with CR only; save it with LF");
  }
  std::uint64_t line = 1;
  std::size_t size = 0;
  for (std::size_t at = 0; at < text.size(); at += size) {
    size = character_size(std::string_view(text).substr(at));
    if (size == 0) {
      fail(", line " + std::to_string(line) + ": the text is not valid UTF-8; save it as UTF-8");
    }
    line += text[at] == '\n' ? 1U : 0U;
  }
  return text.starts_with("\xef\xbb\xbf") ? text.substr(3) : text;  // a byte order mark
}

int remove_tree(const std::filesystem::path& path) noexcept {
  constexpr int kMostOpenFolders = 8;
  const auto remove = [](const char* name, const struct stat*, int, struct FTW*) {
    return ::remove(name) == 0 || errno == ENOENT ? 0 : errno;
  };
  const int result = ::nftw(path.c_str(), remove, kMostOpenFolders, FTW_DEPTH | FTW_PHYS);
  return result >= 0 ? result : errno == ENOENT ? 0 : errno;
}

NewFile::NewFile(const std::filesystem::path& target) : shown_(target) {
  std::error_code ignored;
  target_ = std::filesystem::weakly_canonical(target, ignored);
  if (ignored || target_.empty()) {
    target_ = target;
  }
  const auto kind = std::filesystem::status(target_, ignored).type();
  if (kind == std::filesystem::file_type::directory || !target_.has_filename()) {
    fail(EISDIR);
  }
  if (kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular &&
      kind != std::filesystem::file_type::none) {
    throw Error(ErrorCode::kInvalidArgument,
                "cannot save to " + shown_.string() + ": it is not a regular file; choose another name");
  }
  static std::atomic<std::uint32_t> next = 0;  // with the process ID, makes the name unique
  part_ = target_.parent_path() / ("." + target_.filename().string() + ".part-" + std::to_string(::getpid()) +
                                   "-" + std::to_string(next++));
  descriptor_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    fail(errno);
  }
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    ::unlink(part_.c_str());
  }
}

void NewFile::fail(int number) const {
  std::string fix = "choose another location";
  if (number == ENOSPC || number == EDQUOT || number == EFBIG) {
    fix = "free some space or choose another location; the partial file was removed";
  } else if (number == ENOENT) {
    fix = "create its folder first";
  }
  throw Error(code_of_errno(number),
              "cannot save to " + shown_.string() + ": " + reason(number) + "; " + fix);
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      fail(errno);
    }
    bytes = bytes.subspan(count > 0 ? static_cast<std::size_t>(count) : 0);
  }
}

void NewFile::flush() {
  if (::fsync(descriptor_) != 0) {
    fail(errno);
  }
}

void NewFile::commit(bool flushes_folder) {
  flush();
  if (::rename(part_.c_str(), target_.c_str()) != 0) {
    fail(errno);
  }
  ::close(descriptor_);
  descriptor_ = -1;
  if (!flushes_folder) {
    return;
  }
  // Flushes the folder too, so that the new name survives a crash. Not essential: errors are ignored.
  const Descriptor folder(::open(target_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.number() >= 0) {
    ::fsync(folder.number());
  }
}

}  // namespace yoke::detail
