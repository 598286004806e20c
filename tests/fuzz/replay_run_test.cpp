// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/replay_run_test.cpp: what inputs_test.cpp is for the other fuzzers. A program of its own, as it
// needs the whole runtime, of which the others have parts compiled in.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness.h"

namespace yoke::fuzz {
namespace {

// With so much time that a busy machine cuts none of them short.
TEST(ReplayedInputs, EveryRegressionEndsWell) {
  const ReplayTimes times{.timeout = std::chrono::seconds(10), .time_limit = std::chrono::seconds(60)};
  std::size_t count = 0;
  for (const std::string name : {"replay_run", "replay"}) {
    const auto folder = std::filesystem::path(YOKE_TEST_SOURCE_DIR) / "tests/fuzz/regressions" / name;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      SCOPED_TRACE(entry.path());
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      std::uint64_t done = 0;
      EXPECT_NO_THROW(
          done = replay_run({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, times));
      // Those of this fuzzer are whole traces: what they once did is only reached where they are done.
      EXPECT_TRUE(done > 0 || name != "replay_run");
      ++count;
    }
  }
  EXPECT_GT(count, 3U);
}

}  // namespace
}  // namespace yoke::fuzz
