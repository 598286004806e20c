// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/examples.cpp: divides a table into rows for training and testing, and standardizes them.
#include <yoke/datasets.h>
#include <yoke/runtime/counted.h>
#include <yoke/runtime/error.h>
#include <yoke/shuffle.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

namespace yoke::datasets {
namespace {

std::uint64_t test_count(std::uint64_t row_count, double test_share, const char* what) {
  if (row_count < 2) {
    throw Error(ErrorCode::kInvalidArgument, std::string(what) + ": " + std::to_string(row_count) +
                                                 (row_count == 1 ? " row" : " rows") +
                                                 "; training and testing need at least 2 rows");
  }
  if (!(test_share > 0 && test_share < 1)) {
    throw Error(ErrorCode::kInvalidArgument, std::string(what) + ": the test share is " +
                                                 std::to_string(test_share) + "; it must be between 0 and 1");
  }
  const auto train =
      static_cast<std::uint64_t>(std::llround((1 - test_share) * static_cast<double>(row_count)));
  return row_count - std::clamp<std::uint64_t>(train, 1, row_count - 1);
}

void check_rows(const Table& table, std::span<const std::uint64_t> rows, const char* what) {
  const auto bad =
      std::find_if(rows.begin(), rows.end(), [&](std::uint64_t row) { return row >= table.row_count(); });
  if (rows.empty() || bad != rows.end()) {
    throw Error(ErrorCode::kInvalidArgument,
                "make_examples: the rows for " + std::string(what) +
                    (rows.empty() ? " are empty"
                                  : " include row " + std::to_string(*bad) + ", which the table lacks"));
  }
}

// Mean and standard deviation of a column over some rows.
std::pair<double, double> moments(const Table& table, std::size_t column,
                                  std::span<const std::uint64_t> rows) {
  const auto value = [&](std::uint64_t row) { return table.values[row * table.names.size() + column]; };
  const auto count = static_cast<double>(rows.size());
  double mean = 0;
  for (const std::uint64_t row : rows) {
    mean += value(row) / count;
  }
  double variance = 0;
  bool differs = false;
  for (const std::uint64_t row : rows) {
    variance += (value(row) - mean) * (value(row) - mean) / count;
    differs = differs || value(row) != value(rows[0]);
  }
  // Rounding may leave a variance in a constant column.
  return differs && variance > 0 ? std::pair(mean, std::sqrt(variance)) : std::pair(value(rows[0]), 1.0);
}

Tensor inputs_of(const Table& table, std::span<const std::uint64_t> rows,
                 std::span<const std::size_t> columns, const Examples& made, std::string name) {
  std::vector<float> values;
  values.reserve(rows.size() * columns.size());
  for (const std::uint64_t row : rows) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const double value = table.values[row * table.names.size() + columns[i]];
      values.push_back(static_cast<float>((value - made.means[i]) / made.deviations[i]));
    }
  }
  return tensor(values, {rows.size(), columns.size()}, std::move(name));
}

Tensor numbers_of(const Table& table, std::span<const std::uint64_t> rows, const Examples& made,
                  std::string name) {
  std::vector<float> values;
  for (const std::uint64_t row : rows) {
    const double value = table.values[row * table.names.size() + table.label];
    values.push_back(static_cast<float>((value - made.target_mean) / made.target_deviation));
  }
  return tensor(values, {rows.size()}, std::move(name));
}

// Reports the first line whose label is not a class, so that the message does not depend on the order of the
// rows in the split.
void check_classes(const Table& table, const Split& split) {
  constexpr double kMost = 256;  // classes are u8
  std::uint64_t bad = table.row_count();
  for (const std::vector<std::uint64_t>* rows : {&split.train, &split.test}) {
    for (const std::uint64_t row : *rows) {
      const double value = table.values[row * table.names.size() + table.label];
      if (!(value >= 0 && value < kMost && value == std::floor(value))) {
        bad = std::min(bad, row);
      }
    }
  }
  if (bad == table.row_count()) {
    return;
  }
  const std::string& label = table.names[table.label];
  if (!table.label_names.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                table.file.string() + ": the column '" + label + "' has " +
                    std::to_string(table.label_names.size()) +
                    " different texts, and a classification has at most 256 classes; merge some of them, or "
                    "choose another label");
  }
  throw Error(ErrorCode::kInvalidArgument,
              table.file.string() + ", line " + std::to_string(table.lines[bad]) + ", column '" + label +
                  "': the label of a classification must be a whole number from 0 to 255; correct it, or "
                  "choose a regression");
}

Tensor classes_of(const Table& table, std::span<const std::uint64_t> rows, Examples& made, std::string name) {
  std::vector<std::uint8_t> values;
  for (const std::uint64_t row : rows) {
    const double value = table.values[row * table.names.size() + table.label];
    values.push_back(static_cast<std::uint8_t>(value));
    made.class_count = std::max<std::uint64_t>(made.class_count, values.back() + std::uint64_t{1});
  }
  return tensor(values, {rows.size()}, std::move(name));
}

}  // namespace

Split random_split(std::uint64_t row_count, double test_share, std::int64_t seed) {
  const std::uint64_t tests = test_count(row_count, test_share, "random_split");
  const Permutation order(row_count, seed, -1);  // epochs have the numbers from 0 on
  Split split;
  for (std::uint64_t i = 0; i < row_count; ++i) {
    (i < row_count - tests ? split.train : split.test).push_back(order(i));
  }
  return split;
}

Split read_split(const std::filesystem::path& file, std::uint64_t number, std::uint64_t row_count,
                 double test_share) {
  const std::uint64_t tests = test_count(row_count, test_share, "read_split");
  const Table table = read_columns(file);
  const auto fail = [&](const std::string& why) {
    return Error(ErrorCode::kInvalidArgument, file.string() + ": " + why);
  };
  if (number >= table.row_count()) {
    throw fail("it has " + detail::counted(table.row_count(), "split") + "; choose one from 0 to " +
               std::to_string(table.row_count() - 1));
  }
  if (table.names.size() != row_count) {
    throw fail("a split has " + detail::counted(table.names.size(), "row") + ", the data has " +
               std::to_string(row_count) + "; use the splits of this data");
  }
  Split split;
  std::vector<bool> seen(row_count, false);
  for (std::uint64_t i = 0; i < row_count; ++i) {
    const double value = table.values[number * row_count + i];
    const auto row =
        value >= 0 && value < static_cast<double>(row_count) ? static_cast<std::uint64_t>(value) : 0;
    if (static_cast<double>(row) != value || seen[row]) {
      throw fail("split " + std::to_string(number) + " is not a permutation of the rows from 0 to " +
                 std::to_string(row_count - 1) + "; correct it");
    }
    seen[row] = true;
    (i < row_count - tests ? split.train : split.test).push_back(row);
  }
  return split;
}

Examples make_examples(const Table& table, const Split& split, Task task,
                       std::span<const std::size_t> without) {
  if (table.label >= table.names.size() || table.values.size() != table.row_count() * table.names.size()) {
    throw Error(ErrorCode::kInvalidArgument, "make_examples: the table has " +
                                                 detail::counted(table.values.size(), "value") + " for " +
                                                 detail::counted(table.row_count(), "row") + " of " +
                                                 detail::counted(table.names.size(), "column") +
                                                 "; use a table that was read from a file");
  }
  check_rows(table, split.train, "training");
  check_rows(table, split.test, "testing");
  Examples made;
  std::vector<std::size_t> columns;
  for (std::size_t c = 0; c < table.names.size(); ++c) {
    if (c != table.label && std::find(without.begin(), without.end(), c) == without.end()) {
      columns.push_back(c);
      made.features.push_back(table.names[c]);
      const auto [mean, deviation] = moments(table, c, split.train);
      made.means.push_back(mean);
      made.deviations.push_back(deviation);
    }
  }
  if (columns.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                table.file.string() +
                    " has no columns besides the label; give data with features, separated by commas in .csv "
                    "and by blanks in other files");
  }
  made.train_inputs = inputs_of(table, split.train, columns, made, "train_inputs");
  made.test_inputs = inputs_of(table, split.test, columns, made, "test_inputs");
  if (task == Task::kClassification) {
    check_classes(table, split);
    made.train_targets = classes_of(table, split.train, made, "train_targets");
    made.test_targets = classes_of(table, split.test, made, "test_targets");
    return made;
  }
  if (!table.label_names.empty()) {
    throw Error(ErrorCode::kInvalidArgument, table.file.string() + ": the column '" +
                                                 table.names[table.label] +
                                                 "' has texts; choose a classification, or another label");
  }
  std::tie(made.target_mean, made.target_deviation) = moments(table, table.label, split.train);
  made.train_targets = numbers_of(table, split.train, made, "train_targets");
  made.test_targets = numbers_of(table, split.test, made, "test_targets");
  return made;
}

}  // namespace yoke::datasets
