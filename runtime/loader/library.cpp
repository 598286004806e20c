// SPDX-License-Identifier: Apache-2.0
// runtime/loader/library.cpp: the only file that includes Boost.DLL, which takes seconds to compile.
#define BOOST_DLL_USE_STD_FS
#include "loader/library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <cstring>
#include <mutex>
#include <span>
#include <vector>

#include "loader/memory_reader.h"
#include "loader/sanitizer.h"

namespace yoke::loader {
namespace {

// The linker serializes constructors too, but with a lock that the thread sanitizer does not see. Without
// this mutex it reports races between a constructor and another runtime that enters the same file.
constinit std::mutex opening;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// Extracts dlerror's message from Boost.DLL's.
std::string linker_text(const std::exception& failure) {
  constexpr std::string_view kBefore = "(dlerror system message: ";
  std::string text = failure.what();
  const auto begin = text.find(kBefore);
  const auto end = text.rfind("): ");
  if (begin == std::string::npos || end == std::string::npos || end < begin + kBefore.size()) {
    return text;
  }
  return text.substr(begin + kBefore.size(), end - begin - kBefore.size());
}

// The program headers of a mapped object, which the linker keeps while it is mapped.
struct Mapped {
  ElfW(Addr) base = 0;
  std::span<const ElfW(Phdr)> segments;
};

Mapped mapped_object(const link_map& object) {
  Mapped found{object.l_addr, {}};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        auto& mapped = *static_cast<Mapped*>(to);
        if (info->dlpi_addr != mapped.base) {
          return 0;
        }
        mapped.segments = {info->dlpi_phdr, info->dlpi_phnum};
        return 1;
      },
      &found);
  return found;
}

// Not memcmp: a plugin that was built with the address sanitizer has guard zones between its constants, and
// memcmp would be reported for reading them.
__attribute__((no_sanitize("address"))) bool equals_mapped(const std::vector<char>& bytes,
                                                           const volatile char* mapped) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes.data()[i] != mapped[i]) {
      return false;
    }
  }
  return true;
}

// Compares program headers and read-only data, which include the build id. Not the code: debuggers change it.
bool same_bytes(const Mapped& mapped, int file) {
  ElfW(Ehdr) header;
  if (!read_at(file, 0, &header, sizeof(header)) || header.e_phnum != mapped.segments.size()) {
    return false;
  }
  std::vector<ElfW(Phdr)> segments(header.e_phnum);
  if (!read_at(file, header.e_phoff, segments.data(), segments.size() * sizeof(segments[0])) ||
      std::memcmp(segments.data(), mapped.segments.data(), mapped.segments.size_bytes()) != 0) {
    return false;
  }
  std::vector<char> bytes;
  for (const auto& segment : mapped.segments) {
    if (segment.p_type == PT_LOAD && segment.p_flags == PF_R) {
      bytes.resize(segment.p_filesz);
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the linker's addresses are integers
      const auto* in_memory = reinterpret_cast<const char*>(mapped.base + segment.p_vaddr);
      if (!read_at(file, segment.p_offset, bytes.data(), bytes.size()) || !equals_mapped(bytes, in_memory)) {
        return false;
      }
    }
  }
  return true;
}

bool unchanged(const std::filesystem::path& path, const Admission& admitted) {
  struct stat by_descriptor {};
  struct stat by_path {};
  return ::fstat(admitted.descriptor.get(), &by_descriptor) == 0 && ::stat(path.c_str(), &by_path) == 0 &&
         stamp_of(by_descriptor) == admitted.stamp && stamp_of(by_path) == admitted.stamp;
}

// Called right before the linker opens the files: a file that was replaced since its check, for instance
// while it was probed, must not run its constructors.
Refusal check_unchanged(const std::filesystem::path& path, const Admission& admitted) {
  const auto is_same = [](const PrivateLibrary& library) {
    struct stat status {};
    return ::stat(library.path.c_str(), &status) == 0 && stamp_of(status) == library.stamp;
  };
  const auto& libraries = admitted.libraries;
  const auto replaced = std::find_if_not(libraries.begin(), libraries.end(), is_same);
  const bool is_whole = replaced == libraries.end();
  if (is_whole && unchanged(path, admitted)) {
    return {};
  }
  return {(is_whole ? std::string("it") : "its library " + printable(replaced->path.string())) +
              " was replaced while being loaded",
          "try again when its installation is complete"};
}

Refusal check_mapped(const std::filesystem::path& path, const Admission& admitted, const Mapped& mapped,
                     bool was_loaded) {
  if (unchanged(path, admitted) && same_bytes(mapped, admitted.descriptor.get())) {
    return {};
  }
  return was_loaded
             ? Refusal{"another version of this file is already loaded in this process",
                       "restart the process to load the new one"}
             : Refusal{"it was replaced while being loaded: the mapped file is not the one that was checked",
                       "restart the process when its installation is complete"};
}

// Refuses an entry that is defined in a library that the plugin links, or that is data.
Refusal check_entry(const void* entry, const link_map& object, const Mapped& mapped) {
  Dl_info info{};
  void* owner = nullptr;
  if (::dladdr1(entry, &info, &owner, RTLD_DL_LINKMAP) == 0 || owner != &object) {
    return {"its " YOKE_PLUGIN_ENTRY_SYMBOL " is defined in another library that it links",
            "link that library with --exclude-libs, and export the plugin's own entry"};
  }
  const auto at = reinterpret_cast<ElfW(Addr)>(entry) - mapped.base;
  for (const auto& segment : mapped.segments) {
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 && at >= segment.p_vaddr &&
        at - segment.p_vaddr < segment.p_memsz) {
      return {};
    }
  }
  return {"its " YOKE_PLUGIN_ENTRY_SYMBOL " is data, not a function", "export a function of that name"};
}

}  // namespace

Library open_library(const std::filesystem::path& path, const Admission& admitted) {
  namespace dll = boost::dll;
  Library library;
  if (library.refusal = check_unchanged(path, admitted); library.refusal) {
    return library;
  }
  if (library.refusal = check_sanitizer(admitted); library.refusal) {
    return library;
  }
  const std::lock_guard lock(opening);
  // rtld_now: a missing symbol fails here and not in a later call. rtld_local: plugins do not see each
  // other's symbols. Boost.DLL has no name for RTLD_NODELETE but passes it on.
  const auto mode = dll::load_mode::rtld_now | dll::load_mode::rtld_local |
                    static_cast<dll::load_mode::type>(RTLD_NODELETE);
  void* const before = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (before != nullptr) {
    ::dlclose(before);
  }
  try {
    dll::shared_library handle(path, mode);
    library.mapped = true;
    link_map* object = nullptr;
    if (::dlinfo(handle.native(), RTLD_DI_LINKMAP, &object) != 0) {
      library.refusal = {"dlinfo cannot find it after it was loaded", "report it to yoke's authors"};
      return library;
    }
    const Mapped mapped = mapped_object(*object);
    if (library.refusal = check_mapped(path, admitted, mapped, before != nullptr); library.refusal) {
      return library;
    }
    if (!handle.has(YOKE_PLUGIN_ENTRY_SYMBOL)) {
      library.refusal = {"it does not export " YOKE_PLUGIN_ENTRY_SYMBOL ", so it is not a yoke plugin",
                         "export the entry (extern \"C\", default visibility), or use the SDK's macro"};
      return library;
    }
    auto* const entry = &handle.get<std::int32_t(const yoke_entry_args*, yoke_plugin**, yoke_error*)>(
        YOKE_PLUGIN_ENTRY_SYMBOL);
    library.refusal = check_entry(reinterpret_cast<const void*>(entry), *object, mapped);
    if (!library.refusal) {
      library.entry = entry;
    }
  } catch (const std::exception& failure) {
    const std::string text = linker_text(failure);
    library.refusal = sanitizer_of(text);
    if (!library.refusal) {
      library.refusal = {
          "the dynamic linker refused it: " + printable(text, 1000),
          "install the libraries that it needs (ldd -r lists them), or a build for this system"};
    }
  } catch (...) {
    library.refusal = {
        "one of its constructors threw an exception",
        "restart the process before loading anything else, and report it to the plugin's author"};
  }
  return library;
}

}  // namespace yoke::loader
