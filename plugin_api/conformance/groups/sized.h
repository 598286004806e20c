// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/sized.h: checks calls that fill a struct whose
// struct_size is that of an older or newer host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "check.h"
#include "plugin.h"

namespace yoke::conformance {

// Calls `fill` with a T whose struct_size is shorter, equal and longer. The call must not write past
// struct_size, must not change struct_size, and must write the same values to the common members each
// time. Only for calls whose results do not change between calls.
template <class T>
void check_sized(const char* what, const std::function<Answer(T*)>& fill) {
  constexpr unsigned char kUntouched = 0xa5;
  constexpr std::size_t kRoom = sizeof(T) + 256;
  std::vector<unsigned char> whole(kRoom);
  for (const std::size_t size : {sizeof(T), sizeof(T) / 2 / 8 * 8, std::size_t{8}, sizeof(T) + 128}) {
    std::vector<unsigned char> bytes(kRoom, kUntouched);
    const std::uint64_t struct_size = size;
    std::memcpy(bytes.data(), &struct_size, sizeof struct_size);
    expect_ok(fill(reinterpret_cast<T*>(bytes.data())), text(what, " with struct_size ", size));
    std::uint64_t after = 0;
    std::memcpy(&after, bytes.data(), sizeof after);
    check_equal(after, struct_size, what, " must not change struct_size, which");
    const std::size_t known = std::min(size, sizeof(T));
    check(std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(known), bytes.end(),
                      [](unsigned char byte) { return byte == kUntouched; }),
          what, " with struct_size ", size, " wrote past byte ", known);
    if (size == sizeof(T)) {
      whole = bytes;
    } else {
      check(std::equal(bytes.begin() + 8, bytes.begin() + static_cast<std::ptrdiff_t>(known),
                       whole.begin() + 8),
            what, " with struct_size ", size, " returned other values than with struct_size ", sizeof(T));
    }
  }
}

// Fails unless the call fails with `code` and leaves the struct unchanged.
template <class T>
void check_untouched(const char* what, std::int32_t code, const std::function<Answer(T*)>& fill) {
  std::vector<unsigned char> bytes(sizeof(T), 0xa5);
  const std::uint64_t struct_size = sizeof(T);
  std::memcpy(bytes.data(), &struct_size, sizeof struct_size);
  const std::vector<unsigned char> before = bytes;
  expect_code(fill(reinterpret_cast<T*>(bytes.data())), code, what);
  check(bytes == before, what, ": the call failed but wrote the struct");
}

}  // namespace yoke::conformance
