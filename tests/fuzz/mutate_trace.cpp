// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/mutate_trace.cpp: updates the checksums of the records after each mutation; otherwise the
// reader would stop at the first changed record. Only libFuzzer programs contain it.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "layers/trace_file.h"

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
      // The length was mutated: the rest becomes the last record.
      count = static_cast<std::uint32_t>(left);
      std::memcpy(data + at, &count, sizeof(count));
    }
    const std::uint32_t check = yoke::layers::checksum_of(data + at + yoke::layers::kRecordHead, count);
    std::memcpy(data + at + sizeof(count), &check, sizeof(check));
    at += yoke::layers::kRecordHead + count;
  }
  return size;
}
