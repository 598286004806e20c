// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/mutate_program.cpp: changes tokens and lines of programs, so that most inputs pass the parser and
// many reach the last rules of the verifier. Only libFuzzer programs contain it.
#include <yoke/program/text.h>

#include <cstring>
#include <string>
#include <string_view>

#include "mutate.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed);

namespace {

bool parses(std::string_view text) {
  try {
    yoke::program::parse(text);
    return true;
  } catch (const yoke::program::ProgramError&) {
    return false;
  }
}

}  // namespace

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                    unsigned seed) {
  constexpr int kAttempts = 8;  // of which one usually parses
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  yoke::conformance::Random random(seed, "fuzz");
  for (int i = 0; i < kAttempts && seed % 8 != 0; ++i) {
    const std::string changed = yoke::conformance::change_tokens(text, random);
    if (!changed.empty() && changed.size() <= max_size && parses(changed)) {
      std::memcpy(data, changed.data(), changed.size());
      return changed.size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
