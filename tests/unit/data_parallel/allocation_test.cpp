// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/allocation_test.cpp: a step allocates nothing and compiles nothing; both are
// counted.
#include <gtest/gtest.h>

#include "common.h"
#include "counted_new.h"

namespace yoke::testing {
namespace {

class Steps : public ::testing::TestWithParam<std::tuple<MergeStrategy, MergeUse>> {};

TEST_P(Steps, AllocateNothingAndCompileNothing) {
  if (std::string(backend_name()) != "cc") {
    GTEST_SKIP() << "the reference executor allocates; this holds for cc";
  }
  DataParallelOptions options = options_for(3, 0.05F);
  options.merge = std::get<0>(GetParam());
  options.merge_use = std::get<1>(GetParam());
  options.batch_size = 12;
  options.optimizer = {0.9, 1e-4, false};
  const auto model = nn::sequential(nn::linear(64), nn::relu(), nn::dropout(0.1), nn::linear(10));
  std::vector<std::int32_t> labels(44);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::int32_t>(i % 10);
  }
  data_parallel(
      options, tensor(some_numbers(44 * 32, 1), {44, 32}), tensor(labels, {44}),
      [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); },
      [&](Trainer& trainer) {
        for (int i = 0; i < 12; ++i) {  // three epochs: every variant of the batch has run
          trainer.step();
        }
        trainer.wait();
        const std::uint64_t compiled = compile_count(*options.runtime);
        ours = 0;
        in_libraries = 0;
        counting = true;
        for (int i = 0; i < 100; ++i) {
          trainer.step();
        }
        trainer.wait();
        counting = false;
        EXPECT_EQ(ours.load(), 0U) << "allocations in 100 steps";
        EXPECT_EQ(compile_count(*options.runtime), compiled);
        RecordProperty("allocations_in_vendor_libraries", static_cast<int>(in_libraries.load()));
      });
}

INSTANTIATE_TEST_SUITE_P(Strategies, Steps,
                         ::testing::Combine(::testing::Values(MergeStrategy::kOwner, MergeStrategy::kTree,
                                                              MergeStrategy::kDirect),
                                            ::testing::Values(MergeUse::kCopy, MergeUse::kStreaming)));

TEST(Counter, SeesAllocationsOfTheFrontend) {
  counting = true;
  ours = 0;
  const Tensor t = placeholder("x", Type::kF32, {2});
  counting = false;
  EXPECT_GT(ours.load(), 0U);
}

}  // namespace
}  // namespace yoke::testing
