// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/composite_test.cpp: the hints of the frontend's composites survive the passes.
#include <gmock/gmock.h>
#include <yoke/yoke.h>

#include "pass_text.h"

namespace yoke::passes {
namespace {

using yoke::Tensor;

using testing::HasSubstr;
using testing::Not;

TEST(Composite, KeepsItsHintsThroughDifferentiationAndAllPasses) {
  const CompositeOptions gelu = {
      "gelu", [](const std::vector<Tensor>& x) { return std::vector<Tensor>{x[0] * sigmoid(x[0] * 1.702)}; }};
  const Tensor x = placeholder("x", Type::kF32, {32, 64});
  const Tensor w = placeholder("w", Type::kF32, {64, 64});
  const Tensor y = composite(gelu, {matmul(x, w)})[0];
  const Tensor loss = sum(square(y) * 0.5);
  const Lowered lowered = lower("gradient", {{"loss", loss}, {"dw", gradients(loss, {w})[0]}});
  const std::string text = program::print(optimize(lowered.program).program);
  EXPECT_THAT(text, HasSubstr("  @gelu {\n"));
  EXPECT_THAT(text, HasSubstr("  @gelu_gradient {\n"));
  EXPECT_THAT(text, Not(HasSubstr("@gelu_gradient_gradient")));
}

}  // namespace
}  // namespace yoke::passes
