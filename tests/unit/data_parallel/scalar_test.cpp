// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/scalar_test.cpp: scalars that the host sets between training steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

using ::testing::HasSubstr;

// A model of one weight whose gradient is 1, so that a step subtracts the learning rate.
class ScalarTest : public ::testing::TestWithParam<MergeStrategy> {
 protected:
  void train(const Tensor& rate, const std::function<void(Trainer&)>& body, const Tensor& scale = 1.0F) {
    options_.learning_rate = rate;
    options_.merge = GetParam();
    const Tensor ones = tensor(std::vector<float>(8, 1.0F), {8, 1});
    data_parallel(
        options_, ones, ones,
        [&](const Tensor& x, const Tensor&) { return mean(x * weight_.tensor()) * scale; }, body);
  }
  static float weight_of(Trainer& trainer) { return trainer.read_values("weight").at(0); }

  DataParallelOptions options_ = options_for(2, 0);
  const Parameter weight_ = Parameter("weight", {1}, Initializer::constant(1.0));
};

TEST_P(ScalarTest, ANewLearningRateAppliesFromTheNextStepWithoutCompiling) {
  options_.check_replicas_every = 1;
  const Scalar rate = scalar("lr", 0.25);
  train(rate, [&](Trainer& trainer) {
    trainer.step();
    EXPECT_EQ(weight_of(trainer), 0.75F);
    const std::uint64_t compiled = compile_count(*options_.runtime);
    rate.set(0.5);
    trainer.step();
    EXPECT_EQ(weight_of(trainer), 0.25F);
    trainer.step();
    EXPECT_EQ(weight_of(trainer), -0.25F);
    trainer.launch_gradients();
    rate.set(0);
    trainer.update();
    trainer.advance();
    EXPECT_EQ(weight_of(trainer), -0.25F);
    EXPECT_EQ(compile_count(*options_.runtime), compiled);
  });
}

TEST_P(ScalarTest, ALearningRateThatIsANumberCanBeSet) {
  train(0.25F, [&](Trainer& trainer) {
    trainer.step();
    EXPECT_EQ(weight_of(trainer), 0.75F);
    const std::uint64_t compiled = compile_count(*options_.runtime);
    trainer.set_learning_rate(0.5);
    trainer.step();
    EXPECT_EQ(weight_of(trainer), 0.25F);
    EXPECT_EQ(compile_count(*options_.runtime), compiled);
    EXPECT_THAT(test::error_of([&] { trainer.set_learning_rate(std::nan("")); }),
                test::is_error(ErrorCode::kInvalidArgument, "set_learning_rate: learning_rate is nan"));
    EXPECT_THAT(
        test::error_of([&] { trainer.set_learning_rate(-1); }),
        test::is_error(ErrorCode::kInvalidArgument, "set_learning_rate: learning_rate is -1; it must"));
    trainer.step();
    EXPECT_EQ(weight_of(trainer), -0.25F);
  });
  train(scalar("lr", 0.25), [&](Trainer& trainer) {
    EXPECT_THAT(test::error_of([&] { trainer.set_learning_rate(0.5); }),
                test::is_error(ErrorCode::kFailedPrecondition, "learning_rate is an expression"));
  });
}

TEST_P(ScalarTest, ExpressionsOfScalarsAreLearningRates) {
  const Scalar base = scalar("base", 0.5, Type::kF64);
  train(base * (1.0 - cast(symbol_value(step_symbol()), Type::kF64) * 0.5), [&](Trainer& trainer) {
    trainer.step();
    EXPECT_EQ(weight_of(trainer), 0.5F);
    base.set(0.25);
    trainer.step();
    EXPECT_EQ(weight_of(trainer), 0.375F);
  });
}

TEST_P(ScalarTest, LossesAndMetricsReadScalars) {
  const Scalar scale = scalar("scale", 1.0);
  train(
      0.25F,
      [&](Trainer& trainer) {
        const Tensor data = tensor(std::vector<float>(4, 1.0F), {4});
        Evaluation evaluation = trainer.evaluation(
            data, data, [&](const Tensor& x, const Tensor&) { return std::vector<Tensor>{mean(x) * scale}; });
        trainer.step();
        EXPECT_EQ(weight_of(trainer), 0.75F);
        EXPECT_EQ(evaluation.run().at(0), 1.0);
        scale.set(2.0);
        EXPECT_EQ(evaluation.run().at(0), 2.0);
        trainer.step();
        EXPECT_EQ(weight_of(trainer), 0.25F);
      },
      scale);
}

TEST_P(ScalarTest, TwoScalarsOfOneNameAreAnError) {
  EXPECT_THAT(test::error_of([&] {
                train(
                    scalar("lr", 0.1), [](Trainer&) {}, scalar("lr", 0.1));
              }).what(),
              HasSubstr("two scalars are named 'lr'"));
  EXPECT_THAT(test::error_of([] { (void)scalar("", 0.1); }).what(), HasSubstr("it needs a name"));
}

TEST(ScalarInAHandWrittenLoop, HasItsLatestValueInEverySyncRun) {
  const auto runtime = test_runtime();
  Context context(Stream::create(runtime->backend(backend_name())->open_device(0)));
  const Scalar factor = scalar("factor", 2.0);
  const Lowered lowered = lower("scale", {{"y", tensor<float>({1, 3}, {2}, "x") * factor}});
  EXPECT_EQ(needs_prior_context(lowered), std::vector<std::string>{});
  allocate_missing(context, lowered);
  const auto code = compile(context.stream()->device(), program::print(lowered.program));
  const auto routine = context.link(code, "scale", context_names(lowered));
  for (const float value : {2.0F, -0.5F}) {
    factor.set(value);
    sync_run(context, routine, lowered);
    std::vector<float> y(2);
    context.to_host("y", std::as_writable_bytes(std::span(y)));
    context.stream()->wait();
    EXPECT_EQ(y, (std::vector<float>{value, 3 * value}));
  }
  EXPECT_EQ(forward_and_forget(context.stream(), factor * 4.0F), std::vector<double>{-2});
}

INSTANTIATE_TEST_SUITE_P(Strategies, ScalarTest,
                         ::testing::Values(MergeStrategy::kOwner, MergeStrategy::kDirect));

}  // namespace
}  // namespace yoke::testing
