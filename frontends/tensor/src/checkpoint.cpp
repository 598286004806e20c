// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/checkpoint.cpp: a folder of checkpoints, each of which appears whole.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yoke/checkpoint.h>
#include <yoke/runtime/error.h>
#include <yoke/runtime/folder.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint_file.h"
#include "data/files.h"

namespace yoke {

namespace fs = std::filesystem;

namespace {

// Hidden names of what is not a checkpoint yet, or no longer.
constexpr const char* kNew = ".new";
constexpr const char* kOld = ".old";
constexpr const char* kNewLatest = ".latest";

[[noreturn]] void fail_with(const fs::path& path, const char* what, int number) {
  throw Error(detail::code_of_errno(number), std::string("cannot ") + what + " " + path.string() + ": " +
                                                 std::generic_category().message(number) +
                                                 "; choose another folder, or correct this one");
}

void rename_now(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    fail_with(to, "rename a file to", errno);
  }
}

}  // namespace

namespace detail {

// An open folder.
class Folder {
 public:
  explicit Folder(const fs::path& path)
      : path_(path), number_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (number_ < 0) {
      fail_with(path, "open the folder", errno);
    }
  }
  ~Folder() { ::close(number_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  int number() const { return number_; }
  void flush() const {
    if (::fsync(number_) != 0) {
      fail_with(path_, "flush", errno);
    }
  }

 private:
  fs::path path_;
  int number_;
};

}  // namespace detail

struct CheckpointFolder::Impl {
  Impl(fs::path given, std::uint32_t kept) : path(std::move(given)), keep(kept), folder(path) {}

  void lock() const {
    if (::flock(folder.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw Error(ErrorCode::kFailedPrecondition, "another run saves checkpoints to " + path.string() +
                                                      "; wait until it ends, or choose another folder");
    }  // other errors: the file system has no locks
  }

  void remove_unfinished() const {
    for (const char* name : {kNew, kOld, kNewLatest}) {
      if (const int number = detail::remove_tree(path / name)) {
        fail_with(path / name, "remove", number);
      }
    }
  }

  // Otherwise the first checkpoint would replace a user's file, or fail at a user's folder.
  void check_latest() const {
    std::error_code ignored;
    const fs::path latest = path / detail::kLatest;
    const fs::file_type type = fs::symlink_status(latest, ignored).type();
    if (type != fs::file_type::symlink && type != fs::file_type::not_found && type != fs::file_type::none) {
      throw Error(ErrorCode::kInvalidArgument,
                  latest.string() +
                      " is not a symbolic link, so a checkpoint cannot replace it; rename or remove it, or "
                      "choose another folder");
    }
  }

  void point_to(const std::string& name) const {
    const fs::path link = path / kNewLatest;
    ::unlink(link.c_str());
    if (::symlink(name.c_str(), link.c_str()) != 0) {
      fail_with(link, "create", errno);
    }
    if (::rename(link.c_str(), (path / detail::kLatest).c_str()) != 0) {
      const int number = errno;
      ::unlink(link.c_str());
      fail_with(path / detail::kLatest, "replace", number);
    }
    folder.flush();
  }

  // Points `latest` at the checkpoint that readers use: it is missing if the process was killed before it made the
  // first one, and it may name a damaged checkpoint that the user has removed.
  void restore_latest() const {
    const std::optional<fs::path> newest = detail::latest_in(path);
    std::error_code ignored;
    if (newest && newest->filename() != fs::read_symlink(path / detail::kLatest, ignored)) {
      point_to(newest->filename().string());
    }
  }

  // Renames first, so that a checkpoint never lacks files under its own name.
  void retire(const fs::path& checkpoint) const {
    rename_now(checkpoint, path / kOld);
    remove_unfinished();
  }

  void remove_before(std::int64_t newest) const {
    std::vector<std::int64_t> steps;
    for (const std::string& name : detail::names_in(path)) {
      const auto step = detail::step_of(name);
      if (step && *step <= newest) {
        steps.push_back(*step);
      }
    }
    std::sort(steps.begin(), steps.end(), std::greater<>());
    for (std::size_t i = keep; i < steps.size(); ++i) {
      retire(path / detail::step_name(steps[i]));
    }
  }

  fs::path path;
  std::uint32_t keep;
  detail::Folder folder;
};

namespace {

// Throws if `folder` or a parent folder is a file or a link without a target.
void check_folders(const fs::path& folder) {
  fs::path part;
  for (const fs::path& name : folder) {
    part /= name;
    std::error_code ignored;
    const fs::file_type type = fs::status(part, ignored).type();
    const bool is_missing = type == fs::file_type::not_found;
    if (is_missing && fs::is_symlink(part, ignored)) {
      throw Error(ErrorCode::kInvalidArgument,
                  part.string() + " is a symbolic link to " + fs::read_symlink(part, ignored).string() +
                      ", which does not exist; create that folder, or choose another one");
    }
    if (!is_missing && type != fs::file_type::directory && type != fs::file_type::none) {
      throw Error(ErrorCode::kInvalidArgument,
                  part.string() + " is a file, not a folder; choose another name for the checkpoints");
    }
  }
}

const fs::path& created(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    check_folders(folder);
    fail_with(folder, "create the folder", error.value());
  }
  return folder;
}

}  // namespace

CheckpointFolder::CheckpointFolder(const fs::path& folder, std::uint32_t keep) {
  if (keep == 0) {
    throw Error(ErrorCode::kInvalidArgument, "CheckpointFolder: keep is 0; keep at least one checkpoint");
  }
  impl_ = std::make_unique<Impl>(created(folder), keep);
  impl_->lock();
  impl_->check_latest();
  impl_->remove_unfinished();
  impl_->restore_latest();
}

CheckpointFolder::~CheckpointFolder() = default;

const fs::path& CheckpointFolder::path() const {
  return impl_->path;
}

std::optional<fs::path> CheckpointFolder::latest() const {
  return detail::latest_in(impl_->path);
}

fs::path CheckpointFolder::save(const TrainerState& state, const std::map<std::string, std::string>& notes) {
  const fs::path made = impl_->path / kNew;
  const std::string name = detail::step_name(state.step);
  fs::path target = impl_->path / name;
  impl_->remove_unfinished();
  if (::mkdir(made.c_str(), 0777) != 0) {
    fail_with(made, "create", errno);
  }
  try {
    detail::write_checkpoint(made, state, notes);
    detail::Folder(made).flush();
    std::error_code ignored;
    if (!fs::exists(target, ignored)) {
      rename_now(made, target);
    } else if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0) {
      fail_with(target, "replace", errno);
    }
    impl_->folder.flush();
  } catch (...) {
    detail::remove_tree(made);
    throw;
  }
  impl_->point_to(name);
  impl_->remove_unfinished();
  impl_->remove_before(state.step);
  return target;
}

}  // namespace yoke
