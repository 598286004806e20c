// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/batch_test.cpp: batches of named fields, and metrics beside the loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;

constexpr std::uint64_t kRows = 22;  // two batches of 9 rows, and one of 4
constexpr std::uint64_t kBatch = 9;
constexpr std::uint64_t kWidth = 3;

// The rows of three fields; "side" is an integer tensor that has no target.
Batch part_of(std::uint64_t begin, std::uint64_t count) {
  const auto part = [&](std::uint64_t width, std::uint32_t seed) {
    const std::vector<float> all = some_numbers(kRows * width, seed);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin * width);
    return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(count * width));
  };
  std::vector<std::int32_t> sides(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    sides[i] = static_cast<std::int32_t>((begin + i) % 4);
  }
  return {{"x", tensor(part(kWidth, 1), {count, kWidth})},
          {"side", tensor(sides, {count})},
          {"y", tensor(part(1, 2), {count, 1})}};
}

Batch batch_of(std::int64_t number) {
  const std::uint64_t begin = static_cast<std::uint64_t>(number) % 3 * kBatch;
  return part_of(begin, std::min(kBatch, kRows - begin));
}

Feed feed() {
  std::vector<Feed::FieldSpec> specs;
  for (const auto& [name, tensor] : part_of(0, kRows).fields()) {
    specs.push_back({name, {static_cast<std::int32_t>(tensor.type()), tensor.dims()}});
  }
  return {specs, batch_of};
}

// The mean of "side" over the rows of a step's batch.
double mean_side(std::int64_t step) {
  const Batch batch = batch_of(step);
  double sum = 0;
  for (const double side : host_values(batch["side"])) {
    sum += side;
  }
  return sum / static_cast<double>(batch.row_count());
}

struct Model {
  nn::Module layer = nn::linear(1);
  nn::Module table = nn::named("table", nn::embedding(4, 1));

  Tensor operator()(const Batch& batch) const { return layer(batch["x"]) + table(batch["side"]); }
  Loss loss(const Batch& batch) const {
    const Tensor error = square((*this)(batch)-batch["y"]);
    return {
        mean(error),
        {{"side", mean(cast(batch["side"], Type::kF32))}, {"largest", max(error)}, {"loss", mean(error)}}};
  }
};

struct Outcome {
  std::vector<double> losses;
  std::vector<float> values;
};

using Change = std::function<void(DataParallelOptions&)>;

Outcome run(std::int64_t shards, bool fed, const Change& change = {}) {
  const Model model;
  DataParallelOptions options = options_for(shards, 0.1F);
  options.batch_size = kBatch;
  options.optimizer = Sgd{.momentum = 0.9};
  if (change) {
    change(options);
  }
  const auto loss_of = [&](const Batch& batch) { return model.loss(batch); };
  const auto body = [&](Trainer& trainer) {
    Outcome outcome;
    for (std::int64_t step = 0; step < 7; ++step) {
      trainer.step();
      outcome.losses.push_back(trainer.loss_value());
      EXPECT_NEAR(trainer.metric_value("side"), mean_side(step), 1e-6) << shards << " shards, step " << step;
      if (options.reduction == Reduction::kMean) {
        EXPECT_NEAR(trainer.metric_value("loss"), outcome.losses.back(), 1e-6);
      }
    }
    outcome.values = all_values(trainer);
    return outcome;
  };
  return fed ? data_parallel(options, feed(), loss_of, body)
             : data_parallel(options, part_of(0, kRows), loss_of, body);
}

void expect_near(const Outcome& got, const Outcome& expected, const std::string& what) {
  ASSERT_EQ(got.values.size(), expected.values.size());
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    EXPECT_NEAR(got.values[i], expected.values[i], 1e-5) << what;  // 7 steps of sums of 9 f32 terms
  }
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-5) << what;
  }
}

TEST(NamedFields, TrainOnEveryNumberOfShardsAndReportMetrics) {
  const Outcome one = run(1, false);
  EXPECT_LT(one.losses[6], one.losses[0]);
  for (const bool fed : {false, true}) {
    const std::string what = fed ? "fed" : "in memory";
    for (const std::int64_t shards : {1, 2, 3}) {
      expect_near(run(shards, fed), one, what);
      expect_near(run(shards, fed, [](DataParallelOptions& o) { o.varying_rows = true; }), one,
                  what + ", varying");
      expect_near(run(shards, fed, [](DataParallelOptions& o) { o.accumulate = 2; }), one,
                  what + ", accumulate");
      expect_near(
          run(shards, fed, [](DataParallelOptions& o) { o.on_device_lost = OnDeviceLost::kRedistribute; }),
          one, what + ", redistribute");
    }
    expect_near(run(2, fed, [](DataParallelOptions& o) { o.reproducible = 4; }), one,
                what + ", reproducible");
    expect_near(run(2, fed, [](DataParallelOptions& o) { o.overlap = Overlap::kOn; }), one,
                what + ", overlap");
  }
  for (const bool varying : {false, true}) {
    run(3, false, [&](DataParallelOptions& o) {
      o.reduction = Reduction::kSum;
      o.learning_rate = 0.01F;
      o.varying_rows = varying;
    });
  }
}

TEST(NamedFields, AreTheTwoTensorsIfNamedSo) {
  const Tensor x = tensor(some_numbers(8, 1), {8, 1});
  const Tensor y = tensor(some_numbers(8, 2), {8, 1});
  const auto run_with = [&](const LossOf& loss_of) {
    return data_parallel(options_for(2, 0.1F), Batch{{"inputs", x}, {"targets", y}}, loss_of,
                         [](Trainer& trainer) {
                           trainer.step();
                           trainer.step();
                           return trainer.loss_value();
                         });
  };
  const Parameter w("w", {}, Initializer::constant(2));
  const Parameter v("w", {}, Initializer::constant(2));
  const double two = run_with([&](const Tensor& a, const Tensor& b) { return mse(a * w.tensor(), b); });
  EXPECT_EQ(run_with([&](const Batch& b) { return mse(b["inputs"] * v.tensor(), b["targets"]); }), two);
}

TEST(NamedFields, AreReplacedPredictedAndEvaluated) {
  const Model model;
  DataParallelOptions options = options_for(2, 0.1F);
  const auto loss_of = [&](const Batch& batch) { return model.loss(batch); };
  data_parallel(options, part_of(0, 8), loss_of, [&](Trainer& trainer) {
    const Batch other{{"y", part_of(8, 8)["y"]}, {"x", part_of(8, 8)["x"]}, {"side", part_of(8, 8)["side"]}};
    trainer.set_batch(other);  // in any order
    const auto mean_error = [&](const Batch& batch) {
      return std::vector<Tensor>{mean(square(model(batch) - batch["y"])),
                                 mean(cast(batch["side"], Type::kF32))};
    };
    Evaluation evaluation = trainer.evaluation(other, mean_error, 3);
    const std::vector<double> before = evaluation.run();
    const Tensor outputs = trainer.predict([&](const Batch& batch) { return model(batch); }, other, 3);
    trainer.step();
    EXPECT_NEAR(trainer.loss_value(), before[0], 1e-6);
    EXPECT_DOUBLE_EQ(before[1], 1.5);
    double error = 0;
    const std::vector<double> y = host_values(other["y"]);
    const std::vector<double> predicted = host_values(outputs);
    ASSERT_EQ(predicted.size(), 8U);
    for (std::size_t i = 0; i < 8; ++i) {
      error += (predicted[i] - y[i]) * (predicted[i] - y[i]) / 8;
    }
    EXPECT_NEAR(error, before[0], 1e-6);

    EXPECT_THAT(error_of([&] {
                  trainer.set_batch(Batch{{"x", other["x"]}});
                }),
                is_error(ErrorCode::kInvalidArgument, "the batch has no field 'side'; it has x"));
    std::vector<Field> more = other.fields();
    more.push_back({"more", other["x"]});
    EXPECT_THAT(error_of([&] { trainer.set_batch(Batch(more)); }),
                is_error(ErrorCode::kInvalidArgument, "has 4 fields; the run has 3"));
  });
}

TEST(NamedFields, AreShuffledTogether) {
  const Feed shuffled_fields = shuffled(part_of(0, kRows), kBatch, 5);
  for (std::int64_t number = 0; number < 3; ++number) {
    const Batch batch = shuffled_fields.next(number);
    const std::vector<double> sides = host_values(batch["side"]);
    const std::vector<double> y = host_values(batch["y"]);
    const std::vector<double> all = host_values(part_of(0, kRows)["y"]);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto row = static_cast<std::size_t>(std::find(all.begin(), all.end(), y[i]) - all.begin());
      ASSERT_LT(row, kRows);
      EXPECT_EQ(sides[i], static_cast<double>(row % 4));
    }
  }
}

TEST(NamedFields, WrongOnesAreErrors) {
  const Parameter w("w", {}, Initializer::constant(1));
  const auto error_with = [&](const Batch& data, const LossOf& loss_of) {
    return error_of([&] { data_parallel(options_for(2, 0.1F), data, loss_of, [](Trainer&) {}); });
  };
  const auto loss = [&](const Batch& batch) { return mean(batch["x"] * w.tensor()); };
  const Tensor x = tensor(some_numbers(4, 1), {4});
  const auto is_invalid = [](const char* text) { return is_error(ErrorCode::kInvalidArgument, text); };
  EXPECT_THAT(error_with({}, loss), is_invalid("the data has no fields"));
  EXPECT_THAT(error_with({{"x", x}, {"y", tensor(some_numbers(3, 1), {3})}}, loss),
              is_invalid("x has 4 rows, but y has 3; all fields must have the same number of rows"));
  EXPECT_THAT(error_with({{"x", x}, {"x", x}}, loss),
              is_invalid("the name 'x' of a field is reserved, empty or used twice"));
  EXPECT_THAT(error_with({{"x", x}, {"loss", x}}, loss),
              is_invalid("the name 'loss' of a field is reserved"));
  for (const char* name : {"", "gradient_0", "metric_0", "momentum/w"}) {
    EXPECT_THAT(error_with({{"x", x}, {name, x}}, loss),
                is_invalid("is reserved, empty or used twice, or contains '/'"));
  }
  for (const char* name : {"carried/w", "metric/w"}) {
    const Parameter named(name, {}, Initializer::constant(1));
    EXPECT_THAT(error_with({{"x", x}}, [&](const Batch& batch) { return mean(batch["x"] * named.tensor()); }),
                is_invalid((std::string("two tensors are named '") + name + "'").c_str()));
  }
  EXPECT_THAT(error_with({{"x", x}, {"w", x}}, loss), is_invalid("two tensors are named 'w'"));
  EXPECT_THAT(error_with({{"z", x}}, loss),
              is_error(ErrorCode::kNotFound, "the batch has no field 'x'; it has z"));
  EXPECT_THAT(error_with({{"x", x}}, [&](const Tensor& a, const Tensor&) { return mean(a * w.tensor()); }),
              is_error(ErrorCode::kNotFound, "the batch has no field 'inputs'; it has x"));
}

TEST(NamedFields, TheResultOfBodyIsReturned) {
  const Parameter w("w", {}, Initializer::constant(1));
  const int result = data_parallel(
      options_for(1, 0.1F), {{"x", tensor(some_numbers(4, 1), {4})}},
      [&](const Batch& batch) { return mean(batch["x"] * w.tensor()); }, [](Trainer&) { return 3; });
  EXPECT_EQ(result, 3);
}

TEST(Metrics, WrongOnesAreErrors) {
  const Parameter w("w", {}, Initializer::constant(1));
  const Batch data{{"x", tensor(some_numbers(5, 1), {5})}};
  const auto error_with = [&](const std::function<std::vector<Field>(const Tensor&)>& metrics) {
    return error_of([&] {
      data_parallel(
          options_for(2, 0.1F), data,
          [&](const Batch& batch) { return Loss(mean(batch["x"] * w.tensor()), metrics(batch["x"])); },
          [](Trainer&) {});
    });
  };
  const auto is_invalid = [](const char* text) { return is_error(ErrorCode::kInvalidArgument, text); };
  EXPECT_THAT(error_with([](const Tensor& x) {
                return std::vector<Field>{{"m", x}};
              }),
              is_invalid("the metric 'm' of shape [3]; metrics are scalars with distinct names"));
  EXPECT_THAT(error_with([](const Tensor& x) {
                return std::vector<Field>{{"", mean(x)}};
              }),
              is_invalid("a metric without a name"));
  EXPECT_THAT(error_with([](const Tensor&) {
                return std::vector<Field>{{"m", Tensor()}};
              }),
              is_invalid("the metric 'm' as an empty Tensor"));
  EXPECT_THAT(error_with([](const Tensor& x) {
                return std::vector<Field>{{"m", mean(x)}, {"m", mean(x)}};
              }),
              is_invalid("the metric 'm' twice"));
  const Parameter teacher("teacher", {}, Initializer::constant(1));
  EXPECT_THAT(error_with([&](const Tensor& x) {
                return std::vector<Field>{{"m", mean(x * teacher.tensor())}};
              }),
              is_invalid("only metrics use the parameter 'teacher'"));
  EXPECT_THAT(error_with([](const Tensor& x) {  // the shards have 3 and 2 rows
                return std::vector<Field>{{x.dims()[0] == 3 ? "m" : "n", mean(x)}};
              }),
              is_invalid("loss_of returned different metrics in a later call"));
  data_parallel(
      options_for(2, 0.1F), data,
      [&](const Batch& batch) {
        return Loss(mean(batch["x"] * w.tensor()), {{"m", mean(batch["x"])}});
      },
      [](Trainer& trainer) {
        EXPECT_THAT(error_of([&] { trainer.metric_value("m"); }),
                    is_error(ErrorCode::kFailedPrecondition, "no step has run yet"));
        EXPECT_THAT(error_of([&] { trainer.metric_value("n"); }),
                    is_error(ErrorCode::kNotFound, "loss_of returned no metric 'n'; it returned m"));
      });
  DataParallelOptions redistributing = options_for(2, 0.1F);
  redistributing.on_device_lost = OnDeviceLost::kRedistribute;  // metrics of complete steps are on the host
  data_parallel(
      redistributing, data,
      [&](const Batch& batch) {
        return Loss(mean(batch["x"] * w.tensor()), {{"m", mean(batch["x"])}});
      },
      [](Trainer& trainer) {
        trainer.step();
        EXPECT_STREQ(error_of([&] { trainer.metric_value("n"); }).what(),
                     "loss_of returned no metric 'n'; it returned m");
      });
}

}  // namespace
}  // namespace yoke::testing
