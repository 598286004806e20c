// SPDX-License-Identifier: Apache-2.0
// tests/support/test_paths.cpp: the only source whose flags name folders, so that ccache finds the others in builds of
// other checkouts.
#include "test_paths.h"

namespace yoke::test {

std::string plugin_folder() {
  return YOKE_TEST_PLUGIN_DIR;
}
std::string source_folder() {
  return YOKE_TEST_SOURCE_DIR;
}

}  // namespace yoke::test
