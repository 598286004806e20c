// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/augmentation.cpp: random flips and crops of images, as gathers and selections.
#include <yoke/augmentation.h>
#include <yoke/mode.h>
#include <yoke/ops.h>

#include <string>

#include "node.h"
#include "shortest.h"

namespace yoke {
namespace {

void require_images(const Tensor& images, const char* operation) {
  detail::require(images, operation);
  if (images.rank() < 3) {
    detail::fail(std::string(operation) + ": " + detail::describe(images) +
                 " has too few axes for images, which have rows, a height and a width");
  }
}

// One number per row, with the rank of the images.
Tensor draw_of_rows(const Tensor& images, RandomKey key) {
  Dims dims(images.rank(), 1);
  dims[0] = images.dims()[0];
  return uniform(dims, key);
}

// Elements i + shift along the axis, 0 outside; a shift per row, -padding to padding.
Tensor shifted(const Tensor& images, int axis, std::uint64_t padding, RandomKey key) {
  const auto count = static_cast<double>(2 * padding + 1);
  const Tensor shift =
      cast(floor(draw_of_rows(images, key) * count) - static_cast<double>(padding), Type::kI64);
  return take_along_axis(images, iota(images.dims(), axis) + shift, axis);
}

}  // namespace

Tensor random_flip(const Tensor& images, double probability, RandomKey key) {
  require_images(images, "random_flip");
  if (!(probability >= 0 && probability <= 1)) {
    detail::fail("random_flip: the probability is " + detail::shortest(probability) +
                 "; it must be from 0 to 1");
  }
  return by_mode(where(draw_of_rows(images, key) < probability, flip(images, {2}), images), images);
}

Tensor random_crop(const Tensor& images, std::uint64_t padding, RandomKey key) {
  require_images(images, "random_crop");
  for (const std::size_t axis : {1U, 2U}) {
    if (padding >= images.dims()[axis]) {
      detail::fail("random_crop: the padding " + std::to_string(padding) +
                   " is not less than the size of axis " + std::to_string(axis) + " of " +
                   detail::describe(images));
    }
  }
  if (padding == 0) {
    return images;
  }
  RandomKey columns = key;
  if (key.stream) {
    columns.stream = *key.stream + 1;
  }
  return by_mode(shifted(shifted(images, 1, padding, key), 2, padding, columns), images);
}

}  // namespace yoke
