// SPDX-License-Identifier: Apache-2.0
// tests/support/test_paths.h: where tests find the plugins of this build and the source tree.
#pragma once

#include <string>

namespace yoke::test {

std::string plugin_folder();
std::string source_folder();

}  // namespace yoke::test
