// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/compiler.cpp: the functions of NVRTC and hiprtc.
#include <algorithm>
#include <cstring>
#include <utility>

#include "compile.h"
#include "functions.h"
#include "objects.h"
#include "options.h"

namespace fake_gpu {
namespace {

constexpr int kInvalidInput = 3;
constexpr int kInvalidProgram = 4;

struct Program {
  int device = -1;
  std::string source;
  std::string name;
  std::mutex mutex;
  Compiled compiled;
};

Objects<Program>& programs() {
  static auto* const all = new Objects<Program>("program of the compiler", 0x57);
  return *all;
}

// The numbers of the compiler's errors differ from the driver's.
template <class Body>
int run_compiler(const char* name, const Body& body) {
  const int code = run(name, body);
  return code == kInvalidHandle ? kInvalidProgram : code;
}

// An injected failure has a log too: it blames the first line of the last kernel.
void add_log(Program& program) {
  const std::scoped_lock lock(program.mutex);
  const std::size_t kernel = std::min(program.source.rfind("YK_KERNEL("), program.source.size());
  const auto begin = program.source.begin();
  const auto line = 1 + std::count(begin, begin + static_cast<std::ptrdiff_t>(kernel), '\n');
  program.compiled.log = program.name + "(" + std::to_string(line) + "): error: injected\n";
}

// Sizes count the final zero of the log.
void give_size(void* program, std::size_t* byte_count, bool log) {
  const auto found = programs().get(program);
  const std::scoped_lock lock(found->mutex);
  *byte_count = log ? found->compiled.log.size() + 1 : found->compiled.image.size();
}

}  // namespace

int fake_compiler_version(int* major, int* minor) {
  return run_compiler("version", [&] {
    *major = kHip ? 9 : 13;
    *minor = 0;
  });
}

int fake_compiler_create(void** program, const char* source, const char* name, int header_count,
                         const char* const*, const char* const*) {
  return run_compiler("create", [&] {
    if (source == nullptr || header_count != 0) {
      throw Error{kInvalidInput};
    }
    auto created = std::make_shared<Program>();
    created->source = source;
    created->name = name;
    *program = programs().add(std::move(created));
  });
}

int fake_compiler_compile(void* program, int option_count, const char* const* options) {
  bool is_injected = true;
  const int code = run_compiler("compile", [&] {
    is_injected = false;
    const auto found = programs().get(program);
    const std::scoped_lock lock(found->mutex);
    found->compiled = compile(found->source, {options, options + option_count});
    if (found->compiled.code != 0) {
      throw Error{found->compiled.code};
    }
  });
  if (code == kCompilationFailed && is_injected) {
    (void)run_compiler("", [&] { add_log(*programs().get(program)); });
  }
  return code;
}

int fake_compiler_log_size(void* program, std::size_t* byte_count) {
  return run_compiler("log_size", [&] { give_size(program, byte_count, true); });
}

int fake_compiler_log(void* program, char* text) {
  return run_compiler("log", [&] {
    const auto found = programs().get(program);
    const std::scoped_lock lock(found->mutex);
    std::memcpy(text, found->compiled.log.c_str(), found->compiled.log.size() + 1);
  });
}

int fake_compiler_code_size(void* program, std::size_t* byte_count) {
  return run_compiler("code_size", [&] { give_size(program, byte_count, false); });
}

int fake_compiler_code(void* program, char* image) {
  return run_compiler("code", [&] {
    const auto found = programs().get(program);
    const std::scoped_lock lock(found->mutex);
    std::memcpy(image, found->compiled.image.data(), found->compiled.image.size());
  });
}

#ifndef FAKE_GPU_HIP
int fake_compiler_architecture_count(int* count) {
  return run_compiler("architecture_count", [&] { *count = static_cast<int>(kCapabilities.size()); });
}

int fake_compiler_architectures(int* capabilities) {
  return run_compiler("architectures",
                      [&] { std::copy(kCapabilities.begin(), kCapabilities.end(), capabilities); });
}

int fake_compiler_ptx_size(void* program, std::size_t* byte_count) {
  return run_compiler("ptx_size", [&] {
    const auto found = programs().get(program);
    const std::scoped_lock lock(found->mutex);
    *byte_count = found->compiled.ptx.size();
  });
}

int fake_compiler_ptx(void* program, char* text) {
  return run_compiler("ptx", [&] {
    const auto found = programs().get(program);
    const std::scoped_lock lock(found->mutex);
    std::memcpy(text, found->compiled.ptx.data(), found->compiled.ptx.size());
  });
}
#endif

int fake_compiler_destroy(void** program) {
  return run_compiler("destroy", [&] {
    programs().remove(*program);
    *program = nullptr;
  });
}

const char* fake_compiler_error_string(int code) {
  switch (code) {
    case 0:
      return FAKE_GPU_NAME("NVRTC_SUCCESS", "HIPRTC_SUCCESS");
    case kInvalidInput:
      return FAKE_GPU_NAME("NVRTC_ERROR_INVALID_INPUT", "HIPRTC_ERROR_INVALID_INPUT");
    case kInvalidProgram:
      return FAKE_GPU_NAME("NVRTC_ERROR_INVALID_PROGRAM", "HIPRTC_ERROR_INVALID_PROGRAM");
    case 5:
      return FAKE_GPU_NAME("NVRTC_ERROR_INVALID_OPTION", "HIPRTC_ERROR_INVALID_OPTION");
    case 6:
      return FAKE_GPU_NAME("NVRTC_ERROR_COMPILATION", "HIPRTC_ERROR_COMPILATION");
    default:
      return FAKE_GPU_NAME("NVRTC_ERROR unknown", "HIPRTC_ERROR unknown");
  }
}

}  // namespace fake_gpu
