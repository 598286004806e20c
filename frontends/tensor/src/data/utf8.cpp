// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/utf8.cpp: checks the bytes of a text.
#include "utf8.h"

namespace yoke::detail {

std::size_t invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto at = [&](std::size_t k) -> unsigned {
      return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0;
    };
    const unsigned lead = at(0);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    // The second byte excludes long forms, surrogates and numbers above 0x10FFFF.
    const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    bool is_valid = length > 0 && lead <= 0xF4 && (length == 1 || (at(1) >= least && at(1) <= most));
    for (std::size_t k = 2; k < length; ++k) {
      is_valid = is_valid && at(k) >= 0x80 && at(k) <= 0xBF;
    }
    if (!is_valid) {
      return i;
    }
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace yoke::detail
