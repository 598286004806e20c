// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/distributed_test.cpp: groups that reduce gradients of parameters one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/program/text.h>
#include <yoke/runtime/passes.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <unordered_set>

#include "error_of.h"
#include "members.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;

TEST(DistributedParamIdTest, IsStableAndSerializable) {
  const Parameter w("layer.weight", {2}, Initializer::zeros());
  const Parameter same_name("layer.weight", {3}, Initializer::zeros());
  const Parameter b("layer.bias", {2}, Initializer::zeros());
  const DistributedParamId id = DistributedParamId::of(w);
  EXPECT_EQ(id, DistributedParamId::of(same_name));
  EXPECT_NE(id, DistributedParamId::of(b));
  EXPECT_EQ(id.text(), "7820702c36552c82");  // the same in each process and run
  EXPECT_EQ(DistributedParamId::from_text(id.text()), id);
  EXPECT_EQ(DistributedParamId(255).text(), "00000000000000ff");
  EXPECT_EQ(DistributedParamId::from_text("00000000000000ff").value(), 255U);
  EXPECT_LT(DistributedParamId(1), DistributedParamId(2));
  const std::unordered_set<DistributedParamId> ids = {id, id, DistributedParamId::of(b)};
  EXPECT_EQ(ids.size(), 2U);
  EXPECT_EQ(DistributedParams{id}.param_id, id);
  for (const char* text : {"", "ff", "00000000000000fg", "00000000000000ff0"}) {
    EXPECT_THAT(error_of([&] { (void)DistributedParamId::from_text(text); }),
                is_error(ErrorCode::kInvalidArgument, "16 hexadecimal digits"));
  }
}

TEST(ReductionNames, AreKnown) {
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
    EXPECT_EQ(reduction_by_name(reduction_name(reduction)), reduction);
  }
  EXPECT_EQ(DistributedConfig().all_reduce_op, Reduction::kMean);
  EXPECT_THAT(error_of([] { (void)reduction_by_name("max"); }),
              is_error(ErrorCode::kInvalidArgument, "'max'; choose mean or sum"));
}

TEST(DistributedGroupTest, ReducesAParameterWhenAllMembersHaveSubmittedIt) {
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMean}) {
    Members of(4);
    DistributedGroup group({reduction}, of.contexts);
    const std::vector<Parameter> parameters = {of.w, of.b};
    group.register_sync_parameters(parameters);
    const DistributedParamId w = DistributedParamId::of(of.w);
    EXPECT_TRUE(group.is_registered(w));
    EXPECT_FALSE(group.is_registered(DistributedParamId(1)));
    EXPECT_EQ(group.distributed_params(of.w).value().param_id, w);
    EXPECT_FALSE(group.distributed_params(Parameter("other", {2}, Initializer::zeros())));
    for (int step = 0; step < 2; ++step) {
      for (std::uint32_t k = 0; k < 4; ++k) {
        of.set_gradient(k, of.w, {static_cast<float>(k), 1});
        of.set_gradient(k, of.b, {1, 2, 3});
        group.submit_gradient_sync(k, w);
      }
      // b is not final yet; w is reduced without it.
      const float share = reduction == Reduction::kMean ? 0.25F : 1;
      for (std::uint32_t k = 0; k < 4; ++k) {
        group.gradient(k, w).resolve(*of.contexts[k].stream());
        EXPECT_EQ(read(of.contexts[k], "gradient/layer.weight"), (std::vector<float>{6 * share, 4 * share}));
        EXPECT_TRUE(group.gradient(k, w).is_done());
        EXPECT_EQ(read(of.contexts[k], "gradient/layer.bias"), (std::vector<float>{1, 2, 3}));
      }
      for (std::uint32_t k = 0; k < 4; ++k) {
        group.submit_gradient_sync(3 - k, DistributedParamId::of(of.b));  // in another order
      }
      group.sync_collective();
      EXPECT_EQ(read(of.contexts[2], "gradient/layer.bias"),
                (std::vector<float>{4 * share, 8 * share, 12 * share}));
    }
  }
}

// Cut where the first of two gradients is final. That gradient is reduced and read before the rest of the backward pass
// is queued.
TEST(DistributedGroupTest, ReducesAGradientBeforeTheBackwardPassEnds) {
  Members of(2);
  const Parameter first("first", {4, 3}, Initializer::zeros());
  const Parameter last("last", {3, 2}, Initializer::zeros());
  const std::vector<Parameter> parameters = {first, last};
  for (const Parameter& parameter : parameters) {
    const std::vector<float> values = some_numbers(parameter.tensor().element_count(), 1);
    parameter.set_values(std::as_bytes(std::span(values)));
  }
  DistributedGroup group({Reduction::kSum}, of.contexts);
  group.register_sync_parameters(parameters);
  std::vector<std::vector<LinkedRoutine>> parts(2);
  std::vector<std::vector<double>> expected(2);
  std::size_t early = 0;  // the parameter whose gradient is final first
  for (std::uint32_t k = 0; k < 2; ++k) {
    const Tensor x = tensor(some_numbers(20, 3 + k), {5, 4});
    const Tensor half = tensor(std::vector<float>(10, 0.5F), {5, 2});
    const Tensor loss = mse(matmul(tanh(matmul(x, first.tensor())), last.tensor()), half, Reduce::kSum);
    const std::vector<Tensor> slopes = gradients(loss, {first.tensor(), last.tensor()});
    for (std::size_t i = 0; i < 2; ++i) {
      const std::vector<double> own = forward_and_forget(of.contexts[k].stream(), slopes[i]);
      expected[i].resize(own.size());
      std::transform(own.begin(), own.end(), expected[i].begin(), expected[i].begin(), std::plus<>());
    }
    const GradUpdate update = grad_update(loss);
    ASSERT_TRUE(update.params[0].is(first) && update.params[1].is(last));
    const auto names = distributed_names(update, update.lowered);
    allocate_missing(of.contexts[k], update.lowered, names);
    all_host_to_device(of.contexts[k], update.lowered);
    const program::Program& program = update.lowered.program;
    const std::vector<std::uint32_t> arguments = program.arguments();
    const std::vector<std::uint32_t> used = passes::used_until(program);
    std::vector<std::uint32_t> final_after(2);
    for (std::size_t a = 0; a < arguments.size(); ++a) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (program.tensors[arguments[a]].name == "gradient_" + std::to_string(i)) {
          final_after[i] = used[a];
        }
      }
    }
    early = final_after[0] < final_after[1] ? 0 : 1;
    ASSERT_LT(final_after[early], final_after[1 - early]) << program::print(program);
    const passes::Cut cut = passes::cut(program, std::vector<std::uint32_t>{final_after[early]});
    ASSERT_EQ(cut.parts.size(), 2U);
    for (const passes::Cut::Carried& carried : cut.carried) {
      of.contexts[k].allocate(carried.tensor.name,
                              {static_cast<std::int32_t>(carried.tensor.type), carried.tensor.dims});
    }
    for (const program::Program& part : cut.parts) {
      std::map<std::string, std::string> own;
      for (const std::uint32_t argument : part.arguments()) {
        if (const auto found = names.find(part.tensors[argument].name); found != names.end()) {
          own.insert(*found);
        }
      }
      parts[k].push_back(of.contexts[k].link(compile(of.device, program::print(part)), part.name, own));
    }
  }
  const auto run_part = [&](std::size_t part, std::size_t parameter) {
    for (std::uint32_t k = 0; k < 2; ++k) {
      parts[k][part].run();
      group.submit_gradient_sync(k, DistributedParamId::of(parameters[parameter]));
    }
    for (std::uint32_t k = 0; k < 2; ++k) {
      const std::vector<float> sum = read(of.contexts[k], "gradient/" + parameters[parameter].name());
      // 5 rows and up to 4 products each, in another order
      EXPECT_THAT(sum, ::testing::Pointwise(::testing::FloatNear(1e-4F), expected[parameter]));
    }
  };
  for (int step = 0; step < 2; ++step) {
    run_part(0, early);  // the second part of this step is not queued yet
    run_part(1, 1 - early);
    group.sync_collective();
  }
}

TEST(DistributedGroupTest, AParameterThatSomeDidNotUseCountsAsZeroThere) {
  Members of(4);
  DistributedGroup group({Reduction::kMean}, of.contexts);
  group.register_sync_parameters(std::vector<Parameter>{of.w, of.b});
  for (std::uint32_t k = 0; k < 4; ++k) {
    of.set_gradient(k, of.w, {8, 4});  // left from an earlier step where a member does not submit it
    of.set_gradient(k, of.b, {7, 7, 7});
  }
  group.submit_gradient_sync(1, DistributedParamId::of(of.w));
  group.sync_collective();
  for (std::uint32_t k = 0; k < 4; ++k) {
    EXPECT_EQ(read(of.contexts[k], "gradient/layer.weight"),
              (std::vector<float>{2, 1}));  // divided by 4, not by 1
    EXPECT_EQ(read(of.contexts[k], "gradient/layer.bias"), (std::vector<float>{7, 7, 7}));
  }
  EXPECT_THAT(error_of([&] { (void)group.gradient(0, DistributedParamId::of(of.b)); }),
              is_error(ErrorCode::kFailedPrecondition, "has not been reduced yet"));
}

TEST(DistributedGroupTest, SeveralGroupsExistAtOnceAndAreClosed) {
  Members of(4);
  DistributedGroup all({Reduction::kSum}, of.contexts);
  DistributedGroup pair({Reduction::kSum}, {of.contexts[0], of.contexts[3]});
  all.register_sync_parameters(std::vector<Parameter>{of.w});
  pair.register_sync_parameters(std::vector<Parameter>{of.b});
  EXPECT_EQ(all.size(), 4U);
  EXPECT_EQ(pair.size(), 2U);
  for (std::uint32_t k = 0; k < 4; ++k) {
    of.set_gradient(k, of.w, {1, static_cast<float>(k)});
    all.submit_gradient_sync(k, DistributedParamId::of(of.w));
  }
  for (std::uint32_t k = 0; k < 2; ++k) {
    of.set_gradient(3 * k, of.b, {1, 2, 3});
    pair.submit_gradient_sync(k, DistributedParamId::of(of.b));
  }
  all.close();
  EXPECT_EQ(read(of.contexts[2], "gradient/layer.weight"), (std::vector<float>{4, 6}));  // it was queued
  EXPECT_EQ(read(of.contexts[3], "gradient/layer.bias"), (std::vector<float>{2, 4, 6}));
  EXPECT_THAT(error_of([&] { all.sync_collective(); }),
              is_error(ErrorCode::kFailedPrecondition, "the DistributedGroup is closed"));
  EXPECT_ERROR(ErrorCode::kFailedPrecondition, all.close());
  pair.sync_collective();
}

TEST(DistributedGroupTest, MisuseIsAnError) {
  Members of(2);
  EXPECT_ERROR(ErrorCode::kInvalidArgument, DistributedGroup({}, {}));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, DistributedGroup({static_cast<Reduction>(7)}, of.contexts));
  DistributedGroup group({Reduction::kSum}, of.contexts);
  const DistributedParamId w = DistributedParamId::of(of.w);
  EXPECT_THAT(error_of([&] { group.submit_gradient_sync(0, w); }),
              is_error(ErrorCode::kNotFound, "is not registered; call register_sync_parameters first"));
  group.register_sync_parameters(std::vector<Parameter>{of.w});
  EXPECT_THAT(error_of([&] { group.register_sync_parameters(std::vector<Parameter>{of.w}); }),
              is_error(ErrorCode::kAlreadyExists, "'layer.weight'"));
  EXPECT_THAT(error_of([&] { group.submit_gradient_sync(2, w); }),
              is_error(ErrorCode::kOutOfRange, "member 2 is out of range [0, 2)"));
  group.submit_gradient_sync(0, w);
  EXPECT_THAT(error_of([&] { group.submit_gradient_sync(0, w); }),
              is_error(ErrorCode::kAlreadyExists, "member 0 has submitted 'gradient/layer.weight' before"));
  group.submit_gradient_sync(1, w);
  EXPECT_ERROR(ErrorCode::kAlreadyExists, group.submit_gradient_sync(1, w));  // also after the reduction
  group.sync_collective();
  group.submit_gradient_sync(1, w);
}

TEST(DistributedGroupTest, AFailedMemberIsAnErrorOfAllMembers) {
  Members of(3);
  DistributedGroup group({Reduction::kSum}, of.contexts);
  group.register_sync_parameters(std::vector<Parameter>{of.w});
  std::atomic<bool> is_queued = false;
  of.contexts[2].stream()->host_callback([&](ErrorCode) {
    while (!is_queued) {
      std::this_thread::yield();
    }
    throw 1;
  });
  const float one = 1;  // not written, because the callback before it fails
  of.contexts[2].stream()->fill(of.contexts[2].tensor("gradient/layer.weight").view, &one, 4);
  for (std::uint32_t k = 0; k < 3; ++k) {
    group.submit_gradient_sync(k, DistributedParamId::of(of.w));
  }
  is_queued = true;
  for (std::uint32_t k = 0; k < 3; ++k) {
    EXPECT_THAT(error_of([&] { of.contexts[k].stream()->wait(); }),
                is_error(ErrorCode::kUnknown, "member 2", "a host callback threw an exception"))
        << k;
    EXPECT_ERROR(ErrorCode::kUnknown, (void)group.gradient(k, DistributedParamId::of(of.w)).is_done());
  }
}

}  // namespace
}  // namespace yoke::testing
