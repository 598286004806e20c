// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/memory_test.cpp: operator new fails at every call in turn, on any thread.
// The result is std::bad_alloc or an Error: no crash, no hang, no leaked object, and the next attempt succeeds.
#include <unistd.h>
#include <yoke/yoke.h>

#include <filesystem>

#include "sweep.h"
#include "test_paths.h"

namespace yoke::test {
namespace {

constexpr std::string_view kProgram = R"(yoke.program 1
program step(symbol row in 0..4) {
  arg x : f32[4, 8] in
  arg y : f32[8] inout
  y[i] = y[i] + exp(x[row, i])
}
)";

class Memory : public ::testing::TestWithParam<std::tuple<Streams, Which>> {
 protected:
  Memory() {
    options_.log_sink = [](LogLevel, std::string_view) {};
  }
  static Streams streams() { return std::get<0>(GetParam()); }
  static Which which() { return std::get<1>(GetParam()); }

  RuntimeOptions options_ = Rig::with_defaults({});
};

std::string case_name(const ::testing::TestParamInfo<std::tuple<Streams, Which>>& info) {
  return ::testing::PrintToString(std::get<0>(info.param)) + name_of(std::get<1>(info.param));
}

TEST_P(Memory, CreatingARuntimeAndAStream) {
  const auto control = Rig::make_control(streams());
  const yoke_plugin_entry_fn entry = entry_of(0, control);
  std::uint64_t created = 0;
  const auto work = [&] {
    Runtime runtime(options_);
    runtime.register_backend("test0", entry);
    const auto device = runtime.backend("test0")->open_device(0);
    const auto stream = Stream::create(device);
    stream->wait();
    ++created;
  };
  EXPECT_GT(sweep(which(), 1, work, [] {}), 20U);
  EXPECT_GT(created, 0U);
}

TEST_P(Memory, Compiling) {
  Rig rig(Rig::make_control(streams()), options_);
  // Each program has a new name, because equal ones are optimized once in a process.
  static std::uint64_t tries = 0;
  const auto work = [&] {
    const std::string signature(kProgram.substr(kProgram.find('(')));
    compile(rig.device, "yoke.program 1\nprogram step" + std::to_string(tries++) + signature);
  };
  EXPECT_GT(sweep(which(), 23, work, [&] { expect_no_objects(*rig.backend, 1); }), 5U);
  EXPECT_NE(compile(rig.device, kProgram), nullptr);
}

TEST_P(Memory, LinkingAndLaunching) {
  Rig rig(Rig::make_control(streams()), options_);
  const auto code = compile(rig.device, kProgram);
  const std::vector<float> x(32, 0.0F);
  std::vector<float> y(8);
  const auto work = [&] {
    y.assign(8, 2.0F);
    Context context(rig.stream());
    context.init_from_host("x", {YOKE_TYPE_F32, {4, 8}}, bytes(x));
    context.init_from_host("y", {YOKE_TYPE_F32, {8}}, bytes(y));
    const LinkedRoutine routine = context.link(code, "step");
    const std::int64_t row = 3;
    routine.run({&row, 1});
    routine.run({&row, 1});
    context.stream()->host_callback([](ErrorCode) {});
    context.to_host("y", std::as_writable_bytes(std::span(y)));
    const Event event = context.stream()->record();
    context.stream()->wait();
    event.wait();
  };
  const auto check = [&] {
    const yoke_live_counts counts = rig.backend->live_counts();
    EXPECT_EQ(counts.buffers, 0U);
    EXPECT_EQ(counts.streams, 0U);
    EXPECT_EQ(counts.routines, 0U);
  };
  EXPECT_GT(sweep(which(), 1, work, check), 20U);
  EXPECT_EQ(y, std::vector<float>(8, 4.0F));
}

// Copies and launches that wait for work of other streams, on one stream whose queue stays usable.
TEST_P(Memory, QueuingOnStreamsThatWaitForEachOther) {
  Rig rig(Rig::make_control(streams()), options_);
  const auto work = [&] {
    const BufferView a = rig.buffer(64);
    const BufferView b = rig.buffer(64);
    std::array<std::byte, 64> host{};
    const auto first = rig.stream();
    const auto second = rig.stream();
    for (int i = 0; i < 40; ++i) {  // more records than a buffer's list has at first
      first->from_host(part<std::byte>(a, static_cast<std::size_t>(i), 1), host.data());
      second->copy(part<std::byte>(b, static_cast<std::size_t>(i), 1),
                   part<std::byte>(a, static_cast<std::size_t>(i), 1));
    }
    second->wait_for(first->record());
    first->wait();
    second->wait();
  };
  sweep(which(), 1, work, [&] { expect_no_objects(*rig.backend, 1); });
}

TEST_P(Memory, FallingBackToAnotherBackend) {
  options_.fallback_backend = "test1";
  auto control = Rig::make_control(streams());
  control->provides.programs = false;
  Rig rig(control, options_);
  const auto fallback = register_backend(rig.runtime, 1);
  const auto kept = rig.runtime.backend("test1")->open_device(0);
  const auto code = compile(rig.device, kProgram);
  const std::vector<float> x(32, 0.0F);
  std::vector<float> y(8);
  const auto work = [&] {
    y.assign(8, 2.0F);
    Context context(rig.stream());
    context.init_from_host("x", {YOKE_TYPE_F32, {4, 8}}, bytes(x));
    context.init_from_host("y", {YOKE_TYPE_F32, {8}}, bytes(y));
    const std::int64_t row = 3;
    context.link(code, "step").run({&row, 1});
    context.to_host("y", std::as_writable_bytes(std::span(y)));
    context.stream()->wait();
  };
  const auto check = [&] { expect_no_objects(*rig.backend, 1); };
  EXPECT_GT(sweep(which(), 1, work, check), 20U);
  EXPECT_EQ(y, std::vector<float>(8, 3.0F));
}

INSTANTIATE_TEST_SUITE_P(Exhausted, Memory,
                         ::testing::Combine(::testing::Values(Streams::kWorker, Streams::kNative),
                                            ::testing::Values(Which::kOne, Which::kAllFrom)),
                         case_name);

class TrainingMemory : public ::testing::TestWithParam<std::tuple<const char*, Which>> {
 protected:
  TrainingMemory() {
    RuntimeOptions options = Rig::with_defaults({});
    options.plugin_dirs = {test::plugin_folder()};
    options_.runtime = std::make_shared<Runtime>(options);
    register_backend(*options_.runtime, 0);
    options_.backend_name = std::get<0>(GetParam());
    options_.shards = 2;
    options_.learning_rate = 0.1F;
    options_.optimizer = Sgd{.momentum = 0.9};
    backend_ = options_.runtime->backend(options_.backend_name);
  }
  static Which which() { return std::get<1>(GetParam()); }
  // Trains on two shards. Returns the loss of the last step.
  double train(const std::function<void(Trainer&)>& body = {}) const {
    const Tensor inputs = tensor<float>({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2});
    const Tensor targets = tensor<float>({1, 2, 3, 4}, {4, 1});
    const auto model = nn::sequential(nn::linear(3), nn::relu(), nn::linear(1));
    double loss = 0;
    data_parallel(
        options_, inputs, targets, [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); },
        [&](Trainer& trainer) {
          if (body) {
            body(trainer);
          }
          trainer.step();
          trainer.step();
          loss = trainer.loss_value();
        });
    return loss;
  }

  DataParallelOptions options_;
  std::shared_ptr<Backend> backend_;
};

TEST_P(TrainingMemory, AWholeTrainingRun) {
  const double expected = train();
  const std::uint64_t before = allocation_count();
  (void)train();
  const std::uint64_t stride = std::max<std::uint64_t>((allocation_count() - before) / 97, 1);
  const auto check = [&] { expect_no_objects(*backend_, 0); };
  EXPECT_GT(sweep(
                which(), stride, [&] { (void)train(); }, check),
            50U / kSparse);
  EXPECT_EQ(train(), expected);
}

TEST_P(TrainingMemory, ATrainingStep) {
  const double expected = train();
  const std::uint64_t last = options_.backend_name == "cc" ? 3 : 40;
  for (std::uint64_t first = 0; first < last; ++first) {
    bool has_failed = false;
    try {
      (void)train([&](Trainer& trainer) {
        const FailAllocations failing(first, which());
        trainer.step();
        trainer.wait();
      });
    } catch (const Error& error) {
      has_failed = true;
      EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.what();
    } catch (const std::bad_alloc&) {
      has_failed = true;
    }
    EXPECT_TRUE(has_failed || options_.backend_name == "cc") << first;  // cc allocates nothing in a step
    expect_no_objects(*backend_, 0);
  }
  EXPECT_EQ(train(), expected);
}

INSTANTIATE_TEST_SUITE_P(Exhausted, TrainingMemory,
                         ::testing::Combine(::testing::Values("test0", "cc"),
                                            ::testing::Values(Which::kOne, Which::kAllFrom)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param)) +
                                  (std::get<1>(tested.param) == Which::kOne ? "OneCall" : "AllCallsFrom");
                         });

// ---- finding plugins ----

class DiscoveryMemory : public ::testing::TestWithParam<Which> {
 protected:
  DiscoveryMemory() {
    options_.plugin_dirs = {plugin_folder()};
    options_.search_environment = false;
    options_.log_sink = [](LogLevel, std::string_view) {};
    options_.probe.which = ProbeOptions::Which::kNone;
    options_.probe.cache_dir = cache_;
  }
  ~DiscoveryMemory() override { std::filesystem::remove_all(cache_); }

  static std::vector<std::string> usable_in(const Runtime& runtime) {
    std::vector<std::string> names;
    for (const BackendCandidate& candidate : runtime.list_backends()) {
      if (candidate.usable) {
        names.push_back(candidate.name);
      }
    }
    return names;
  }

  const std::filesystem::path cache_ =
      std::filesystem::temp_directory_path() / ("yoke-verdicts-" + std::to_string(::getpid()));
  RuntimeOptions options_;
};

TEST_P(DiscoveryMemory, ListingBackendsSurvivesFailedAllocations) {
  const std::vector<std::string> expected = usable_in(Runtime(options_));
  ASSERT_FALSE(expected.empty());
  std::vector<std::string> found;
  const auto work = [&] { found = usable_in(Runtime(options_)); };
  const auto check = [&] { EXPECT_EQ(usable_in(Runtime(options_)), expected); };
  EXPECT_GT(sweep(GetParam(), 1, work, check), 20U);
  EXPECT_EQ(found, expected);  // the last run had enough memory
}

// The child process has enough memory. A plugin that this process cannot check now is not refused later.
TEST_P(DiscoveryMemory, FailedAllocationWhileProbingIsNotARefusal) {
  options_.probe.which = ProbeOptions::Which::kAll;
  const auto work = [&] { (void)Runtime(options_).backend("cc"); };
  const auto check = [&] {
    EXPECT_EQ(Runtime(options_).backend("cc")->name(), "cc");
    std::filesystem::remove_all(cache_);  // the next run probes again
  };
  EXPECT_GT(sweep(GetParam(), 3, work, check), 10U);
}

INSTANTIATE_TEST_SUITE_P(Exhausted, DiscoveryMemory, ::testing::Values(Which::kOne, Which::kAllFrom),
                         [](const auto& tested) { return name_of(tested.param); });

// A long chain of nodes is destroyed without recursion and without allocating.
TEST(DestroyingAnExpression, NeedsNoMemory) {
  Tensor x = placeholder("x", Type::kF32, {2});
  for (int i = 0; i < 100000; ++i) {
    x = x + 1.0F;
  }
  const Tensor shared = x * x;
  const FailAllocations failing(0, Which::kAllFrom);
  x = Tensor();
  const_cast<Tensor&>(shared) = Tensor();
  EXPECT_EQ(FailAllocations::call_count(), 0U);
}

}  // namespace
}  // namespace yoke::test
