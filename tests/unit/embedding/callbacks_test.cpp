// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/callbacks_test.cpp: callbacks that throw, and objects that outlive their trainer or its runtime.
#include <yoke/program/text.h>
#include <yoke/yoke.h>

#include <utility>

#include "training.h"

namespace yoke::test {
namespace {

// ---- callbacks that throw ----

struct Thrown {};  // not a std::exception, so nothing in between can handle it by accident

TEST(ThrowingCallbacks, OfATrainerReachTheCallerAndTrainingCanContinue) {
  Training run;
  EXPECT_THROW(run([](Trainer&) { throw Thrown(); }), Thrown);
  run([](Trainer& trainer) {
    EXPECT_THROW(trainer.run_epoch([](std::int64_t) -> bool { throw Thrown(); }), Thrown);
    EXPECT_EQ(trainer.step_count(), 1);
    const auto throws = [](const Tensor&, const Tensor&) -> std::vector<Tensor> { throw Thrown(); };
    EXPECT_THROW((void)trainer.evaluation(kInputs, kTargets, throws), Thrown);
    EXPECT_TRUE(trainer.run_epoch());
    EXPECT_EQ(trainer.step_count(), 2);
  });
  run.options.check_memory = [](std::span<const MemoryNeed>) { throw Thrown(); };
  EXPECT_THROW(run([](Trainer&) {}), Thrown);
  run.options.check_memory = {};
  const auto before = run.loss_of;
  run.loss_of = [](const Tensor&, const Tensor&) -> Tensor { throw Thrown(); };
  EXPECT_THROW(run([](Trainer&) {}), Thrown);
  run.loss_of = before;
  run([](Trainer& trainer) { trainer.step(); });
  EXPECT_EQ(run.options.runtime->backend(run.control->name)->live_counts().buffers, 0U);
}

TEST(ThrowingCallbacks, OfExpressionsLeaveNoTrace) {
  const Tensor x = placeholder("x", Type::kF32, {2, 3});
  EXPECT_THROW(
      (void)composite({.name = "one", .forward = [](const auto&) -> std::vector<Tensor> { throw Thrown(); }},
                      {x}),
      Thrown);
  EXPECT_THROW((void)scan([](const auto&, const auto&) -> Scan { throw Thrown(); }, {x}, {x}), Thrown);
  // No hint of the composite, and a scan of an outer scan's values is still not nested.
  const std::string text = program::print(forward(cumsum(x * 2.0F)).program);
  EXPECT_EQ(text.find("@one"), std::string::npos) << text;

  std::vector<Binding> bindings = {{{"row", 0, 4, 1}, 7}, {{"column", 0, 4, 1}, 8}};
  EXPECT_THROW(sequential_loop(bindings, [] { throw Thrown(); }), Thrown);
  EXPECT_EQ(bindings[0].value, 7);
  EXPECT_EQ(bindings[1].value, 8);
}

TEST(ThrowingCallbacks, OfTheRuntime) {
  RuntimeOptions options;
  options.log_level = LogLevel::kTrace;
  options.log_sink = [](LogLevel, std::string_view) { throw Thrown(); };
  options.layers.names = "validate";
  options.allocate_host_memory = [](std::uint64_t, std::uint64_t) -> void* { throw Thrown(); };
  options.free_host_memory = [](void*) { throw Thrown(); };
  Rig rig(Streams::kNative, options);
  rig.runtime.log(LogLevel::kError, "line");
  EXPECT_EQ(rig.control->host->allocate(rig.control->host->host, 8, 8), nullptr);
  EXPECT_THROW(parallel_merge(2, [](std::uint32_t, std::uint32_t) { throw Thrown(); }), Thrown);
  const auto stream = rig.stream();
  stream->host_callback([](ErrorCode) { throw Thrown(); });
  EXPECT_THAT(error_of([&] { stream->wait(); }),
              is_error(ErrorCode::kUnknown, "a host callback threw an exception"));
}

TEST(ThrowingCallbacks, ReleaseOfImportedMemoryIsLogged) {
  auto control = std::make_shared<Control>();
  control->provides.memory = true;
  Rig rig(control);
  alignas(YOKE_BUFFER_ALIGNMENT) static std::array<std::byte, 256> memory;
  int calls = 0;
  {
    const auto buffer = Buffer::import(
        rig.device, {reinterpret_cast<std::uint64_t>(memory.data()), memory.size(), YOKE_MEMORY_HOST, [&] {
                       ++calls;
                       throw Thrown();
                     }});
  }
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(rig.log.all(), ::testing::Contains(::testing::HasSubstr("buffer.release_failed")));
}

// ---- lifetimes ----

TEST(Lifetimes, TheApplicationDropsTheRuntimeWhileATrainerLives) {
  Evaluation evaluation;
  std::weak_ptr<Runtime> runtime;
  {
    Training run;
    runtime = run.options.runtime;
    const auto loss_of = run.loss_of;
    const DataParallelOptions options = std::exchange(run.options, {});
    data_parallel(options, kInputs, kTargets, loss_of, [&](Trainer& trainer) {
      const_cast<DataParallelOptions&>(options).runtime.reset();
      EXPECT_TRUE(trainer.run_epoch());
      EXPECT_GT(trainer.loss_value(), 0);
      evaluation = trainer.evaluation(kInputs, kTargets, [&](const Tensor& x, const Tensor& y) {
        return std::vector<Tensor>{loss_of(x, y)};
      });
    });
  }
  EXPECT_TRUE(runtime.expired());
  EXPECT_GT(evaluation.run().at(0), 0);  // its objects keep the backend loaded
}

TEST(Lifetimes, ObjectsOutliveTheRuntimeInAnyOrder) {
  Event event;
  LinkedRoutine routine;
  Transfer transfer;
  std::shared_ptr<Buffer> buffer;
  {
    Rig rig;
    Context context(rig.stream());
    Context other(rig.stream());
    set(context, "x", {1, 2, 3, 4});
    set(other, "x", {0, 0, 0, 0});
    buffer = context.tensor("x").view.buffer;
    routine = context.link(compile(rig.device,
                                   "yoke.program 1\nprogram p() {\n  arg x : f32[4] inout\n"
                                   "  x[i] = x[i] + 1.0\n}\n"),
                           "p");
    transfer = device_to_device("x", MergeUse::kNone, other, context);
    event = context.stream()->record();
  }
  routine.run();
  transfer.run();
  routine.stream()->wait();
  EXPECT_EQ(read<float>(*routine.stream(), {buffer, 0, 16}), (std::vector<float>{2, 3, 4, 5}));
  routine = {};
  transfer = {};
  EXPECT_TRUE(event.is_done());
  buffer.reset();
  event.wait();
}

}  // namespace
}  // namespace yoke::test
