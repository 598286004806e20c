// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/datasets.cpp: reads MNIST-like files and texts, and generates half-moons.
#include <yoke/datasets.h>
#include <yoke/program/execute.h>
#include <yoke/runtime/counted.h>
#include <yoke/runtime/error.h>
#include <yoke/runtime/folder.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "data/files.h"
#include "data/idx.h"

namespace yoke::datasets {
namespace {

namespace fs = std::filesystem;
using detail::IdxFile;

// A file by any of its common names. `stem` is for example "train-images", and `kind` "idx3-ubyte".
std::optional<fs::path> find_if_there(const fs::path& folder, const std::string& stem,
                                      const std::string& kind) {
  for (const char* joint : {"-", "."}) {
    for (const char* ending : {"", ".gz"}) {
      std::string name = stem;
      name.append(joint).append(kind).append(ending);
      fs::path path = folder / name;
      std::error_code error;
      if (fs::exists(path, error)) {
        return path;
      }
      if (error) {
        throw Error(detail::code_of_errno(error.value()),
                    "cannot read " + path.string() + ": " + error.message());
      }
    }
  }
  return std::nullopt;
}

fs::path find_file(const fs::path& folder, const std::string& stem, const std::string& kind) {
  if (const auto found = find_if_there(folder, stem, kind)) {
    return *found;
  }
  throw Error(ErrorCode::kNotFound,
              "the folder " + folder.string() + " has no " + stem + "-" + kind + " and no " + stem + "-" +
                  kind +
                  ".gz; it must hold MNIST's four IDX files (train-images, train-labels, "
                  "t10k-images, t10k-labels)");
}

void check_folder(const fs::path& folder) {
  std::error_code error;
  const bool is_empty = detail::names_in(folder, error).empty();
  if (error) {
    throw Error(detail::code_of_errno(error.value()), "cannot read the folder " + folder.string() + ": " +
                                                          error.message() +
                                                          "; give a folder that contains MNIST's IDX files");
  }
  if (is_empty) {
    throw Error(ErrorCode::kNotFound,
                "the folder " + folder.string() +
                    " is empty; put MNIST's four IDX files there (train-images-idx3-ubyte and so on, "
                    "plain or .gz)");
  }
}

struct Part {
  IdxFile images;
  IdxFile labels;
};

void check_counts(const IdxFile& images, const IdxFile& labels) {
  if (images.dims[0] != labels.dims[0]) {
    throw Error(ErrorCode::kInvalidArgument,
                images.path.string() + " holds " + detail::counted(images.dims[0], "image") + ", but " +
                    labels.path.string() + " holds " + detail::counted(labels.dims[0], "label") +
                    "; fetch both again");
  }
}

Part read_part(const fs::path& folder, const std::string& stem) {
  Part part{.images = detail::read_idx(find_file(folder, stem + "-images", "idx3-ubyte"), 3),
            .labels = detail::read_idx(find_file(folder, stem + "-labels", "idx1-ubyte"), 1)};
  check_counts(part.images, part.labels);
  return part;
}

void check_labels(const IdxFile& labels, std::uint64_t class_count) {
  const auto data = labels.data();
  for (std::size_t i = 0; i < data.size(); ++i) {
    const auto label = std::to_integer<std::uint64_t>(data[i]);
    if (label >= class_count) {
      throw Error(ErrorCode::kInvalidArgument,
                  labels.path.string() + ": label " + std::to_string(label) + " of item " +
                      std::to_string(i) + ", at byte " + std::to_string(labels.data_offset + i) +
                      ", is out of range for " + detail::counted(class_count, "class", "classes") +
                      " (0 to " + std::to_string(class_count - 1) +
                      "); fix the file or the number of classes");
    }
  }
}

// Mean and standard deviation of all pixels.
std::pair<double, double> moments(std::span<const std::byte> pixels) {
  std::array<std::uint64_t, 256> histogram{};
  for (const std::byte pixel : pixels) {
    ++histogram[std::to_integer<std::size_t>(pixel)];
  }
  double sum = 0;
  double squares = 0;
  for (std::size_t value = 0; value < histogram.size(); ++value) {
    sum += static_cast<double>(histogram[value]) * static_cast<double>(value);
    squares += static_cast<double>(histogram[value]) * static_cast<double>(value * value);
  }
  const auto count = static_cast<double>(pixels.size());
  const double mean = sum / count;
  const double variance = squares / count - mean * mean;
  return {mean, variance > 0 ? std::sqrt(variance) : 1.0};
}

Tensor scaled_images(const IdxFile& images, double mean, double deviation, std::string name) {
  std::array<float, 256> scaled{};
  for (std::size_t value = 0; value < scaled.size(); ++value) {
    scaled[value] = static_cast<float>((static_cast<double>(value) - mean) / deviation);
  }
  const auto pixels = images.data();
  std::vector<std::byte> bytes(pixels.size() * sizeof(float));
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    std::memcpy(bytes.data() + i * sizeof(float), &scaled[std::to_integer<std::size_t>(pixels[i])],
                sizeof(float));
  }
  return literal(Type::kF32, {images.dims[0], images.dims[1] * images.dims[2]}, std::move(bytes),
                 std::move(name));
}

Tensor label_tensor(const IdxFile& labels, std::string name) {
  const auto data = labels.data();
  return literal(Type::kU8, {labels.dims[0]}, std::vector<std::byte>(data.begin(), data.end()),
                 std::move(name));
}

constexpr std::uint64_t kMostClasses = 256;  // a label is one byte

}  // namespace

Images read_mnist(const fs::path& folder, std::uint64_t class_count) {
  if (class_count > kMostClasses) {
    throw Error(ErrorCode::kInvalidArgument,
                "class_count is " + std::to_string(class_count) +
                    ", but a label of an IDX file is one byte; choose at most 256");
  }
  check_folder(folder);
  const Part train = read_part(folder, "train");
  const Part test = read_part(folder, "t10k");
  const Dims& dims = train.images.dims;
  const Dims& test_dims = test.images.dims;
  if (dims[1] != test_dims[1] || dims[2] != test_dims[2]) {
    throw Error(ErrorCode::kInvalidArgument,
                test.images.path.string() + " holds images of " + std::to_string(test_dims[1]) + " x " +
                    std::to_string(test_dims[2]) + " pixels, but " + train.images.path.string() +
                    " holds images of " + std::to_string(dims[1]) + " x " + std::to_string(dims[2]) +
                    "; use files of one data set");
  }
  if (class_count == 0) {
    class_count = std::to_integer<std::uint64_t>(
                      *std::max_element(train.labels.data().begin(), train.labels.data().end())) +
                  1;
  }
  check_labels(train.labels, class_count);
  check_labels(test.labels, class_count);

  const auto [mean, deviation] = moments(train.images.data());
  return {.train_images = scaled_images(train.images, mean, deviation, "train_images"),
          .train_labels = label_tensor(train.labels, "train_labels"),
          .test_images = scaled_images(test.images, mean, deviation, "test_images"),
          .test_labels = label_tensor(test.labels, "test_labels"),
          .row_count = dims[1],
          .column_count = dims[2],
          .class_count = class_count,
          .mean = mean,
          .deviation = deviation};
}

OtherImages read_images(const fs::path& file_or_folder, std::uint64_t class_count, double mean,
                        double deviation) {
  if (!(deviation > 0) || !std::isfinite(deviation) || !std::isfinite(mean)) {
    throw Error(ErrorCode::kInvalidArgument, "read_images: the mean is " + std::to_string(mean) +
                                                 " and the deviation is " + std::to_string(deviation) +
                                                 "; they must be finite, and the deviation greater than 0");
  }
  std::error_code ignored;
  const bool is_folder = fs::is_directory(file_or_folder, ignored);
  const IdxFile images = detail::read_idx(
      is_folder ? find_file(file_or_folder, "t10k-images", "idx3-ubyte") : file_or_folder, 3);
  OtherImages made{.images = scaled_images(images, mean, deviation, "images"),
                   .labels = {},
                   .row_count = images.dims[1],
                   .column_count = images.dims[2]};
  const auto labels = is_folder ? find_if_there(file_or_folder, "t10k-labels", "idx1-ubyte") : std::nullopt;
  if (labels) {
    const IdxFile found = detail::read_idx(*labels, 1);
    check_counts(images, found);
    check_labels(found, class_count);
    made.labels = label_tensor(found, "labels");
  }
  return made;
}

Points half_moons(std::uint64_t count, double noise, std::int64_t seed) {
  if (count == 0 || !std::isfinite(noise) || noise < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "half_moons: count is " + std::to_string(count) + " and noise is " + std::to_string(noise) +
                    "; count must be at least 1, and noise finite and at least 0");
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40U;
  if (count > kMost) {
    throw Error(ErrorCode::kInvalidArgument,
                "half_moons: count is " + std::to_string(count) + "; the maximum is 2^40 points");
  }
  // Stream 0 gives the angle; streams 1 and 2 give two normal errors by the Box-Muller transform.
  const auto uniform = [&](std::int64_t stream, std::uint64_t i) {
    const std::uint32_t bits = program::random_bits(seed, stream, static_cast<std::int64_t>(i));
    return (static_cast<double>(bits) + 0.5) * 0x1p-32;  // in (0, 1), so the logarithm is finite
  };
  std::vector<float> points(2 * count);
  std::vector<std::uint8_t> labels(count);
  std::vector<float> signs(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool lower = i % 2 == 1;
    const double angle = std::numbers::pi * uniform(0, i);
    const double radius = noise * std::sqrt(-2 * std::log(uniform(1, i)));
    const double turn = 2 * std::numbers::pi * uniform(2, i);
    const double x = lower ? 1 - std::cos(angle) : std::cos(angle);
    const double y = lower ? 0.5 - std::sin(angle) : std::sin(angle);
    points[2 * i] = static_cast<float>(x + radius * std::cos(turn));
    points[2 * i + 1] = static_cast<float>(y + radius * std::sin(turn));
    labels[i] = lower ? 1 : 0;
    signs[i] = lower ? 1.0F : -1.0F;
  }
  return {.points = tensor(points, {count, 2}, "points"),
          .labels = tensor(labels, {count}, "labels"),
          .signs = tensor(signs, {count}, "signs")};
}

Characters read_text(const fs::path& file) {
  std::vector<std::byte> bytes = detail::read_file(file);
  if (bytes.empty()) {
    throw Error(ErrorCode::kInvalidArgument, file.string() + " is empty; give a text with characters");
  }
  Characters made;
  std::array<bool, 256> used{};
  for (const std::byte each : bytes) {
    used[std::to_integer<std::size_t>(each)] = true;
  }
  std::array<std::byte, 256> position{};
  for (std::size_t i = 0; i < used.size(); ++i) {
    position[i] = static_cast<std::byte>(made.alphabet.size());
    if (used[i]) {
      made.alphabet += static_cast<char>(i);
    }
  }
  for (std::byte& each : bytes) {
    each = position[std::to_integer<std::size_t>(each)];
  }
  const std::uint64_t count = bytes.size();
  made.symbols = literal(Type::kU8, {count}, std::move(bytes), "symbols");
  return made;
}

}  // namespace yoke::datasets
