// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/fuzzer.cpp: one harness function as a libFuzzer program.
#include <cstddef>
#include <cstdint>

#include "harness.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  yoke::fuzz::YOKE_FUZZ_TARGET({data, size});
  return 0;
}
