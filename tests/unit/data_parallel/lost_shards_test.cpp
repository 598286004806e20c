// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/lost_shards_test.cpp: shards on separate backends; the test chooses which ones fail.
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "recovery.h"

namespace yoke::testing {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::is_error;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Read by functions of backends, which have no other argument.
std::atomic<bool> loses_reads = false;
std::atomic<test::Control*> awaited = nullptr;
std::atomic<bool> fails_feed = false;
std::atomic<bool> fails_read = false;

// Shard k is on backend "test<k>", or all shards are on device 0 of "test0".
class LostShards : public ::testing::Test {
 protected:
  LostShards() {
    options.on_device_lost = OnDeviceLost::kRedistribute;
    options.check_replicas_every = 1;
    control(0).device_count = 1;
  }
  ~LostShards() override {
    loses_reads = fails_feed = fails_read = false;
    awaited = nullptr;
  }

  void train(std::int64_t shards, const std::function<void(Trainer&)>& body) {
    RuntimeOptions runtime_options;
    runtime_options.wait_timeout = timeout;
    runtime_options.log_level = LogLevel::kOff;
    options.runtime = test_runtime(runtime_options);
    options.shards = shards;
    options.backend_name = "test0";
    for (int k = 0; k < (on_one_device ? 1 : shards); ++k) {
      test::register_backend(*options.runtime, k, controls.at(static_cast<std::size_t>(k)));
      const std::string backend = "test" + std::to_string(k) + ":1";
      options.backend_name = on_one_device ? "test0"
                             : k == 0      ? backend
                                           : options.backend_name + "," + backend;
    }
    const auto model = nn::sequential(nn::linear(16), nn::tanh(), nn::linear(1));
    const auto loss_of = [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); };
    if (next) {
      data_parallel(options, Feed{{YOKE_TYPE_F32, {kRows, kWidth}}, {YOKE_TYPE_F32, {kRows, 1}}, next},
                    loss_of, body);
    } else {
      data_parallel(options, tensor(inputs, {kRows, kWidth}), tensor(some_numbers(kRows, 2), {kRows, 1}),
                    loss_of, body);
    }
  }

  // The parameters after three steps. `before_step` is called before the last two.
  std::vector<float> values_with(std::int64_t shards, const std::function<void(Trainer&)>& before_step) {
    std::vector<float> values;
    train(shards, [&](Trainer& trainer) {
      trainer.step();
      for (int i = 0; i < 2; ++i) {
        before_step(trainer);
        trainer.step();
      }
      values = all_values(trainer);
    });
    return values;
  }

  // Makes the next call of shard k fail, after `good` calls.
  void fail(std::size_t k, std::int64_t good = 0) { control(k).fail_after = good; }
  test::Control& control(std::size_t k) { return *controls.at(k); }

  std::array<std::shared_ptr<test::Control>, 3> controls = {std::make_shared<test::Control>(),
                                                            std::make_shared<test::Control>(),
                                                            std::make_shared<test::Control>()};
  bool on_one_device = false;
  std::chrono::milliseconds timeout = 10s;
  std::vector<float> inputs = some_numbers(kRows * kWidth, 1);
  std::function<Batch(std::int64_t)> next;  // empty: the data is in memory
  DataParallelOptions options = options_for(2, 0.1F);
};

using Redistribution = LostShards;  // while no shard is lost

TEST_F(LostShards, AreReplacedOnlyOnRequest) {
  options.on_device_lost = OnDeviceLost::kFail;
  EXPECT_THAT(error_of([&] {
                train(2, [&](Trainer& trainer) {
                  trainer.step();
                  trainer.wait();
                  fail(0);
                  (void)all_values(trainer);
                });
              }),
              is_error(ErrorCode::kInternal, "injected this failure"));
}

TEST_F(LostShards, OthersMayStillBeWorking) {
  train(2, [&](Trainer& trainer) {
    trainer.step();
    control(1).delay_us = 3000;
    fail(0);
    trainer.step();
    EXPECT_EQ(trainer.shards(), 1U);
    EXPECT_EQ(trainer.lost_shards().at(0).shard, 0U);
  });
}

TEST_F(LostShards, AreAnErrorWhileWorkOfAnotherHangs) {
  timeout = 1s;
  const Error failure(ErrorCode::kAborted, "the trainer cannot go on");
  const auto body = [&](Trainer& trainer) {
    Evaluation evaluation =
        trainer.evaluation(tensor(some_numbers(4, 3), {4, 1}), tensor(some_numbers(4, 4), {4, 1}),
                           [](const Tensor& x, const Tensor&) { return std::vector<Tensor>{mean(x)}; });
    control(1).is_blocked = true;
    fail(0);
    EXPECT_THAT(error_of([&] { (void)evaluation.run(); }),  // reads the results of shard 0 first
                is_error(ErrorCode::kInternal, "injected this failure"));
    control(1).is_blocked = false;
    throw Error(failure);
  };
  EXPECT_ERROR(failure.code(), train(2, body));
}

TEST_F(LostShards, AreAnErrorIfNoShardIsLeft) {
  on_one_device = true;
  control(0).fail_code = YOKE_STATUS_DEVICE_LOST;
  EXPECT_THAT(error_of([&] {
                train(2, [&](Trainer& trainer) {
                  trainer.step();
                  fail(0);
                  trainer.step();
                });
              }),
              is_error(ErrorCode::kDeviceLost, "injected this failure"));
}

// Their memory may be wrong, even if it can be read.
TEST_F(LostShards, AreNoLongerRead) {
  control(0).backend.to_host = [](yoke_stream* stream, yoke_buffer* source, std::uint64_t offset,
                                  void* target, std::uint64_t byte_count, yoke_error* error) -> std::int32_t {
    return loses_reads
               ? YOKE_STATUS_OK
               : sdk::detail::kBackendTable.to_host(stream, source, offset, target, byte_count, error);
  };
  const std::vector<float> expected = values_with(2, [](Trainer&) {});
  const std::vector<float> values = values_with(2, [&](Trainer& trainer) {
    if (trainer.step_count() == 1) {
      loses_reads = true;
      fail(0);
    }
  });
  loses_reads = false;
  expect_near(values, expected);
}

TEST_F(LostShards, MayBeLostWhileOthersAreReplaced) {
  // Shard 2 gets no memory, and so none of the parameters, before a call of shard 1 has failed.
  control(2).backend.buffer_create = [](yoke_device* device, const yoke_buffer_args* args,
                                        yoke_buffer** out_buffer, yoke_error* error) -> std::int32_t {
    if (test::Control* const failing = awaited) {
      test::wait_until([&] { return failing->fail_after < 0; }, 1s);
      std::this_thread::sleep_for(1ms);  // usually, the stream has noticed then
    }
    return sdk::detail::kBackendTable.buffer_create(device, args, out_buffer, error);
  };
  const std::vector<float> expected = values_with(3, [](Trainer&) {});
  int checks = 0;  // of the memory; the second one is before the second loss
  options.check_memory = [&](std::span<const MemoryNeed>) {
    if (++checks == 2) {
      fail(1);
      awaited = &control(1);
    }
  };
  const std::vector<float> values = values_with(3, [&](Trainer& trainer) {
    if (trainer.step_count() == 1) {
      fail(0);
    } else {
      EXPECT_EQ(trainer.lost_shards().size(), 2U);
    }
  });
  awaited = nullptr;
  expect_near(values, expected);
}

TEST_F(LostShards, RemainingDevicesCompileNothingAgain) {
  on_one_device = true;
  options.reproducible = 2;
  std::mutex mutex;
  std::map<std::string, int> compiled;
  control(0).on_compile = [&](std::string_view text) {
    const std::lock_guard lock(mutex);
    ++compiled[std::string(text)];
  };
  train(2, [&](Trainer& trainer) {
    fail(0);
    trainer.step();
    EXPECT_EQ(trainer.shards(), 1U);
  });
  EXPECT_FALSE(compiled.empty());
  for (const auto& [text, count] : compiled) {
    EXPECT_EQ(count, 1) << text;
  }
}

TEST_F(LostShards, LeaveEqualWeightsIfTheOthersHadNoRows) {
  options.varying_rows = true;
  const std::vector<float> expected = values_with(3, [](Trainer&) {});
  const std::vector<float> values = values_with(3, [&](Trainer& trainer) {
    if (trainer.step_count() == 1) {
      trainer.set_row_weights(std::vector<std::int64_t>{0, 0, 1});
      fail(2);
    } else {
      EXPECT_EQ(trainer.shards(), 2U);
      EXPECT_TRUE(trainer.row_weights().empty());
    }
  });
  expect_near(values, expected);
}

// The first copy of targets fails, of 5 rows, on the feed's stream. The shard's stream fails, too, because it waits.
TEST_F(LostShards, NameTheWorkThatFailedFirst) {
  control(0).backend.from_host = [](yoke_stream* stream, yoke_buffer* target, std::uint64_t offset,
                                    const void* source, std::uint64_t byte_count, std::int32_t* out_source,
                                    yoke_error* error) -> std::int32_t {
    if (byte_count == 5 * sizeof(float) && fails_feed.exchange(false)) {
      return YOKE_STATUS_INTERNAL;
    }
    return sdk::detail::kBackendTable.from_host(stream, target, offset, source, byte_count, out_source,
                                                error);
  };
  next = [&](std::int64_t) {
    return Batch{tensor(inputs, {kRows, kWidth}), tensor(some_numbers(kRows, 2), {kRows, 1})};
  };
  fails_feed = true;
  train(2, [&](Trainer& trainer) {
    trainer.step();
    ASSERT_EQ(trainer.lost_shards().size(), 1U);
    EXPECT_EQ(trainer.lost_shards()[0].shard, 0U);
    EXPECT_THAT(trainer.lost_shards()[0].reason,
                AllOf(HasSubstr("'feed of shard 0"), Not(HasSubstr("it waited"))));
  });
  next = nullptr;
  options.overlap = Overlap::kOn;  // the streams of the merge wait for those of the shards
  options.bucket_byte_count = 256;
  on_one_device = true;
  for (std::int64_t good = 0; good < 8; ++good) {
    train(2, [&](Trainer& trainer) {
      EXPECT_TRUE(trainer.overlaps());
      trainer.step();
      fail(0, good);
      trainer.step();
      ASSERT_EQ(trainer.lost_shards().size(), 1U);
      EXPECT_THAT(trainer.lost_shards()[0].reason,
                  AllOf(HasSubstr("injected this failure"), Not(HasSubstr("it waited"))))
          << "call " << good;
    });
  }
}

// The shards wait for each other's gradients, so all of them fail.
TEST_F(LostShards, AreThoseThatFailedFirst) {
  for (const std::size_t first : {0U, 1U}) {
    train(2, [&](Trainer& trainer) {
      trainer.step();
      control(first).delay_us = 5000;  // the other one is waiting by then
      fail(first);
      trainer.step();
      EXPECT_EQ(trainer.lost_shards().at(0).shard, first);
      EXPECT_THAT(trainer.lost_shards()[0].reason, Not(HasSubstr("it waited")));
      control(first).delay_us = 0;
    });
  }
}

// A copy between backends fails on the stream of the shard that reads, although the other device could not be read.
TEST_F(LostShards, AreThoseWhoseMemoryCannotBeRead) {
  for (const std::size_t failing : {0U, 1U, 2U}) {
    control(failing).backend.to_host = [](yoke_stream* stream, yoke_buffer* source, std::uint64_t offset,
                                          void* target, std::uint64_t byte_count,
                                          yoke_error* error) -> std::int32_t {
      const bool is_loss = byte_count == sizeof(float);
      return !is_loss && fails_read.exchange(false)
                 ? YOKE_STATUS_INTERNAL
                 : sdk::detail::kBackendTable.to_host(stream, source, offset, target, byte_count, error);
    };
    train(3, [&](Trainer& trainer) {
      trainer.step();
      trainer.wait();
      fails_read = true;
      trainer.step();
      ASSERT_EQ(trainer.lost_shards().size(), 1U);
      EXPECT_EQ(trainer.lost_shards()[0].shard, failing);
      EXPECT_THAT(trainer.lost_shards()[0].reason, HasSubstr("/staging'"));
    });
    control(failing).backend.to_host = sdk::detail::kBackendTable.to_host;
  }
}

TEST_F(Redistribution, ReportsTheFirstStepWithABadLoss) {
  options.batch_size = 2;
  inputs[4 * kWidth] = std::numeric_limits<float>::quiet_NaN();  // in the third batch
  train(2, [](Trainer& trainer) {
    for (int i = 0; i < 4; ++i) {
      trainer.step();
    }
    EXPECT_FALSE(std::isfinite(trainer.loss_value()));
    EXPECT_EQ(trainer.first_bad_step(), 2);
  });
}

TEST_F(Redistribution, IgnoresLossesOfShardsWithoutRows) {
  // Memory that was not written has NaN.
  control(0).backend.buffer_create = [](yoke_device* device, const yoke_buffer_args* args,
                                        yoke_buffer** out_buffer, yoke_error* error) -> std::int32_t {
    const yoke_backend_api& table = sdk::detail::kBackendTable;
    const std::int32_t status = table.buffer_create(device, args, out_buffer, error);
    const unsigned char nan = 0xff;
    return status != YOKE_STATUS_OK
               ? status
               : table.fill(nullptr, *out_buffer, 0, args->byte_count, &nan, sizeof(nan), error);
  };
  options.varying_rows = true;
  train(2, [&](Trainer& trainer) {
    trainer.set_row_weights(std::vector<std::int64_t>{0, 3});
    trainer.step();
    EXPECT_TRUE(std::isfinite(trainer.loss_value()));
    EXPECT_EQ(trainer.first_bad_step(), std::nullopt);
    EXPECT_THAT(error_of([&] { (void)trainer.owner_loss_value(); }),
                is_error(ErrorCode::kFailedPrecondition, "shard 0 had no rows"));
  });
}

}  // namespace
}  // namespace yoke::testing
