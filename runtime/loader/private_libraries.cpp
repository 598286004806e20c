// SPDX-License-Identifier: Apache-2.0
// runtime/loader/private_libraries.cpp: looks for each DT_NEEDED in every DT_RPATH and DT_RUNPATH folder, and
// checks every file found, because the linker might load any of them.
#include "loader/private_libraries.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>
#include <yoke/runtime/folder.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <system_error>

#include "loader/elf_needs.h"
#include "loader/memory_reader.h"

namespace yoke::loader {
namespace {

using Folders = std::vector<std::filesystem::path>;

constexpr std::size_t kMaxLibraries = 256;

// The linker's default folders are not checked: users who can write to them can replace the linker itself.
bool is_system_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  const auto canonical = std::filesystem::weakly_canonical(folder, failed);
  for (const char* own : {"/lib", "/lib64", "/usr/lib", "/usr/lib64"}) {
    if (canonical == own) {
      return true;
    }
  }
  Dl_info libc{};
  return ::dladdr(reinterpret_cast<const void*>(&std::fputs), &libc) != 0 && libc.dli_fname != nullptr &&
         canonical == std::filesystem::weakly_canonical(libc.dli_fname, failed).parent_path();
}

// Adds the file `name` in the folder, and its variants for newer processors. Refuses variants that the linker can open
// although they cannot be listed.
Refusal add_files_in(const std::filesystem::path& folder, const std::string& name,
                     std::vector<std::filesystem::path>& found) {
  std::error_code failed;
  const auto add = [&](const std::filesystem::path& file) {
    if (std::filesystem::exists(std::filesystem::symlink_status(file, failed))) {
      found.push_back(file);
    }
  };
  add(folder / name);
  const std::filesystem::path variants = folder / "glibc-hwcaps";
  const std::vector<std::string> names = detail::names_in(variants, failed);
  if (failed && ::faccessat(AT_FDCWD, (variants / ".").c_str(), X_OK, AT_EACCESS) == 0) {
    return {"its library folder " + printable(variants.string()) + " cannot be listed: " + failed.message(),
            "make sure that this process can list the folder"};
  }
  for (const std::string& variant : names) {
    add(variants / variant / name);
  }
  return {};
}

class Gate {
 public:
  Gate(const Trust& trust, std::vector<PrivateLibrary>& passed) : trust_(trust), passed_(passed) {}

  // `inherited`: the DT_RPATH folders of the objects that need the file.
  Refusal check(const std::filesystem::path& file, const Admission& admission, const Folders& inherited) {
    const auto needs = read_needs(admission.descriptor.get(), admission.stamp.byte_count);
    if (!needs) {
      return {"its dynamic section is invalid", "copy or install it again"};
    }
    const auto origin = file.parent_path();
    Folders folders;
    Folders handed_on = inherited;
    const bool has_runpath = !needs->runpath.empty();
    for (const std::string& text : has_runpath ? needs->runpath : needs->rpath) {
      const auto folder = expand_origin(text, origin);
      if (!folder) {
        return unpredictable("searches '" + printable(text) + "' for libraries");
      }
      folders.push_back(*folder);
    }
    if (!has_runpath) {
      handed_on.insert(handed_on.begin(), folders.begin(), folders.end());
      folders = handed_on;
    }
    for (const std::string& name : needs->libraries) {
      if (auto refusal = check_library(name, origin, folders, handed_on)) {
        return refusal;
      }
    }
    return {};
  }

 private:
  static Refusal unpredictable(const std::string& what) {
    return {"it " + what + ", which depends on the working directory or the machine",
            "link it with absolute folders or with $ORIGIN"};
  }

  Refusal check_library(const std::string& name, const std::filesystem::path& origin, const Folders& folders,
                        const Folders& handed_on) {
    std::vector<std::filesystem::path> files;
    if (name.find('/') != std::string::npos) {
      const auto file = expand_origin(name, origin);
      if (!file) {
        return unpredictable("needs '" + printable(name) + "'");
      }
      files.push_back(*file);
    }
    for (const auto& folder : files.empty() ? folders : Folders()) {
      if (!is_system_folder(folder)) {
        if (auto refusal = add_files_in(folder, name, files)) {
          return refusal;
        }
      }
    }
    for (const auto& path : files) {
      const File file = resolve(path);
      if (!seen_.insert(file.path).second) {
        continue;
      }
      if (seen_.size() > kMaxLibraries) {
        return {"it has more than " + std::to_string(kMaxLibraries) + " private libraries",
                "link fewer libraries"};
      }
      const Admission own = admit_alone(file, trust_);
      auto refusal = own.refusal ? own.refusal : check(file.path, own, handed_on);
      if (refusal) {
        return {"its library " + printable(path.string()) + " is refused: " + refusal.reason, refusal.fix};
      }
      passed_.push_back({file.path, own.stamp});
    }
    return {};
  }

  const Trust& trust_;
  std::vector<PrivateLibrary>& passed_;
  std::set<std::filesystem::path> seen_;
};

}  // namespace

Refusal admit_private_libraries(const std::filesystem::path& plugin, const Trust& trust,
                                Admission& admission) {
  return Gate(trust, admission.libraries).check(plugin, admission, {});
}

}  // namespace yoke::loader
