// SPDX-License-Identifier: Apache-2.0
// tests/codegen_resources/compiler.h: compilers of kernels, which need no GPU.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen.h"

namespace yoke::codegen::test {

// What a kernel uses on a device, in order of display.
struct Resources {
  long registers = 0;  // of a thread
  long shared = 0;     // bytes of a block
  long arguments = 0;  // bytes
  long spilled = 0;    // NVRTC: bytes of stores; hiprtc: registers
};

// Whether the architecture is newer than hiprtc 5.2, so that clang++-19 compiles it.
bool is_new_amd(const Target& target);

// The version of the target's compiler, such as "NVRTC 13.0"; empty where it is not installed.
std::string compiler_version(const Target& target);

// Compiles for the target and returns the resources of each kernel by name, or those of an earlier call of any process
// with the same source, compiler and target. Throws std::runtime_error with the compiler's messages.
std::map<std::string, Resources> resources_of(const std::string& source, const Target& target);

}  // namespace yoke::codegen::test
