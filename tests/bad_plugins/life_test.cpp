// SPDX-License-Identifier: Apache-2.0
// tests/bad_plugins/life_test.cpp: backends closed while they are used, used after they were closed, carried
// across a fork, and asked for by many threads at once.
#include <dlfcn.h>
#include <sys/wait.h>

#include <algorithm>
#include <thread>

#include "bad_plugin_test.h"
#include "device/call.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

class BadLife : public BadPluginTest {
 protected:
  std::shared_ptr<Backend> built_backend(const std::string& name) {
    if (!std::filesystem::exists(std::filesystem::path(YOKE_TEST_PLUGIN_DIR) /
                                 ("libyoke_backend_" + name + ".so"))) {
      return nullptr;
    }
    return Runtime(without_probe()).backend(name);
  }
};

TEST_F(BadLife, ClosingADeviceWithLivingObjectsIsRefusedWithTheirCounts) {
  const auto backend = built_backend("null");
  if (backend == nullptr) {
    GTEST_SKIP() << "the null backend was not built";
  }
  const auto device = backend->open_device(0);
  {
    const Buffer one(device, 8);
    const Buffer two(device, 8);
    detail::Status status;
    EXPECT_EQ(detail::attempt<&yoke_backend_api::device_close>(backend->state(), status, device->get()),
              YOKE_FAILED_PRECONDITION);
    EXPECT_EQ(status.text(), "device 0 stays open: 2 buffers alive; destroy them first");
    EXPECT_EQ(backend->live_counts().buffers, 2U);
  }
  EXPECT_EQ(backend->live_counts().buffers, 0U);
  const Buffer still(device, 8);
  EXPECT_EQ(still.byte_count(), 8U) << "it stayed open, and goes on";
}

TEST_F(BadLife, AForkedChildOfAnOpenDeviceMayOnlyExec) {
  const auto backend = built_backend("null");
  if (backend == nullptr) {
    GTEST_SKIP() << "the null backend was not built";
  }
  const auto device = backend->open_device(0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int code = 1;
    try {
      const Buffer buffer(device, 8);
    } catch (const Error& error) {
      const std::string text = error.what();
      code = error.code() == ErrorCode::kFailedPrecondition &&
                     text.find("forked after a device was opened; it may only exec") != std::string::npos
                 ? 0
                 : 2;
    }
    ::_exit(code);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const Buffer buffer(device, 8);
  EXPECT_EQ(buffer.byte_count(), 8U) << "the parent goes on";
}

TEST_F(BadLife, ADestroyThatThrowsIsLoggedAndNobodyElseSuffers) {
  place("throw_in_destroy");
  Runtime runtime(without_probe());
  runtime.backend("throw_in_destroy");
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("4 plugin.release_failed name=throw_in_destroy"),
                                     HasSubstr("its destroy threw an exception: still busy"))));
  use_a_good_one(runtime);
}

// A plugin that keeps the host's table and calls back when it was destroyed.
const yoke_host_api* kept_host = nullptr;
yoke_plugin_entry_fn kept_entry = nullptr;
extern "C" std::int32_t keeping_entry(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                      yoke_error* error) {
  kept_host = args->host;
  return kept_entry(args, out_plugin, error);
}

TEST_F(BadLife, ACallAfterTheCloseIsLoggedAndHarmsNobody) {
  place("late");
  void* const library = ::dlopen(file("late").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  kept_entry = reinterpret_cast<yoke_plugin_entry_fn>(::dlsym(library, YOKE_PLUGIN_ENTRY_SYMBOL));
  {
    Runtime runtime(options({}));
    runtime.register_backend("late", &keeping_entry);
    void* early = nullptr;
    {
      const auto backend = runtime.backend("late");
      early = kept_host->allocate(kept_host->host, 64, 64);
      EXPECT_NE(early, nullptr);
    }
    EXPECT_THAT(lines_, Contains("2 bad.destroy backend=late"));

    kept_host->log(kept_host->host, YOKE_LOG_ERROR, "bad.late", 8);

    EXPECT_THAT(lines_, Contains(HasSubstr("3 plugin.late_call name=late call=log")));
    EXPECT_THAT(lines_, Not(Contains(HasSubstr("bad.late"))));
    EXPECT_EQ(kept_host->allocate(kept_host->host, 8, 8), nullptr);
    kept_host->deallocate(kept_host->host, early);
    use_a_good_one_of(options({folder_}));
  }
  lines_.clear();
  kept_host->log(kept_host->host, YOKE_LOG_ERROR, "bad.later", 9);
  EXPECT_TRUE(lines_.empty()) << "the runtime is gone, and its log with it";
}

TEST_F(BadLife, ACallToAClosedDeviceIsTheCallersToAvoidAndObjectsMakeItImpossible) {
  place("good");
  std::weak_ptr<Device> device;
  {
    const Buffer buffer(Runtime(without_probe()).backend("good")->open_device(0), 8);
    device = buffer.device();
    EXPECT_FALSE(device.expired()) << "a buffer keeps its device open";
  }
  EXPECT_TRUE(device.expired());
}

TEST_F(BadLife, SixteenThreadsThatLoadTheSameNameGetOneBackend) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  place("good");
  Runtime runtime(with_probe());
  std::vector<std::shared_ptr<Backend>> got(16);
  std::vector<std::thread> threads;
  for (auto& slot : got) {
    threads.emplace_back([&] { slot = runtime.backend("good"); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_NE(got[0], nullptr);
  EXPECT_THAT(got, Each(got[0]));
  EXPECT_EQ(read(root_ / "loaded"), "goodgood") << "probed once, loaded once";
}

TEST_F(BadLife, SixteenRuntimesOfSixteenThreadsEachGetTheirOwn) {
  place("good");
  std::vector<std::shared_ptr<Backend>> got(16);
  std::vector<std::thread> threads;
  auto given = with_probe();
  given.log_sink = [](LogLevel, std::string_view) {};  // each runtime has a lock of its own
  for (auto& slot : got) {
    threads.emplace_back([&] { slot = Runtime(given).backend("good"); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const auto& backend : got) {
    ASSERT_NE(backend, nullptr);
    EXPECT_EQ(backend->device_count(), 1U);
    EXPECT_EQ(std::count(got.begin(), got.end(), backend), 1);
  }
}

}  // namespace
}  // namespace yoke::test
