// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/driver/expectations.cpp: parses the file of expected failures.
#include "expectations.h"

#include <fstream>
#include <iterator>

#include "usage.h"

namespace yoke::conformance {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Parses a TOML basic string with the escapes \" and \\, followed by
// nothing but a comment. Returns false on an error.
bool read_string(std::string_view text, std::string& out) {
  if (text.empty() || text[0] != '"') {
    return false;
  }
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '"' || text[i + 1] == '\\')) {
      out += text[++i];
    } else if (text[i] == '"') {
      const std::string_view rest = trimmed(text.substr(i + 1));
      return rest.empty() || rest[0] == '#';
    } else if (text[i] == '\\') {
      return false;
    } else {
      out += text[i];
    }
  }
  return false;
}

void add_line(std::string_view line, const std::string& place, Expectations& expectations) {
  const std::size_t at = line.find('=');
  std::string name(trimmed(line.substr(0, at)));
  if (name.size() >= 2 && name.front() == '"' && name.back() == '"') {
    name = name.substr(1, name.size() - 2);
  }
  std::string reason;
  if (at == std::string_view::npos || name.empty() || !read_string(trimmed(line.substr(at + 1)), reason)) {
    throw UsageError(place +
                     ": expected a line of the form  group.test = \"reason\"  (escapes: \\\" and \\\\)");
  }
  if (trimmed(reason).empty()) {
    throw UsageError(place + ": '" + name + "' has no reason; state why the test is expected to fail");
  }
  if (!expectations.emplace(name, reason).second) {
    throw UsageError(place + ": '" + name + "' is listed twice");
  }
}

}  // namespace

Expectations parse_expectations(std::string_view content, const std::string& file) {
  Expectations expectations;
  int number = 0;
  while (!content.empty()) {
    const std::size_t end = content.find('\n');
    const std::string_view line = trimmed(content.substr(0, end));
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
    ++number;
    if (!line.empty() && line[0] != '#') {
      add_line(line, file + ":" + std::to_string(number), expectations);
    }
  }
  return expectations;
}

Expectations read_expectations(const std::filesystem::path& file) {
  std::error_code ignored;
  std::ifstream stream(file, std::ios::binary);
  if (std::filesystem::is_directory(file, ignored)) {
    stream.setstate(std::ios::failbit);
  }
  const std::string content{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream) {
    throw UsageError("cannot read the file of expected failures " + file.string());
  }
  return parse_expectations(content, file.string());
}

}  // namespace yoke::conformance
