// SPDX-License-Identifier: Apache-2.0
// tests/hip_on_cuda/shim.h: a library with HIP's names over the CUDA driver and NVRTC, so that the unmodified
// plugin hip runs on an NVIDIA GPU. It has the functions of plugins/gpu/driver.def, and no others.
#pragma once

namespace hip_on_cuda {

enum class Library { kDriver, kCompiler };

// The function of the CUDA driver or of NVRTC; a function that returns "not found" if there is none.
void* find(Library library, const char* name);

}  // namespace hip_on_cuda
