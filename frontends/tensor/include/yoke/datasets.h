// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/datasets.h: training data: MNIST-like files, tables, texts, and generated half-moons.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace yoke::datasets {

struct Images {
  Tensor train_images;  // f32 [n, row_count * column_count]: (pixel - mean) / deviation
  Tensor train_labels;  // u8 [n]
  Tensor test_images;   // normalized with the mean and deviation of the training set
  Tensor test_labels;
  std::uint64_t row_count = 0;  // of one image, in pixels
  std::uint64_t column_count = 0;
  std::uint64_t class_count = 0;
  double mean = 0;       // of the training set's pixels, which range from 0 to 255
  double deviation = 1;  // standard deviation of the training set's pixels; 1 if all pixels are equal
};

// Reads the four IDX files of an MNIST-like data set: train-images-idx3-ubyte, train-labels-idx1-ubyte,
// t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte. A file may be gzip-compressed (suffix ".gz"), and
// its name may have a dot in place of the hyphen before "idx". The image size and count come from the
// files. `class_count` 0 means one more than the largest training label.
//
// Every file and label is checked before the function returns. Errors name the file and the byte offset:
// kNotFound or kPermissionDenied for the folder or a file, kDataLoss for a damaged file, kInvalidArgument
// for files that do not belong together and for labels outside [0, class_count).
Images read_mnist(const std::filesystem::path& folder, std::uint64_t class_count = 0);

// A table of numbers.
struct Table {
  std::filesystem::path file;
  // Of the columns; "0", "1", ... in a file without a header, and "unnamed 2" where the header has a blank name.
  std::vector<std::string> names;
  std::vector<std::uint64_t> lines;  // of the file, from 1: where each row begins
  std::vector<double> values;        // row-major
  // The distinct texts of the label column, sorted, if it has texts: its values are their numbers. Else empty.
  std::vector<std::string> label_names;
  std::size_t label = 0;  // the column of the label
  bool has_header = false;
  bool header_has_numbers = false;  // so it may be a row with a missing value instead

  std::size_t row_count() const { return lines.size(); }
};

// Whether a table must have the column of the label. If it lacks an optional one, Table::label is names.size().
enum class LabelColumn : std::uint8_t { kRequired, kOptional };

// How fields become numbers.
struct TableOptions {
  // The columns to read besides the label's, by name or number; empty: all.
  std::vector<std::string> only = {};
  // Columns that are not read, by name or number: their values are 0, and they may have texts.
  std::vector<std::string> without = {};
  // Labels may mix numbers and texts.
  bool labels_are_classes = false;
  // Called before values are read, with Table::file, names, label and has_header. It may throw.
  std::function<void(const Table&)> check = {};
};

// Reads comma-separated values as RFC 4180 describes them: fields may be quoted, and then contain commas, line breaks
// and doubled quotes; lines end with LF or CRLF. Semicolons separate the fields if the first line has them and no
// commas; numbers have a decimal point all the same. The text is UTF-8. The first line is a header if in some column it
// has text where the second line has a number, or if it is the only line and has no number; its names must differ.
// `label` is the name or number of a column; empty: the last one. Of the columns that are read, only this one may have
// texts. A label must not be empty, and labels must not mix numbers and texts.
// Errors name the file, the line and the column: kNotFound or kPermissionDenied for the file; kDataLoss for text that
// is not UTF-8 and for a line that is not valid; kInvalidArgument for an unknown column, two columns with the same
// name, a field that is not a number within the range of f32, and a file without rows.
Table read_csv(const std::filesystem::path& file, const std::string& label = {},
               LabelColumn column = LabelColumn::kRequired, const TableOptions& options = {});
// The same for fields separated by blanks or tabs, without quotes. Blank lines are ignored. In a file whose name ends
// in .tsv and whose first line with text has a tab, tabs alone separate the fields, which may be empty, or quoted as in
// read_csv; a tab at the end of every line is ignored.
Table read_columns(const std::filesystem::path& file, const std::string& label = {},
                   LabelColumn column = LabelColumn::kRequired, const TableOptions& options = {});
// The number of a column, given by name or number. Error kInvalidArgument lists the names.
std::size_t column_of(const Table& table, const std::string& name);

// Rows of a table, divided for training and testing.
struct Split {
  std::vector<std::uint64_t> train;
  std::vector<std::uint64_t> test;
};
// Rows in an order that depends only on the seed; the last round(test_share * row_count) are for testing, at least 1.
// Error kInvalidArgument: there are fewer than 2 rows, or test_share is not in (0, 1).
Split random_split(std::uint64_t row_count, double test_share, std::int64_t seed);
// Line `number`, from 0, of a file whose lines are permutations of the rows; the last round(test_share * row_count) are
// for testing. Errors: as read_columns; kInvalidArgument: the file has fewer lines, or the line is no permutation.
Split read_split(const std::filesystem::path& file, std::uint64_t number, std::uint64_t row_count,
                 double test_share);

enum class Task : std::uint8_t { kRegression, kClassification };

// Inputs and targets for training, made from a table. Inputs, and the targets of a regression, are standardized:
// (value - mean) / deviation, with those of the training rows; the deviation of a constant column counts as 1.
struct Examples {
  Tensor train_inputs;   // f32 [n, features]
  Tensor train_targets;  // f32 [n], or for classes u8 [n]
  Tensor test_inputs;
  Tensor test_targets;
  std::vector<std::string> features;  // names of the columns
  std::vector<double> means;          // of the features
  std::vector<double> deviations;
  double target_mean = 0;
  double target_deviation = 1;
  std::uint64_t class_count = 0;  // of a classification: one more than the largest label
};
// All columns but the label and those in `without` are features. Errors: kInvalidArgument: there are no features; a
// split has no rows, or a row that the table lacks; a label of a classification is not a whole number from 0 to 255
// (the message has its line), or that of a regression is text.
Examples make_examples(const Table& table, const Split& split, Task task,
                       std::span<const std::size_t> without = {});

// The bytes of a text as numbers: the training data of models of characters.
struct Characters {
  Tensor symbols;        // u8 [n]: positions in the alphabet
  std::string alphabet;  // the distinct bytes, sorted
};
// Errors: kNotFound or kPermissionDenied for the file; kInvalidArgument for an empty one.
Characters read_text(const std::filesystem::path& file);

// Images for a model that has been trained on others.
struct OtherImages {
  Tensor images;  // f32 [n, row_count * column_count]: (pixel - mean) / deviation
  Tensor labels;  // u8 [n]; empty: there are none
  std::uint64_t row_count = 0;
  std::uint64_t column_count = 0;
};
// Reads one IDX file of images, plain or .gz, or the test images of a folder as read_mnist, with their labels if the
// folder has them. Errors: as read_mnist; kInvalidArgument: the deviation is not a positive number.
OtherImages read_images(const std::filesystem::path& file_or_folder, std::uint64_t class_count, double mean,
                        double deviation);

struct Points {
  Tensor points;  // f32 [n, 2]
  Tensor labels;  // u8 [n]: 0 for the upper moon, 1 for the lower moon, alternating
  Tensor signs;   // f32 [n]: the labels as -1 and 1, for a hinge loss
};

// Generates points on two interleaving half circles of radius 1, with normally distributed errors of standard
// deviation `noise`. Equal arguments give equal points.
// Error kInvalidArgument: `count` is 0, or `noise` is negative or not finite.
Points half_moons(std::uint64_t count, double noise, std::int64_t seed);

}  // namespace yoke::datasets
