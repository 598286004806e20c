// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/compiler/compile.h: compiles the text of kernels for the CPU, and keeps the results in a
// folder that processes share.
#pragma once

#include <string>
#include <vector>

namespace fake_gpu {

struct Compiled {
  int code = 0;       // an error number of the run-time compiler
  std::string log;    // as the compiler would print it
  std::string image;  // for cuModuleLoadData; empty if the architecture is virtual
  std::string ptx;    // of CUDA
};

Compiled compile(const std::string& source, const std::vector<std::string>& options);

}  // namespace fake_gpu
