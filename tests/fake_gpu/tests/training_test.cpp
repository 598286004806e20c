// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/training_test.cpp: an MLP of MNIST's size trains on fake devices as on cc, on any
// number of shards, on several backends at once, with and without graphs and overlap.
#include <yoke/yoke.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <vector>

#include "on_fakes.h"
#include "replay/trace.h"
#include "test_paths.h"

namespace yoke::testing {
namespace {

constexpr std::uint64_t kImages = 96;
constexpr std::uint64_t kPixels = 784;
constexpr int kSteps = 9;

// Images of ten digits: a random pattern for each digit, with noise.
struct Digits {
  std::vector<float> images;
  std::vector<std::int32_t> labels;

  Digits() {
    std::uint32_t state = 1;
    const auto number = [&state] {
      state = state * 1664525U + 1013904223U;
      return static_cast<float>(state >> 8) / static_cast<float>(1U << 24);
    };
    std::vector<float> patterns(10 * kPixels);
    for (float& pixel : patterns) {
      pixel = number() < 0.2F ? number() : 0.0F;
    }
    for (std::uint64_t i = 0; i < kImages; ++i) {
      labels.push_back(static_cast<std::int32_t>(i * 7 % 10));
      const auto* pattern = patterns.data() + static_cast<std::uint64_t>(labels.back()) * kPixels;
      for (std::uint64_t pixel = 0; pixel < kPixels; ++pixel) {
        images.push_back(0.9F * pattern[pixel] + 0.1F * number());
      }
    }
  }
};

struct Outcome {
  std::vector<double> losses;
  std::vector<float> values;
};

// On GPUs, buckets of 4 KiB are merged while the gradient program runs in parts, unless overlap is off.
Outcome train(const std::string& backends, std::int64_t shards, const std::vector<Option>& options = {},
              Overlap overlap = Overlap::kAuto, MergeStrategy merge = MergeStrategy::kAuto,
              const std::function<void(DataParallelOptions&)>& change = {}) {
  RuntimeOptions runtime;
  runtime.plugin_dirs = {test::plugin_folder()};
  runtime.search_environment = false;
  DataParallelOptions settings;
  settings.backend_name = backends;
  settings.shards = shards;
  settings.learning_rate = 0.1F;
  settings.optimizer = Sgd{0.9, 1e-4, true};
  settings.batch_size = 32;
  settings.check_replicas_every = 3;
  settings.bucket_byte_count = 4096;
  settings.overlap = overlap;
  settings.merge = merge;
  settings.device_options = options;
  settings.runtime = std::make_shared<Runtime>(runtime);
  if (change) {
    change(settings);
  }
  const Digits digits;
  const auto model = nn::sequential(nn::linear(64), nn::relu(), nn::linear(10));
  Outcome result;
  data_parallel(
      settings, tensor(digits.images, {kImages, kPixels}), tensor(digits.labels, {kImages}),
      [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); },
      [&](Trainer& trainer) {
        for (int step = 0; step < kSteps; ++step) {
          trainer.step();
          result.losses.push_back(trainer.loss_value());
        }
        for (const Parameter& parameter : trainer.owner_params()) {
          const auto part = trainer.read_values(parameter.name());
          result.values.insert(result.values.end(), part.begin(), part.end());
        }
      });
  return result;
}

// Sums of 784 and 64 f32 terms over 9 steps, relative to values around 1.
constexpr double kTolerance = (784 + 64) * 5.96e-8 * kSteps;

void expect_near(const Outcome& got, const Outcome& expected, const std::string& what) {
  ASSERT_EQ(got.losses.size(), expected.losses.size()) << what;
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    ASSERT_NEAR(got.losses[i], expected.losses[i], kTolerance * (1 + std::abs(expected.losses[i])))
        << what << ", step " << i;
  }
  ASSERT_EQ(got.values.size(), expected.values.size()) << what;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    ASSERT_NEAR(got.values[i], expected.values[i], kTolerance * (1 + std::abs(expected.values[i])))
        << what << ", value " << i;
  }
}

class FakeTraining : public OnFakes {};

TEST_F(FakeTraining, ShardsOnFakeDevicesTrainLikeOneShardOnCc) {
  const Outcome expected = train("cc", 1);
  EXPECT_LT(expected.losses.back(), expected.losses.front() / 2) << "the model learns";
  for (const char* backend : {"cuda", "hip"}) {
    for (const std::int64_t shards : {1, 2, 4}) {
      expect_near(train(backend, shards), expected, backend + (" on shards: " + std::to_string(shards)));
    }
  }
}

TEST_F(FakeTraining, ShardsOnSeveralBackendsTrainLikeOneShardOnCc) {
  expect_near(train("cuda:1,hip:1,cc:2", 4), train("cc", 1), "cuda:1,hip:1,cc:2");
}

TEST_F(FakeTraining, ShardsWithWeightedRowsOnSeveralBackendsTrainLikeOneShardOnCc) {
  const Outcome expected = train("cc", 1);
  const auto given = [](DataParallelOptions& options) { options.row_weights = {5, 5, 1}; };
  const auto measured = [](DataParallelOptions& options) {
    options.measure_row_weights = true;
    options.varying_rows = true;
  };
  for (const char* backends : {"cuda:2,cc:1", "cc:2,hip:1"}) {
    for (const auto& change : {std::function<void(DataParallelOptions&)>(given), {measured}}) {
      expect_near(train(backends, 3, {}, Overlap::kAuto, MergeStrategy::kAuto, change), expected, backends);
    }
  }
}

TEST_F(FakeTraining, ShardsThatMergeWithTheVendorsLibraryTrainLikeOneShardOnCc) {
  const Outcome expected = train("cc", 1);
  for (const auto& [backend, shards] : {std::pair("cuda", 2), std::pair("cuda", 4), std::pair("hip", 4)}) {
    expect_near(train(backend, shards, {}, Overlap::kAuto, MergeStrategy::kNative), expected,
                backend + (" on shards: " + std::to_string(shards)));
  }
}

TEST_F(FakeTraining, ResultsRepeatBitForBitWithAndWithoutGraphs) {
  for (const char* backend : {"cuda", "hip"}) {
    const Outcome graphs = train(backend, 2);
    const Outcome again = train(backend, 2);
    const Outcome launches = train(backend, 2, {{"graphs", false}});
    const Outcome after = train(backend, 2, {}, Overlap::kOff);
    EXPECT_EQ(after.losses, graphs.losses) << backend;
    EXPECT_EQ(after.values, graphs.values) << backend << ": overlap changes the bits";
    EXPECT_EQ(again.losses, graphs.losses) << backend;
    EXPECT_EQ(again.values, graphs.values) << backend;
    EXPECT_EQ(launches.losses, graphs.losses) << backend;
    EXPECT_EQ(launches.values, graphs.values) << backend;
  }
}

// Work of a device, in nanoseconds since the trace began.
struct Work {
  std::string name;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The work of each stream of cuda in a trace file, in order.
std::map<std::uint64_t, std::vector<Work>> work_by_stream(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  replay::Reader reader(std::as_bytes(std::span(bytes)));
  std::map<std::uint64_t, std::vector<Work>> result;
  replay::Record record;
  while (reader.next(record)) {
    if (record.type == replay::Record::Type::kWork) {
      result[record.number].push_back(
          {std::string(record.text), record.begin_ns, record.begin_ns + record.duration_ns});
    }
  }
  return result;
}

// Trains a network whose weights become final in this order: 10 x 300, 300 x 300, 300 x 300, 300 x 784. The first
// bucket is part of the first; two products of 48 rows with 300 x 300 weights follow it before the last part.
void train_with_trace(const std::string& path) {
  RuntimeOptions runtime;
  runtime.plugin_dirs = {test::plugin_folder()};
  runtime.search_environment = false;
  runtime.layers.names = "trace";
  runtime.layers.trace_file = path;
  DataParallelOptions settings;
  settings.backend_name = "cuda";
  settings.shards = 2;
  settings.learning_rate = 0.1F;
  settings.merge = MergeStrategy::kOwner;
  settings.bucket_byte_count = 8192;
  settings.runtime = std::make_shared<Runtime>(runtime);
  const Digits digits;
  const auto model = nn::sequential(nn::linear(300), nn::relu(), nn::linear(300), nn::relu(), nn::linear(300),
                                    nn::relu(), nn::linear(10));
  data_parallel(
      settings, tensor(digits.images, {kImages, kPixels}), tensor(digits.labels, {kImages}),
      [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); },
      [&](Trainer& trainer) {
        for (int step = 0; step < 3; ++step) {
          trainer.step();
          trainer.wait();
        }
      });
}

// The merge of the first bucket waits for the slower shard, so on that one at least there is time.
TEST_F(FakeTraining, TheFirstBucketIsMergedBeforeTheLastPartOfTheGradientsStarts) {
  const std::string path = ::testing::TempDir() + "/overlap_" + std::to_string(getpid()) + ".yoketrace";
  train_with_trace(path);
  std::vector<Work> merges;
  std::vector<Work> last_parts;
  for (const auto& [stream, works] : work_by_stream(path)) {
    std::string last;  // "gradient_part_4"; there are fewer than 10
    for (const Work& work : works) {
      last = work.name.starts_with("gradient_part_") ? std::max(last, work.name) : last;
    }
    for (const Work& work : works) {
      if (work.name == "merge_sum") {
        EXPECT_EQ(last, "") << "a stream that computes gradients merges, too";
        merges.push_back(work);
      } else if (work.name == last && !last.empty()) {
        last_parts.push_back(work);
      }
    }
  }
  ASSERT_EQ(last_parts.size(), 6U) << "two shards, three steps";
  ASSERT_GE(merges.size(), 3U);
  std::size_t before = 0;
  for (std::size_t step = 0; step < 3; ++step) {
    const Work& first_merge = merges[step * (merges.size() / 3)];
    for (const std::size_t shard : {0U, 1U}) {
      before += first_merge.end <= last_parts[shard * 3 + step].begin ? 1U : 0U;
    }
  }
  EXPECT_GE(before, 2U) << "of 3 steps on 2 shards";
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace yoke::testing
