// SPDX-License-Identifier: Apache-2.0
// runtime/loader/sanitizer.cpp: recognizes runtimes by the names of GCC's and Clang's libraries and functions.
#include "loader/sanitizer.h"

#include <dlfcn.h>

#include <string>

#include "loader/elf_needs.h"
#include "loader/memory_reader.h"

namespace yoke::loader {
namespace {

struct Sanitizer {
  std::string_view name;
  std::string_view gcc;  // how the runtime's file name begins
  std::string_view clang;
  std::string_view functions;  // how its functions' names begin
};

constexpr Sanitizer kSanitizers[] = {
    {"address", "libasan.so", "libclang_rt.asan", "__asan_"},
    {"address", "libhwasan.so", "libclang_rt.hwasan", "__hwasan_"},
    {"thread", "libtsan.so", "libclang_rt.tsan", "__tsan_"},
    {"memory", "libmsan.so", "libclang_rt.msan", "__msan_"},
    {"leak", "liblsan.so", "libclang_rt.lsan", "__lsan_"},
};

Refusal built_with(const Sanitizer& sanitizer, const std::string& why, const std::string& how) {
  return {"it was built with the " + std::string(sanitizer.name) + " sanitizer, and " + why,
          "to test this build, start yoke-conformance with " + how +
              "; to use the plugin, install a build without a sanitizer"};
}

bool is_loaded(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) {
    ::dlclose(handle);
  }
  return handle != nullptr;
}

}  // namespace

Refusal check_sanitizer(const Admission& admitted) {
  const auto needs = read_needs(admitted.descriptor.get(), admitted.stamp.byte_count);
  if (!needs) {
    return {};  // the linker reports it
  }
  for (const std::string& library : needs->libraries) {
    for (const Sanitizer& sanitizer : kSanitizers) {
      const bool is_runtime = library.starts_with(sanitizer.gcc) || library.starts_with(sanitizer.clang);
      if (is_runtime && !is_loaded(library)) {
        const std::string name = printable(library);
        return built_with(sanitizer, "this process was started without its runtime, " + name,
                          "LD_PRELOAD=" + name);
      }
    }
  }
  return {};
}

Refusal sanitizer_of(std::string_view linker_message) {
  for (const Sanitizer& sanitizer : kSanitizers) {
    if (linker_message.find("undefined symbol: " + std::string(sanitizer.functions)) !=
        std::string_view::npos) {
      return built_with(sanitizer, "this process was started without its runtime",
                        "its runtime in LD_PRELOAD");
    }
  }
  return {};
}

}  // namespace yoke::loader
