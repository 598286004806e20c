// SPDX-License-Identifier: Apache-2.0
// tests/hip_on_cuda/jumps.cpp: HIP's functions that take the same arguments as CUDA's, as jumps.
#include "shim.h"

#if !defined(__x86_64__)
#error "the jumps are written for x86-64"
#endif

// The symbols are weak: the functions in shim.cpp replace those whose arguments or numbers differ.
#define YOKE_SHIM_ROW(member, name)                                                                       \
  extern "C" {                                                                                            \
  [[gnu::visibility("hidden"), gnu::used]] void* yk_slot_##member{};                                      \
  }                                                                                                       \
  asm(".pushsection .text\n.weak " name "\n.type " name ", @function\n" name ":\n\tjmp *yk_slot_" #member \
      "(%rip)\n.popsection\n");

#define YOKE_DRIVER(member, parameters, cuda, hip) YOKE_SHIM_ROW(driver_##member, hip)
#define YOKE_COMPILER(member, parameters, nvrtc, hiprtc) YOKE_SHIM_ROW(compiler_##member, hiprtc)
#include "driver.def"

namespace hip_on_cuda {
namespace {

// Runs before any function of the library can be called.
[[gnu::constructor]] void fill_slots() {
#define YOKE_DRIVER(member, parameters, cuda, hip) yk_slot_driver_##member = find(Library::kDriver, cuda);
#define YOKE_COMPILER(member, parameters, nvrtc, hiprtc) \
  yk_slot_compiler_##member = find(Library::kCompiler, nvrtc);
#include "driver.def"
}

}  // namespace
}  // namespace hip_on_cuda
