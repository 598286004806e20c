// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/loader_test.cpp: a backend from its first request to its release.
#include <algorithm>
#include <thread>

#include "device/state.h"
#include "fixture.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(LoaderTest, ABackendSaysWhatItIs) {
  const auto folder = folder_with("good");
  Runtime runtime(options({folder}));

  const auto backend = runtime.backend("good");

  EXPECT_EQ(backend->name(), "good");
  EXPECT_EQ(backend->version(), "1.2.3");
  EXPECT_EQ(backend->vendor(), "test");
  EXPECT_EQ(backend->path(), folder / "libyoke_backend_good.so");
  EXPECT_EQ(backend->device_count(), 2U);
  EXPECT_EQ(backend->no_device_reason(), "");
  EXPECT_FALSE(backend->has_streams());
  EXPECT_FALSE(backend->has_programs());
  EXPECT_THAT(lines_, Contains("2 plugin.load name=good abi=" + version(YOKE_ABI_MAJOR, YOKE_ABI_MINOR) +
                               " devices=2"));
  EXPECT_EQ(of(runtime, "good").at(0).verdict, "loaded");
}

TEST_F(LoaderTest, ABackendIsEnteredOnceAndReleasedWithItsLastOwner) {
  Runtime runtime(options({folder_with("good")}));
  auto backend = runtime.backend("good");
  EXPECT_EQ(runtime.backend("good"), backend);
  auto device = backend->open_device(0);
  backend.reset();
  EXPECT_THAT(lines_, Not(Contains(HasSubstr("test.destroy")))) << "the device keeps it";

  device.reset();

  EXPECT_THAT(lines_, Contains("2 test.destroy backend=good"));
  EXPECT_TRUE(is_mapped((root_ / "good").string())) << "what was loaded stays mapped";
  lines_.clear();
  EXPECT_EQ(runtime.backend("good")->device_count(), 2U);
  EXPECT_THAT(lines_, Contains("2 test.enter backend=good"));
}

TEST_F(LoaderTest, ObjectsOutliveTheRuntime) {
  std::shared_ptr<Device> device;
  {
    Runtime runtime(options({folder_with("good")}));
    device = runtime.backend("good")->open_device(0);
  }
  const Buffer buffer(device, 100);
  EXPECT_EQ(buffer.byte_count(), 100U);
}

TEST_F(LoaderTest, ManyThreadsThatAskGetOneBackend) {
  Runtime runtime(options({folder_with("good")}));
  std::vector<std::shared_ptr<Backend>> got(8);
  std::vector<std::thread> threads;
  for (auto& slot : got) {
    threads.emplace_back([&] { slot = runtime.backend("good"); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(got, ::testing::Each(got[0]));
  EXPECT_EQ(std::count(lines_.begin(), lines_.end(), "2 test.enter backend=good"), 1);
}

TEST_F(LoaderTest, TwoRuntimesHaveTheirOwnFoldersLogsAndPlugins) {
  std::vector<std::string> other_lines;
  auto other_options = options({folder_with("second")});
  other_options.log_sink = [&](LogLevel, std::string_view line) { other_lines.emplace_back(line); };
  Runtime one(options({folder_with("good")}));
  Runtime other(other_options);

  auto from_one = one.backend("good");
  auto from_other = other.backend("good");

  EXPECT_NE(from_one->path(), from_other->path());
  EXPECT_NE(from_one->state().plugin, from_other->state().plugin);
  EXPECT_EQ(lines_.size(), other_lines.size());
  other_lines.clear();
  from_one.reset();
  EXPECT_THAT(lines_, Contains(HasSubstr("test.destroy")));
  EXPECT_TRUE(other_lines.empty());
}

TEST_F(LoaderTest, TwoRuntimesShareOneFileWithoutSharingThePlugin) {
  const auto folder = folder_with("good");
  Runtime one(options({folder}));
  Runtime other(options({folder}));
  auto from_one = one.backend("good");
  const auto from_other = other.backend("good");
  EXPECT_NE(from_one->state().plugin, from_other->state().plugin);
  from_one.reset();
  EXPECT_EQ(from_other->device_count(), 2U);
}

// Linked into the process; it always refuses, so that a test sees whose turn it was.
extern "C" std::int32_t registered_entry(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                         yoke_error* error) {
  args->host->error_set(error, YOKE_UNAVAILABLE, 0, "registered, and out of order", 28);
  (void)out_plugin;
  return YOKE_UNAVAILABLE;
}

TEST_F(LoaderTest, ARegisteredPluginComesAfterPluginDirsAndBeforeTheEnvironment) {
  const auto folder = folder_with("good");
  Runtime with_folder(options({folder}));
  with_folder.register_backend("good", &registered_entry);
  EXPECT_EQ(with_folder.backend("good")->path(), folder / "libyoke_backend_good.so");

  const Variable path("YOKE_PLUGIN_PATH", folder.string());
  auto given = options({});
  given.search_environment = true;
  Runtime runtime(given);
  runtime.register_backend("good", &registered_entry);
  EXPECT_THAT(
      error_of([&] { runtime.backend("good"); }).what(),
      AllOf(HasSubstr("the registered plugin was refused"), HasSubstr("registered, and out of order")));
  EXPECT_EQ(of(runtime, "good").at(0).path, "");
}

TEST_F(LoaderTest, ANameIsRegisteredOnceAndMustBeAName) {
  Runtime runtime(options({}));
  runtime.register_backend("mine", &registered_entry);
  EXPECT_EQ(error_of([&] { runtime.register_backend("mine", &registered_entry); }).code(),
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(error_of([&] { runtime.register_backend("No Name", &registered_entry); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { runtime.register_backend("none", nullptr); }).code(), ErrorCode::kInvalidArgument);
}

TEST_F(LoaderTest, ATableOfAnOlderMinorIsFilledUp) {
  Runtime runtime(options({folder_with("short_table")}));
  const auto backend = runtime.backend("good");
  EXPECT_TRUE(backend->option_specs().empty());
  EXPECT_EQ(backend->open_device(0)->name(), "good:0");
}

TEST_F(LoaderTest, AnotherMinorIsServedWithThePartThatBothKnow) {
  Runtime runtime(options({folder_with("newer_minor")}));
  EXPECT_EQ(runtime.backend("good")->device_count(), 2U);
}

TEST_F(LoaderTest, AWaitWithoutADeadlineIsRefused) {
  auto given = options({});
  given.wait_timeout = std::chrono::nanoseconds(0);
  EXPECT_EQ(error_of([&] { Runtime runtime(given); }).code(), ErrorCode::kInvalidArgument);
}

TEST_F(LoaderTest, LinesBelowTheLevelAreNotLoggedAndLineBreaksDoNotForgeLines) {
  auto given = options({});
  given.log_level = LogLevel::kWarn;
  Runtime runtime(given);

  runtime.log(LogLevel::kInfo, "quiet");
  runtime.log(LogLevel::kError, "test.event text=\"a\nb\"");

  EXPECT_TRUE(runtime.logs(LogLevel::kWarn));
  EXPECT_FALSE(runtime.logs(LogLevel::kInfo));
  EXPECT_THAT(lines_, ElementsAre("4 test.event text=\"a b\""));
}

TEST_F(LoaderTest, TheDefaultLogGoesToStderrAsLevelAndEvent) {
  auto given = options({folder_with("good")});
  given.log_sink = nullptr;
  given.log_level = LogLevel::kInfo;
  ::testing::internal::CaptureStderr();
  { Runtime(given).backend("good"); }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "info  test.enter backend=good\ninfo  plugin.load name=good abi=" +
                version(YOKE_ABI_MAJOR, YOKE_ABI_MINOR) +
                " devices=2\n"
                "info  test.destroy backend=good\n");
}

TEST_F(LoaderTest, ASinkThatThrowsStopsNothing) {
  auto given = options({folder_with("good")});
  given.log_sink = [](LogLevel, std::string_view) {
    throw std::runtime_error("no space left on the device");
  };
  EXPECT_EQ(Runtime(given).backend("good")->device_count(), 2U);
}

}  // namespace
}  // namespace yoke::test
