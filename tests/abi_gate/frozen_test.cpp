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

namespace yoke::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  }

  std::unique_ptr<Runtime> runtime_;
  std::shared_ptr<Backend> backend_;
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

TEST_P(FrozenTest, ComputesOnItsOwnStreams) {
  const auto device = backend_->open_device(0);
  const auto stream = Stream::create(device);
  const auto memory = std::make_shared<Buffer>(device, 128);
  const auto routine = Routine::link(compile(device, kTwice), 0, {{memory, 0, 16}, {memory, 64, 16}});
  const std::array<float, 4> in = {1, 2, 3, 4};
  std::array<float, 4> out{};

  stream->from_host({memory, 0, 16}, in.data());
  stream->launch(*routine);
  stream->to_host(out.data(), {memory, 64, 16});
  stream->record();
  stream->wait();

  EXPECT_THAT(out, ElementsAre(2, 4, 6, 8));
}

TEST_P(FrozenTest, RuntimeReplacesDeviceToDeviceAndFill) {
  const auto device = backend_->open_device(0);
  const auto stream = Stream::create(device);
  const auto first = std::make_shared<Buffer>(device, 64);
  const auto second = std::make_shared<Buffer>(device, 64);
  std::array<char, 4> out{};

  stream->fill({first, 0, 64}, "ab", 2);
  stream->copy({second, 8, 4}, {first, 0, 4});
  stream->to_host(out.data(), {second, 8, 4});
  stream->wait();

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
  const auto device = backend_->open_device(0);
  const auto aborted = Stream::create(device);
  const auto other = Stream::create(device);
  aborted->abort();

  EXPECT_THROW(aborted->wait(), Error);
  EXPECT_NO_THROW(other->wait());
}

TEST_P(FrozenTest, ErrorsKeepTheirText) {
  const Option limit{"memory_limit", std::int64_t{100}};
  const auto device = backend_->open_device(0, {&limit, 1});
  try {
    Buffer(device, 101);
    FAIL() << "the device has room for 100 bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfDeviceMemory);
    EXPECT_THAT(error.what(), HasSubstr("the device is full"));
  }
  EXPECT_THROW(
      (void)compile(device, "yoke.program 1\nprogram other() {\n  arg y : f32[4] out\n  y[i] = 1.0\n}\n"),
      Error);
}

TEST_P(FrozenTest, EveryObjectIsDestroyed) {
  {
    const auto device = backend_->open_device(0);
    const auto memory = std::make_shared<Buffer>(device, 128);
    const auto routine = Routine::link(compile(device, kTwice), 0, {{memory, 0, 16}, {memory, 64, 16}});
    EXPECT_EQ(backend_->live_counts().routines, 1U);
  }
  const yoke_live_counts live = backend_->live_counts();
  EXPECT_EQ(live.devices + live.buffers + live.streams + live.events + live.codes + live.routines, 0U);
}

TEST_P(FrozenTest, OptionsOfThePluginReachItAsText) {
  RuntimeOptions with_greeting = options();
  with_greeting.plugin_options["frozen"] = {"greeting=hello"};
  backend_.reset();
  runtime_.reset();
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
