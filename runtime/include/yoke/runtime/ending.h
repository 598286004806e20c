// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/ending.h: the ending of a file's name, which chooses its format.
#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>

namespace yoke::detail {

// ".csv" of "data.csv" and of "DATA.CSV"; empty: the name has no ending.
inline std::string ending_of(const std::filesystem::path& file) {
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char each) { return static_cast<char>(std::tolower(each)); });
  return ending;
}

}  // namespace yoke::detail
