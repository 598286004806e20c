// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/backend_test.cpp: a backend from its first request to its release: owners, threads,
// forks, several runtimes, and the log.
#include <dlfcn.h>
#include <sys/wait.h>

#include <algorithm>
#include <thread>

#include "device/call.h"
#include "loader_test.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kVersion = std::to_string(YOKE_ABI_MAJOR) + "." + std::to_string(YOKE_ABI_MINOR);

class BackendTest : public LoaderTest {
 protected:
  BackendTest() { place("good"); }
  // The results of `load` in 16 threads.
  static std::vector<std::shared_ptr<Backend>> in_threads(
      const std::function<std::shared_ptr<Backend>()>& load) {
    std::vector<std::shared_ptr<Backend>> got(16);
    std::vector<std::thread> threads;
    for (auto& slot : got) {
      threads.emplace_back([&] { slot = load(); });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    return got;
  }
};

TEST_F(BackendTest, DescribesItself) {
  Runtime runtime(options());
  const auto backend = runtime.backend("good");
  EXPECT_EQ(backend->name(), "good");
  EXPECT_EQ(backend->version(), "1.2.3");
  EXPECT_EQ(backend->vendor(), "the tests");
  EXPECT_EQ(backend->path(), file("good"));
  EXPECT_EQ(backend->device_count(), 2U);
  EXPECT_EQ(backend->no_device_reason(), "");
  EXPECT_FALSE(backend->has_streams());
  EXPECT_FALSE(backend->has_programs());
  EXPECT_THAT(lines_, Contains("2 plugin.load name=good abi=" + kVersion));
  EXPECT_EQ(report_of(runtime, "good").verdict, "loaded");
}

TEST_F(BackendTest, IsEnteredOnceAndReleasedWithItsLastOwner) {
  Runtime runtime(options());
  auto backend = runtime.backend("good");
  EXPECT_EQ(runtime.backend("good"), backend);
  auto device = backend->open_device(0);
  backend.reset();
  EXPECT_THAT(lines_, Not(Contains(HasSubstr("test.destroy")))) << "the device owns it";

  device.reset();

  EXPECT_THAT(lines_, Contains("2 test.destroy backend=good"));
  EXPECT_TRUE(is_mapped(file("good"))) << "its code stays mapped";
  lines_.clear();
  EXPECT_EQ(runtime.backend("good")->device_count(), 2U);
  EXPECT_THAT(lines_, Contains("2 test.enter backend=good"));
}

TEST_F(BackendTest, ObjectsOutliveTheirRuntime) {
  std::weak_ptr<Device> device;
  {
    const Buffer buffer(Runtime(options()).backend("good")->open_device(0), 100);
    device = buffer.device();
    EXPECT_EQ(buffer.byte_count(), 100U);
    EXPECT_FALSE(device.expired()) << "a buffer keeps its device open";
  }
  EXPECT_TRUE(device.expired());
}

TEST_F(BackendTest, ThreadsThatLoadTheSameNameGetOneBackend) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  Runtime runtime(with_probe());
  const auto got = in_threads([&] { return runtime.backend("good"); });
  EXPECT_NE(got[0], nullptr);
  EXPECT_THAT(got, Each(got[0]));
  EXPECT_EQ(loaded(), "good\ngood\n") << "once in the probe and once in this process";
  EXPECT_EQ(std::count(lines_.begin(), lines_.end(), "2 test.enter backend=good"), 1);
}

TEST_F(BackendTest, RuntimesInThreadsEachGetTheirOwnBackend) {
  auto given = with_probe();
  given.log_sink = [](LogLevel, std::string_view) {};  // the fixture's sink is for one runtime
  const auto got = in_threads([&] { return Runtime(given).backend("good"); });
  for (const auto& backend : got) {
    ASSERT_NE(backend, nullptr);
    EXPECT_EQ(backend->device_count(), 2U);
    EXPECT_EQ(std::count(got.begin(), got.end(), backend), 1);
  }
}

TEST_F(BackendTest, TwoRuntimesShareAFileButNeitherPluginNorLog) {
  std::vector<std::string> other_lines;
  auto other_options = options();
  other_options.log_sink = [&](LogLevel, std::string_view line) { other_lines.emplace_back(line); };
  Runtime one(options());
  Runtime other(other_options);
  auto from_one = one.backend("good");
  EXPECT_EQ(report_of(one, "good").verdict, "loaded");
  EXPECT_EQ(report_of(other, "good").verdict, "not loaded yet");
  const auto from_other = other.backend("good");
  EXPECT_EQ(from_one->path(), from_other->path());
  EXPECT_NE(from_one->state().plugin, from_other->state().plugin);
  EXPECT_EQ(lines_.size(), other_lines.size());
  other_lines.clear();
  from_one.reset();
  EXPECT_THAT(lines_, Contains(HasSubstr("test.destroy")));
  EXPECT_TRUE(other_lines.empty());
  EXPECT_EQ(from_other->device_count(), 2U);
}

TEST_F(BackendTest, PluginOptionsReachThePluginAtEntry) {
  auto given = options();
  given.plugin_options["good"] = {"level=7"};
  given.plugin_options["other"] = {"no_such=1"};  // of a plugin that is not loaded
  Runtime runtime(given);
  runtime.backend("good");
  EXPECT_THAT(lines_, Contains("2 test.configure level=7 backend=good"));
}

TEST_F(BackendTest, InvalidPluginOptionsAreRefusedByThePlugin) {
  const std::pair<const char*, const char*> cases[] = {
      {"depth=1", "its entry failed with INVALID_ARGUMENT: unknown option 'depth'; known options: level"},
      {"level=10", "its entry failed with INVALID_ARGUMENT: option 'level' is 10; the range is 0 to 9"},
      {"level=high",
       "its entry failed with INVALID_ARGUMENT: option 'level' is 'high', which is not a value"}};
  for (const auto& [text, error] : cases) {
    for (auto given : {options(), with_probe()}) {
      given.plugin_options["good"] = {text};
      Runtime runtime(given);
      EXPECT_THAT(load(runtime, "good").error, HasSubstr(error)) << report_of(runtime, "good").probed;
    }
  }
}

TEST_F(BackendTest, MalformedPluginOptionsAreRefusedByTheRuntime) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"level"}, "plugin options of 'good': an option is written name=value, not 'level'"},
      {{"=7"}, "plugin options of 'good': an option is written name=value, not '=7'"},
      {{std::string("level=\0", 7)}, "contains a zero byte"},
      {{"level=1", "level=2"}, "plugin options of 'good': 'level' is given twice"}};
  for (const auto& [texts, text] : cases) {
    auto given = options();
    given.plugin_options["good"] = texts;
    EXPECT_THAT(error_of([&] { Runtime runtime(given); }), is_error(ErrorCode::kInvalidArgument, text));
  }
  auto given = options();
  given.plugin_options["No Name"] = {};
  EXPECT_THAT(error_of([&] { Runtime runtime(given); }).what(),
              HasSubstr("'No Name' is not a valid backend name"));
}

TEST_F(BackendTest, HostTablesAreOfferedToPluginsUntilDestroy) {
  struct {
    std::uint64_t struct_size = sizeof(*this);
    int (*answer)() = [] { return 42; };
  } const table;
  auto given = options();
  given.host_tables["test.answer/1"] = &table;
  Runtime(given).backend("good");
  EXPECT_THAT(lines_, Contains("2 test.host_table answer=42 backend=good"));
  lines_.clear();
  Runtime(options()).backend("good");
  EXPECT_THAT(lines_, Not(Contains(HasSubstr("test.host_table"))));
}

// A plugin that is linked into the process. Its entry always fails, so a test can tell whether it was called.
extern "C" std::int32_t failing_entry(const yoke_entry_args* args, yoke_plugin**, yoke_error* error) {
  args->host->error_set(error, YOKE_STATUS_UNAVAILABLE, 0, "registered, and out of order", 28);
  return YOKE_STATUS_UNAVAILABLE;
}

TEST_F(BackendTest, RegisteredPluginComesAfterPluginDirsAndBeforeTheEnvironment) {
  Runtime with_folder(options());
  with_folder.register_backend("good", &failing_entry);
  EXPECT_EQ(with_folder.backend("good")->path(), file("good"));

  const Variable path("YOKE_PLUGIN_PATH", folder_.string());
  auto given = options({});
  given.search_environment = true;
  Runtime runtime(given);
  runtime.register_backend("good", &failing_entry);
  EXPECT_THAT(
      error_of([&] { runtime.backend("good"); }).what(),
      AllOf(HasSubstr("the registered plugin was refused"), HasSubstr("registered, and out of order")));
  EXPECT_EQ(report_of(runtime, "good").path, "");
}

TEST_F(BackendTest, PluginOfAnotherNameSaysWhatToRename) {
  void* const library = ::dlopen(place("good").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  Runtime runtime(options({}));
  runtime.register_backend(
      "linked", reinterpret_cast<yoke_plugin_entry_fn>(::dlsym(library, YOKE_PLUGIN_ENTRY_SYMBOL)));
  EXPECT_THAT(error_of([&] { runtime.backend("linked"); }).what(),
              HasSubstr("its name is 'good', not 'linked'; register it as 'good'"));

  std::filesystem::rename(file("good"), file("renamed"));
  for (const auto& given : {options(), with_probe()}) {
    EXPECT_THAT(error_of([&] { Runtime(given).backend("renamed"); }).what(),
                HasSubstr("its name is 'good', not 'renamed'; rename the file to libyoke_backend_good.so"));
  }
}

TEST_F(BackendTest, RegisteringRefusesUsedOrInvalidNamesAndNullEntries) {
  Runtime runtime(options({}));
  runtime.register_backend("mine", &failing_entry);
  EXPECT_ERROR(ErrorCode::kAlreadyExists, runtime.register_backend("mine", &failing_entry));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, runtime.register_backend("No Name", &failing_entry));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, runtime.register_backend("none", nullptr));
}

TEST_F(BackendTest, ShorterAndLongerTablesAreUsedUpToTheCommonSize) {
  for (const std::string name : {"null_optional", "table_size_older", "table_size_newer"}) {
    place(name);
    Runtime runtime(options());
    const auto backend = runtime.backend(name);
    EXPECT_EQ(backend->option_specs().empty(), name != "table_size_newer") << name;
    EXPECT_EQ(backend->open_device(0)->name(), name + ":0");
  }
}

TEST_F(BackendTest, ClosingADeviceWithLiveObjectsIsRefusedWithTheirCounts) {
  const auto backend = Runtime(options()).backend("good");
  const auto device = backend->open_device(0);
  {
    const Buffer one(device, 8);
    const Buffer two(device, 8);
    detail::Status status;
    EXPECT_EQ(detail::attempt<&yoke_backend_api::device_close>(backend->state(), status, device->get()),
              YOKE_STATUS_FAILED_PRECONDITION);
    EXPECT_THAT(std::string(status.text()), HasSubstr("2 buffers"));
    EXPECT_EQ(backend->live_counts().buffers, 2U);
  }
  EXPECT_EQ(backend->live_counts().buffers, 0U);
  EXPECT_EQ(Buffer(device, 8).byte_count(), 8U) << "the device stayed open";
}

TEST_F(BackendTest, ForkedChildOfAnOpenDeviceMayOnlyExec) {
  const auto device = Runtime(options()).backend("good")->open_device(0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int code = 1;
    try {
      const Buffer buffer(device, 8);
    } catch (const Error& error) {
      const bool explained = std::string(error.what()).find("forked") != std::string::npos;
      code = error.code() == ErrorCode::kFailedPrecondition && explained ? 0 : 2;
    }
    ::_exit(code);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(Buffer(device, 8).byte_count(), 8U) << "the parent is not affected";
}

TEST_F(BackendTest, ExceptionFromDestroyIsLogged) {
  place("throw_in_destroy");
  Runtime runtime(options());
  runtime.backend("throw_in_destroy");
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("4 plugin.release_failed name=throw_in_destroy"),
                                     HasSubstr("its destroy threw an exception: oops"))));
  use_good_backend(runtime);
}

// Keeps the host's table for calls after the plugin was destroyed.
const yoke_host_api* kept_host = nullptr;
yoke_plugin_entry_fn kept_entry = nullptr;
extern "C" std::int32_t keeping_entry(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                      yoke_error* error) {
  kept_host = args->host;
  return kept_entry(args, out_plugin, error);
}

TEST_F(BackendTest, CallAfterDestroyIsLoggedAndIgnored) {
  void* const library = ::dlopen(place("late").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  kept_entry = reinterpret_cast<yoke_plugin_entry_fn>(::dlsym(library, YOKE_PLUGIN_ENTRY_SYMBOL));
  {
    auto given = options({});
    given.host_tables["test.address/1"] = &kept_host;
    Runtime runtime(given);
    runtime.register_backend("late", &keeping_entry);
    void* early = nullptr;
    {
      const auto backend = runtime.backend("late");
      early = kept_host->allocate(kept_host->host, 64, 64);
      EXPECT_NE(early, nullptr);
    }
    EXPECT_THAT(lines_, Contains("2 test.destroy backend=late"));

    kept_host->log(kept_host->host, YOKE_LOG_ERROR, "test.late", 9);

    EXPECT_THAT(lines_, Contains(HasSubstr("3 plugin.late_call name=late call=log")));
    EXPECT_THAT(lines_, Not(Contains(HasSubstr("test.late"))));
    EXPECT_EQ(kept_host->allocate(kept_host->host, 8, 8), nullptr);
    EXPECT_EQ(kept_host->get_table(kept_host->host, "test.address/1"), nullptr);
    kept_host->deallocate(kept_host->host, early);
  }
  lines_.clear();
  kept_host->log(kept_host->host, YOKE_LOG_ERROR, "test.later", 10);
  EXPECT_TRUE(lines_.empty()) << "the runtime and its log were destroyed";
}

TEST_F(BackendTest, NonPositiveWaitTimeoutIsRefused) {
  auto given = options({});
  given.wait_timeout = std::chrono::nanoseconds(0);
  EXPECT_ERROR(ErrorCode::kInvalidArgument, Runtime runtime(given));
}

TEST_F(BackendTest, LogDropsLinesBelowItsLevelAndLineBreaks) {
  auto given = options({});
  given.log_level = LogLevel::kWarn;
  Runtime runtime(given);
  runtime.log(LogLevel::kInfo, "quiet");
  runtime.log(LogLevel::kError, "test.event text=\"a\nb\"");
  EXPECT_TRUE(runtime.logs(LogLevel::kWarn));
  EXPECT_FALSE(runtime.logs(LogLevel::kInfo));
  EXPECT_THAT(lines_, ElementsAre("4 test.event text=\"a b\""));
}

TEST_F(BackendTest, DefaultLogWritesLevelAndEventToStderr) {
  auto given = options();
  given.log_sink = nullptr;
  given.log_level = LogLevel::kInfo;
  ::testing::internal::CaptureStderr();
  { Runtime(given).backend("good"); }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "info  test.enter backend=good\ninfo  plugin.load name=good abi=" + kVersion +
                "\ninfo  test.destroy backend=good\n");
}

TEST_F(BackendTest, ExceptionFromALogSinkIsIgnored) {
  auto given = options();
  given.log_sink = [](LogLevel, std::string_view) {
    throw std::runtime_error("no space left on the device");
  };
  EXPECT_EQ(Runtime(given).backend("good")->device_count(), 2U);
}

}  // namespace
}  // namespace yoke::test
