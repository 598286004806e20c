// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/driver/report.cpp: prints results as text, JSON and JUnit XML.
#include "report.h"

#include <yoke/runtime/counted.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

namespace yoke::conformance {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kVerdicts = {Verdict::kPassed,   Verdict::kFailed,      Verdict::kUnexpected,
                                  Verdict::kExpected, Verdict::kUnsupported, Verdict::kNotRun};

std::string seconds_text(double seconds, int digits) {
  std::array<char, 64> buffer{};
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), seconds, std::chars_format::fixed, digits);
  return {buffer.data(), result.ptr};
}

std::string padded(const std::string& text, std::size_t width, bool right = false) {
  const std::string blanks(width > text.size() ? width - text.size() : 0, ' ');
  return right ? blanks + text : text + blanks;
}

std::string indented(const std::string& text) {
  std::string all = "    ";
  for (const char character : text) {
    all += character;
    if (character == '\n') {
      all += "    ";
    }
  }
  return all;
}

std::string output_text(const Outcome& outcome) {
  return outcome.output.empty() ? ""
                                : "    output of the test's process:\n" + indented(outcome.output) + "\n";
}

std::vector<std::string> groups_of(const Report& report) {
  std::vector<std::string> groups;
  for (const Result& result : report.results) {
    if (std::find(groups.begin(), groups.end(), result.test.group) == groups.end()) {
      groups.push_back(result.test.group);
    }
  }
  return groups;
}

std::string row(const Report& report, const std::string& group) {
  std::array<std::size_t, kVerdicts.size()> counts{};
  double seconds = 0;
  for (const Result& result : report.results) {
    if (group.empty() || result.test.group == group) {
      const auto* at = std::find(kVerdicts.begin(), kVerdicts.end(), result.outcome.verdict);
      ++counts[static_cast<std::size_t>(at - kVerdicts.begin())];
      seconds += result.outcome.seconds;
    }
  }
  counts[1] += counts[2];
  std::string line = padded(group.empty() ? "all" : group, 14);
  line += padded(std::to_string(counts[0]), 6, true) + padded(std::to_string(counts[1]), 8, true) +
          padded(std::to_string(counts[3]), 18, true) + padded(std::to_string(counts[4]), 13, true);
  return line + padded(seconds_text(seconds, 1), 9, true) + " s\n";
}

std::string failure_text(const Result& result, const Options& options, const std::string& plugin) {
  const Outcome& outcome = result.outcome;
  std::string text = "FAILED " + result.test.name + "\n";
  if (!result.test.test.checks.empty()) {
    text += "    checks: " + result.test.test.checks;
    std::string rules;
    for (const int rule : result.test.test.rules) {
      rules += (rules.empty() ? "" : ", ") + std::to_string(rule);
    }
    text += rules.empty() ? "\n" : " (ABI rule " + rules + ")\n";
  }
  text += indented(outcome.text) + "\n";
  text += output_text(outcome);
  if (result.test.test.run != nullptr) {
    text += "    repeat: " + repeat_command(options, plugin, result.test.name) + "\n";
  }
  return text;
}

// Prints all failures; a text that several tests share is printed once.
std::string failures_text(const Report& report, const Options& options) {
  std::map<std::string, std::string> first_with;
  std::string text;
  for (const Result& result : report.results) {
    if (!result.failed()) {
      continue;
    }
    const auto [at, fresh] = first_with.emplace(result.outcome.text, result.test.name);
    text += fresh ? failure_text(result, options, report.plugin)
                  : "FAILED " + result.test.name + "\n    same as " + at->second + "\n";
  }
  return text;
}

// Prints each reason once, followed by its tests.
std::string reasons_text(const Report& report, Verdict verdict) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const Result& result : report.results) {
    if (result.outcome.verdict != verdict) {
      continue;
    }
    auto at = std::find_if(reasons.begin(), reasons.end(),
                           [&](const auto& known) { return known.first == result.outcome.text; });
    if (at == reasons.end()) {
      at = reasons.insert(at, {result.outcome.text, {}});
    }
    at->second.push_back(result.test.name);
  }
  std::string text;
  for (const auto& [reason, names] : reasons) {
    text += std::string(verdict_name(verdict)) + ": " + reason + "\n    ";
    for (std::size_t i = 0; i < names.size(); ++i) {
      text += (i == 0 ? "" : ", ") + names[i];
    }
    text += "\n";
  }
  return text;
}

std::string not_run_text(const Report& report) {
  return yoke::detail::counted(report.count(Verdict::kNotRun), "test was", "tests were") + " not run\n";
}

// The report of a plugin that cannot be loaded: one sentence.
std::string refusal_text(const Report& report) {
  const Outcome& why = report.results.front().outcome;
  std::string text = "FAILED " + report.plugin + ": " + why.text + "; " + not_run_text(report);
  return text + output_text(why);
}

// Escapes text for an element or attribute of XML 1.0, which forbids most control characters.
std::string xml(std::string_view text) {
  std::string escaped;
  const bool legal_bytes = is_utf8(text);
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (character == '&') {
      escaped += "&amp;";
    } else if (character == '<') {
      escaped += "&lt;";
    } else if (character == '>') {
      escaped += "&gt;";
    } else if (character == '"') {
      escaped += "&quot;";
    } else if (character == '\n') {
      escaped += "&#10;";
    } else if ((byte < 0x20 && character != '\t') || byte == 0x7f || (byte >= 0x80 && !legal_bytes)) {
      escaped += '?';
    } else {
      escaped += character;
    }
  }
  return escaped;
}

std::string xml_case(const Result& result, const std::string& plugin, const Options& options) {
  const Outcome& outcome = result.outcome;
  std::string text = "    <testcase classname=\"" + xml(result.test.group) + "\" name=\"" +
                     xml(result.test.name) + "\" time=\"" + seconds_text(outcome.seconds, 3) + "\"";
  if (result.failed()) {
    text += ">\n      <failure message=\"" + xml(outcome.text) + "\">" +
            xml(failure_text(result, options, plugin)) + "</failure>\n";
  } else if (outcome.verdict != Verdict::kPassed) {
    text += ">\n      <skipped message=\"" +
            xml(std::string(verdict_name(outcome.verdict)) + ": " + outcome.text) + "\"/>\n";
  } else {
    return text + "/>\n";
  }
  return text + "    </testcase>\n";
}

// On one line; bytes that are not UTF-8 become U+FFFD.
std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json json_of(const Result& result, const std::string& plugin, const Options& options) {
  const Outcome& outcome = result.outcome;
  Json json = {
      {"name", result.test.name},  {"group", result.test.group}, {"verdict", verdict_name(outcome.verdict)},
      {"text", outcome.text},      {"note", outcome.note},       {"rules", result.test.test.rules},
      {"seconds", outcome.seconds}};
  if (result.failed()) {
    json["output"] = outcome.output;
    json["repeat"] = repeat_command(options, plugin, result.test.name);
  }
  return json;
}

}  // namespace

std::size_t Report::count(Verdict verdict) const {
  return static_cast<std::size_t>(std::count_if(results.begin(), results.end(), [&](const Result& result) {
    return result.outcome.verdict == verdict;
  }));
}

bool Report::passed() const {
  return !interrupted &&
         std::none_of(results.begin(), results.end(), [](const Result& result) { return result.failed(); });
}

bool Report::is_empty() const {
  return passed() && count(Verdict::kPassed) + count(Verdict::kExpected) == 0;
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed:
      return "passed";
    case Verdict::kFailed:
      return "failed";
    case Verdict::kExpected:
      return "expected failure";
    case Verdict::kUnexpected:
      return "unexpected pass";
    case Verdict::kUnsupported:
      return "unsupported";
    case Verdict::kNotRun:
      return "not run";
  }
  return "";
}

std::string list_text(const std::vector<NamedTest>& tests) {
  std::size_t width = 0;
  for (const NamedTest& test : tests) {
    width = std::max(width, test.name.size());
  }
  std::string text;
  for (const NamedTest& test : tests) {
    text += padded(test.name, width + 2) + test.test.checks + "\n";
  }
  return text;
}

std::string list_json(const std::vector<NamedTest>& tests) {
  Json list = Json::array();
  for (const NamedTest& test : tests) {
    list.push_back({{"name", test.name},
                    {"group", test.group},
                    {"checks", test.test.checks},
                    {"rules", test.test.rules}});
  }
  return dumped({{"tests", std::move(list)}});
}

std::string as_text(const Report& report, const Options& options) {
  if (!report.loads) {
    return refusal_text(report);
  }
  std::string text;
  if (options.verbose) {
    for (const Result& result : report.results) {
      text += padded(verdict_name(result.outcome.verdict), 18) + result.test.name + "  " +
              seconds_text(result.outcome.seconds, 2) + " s" +
              (result.outcome.note.empty() ? "" : "  " + result.outcome.note) + "\n";
    }
    text += "\n";
  }
  text += failures_text(report, options) + reasons_text(report, Verdict::kExpected) +
          reasons_text(report, Verdict::kUnsupported);
  text += (text.empty() ? "" : "\n") + padded("group", 14) +
          "passed  failed  expected failure  unsupported    time\n";
  for (const std::string& group : groups_of(report)) {
    text += row(report, group);
  }
  text += row(report, "");
  if (report.interrupted) {
    return text + "INTERRUPTED " + report.plugin + ": " + not_run_text(report);
  }
  return text +
         (!report.passed()    ? "FAILED "
          : report.is_empty() ? "NOTHING TESTED "
                              : "PASSED ") +
         report.plugin + " (seed " + std::to_string(options.settings.seed) + ", " +
         seconds_text(report.seconds, 1) + " s)\n";
}

std::string as_json(const std::vector<Report>& reports, const Options& options) {
  Json plugins = Json::array();
  for (const Report& report : reports) {
    Json counts = Json::object();
    for (const Verdict verdict : kVerdicts) {
      counts[verdict_name(verdict)] = report.count(verdict);
    }
    Json tests = Json::array();
    for (const Result& result : report.results) {
      tests.push_back(json_of(result, report.plugin, options));
    }
    plugins.push_back({{"plugin", report.plugin},
                       {"passed", report.passed()},
                       {"loads", report.loads},
                       {"seconds", report.seconds},
                       {"counts", std::move(counts)},
                       {"tests", std::move(tests)}});
  }
  return dumped({{"seed", options.settings.seed}, {"plugins", std::move(plugins)}});
}

std::string as_junit(const std::vector<Report>& reports, const Options& options) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const Report& report : reports) {
    const std::size_t failed = report.count(Verdict::kFailed) + report.count(Verdict::kUnexpected);
    const std::size_t skipped = report.count(Verdict::kExpected) + report.count(Verdict::kUnsupported) +
                                report.count(Verdict::kNotRun);
    text += "  <testsuite name=\"" + xml(report.plugin) + "\" tests=\"" +
            std::to_string(report.results.size()) + "\" failures=\"" + std::to_string(failed) +
            "\" errors=\"0\" skipped=\"" + std::to_string(skipped) + "\" time=\"" +
            seconds_text(report.seconds, 3) +
            "\">\n    <properties>\n      <property name=\"seed\" value=\"" +
            std::to_string(options.settings.seed) + "\"/>\n    </properties>\n";
    for (const Result& result : report.results) {
      text += xml_case(result, report.plugin, options);
    }
    text += "  </testsuite>\n";
  }
  return text + "</testsuites>\n";
}

}  // namespace yoke::conformance
