// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/datasets.h: data to train on: MNIST-like files, and half-moons made on the
// spot.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>
#include <filesystem>

namespace yoke::datasets {

struct Images {
  Tensor train_images;  // f32 [n, row_count * column_count]: (pixel - mean) / deviation
  Tensor train_labels;  // u8 [n]
  Tensor test_images;   // scaled with the training set's mean and deviation
  Tensor test_labels;
  std::uint64_t row_count = 0;
  std::uint64_t column_count = 0;
  std::uint64_t class_count = 0;
  double mean = 0;       // of the training set's pixels, 0 to 255
  double deviation = 1;  // the same; 1 where all pixels are equal
};

// Reads the four IDX files of `folder`, plain or gzip: train-images-idx3-ubyte, train-labels-idx1-ubyte,
// t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, also with ".gz" behind or with a dot before "idx". Size and
// number of images come from the files. `class_count` 0: one more than the largest training label. Every
// image and label is checked before anything is returned. Throws Error: kNotFound, kPermissionDenied folder
// or file; kDataLoss a damaged file; kInvalidArgument files that do not fit each other, or a label that is no
// class. The sentence names the file, and the place in it.
Images read_mnist(const std::filesystem::path& folder, std::uint64_t class_count = 0);

struct Points {
  Tensor points;  // f32 [n, 2]
  Tensor labels;  // u8 [n]: 0 the upper moon, 1 the lower; they take turns
  Tensor signs;   // f32 [n]: the same as -1 and 1, for a hinge loss
};

// Two interleaving half circles of radius 1, each point moved by a normal error of deviation `noise`. Made by
// random_bits of `seed`: the same numbers give the same points. Error kInvalidArgument: count 0, noise
// negative or not finite.
Points half_moons(std::uint64_t count, double noise, std::int64_t seed);

}  // namespace yoke::datasets
