// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/view_gradient_test.cpp: the first and second derivatives of views and of selections by
// index.
#include "gradient_check.h"

namespace yoke::testing {
namespace {

// Indices into an axis of size `count`. Some repeat, and some are out of range.
Tensor ids_of(const Dims& dims, std::uint64_t count) {
  std::vector<std::int32_t> ids(element_count(dims));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>((i * 7 + 1) % (count + 1));
  }
  return tensor<std::int32_t>(ids, dims);
}

const Dims kTakeShape = {3, 2};
const Axes kOuterAxes = {0, 2};
const Symbol kRow{"row", 0, 2, 1};

std::vector<Case> index_cases() {
  return {
      {"take", "a b", [](Inputs x) { return exp(take(x[0], ids_of(kTakeShape, x[0].dims()[0]))); }},
      {"take_of_expression", "a b", [](Inputs x) { return take(exp(x[0]), ids_of({5}, x[0].dims()[0])); }},
      {"take_along_another_axis", "a b c",
       [](Inputs x) { return exp(take(x[0], ids_of(kTakeShape, x[0].dims()[1]), 1)); }},
      {"take_along_axis", "a b c",
       [](Inputs x) {
         const Dims& dims = x[0].dims();
         return exp(take_along_axis(x[0], ids_of({dims[0], 1, dims[2]}, dims[1]), 1));
       }},
      {"take_many_along_axis", "a b c",
       [](Inputs x) {
         const Dims& dims = x[0].dims();
         return exp(take_along_axis(x[0] * x[0], ids_of({dims[0], 5, dims[2]}, dims[1]), 1));
       }},
      {"dynamic_slice", "4 5 a",
       [](Inputs x) {
         const Tensor start = tensor<std::int32_t>({2}, {});
         return exp(dynamic_slice(x[0], {kRow, start, 0}, {2, 2, x[0].dims()[2]}));
       }},
      {"second_order_take", "a b",
       [](Inputs x) {
         return gradients(sum(exp(take(x[0], ids_of(kTakeShape, x[0].dims()[0])))), {x[0]})[0];
       }},
  };
}

// y = sum(exp(view)), differentiated once more.
std::function<Tensor(Inputs)> second_order(const std::function<Tensor(Inputs)>& view) {
  return [view](Inputs x) { return gradients(sum(exp(view(x)) * view(x)), {x[0]})[0]; };
}

Tensor convolution(const Tensor& x, const Tensor& weights, std::uint64_t stride, std::uint64_t dilation) {
  const Tensor padded = pad(x, {{0, 0}, {1, 2}, {0, 1}});
  const Tensor patches =
      windows(windows(padded, 1, weights.dims()[1], stride, dilation), 2, weights.dims()[2], stride);
  return einsum("ciokl,dkl->dio", patches, weights);
}

std::vector<Case> view_cases() {
  const std::vector<Case> views = {
      {"strided_slice", "a 7", [](Inputs x) { return slice(x[0], 1, 1, 7, 3); }},
      {"flip", "a b c", [](Inputs x) { return flip(x[0], kOuterAxes); }},
      {"roll", "a 5", [](Inputs x) { return roll(x[0], 2, 1); }},
      {"pad", "a b",
       [](Inputs x) {
         return pad(x[0], {{1, 2}, {0, 3}}, 0.5);
       }},
      {"pad_of_flip", "a b",
       [](Inputs x) {
         return pad(flip(x[0]), {{1, 0}, {2, 2}});
       }},
      {"pad_of_slice", "a 7",
       [](Inputs x) {
         return pad(slice(x[0], 1, 1, 7, 2), {{0, 0}, {2, 1}});
       }},
      {"slice_of_pad", "a 4",
       [](Inputs x) {
         return slice(pad(x[0], {{0, 1}, {2, 2}}), 1, 1, 8, 3);
       }},
      {"flip_of_strided_slice", "a 7", [](Inputs x) { return flip(slice(x[0], 1, 0, 7, 2)); }},
      {"of_expression", "a 7", [](Inputs x) { return flip(slice(x[0] * x[0], 1, 0, 7, 2)); }},
      {"split", "6 a",
       [](Inputs x) {
         const auto parts = split(x[0], 3);
         return parts[0] * parts[2] + parts[1];
       }},
      {"stack", "a b",
       [](Inputs x) {
         return stack({x[0], x[0] * x[0]}, 1);
       }},
      {"windows", "a 7 b", [](Inputs x) { return windows(x[0], 1, 3); }},
      {"windows_strided", "a 9", [](Inputs x) { return windows(x[0], 1, 2, 3); }},
      {"windows_apart", "a 8 b", [](Inputs x) { return windows(x[0], 1, 2, 2); }},
      {"windows_apart_and_a_rest", "5 a 8",
       [](Inputs x) { return windows(windows(x[0], 0, 2, 2), 2, 3, 3); }},
      {"windows_apart_transposed", "6 a",
       [](Inputs x) {
         return permute(windows(x[0] * x[0], 0, 2, 2), {2, 1, 0});
       }},
      {"windows_dilated", "a 9", [](Inputs x) { return windows(x[0], -1, 3, 2, 2); }},
      {"windows_of_pad", "a 5",
       [](Inputs x) {
         return windows(pad(x[0], {{0, 0}, {2, 1}}), 1, 3, 2);
       }},
      {"windows_of_windows", "9", [](Inputs x) { return windows(windows(x[0], 0, 4, 2), 1, 2); }},
      {"windows_twice", "7 5", [](Inputs x) { return windows(windows(x[0], 0, 3, 2), 1, 2); }},
      {"diagonal_of_windows", "7", [](Inputs x) { return einsum("ii->i", windows(x[0], 0, 4)); }},
      {"row_of_symbol", "4 a", [](Inputs x) { return flip(x[0].at(kRow)); }},
      {"broadcast_of_slice", "5 a",
       [](Inputs x) {
         return broadcast_to(slice(x[0], 0, 1, 5, 2), {3, 2, x[0].dims()[1]});
       }},
  };
  std::vector<Case> cases = views;
  for (const Case& view : views) {
    cases.push_back({"second_order_" + view.name, view.shapes, second_order(view.function)});
  }
  const auto strided = [](Inputs x) { return convolution(x[0], x[1], 2, 1); };
  const auto dilated = [](Inputs x) { return convolution(x[0], x[1], 1, 2); };
  cases.push_back({"convolution", "2 6 5; 3 3 2", strided});
  cases.push_back({"convolution_dilated", "2 6 5; 3 3 2", dilated});
  cases.push_back({"second_order_convolution", "2 6 5; 3 3 2", second_order(strided), -0.5, 0.5});
  cases.push_back({"max_pool", "a 7", [](Inputs x) {
                     return max(windows(pad(x[0], {{0, 0}, {1, 1}}, -9), 1, 3, 2), {-1});
                   }});
  cases.push_back({"max_pool_apart", "a 7 b", [](Inputs x) { return max(windows(x[0], 1, 2, 2), {-1}); }});
  cases.push_back({"mean_pool", "a 7", [](Inputs x) { return mean(windows(x[0] * x[0], 1, 3, 2), {-1}); }});
  return cases;
}

const auto case_name = ::testing::PrintToStringParamName();

INSTANTIATE_TEST_SUITE_P(Index, GradientTest, ::testing::ValuesIn(index_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Views, GradientTest, ::testing::ValuesIn(view_cases()), case_name);

}  // namespace
}  // namespace yoke::testing
