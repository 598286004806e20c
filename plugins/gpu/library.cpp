// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/library.cpp: opens the driver and the run-time compiler.
#include "library.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <yoke/plugin.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace yoke::gpu {
namespace {

// `needed` is null for an optional function.
template <class Signature>
void look_up(void* library, const char* name, Function<Signature>& function, const char* needed,
             std::string& missing) {
  void* symbol = ::dlsym(library, name);
  static_assert(sizeof symbol == sizeof function.address);
  std::memcpy(&function.address, &symbol, sizeof symbol);
  function.name = name;
  if (symbol == nullptr && needed != nullptr && missing.empty()) {
    missing = needed;
  }
}

// The name of the first missing function.
std::string fill(void* library, bool is_hip, Driver& driver) {
  std::string missing;
#define YOKE_DRIVER(member, parameters, cuda, hip) \
  look_up(library, is_hip ? (hip) : (cuda), driver.member, is_hip ? (hip) : (cuda), missing);
#define YOKE_DRIVER_OPTIONAL(member, parameters, cuda, hip) \
  look_up(library, is_hip ? (hip) : (cuda), driver.member, nullptr, missing);
#include "driver.def"
  return missing;
}

std::string fill(void* library, bool is_hip, Compiler& compiler) {
  std::string missing;
#define YOKE_COMPILER(member, parameters, nvrtc, hiprtc) \
  look_up(library, is_hip ? (hiprtc) : (nvrtc), compiler.member, is_hip ? (hiprtc) : (nvrtc), missing);
#include "driver.def"
  return missing;
}

// The first file that opens. An environment variable replaces the whole list.
void* open_first(const char* variable, std::vector<const char*> files, std::string& fault) {
  const char* chosen = ::secure_getenv(variable);
  if (chosen != nullptr && *chosen != '\0') {
    files = {chosen};
  }
  for (const char* file : files) {
    if (void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
      fault.clear();
      return library;
    }
    if (fault.empty()) {
      const char* text = ::dlerror();
      fault = text != nullptr ? text : std::string(file) + " cannot be opened";
    }
  }
  return nullptr;
}

// The file that defines a function.
std::string identity_of(void* function) {
  Dl_info place = {};
  if (::dladdr(function, &place) == 0 || place.dli_fname == nullptr) {
    return "unknown";
  }
  struct stat status = {};
  std::string identity = place.dli_fname;
  if (::stat(place.dli_fname, &status) == 0) {
    identity += " " + std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
                std::to_string(status.st_mtim.tv_nsec);
  }
  return identity;
}

}  // namespace

std::vector<const char*> compiler_files_for(const VendorFacts& facts, int driver_version) {
  std::vector<const char*> files = facts.compiler_files;
  const std::string own = ".so." + std::to_string(driver_version / facts.major_unit);
  std::stable_partition(files.begin(), files.end(),
                        [&](std::string_view file) { return file.ends_with(own); });
  return files;
}

const std::string& Library::open_driver() {
  std::call_once(driver_once_, [this] {
    const VendorFacts& facts = vendor_.facts();
    handle_ = open_first(facts.driver_variable, facts.driver_files, driver_fault_);
    if (handle_ == nullptr) {
      driver_fault_ += "; " + std::string(facts.driver_hint);
      return;
    }
    std::string missing = fill(handle_, vendor_.facts().dialect == codegen::Dialect::kHip, driver_);
    if (missing.empty()) {
      const char* name =
          vendor_.bind([](void* library, const char* symbol) { return ::dlsym(library, symbol); }, handle_);
      missing = name != nullptr ? name : "";
    }
    if (!missing.empty()) {
      driver_fault_ = std::string("the driver is too old: it has no ") + missing + "; " + facts.driver_hint;
    }
  });
  return driver_fault_;
}

void Library::open_compiler() {
  const VendorFacts& facts = vendor_.facts();
  const bool is_hip = vendor_.facts().dialect == codegen::Dialect::kHip;
  const char* chosen = ::secure_getenv(facts.compiler_variable);
  // In ROCm 5, hiprtc is part of the driver's library.
  if ((chosen == nullptr || *chosen == '\0') && is_hip && fill(handle_, true, compiler_).empty()) {
    compiler_identity_ = identity_of(reinterpret_cast<void*>(compiler_.create.address));
    return;
  }
  int version = 0;
  (void)driver_.driver_version(&version);
  void* library = open_first(facts.compiler_variable, compiler_files_for(facts, version), compiler_fault_);
  if (library == nullptr) {
    compiler_fault_ = "the kernel compiler is missing: " + compiler_fault_ + "; " + facts.compiler_hint;
    return;
  }
  const std::string missing = fill(library, is_hip, compiler_);
  if (!missing.empty()) {
    compiler_fault_ = "the kernel compiler is too old: it has no " + missing + "; " + facts.compiler_hint;
  }
  compiler_identity_ = identity_of(reinterpret_cast<void*>(compiler_.create.address));
}

const Compiler& Library::compiler() {
  std::call_once(compiler_once_, [this] { open_compiler(); });
  if (!compiler_fault_.empty()) {
    throw sdk::Failure(YOKE_STATUS_FAILED_PRECONDITION, compiler_fault_);
  }
  return compiler_;
}

const std::string& Library::compiler_identity() {
  compiler();
  return compiler_identity_;
}

}  // namespace yoke::gpu
