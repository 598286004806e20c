// SPDX-License-Identifier: Apache-2.0
// runtime/loader/library.cpp: the only file that knows Boost.DLL, which takes seconds to compile.
#define BOOST_DLL_USE_STD_FS
#include "loader/library.h"

#include <dlfcn.h>

#include <boost/dll/shared_library.hpp>
#include <system_error>

namespace yoke::loader {
namespace {

// Boost.DLL wraps dlerror's text in its own; only the linker's part helps a user.
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

// Does `address` lie in the object that was loaded from `path`? A symbol may come from a library that the
// plugin links.
bool belongs_to(const void* address, const std::filesystem::path& path) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return false;
  }
  std::error_code failed;
  return std::filesystem::equivalent(info.dli_fname, path, failed) && !failed;
}

}  // namespace

Library open_library(const std::filesystem::path& path) {
  namespace dll = boost::dll;
  Library library;
  // Bound at once, so that a missing symbol is an answer here and no crash later; local, so that plugins
  // never see each other's symbols; never unmapped. Boost.DLL has no name for the last, and hands the bit on.
  const auto mode = dll::load_mode::rtld_now | dll::load_mode::rtld_local |
                    static_cast<dll::load_mode::type>(RTLD_NODELETE);
  try {
    dll::shared_library handle(path, mode);
    library.mapped = true;
    if (!handle.has(YOKE_PLUGIN_ENTRY_SYMBOL)) {
      library.reason = "it exports no " YOKE_PLUGIN_ENTRY_SYMBOL ": it is no yoke plugin";
      library.mend = "export the entry (extern \"C\", default visibility; the SDK's macro does it)";
      return library;
    }
    auto* const entry = &handle.get<std::int32_t(const yoke_entry_args*, yoke_plugin**, yoke_error*)>(
        YOKE_PLUGIN_ENTRY_SYMBOL);
    if (!belongs_to(reinterpret_cast<const void*>(entry), path)) {
      library.reason = "its " YOKE_PLUGIN_ENTRY_SYMBOL " comes from another library that it links";
      library.mend = "link that library with --exclude-libs, and export an entry of its own";
      return library;
    }
    library.entry = entry;
  } catch (const std::exception& failure) {
    library.reason = "the linker refused it: " + linker_text(failure);
    library.mend = "install what it needs, or a build of it for this system (ldd -r shows what is missing)";
  }
  return library;
}

}  // namespace yoke::loader
