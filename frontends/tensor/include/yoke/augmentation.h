// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/augmentation.h: random changes of images in training.
//
// Mode::kEval leaves images unchanged. Images have the axes [rows, height, width] and any others, such as channels.
// With the default key, the changes of a row depend on options.base_seed, the step and the row's number in the batch,
// but not on the number of shards, micro-batches or threads. Each call in a model draws its own numbers. Gradients
// propagate to the images.
#pragma once

#include <yoke/random.h>
#include <yoke/tensor.h>

#include <cstdint>

namespace yoke {

inline constexpr RandomKey kEveryRowAndStep = {.stream = {}, .every_step = true, .by_row = true};

// Mirrors each image left to right with this probability, from 0 to 1. Error kInvalidArgument: the images have fewer
// than 3 axes, or the probability is out of range.
Tensor random_flip(const Tensor& images, double probability = 0.5, RandomKey key = kEveryRowAndStep);

// Moves each image by up to `padding` pixels up or down and left or right, all distances with equal probability. This
// is a random crop of the original size from the image padded with `padding` zeros on each side. If key.stream is set,
// this stream and the next one are used. Error kInvalidArgument: the images have fewer than 3 axes, or `padding` is not
// less than the height or not less than the width.
Tensor random_crop(const Tensor& images, std::uint64_t padding, RandomKey key = kEveryRowAndStep);

}  // namespace yoke
