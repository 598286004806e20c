// SPDX-License-Identifier: Apache-2.0
// frontends/cli/predict_data.cpp: reads tables, images and texts for yoke predict.
#include "predict_data.h"

#include <yoke/datasets.h>
#include <yoke/models.h>
#include <yoke/runtime/counted.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <system_error>

#include "text.h"

namespace yoke::cli {
namespace {

// The numbers of the classes of a table's labels.
std::vector<double> class_labels(const datasets::Table& table, const Preparation& data) {
  std::vector<double> labels;
  for (std::size_t r = 0; r < table.row_count(); ++r) {
    const double value = table.values[r * table.names.size() + table.label];
    std::string name =
        table.label_names.empty() ? shortest(value) : table.label_names[static_cast<std::size_t>(value)];
    std::optional<double> label;
    if (data.classes.empty() && table.label_names.empty()) {
      label = value;
    } else if (const auto found = std::find(data.classes.begin(), data.classes.end(), name);
               found != data.classes.end()) {
      label = static_cast<double>(found - data.classes.begin());
    }
    if (!label || *label < 0 || *label >= static_cast<double>(data.output_count) ||
        *label != std::floor(*label)) {
      throw Error(ErrorCode::kInvalidArgument,
                  table.file.string() + ", line " + std::to_string(table.lines[r]) + ", column '" +
                      table.names[table.label] + "': the model has no class '" + name.substr(0, 40) +
                      "'; correct it, or remove the column");
    }
    labels.push_back(*label);
  }
  return labels;
}

// Columns without names are identified only by position, so a table must have as many as in training.
void check_column_count(const datasets::Table& table, const Preparation& data) {
  const std::uint64_t count = table.names.size();
  const std::uint64_t wanted = data.column_count;
  const bool has_names =
      table.has_header && std::all_of(data.columns.begin(), data.columns.end(), [&](const std::string& name) {
        return std::find(table.names.begin(), table.names.end(), name) != table.names.end();
      });
  const bool label_is_last = data.label == std::to_string(wanted - 1);
  if (wanted == 0 || has_names || count == wanted || (label_is_last && count + 1 == wanted)) {
    return;
  }
  throw Error(ErrorCode::kInvalidArgument,
              table.file.string() + " has " + detail::counted(count, "column") +
                  ", but the model was trained on a table of " + detail::counted(wanted, "column") +
                  " without a header" +
                  (label_is_last ? ", with the label in the last one; give " + std::to_string(wanted) +
                                       " columns, or " + std::to_string(wanted - 1) + " without the label"
                                 : ", with the label in column " + data.label + "; give " +
                                       std::to_string(wanted) + " columns"));
}

PredictData read_table_data(const std::filesystem::path& file, const Preparation& data) {
  const datasets::Table table =
      read_table(file, data.label, datasets::LabelColumn::kOptional,
                 {.only = data.columns,
                  .without = {},
                  .labels_are_classes = !data.is_regression,
                  .check = [&](const datasets::Table& each) { check_column_count(each, data); }});
  std::vector<std::size_t> columns;
  for (const std::string& name : data.columns) {
    columns.push_back(datasets::column_of(table, name));
  }
  if (std::set(columns.begin(), columns.end()).size() != columns.size()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "the model was trained, by an earlier version of yoke, on a table with several columns without "
        "names, which cannot be told apart; train again");
  }
  PredictData made;
  std::vector<float> values;
  values.reserve(table.row_count() * columns.size());
  for (std::size_t r = 0; r < table.row_count(); ++r) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const double value = table.values[r * table.names.size() + columns[c]];
      values.push_back(static_cast<float>((value - data.means[c]) / data.deviations[c]));
    }
  }
  made.inputs = tensor(values, {table.row_count(), columns.size()});
  if (table.label == table.names.size()) {
    return made;
  }
  if (!data.is_regression) {
    made.labels = class_labels(table, data);
    return made;
  }
  if (!table.label_names.empty()) {
    throw Error(ErrorCode::kInvalidArgument, file.string() + ": the column '" + table.names[table.label] +
                                                 "' has text values, but the model is a regression; correct "
                                                 "it, or remove the column");
  }
  for (std::size_t r = 0; r < table.row_count(); ++r) {
    made.labels.push_back(table.values[r * table.names.size() + table.label]);
  }
  return made;
}

PredictData read_image_data(const std::filesystem::path& file, const Preparation& data) {
  const datasets::OtherImages images = [&] {
    try {
      return datasets::read_images(file, data.output_count, data.means[0], data.deviations[0]);
    } catch (const Error& error) {
      throw Error(
          error.code(),
          error.what() + std::string(is_table_file(file) ? "; the model was trained on images, and this "
                                                           "is the name of a table"
                                                         : ""));
    }
  }();
  if (images.row_count != data.row_count || images.column_count != data.column_count) {
    throw Error(ErrorCode::kInvalidArgument,
                file.string() + " has images of " + std::to_string(images.row_count) + " x " +
                    std::to_string(images.column_count) + " pixels, but the model needs " +
                    std::to_string(data.row_count) + " x " + std::to_string(data.column_count) +
                    "; give images of that size");
  }
  PredictData made{.inputs = images.images, .labels = {}};
  if (images.labels) {
    for (const std::byte label : images.labels.host_bytes()) {
      made.labels.push_back(std::to_integer<int>(label));
    }
  }
  return made;
}

// Windows of the whole text; the labels are the characters that follow.
PredictData read_text_data(const std::filesystem::path& file, const Trained& trained) {
  const datasets::Characters text = datasets::read_text(file);
  std::array<std::uint8_t, 256> symbol_of{};
  for (std::size_t i = 0; i < text.alphabet.size(); ++i) {
    const std::size_t found = trained.data.alphabet.find(text.alphabet[i]);
    if (found == std::string::npos) {
      const auto byte = static_cast<unsigned char>(text.alphabet[i]);
      throw Error(ErrorCode::kInvalidArgument,
                  file.string() + " has byte " + std::to_string(byte) +
                      ", a character that is not in the training text; remove it");
    }
    symbol_of[i] = static_cast<std::uint8_t>(found);
  }
  const models::TextModel model = models::text_model(trained.model, trained.data.output_count);
  const auto bytes = text.symbols.host_bytes();
  const std::uint64_t context = model.context;
  std::vector<std::uint8_t> windows;
  PredictData made;
  const auto symbol_at = [&](std::uint64_t i) { return symbol_of[std::to_integer<std::size_t>(bytes[i])]; };
  for (std::uint64_t at = 0; at + context < bytes.size(); at += model.predicts_last ? 1 : context) {
    for (std::uint64_t i = 0; i < context; ++i) {
      windows.push_back(symbol_at(at + i));
      if (!model.predicts_last || i + 1 == context) {
        made.labels.push_back(symbol_at(at + i + 1));
      }
    }
  }
  if (windows.empty()) {
    throw Error(ErrorCode::kInvalidArgument, file.string() + " has " + counted(bytes.size(), "character") +
                                                 ", but the model needs at least " + grouped(context + 1) +
                                                 "; give a longer text");
  }
  made.inputs = tensor(windows, {windows.size() / context, context});
  return made;
}

void check_kind(const std::filesystem::path& file, DataKind kind) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(file, ignored);
  if (is_folder && kind != DataKind::kImages) {
    throw Error(ErrorCode::kInvalidArgument,
                file.string() + " is a folder, but the model was trained on a " +
                    (kind == DataKind::kTable ? "table; give a table with the same columns"
                                              : "text; give a text file"));
  }
  if (kind == DataKind::kTable && std::filesystem::is_regular_file(file, ignored) && !is_table_file(file)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        file.string() +
            " does not have the name of a table, which ends in .csv, .txt, .tsv, .dat or .data; rename it");
  }
}

}  // namespace

PredictData read_predict_data(const std::filesystem::path& file, const Trained& trained) {
  check_kind(file, trained.data.kind);
  switch (trained.data.kind) {
    case DataKind::kTable:
      return read_table_data(file, trained.data);
    case DataKind::kImages:
      return read_image_data(file, trained.data);
    default:
      return read_text_data(file, trained);
  }
}

std::string class_name(const Preparation& data, std::size_t number) {
  return data.kind == DataKind::kText   ? std::string(1, data.alphabet[number])
         : number < data.classes.size() ? data.classes[number]
                                        : std::to_string(number);
}

}  // namespace yoke::cli
