// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/utf8_text.cpp: reads and checks a text.
#include "data/utf8_text.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "data/files.h"

namespace yoke::detail {
namespace {

// Where the text is not UTF-8 (RFC 3629, section 4); npos: nowhere.
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

}  // namespace

std::string read_utf8(const std::filesystem::path& file) {
  const std::vector<std::byte> bytes = read_file(file);
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    throw Error(ErrorCode::kDataLoss, file.string() + ": the text is encoded in UTF-16; save it as UTF-8");
  }
  if (const std::size_t zero = text.find('\0'); zero != std::string::npos) {
    throw Error(ErrorCode::kDataLoss,
                file.string() + ": byte " + std::to_string(zero) +
                    " is zero, so this is not text, or text in UTF-16; save it as UTF-8 text");
  }
  if (const std::size_t wrong = invalid_utf8(text); wrong != std::string::npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(wrong), '\n');
    throw Error(ErrorCode::kDataLoss, file.string() + ", line " + std::to_string(line) +
                                          ": the text is not UTF-8; save it as UTF-8");
  }
  return text.starts_with("\xef\xbb\xbf") ? text.substr(3) : text;  // a byte order mark
}

}  // namespace yoke::detail
