// SPDX-License-Identifier: Apache-2.0
// tests/parity/real_data.h: the location of real data sets.
#pragma once

#include <yoke/runtime/runtime.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "test_paths.h"

namespace yoke::testing {

// The folder that contains mnist/, text/ and other data sets; empty if it does not exist.
inline std::filesystem::path real_data() {
  const char* given = std::getenv("YOKE_TEST_DATA");
  const std::filesystem::path folder =
      given != nullptr ? std::filesystem::path(given)
                       : std::filesystem::path(test::source_folder()).parent_path() / "shared" / "data";
  return std::filesystem::exists(folder) ? folder : std::filesystem::path();
}

inline std::shared_ptr<Runtime> test_runtime() {
  RuntimeOptions options;
  options.plugin_dirs = {test::plugin_folder()};
  options.search_environment = false;
  return std::make_shared<Runtime>(options);
}

}  // namespace yoke::testing

// Skips the test if the data folder does not have `file`.
#define YOKE_NEEDS_REAL_DATA(file)                                                                       \
  if (!std::filesystem::exists(yoke::testing::real_data() / (file))) {                                   \
    GTEST_SKIP()                                                                                         \
        << (file)                                                                                        \
        << " is missing; set YOKE_TEST_DATA, or put the data in ../shared/data next to the source tree"; \
  }
