// SPDX-License-Identifier: Apache-2.0
// tests/abi_gate/frozen_test.cpp: the frozen backend of every released minor under the current runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/ext/memory.h>
#include <yoke/runtime/stream.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>

#include "error_of.h"

namespace yoke::test {
namespace {

using ::testing::ElementsAre;

constexpr std::string_view kTwice =
    "yoke.program 1\nprogram twice() {\n  arg x : f32[4] in\n  arg y : f32[4] out\n  y[i] = x[i] * 2.0\n}\n";

// The parameter is the name of a release's folder.
class FrozenTest : public testing::TestWithParam<std::string> {
 protected:
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.search_environment = false;
    options.strict = true;  // the backend must run its programs itself
    options.plugin_dirs = {std::filesystem::path(YOKE_TEST_FROZEN_DIR) / GetParam()};
    return options;
  }
  void SetUp() override {
    runtime_ = std::make_unique<Runtime>(options());
    backend_ = runtime_->backend("frozen");
    device_ = backend_->open_device(0);
    stream_ = Stream::create(device_);
  }

  std::unique_ptr<Runtime> runtime_;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<Stream> stream_;
};

TEST_P(FrozenTest, DescriptionIsComplete) {
  EXPECT_EQ(backend_->version(), GetParam() + ".0");
  const DeviceInfo info = backend_->device_info(0);
  EXPECT_EQ(info.name, "frozen at " + GetParam());
  EXPECT_EQ(info.memory_bytes, 1U << 20U);
  EXPECT_EQ(info.numa_node, -1);
  ASSERT_EQ(backend_->option_specs().size(), 2U);
  EXPECT_EQ(backend_->option_specs()[0].integer_max, 1 << 20);
  EXPECT_EQ(backend_->option_specs()[1].scope, YOKE_OPTION_SCOPE_PLUGIN);
  EXPECT_TRUE(backend_->has_streams());
  EXPECT_TRUE(backend_->has_programs());
}

TEST_P(FrozenTest, ComputesOnItsOwnStreamsAndDestroysEveryObject) {
  const std::array<float, 4> in = {1, 2, 3, 4};
  std::array<float, 4> out{};
  {
    const auto memory = std::make_shared<Buffer>(device_, 128);
    const auto routine = Routine::link(compile(device_, kTwice), 0, {{memory, 0, 16}, {memory, 64, 16}});
    stream_->from_host({memory, 0, 16}, in.data());
    stream_->launch(*routine);
    stream_->to_host(out.data(), {memory, 64, 16});
    stream_->record();
    stream_->wait();
    EXPECT_EQ(backend_->live_counts().routines, 1U);
  }
  stream_.reset();
  device_.reset();

  EXPECT_THAT(out, ElementsAre(2, 4, 6, 8));
  const yoke_live_counts live = backend_->live_counts();
  EXPECT_EQ(live.devices + live.buffers + live.streams + live.events + live.codes + live.routines, 0U);
}

TEST_P(FrozenTest, RuntimeReplacesDeviceToDeviceAndFill) {
  const auto first = std::make_shared<Buffer>(device_, 64);
  const auto second = std::make_shared<Buffer>(device_, 64);
  std::array<char, 4> out{};

  stream_->fill({first, 0, 64}, "ab", 2);
  stream_->copy({second, 8, 4}, {first, 0, 4});
  stream_->to_host(out.data(), {second, 8, 4});
  stream_->wait();

  EXPECT_THAT(out, ElementsAre('a', 'b', 'a', 'b'));
}

TEST_P(FrozenTest, ExtensionHasTheFunctionsThatThePluginOffers) {
  const auto* memory = backend_->extension<yoke_memory_api>(YOKE_MEMORY_TABLE);
  ASSERT_NE(memory, nullptr);
  EXPECT_NE(memory->pinned_allocate, nullptr);
  EXPECT_NE(memory->buffer_import, nullptr);
  EXPECT_EQ(memory->device_native, nullptr);
  EXPECT_EQ(backend_->extension<yoke_memory_api>("org.example.other/1"), nullptr);
}

TEST_P(FrozenTest, AbortFailsTheStreamOnly) {
  const auto aborted = Stream::create(device_);
  aborted->abort();

  EXPECT_THROW(aborted->wait(), Error);
  EXPECT_NO_THROW(stream_->wait());
}

TEST_P(FrozenTest, ErrorsKeepTheirText) {
  // The released plugin counts objects of all its handles together, so it cannot close one of several.
  stream_.reset();
  device_.reset();
  const Option limit{"memory_limit", std::int64_t{100}};
  const auto limited = backend_->open_device(0, {&limit, 1});
  EXPECT_THAT(error_of([&] { Buffer(limited, 101); }),
              is_error(ErrorCode::kOutOfDeviceMemory, "the device is full"));
  EXPECT_THROW(
      (void)compile(limited, "yoke.program 1\nprogram other() {\n  arg y : f32[4] out\n  y[i] = 1.0\n}\n"),
      Error);
}

TEST_P(FrozenTest, OptionsOfThePluginReachItAsText) {
  RuntimeOptions with_greeting = options();
  with_greeting.plugin_options["frozen"] = {"greeting=hello"};
  Runtime runtime(with_greeting);
  EXPECT_EQ(runtime.backend("frozen")->device_info(0).name, "hello");
}

INSTANTIATE_TEST_SUITE_P(Released, FrozenTest, testing::Values(YOKE_TEST_FROZEN), [](const auto& suite) {
  std::string name = "minor_" + suite.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace yoke::test
