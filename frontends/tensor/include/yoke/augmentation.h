// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/augmentation.h: random changes of images in training. In Mode::kEval, the images stay as
// they are.
//
// Images have the axes [rows, height, width, ...], such as channels. With the default key, a row's changes depend on
// options.base_seed, the step and the row's number in the batch: not on the number of shards, micro-batches or threads.
// Each call in a model draws its own numbers. Gradients flow through to the images.
#pragma once

#include <yoke/random.h>
#include <yoke/tensor.h>

#include <cstdint>

namespace yoke {

inline constexpr RandomKey kEveryRowAndStep = {.stream = {}, .every_step = true, .by_row = true};

// Mirrors each image left to right with this probability, 0 to 1. Errors kInvalidArgument: the images have fewer than 3
// axes, or the probability is out of range.
Tensor random_flip(const Tensor& images, double probability = 0.5, RandomKey key = kEveryRowAndStep);

// Moves each image by up to `padding` pixels up or down and left or right, with equal probabilities: a random crop, in
// the old size, of the image in a frame of `padding` zeros. With a stream, it uses that and the next one. Errors
// kInvalidArgument: the images have fewer than 3 axes,
// or the padding is not less than height and width.
Tensor random_crop(const Tensor& images, std::uint64_t padding, RandomKey key = kEveryRowAndStep);

}  // namespace yoke
