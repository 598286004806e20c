// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/records.h: the fields of a table's lines.
#pragma once

#include <yoke/runtime/error.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::detail {

using Record = std::vector<std::string>;

// The records of a file, and the lines on which they begin.
struct Records {
  std::filesystem::path file;
  std::vector<Record> all;
  std::vector<std::uint64_t> lines;
  char separator = ',';  // ' ': blanks and tabs

  [[noreturn]] void fail(std::uint64_t line, const std::string& why) const {
    throw Error(ErrorCode::kDataLoss, file.string() + ", line " + std::to_string(line) + ": " + why);
  }
};

inline bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t") == std::string_view::npos;
}
// Text from a file, for messages.
std::string shown(std::string_view text);

// Lines without fields are left out; blank_records separates some files at tabs, as read_columns describes. Throws the
// Errors of read_csv and read_columns about the file and its text.
Records csv_records(const std::filesystem::path& file);
Records blank_records(const std::filesystem::path& file);

}  // namespace yoke::detail
