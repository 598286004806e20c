// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/all_reduce_test.cpp: all-reduce with its gradient, between programs and as an operation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/all_reduce.h>
#include <yoke/program/text.h>

#include <functional>

#include "error_of.h"
#include "members.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;

TEST(AllReduceTest, ResolvesWithoutBlockingTheHost) {
  Members of(2);
  for (Context& context : of.contexts) {
    const std::vector<float> ones(2, 1);
    context.init_from_host("x", {YOKE_TYPE_F32, {2}}, std::as_bytes(std::span(ones)));
    context.stream()->wait();
  }
  const AllReduce reduce(of.contexts, "x", "sum", Reduction::kSum);
  Gate gate;
  gate.hold(*of.contexts[0].stream());
  const std::vector<CollectiveTensor> results = reduce.run();
  const CollectiveTensor copy = results[1];
  EXPECT_FALSE(copy.is_done());
  const auto consumer = Stream::create(of.device, "consumer");
  const ContextTensor& tensor = results[1].resolve(*consumer);
  EXPECT_TRUE(gate.was_open_for(*consumer));
  EXPECT_TRUE(copy.is_done());
  std::vector<float> values(2);
  consumer->to_host(values.data(), tensor.view);
  consumer->wait();
  EXPECT_EQ(values, (std::vector<float>{2, 2}));
  copy.filled().wait();
  EXPECT_EQ(copy.assume_resolved().view.buffer, tensor.view.buffer);
}

// The values of two members: each has an input, and sums up its output times its factor.
struct Oracle {
  Reduction reduction;
  float factor;  // of shard 1's loss
  std::vector<float> output0, output1, gradient;
};
const std::vector<float> kInputs[] = {{2, 5}, {4, 1}};
const Oracle kOracles[] = {{Reduction::kSum, 1, {6, 6}, {6, 6}, {2, 2}},
                           {Reduction::kMean, 1, {3, 3}, {3, 3}, {1, 1}},
                           {Reduction::kSum, 4, {6, 6}, {24, 24}, {5, 5}}};

TEST(AllReduceTest, HasTheKnownValuesAndGradients) {
  for (const Oracle& row : kOracles) {
    Members of(2);
    for (std::size_t k = 0; k < 2; ++k) {
      of.contexts[k].init_from_host("input", {YOKE_TYPE_F32, {2}}, std::as_bytes(std::span(kInputs[k])));
    }
    (void)AllReduce(of.contexts, "input", "output", row.reduction).run();
    for (std::size_t k = 0; k < 2; ++k) {
      const Tensor output = placeholder("output", Type::kF32, {2});
      const Tensor scaled = output * (k == 1 ? row.factor : 1.0F);
      const Lowered lowered =
          lower("shard_loss", {{"scaled", scaled}, {"output_gradient", gradients(sum(scaled), {output})[0]}});
      allocate_missing(of.contexts[k], lowered);
      of.contexts[k].link(compile(of.device, program::print(lowered.program)), "shard_loss").run();
    }
    (void)AllReduce(of.contexts, "output_gradient", "input_gradient", row.reduction).run();
    EXPECT_EQ(read(of.contexts[0], "scaled"), row.output0);
    EXPECT_EQ(read(of.contexts[1], "scaled"), row.output1);
    EXPECT_EQ(read(of.contexts[0], "input_gradient"), row.gradient);
    EXPECT_EQ(read(of.contexts[1], "input_gradient"), row.gradient);
  }
}

TEST(AllReduceOperation, HasTheKnownValuesAndGradients) {
  for (const Oracle& row : kOracles) {
    Members of(2);
    std::vector<Lowered> programs;
    for (std::size_t k = 0; k < 2; ++k) {
      const Tensor x = placeholder("input", Type::kF32, {2});
      const Tensor output = all_reduce(x, row.reduction) * (k == 1 ? row.factor : 1.0F);
      programs.push_back(
          lower("member", {{"output", output}, {"input_gradient", gradients(sum(output), {x})[0]}}));
      of.contexts[k].init_from_host("input", {YOKE_TYPE_F32, {2}}, std::as_bytes(std::span(kInputs[k])));
      allocate_missing(of.contexts[k], programs[k]);
      all_host_to_device(of.contexts[k], programs[k]);
    }
    const DistributedProgram program(of.contexts, programs);
    for (int again = 0; again < 2; ++again) {
      program.run();
      EXPECT_EQ(read(of.contexts[0], "output"), row.output0);
      EXPECT_EQ(read(of.contexts[1], "output"), row.output1);
      EXPECT_EQ(read(of.contexts[0], "input_gradient"), row.gradient);
      EXPECT_EQ(read(of.contexts[1], "input_gradient"), row.gradient);
    }
  }
}

// Normalizes the rows of all members by their common mean: twice reduced, with values that parts hand on.
TEST(AllReduceOperation, InTheMiddleOfAProgramEqualsOneMemberWithAllRows) {
  const std::vector<float> rows = some_numbers(12, 5);
  const auto centered = [](const Tensor& x, std::size_t members,
                           const std::function<Tensor(const Tensor&)>& over) {
    const double count = static_cast<double>(x.element_count() * members);
    const Tensor mean = over(sum(x)) / count;
    const Tensor variance = over(sum((x - mean) * (x - mean))) / count;
    const Tensor normal = (x - mean) / sqrt(variance + 1e-3);
    return std::pair(normal, sum(normal * normal * normal));
  };
  const auto device = test_runtime()->backend(backend_name())->open_device(0);
  const Parameter all("all", {12}, Initializer::zeros());
  all.set_values(std::as_bytes(std::span(rows)));
  const auto [normal, loss] = centered(all.tensor(), 1, [](const Tensor& t) { return t; });
  const std::vector<double> expected = forward_and_forget(Stream::create(device), normal);
  const std::vector<double> slope =
      forward_and_forget(Stream::create(device), gradients(loss, {all.tensor()})[0]);

  Members of(3);
  std::vector<Lowered> programs;
  for (std::size_t k = 0; k < 3; ++k) {
    const Parameter part("part", {4}, Initializer::zeros());
    part.set_values(std::as_bytes(std::span(rows).subspan(4 * k, 4)));
    const auto [own, own_loss] =
        centered(part.tensor(), 3, [](const Tensor& t) { return all_reduce(t, Reduction::kSum); });
    programs.push_back(
        lower("member", {{"normal", own}, {"slope", gradients(own_loss, {part.tensor()})[0]}}));
    allocate_missing(of.contexts[k], programs[k]);
    all_host_to_device(of.contexts[k], programs[k]);
  }
  DistributedProgram(of.contexts, programs).run();
  for (std::size_t k = 0; k < 3; ++k) {
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(read(of.contexts[k], "normal")[i], expected[4 * k + i], 1e-5);
      EXPECT_NEAR(read(of.contexts[k], "slope")[i], slope[4 * k + i], 1e-4);
    }
  }
}

TEST(AllReduceOperation, AloneIsItsOperand) {
  const auto device = test_runtime()->backend(backend_name())->open_device(0);
  const Tensor x = tensor<float>({2, -5}, {2}, "x");
  EXPECT_EQ(forward_and_forget(Stream::create(device), all_reduce(x, Reduction::kMean)),
            (std::vector<double>{2, -5}));
}

TEST(AllReduceOperation, MisuseIsAnError) {
  Members of(2);
  EXPECT_ERROR(ErrorCode::kInvalidArgument, (void)all_reduce(Tensor(), Reduction::kSum));
  EXPECT_ERROR(ErrorCode::kInvalidArgument,
               (void)all_reduce(tensor<std::int32_t>({1}, {1}), Reduction::kSum));
  const auto program = [&](std::uint64_t size, Reduction reduction) {
    return lower("member",
                 {{"y", all_reduce(placeholder("x" + std::to_string(size), Type::kF32, {size}), reduction)}});
  };
  const std::vector<Lowered> differ = {program(2, Reduction::kSum), program(2, Reduction::kMean)};
  EXPECT_ERROR(ErrorCode::kInvalidArgument, DistributedProgram({}, {}));
  EXPECT_THAT(error_of([&] { DistributedProgram(of.contexts, std::span(differ).first(1)); }),
              is_error(ErrorCode::kInvalidArgument, "2 members and 1 program"));
  EXPECT_THAT(error_of([&] { DistributedProgram(of.contexts, differ); }),
              is_error(ErrorCode::kInvalidArgument, "the program of member 1 has other all-reduces"));
  const std::vector<Lowered> sizes = {program(2, Reduction::kSum), program(3, Reduction::kSum)};
  EXPECT_THAT(error_of([&] { DistributedProgram(of.contexts, sizes); }),
              is_error(ErrorCode::kNotFound, "'x2'"));
  for (std::size_t k = 0; k < 2; ++k) {
    allocate_missing(of.contexts[k], sizes[k]);
  }
  EXPECT_THAT(error_of([&] { DistributedProgram(of.contexts, sizes); }),
              is_error(ErrorCode::kInvalidArgument, "shard 1 differs from shard 0 in type or shape"));
  const Tensor data = tensor<float>({1, 2}, {2});
  DataParallelOptions options = options_for(2, 0.1F);
  options.learning_rate = all_reduce(tensor<float>({1}, {}), Reduction::kSum);
  const auto loss_of = [&](const Tensor& x, const Tensor& y) { return sum(of.w.tensor()) * sum(x * y); };
  EXPECT_THAT(error_of([&] { data_parallel(options, data, data, loss_of, [](Trainer&) {}); }),
              is_error(ErrorCode::kInvalidArgument, "uses all_reduce, which only the loss may use"));
}

}  // namespace
}  // namespace yoke::testing
