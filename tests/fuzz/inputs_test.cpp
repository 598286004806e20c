// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/inputs_test.cpp: the regressions of all fuzzers, and a plugin with each bit flipped, without
// libFuzzer and with any compiler.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness.h"
#include "test_paths.h"

namespace yoke::fuzz {
namespace {

using Harness = std::function<void(std::span<const std::uint8_t>)>;

const std::map<std::string, Harness>& harnesses() {
  static const std::map<std::string, Harness> all = {
      {"program_text", program_text}, {"plugin_notes", plugin_notes}, {"trace_reader", trace_reader}};
  return all;
}

std::vector<std::uint8_t> read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      found.push_back(entry.path());
    }
  }
  return found;
}

const std::filesystem::path kRegressions =
    std::filesystem::path(test::source_folder()) / "tests/fuzz/regressions";

TEST(FuzzedInputs, EveryRegressionIsHandled) {
  for (const auto& folder : std::filesystem::directory_iterator(kRegressions)) {
    const auto harness = harnesses().find(folder.path().filename());
    ASSERT_NE(harness, harnesses().end()) << folder.path() << " is not named after a fuzzer";
    const auto files = files_below(folder.path());
    EXPECT_FALSE(files.empty()) << folder.path();
    for (const auto& path : files) {
      SCOPED_TRACE(path);
      EXPECT_NO_THROW(harness->second(read(path)));
    }
  }
}

// Flips bits in the first bytes of a real plugin: headers, segments, notes. Also cuts it anywhere in them.
TEST(FuzzedInputs, PluginWithAnyBitFlippedIsReadOrRefused) {
  const auto file = read(YOKE_TEST_PLUGIN);
  ASSERT_GT(file.size(), 1024U);
  std::vector<std::uint8_t> head(file.begin(), file.begin() + 1024);
  for (std::size_t bit = 0; bit < head.size() * 8; ++bit) {
    head[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
    EXPECT_NO_THROW(plugin_notes(head)) << "bit " << bit;
    EXPECT_NO_THROW(plugin_notes(std::span(head).first(bit / 8))) << "bit " << bit;
    head[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
  }
}

TEST(FuzzedInputs, FailedRequirementIsAFinding) {
  EXPECT_THROW(require(false, "for the test"), Finding);
}

}  // namespace
}  // namespace yoke::fuzz
