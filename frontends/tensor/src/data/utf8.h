// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/utf8.h: whether a text is UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace yoke::detail {

// Where the text is not UTF-8 (RFC 3629, section 4); npos: nowhere.
std::size_t invalid_utf8(std::string_view text);

}  // namespace yoke::detail
