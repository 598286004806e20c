// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/mutate_trace.cpp: after each change the records' checks are made right again: else nothing
// behind the first changed byte would be read. Only libFuzzer programs have it.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "layers/hash.h"
#include "layers/trace_format.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed);

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                    unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 16 == 0) {
    return size;
  }
  yoke::layers::TraceHeader header{};
  if (size < sizeof(header)) {
    return size;
  }
  std::memcpy(data, yoke::layers::kTraceMagic, sizeof(header.magic));
  for (std::size_t at = sizeof(header); size - at > yoke::layers::kRecordHead;) {
    std::uint32_t count = 0;
    std::memcpy(&count, data + at, sizeof(count));
    const std::size_t left = size - at - yoke::layers::kRecordHead;
    if (count == 0 || count > left) {
      // A length that was hit: the rest becomes the last record.
      count = static_cast<std::uint32_t>(left);
      std::memcpy(data + at, &count, sizeof(count));
    }
    const auto check =
        static_cast<std::uint32_t>(yoke::layers::hash_of(data + at + yoke::layers::kRecordHead, count));
    std::memcpy(data + at + sizeof(count), &check, sizeof(check));
    at += yoke::layers::kRecordHead + count;
  }
  return size;
}
