// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/view_chain_test.cpp: random chains of views and their gradients, compared with a model
// that follows each element.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "evaluate.h"

namespace yoke::testing {
namespace {

using Random = std::mt19937_64;

std::uint64_t up_to(std::uint64_t last, Random& random) {
  return std::uniform_int_distribution<std::uint64_t>(0, last)(random);
}

// The element of the source that each element of a view is, or -1 for 0.
struct Model {
  Dims dims;
  std::vector<std::int64_t> elements;

  // `from` computes indices of this model; indices out of range give 0.
  Model view(const Dims& after, const std::function<std::vector<std::int64_t>(const Dims&)>& from) const {
    Model result{after, {}};
    Dims at(after.size(), 0);
    for (std::uint64_t i = 0; i < element_count(after); ++i) {
      const std::vector<std::int64_t> index = from(at);
      std::int64_t element = 0;
      bool is_inside = true;
      for (std::size_t k = 0; k < dims.size(); ++k) {
        is_inside = is_inside && index[k] >= 0 && index[k] < static_cast<std::int64_t>(dims[k]);
        element = element * static_cast<std::int64_t>(dims[k]) + index[k];
      }
      result.elements.push_back(is_inside ? elements[static_cast<std::size_t>(element)] : -1);
      for (std::size_t k = after.size(); k-- > 0 && ++at[k] == after[k];) {
        at[k] = 0;
      }
    }
    return result;
  }
};

struct Pair {
  Tensor tensor;
  Model model;
};

// As `index`, with `change` applied to the index along `axis`.
auto along(std::size_t axis, const std::function<std::int64_t(std::int64_t)>& change) {
  return [=](const Dims& at) {
    std::vector<std::int64_t> index(at.begin(), at.end());
    index[axis] = change(index[axis]);
    return index;
  };
}

Pair sliced(const Pair& x, std::size_t axis, Random& random) {
  const std::uint64_t begin = up_to(x.model.dims[axis] - 1, random);
  const std::uint64_t end = begin + 1 + up_to(x.model.dims[axis] - begin - 1, random);
  const std::uint64_t step = 1 + up_to(2, random);
  const Tensor y = slice(x.tensor, static_cast<int>(axis), begin, end, step);
  return {y, x.model.view(y.dims(), along(axis, [=](std::int64_t i) {
                            return static_cast<std::int64_t>(begin) +
                                   i * static_cast<std::int64_t>(step > end - begin ? 1 : step);
                          }))};
}

Pair padded(const Pair& x, std::size_t axis, Random& random) {
  std::vector<Padding> widths(x.model.dims.size());
  widths[axis] = {up_to(2, random), up_to(2, random)};
  const Tensor y = pad(x.tensor, widths);
  const auto before = static_cast<std::int64_t>(widths[axis].before);
  return {y, x.model.view(y.dims(), along(axis, [=](std::int64_t i) { return i - before; }))};
}

Pair flipped(const Pair& x, std::size_t axis) {
  const auto last = static_cast<std::int64_t>(x.model.dims[axis]) - 1;
  return {flip(x.tensor, {static_cast<int>(axis)}),
          x.model.view(x.model.dims, along(axis, [=](std::int64_t i) { return last - i; }))};
}

Pair windowed(const Pair& x, std::size_t axis, Random& random) {
  const std::uint64_t size = 1 + up_to(std::min<std::uint64_t>(2, x.model.dims[axis] - 1), random);
  const std::uint64_t dilation = size == 1 ? 1 : 1 + up_to((x.model.dims[axis] - 1) / (size - 1) - 1, random);
  const std::uint64_t stride = 1 + up_to(2, random);
  const Tensor y = windows(x.tensor, static_cast<int>(axis), size, stride, dilation);
  return {y, x.model.view(y.dims(), [=](const Dims& at) {
            std::vector<std::int64_t> index(at.begin(), at.end());
            index[axis] = static_cast<std::int64_t>(at[axis] * stride + at.back() * dilation);
            return index;
          })};
}

Pair permuted(const Pair& x, Random& random) {
  Axes order(x.model.dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  const Tensor y = permute(x.tensor, order);
  return {y, x.model.view(y.dims(), [=](const Dims& at) {
            std::vector<std::int64_t> index(at.size());
            for (std::size_t k = 0; k < at.size(); ++k) {
              index[static_cast<std::size_t>(order[k])] = static_cast<std::int64_t>(at[k]);
            }
            return index;
          })};
}

// The diagonal of two axes of the same size, or x.
Pair diagonal(const Pair& x) {
  const Dims& dims = x.model.dims;
  if (dims.size() < 2 || dims[0] != dims[1]) {
    return x;
  }
  const Tensor y = einsum("i i ... => i ...", x.tensor);
  return {y, x.model.view(y.dims(), [](const Dims& at) {
            std::vector<std::int64_t> index(at.begin(), at.end());
            index.insert(index.begin(), index[0]);
            return index;
          })};
}

Pair viewed(const Pair& x, Random& random) {
  const std::size_t axis = up_to(x.model.dims.size() - 1, random);
  switch (up_to(5, random)) {
    case 0:
      return sliced(x, axis, random);
    case 1:
      return padded(x, axis, random);
    case 2:
      return flipped(x, axis);
    case 3:
      return x.model.dims.size() < 4 ? windowed(x, axis, random) : diagonal(x);
    case 4:
      return diagonal(x);
    default:
      return permuted(x, random);
  }
}

TEST(ViewChainTest, ValuesAndGradientsFollowEveryElement) {
  Random random(20261122);
  for (int round = 0; round < 2000; ++round) {
    const Dims dims = {1 + up_to(4, random), 1 + up_to(4, random)};
    const std::uint64_t count = element_count(dims);
    std::vector<double> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 1.0);
    std::vector<std::int64_t> elements(count);
    std::iota(elements.begin(), elements.end(), 0);
    const Tensor leaf = tensor<double>(numbers, dims);
    Pair y{round % 2 == 0 ? leaf : leaf * leaf, {dims, elements}};
    for (std::uint64_t length = 1 + up_to(4, random); length > 0; --length) {
      y = viewed(y, random);
    }
    ASSERT_EQ(y.tensor.dims(), y.model.dims);
    SCOPED_TRACE("round " + std::to_string(round) + ": " + text_of(y.tensor));
    std::vector<double> weights(y.model.elements.size());
    std::iota(weights.begin(), weights.end(), 1.0);
    std::vector<double> expected;
    std::vector<double> slopes(count, 0.0);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::int64_t element = y.model.elements[i];
      const double x = element < 0 ? 0 : numbers[static_cast<std::size_t>(element)];
      expected.push_back(round % 2 == 0 ? x : x * x);
      if (element >= 0) {
        slopes[static_cast<std::size_t>(element)] += weights[i] * (round % 2 == 0 ? 1 : 2 * x);
      }
    }
    ASSERT_EQ(values<double>(y.tensor), expected);
    const Tensor slope = gradients(sum(y.tensor * tensor<double>(weights, y.model.dims)), {leaf})[0];
    ASSERT_EQ(values<double>(slope), slopes) << text_of(slope);
  }
}

}  // namespace
}  // namespace yoke::testing
