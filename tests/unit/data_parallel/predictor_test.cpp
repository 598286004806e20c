// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/predictor_test.cpp: a Predictor gives the same bits as the trainer whose parameters it has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../data/test_files.h"
#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;
using test::TemporaryFolder;
using test::values_of;

constexpr std::uint64_t kRows = 20;

// With running state, which a prediction must use, and dropout, which it must not.
nn::Module make_model() {
  return nn::sequential(nn::linear(6), nn::batch_norm(), nn::dropout(0.5), nn::linear(2));
}

PredictorOptions predictor_options() {
  return {.backend_name = backend_name(), .runtime = test_runtime()};
}

std::vector<float> floats(const Tensor& t) {
  return values_of<float>(t.host_bytes());
}

class PredictorTest : public ::testing::Test {
 protected:
  PredictorTest() {
    const Tensor y = tensor(some_numbers(kRows * 2, 2), {kRows, 2});
    DataParallelOptions options = options_for(2, 0.1F);
    options.batch_size = 8;
    data_parallel(
        options, x_, y, [&](const Tensor& a, const Tensor& b) { return mse(model_(a), b); },
        [&](Trainer& trainer) {
          trainer.run_epoch();
          CheckpointFolder(folder_.path()).save(trainer);
          expected_ = floats(trainer.predict(model_, x_, 7));
        });
  }

  TemporaryFolder folder_;
  nn::Module model_ = make_model();
  Tensor x_ = tensor(some_numbers(kRows * 3, 1), {kRows, 3});
  std::vector<float> expected_;
};

TEST_F(PredictorTest, CheckpointGivesTheBitsOfTheTrainer) {
  const nn::Module fresh = make_model();
  Predictor predictor(folder_.path(), fresh, predictor_options());
  const Tensor given = predictor.predict(x_, 7);  // the last part has 6 rows
  EXPECT_EQ(given.dims(), (Dims{kRows, 2}));
  EXPECT_EQ(floats(given), expected_);
  EXPECT_EQ(floats(predictor.predict(x_, 7)), expected_);  // without compiling again
  EXPECT_FALSE(nn::parameters(fresh)[0].has_values());
  EXPECT_EQ(predictor.device_name(), std::string(backend_name()) + ":0");
}

TEST_F(PredictorTest, DeviceOptionsMayHaveThePrefixOfTheBackend) {
  PredictorOptions options = predictor_options();
  options.device_options = {{options.backend_name + ".memory_limit", std::int64_t{1} << 30U},
                            {"memory_limit", std::int64_t{1}}};
  EXPECT_EQ(floats(Predictor(folder_.path(), model_, options).predict(x_, 7)), expected_);
  options.device_options = {{"other.memory_limit", std::int64_t{1} << 30U}};
  EXPECT_THAT(error_of([&] { Predictor(folder_.path(), model_, options); }),
              is_error(ErrorCode::kInvalidArgument, "'other' is not a backend of this run"));
}

TEST_F(PredictorTest, TrainedModelGivesTheBitsOfTheTrainer) {
  EXPECT_EQ(floats(Predictor(model_, predictor_options()).predict(x_, 7)), expected_);
}

TEST_F(PredictorTest, FunctionOfAPartOfTheModelAndScalarsWorks) {
  const auto first = [model = make_model(), factor = scalar("factor", 2)](const Tensor& x) {
    return model(x) * factor.tensor() + tensor<float>({1, 2}, {2});
  };
  const std::vector<float> given =
      floats(Predictor(folder_.path(), first, predictor_options()).predict(x_, 7));
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_FLOAT_EQ(given[i], 2 * expected_[i] + (i % 2 == 0 ? 1.0F : 2.0F));
  }
}

TEST_F(PredictorTest, ModelOfABatchUsesItsFields) {
  const auto model = [module = make_model()](const Batch& batch) {
    return module(batch["inputs"]) * batch["factor"];
  };
  Predictor predictor(folder_.path(), model, predictor_options());
  const Tensor factors = tensor(std::vector<float>(kRows, 3), {kRows, 1});
  const std::vector<float> given = floats(predictor.predict(Batch{{"inputs", x_}, {"factor", factors}}, 7));
  ASSERT_EQ(given.size(), expected_.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_FLOAT_EQ(given[i], 3 * expected_[i]);
  }
  EXPECT_THAT(error_of([&] { (void)predictor.predict(x_); }), is_error(ErrorCode::kNotFound, "factor"));
}

class Twice final : public nn::Layer {
 public:
  Tensor forward(const Tensor& x) const { return x * 2.0F; }
};

TEST_F(PredictorTest, TrainerPredictsWithAHandle) {
  DataParallelOptions options = options_for(1, 0.1F);
  const Tensor y = tensor(some_numbers(kRows * 2, 2), {kRows, 2});
  data_parallel(
      options, x_, y, [&](const Tensor& a, const Tensor& b) { return mse(model_(a), b); },
      [&](Trainer& trainer) {
        const Tensor given = trainer.predict(nn::make<Twice>(), tensor<float>({1, 2}, {2}));
        EXPECT_EQ(floats(given), (std::vector<float>{2, 4}));
      });
}

// Neither may be asked whether it takes a batch.
TEST_F(PredictorTest, HandlesAndGenericFunctionsAreModels) {
  const nn::Handle<nn::Embedding> table = nn::embedding(3, 2);
  const Parameter values = nn::parameters(table).front();
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  values.set_values(std::as_bytes(std::span(numbers)));
  const Tensor ids = tensor<std::int32_t>({2, 0}, {2});
  EXPECT_EQ(floats(Predictor(table, predictor_options()).predict(ids)), (std::vector<float>{5, 6, 1, 2}));
  const auto twice = [](const auto& x) { return x * 2.0; };
  EXPECT_EQ(floats(Predictor(twice, predictor_options()).predict(tensor<float>({1, 2}, {2}))),
            (std::vector<float>{2, 4}));
}

TEST_F(PredictorTest, OptimizerStatesAreNotNeeded) {
  std::filesystem::remove(folder_ / "latest/optimizer.safetensors");
  EXPECT_EQ(floats(Predictor(folder_.path(), make_model(), predictor_options()).predict(x_, 7)), expected_);
  EXPECT_THROW((void)load_checkpoint(folder_.path()), Error);
}

TEST_F(PredictorTest, WrongValuesAreErrors) {
  const auto predict = [&](const nn::Module& model) {
    return error_of([&] { (void)Predictor(folder_.path(), model, predictor_options()).predict(x_); });
  };
  EXPECT_THAT(predict(nn::sequential(nn::linear(5))),
              is_error(ErrorCode::kInvalidArgument, "'0.weight' are f32[6, 3], but the model has f32[5, 3]"));
  EXPECT_THAT(predict(nn::sequential(nn::linear(6), nn::linear(5))),
              is_error(ErrorCode::kInvalidArgument, "'1.weight'"));
  EXPECT_THAT(predict(nn::sequential(nn::linear(6), nn::relu(), nn::linear(5))),
              is_error(ErrorCode::kInvalidArgument, "'2.weight' has no values"));
  const auto symbol = [](const Tensor& x) { return x * cast(symbol_value(step_symbol()), Type::kF32); };
  EXPECT_THAT(error_of([&] { (void)Predictor(symbol, predictor_options()).predict(x_); }),
              is_error(ErrorCode::kInvalidArgument, "uses the symbol"));
  EXPECT_THAT(error_of([&] { (void)Predictor(make_model(), predictor_options()).predict(x_); }),
              is_error(ErrorCode::kInvalidArgument, "'0.weight' has no values"));
  const std::string file = folder_ / "latest/weights.safetensors";
  std::string bytes = test::read_whole(file);
  bytes[bytes.size() / 2] ^= 1;
  test::write_file(file, bytes);
  EXPECT_THAT(predict(make_model()), is_error(ErrorCode::kDataLoss, "its checksum is wrong"));
}

}  // namespace
}  // namespace yoke::testing
