// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/table.cpp: reads tables of comma-, semicolon- or blank-separated fields.
#include <yoke/datasets.h>
#include <yoke/runtime/closest.h>
#include <yoke/runtime/counted.h>
#include <yoke/runtime/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "data/files.h"

namespace yoke::datasets {
namespace {

namespace fs = std::filesystem;

using Record = std::vector<std::string>;

constexpr const char* kWriteNumbers = "write numbers as in 1234.5";

// The records of a file, and the lines on which they begin.
struct Records {
  fs::path file;
  std::vector<Record> all;
  std::vector<std::uint64_t> lines;
  char separator = ',';

  [[noreturn]] void fail(std::uint64_t line, const std::string& why) const {
    throw Error(ErrorCode::kDataLoss, file.string() + ", line " + std::to_string(line) + ": " + why);
  }
};

// Text from a file, for messages.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string result = "'";
  for (const char each : text.substr(0, kMost)) {
    result += static_cast<unsigned char>(each) < 0x20 ? '?' : each;
  }
  return result + (text.size() > kMost ? "...'" : "'");
}

[[noreturn]] void refuse(const fs::path& file, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, file.string() + why);
}

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
    records.fail(line, "there is text after the closing quote of a field; double the quotes inside a field");
  }
  return field;
}

Records csv_records(const fs::path& file) {
  Records records{.file = file, .all = {}, .lines = {}};
  const std::string whole = detail::read_utf8(file);
  const std::string_view text = whole;
  records.separator = separator_of(text);
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
                                 " has a quote in it; put the field in quotes, and double this one");
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
    if (record.size() == 1 && record[0].empty()) {
      continue;  // an empty line
    }
    records.all.push_back(std::move(record));
    records.lines.push_back(start);
  }
  return records;
}

Records blank_records(const fs::path& file) {
  Records records{.file = file, .all = {}, .lines = {}};
  const std::string whole = detail::read_utf8(file);
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

// The number in a field, maybe between blanks; empty for other text, also for "nan" and "inf".
std::optional<double> number_in(std::string_view field) {
  field.remove_prefix(std::min(field.find_first_not_of(" \t"), field.size()));
  field = field.substr(0, field.find_last_not_of(" \t") + 1);
  field.remove_prefix(field.starts_with('+') ? 1U : 0U);
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

bool has_decimal_comma(std::string field) {
  const std::size_t comma = field.find(',');
  return comma != std::string::npos && number_in(field.replace(comma, 1, "."));
}

bool has_header(const Records& records) {
  const auto is_number = [](const auto& field) { return number_in(field) || has_decimal_comma(field); };
  if (records.all.size() < 2) {
    return !records.all.empty() && std::none_of(records.all[0].begin(), records.all[0].end(), is_number);
  }
  const auto is_no_name = [&](const auto& a, const auto& b) { return is_number(a) || !is_number(b); };
  return !std::equal(records.all[0].begin(), records.all[0].end(), records.all[1].begin(), is_no_name);
}

// Refuses a first line such as "150,4,setosa,versicolor,virginica", which tables of scikit-learn have.
void check_first_line(const Records& records) {
  if (records.all.size() < 2 || records.all[0].size() < 3) {
    return;
  }
  const Record& first = records.all[0];
  const std::size_t columns = records.all[1].size();
  const auto is = [&](std::size_t c, std::size_t n) { return number_in(first[c]) == static_cast<double>(n); };
  const bool has_counts =
      number_in(first[0]) && is(1, columns - 1) && std::none_of(first.begin() + 2, first.end(), number_in);
  const bool is_no_row = first.size() != columns || (is(0, records.all.size() - 1) && has_header(records));
  if (has_counts && is_no_row) {
    records.fail(records.lines[0],
                 "it has the numbers of rows and features and the names of classes, not of columns; remove "
                 "the line, or replace it by " +
                     detail::counted(columns, "name"));
  }
}

void take_header(Records& records, Table& table) {
  check_first_line(records);
  for (std::size_t r = 1; r < records.all.size(); ++r) {
    if (records.all[r].size() != records.all[0].size()) {
      records.fail(records.lines[r], "it has " + detail::counted(records.all[r].size(), "field") +
                                         ", the first line has " + std::to_string(records.all[0].size()) +
                                         "; correct one of them");
    }
  }
  if (has_header(records)) {
    table.header_has_numbers = std::any_of(records.all[0].begin(), records.all[0].end(), number_in);
    table.names = std::move(records.all[0]);
    records.all.erase(records.all.begin());
    records.lines.erase(records.lines.begin());
    std::map<std::string, std::size_t> numbers;
    for (std::size_t c = 0; c < table.names.size(); ++c) {
      const auto [other, is_new] = numbers.emplace(table.names[c], c);
      if (!is_new && !table.names[c].empty()) {
        refuse(table.file, ": columns " + std::to_string(other->second) + " and " + std::to_string(c) +
                               " are both named " + shown(table.names[c]) + "; rename one of them");
      }
    }
    return;
  }
  for (std::size_t c = 0; !records.all.empty() && c < records.all[0].size(); ++c) {
    table.names.push_back(std::to_string(c));
  }
}

// Numbers the texts of the label column.
void name_labels(const Records& records, Table& table) {
  std::map<std::string, double> numbers;
  for (const Record& record : records.all) {
    numbers[record[table.label]] = 0;
  }
  for (auto& [name, number] : numbers) {
    number = static_cast<double>(table.label_names.size());
    table.label_names.push_back(name);
  }
  for (std::size_t r = 0; r < records.all.size(); ++r) {
    table.values[r * table.names.size() + table.label] = numbers[records.all[r][table.label]];
  }
}

// The number of the column with a name, or else with a number.
std::optional<std::size_t> find_column(const Table& table, const std::string& name) {
  const auto at = std::find(table.names.begin(), table.names.end(), name);
  if (at != table.names.end()) {
    return static_cast<std::size_t>(at - table.names.begin());
  }
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size() && number < table.names.size()) {
    return number;
  }
  return std::nullopt;
}

std::size_t label_of(const Table& table, const std::string& label, LabelColumn column) {
  if (label.empty()) {
    return table.names.size() - 1;
  }
  return column == LabelColumn::kRequired ? column_of(table, label)
                                          : find_column(table, label).value_or(table.names.size());
}

[[noreturn]] void refuse_field(const Records& records, std::size_t r, const Table& table, std::size_t c,
                               const std::string& why) {
  refuse(records.file,
         ", line " + std::to_string(records.lines[r]) + ", column '" + table.names[c] + "': " + why);
}

// For each column, whether it is read.
std::vector<bool> columns_to_read(const Table& table, const TableOptions& options) {
  std::vector<bool> is_read(table.names.size(), options.only.empty());
  for (const std::string& name : options.only) {
    is_read[column_of(table, name)] = true;
  }
  if (table.label < is_read.size()) {
    is_read[table.label] = true;
  }
  for (const std::string& name : options.without) {
    const std::size_t column = column_of(table, name);
    if (column == table.label) {
      refuse(table.file, ": the column " + shown(name) + " is the label, so it cannot be left out");
    }
    is_read[column] = false;
  }
  return is_read;
}

// One mistyped label, or a decimal comma, must not turn numbers into classes.
void check_labels(const Records& records, const Table& table, bool may_mix) {
  const std::size_t c = table.label;
  std::optional<std::size_t> text;
  std::optional<std::size_t> number;
  for (std::size_t r = 0; r < records.all.size(); ++r) {
    const std::string& field = records.all[r][c];
    if (field.find_first_not_of(" \t") == std::string::npos) {
      refuse_field(records, r, table, c, "the label is empty; correct it, or remove the line");
    }
    if (!may_mix && has_decimal_comma(field)) {
      refuse_field(records, r, table, c, shown(field) + " has a decimal comma; " + kWriteNumbers);
    }
    std::optional<std::size_t>& first = number_in(field) ? number : text;
    first = first.value_or(r);
  }
  if (text && number && !may_mix) {
    refuse_field(records, *text, table, c,
                 shown(records.all[*text][c]) + " is not a finite number, but the label of line " +
                     std::to_string(records.lines[*number]) + " is; correct one of them");
  }
}

Table table_of(Records records, const std::string& label, LabelColumn column, const TableOptions& options) {
  Table table;
  table.file = records.file;
  take_header(records, table);
  if (records.all.empty()) {
    refuse(records.file, " has no rows; give a file with data");
  }
  table.label = label_of(table, label, column);
  table.lines = records.lines;
  table.values.reserve(records.all.size() * table.names.size());
  const std::vector<bool> is_read = columns_to_read(table, options);
  bool has_texts = false;
  for (std::size_t r = 0; r < records.all.size(); ++r) {
    const Record& record = records.all[r];
    for (std::size_t c = 0; c < record.size(); ++c) {
      const std::optional<double> value = is_read[c] ? number_in(record[c]) : 0.0;
      if (!value && c != table.label) {
        const std::string fix =
            record[c].find_first_of(",;") == std::string::npos ? "correct it" : kWriteNumbers;
        refuse_field(records, r, table, c,
                     shown(record[c]) + " is not a finite number; " + fix + ", or leave the column out");
      }
      const bool is_name = c == table.label && options.labels_are_classes;
      if (value && !is_name && std::abs(*value) > std::numeric_limits<float>::max()) {
        refuse_field(records, r, table, c,
                     shown(record[c]) +
                         " is too large for the 32-bit numbers that models compute with (at most 3.4e38); "
                         "scale the column, or leave it out");
      }
      has_texts = has_texts || !value;
      table.values.push_back(value.value_or(0));
    }
  }
  if (has_texts) {
    check_labels(records, table, options.labels_are_classes);
    name_labels(records, table);
  }
  return table;
}

}  // namespace

std::size_t column_of(const Table& table, const std::string& name) {
  if (const auto found = find_column(table, name)) {
    return *found;
  }
  std::string list;
  constexpr std::size_t kMost = 30;
  for (std::size_t c = 0; c < std::min(kMost, table.names.size()); ++c) {
    list += (c == 0 ? "" : ", ") + shown(table.names[c]);
  }
  refuse(table.file, " has no column " + shown(name) + "; it has " + list +
                         (table.names.size() > kMost ? ", ..." : "") + did_you_mean(name, table.names));
}

Table read_csv(const fs::path& file, const std::string& label, LabelColumn column,
               const TableOptions& options) {
  return table_of(csv_records(file), label, column, options);
}

Table read_columns(const fs::path& file, const std::string& label, LabelColumn column,
                   const TableOptions& options) {
  return table_of(blank_records(file), label, column, options);
}

}  // namespace yoke::datasets
