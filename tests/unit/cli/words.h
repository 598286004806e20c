// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/words.h: words of a command line, and the JSON that a command prints.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"

namespace yoke::test {

inline std::vector<std::string> joined(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline nlohmann::json json_of(const std::vector<std::string>& words) {
  const auto outcome = run(joined(words, {"--json"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return nlohmann::json::parse(outcome.out, nullptr, false);
}

}  // namespace yoke::test
