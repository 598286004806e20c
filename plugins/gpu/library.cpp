// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/library.cpp: opens the driver, the run-time compiler, and the optional libraries.
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

template <class Signature>
void look_up(void* library, const char* name, Function<Signature>& function, std::string& missing) {
  void* symbol = ::dlsym(library, name);
  static_assert(sizeof symbol == sizeof function.address);
  std::memcpy(&function.address, &symbol, sizeof symbol);
  function.name = name;
  if (symbol == nullptr && missing.empty()) {
    missing = name;
  }
}

// The name of the first missing function.
std::string fill(void* library, bool is_hip, Driver& driver) {
  std::string missing;
#define YOKE_DRIVER(member, parameters, cuda, hip) \
  look_up(library, is_hip ? (hip) : (cuda), driver.member, missing);
#include "driver.def"
  return missing;
}

std::string fill(void* library, bool is_hip, Compiler& compiler) {
  std::string missing;
#define YOKE_COMPILER(member, parameters, nvrtc, hiprtc) \
  look_up(library, is_hip ? (hiprtc) : (nvrtc), compiler.member, missing);
#include "driver.def"
  return missing;
}

std::string fill(void* library, bool is_hip, Blas& blas) {
  std::string missing;
#define YOKE_BLAS(member, parameters, cublaslt, hipblaslt) \
  look_up(library, is_hip ? (hipblaslt) : (cublaslt), blas.member, missing);
#include "driver.def"
  return missing;
}

std::string fill(void* library, bool is_hip, Dnn& dnn) {
  std::string missing;
  const auto look_up_own = [&](bool is_own, const char* name, auto& function) {
    if (is_own) {
      look_up(library, name, function, missing);
    }
  };
#define YOKE_DNN(member, parameters, cudnn, miopen) \
  look_up(library, is_hip ? (miopen) : (cudnn), dnn.member, missing);
#define YOKE_CUDNN(member, parameters, name) look_up_own(!is_hip, name, dnn.member);
#define YOKE_MIOPEN(member, parameters, name) look_up_own(is_hip, name, dnn.member);
#include "driver.def"
  if (is_hip) {  // its filters are tensors
    dnn.filters_create = dnn.tensor_create;
    dnn.filters_destroy = dnn.tensor_destroy;
  }
  return missing;
}

std::string fill(void* library, Comm& comm) {
  std::string missing;
#define YOKE_COMM(member, parameters, function) look_up(library, function, comm.member, missing);
#include "driver.def"
  return missing;
}

// Opens the files in order until look_up_all(library) finds every function; it returns the name of a missing
// one. Then `why_not(library)` must be empty. An environment variable replaces the whole list. `fault` says why
// `what` cannot be used.
template <class LookUpAll, class WhyNot>
void* open_first(const char* variable, std::vector<const char*> files, const std::string& what,
                 const LookUpAll& look_up_all, const WhyNot& why_not, std::string& fault) {
  const char* chosen = ::secure_getenv(variable);
  if (chosen != nullptr && *chosen != '\0') {
    files = {chosen};
  }
  for (const char* file : files) {
    if (void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
      const std::string missing = look_up_all(library);
      const std::string reason = missing.empty() ? why_not(library) : " has no " + missing;
      if (reason.empty()) {
        fault.clear();
        return library;
      }
      fault = what + (missing.empty() ? " cannot be used: " : " is too old: ");
      fault.append(file).append(reason);
      (void)::dlclose(library);
    } else if (fault.empty()) {
      const char* text = ::dlerror();
      fault = what + " is missing: " + (text != nullptr ? text : std::string(file) + " cannot be opened");
    }
  }
  return nullptr;
}

std::string no_reason(void*) {
  return {};
}

void* find_symbol(void* library, const char* name) {
  return ::dlsym(library, name);
}

std::string file_of(void* function) {
  Dl_info place = {};
  return ::dladdr(function, &place) != 0 && place.dli_fname != nullptr ? place.dli_fname : "another file";
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

std::vector<const char*> own_release_first(const VendorFacts& facts, std::vector<const char*> files,
                                           int driver_version) {
  const std::string own = ".so." + std::to_string(driver_version / facts.major_unit);
  std::stable_partition(files.begin(), files.end(),
                        [&](std::string_view file) { return file.ends_with(own); });
  return files;
}

const std::string& Library::open_driver() {
  std::call_once(driver_once_, [this] {
    const VendorFacts& facts = vendor_.facts();
    const auto look_up_all = [&](void* library) {
      std::string missing = fill(library, facts.dialect == codegen::Dialect::kHip, driver_);
      const char* name = vendor_.bind(&find_symbol, library);
      return missing.empty() && name != nullptr ? name : missing;
    };
    handle_ = open_first(facts.driver_variable, facts.driver_files, "the driver", look_up_all, no_reason,
                         driver_fault_);
    driver_fault_ += handle_ == nullptr ? "; " + std::string(facts.driver_hint) : "";
  });
  return driver_fault_;
}

void Library::open_compiler() {
  const VendorFacts& facts = vendor_.facts();
  const bool is_hip = facts.dialect == codegen::Dialect::kHip;
  const char* chosen = ::secure_getenv(facts.compiler_variable);
  // In ROCm 5, hiprtc is part of the driver's library.
  if ((chosen == nullptr || *chosen == '\0') && is_hip && fill(handle_, true, compiler_).empty()) {
    compiler_identity_ = identity_of(reinterpret_cast<void*>(compiler_.create.address));
    return;
  }
  int version = 0;
  (void)driver_.driver_version(&version);
  void* library = open_first(
      facts.compiler_variable, own_release_first(facts, facts.compiler_files, version), "the kernel compiler",
      [&](void* opened) { return fill(opened, is_hip, compiler_); }, no_reason, compiler_fault_);
  if (library == nullptr) {
    compiler_fault_ += "; " + std::string(facts.compiler_hint);
    return;
  }
  vendor_.bind_compiler(&find_symbol, library);
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

// Why the library belongs to a driver other than yoke's; empty if it does not. ROCm's libraries are linked with the
// runtime of their release, which does not know the streams and memory of another release.
std::string Library::other_driver(void* library) const {
  void* const linked = find_symbol(library, driver_.init.name);
  return linked == nullptr || linked == reinterpret_cast<void*>(driver_.init.address)
             ? std::string()
             : " is linked with " + file_of(linked) + ", and yoke uses " +
                   file_of(reinterpret_cast<void*>(driver_.init.address)) + "; install both of one release";
}

void Library::open_blas() {
  const VendorFacts& facts = vendor_.facts();
  const bool is_hip = facts.dialect == codegen::Dialect::kHip;
  int version = 0;
  (void)driver_.driver_version(&version);
  blas_handle_ = open_first(
      facts.blas.library.variable, own_release_first(facts, facts.blas.library.files, version),
      facts.blas.library.name, [&](void* opened) { return fill(opened, is_hip, blas_); },
      [&](void* opened) { return other_driver(opened); }, blas_fault_);
}

const Blas* Library::blas() {
  std::call_once(blas_once_, [this] { open_blas(); });
  return blas_fault_.empty() ? &blas_ : nullptr;
}

void Library::open_dnn() {
  const VendorFacts& facts = vendor_.facts();
  const LibraryFacts& dnn = facts.dnn.library;
  const bool is_hip = facts.dialect == codegen::Dialect::kHip;
  (void)open_first(
      dnn.variable, dnn.files, dnn.name, [&](void* opened) { return fill(opened, is_hip, dnn_); },
      [&](void* opened) { return other_driver(opened); }, dnn_fault_);
}

const Dnn* Library::dnn() {
  std::call_once(dnn_once_, [this] { open_dnn(); });
  return dnn_fault_.empty() ? &dnn_ : nullptr;
}

void Library::open_comm() {
  const CommFacts& facts = vendor_.facts().comm;
  int version = 0;
  if (open_first(
          facts.variable, facts.files, facts.name, [&](void* opened) { return fill(opened, comm_); },
          [&](void* opened) { return other_driver(opened); }, comm_fault_) == nullptr) {
    return;
  }
  if (const int code = comm_.version(&version); code != 0 || version < kOldestComm) {
    comm_fault_ = std::string(facts.name) + " is too old: its version number is " + std::to_string(version) +
                  ", and yoke needs " + std::to_string(kOldestComm);
  }
}

const Comm* Library::comm() {
  std::call_once(comm_once_, [this] { open_comm(); });
  return comm_fault_.empty() ? &comm_ : nullptr;
}

int Library::blas_version(void* handle, int& version) const {
  return vendor_.blas_version(find_symbol, blas_handle_, handle, version);
}

}  // namespace yoke::gpu
