// SPDX-License-Identifier: Apache-2.0
// frontends/cli/preparation.h: how the data of a run was prepared, which its checkpoints keep, so that other data can
// be prepared in the same way.
#pragma once

#include <yoke/datasets.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace yoke::cli {

enum class DataKind : std::uint8_t { kTable, kImages, kText };

struct Preparation {
  DataKind kind = DataKind::kTable;
  std::uint64_t output_count = 0;  // of the model: classes, characters, or 1 for a regression
  bool is_regression = false;
  // Inputs are (value - mean) / deviation: one of each per column of a table, or one for all pixels.
  std::vector<double> means = {};
  std::vector<double> deviations = {};
  // A table.
  std::vector<std::string> columns = {};  // the features
  std::string label = {};
  std::vector<std::string> classes = {};  // empty: numbers
  double target_mean = 0;                 // of a regression
  double target_deviation = 1;
  // Images, in pixels.
  std::uint64_t row_count = 0;
  // Also the number of all columns of a table without a header. 0: the table has a header, or the note is older.
  std::uint64_t column_count = 0;
  bool is_lines = false;      // of a text: its lines are independent
  std::string alphabet = {};  // of a text: the character of each symbol
};

// One line of JSON. Bytes of names that are not valid UTF-8 are replaced.
std::string preparation_text(const Preparation& preparation);
// Checks everything. Error kDataLoss, which begins with `where`.
Preparation parse_preparation(const std::string& text, const std::string& where);

// Whether the name is that of a table: an IDX file, or a compressed one, is not.
bool is_table_file(const std::filesystem::path& file);
datasets::Table read_table(const std::filesystem::path& file, const std::string& label,
                           datasets::LabelColumn column, const datasets::TableOptions& options);

}  // namespace yoke::cli
