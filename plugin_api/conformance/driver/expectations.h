// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/driver/expectations.h: the expected failures of a plugin, each with its reason.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace yoke::conformance {

using Expectations = std::map<std::string, std::string>;  // "copy.fill" -> reason

// Parses lines `group.test = "reason"`, blank lines and `#` comments, a subset of TOML. Throws UsageError
// with the line number for anything else, an empty reason, or a test that is listed twice.
Expectations parse_expectations(std::string_view content, const std::string& file);
Expectations read_expectations(const std::filesystem::path& file);

}  // namespace yoke::conformance
