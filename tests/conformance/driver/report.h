// SPDX-License-Identifier: Apache-2.0
// tests/conformance/driver/report.h: the results for a person, as JSON, and as JUnit's XML.
#pragma once

#include <string>
#include <vector>

#include "options.h"
#include "outcome.h"

namespace yoke::conformance {

// All results of one plugin.
struct Report {
  std::string plugin;  // the file
  std::vector<Result> results;
  double seconds = 0;
  bool loads = true;  // false: the first result says why not, and nothing else was run

  std::size_t count(Verdict verdict) const;
  bool passed() const;
};

const char* verdict_name(Verdict verdict);  // "passed", "failed", "expected failure", ...

std::string list_text(const std::vector<NamedTest>& tests);
std::string list_json(const std::vector<NamedTest>& tests);
std::string as_text(const Report& report, const Options& options);
std::string as_json(const std::vector<Report>& reports, const Options& options);
std::string as_junit(const std::vector<Report>& reports, const Options& options);

}  // namespace yoke::conformance
