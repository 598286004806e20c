// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/replay_run_test.cpp: what inputs_test.cpp is for the other fuzzers. A program of its own, as it
// needs the whole runtime, of which the others have parts compiled in.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "harness.h"

namespace yoke::fuzz {
namespace {

TEST(ReplayedInputs, EveryRegressionEndsWell) {
  std::size_t count = 0;
  for (const char* const name : {"replay_run", "replay"}) {
    const auto folder = std::filesystem::path(YOKE_TEST_SOURCE_DIR) / "tests/fuzz/regressions" / name;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      SCOPED_TRACE(entry.path());
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      EXPECT_NO_THROW(replay_run({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}));
      ++count;
    }
  }
  EXPECT_GT(count, 3U);
}

}  // namespace
}  // namespace yoke::fuzz
