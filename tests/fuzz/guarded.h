// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/guarded.h: memory that must not be accessed past its end: the address sanitizer checks every
// byte, otherwise an inaccessible page follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "../abi_gate/edge.h"

#if defined(__SANITIZE_ADDRESS__)
#define YOKE_FUZZ_HEAP 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define YOKE_FUZZ_HEAP 1
#endif
#endif

namespace yoke::fuzz {

class Guarded {
 public:
#if defined(YOKE_FUZZ_HEAP)
  explicit Guarded(std::size_t byte_count) : bytes_(std::make_unique<std::uint8_t[]>(byte_count)) {}
  std::uint8_t* data() const {
    return bytes_.get();
  }

 private:
  std::unique_ptr<std::uint8_t[]> bytes_;
#else
  explicit Guarded(std::size_t byte_count) : bytes_(byte_count) {}
  std::uint8_t* data() const {
    return bytes_.as<std::uint8_t>();
  }

 private:
  test::Edge bytes_;
#endif
};

}  // namespace yoke::fuzz
