// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/programs_test.cpp: programs of hand-written loops: their names, batches of them, copies of
// their arguments, and options for debugging.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/program/text.h>
#include <yoke/runtime/passes.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common.h"
#include "error_of.h"
#include "rig.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;
using ::testing::HasSubstr;

struct OneStream {
  std::shared_ptr<Stream> stream = Stream::create(test_runtime()->backend(backend_name())->open_device(0));
  Context context{stream};

  std::vector<float> read(const Context& from, const std::string& name) const {
    std::vector<float> values(from.tensor(name).spec.byte_count() / sizeof(float));
    from.to_host(name, std::as_writable_bytes(std::span(values)));
    stream->wait();
    return values;
  }
};

TEST(NamedTensors, NameTheirProgram) {
  const Parameter w("layer.weight", {2}, Initializer::zeros());
  const Tensor activation = relu(w.tensor()).named("relu");
  EXPECT_EQ(forward(activation).program.name, "relu_forward");
  EXPECT_EQ(forward(relu(w.tensor())).program.name, "forward");
  const GradUpdate update = grad_update(sum(activation).named("total loss"));
  EXPECT_EQ(update.label, "total_loss");
  EXPECT_EQ(update.lowered.program.name, "total_loss_gradient");
  const Lowered sgd = sgd_update(update, 0.1F);
  EXPECT_EQ(sgd.program.name, "total_loss_sgd_update");
  EXPECT_THAT(program::print(sgd.program), HasSubstr("layer_weight"));
}

TEST(GradUpdates, OfALossWithoutParametersAreErrors) {
  EXPECT_THAT(
      error_of([] {
        (void)grad_update(sum(tensor<float>({1, 2}, {2})));
      }),
      is_error(ErrorCode::kInvalidArgument, "grad_update: the loss does not depend on any Parameter"));
}

TEST(EveryNonLiteral, IsAnOutput) {
  const OneStream on;
  const Tensor x = tensor<float>({1, -2}, {2}, "x");
  const Tensor hidden = (x * 2.0F).named("hidden");
  const Tensor active = relu(hidden).named("active");
  const Tensor total = sum(active + 1.0F);
  for (int again = 0; again < 2; ++again) {  // lowering does not consume an expression
    std::vector<Output> outputs = every_non_literal_on_host(total);
    ASSERT_EQ(outputs.size(), 2U);
    const Lowered lowered = lower("everything", outputs);
    Context context = on.context.child();
    allocate_missing(context, lowered);
    sync_run(context,
             context.link(compile(on.stream->device(), program::print(lowered.program)), "everything",
                          context_names(lowered)),
             lowered);
    EXPECT_EQ(on.read(context, "hidden"), (std::vector<float>{2, -4}));
    EXPECT_EQ(on.read(context, "active"), (std::vector<float>{2, 0}));
  }
}

TEST(SetMaterialized, KeepsTensorsInMemoryForReading) {
  const OneStream on;
  const Parameter w("w", {2}, Initializer::zeros());
  const std::vector<float> values = {3, -4};
  w.set_values(std::as_bytes(std::span(values)));
  const Tensor hidden = (w.tensor() * 2.0F).named("hidden layer");
  const Tensor active = relu(hidden).named("active");
  Lowered lowered = lower("loss", {{"loss", sum(active)}});
  const std::size_t arguments = lowered.arguments.size();
  set_materialized(lowered, std::vector<std::string>{"active", "loss", "hidden layer", "w", "active"});
  EXPECT_EQ(lowered.arguments.size(), arguments + 2);
  const std::vector<std::uint32_t> numbers = lowered.program.arguments();
  ASSERT_EQ(numbers.size(), lowered.arguments.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(lowered.arguments[i].name, lowered.program.tensors[numbers[i]].name);
  }
  Context context = on.context.child();
  allocate_missing(context, lowered);
  const auto code = compile(on.stream->device(), program::print(lowered.program));
  sync_run(context, context.link(code, "loss", context_names(lowered)), lowered);
  EXPECT_EQ(on.read(context, "hidden_layer"), (std::vector<float>{6, -8}));
  EXPECT_EQ(on.read(context, "active"), (std::vector<float>{6, 0}));
  EXPECT_EQ(on.read(context, "loss"), std::vector<float>{6});
  EXPECT_THAT(error_of([&] {
                set_materialized(lowered, std::vector<std::string>{"active", "none"});
              }),
              is_error(ErrorCode::kNotFound, "program 'loss' computes no tensor 'none'"));
}

TEST(SetVirtual, ComputesATensorWhereItIsReadAndNeverStoresIt) {
  OneStream on;
  const std::vector<float> numbers = some_numbers(600, 1);
  const Tensor hidden = exp(tensor(numbers, {20, 30}, "x") * 0.5F).named("hidden");
  const Tensor total = sum(hidden, {0}).named("total");
  const std::vector<Output> outputs = {
      {"product", einsum("i j; k j => i k", hidden, hidden)}, {"shifted", hidden - total}, {"sums", total}};
  const auto has_hidden = [](const program::Program& program) {
    return std::any_of(program.tensors.begin(), program.tensors.end(),
                       [](const program::Tensor& tensor) { return tensor.name == "hidden"; });
  };
  std::vector<std::vector<float>> results;
  for (const bool is_virtual : {false, true}) {
    Lowered lowered = lower("several", outputs);
    if (is_virtual) {
      set_virtual(lowered, std::vector<std::string>{"hidden"});
    }
    EXPECT_NE(has_hidden(lowered.program), is_virtual);
    const std::string optimized = program::print(passes::optimize(lowered.program).program);
    EXPECT_EQ(optimized.find("exp(") != optimized.rfind("exp("), is_virtual) << optimized;
    Context context = on.context.child();
    allocate_missing(context, lowered);
    all_host_to_device(context, lowered);
    const auto code = compile(on.stream->device(), program::print(lowered.program));
    context.link(code, "several", context_names(lowered)).run();
    for (const Output& output : outputs) {
      results.push_back(on.read(context, output.name));
    }
  }
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_THAT(results[i + 3], ::testing::Pointwise(::testing::FloatNear(1e-4F), results[i]));
  }
  Lowered lowered = lower("several", outputs);
  const auto refused = [&](const std::string& name) {
    return error_of([&] { set_virtual(lowered, std::vector<std::string>{name}); });
  };
  EXPECT_THAT(refused("shifted"), is_error(ErrorCode::kInvalidArgument, "'shifted' is an argument"));
  EXPECT_THAT(refused("nothing"), is_error(ErrorCode::kNotFound, "it has no tensor 'nothing'"));
  lowered = lower("one", {{"shifted", hidden - total}});
  EXPECT_THAT(refused("total"), is_error(ErrorCode::kInvalidArgument, "'total' needs memory, because it is"));
}

TEST(ForwardAndCtx, KeepsTheValueInAChildContext) {
  OneStream on;
  const Symbol row{"row", 0, 2, 1};
  const Parameter w("w", {2}, Initializer::zeros());
  const std::vector<float> host = {9, 9};
  w.set_values(std::as_bytes(std::span(host)));
  const std::vector<float> live = {3, 4};
  on.context.init_from_host("w", {YOKE_TYPE_F32, {2}}, std::as_bytes(std::span(live)));
  const Tensor t = tensor<float>({1, 2, 10, 20}, {2, 2}, "x")[row] * w.tensor();
  const std::vector<std::int64_t> values = {1};
  const Context child = forward_and_ctx(on.context, t, values);
  EXPECT_EQ(on.read(child, "value"), (std::vector<float>{30, 80}));  // with the context's w, not the host's
  EXPECT_FALSE(on.context.has("value"));
  EXPECT_TRUE(child.has("x"));
  const Context again = forward_and_ctx(child, sum(w.tensor()));
  EXPECT_EQ(on.read(again, "value"), std::vector<float>{7});
  EXPECT_THAT(error_of([&] { (void)forward_and_ctx(on.context, placeholder("p", Type::kF32, {2}) * 2.0F); }),
              is_error(ErrorCode::kInvalidArgument, "'p' has no values; give it host data"));
}

TEST(ForwardAndCtx, FailureOfTheLaunchIsItsError) {
  const auto runtime = test_runtime();
  const auto control = test::Rig::make_control(test::Streams::kNative);
  test::register_backend(*runtime, 0, control);
  const auto stream = Stream::create(runtime->backend("test0")->open_device(0));
  const Tensor t = sum(tensor<float>({1, 2, 3, 4}, {4}, "x"));
  control->fail_code = YOKE_STATUS_INTERNAL;
  control->fail_after = 1;  // after the copy of x
  EXPECT_THAT(error_of([&] { (void)forward_and_ctx(Context(stream), t); }),
              is_error(ErrorCode::kInternal, "injected this failure"));
}

TEST(ForwardAndForget, NamesItselfIfTheStreamIsNull) {
  EXPECT_THAT(error_of([] {
                (void)forward_and_forget(nullptr, tensor<float>({1, 2}, {2}) * 2.0F);
              }),
              is_error(ErrorCode::kInvalidArgument, "forward_and_forget: the stream is null"));
}

TEST(InitParams, GivesTheValuesThatATrainerStartsWith) {
  const OneStream on;
  const nn::Module model = nn::sequential(nn::linear(3), nn::tanh(), nn::linear(1));
  const Tensor x = tensor(some_numbers(8, 1), {4, 2});
  DataParallelOptions options = options_for(2, 0.0F);
  options.base_seed = 17;
  data_parallel(
      options, x, tensor(some_numbers(4, 2), {4, 1}),
      [&](const Tensor& in, const Tensor& out) { return mse(model(in), out); }, [](Trainer&) {});
  std::vector<std::vector<double>> started;
  for (const Parameter& parameter : nn::parameters(model)) {
    started.push_back(host_values(parameter.tensor()));
    parameter.clear_values();
  }
  init_params(on.stream, nn::parameters(model), 17);
  for (std::size_t i = 0; i < started.size(); ++i) {
    EXPECT_EQ(host_values(nn::parameters(model)[i].tensor()), started[i]);
  }
}

TEST(CompileBatch, LinksTheProgramsThatAreOccupied) {
  OneStream on;
  const Tensor x = tensor<float>({1, 2}, {2}, "x");
  const std::vector<Lowered> programs = {lower("twice", {{"double_x", x * 2.0F}}),
                                         lower("never", {{"unused", x * 7.0F}}),
                                         lower("square", {{"square_x", x * x}})};
  std::vector<std::pair<std::string, std::size_t>> asked;
  const CodeBatch batch =
      compile_batch(on.stream->device(), programs, [&](const std::string& name, std::size_t number) {
        asked.emplace_back(name, number);
        return name != "never";
      });
  EXPECT_EQ(asked,
            (std::vector<std::pair<std::string, std::size_t>>{{"twice", 0}, {"never", 1}, {"square", 2}}));
  ASSERT_EQ(batch.code->entries().size(), 2U);
  const LinkedBatch linked = link_batch(on.context, batch);
  ASSERT_EQ(linked.routines.size(), 3U);
  EXPECT_FALSE(linked.routines[1]);
  EXPECT_FALSE(linked.context.has("unused"));
  EXPECT_FALSE(on.context.has("double_x"));
  EXPECT_EQ(linked.routines[2]->constants(), std::vector<std::string>{"x"});
  EXPECT_TRUE(linked.routines[2]->inputs().empty());  // constants are none
  EXPECT_EQ(all_host_to_device(linked.context, programs[0]), 1U);
  linked.routines[0]->run();
  linked.routines[2]->run();
  EXPECT_EQ(on.read(linked.context, "double_x"), (std::vector<float>{2, 4}));
  EXPECT_EQ(on.read(linked.context, "square_x"), (std::vector<float>{1, 4}));
  // Nothing is compiled if no program is occupied.
  EXPECT_EQ(compile_batch(on.stream->device(), programs, [](const auto&, auto) { return false; }).code,
            nullptr);
  EXPECT_THROW((void)compile_batch(on.stream->device(), {programs[0], programs[0]}), Error);
}

TEST(HostCopies, AnswerWhetherTheyCopy) {
  OneStream on;
  const Parameter w("w", {2}, Initializer::zeros());
  const Parameter without_values("v", {2}, Initializer::zeros());
  const Lowered lowered =
      lower("program", {{"y", w.tensor() + without_values.tensor() + tensor<float>({1, 2}, {2}, "x")}});
  const LoweredArgument& of_w = lowered.arguments[lowered.find(w.tensor())];
  const LoweredArgument& of_v = lowered.arguments[lowered.find(without_values.tensor())];
  const LoweredArgument& of_y = lowered.arguments.back();
  std::vector<float> values = {3, 4};
  w.set_values(std::as_bytes(std::span(values)));
  EXPECT_FALSE(from_host(on.context, of_w));  // not in the context
  EXPECT_FALSE(to_host(on.context, of_w));
  allocate_missing(on.context, lowered);
  EXPECT_FALSE(from_host(on.context, of_v));  // not hosted
  EXPECT_FALSE(from_host(on.context, of_y));
  EXPECT_FALSE(to_host(on.context, of_y));
  EXPECT_TRUE(from_host(on.context, of_w));
  EXPECT_EQ(on.read(on.context, "w"), (std::vector<float>{3, 4}));
  values = {5, 6};
  on.context.from_host("w", std::as_bytes(std::span(values)));
  EXPECT_TRUE(to_host(on.context, of_w));
  EXPECT_EQ(w.float_values()[1], 6);
}

TEST(HostCopies, KeepTheHostArrayWhileAStreamReadsIt) {
  OneStream on;
  Gate gate;
  constexpr std::size_t kCount = 1U << 16U;
  const std::vector<float> sent(kCount, 1.0F);
  {
    const Parameter w("w", {kCount}, Initializer::zeros());
    w.set_values(std::as_bytes(std::span(sent)));
    const Lowered lowered = lower("program", {{"y", w.tensor() * 2.0F}});
    allocate_missing(on.context, lowered);
    gate.hold(*on.stream);
    EXPECT_TRUE(from_host(on.context, lowered.arguments[lowered.find(w.tensor())]));
    const std::vector<float> later(kCount, -1.0F);
    w.set_values(std::as_bytes(std::span(later)));  // before the copy runs
  }
  gate.open();
  EXPECT_EQ(on.read(on.context, "w"), sent);
}

TEST(AllDebugs, RecordTheLaunchesOfARoutineWithItsData) {
  const auto path =
      std::filesystem::temp_directory_path() / ("yoke_debug_" + std::to_string(::getpid()) + ".yoketrace");
  const float number = 1234.5F;
  for (const bool debug_logs : {true, false}) {
    RuntimeOptions options;
    options.log_sink = [](LogLevel, std::string_view) {};
    options.layers.use_environment = false;
    options.layers.trace_file = path;
    enable_all_debugs(options, debug_logs);
    {
      const auto runtime = test_runtime(options);
      const auto stream = Stream::create(runtime->backend(backend_name())->open_device(0));
      const Tensor x = tensor<float>({number}, {1}, "x");
      EXPECT_EQ(forward_and_forget(stream, (x * 2.0F).named("twice")), std::vector<double>{2469});
    }
    std::ifstream file(path, std::ios::binary);
    EXPECT_EQ(file.good(), debug_logs);
    const std::string trace(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(trace.find("twice_forward") != std::string::npos, debug_logs);
    const std::string data(reinterpret_cast<const char*>(&number), sizeof(number));
    EXPECT_EQ(trace.find(data) != std::string::npos, debug_logs);
    std::filesystem::remove(path);
  }
}

TEST(AllDebugs, SetTheOptionsOfARuntime) {
  RuntimeOptions options;
  std::vector<std::string> lines;
  options.log_sink = [&](LogLevel, std::string_view line) { lines.emplace_back(line); };
  enable_all_debugs(options);
  EXPECT_EQ(options.log_level, LogLevel::kDebug);
  EXPECT_EQ(options.layers.names, "validate");
  {
    const auto runtime = test_runtime(options);
    (void)runtime->backend(backend_name())->open_device(0);
    EXPECT_EQ(runtime->validation().violations, 0U);
  }
  EXPECT_FALSE(lines.empty());
  enable_all_debugs(options, true);
  EXPECT_EQ(options.layers.names, "validate,trace");
  EXPECT_TRUE(options.layers.trace_data);
  disable_all_debugs(options);
  EXPECT_EQ(options.log_level, RuntimeOptions().log_level);
  EXPECT_TRUE(options.layers.names.empty());
  EXPECT_FALSE(options.layers.trace_data);
  lines.clear();
  (void)test_runtime(options)->backend(backend_name())->open_device(0);
  EXPECT_TRUE(lines.empty());
}

}  // namespace
}  // namespace yoke::testing
