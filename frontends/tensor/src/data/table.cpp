// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/table.cpp: reads tables whose fields are separated by commas, semicolons, tabs or blanks.
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

#include "data/records.h"

namespace yoke::datasets {
namespace {

namespace fs = std::filesystem;

using detail::is_blank;
using detail::Record;
using detail::Records;
using detail::shown;

constexpr const char* kWriteNumbers = "write numbers as in 1234.5";

[[noreturn]] void refuse(const fs::path& file, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, file.string() + why);
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

// Whether commas may separate the fields of a file that is read as separated by blanks, as in iris.data of the UCI
// repository: every line has one. In a line of several fields, decimal commas do not count.
bool seems_separated_by_commas(const Records& records) {
  const auto has_comma = [](const std::string& field) { return field.find(',') != std::string::npos; };
  const auto is_list = [&](const std::string& field) {
    return has_comma(field) && !has_decimal_comma(field);
  };
  return !records.all.empty() &&
         std::all_of(records.all.begin(), records.all.end(), [&](const Record& record) {
           return record.size() == 1 ? has_comma(record[0])
                                     : std::any_of(record.begin(), record.end(), is_list);
         });
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

// The name of a column whose name in the header is blank. A number could be the name of another column.
std::string generated_name(std::size_t column) {
  return "unnamed " + std::to_string(column);
}

void take_header(Records& records, Table& table) {
  check_first_line(records);
  for (std::size_t r = 1; r < records.all.size(); ++r) {
    if (records.all[r].size() != records.all[0].size()) {
      records.fail(records.lines[r], "it has " + detail::counted(records.all[r].size(), "field") +
                                         ", but the first line has " + std::to_string(records.all[0].size()) +
                                         "; correct one of them" +
                                         (records.separator == ' '    ? " (blanks and tabs separate fields)"
                                          : records.separator == '\t' ? " (tabs separate fields)"
                                                                      : ""));
    }
  }
  if (has_header(records)) {
    table.has_header = true;
    table.header_has_numbers = std::any_of(records.all[0].begin(), records.all[0].end(), number_in);
    table.names = std::move(records.all[0]);
    records.all.erase(records.all.begin());
    records.lines.erase(records.lines.begin());
    std::map<std::string, std::size_t> numbers;
    for (std::size_t c = 0; c < table.names.size(); ++c) {
      if (is_blank(table.names[c])) {
        table.names[c] = generated_name(c);
      }
      const auto [other, is_new] = numbers.emplace(table.names[c], c);
      if (!is_new) {
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

// The number of the column with a name, or else with a number. A blank name, as older versions noted it, is that of the
// first column without one.
std::optional<std::size_t> find_column(const Table& table, const std::string& name) {
  for (std::size_t c = 0; c < table.names.size(); ++c) {
    if (table.names[c] == name || (is_blank(name) && table.names[c] == generated_name(c))) {
      return c;
    }
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
void check_labels(const Records& records, const Table& table, LabelColumn column, bool may_mix) {
  const std::size_t c = table.label;
  std::optional<std::size_t> text;
  std::optional<std::size_t> number;
  for (std::size_t r = 0; r < records.all.size(); ++r) {
    const std::string& field = records.all[r][c];
    if (is_blank(field)) {
      refuse_field(records, r, table, c,
                   std::string("the label is empty; correct it, or remove the line") +
                       (column == LabelColumn::kOptional ? ", or the whole column" : ""));
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
  if (options.check) {
    options.check(table);
  }
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
    check_labels(records, table, column, options.labels_are_classes);
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
  return table_of(detail::csv_records(file), label, column, options);
}

Table read_columns(const fs::path& file, const std::string& label, LabelColumn column,
                   const TableOptions& options) {
  Records records = detail::blank_records(file);
  if (records.separator == '\t' || !seems_separated_by_commas(records)) {
    return table_of(std::move(records), label, column, options);
  }
  const std::string fix = "; if commas separate the columns, rename the file to end in .csv";
  if (std::all_of(records.all.begin(), records.all.end(),
                  [](const Record& each) { return each.size() == 1; })) {
    refuse(file,
           " has one column, because blanks and tabs separate the columns of a file with this name" + fix);
  }
  try {
    return table_of(std::move(records), label, column, options);
  } catch (const Error& error) {
    throw Error(error.code(), error.what() + fix);
  }
}

}  // namespace yoke::datasets
