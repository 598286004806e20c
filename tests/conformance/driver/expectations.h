// SPDX-License-Identifier: Apache-2.0
// tests/conformance/driver/expectations.h: the author's list of tests that are known to fail, each with its
// reason.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace yoke::conformance {

using Expectations = std::map<std::string, std::string>;  // "copy.fill" -> reason

// Lines `group.test = "reason"`, blank lines, and `#` comments: a part of TOML. Throws cli::UsageError with
// the line: no such form, an empty reason, a test twice.
Expectations parse_expectations(std::string_view content, const std::string& file);
Expectations read_expectations(const std::filesystem::path& file);

}  // namespace yoke::conformance
