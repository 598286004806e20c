// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/frontend_memory_test.cpp: operator new fails while the frontend lowers, predicts, feeds,
// exchanges tensors, and reads and writes files. The result is std::bad_alloc or an Error, and the next attempt
// succeeds.
#include <sys/resource.h>
#include <yoke/output_file.h>
#include <yoke/program/text.h>
#include <yoke/runtime/dlpack.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <utility>

#include "sweep.h"

namespace yoke::test {
namespace {

namespace fs = std::filesystem;

class FrontendMemory : public ::testing::TestWithParam<Which> {};

// About 97 runs.
std::uint64_t stride_of(const std::function<void()>& work) {
  work();  // with what is allocated only once
  const std::uint64_t before = allocation_count();
  work();
  return std::max<std::uint64_t>((allocation_count() - before) / 97, 1);
}

TEST_P(FrontendMemory, Lowering) {
  const nn::Module model = nn::sequential(nn::linear(3), nn::relu(), nn::linear(1));
  const Tensor x = placeholder("x", Type::kF32, {4, 2});
  const auto square = [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * in[0]}; };
  const auto total = [](const auto& carry, const auto& row) { return Scan{{carry[0] + row[0]}, {carry[0]}}; };
  std::string text;
  const auto work = [&] {
    const Tensor y = composite({.name = "square", .forward = square}, {model(x)})[0];
    const Tensor loss = sum(cumsum(y)) + sum(scan(total, {zeros(Type::kF32, {1})}, {y}).carry[0]);
    const GradUpdate update = grad_update(loss);
    const Lowered lowered = sgd_update(update, 0.1F, {.momentum = 0.9});
    text = program::print(update.lowered.program) + program::print(lowered.program);
  };
  const std::uint64_t stride = stride_of(work);
  const std::string expected = std::exchange(text, {});
  const auto check = [&] {
    work();
    EXPECT_EQ(text, expected);
  };
  EXPECT_GT(sweep(GetParam(), stride, work, check), 50U / kSparse);
}

// Of the fake backend's buffer_create: what the call does when `calls_left` is 0.
struct AtBuffer {
  static inline std::int64_t calls_left = -1;
  static inline std::function<std::int32_t()> act;

  static std::int32_t create(yoke_device* device, const yoke_buffer_args* args, yoke_buffer** out,
                             yoke_error* error) {
    const std::int32_t status = calls_left-- == 0 ? act() : YOKE_STATUS_OK;
    return status != YOKE_STATUS_OK ? status
                                    : sdk::detail::kBackendTable.buffer_create(device, args, out, error);
  }
};

// A model with parameters, a literal and a scalar.
class Prediction {
 public:
  Prediction() {
    const auto control = std::make_shared<Control>();
    control->backend.buffer_create = AtBuffer::create;
    register_backend(*options_.runtime, 0, control);
    backend_ = options_.runtime->backend("test0");
    make();
  }
  void make() { predictor_.emplace(weights_, model_, options_); }
  std::vector<double> operator()(std::int64_t rows = 2) {
    return host_values(predictor_->predict(inputs_, rows));
  }
  // After a failure, another call has the right result, or says that the stream has failed. Then starts anew.
  void check() {
    try {
      EXPECT_EQ((*this)(), (std::vector<double>{66, 74}));
      ++repeated_;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.what();
    }
    predictor_.reset();
    expect_no_objects(*backend_, 0);
    make();
  }
  std::uint64_t repeated() const { return repeated_; }  // how often the other call succeeded

 private:
  static std::vector<std::byte> bytes_of(const std::vector<float>& values) {
    const auto all = bytes(values);
    return {all.begin(), all.end()};
  }

  const Tensor inputs_ = tensor<float>({1, 2, 3, 4}, {2, 2});
  const std::vector<NamedArray> weights_ = {{"weight", Type::kF32, {1, 2}, bytes_of({1, 1})},
                                            {"bias", Type::kF32, {1}, bytes_of({0})}};
  const std::function<Tensor(const Tensor&)> model_ =
      [layer = nn::linear(1), offsets = tensor<float>({10, 20}, {1, 2}, "offsets"),
       scale = scalar("scale", 2)](const Tensor& x) { return layer(x + offsets) * scale; };
  PredictorOptions options_ = {.backend_name = "test0",
                               .runtime = std::make_shared<Runtime>(Rig::with_defaults({}))};
  std::shared_ptr<Backend> backend_;
  std::optional<Predictor> predictor_;
  std::uint64_t repeated_ = 0;
};

TEST_P(FrontendMemory, Predicting) {
  Prediction predict;
  const std::uint64_t stride = stride_of([&] {
    predict.make();
    (void)predict();
  });
  predict.make();
  const auto check = [&] { predict.check(); };
  EXPECT_GT(sweep(
                GetParam(), stride, [&] { (void)predict(); }, check),
            30U / kSparse);
  EXPECT_GT(predict.repeated(), 30U / kSparse);
  const auto whole = [&] {
    predict.make();
    (void)predict(1);
  };
  EXPECT_GT(sweep(GetParam(), stride_of(whole), whole, [&] { predict.make(); }), 30U / kSparse);
}

// All that a Predictor does from each of its allocations on the device on.
TEST_P(FrontendMemory, UploadingForPredictions) {
  Prediction predict;
  const std::int64_t usual = 1000;
  AtBuffer::calls_left = usual;
  (void)predict();
  const std::int64_t buffers = usual - std::exchange(AtBuffer::calls_left, -1);
  EXPECT_GT(buffers, 4);
  std::optional<FailAllocations> failing;
  std::uint64_t failed = 0;
  for (std::int64_t buffer = 0; buffer < buffers && !HasFailure(); ++buffer) {
    for (std::uint64_t first = 0; first < rounds(24); ++first) {
      SCOPED_TRACE("call " + std::to_string(first) + " of operator new after buffer " +
                   std::to_string(buffer));
      predict.make();
      AtBuffer::act = [&] {
        failing.emplace(first, GetParam());
        return YOKE_STATUS_OK;
      };
      AtBuffer::calls_left = buffer;
      try {
        (void)predict();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.what();
        ++failed;
      } catch (const std::bad_alloc&) {
        ++failed;
      }
      failing.reset();
      predict.check();
    }
  }
  EXPECT_GT(failed, 60U / kSparse);
  EXPECT_GT(predict.repeated(), 30U / kSparse);
}

TEST(DeviceMemory, PredictingAfterItRanOut) {
  Prediction predict;
  AtBuffer::act = [] { return YOKE_STATUS_OUT_OF_DEVICE_MEMORY; };
  std::int64_t buffer = 0;
  for (bool has_failed = true; has_failed; ++buffer) {
    SCOPED_TRACE(buffer);
    predict.make();
    AtBuffer::calls_left = buffer;
    try {
      (void)predict();
      has_failed = false;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfDeviceMemory) << error.what();
    }
    AtBuffer::calls_left = -1;
    predict.check();
  }
  EXPECT_EQ(predict.repeated(), static_cast<std::uint64_t>(buffer));
  EXPECT_GT(buffer, 5);
}

// A step that fails for lack of memory can be repeated; the feed is asked for the same batches.
TEST_P(FrontendMemory, Feeding) {
  RuntimeOptions options = Rig::with_defaults({});
  const auto runtime = std::make_shared<Runtime>(options);
  register_backend(*runtime, 0);
  const auto backend = runtime->backend("test0");
  const auto train = [&](std::uint64_t first) {
    const nn::Module model =
        nn::linear(1, {.weight_init = Initializer::zeros(), .bias_init = Initializer::zeros()});
    const auto next = [](std::int64_t number) {
      const auto base = static_cast<float>(number);
      return Batch(tensor<float>({base, 2, 3, base}, {2, 2}), tensor<float>({1, base}, {2, 1}));
    };
    const Feed feed({YOKE_TYPE_F32, {8, 2}}, {YOKE_TYPE_F32, {8, 1}}, next);
    DataParallelOptions training;
    training.runtime = runtime;
    training.backend_name = "test0";
    training.shards = 2;
    training.batch_size = 2;
    training.learning_rate = 0.01F;
    const auto loss_of = [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); };
    bool has_failed = false;
    data_parallel(training, feed, loss_of, [&](Trainer& trainer) {
      trainer.step();
      try {
        const FailAllocations failing(first, GetParam());
        trainer.step();
      } catch (const Error& error) {
        has_failed = true;
        EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.what();
      } catch (const std::bad_alloc&) {
        has_failed = true;
      }
      while (trainer.step_count() < 4) {
        trainer.step();
      }
      trainer.wait();
    });
    return std::pair(host_values(nn::parameters(model).at(0).tensor()), has_failed);
  };
  const auto expected = train(1U << 30U).first;
  for (std::uint64_t first = 0; first < 80 && !HasFailure(); ++first) {
    SCOPED_TRACE("call " + std::to_string(first) + " of operator new fails");
    try {
      EXPECT_EQ(train(first).first, expected);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.what();
    }
    expect_no_objects(*backend, 0);
  }
}

TEST_P(FrontendMemory, ExchangingTensorsByDlpack) {
  auto control = std::make_shared<Control>();
  control->provides.memory = true;
  control->device_info.host_visible = true;
  RuntimeOptions options;
  options.log_sink = [](LogLevel, std::string_view) {};
  const Rig rig(control, options);
  std::uint64_t exchanged = 0;
  const auto work = [&] {
    Context context(rig.stream());
    const ContextTensor& tensor = context.init_zeros("x", {YOKE_TYPE_F32, {2, 3}});
    context.stream()->wait();
    Context other(context.stream());
    auto* const shared = to_dlpack(tensor);
    shared->flags |= dlpack::kDLReadOnly;
    try {
      from_dlpack(other, "y", shared);
      ++exchanged;
    } catch (...) {
      shared->deleter(shared);
      throw;
    }
  };
  EXPECT_GT(sweep(GetParam(), 1, work, [&] { expect_no_objects(*rig.backend, 1); }), 20U);
  EXPECT_GT(exchanged, 0U);
}

// ---- files ----

class FileMemory : public FrontendMemory {
 protected:
  FileMemory() { fs::create_directory(folder_); }
  ~FileMemory() override { fs::remove_all(folder_); }
  // The names in a folder, sorted.
  static std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  static std::vector<NamedArray> arrays(std::uint8_t value) {
    const std::vector<std::byte> bytes(400, std::byte{value});
    return {
        {"a", Type::kF32, {10, 10}, bytes}, {"b", Type::kBF16, {200}, bytes}, {"c", Type::kU8, {400}, bytes}};
  }

  const fs::path folder_ = fs::temp_directory_path() / ("yoke-memory-" + std::to_string(::getpid()));
};

TEST_P(FileMemory, SavingAndLoadingArrays) {
  for (const std::string name : {"arrays.npz", "arrays.safetensors"}) {
    SCOPED_TRACE(name);
    const fs::path file = folder_ / name;
    const auto save_as = [&](std::uint8_t value) {
      return [&file, given = arrays(value)] {
        if (is_safetensors(file)) {
          save_safetensors(file, given, {{"key", "value"}, {"other", "\"text\""}});
        } else {
          save_npz(file, given);
        }
      };
    };
    save_as(1)();
    const auto check = [&] {
      EXPECT_EQ(names_in(folder_), std::vector<std::string>{name});
      const std::vector<NamedArray> loaded = load_arrays(file);
      ASSERT_EQ(loaded.size(), 3U);
      const std::vector<NamedArray> expected = arrays(static_cast<std::uint8_t>(loaded[0].bytes[0]));
      for (std::size_t i = 0; i < loaded.size(); ++i) {  // of one save
        EXPECT_EQ(loaded[i].bytes, expected[i].bytes);
      }
    };
    EXPECT_GT(sweep(GetParam(), 1, save_as(2), check), 10U);
    EXPECT_EQ(load_arrays(file)[0].bytes, arrays(2)[0].bytes);
    EXPECT_GT(sweep(
                  GetParam(), 1, [&] { (void)load_arrays(file); }, check),
              10U);
    fs::remove(file);
  }
}

TEST_P(FileMemory, SavingAndLoadingCheckpoints) {
  TrainerState state;
  state.bindings = {1, 2, 3};
  state.optimizer_name = "sgd";
  state.backends = {"cc", "cuda"};
  state.parameters = arrays(1);
  state.optimizer = arrays(2);
  CheckpointFolder folder(folder_ / "run", 2);
  const auto load = [&] {
    const Checkpoint loaded = load_checkpoint(folder_ / "run");
    EXPECT_EQ(loaded.state.step, state.step);
    EXPECT_EQ(loaded.state.bindings, state.bindings);
    EXPECT_EQ(loaded.state.backends, state.backends);
    EXPECT_EQ(loaded.state.parameters.size(), 3U);
    EXPECT_EQ(loaded.notes.at("model"), "mlp:\"3\"");
  };
  const auto save = [&] { folder.save(state, {{"model", "mlp:\"3\""}, {"other", "text"}}); };
  state.step = 1;
  save();
  state.step = 2;
  const auto check = [&] {
    const Checkpoint loaded = load_checkpoint(folder_ / "run");  // the one before, or the new one
    EXPECT_TRUE(loaded.state.step == 1 || loaded.state.step == 2) << loaded.state.step;
    EXPECT_EQ(loaded.state.optimizer.size(), 3U);
  };
  EXPECT_GT(sweep(GetParam(), 1, save, check), 30U);
  EXPECT_GT(sweep(GetParam(), 1, load, check), 30U);
  load();
}

// The file's limit is reached, and no memory is left to say so.
TEST_P(FileMemory, AFullDiskIsNotForgotten) {
  const fs::path file = folder_ / "text";
  const std::string text(100000, 'x');
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &usual), 0);
  const auto work = [&] {
    OutputFile output(file);
    const rlimit small{1000, usual.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    output.stream() << text;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &usual), 0);
    output.commit();
    FAIL() << "a part of the text was saved";
  };
  const auto check = [&] { EXPECT_TRUE(names_in(folder_).empty()); };
  for (std::uint64_t first = 0; first < 40; ++first) {
    const FailAllocations failing(first, GetParam());
    EXPECT_ANY_THROW(work());
  }
  check();
  std::signal(SIGXFSZ, before);
}

constexpr auto kCaseName = [](const auto& tested) { return name_of(tested.param); };
INSTANTIATE_TEST_SUITE_P(Exhausted, FrontendMemory, ::testing::Values(Which::kOne, Which::kAllFrom),
                         kCaseName);
INSTANTIATE_TEST_SUITE_P(Exhausted, FileMemory, ::testing::Values(Which::kOne, Which::kAllFrom), kCaseName);

}  // namespace
}  // namespace yoke::test
