// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/datasets.h: training data: MNIST-like files, and generated half-moons.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>
#include <filesystem>

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
