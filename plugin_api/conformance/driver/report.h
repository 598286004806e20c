// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/driver/report.h: prints results as text, JSON and JUnit XML.
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
  bool interrupted = false;  // by a signal
  bool loads = true;         // if false, the first result has the reason and no other test was run

  std::size_t count(Verdict verdict) const;
  bool passed() const;
  bool is_empty() const;  // no test has passed or failed
};

const char* verdict_name(Verdict verdict);  // "passed", "failed", "expected failure", ...

std::string list_text(const std::vector<NamedTest>& tests);
std::string list_json(const std::vector<NamedTest>& tests);
std::string as_text(const Report& report, const Options& options);
std::string as_json(const std::vector<Report>& reports, const Options& options);
std::string as_junit(const std::vector<Report>& reports, const Options& options);

}  // namespace yoke::conformance
