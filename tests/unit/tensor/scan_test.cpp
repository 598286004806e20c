// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/scan_test.cpp: values, programs and errors of scans, compared with plain loops.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <cmath>

#include "recurrent.h"

namespace yoke::testing {
namespace {

using Doubles = std::vector<double>;

template <class Call>
std::string message_of(const Call& call) {
  return test::error_of(call).what();
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++found;
  }
  return found;
}

// The number of additions and multiplications that the program performs, over all loops and rounds.
std::uint64_t operations(const program::Program& program) {
  std::uint64_t total = 0;
  for (const program::Statement& statement : program.statements) {
    std::uint64_t times =
        statement.repeat < 0 ? 1 : program.symbols[static_cast<std::size_t>(statement.repeat)].value_count();
    for (const program::Loop& loop : statement.loops) {
      times *= loop.extent;
    }
    std::uint64_t each = (statement.assign == program::Assign::kSet ? 0U : 1U) + (statement.reduce ? 1U : 0U);
    std::vector<const program::Expr*> pending = {&statement.value};
    while (!pending.empty()) {
      const program::Expr* expr = pending.back();
      pending.pop_back();
      each += expr->op == program::Op::kAdd || expr->op == program::Op::kMul ? 1 : 0;
      for (const program::Expr& arg : expr->args) {
        pending.push_back(&arg);
      }
    }
    total += each * times;
  }
  return total;
}

TEST(Scan, SumsAndStacksLikeAPlainLoop) {
  const Tensor x = tensor<double>({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor scale = tensor<double>({2, 3}, {2});
  const Scan result = scan(
      [&](const auto& carry, const auto& slice) {
        const Tensor next = carry[0] * scale + slice[0];
        return Scan{{next}, {next * next, slice[0]}};
      },
      {tensor<double>({1, -1}, {2})}, {x});
  Doubles carry = {1, -1};
  Doubles squares;
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t i = 0; i < 2; ++i) {
      carry[i] = carry[i] * (i == 0 ? 2 : 3) + static_cast<double>(2 * t + i + 1);
      squares.push_back(carry[i] * carry[i]);
    }
  }
  EXPECT_EQ(values<double>(result.carry[0]), carry);
  EXPECT_EQ(values<double>(result.ys[0]), squares);
  EXPECT_EQ(values<double>(result.ys[1]), values<double>(x));
}

TEST(Scan, SeveralCarriesMayBePassedOn) {
  // The Fibonacci numbers, and the round in which they are computed.
  const Scan result = scan(
      [](const auto& carry, const auto& round) {
        return Scan{{carry[1], carry[0] + carry[1], 7}, {carry[0], round[0] * 10, carry[2]}};
      },
      {tensor<std::int64_t>({0}, {}), tensor<std::int64_t>({1}, {}), tensor<std::int64_t>({5}, {})},
      {iota({6}, 0)});
  using Integers = std::vector<std::int64_t>;
  EXPECT_EQ(values<std::int64_t>(result.ys[0]), (Integers{0, 1, 1, 2, 3, 5}));
  EXPECT_EQ(values<std::int64_t>(result.ys[1]), (Integers{0, 10, 20, 30, 40, 50}));
  EXPECT_EQ(values<std::int64_t>(result.ys[2]), (Integers{5, 7, 7, 7, 7, 7}));
  EXPECT_EQ(values<std::int64_t>(result.carry[1]), (Integers{13}));
}

TEST(Scan, LengthReplacesXs) {
  const Scan result = scan(
      [](const auto& carry, const auto&) {
        return Scan{{carry[0] * 2.0}, {}};
      },
      {tensor<double>({1}, {})}, {}, 10);
  EXPECT_EQ(values<double>(result.carry[0]), Doubles{1024});
}

TEST(Scan, ScansOfOneRoundAndSeveralScansWork) {
  const Tensor x = tensor<double>({1, 2, 3, 4}, {1, 4}, "x");
  const Tensor once = cumsum(x, 0);
  const Tensor both = cumsum(cumsum(once, 1), 1);
  EXPECT_EQ(values<double>(both), (Doubles{1, 4, 10, 20}));
  EXPECT_EQ(count(text_of(both), "repeat"), 3U);
}

TEST(Scan, InvariantStatementsPrecedeTheRepeatBlock) {
  const Tensor w = placeholder("w", Type::kF32, {3, 3});
  const Tensor x = placeholder("x", Type::kF32, {5, 3});
  const Scan result = scan(
      [&](const auto& carry, const auto& slice) {
        const Tensor next = tanh(carry[0] + slice[0]) * sum(exp(w), {0});
        return Scan{{next}, {}};
      },
      {zeros(Type::kF32, {3})}, {x});
  const std::string text = text_of(result.carry[0]);
  EXPECT_LT(text.find("exp("), text.find("repeat")) << text;
  EXPECT_LT(text.find("sum["), text.find("repeat")) << text;
  EXPECT_GT(text.find("tanh("), text.find("repeat")) << text;
}

TEST(Scan, ADeepBodyBeforeAProductDoesNotOverflowTheStack) {
  const Tensor x = placeholder("x", Type::kF32, {4, 3});
  const Tensor w = placeholder("w", Type::kF32, {3, 3});
  const auto deep = [](Tensor h) {
    for (int i = 0; i < 100000; ++i) {
      h = h + static_cast<float>(i % 7 + 1);
    }
    return h;
  };
  const Scan result = scan(
      [&](const auto&, const auto& slice) {
        return Scan{{}, {einsum("i,ij->j", deep(slice[0]), w)}};
      },
      {}, {x});
  EXPECT_EQ(count(text_of(result.ys[0]), "repeat"), 0U) << "the product is computed without the loop";
}

TEST(Scan, AChainOfViewsAndItsGradientDoNotOverflowTheStack) {
  constexpr std::uint64_t kViews = 100000;
  const Tensor x = placeholder("x", Type::kF32, {4, 3});
  const Tensor w = placeholder("w", Type::kF32, {kViews + 3});
  const Scan result = scan(
      [&](const auto& carry, const auto& slice) {
        Tensor h = slice[0];
        for (std::uint64_t i = 0; i < kViews; ++i) {
          h = pad(h, {{1, 0}}, static_cast<double>(i % 2));  // different numbers, so that each is a view
        }
        return Scan{{carry[0] * einsum("i,i->", h, w)}, {h}};
      },
      {full(Type::kF32, {}, 1)}, {x});
  EXPECT_TRUE(gradients(result.carry[0], {w})[0]);
}

TEST(Scan, TheGradientOfADeepBodyDoesNotOverflowTheStack) {
  const Tensor x = placeholder("x", Type::kF32, {4, 3});
  const Tensor w = placeholder("w", Type::kF32, {3});
  const Scan result = scan(
      [&](const auto& carry, const auto& slice) {
        Tensor h = w + slice[0];
        for (int i = 0; i < 30000; ++i) {
          h = h * 1.5;
        }
        return Scan{{carry[0] * h}, {}};
      },
      {zeros(Type::kF32, {3})}, {x});
  EXPECT_EQ(count(text_of(gradients(sum(result.carry[0]), {w})[0]), "repeat"), 2U);
}

// The most elements of a tensor that is not an argument.
std::uint64_t largest_temporary(const Lowered& lowered) {
  std::uint64_t largest = 0;
  for (const program::Tensor& tensor : lowered.program.tensors) {
    if (tensor.role == program::Role::kTemp) {
      largest = std::max(largest, tensor.element_count());
    }
  }
  return largest;
}

TEST(Scan, AttentionOverBlocksOfRowsStoresOneBlockOfScores) {
  const auto attention = [](std::uint64_t blocks, std::uint64_t rows, std::uint64_t keys) {
    const Tensor q = placeholder("q", Type::kF32, {blocks, rows, 32});
    const Tensor k = placeholder("k", Type::kF32, {keys, 32});
    return lower("attention", {{"y", scan(
                                         [&](const auto&, const auto& slice) {
                                           const Tensor p = softmax(einsum("qd,kd->qk", slice[0], k));
                                           return Scan{{}, {einsum("qk,kd->qd", p, k)}};
                                         },
                                         {}, {q})
                                         .ys[0]}});
  };
  EXPECT_EQ(largest_temporary(attention(64, 16, 1024)), 16U * 1024U);
  // The scores of few keys are smaller than the queries.
  const Lowered few = attention(64, 16, 8);
  EXPECT_EQ(largest_temporary(few), 64U * 16U * 8U);
}

TEST(Scan, TheGradientOfAttentionOverBlocksSumsWeightsInTheLoop) {
  const Tensor q = placeholder("q", Type::kF32, {64, 16, 4});
  const Tensor k = placeholder("k", Type::kF32, {1024, 4});
  // The scores are linear in k, so the gradient reads none of them.
  const Scan result = scan(
      [&](const auto& carry, const auto& slice) {
        return Scan{{carry[0] + sum(einsum("qd,kd->qk", slice[0], k) * 3.0)}, {}};
      },
      {zeros(Type::kF32, {})}, {q});
  const auto slopes = gradients(result.carry[0], {q, k});
  EXPECT_LE(largest_temporary(lower("slopes", {{"dq", slopes[0]}, {"dk", slopes[1]}})), 16U * 1024U);
}

// Computed with PyTorch 2 in f64; every tensor has the elements sin(start + 0.7 * i):
//   l = torch.nn.LSTM(2, 2); y = l(x)[0]; (y * y).sum().backward()
TEST(Scan, AnLstmHasTheValuesAndGradientsOfPyTorch) {
  const Lstm lstm(3, 2, 2, 2, Type::kF64);
  const auto slopes = gradients(sum(lstm.ys * lstm.ys), {lstm.x, lstm.wh, lstm.bias});
  Leaves leaves;
  double start = 0;
  for (const Tensor& leaf : {lstm.x, lstm.wx, lstm.wh, lstm.bias}) {
    start += 0.1;
    Doubles numbers(leaf.element_count());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = std::sin(start + 0.7 * static_cast<double>(i));
    }
    leaves.bind(leaf, numbers);
  }
  const auto expect = [&](const Tensor& tensor, const Doubles& expected) {
    const Doubles got = values<double>(tensor, leaves);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], expected[i], 1e-14) << "element " << i;  // the expected values have 15 digits
    }
  };
  expect(lstm.ys, {0.0108938125457855, 0.0151526261454464, -0.116237862747774, 0.0608918825865414,
                   -0.0318915782208886, -0.151075456593203, -0.0163132127815533, 0.19369709044794,
                   0.0051138453228083, -0.2573113001621, -0.0690411858765872, 0.0570939650410606});
  expect(slopes[0], {-0.08574320740831, -0.124241443940497, 0.145780985731325, 0.0815062034905187,
                     -0.028906706173232, -0.0774548467268938, -0.0623072114879081, -0.0712716274792822,
                     -0.0465415752484847, -0.0887851724873995, 0.0236386727076519, -0.0128843548930274});
  expect(slopes[1], {0.000217016616252811, 9.61126463498449e-05, 0.00493681568713902, -0.00556960291983056,
                     -0.000206428208159272, 0.000412073193170863, -0.00159105027827859, -0.000636582236341272,
                     0.00198302584516428, -0.00986094267314288, -0.00038354225265174, 0.00242405484746369,
                     -8.60803956052054e-05, 0.00112464524102542, -0.00524320488691166, -0.00906394701162278});
  expect(slopes[2], {0.0102797812345496, 0.0156075763985236, 0.00291295669196045, 0.0159766044020352,
                     -0.201971057622727, -0.11004628120957, 0.0270605872248749, 0.153117514701845});
}

TEST(Scan, LstmsOver10And1000RoundsHaveEquallyManyStatements) {
  const Lowered ten = Lstm(10, 2, 3, 4).lowered_gradients();
  const Lowered thousand = Lstm(1000, 2, 3, 4).lowered_gradients();
  EXPECT_EQ(ten.program.statements.size(), thousand.program.statements.size());
  EXPECT_EQ(ten.program.tensors.size(), thousand.program.tensors.size());
  EXPECT_EQ(count(text_of(thousand), "repeat"), 2U);
  program::verify(thousand.program);
}

TEST(Scan, TheNumberOfNodesDoesNotDependOnTheRounds) {
  const auto nodes = [](std::uint64_t rounds) {
    const Lstm lstm(rounds, 2, 3, 4);
    const auto slopes = gradients(sum(lstm.ys * lstm.ys), {lstm.x, lstm.wx, lstm.wh, lstm.bias});
    return detail::topological(slopes).size();
  };
  EXPECT_EQ(nodes(10), nodes(1000));
}

TEST(Scan, WeightGradientsAreProductsOverAllRounds) {
  const std::string text = text_of(Lstm(10, 2, 3, 4).lowered_gradients());
  // Within the second block, only the gradient of the state is a product.
  const std::size_t second = text.find("repeat", text.find("repeat") + 1);
  const std::size_t end = text.find("\n  }", second);
  EXPECT_EQ(count(text.substr(second, end - second), "sum["), 1U) << text;
}

TEST(Scan, CostOfTheGradientOfCumsumIsLinear) {
  const auto lowered = [](std::uint64_t size) {
    const Tensor x = placeholder("x", Type::kF64, {size});
    const Tensor w = placeholder("w", Type::kF64, {size});
    return lower("sums", {{"dx", gradients(sum(cumsum(x) * w), {x})[0]}});
  };
  const std::uint64_t hundred = operations(lowered(100).program);
  EXPECT_LE(hundred, 600U);
  EXPECT_LE(operations(lowered(1000).program), 10 * hundred);
  EXPECT_EQ(lowered(100).program.statements.size(), lowered(1000).program.statements.size());
  const Tensor x = tensor<double>({1, 2, 3, 4}, {4});
  const Tensor w = tensor<double>({1, 10, 100, 1000}, {4});
  EXPECT_EQ(values<double>(gradients(sum(cumsum(x) * w), {x})[0]), (Doubles{1111, 1110, 1100, 1000}));
}

TEST(Scan, CumulativeSumsAndProductsRunAlongAnyAxis) {
  const Tensor x = tensor<double>({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(values<double>(cumsum(x, 0)), (Doubles{1, 2, 3, 5, 7, 9}));
  EXPECT_EQ(values<double>(cumsum(x, -1)), (Doubles{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(values<double>(cumprod(x, 1)), (Doubles{1, 2, 6, 4, 20, 120}));
  const Tensor bits = tensor<std::uint8_t>({200, 100}, {2});
  EXPECT_EQ(values<std::int64_t>(cumsum(bits)), (std::vector<std::int64_t>{200, 300}));
  // 300 additions of 1 in bf16 would stop at 256.
  const Tensor ones = cast(full(Type::kF32, {300}, 1) * tensor<float>({1}, {}), Type::kBF16);
  EXPECT_EQ(values<float>(cast(cumsum(ones), Type::kF32))[299], 300);
}

TEST(Scan, CumprodHasExactGradientsAtZeros) {
  const Tensor x = tensor<double>({2, 0, 3, 0}, {4});
  const Tensor w = tensor<double>({1, 10, 100, 1000}, {4});
  // y = x0, x0 x1, x0 x1 x2, x0 x1 x2 x3
  EXPECT_EQ(values<double>(gradients(sum(cumprod(x) * w), {x})[0]), (Doubles{1, 620, 0, 0}));
}

TEST(Scan, ErrorsNameWhatIsWrong) {
  const Tensor x = placeholder("x", Type::kF32, {4, 3});
  const Tensor h = placeholder("h", Type::kF32, {3});
  const auto pass = [](const std::vector<Tensor>& carry, const std::vector<Tensor>&) {
    return Scan{carry, {}};
  };
  EXPECT_EQ(message_of([&] { scan(pass, {h}, {}); }),
            "scan: without xs, the length is required and must be at least 1");
  EXPECT_EQ(message_of([&] {
              scan(pass, {h}, {x, h});
            }),
            "scan: axis 0 of 'h' [3] has size 3, but that of 'x' [4, 3] is 4");
  EXPECT_EQ(message_of([&] { scan(pass, {h}, {x}, 5); }),
            "scan: axis 0 of 'x' [4, 3] has size 4, but the length is 5");
  EXPECT_EQ(message_of([&] {
              scan([&](const auto&, const auto& s) { return Scan{{sum(s[0])}, {}}; }, {h}, {x});
            }),
            "scan: the body returns carry 0 as f32[], but init has f32[3]; they must be equal");
  EXPECT_EQ(message_of([&] {
              scan([&](const auto& c, const auto&) { return Scan{{cast(c[0], Type::kF64)}, {}}; }, {h}, {x});
            }),
            "scan: the body returns carry 0 as f64[3], but init has f32[3]; they must be equal");
  EXPECT_EQ(message_of([&] {
              scan([&](const auto&, const auto&) { return Scan{{}, {}}; }, {h}, {x});
            }),
            "scan: the body returns 0 carries, but init has 1");
}

TEST(Scan, NestedScanIsAnErrorUnlessItIsInvariant) {
  const Tensor x = placeholder("x", Type::kF32, {4, 3});
  const Tensor h = placeholder("h", Type::kF32, {3});
  const std::string nested = message_of([&] {
    scan([](const auto& c, const auto& s) { return Scan{{c[0] + cumsum(s[0])}, {}}; }, {h}, {x});
  });
  EXPECT_NE(nested.find("unroll the inner scan"), std::string::npos) << nested;
  const Scan hoisted = scan(
      [&](const auto& c, const auto& s) {
        return Scan{{c[0] + s[0] + cumsum(h)}, {}};
      },
      {h}, {x});
  EXPECT_EQ(count(text_of(hoisted.carry[0]), "repeat"), 2U);
}

TEST(Scan, UseOfBodyArgumentsOutsideTheBodyIsAnError) {
  const Tensor x = placeholder("x", Type::kF32, {4, 3});
  Tensor leaked;
  scan(
      [&](const auto& carry, const auto& slice) {
        leaked = carry[0] + slice[0];
        return Scan{{leaked}, {}};
      },
      {zeros(Type::kF32, {3})}, {x});
  EXPECT_NE(message_of([&] { text_of(leaked); }).find("exists only there"), std::string::npos);
}

TEST(Scan, ErrorNamesAnOperationWithoutADerivative) {
  const Tensor x = placeholder("x", Type::kF32, {4, 3});
  const Scan result = scan(
      [](const auto& carry, const auto& slice) {
        return Scan{{carry[0] + sum(cast(argmax(slice[0] * carry[0]), Type::kF32) * slice[0])}, {}};
      },
      {zeros(Type::kF32, {3})}, {x});
  EXPECT_NO_THROW(gradients(sum(result.carry[0]), {x}));
  const Scan bits = scan(
      [](const auto& carry, const auto& slice) {
        auto node = detail::new_node(detail::Kind::kMap, Type::kF32, {3});
        node->op = program::Op::kBitAnd;
        node->args = {carry[0], slice[0]};
        return Scan{{detail::finish(node)}, {}};
      },
      {zeros(Type::kF32, {3})}, {x});
  EXPECT_NE(message_of([&] { gradients(sum(bits.carry[0]), {x}); }).find("'&' of"), std::string::npos);
}

}  // namespace
}  // namespace yoke::testing
