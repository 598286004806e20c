// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_data.cpp: reads MNIST-like files or tables, or generates half-moons.
#include <yoke/datasets.h>
#include <yoke/runtime/counted.h>
#include <yoke/runtime/ending.h>
#include <yoke/runtime/shell_word.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>

#include "text.h"
#include "train.h"

namespace yoke::cli {
namespace {

TrainData half_moons(TrainOptions& options) {
  constexpr std::uint64_t kTrainCount = 2000;
  constexpr std::uint64_t kTestCount = 1000;
  constexpr double kNoise = 0.1;
  if (options.model.empty()) {
    options.model = "mlp:16-16";
  }
  options.batch = options.batch == 0 ? 20 : options.batch;
  options.epochs = options.epochs == 0 ? 30 : options.epochs;
  const datasets::Points train = datasets::half_moons(kTrainCount, kNoise, options.seed);
  // A seed far from the ones that users type, so that test points differ from training points.
  const datasets::Points test =
      datasets::half_moons(kTestCount, kNoise, options.seed ^ (std::int64_t{1} << 40U));
  return {.name = "half-moons",
          .sentence = "no --data: training on generated half-moons (" + grouped(kTrainCount) +
                      " training points, " + grouped(kTestCount) + " test points)",
          .train_inputs = train.points,
          .train_labels = train.labels,
          .test_inputs = test.points,
          .test_labels = test.labels,
          .class_count = 2,
          .preparation = {.output_count = 2,
                          .means = {0, 0},
                          .deviations = {1, 1},
                          .columns = {"0", "1"},
                          .label = "2",
                          .column_count = 3}};
}

TrainData image_files(TrainOptions& options) {
  std::error_code error;
  if (std::filesystem::exists(options.data, error) && !std::filesystem::is_directory(options.data, error)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        options.data.string() +
            " is neither a folder of images nor, by its name, a table; the name of a table ends in .csv, "
            ".txt, .tsv, .dat or .data");
  }
  if (options.model.empty()) {
    options.model = "mlp:500";
  }
  options.batch = options.batch == 0 ? 100 : options.batch;
  options.epochs = options.epochs == 0 ? 5 : options.epochs;
  const datasets::Images images =
      datasets::read_mnist(options.data, static_cast<std::uint64_t>(options.class_count));
  return {.name = options.data.string(),
          .sentence = options.data.string() + ": " + grouped(images.train_images.dims()[0]) +
                      " training and " + counted(images.test_images.dims()[0], "test image") + " of " +
                      std::to_string(images.row_count) + " x " + std::to_string(images.column_count) +
                      " pixels, " + detail::counted(images.class_count, "class", "classes"),
          .train_inputs = images.train_images,
          .train_labels = images.train_labels,
          .test_inputs = images.test_images,
          .test_labels = images.test_labels,
          .class_count = images.class_count,
          .row_count = images.row_count,
          .column_count = images.column_count,
          .preparation = {.kind = DataKind::kImages,
                          .output_count = images.class_count,
                          .means = {images.mean},
                          .deviations = {images.deviation},
                          .row_count = images.row_count,
                          .column_count = images.column_count}};
}

datasets::Task task_of(const TrainOptions& options, const datasets::Table& table) {
  const bool is_class = options.task.empty() ? !table.label_names.empty() : options.task == "classification";
  return is_class ? datasets::Task::kClassification : datasets::Task::kRegression;
}

constexpr const char* kTextHint =
    "; to train on the characters of a text, add --model char-lstm or another model for texts";

// Whether most words at the start of a file begin with a letter. A file named .csv or .tsv is a table, and opening a
// pipe would wait.
bool looks_like_text(const std::filesystem::path& file) {
  constexpr int kMostWords = 1000;
  const std::string ending = detail::ending_of(file);
  std::error_code ignored;
  if (ending == ".csv" || ending == ".tsv" || !std::filesystem::is_regular_file(file, ignored)) {
    return false;
  }
  std::ifstream stream(file, std::ios::binary);
  int words = 0;
  int texts = 0;
  for (std::string word; words < kMostWords && stream >> word; ++words) {
    texts += std::isalpha(static_cast<unsigned char>(word[0])) != 0 ? 1 : 0;
  }
  return 2 * texts > words;
}

// A name with a comma needs quotes.
void check_commas(const std::vector<std::string>& drop, const std::vector<std::string>& columns) {
  for (const std::string& column : columns) {
    const std::string start = column.substr(0, column.find(','));
    if (start.size() < column.size() && std::find(drop.begin(), drop.end(), start) != drop.end() &&
        std::find(columns.begin(), columns.end(), start) == columns.end()) {
      throw UsageError("--drop: the name of the column '" + column +
                       "' has a comma, so it needs double quotes: --drop " +
                       detail::shell_word('"' + column + '"'));
    }
  }
}

datasets::Table read_training_table(const TrainOptions& options, bool labels_are_classes) {
  return read_table(
      options.data, options.label, datasets::LabelColumn::kRequired,
      {.only = {},
       .without = options.drop,
       .labels_are_classes = labels_are_classes,
       .check = [&](const datasets::Table& table) { check_commas(options.drop, table.names); }});
}

// Whether only the labels keep a table from being read.
bool has_labels_of_classes(const TrainOptions& options) {
  try {
    (void)read_training_table(options, true);
    return true;
  } catch (const Error&) {
    return false;
  }
}

datasets::Table read_training_table(const TrainOptions& options) {
  try {
    return read_training_table(options, options.task == "classification");
  } catch (const Error& error) {
    const bool is_table =
        !options.label.empty() || !options.drop.empty() || !options.task.empty() || !options.splits.empty();
    if (!is_table && looks_like_text(options.data)) {
      throw Error(error.code(), error.what() + std::string(kTextHint));
    }
    if (options.task.empty() && has_labels_of_classes(options)) {
      throw Error(error.code(),
                  std::string(error.what()) + "; to use the labels as classes, add --task classification");
    }
    throw;
  }
}

void check_classes(const datasets::Table& table) {
  const auto label_at = [&](std::size_t row) { return table.values[row * table.names.size() + table.label]; };
  for (std::size_t r = 1; r < table.row_count(); ++r) {
    if (label_at(r) != label_at(0)) {
      return;
    }
  }
  throw Error(ErrorCode::kInvalidArgument,
              table.file.string() + ": all rows have the same class in the column '" +
                  table.names[table.label] + "', '" +
                  (table.label_names.empty() ? shortest(label_at(0)) : table.label_names[0]) +
                  "', so a model has nothing to learn; choose another column with --label");
}

TrainData table_file(TrainOptions& options) {
  if (options.model.empty()) {
    options.model = "mlp:50";
  }
  options.batch = options.batch == 0 ? 32 : options.batch;
  options.epochs = options.epochs == 0 ? 40 : options.epochs;
  const datasets::Table table = read_training_table(options);
  if (table.names.size() < 2 && detail::ending_of(options.data) != ".csv") {
    throw Error(ErrorCode::kInvalidArgument,
                options.data.string() + " has one column, and so no features besides the label" + kTextHint);
  }
  if (table.row_count() < 2) {
    throw Error(ErrorCode::kInvalidArgument,
                options.data.string() + " has only one row; training and testing need at least 2");
  }
  std::vector<std::size_t> without;
  for (const std::string& name : options.drop) {
    without.push_back(datasets::column_of(table, name));
  }
  if (std::set(without.begin(), without.end()).size() + 1 == table.names.size() && !without.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--drop " + join(options.drop, ",") +
                                                 " leaves out all columns of " + options.data.string() +
                                                 " besides the label; keep one at least");
  }
  const datasets::Split split =
      options.splits.empty() ? datasets::random_split(table.row_count(), options.test_share, options.seed)
                             : datasets::read_split(options.splits, static_cast<std::uint64_t>(options.split),
                                                    table.row_count(), options.test_share);
  const datasets::Task task = task_of(options, table);
  if (task == datasets::Task::kClassification) {
    check_classes(table);
  }
  const datasets::Examples made = datasets::make_examples(table, split, task, without);
  const bool is_regression = task == datasets::Task::kRegression;
  return {.name = options.data.string(),
          .sentence =
              options.data.string() + ": " + grouped(split.train.size()) + " training and " +
              counted(split.test.size(), "test row") + " of " + counted(made.features.size(), "feature") +
              "; " + (is_regression ? "regression" : "classification") + " of '" + table.names[table.label] +
              "'" + (is_regression ? "" : ", " + detail::counted(made.class_count, "class", "classes")) +
              (table.header_has_numbers ? "; the first line is a header, because it has text above a number"
                                        : ""),
          .train_inputs = made.train_inputs,
          .train_labels = made.train_targets,
          .test_inputs = made.test_inputs,
          .test_labels = made.test_targets,
          .class_count = is_regression ? 1 : made.class_count,
          .is_regression = is_regression,
          .target_deviation = made.target_deviation,
          .preparation = {.output_count = is_regression ? 1 : made.class_count,
                          .is_regression = is_regression,
                          .means = made.means,
                          .deviations = made.deviations,
                          .columns = made.features,
                          .label = table.names[table.label],
                          .classes = table.label_names,
                          .target_mean = made.target_mean,
                          .target_deviation = made.target_deviation,
                          .column_count = table.has_header ? 0 : table.names.size()}};
}

bool is_text(const TrainOptions& options) {
  return !options.model.empty() && model_kind(options.model) == ModelKind::kText;
}

bool is_table(const TrainOptions& options) {
  return !is_text(options) && is_table_file(options.data);
}

void check_table_options(const TrainOptions& options) {
  const bool given = !options.label.empty() || !options.drop.empty() || !options.task.empty() ||
                     !options.splits.empty() || options.test_share_is_given;
  if (given && !is_table(options)) {
    throw UsageError(
        "--label, --drop, --task, --splits and --test-share need --data with the file of a table");
  }
  if (options.class_count != 0 && is_table(options)) {
    throw UsageError("--classes needs --data with a folder of images; a table's labels give the classes");
  }
}

}  // namespace

std::int64_t steps_per_epoch(const TrainOptions& options, const TrainData& data) {
  const auto rows = static_cast<std::int64_t>(data.train_count());
  return (rows + options.batch - 1) / options.batch;
}

std::int64_t total_steps(const TrainOptions& options, const TrainData& data) {
  return options.steps != 0 ? options.steps : options.epochs * steps_per_epoch(options, data);
}

TrainData load_train_data(TrainOptions& options) {
  check_table_options(options);
  if (is_text(options) && options.data.empty()) {
    throw UsageError("--model " + options.model + " needs a text; give --data a file");
  }
  std::error_code ignored;
  if (is_text(options) && std::filesystem::is_directory(options.data, ignored)) {
    throw UsageError("--model " + options.model + " needs a text file, but " + options.data.string() +
                     " is a folder; give --data a file");
  }
  if (is_text(options) && (options.shuffle || options.class_count != 0)) {
    throw UsageError(
        "--model " + options.model +
        " works without --shuffle and --classes: its windows are at random positions of the text");
  }
  if (options.lines && !is_text(options)) {
    throw UsageError("--lines needs a character model, such as --model char-mlp");
  }
  TrainData data = options.data.empty() ? half_moons(options)
                   : is_text(options)   ? text_file(options)
                   : is_table(options)  ? table_file(options)
                                        : image_files(options);
  options.hidden = parse_model(options.model);
  if (model_kind(options.model) == ModelKind::kImages && data.row_count == 0) {
    throw UsageError("--model " + options.model +
                     " needs images; give --data a folder with files like MNIST's");
  }
  const std::uint64_t rows = data.train_count();
  if (!options.batch_is_given) {
    options.batch = std::min(options.batch, static_cast<std::int64_t>(rows));
  }
  if (static_cast<std::uint64_t>(options.batch) > rows) {
    throw UsageError("--batch " + std::to_string(options.batch) + " exceeds the " +
                     detail::counted(rows, "training example") + "; use a smaller batch");
  }
  if (options.steps != 0) {
    options.epochs = (options.steps - 1) / steps_per_epoch(options, data) + 1;
  }
  return data;
}

}  // namespace yoke::cli
