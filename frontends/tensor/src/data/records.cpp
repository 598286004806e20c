// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/records.cpp: splits lines at commas, semicolons, tabs or blanks.
#include "data/records.h"

#include <yoke/runtime/ending.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "data/files.h"

namespace yoke::detail {

namespace fs = std::filesystem;

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string result = "'";
  for (const char each : text.substr(0, kMost)) {
    result += static_cast<unsigned char>(each) < 0x20 ? '?' : each;
  }
  return result + (text.size() > kMost ? "...'" : "'");
}

namespace {

// A semicolon if the first line that has a separator outside of quotes has only semicolons: spreadsheets write it in
// countries with a decimal comma.
char separator_of(std::string_view text) {
  char found = ',';
  bool is_quoted = false;
  for (const char each : text) {
    is_quoted = is_quoted != (each == '"');
    if (!is_quoted && (each == ',' || (each == '\n' && found == ';'))) {
      return each == ',' ? ',' : ';';
    }
    found = !is_quoted && each == ';' ? ';' : found;
  }
  return found;
}

// A field of a CSV file that begins with a quote, from the quote on. Advances `at` past its end.
std::string quoted_field(const Records& records, std::string_view text, std::size_t& at,
                         std::uint64_t& line) {
  const std::uint64_t start = line;
  std::string field;
  for (++at;; ++at) {
    if (at >= text.size()) {
      records.fail(start, "a quoted field does not end; add the closing quote");
    }
    if (text[at] == '"' && (at + 1 >= text.size() || text[at + 1] != '"')) {
      break;
    }
    at += text[at] == '"' ? 1U : 0U;
    line += text[at] == '\n' ? 1U : 0U;
    field += text[at];
  }
  ++at;
  if (at < text.size() && text[at] != records.separator && text[at] != '\n' &&
      !text.substr(at).starts_with("\r\n")) {
    records.fail(line, "text follows the closing quote of a field; double the quotes inside a field");
  }
  return field;
}

// Whether a tab is in the first line that has text.
bool begins_with_tabs(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    return false;
  }
  const std::size_t start = text.rfind('\n', first) + 1;  // 0 if there is none
  return text.substr(start, text.find('\n', first) - start).find('\t') != std::string_view::npos;
}

// The fields after the last tabs of lines that all end with a tab.
void drop_last_blank_fields(Records& records) {
  const auto ends_blank = [](const Record& record) { return record.size() > 1 && is_blank(record.back()); };
  if (std::all_of(records.all.begin(), records.all.end(), ends_blank)) {
    for (Record& record : records.all) {
      record.pop_back();
    }
  }
}

Records separated_records(const fs::path& file, std::string_view text, char separator) {
  Records records{.file = file, .all = {}, .lines = {}, .separator = separator};
  const char ends[] = {records.separator, '\n', '\0'};
  std::uint64_t line = 1;
  for (std::size_t at = 0; at < text.size();) {
    Record record;
    const std::uint64_t start = line;
    for (bool more = true; more;) {
      if (at < text.size() && text[at] == '"') {
        record.push_back(quoted_field(records, text, at, line));
      } else {
        const std::size_t end = std::min(text.find_first_of(ends, at), text.size());
        std::string_view field = text.substr(at, end - at);
        if (field.ends_with('\r') && (end == text.size() || text[end] == '\n')) {
          field.remove_suffix(1);
        }
        if (field.find('"') != std::string_view::npos) {
          records.fail(line, "the field " + shown(field) +
                                 " contains a quote; put the field in quotes, and double that quote");
        }
        record.emplace_back(field);
        at = end;
      }
      at += text.substr(at).starts_with('\r') ? 1U : 0U;
      more = at < text.size() && text[at] == records.separator;
      at += more ? 1U : 0U;
    }
    ++at;  // the line break
    ++line;
    if (separator == '\t' ? std::all_of(record.begin(), record.end(), is_blank)
                          : record.size() == 1 && record[0].empty()) {
      continue;  // an empty line
    }
    records.all.push_back(std::move(record));
    records.lines.push_back(start);
  }
  return records;
}

}  // namespace

Records csv_records(const fs::path& file) {
  const std::string whole = detail::read_utf8(file);
  return separated_records(file, whole, separator_of(whole));
}

Records blank_records(const fs::path& file) {
  const std::string whole = detail::read_utf8(file);
  if (ending_of(file) == ".tsv" && begins_with_tabs(whole)) {
    Records records = separated_records(file, whole, '\t');
    drop_last_blank_fields(records);
    return records;
  }
  Records records{.file = file, .all = {}, .lines = {}, .separator = ' '};
  std::string_view rest = whole;
  for (std::uint64_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    Record record;
    constexpr const char* kBlanks = " \t\r";
    while (true) {
      text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
      if (text.empty()) {
        break;
      }
      const std::size_t size = std::min(text.find_first_of(kBlanks), text.size());
      record.emplace_back(text.substr(0, size));
      text.remove_prefix(size);
    }
    if (!record.empty()) {
      records.all.push_back(std::move(record));
      records.lines.push_back(line);
    }
  }
  return records;
}

}  // namespace yoke::detail
