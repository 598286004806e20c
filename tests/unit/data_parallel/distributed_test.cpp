// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/distributed_test.cpp: groups that reduce gradients of parameters one by one, and all-reduce
// with its gradient.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/all_reduce.h>
#include <yoke/program/text.h>
#include <yoke/runtime/passes.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <unordered_set>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;

std::vector<float> read(const Context& context, const std::string& name) {
  std::vector<float> values(context.tensor(name).spec.byte_count() / sizeof(float));
  context.to_host(name, std::as_writable_bytes(std::span(values)));
  context.stream()->wait();
  return values;
}

struct Members {
  explicit Members(std::size_t count, RuntimeOptions options = {})
      : device(test_runtime(std::move(options))->backend(backend_name())->open_device(0)) {
    for (std::size_t k = 0; k < count; ++k) {
      contexts.emplace_back(Stream::create(device, "member " + std::to_string(k)));
    }
  }
  // What a backward pass of the member computes.
  void set_gradient(std::size_t member, const Parameter& parameter, const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    contexts[member].from_host("gradient/" + parameter.name(), bytes);
    contexts[member].stream()->wait();
  }

  std::shared_ptr<Device> device;
  std::vector<Context> contexts;
  Parameter w{"layer.weight", {2}, Initializer::zeros()};
  Parameter b{"layer.bias", {3}, Initializer::zeros()};
};

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

// ---- all-reduce ----

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

// ---- all-reduce as an operation ----

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
