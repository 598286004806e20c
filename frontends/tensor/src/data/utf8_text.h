// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/utf8_text.h: reads a text that must be UTF-8.
#pragma once

#include <filesystem>
#include <string>

namespace yoke::detail {

// Returns the text of a file without its byte order mark. Errors: those of read_file; kDataLoss if the text is not
// UTF-8 or has a zero byte.
std::string read_utf8(const std::filesystem::path& file);

}  // namespace yoke::detail
