// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/scan_gradient_test.cpp: gradients of scans, compared with central finite
// differences in f64.
#include "gradient_check.h"

namespace yoke::testing {
namespace {

using Pair = const std::vector<Tensor>&;

std::vector<Case> scan_cases() {
  return {
      {"cumsum", "a b", [](Inputs x) { return cumsum(x[0], 1); }},
      {"cumprod", "a b", [](Inputs x) { return cumprod(x[0], 0); }},
      {"cumsum_of_cumsum", "a b", [](Inputs x) { return cumsum(cumsum(x[0] * x[0], 0), 1); }},
      {"last_carry", "a b; b",
       [](Inputs x) {
         return scan([](Pair c, Pair s) { return Scan{{sin(c[0]) * s[0]}, {}}; }, {x[1]}, {x[0]}).carry[0];
       }},
      {"carry_and_ys", "a b; b; b",
       [](Inputs x) {
         const Scan all = scan(
             [&](Pair c, Pair s) {
               return Scan{{c[0] * x[2] + s[0]}, {c[0] * s[0]}};
             },
             {x[1]}, {x[0]});
         return all.ys[0] * all.carry[0];
       }},
      {"rnn", "a 2 b; 3 b; 3 3; 3; 2 3",
       [](Inputs x) {
         return scan(
                    [&](Pair c, Pair s) {
                      const Tensor h =
                          tanh(einsum("bi,oi->bo", s[0], x[1]) + einsum("bi,oi->bo", c[0], x[2]) + x[3]);
                      return Scan{{h}, {h}};
                    },
                    {x[4]}, {x[0]})
             .ys[0];
       }},
      {"output_projection", "a 2; 2 2; c 2",
       [](Inputs x) {
         return scan(
                    [&](Pair c, Pair s) {
                      const Tensor h = tanh(s[0] + einsum("i,oi->o", c[0], x[1]));
                      return Scan{{h}, {einsum("i,oi->o", h, x[2])}};
                    },
                    {squeeze(slice(x[1], 0, 0, 1), 0)}, {x[0]})
             .ys[0];
       }},
      {"concatenated_state", "a 2; 3; 3 5",
       [](Inputs x) {
         return scan(
                    [&](Pair c, Pair s) {
                      return Scan{{tanh(einsum("i,oi->o", concat({s[0], c[0]}, 0), x[2]))}, {c[0]}};
                    },
                    {x[1]}, {x[0]})
             .ys[0];
       }},
      {"embedded_rows", "4 2; 2",
       [](Inputs x) {
         const Tensor ids = tensor<std::int64_t>({1, 3, 1, 0, 5}, {5});
         return scan(
                    [&](Pair c, Pair s) {
                      const Tensor h = c[0] * take(x[0], s[0]);
                      return Scan{{h + 1}, {h}};
                    },
                    {x[1]}, {ids})
             .ys[0];
       }},
      {"round_number", "3 b",
       [](Inputs x) {
         return scan(
                    [](Pair c, Pair s) {
                      const Tensor h = (c[0] + s[0]) * cast(s[1], Type::kF64);
                      return Scan{{h}, {h}};
                    },
                    {sum(x[0], {0})}, {x[0], iota({3}, 0)})
             .ys[0];
       }},
      {"eight_dimensions", "2 1 3 1 1 1 1 1; 2 1 3; ",
       [](Inputs x) {
         const Dims dims = {2, 1, 2, 1, 3, 1, 2, 1};
         return scan(
                    [&](Pair c, Pair s) {
                      const Tensor wide = broadcast_to(reshape(s[0], {3, 1, 1, 1}), dims);
                      const Tensor all =
                          sin(wide) * broadcast_to(reshape(x[1], {2, 1, 1, 1, 3, 1, 1, 1}), dims);
                      return Scan{{c[0] + sum(all * all * c[0])}, {sum(wide * all, {0, 4, 6})}};
                    },
                    {x[2]}, {x[0]})
             .ys[0];
       }},
      {"last_carry_of_eight_dimensions", "3 2; ",
       [](Inputs x) {
         const Dims dims = {2, 1, 2, 1, 1, 1, 1, 2};
         return scan(
                    [&](Pair c, Pair s) {
                      const Tensor wide = broadcast_to(s[0], dims);
                      return Scan{{c[0] * 0.5 + sum(wide * wide * exp(wide) * c[0])}, {}};
                    },
                    {x[1]}, {x[0]})
             .carry[0];
       }},
      {"delay_line", "a b; b; b",
       [](Inputs x) {
         return scan(
                    [](Pair c, Pair s) {
                      return Scan{{s[0], c[0]}, {c[1] * s[0]}};
                    },
                    {x[1], x[2]}, {x[0]})
             .ys[0];
       }},
      {"unused_carry_and_scalar", "a; ",
       [](Inputs x) {
         return scan(
                    [](Pair c, Pair s) {
                      return Scan{{c[0] * s[0], c[1] * 2 + s[0]}, {c[0]}};
                    },
                    {sum(x[0]), sum(x[0] * x[0])}, {x[0]})
             .ys[0];
       }},
      {"windows_of_slices", "a 4; 2",
       [](Inputs x) {
         return scan(
                    [&](Pair c, Pair s) {
                      const Tensor h = c[0] + einsum("ok,k->o", windows(s[0], 0, 2), x[1]);
                      return Scan{{h * 2.0}, {max(h)}};
                    },
                    {zeros(Type::kF64, {3})}, {x[0]})
             .ys[0];
       }},
      {"shift_register", "a 2; 3 2",
       [](Inputs x) {
         return scan(
                    [](Pair c, Pair s) {
                      const Tensor kept = concat({slice(c[0], 0, 1, 3), unsqueeze(s[0], 0)}, 0);
                      return Scan{{kept}, {prod(kept, {0})}};
                    },
                    {x[1]}, {x[0]})
             .ys[0];
       }},
      {"elements_of_the_carry", "4 2; 3 2",
       [](Inputs x) {
         const Tensor ids = tensor<std::int64_t>({1, 1, 2, 0, 2, 3, 0, 1}, {4, 2});
         return scan(
                    [](Pair c, Pair s) {
                      const Tensor some = take(c[0], s[1]) * s[0];
                      return Scan{{c[0] * sum(some) * 0.1}, {some}};
                    },
                    {x[1]}, {x[0], ids})
             .ys[0];
       }},
      {"named_values", "a b; b",
       [](Inputs x) {
         return scan(
                    [](Pair c, Pair s) {
                      const Tensor h = (c[0].named("h") * s[0].named("s") + c[0]).named("next");
                      return Scan{{h}, {h, h * s[0]}};
                    },
                    {x[1]}, {x[0]})
             .ys[1]
             .named("ys");
       }},
      {"no_carry", "a b; b",
       [](Inputs x) {
         return scan([&](Pair, Pair s) { return Scan{{}, {sin(s[0]) * x[1], x[1]}}; }, {}, {x[0]}).ys[0];
       }},
      {"choices", "a b; b",
       [](Inputs x) {
         return scan(
                    [](Pair c, Pair s) {
                      const Tensor h = where(s[0] > c[0] * 0.3, sin(s[0]) * c[0], maximum(c[0], -s[0]));
                      return Scan{{h}, {roll(flip(h), 1)}};
                    },
                    {x[1]}, {x[0]})
             .ys[0];
       }},
      {"rows_by_symbol", "6 b; b",
       [](Inputs x) {
         const Tensor part = rows(x[0], Symbol{"row", 0, 3, 1}, 4);
         const auto body = [](Pair c, Pair s) { return Scan{{tanh(c[0] + s[0])}, {c[0] * s[0]}}; };
         return scan(body, {x[1]}, {part * part}).ys[0] + scan(body, {x[1]}, {part}).ys[0];
       }},
      {"one_round", "1 b; b",
       [](Inputs x) {
         return scan([](Pair c, Pair s) { return Scan{{c[0] * s[0]}, {}}; }, {x[1]}, {x[0]}).carry[0];
       }},
      {"dot_products", "a 2 3; 3 2; 2",
       [](Inputs x) {
         return scan(
                    [&](Pair c, Pair s) {
                      const Tensor scores = einsum("ij,ij->i", tanh(s[0]), transpose(x[1]));
                      return Scan{{c[0] * scores}, {sum(c[0] * scores)}};
                    },
                    {x[2]}, {x[0]})
             .ys[0];
       }},
      {"integers_besides", "a b",
       [](Inputs x) {
         return scan(
                    [](Pair c, Pair s) {
                      return Scan{{c[0] + 1, c[1] + s[0] * cast(c[0], Type::kF64)}, {c[1] * s[0]}};
                    },
                    {tensor<std::int64_t>({1}, {}), sum(x[0], {0})}, {x[0]})
             .ys[0];
       }},
      {"gradient_in_the_body", "a b; b",
       [](Inputs x) {
         return scan(
                    [](Pair c, Pair s) {
                      const Tensor slope = gradients(sum(sin(c[0] * s[0])), {c[0]})[0];
                      return Scan{{c[0] - slope * 0.5}, {}};
                    },
                    {x[1]}, {x[0]})
             .carry[0];
       }},
      {"two_layers", "a b; b",
       [](Inputs x) {
         const auto body = [&](Pair c, Pair s) {
           const Tensor h = tanh(c[0] * x[1] + s[0]);
           return Scan{{h}, {h}};
         };
         const Tensor below = scan(body, {x[1]}, {x[0]}).ys[0];
         return scan(body, {zeros(Type::kF64, x[1].dims())}, {flip(below, {0})}).ys[0];
       }},
      {"gradient_of_gradient", "3 2; 2 2",
       [](Inputs x) {
         const Tensor y = scan(
                              [&](Pair c, Pair s) {
                                const Tensor h = tanh(s[0] + einsum("i,oi->o", c[0], x[1]));
                                return Scan{{h}, {h}};
                              },
                              {zeros(Type::kF64, {2})}, {x[0]})
                              .ys[0];
         const auto slopes = gradients(sum(y * y), {x[0], x[1]});
         return sum(slopes[0] * slopes[0]) + sum(slopes[1] * sin(slopes[1]));
       }},
      {"gradient_of_cumprod_gradient", "3",
       [](Inputs x) {
         const Tensor slope = gradients(sum(cumprod(x[0]) * x[0]), {x[0]})[0];
         return slope * slope;
       }},
  };
}

INSTANTIATE_TEST_SUITE_P(Scans, GradientTest, ::testing::ValuesIn(scan_cases()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace yoke::testing
