// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/composite_test.cpp: composites keep their hints, their values and their gradients.
#include <gmock/gmock.h>
#include <yoke/composite.h>

#include "gradient_check.h"

namespace yoke::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<Tensor> softmax_forward(Inputs x) {
  const Tensor e = exp(x[0] - max(x[0], {-1}, true));
  return {e / sum(e, {-1}, true)};
}

std::vector<Tensor> softmax_backward(Inputs, Inputs y, Inputs dy) {
  return {y[0] * (dy[0] - sum(dy[0] * y[0], {-1}, true))};
}

const CompositeOptions kDerivedSoftmax = {"softmax", softmax_forward, {}};
const CompositeOptions kGivenSoftmax = {"softmax", softmax_forward, softmax_backward};

// Attention that calls another composite.
std::vector<Tensor> attention(Inputs x) {
  const Tensor p = composite(kGivenSoftmax, {einsum("qd,kd->qk", x[0], x[1])})[0];
  return {einsum("qk,kd->qd", p, x[2])};
}

// Mean and scaled deviations: two outputs.
std::vector<Tensor> moments(Inputs x) {
  const Tensor mean = yoke::mean(x[0], {-1}, true);
  return {mean, (x[0] - mean) * x[1]};
}

std::vector<Case> composite_cases() {
  return {
      {"derived", "a b", [](Inputs x) { return composite(kDerivedSoftmax, {x[0]})[0]; }},
      {"given", "a b", [](Inputs x) { return composite(kGivenSoftmax, {x[0]})[0]; }},
      {"of_expressions", "a b; b",
       [](Inputs x) { return sin(composite(kGivenSoftmax, {transpose(x[0] * x[1])})[0]) * x[0].dims()[0]; }},
      {"nested", "a b; c b; c d",
       [](Inputs x) {
         return composite({"attention", attention}, {x[0], x[1], x[2]})[0];
       }},
      {"two_outputs", "a 3; 3",
       [](Inputs x) {
         const auto both = composite({"moments", moments}, {x[0], x[1]});
         return both[0] * both[1];
       }},
      {"only_the_second_output", "a 3; 3",
       [](Inputs x) {
         return composite({"moments", moments}, {x[0], x[1]})[1];
       }},
      {"same_input_twice", "a a",
       [](Inputs x) {
         return composite({"product", [](Inputs y) { return std::vector<Tensor>{matmul(y[0], y[1])}; }},
                          {x[0], transpose(x[0])})[0];
       }},
      {"views_at_both_ends", "4 6",
       [](Inputs x) {
         const auto parts = composite(
             {"parts",
              [](Inputs y) {
                return std::vector<Tensor>{transpose(slice(y[0], 1, 1, 5, 2)), y[0], exp(flip(y[0]))};
              }},
             {slice(x[0], 0, 1, 3) * 2.0});
         return slice(parts[0], 0, 1, 2) * sum(parts[1]) * slice(parts[2], 1, 0, 2);
       }},
      {"second_derivative_of_derived", "2 3",
       [](Inputs x) {
         const Tensor y = composite(kDerivedSoftmax, {x[0]})[0];
         return gradients(sum(y * y * x[0]), {x[0]})[0];
       }},
      {"second_derivative_of_given", "2 3",
       [](Inputs x) {
         const Tensor y = composite(kGivenSoftmax, {x[0]})[0];
         return gradients(sum(y * y * x[0]), {x[0]})[0];
       }},
      {"third_derivative_of_nested", "2 2; 2 2; 2 2",
       [](Inputs x) {
         const Tensor y = composite({"attention", attention}, {x[0], x[1], x[2]})[0];
         const Tensor first = gradients(sum(y * y), {x[0]})[0];
         return gradients(sum(sin(first)), {x[1]})[0];
       }},
      {"in_a_scan", "a 2 3; 2 3; 3 3",
       [](Inputs x) {
         const CompositeOptions cell = {"cell", [](Inputs y) {
                                          const Tensor w = y[2] * 0.5;  // the same in all rounds
                                          const Tensor h = tanh(y[0] + matmul(y[1], w));
                                          return std::vector<Tensor>{h, sum(h * h, {1})};
                                        }};
         const Scan all = scan(
             [&](Inputs c, Inputs s) {
               const auto next = composite(cell, {s[0], c[0], x[2]});
               return Scan{{next[0]}, {next[0], next[1] * 2.0}};
             },
             {x[1]}, {x[0]});
         return sum(all.ys[0], {2}) * all.ys[1] * sum(all.carry[0]);
       }},
      {"scan_of_eight_dimensions", "3 2; 2",
       [](Inputs x) {
         const Dims dims = {2, 1, 1, 1, 1, 1, 1, 2};
         return scan(
                    [&](Inputs c, Inputs s) {
                      const auto y = composite({"wide",
                                                [&](Inputs z) {
                                                  const Tensor wide = broadcast_to(z[0], dims);
                                                  return std::vector<Tensor>{sum(wide * exp(wide * z[1]))};
                                                }},
                                               {s[0], c[0]});
                      return Scan{{tanh(c[0] * y[0])}, {c[0]}};
                    },
                    {x[1]}, {x[0]})
             .ys[0];
       }},
  };
}

INSTANTIATE_TEST_SUITE_P(Composites, GradientTest, ::testing::ValuesIn(composite_cases()),
                         [](const auto& one) { return one.param.name; });

class CompositeTest : public ::testing::Test {
 protected:
  static Lowered gradient_of(const Tensor& y, const Tensor& x) {
    return lower("p", {{"dx", gradients(sum(y * cast(iota(y.dims(), 1), y.type())), {x})[0]}});
  }
  std::vector<double> values_of(const Tensor& y) const {
    return values<double>(y, Leaves().bind<double>(x_, {0.3, -1, 2, 0.1, 0.2, -0.7}));
  }

  const Tensor x_ = placeholder("x", Type::kF64, {2, 3});
};

TEST_F(CompositeTest, EveryStatementIsInTheHintOfItsDirection) {
  EXPECT_EQ(text_of(gradient_of(composite(kGivenSoftmax, {x_})[0], x_)), R"(yoke.program 1
program p() {
  arg x : f64[2, 3] in
  arg dx : f64[2, 3] out
  temp t1 : f64[2]
  temp t2 : f64[2, 3]
  temp t3 : f64[2, 3]
  temp t4 : f64[2]
  temp t5 : f64[2, 3]
  temp t6 : f64[2, 3]
  temp t7 : f64[2, 3]
  temp t8 : f64[2]
  temp t9 : f64[2, 3]
  @softmax {
    t1[i] = max[j] x[i, j]
    t2[i, j] = x[i, j] - t1[i]
    t3[i, j] = exp(t2[i, j])
    t4[i] = sum[j] t3[i, j]
    t5[i, j] = t3[i, j] / t4[i]
  }
  t6[i, j] = f64(j)
  @softmax_gradient {
    t7[i, j] = t6[i, j] * t5[i, j]
    t8[i] = sum[j] t7[i, j]
    t9[i, j] = t6[i, j] - t8[i]
    dx[i, j] = t5[i, j] * t9[i, j]
  }
}
)");
}

TEST_F(CompositeTest, ADerivedGradientComputesAgainWhatIsNotAnOutput) {
  const CompositeOptions options = {"half", [](Inputs x) {
                                      const Tensor e = exp(x[0] * 0.5);
                                      return std::vector<Tensor>{sin(e)};
                                    }};
  EXPECT_EQ(text_of(gradient_of(composite(options, {x_})[0], x_)), R"(yoke.program 1
program p() {
  arg x : f64[2, 3] in
  arg dx : f64[2, 3] out
  temp t1 : f64[2, 3]
  temp t2 : f64[2, 3]
  temp t3 : f64[2, 3]
  temp t4 : f64[2, 3]
  temp t5 : f64[2, 3]
  temp t6 : f64[2, 3]
  t1[i, j] = f64(j)
  @half_gradient {
    t2[i, j] = x[i, j] * 0.5
    t3[i, j] = exp(t2[i, j])
    t4[i, j] = cos(t3[i, j])
    t5[i, j] = t1[i, j] * t4[i, j]
    t6[i, j] = t5[i, j] * t3[i, j]
    dx[i, j] = t6[i, j] * 0.5
  }
}
)");
}

TEST_F(CompositeTest, ADerivedGradientReadsOutputs) {
  const CompositeOptions options = {"half", [](Inputs x) {
                                      const Tensor e = exp(x[0] * 0.5);
                                      return std::vector<Tensor>{sin(e), e};
                                    }};
  const Tensor y = composite(options, {x_})[0];
  const std::string text = text_of(lower("p", {{"y", y}, {"dx", gradients(sum(y), {x_})[0]}}));
  EXPECT_EQ(text.find("exp("), text.rfind("exp(")) << text;
}

TEST_F(CompositeTest, ViewsAreStatementsOfTheHintIfTheyAreOutputs) {
  const CompositeOptions options = {
      "part", [](Inputs x) { return std::vector<Tensor>{transpose(slice(x[0], 1, 1, 3))}; }};
  // What the view does not read is computed nevertheless: the input is not part of the hint.
  EXPECT_THAT(text_of(exp(composite(options, {sin(x_)})[0])), HasSubstr(R"(  t1[i, j] = sin(x[i, j])
  @part {
    t2[i, j] = t1[j, i + 1]
  }
)"));
}

TEST_F(CompositeTest, TheValuesAreThoseOfForward) {
  EXPECT_EQ(values_of(composite(kDerivedSoftmax, {x_})[0]), values_of(softmax_forward({x_})[0]));
}

TEST_F(CompositeTest, TheGivenGradientIsUsed) {
  CompositeOptions tripled = kGivenSoftmax;
  tripled.backward = [](Inputs x, Inputs y, Inputs dy) {
    return std::vector<Tensor>{softmax_backward(x, y, dy)[0] * 3.0};
  };
  const auto gradient = [&](const CompositeOptions& options) {
    const Tensor y = composite(options, {x_})[0];
    return values_of(gradients(sum(y * y), {x_})[0]);
  };
  const std::vector<double> once = gradient(kDerivedSoftmax);
  const std::vector<double> three_times = gradient(tripled);
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_NEAR(three_times[i], 3 * once[i], 1e-15);
  }
}

TEST_F(CompositeTest, OnlyNeededGradientsAreComputed) {
  const Tensor w = placeholder("w", Type::kF64, {3});
  const CompositeOptions scaled = {"scaled", [](Inputs x) { return std::vector<Tensor>{x[0] * x[1]}; },
                                   [](Inputs x, Inputs, Inputs dy) {
                                     return std::vector<Tensor>{dy[0] * x[1], sum(exp(x[0]) * dy[0], {0})};
                                   }};
  const std::string text = text_of(gradient_of(composite(scaled, {x_, w})[0], x_));
  EXPECT_THAT(text, AllOf(HasSubstr("@scaled_gradient {\n    dx[i, j] = "), Not(HasSubstr("exp"))));
}

TEST_F(CompositeTest, BackwardMayPassAGradientToAnInputThatForwardDoesNotUse) {
  const CompositeOptions straight_through = {"quantized",
                                             [](Inputs x) { return std::vector<Tensor>{round(x[0])}; },
                                             [](Inputs, Inputs, Inputs dy) {
                                               return std::vector<Tensor>{dy[0], 2.0, {}};
                                             }};
  const Tensor unused = placeholder("unused", Type::kF64, {2});
  const Tensor ids = placeholder("ids", Type::kI64, {2});
  const Tensor y = composite(straight_through, {x_, unused, ids})[0];
  const std::vector<Tensor> slopes = gradients(sum(y), {x_, unused});
  EXPECT_EQ(values_of(slopes[0]), std::vector<double>(6, 1));
  EXPECT_EQ(values_of(slopes[1]), std::vector<double>(2, 2));
}

TEST_F(CompositeTest, UnusedOutputsHaveZeroGradientsAndIntegersHaveNone) {
  const CompositeOptions best = {
      "best",
      [](Inputs x) {
        return std::vector<Tensor>{max(x[0], {1}), argmax(x[0], 1), sum(x[0])};
      },
      [](Inputs x, Inputs y, Inputs dy) {
        EXPECT_FALSE(dy[1]);
        return std::vector<Tensor>{
            where(equal(iota(x[0].dims(), 1), unsqueeze(y[1], 1)), unsqueeze(dy[0], 1) + dy[2], 0.0)};
      }};
  const Tensor y = composite(best, {x_})[0];
  EXPECT_EQ(values_of(gradients(sum(y), {x_})[0]), (std::vector<double>{0, 0, 1, 0, 1, 0}));
}

TEST_F(CompositeTest, TheGradientUsesTheRandomNumbersOfForward) {
  const CompositeOptions dropout = {"dropout", [](Inputs x) {
                                      const Tensor kept = uniform(x[0].dims(), {}, Type::kF64) < 0.5;
                                      return std::vector<Tensor>{where(kept, x[0], 0.0)};
                                    }};
  const Tensor x = full(Type::kF64, {8, 8}, 1);
  const Tensor y = composite(dropout, {x})[0];
  const auto both = lower("p", {{"y", y}, {"dx", gradients(sum(y), {x})[0]}});
  EXPECT_THAT(text_of(both), AllOf(HasSubstr("@dropout {"), HasSubstr("@dropout_gradient {")));
  Leaves leaves;
  const auto results = run(both, leaves);
  const auto values = from_bytes<double>(results.at("y"));
  EXPECT_EQ(from_bytes<double>(results.at("dx")), values);
  EXPECT_THAT(values, AllOf(::testing::Contains(0.0), ::testing::Contains(1.0)));
}

TEST_F(CompositeTest, AnotherCompositeBecomesPartOfTheHint) {
  const Tensor q = placeholder("q", Type::kF64, {2, 3});
  const Tensor y = composite({"attention", attention}, {q, x_, x_})[0];
  const std::string text = text_of(lower("p", {{"y", y}, {"dq", gradients(sum(y * y), {q})[0]}}));
  EXPECT_THAT(
      text, AllOf(HasSubstr("@attention {"), HasSubstr("@attention_gradient {"), Not(HasSubstr("softmax"))));
}

TEST_F(CompositeTest, ACompositeInAScanIsAHintInTheRepeatBlock) {
  const CompositeOptions cell = {"cell", [](Inputs y) {
                                   const Tensor w = y[1] * 0.5;
                                   return std::vector<Tensor>{tanh(y[0] * w)};
                                 }};
  const Tensor w = placeholder("w", Type::kF64, {3});
  const Scan all = scan(
      [&](Inputs c, Inputs s) {
        const Tensor next = composite(cell, {c[0] + s[0], w})[0];
        return Scan{{next}, {next}};
      },
      {zeros(Type::kF64, {3})}, {x_});
  const std::string text =
      text_of(lower("p", {{"ys", all.ys[0]}, {"dw", gradients(sum(all.ys[0]), {w})[0]}}));
  EXPECT_THAT(text, HasSubstr(R"(    @cell {
      t3[i] = w[i] * 0.5
      t4[i] = t2[t, i] * t3[i]
      t1[t + 1, i] = tanh(t4[i])
    }
)"));
  EXPECT_THAT(text, HasSubstr("    @cell_gradient {\n"));
}

TEST_F(CompositeTest, WrongGradientsAreErrors) {
  const auto error = [&](std::vector<Tensor> returned) {
    const CompositeOptions wrong = {"wrong", softmax_forward,
                                    [&](Inputs, Inputs, Inputs) { return returned; }};
    return test::error_of([&] { (void)gradients(sum(composite(wrong, {x_})[0]), {x_}); });
  };
  const auto code = ErrorCode::kInvalidArgument;
  EXPECT_THAT(error({x_, x_}), test::is_error(code, "'wrong' returns 2 gradients for 1 input"));
  EXPECT_THAT(error({transpose(x_)}),
              test::is_error(code, "returns f64[3, 2] for input 0, which is f64[2, 3]; they must be equal"));
  EXPECT_THAT(error({cast(x_, Type::kF32)}), test::is_error(code, "f32[2, 3] for input 0"));
}

TEST_F(CompositeTest, AnInputThatIsNotDeclaredIsAnErrorIfItNeedsAGradient) {
  const Tensor w = placeholder("w", Type::kF64, {3});
  for (const CompositeOptions& options :
       {CompositeOptions{"scaled", [&](Inputs x) { return std::vector<Tensor>{x[0] * exp(w)}; }},
        CompositeOptions{"scaled", [&](Inputs x) { return std::vector<Tensor>{x[0] * exp(w)}; },
                         softmax_backward}}) {
    const Tensor y = composite(options, {x_})[0];
    EXPECT_NO_THROW((void)gradients(sum(y), {x_}));
    EXPECT_THAT(test::error_of([&] {
                  (void)gradients(sum(y), {x_, w});
                }),
                test::is_error(ErrorCode::kInvalidArgument,
                               "the composite 'scaled' uses 'w' [3], which needs a gradient"));
  }
}

TEST_F(CompositeTest, ATensorThatIsOnlyReturnedMustBeDeclaredToo) {
  const Tensor w = placeholder("w", Type::kF64, {3});
  const auto outputs = composite({"pass",
                                  [&](Inputs x) {
                                    return std::vector<Tensor>{x[0] * 2.0, w, x_};
                                  }},
                                 {x_});
  for (const Tensor& loss : {sum(outputs[1]), sum(outputs[2])}) {
    EXPECT_ERROR(ErrorCode::kInvalidArgument, (void)gradients(loss, {w, x_}));
  }
}

TEST_F(CompositeTest, UsingAnInnerTensorOutsideIsAnError) {
  Tensor inner;
  const CompositeOptions options = {"leaky", [&](Inputs x) {
                                      inner = exp(x[0]);
                                      return std::vector<Tensor>{inner * 2.0};
                                    }};
  const Tensor y = composite(options, {x_})[0];
  const auto message =
      test::is_error(ErrorCode::kInvalidArgument, "the composite 'leaky' creates is used outside");
  EXPECT_THAT(test::error_of([&] { (void)lower("p", {{"y", y + inner}}); }), message);
  EXPECT_THAT(test::error_of([&] { (void)lower("p", {{"y", y}, {"inner", inner}}); }), message);
}

TEST_F(CompositeTest, InvalidCompositesAreErrors) {
  const auto refuses = [&](const CompositeOptions& options, const std::string& part) {
    EXPECT_THAT(test::error_of([&] { (void)composite(options, {x_}); }),
                test::is_error(ErrorCode::kInvalidArgument, part));
  };
  refuses({"fused", softmax_forward}, "'fused' is not a valid name; the optimizer uses it");
  refuses({"a-b", softmax_forward}, "'a-b' is not a valid name");
  refuses({std::string(101, 'a'), softmax_forward}, "more than 100 characters");
  refuses({"softmax", {}}, "'softmax': no forward function is given");
  refuses({"none", [](Inputs) { return std::vector<Tensor>(); }}, "'none': forward returns no outputs");
  refuses({"empty", [](Inputs) { return std::vector<Tensor>(1); }},
          "composite 'empty': output 0 is an empty Tensor");
  refuses({"summed", [](Inputs x) { return std::vector<Tensor>{cumsum(x[0], 0)}; }},
          "'summed': forward or backward uses a scan; call the composite in the scan's body instead");
}

}  // namespace
}  // namespace yoke::testing
