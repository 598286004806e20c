// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/fork_test.cpp: what the layers let a forked child do.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "layers_test.h"

namespace yoke::test {
namespace {

class ForkedChild : public LayersTest {};

// Returns whether `act` returned true in a forked child; false if it hangs.
bool in_child(const std::function<bool()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::_exit(act() ? 0 : 1);
  }
  int result = 0;
  return ::waitpid(child, &result, 0) == child && WIFEXITED(result) && WEXITSTATUS(result) == 0;
}

TEST_F(ForkedChild, IsRefusedWhileAnotherThreadHoldsALock) {
  do_no_work(*control, YOKE_SOURCE_UNTIL_EVENT);
  enter();
  auto* const stream = make_stream();
  auto* const buffer = make_buffer(4096);
  std::vector<std::byte> data(4096);
  copy_in(stream, buffer, data.data(), 4096);
  data[100] = std::byte{1};  // the violation is logged while the stream's lock is held
  std::atomic<bool> is_held{false};
  std::atomic<bool> is_over{false};
  on_line = [&] {
    is_held = true;
    while (!is_over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  std::thread other([&] { streams->stream_wait(stream, 1'000'000, nullptr); });
  for (int i = 0; i < 20'000 && !is_held; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(is_held);
  EXPECT_TRUE(in_child([&] {
    std::int32_t state = 0;
    return copy_in(stream, buffer, data.data(), 4096) == YOKE_STATUS_FAILED_PRECONDITION &&
           streams->stream_query(stream, &state, error()) == YOKE_STATUS_FAILED_PRECONDITION &&
           status.text.find("forked") != std::string::npos &&
           plugin->get_table(plugin, YOKE_BACKEND_TABLE) == nullptr;
  }));
  is_over = true;
  other.join();
}

TEST_F(ForkedChild, MayUseAPluginUntilItsDevicesAreCountedDescribedOrOpened) {
  control->backend.live_counts = [](auto...) { return YOKE_STATUS_OK; };  // the plugin itself does not refuse
  LayerOptions options;
  options.names = "validate";
  options.use_environment = false;
  const auto is_served = [&] {
    auto live = sized<yoke_live_counts>();
    return backend->live_counts(plugin, &live, error()) == YOKE_STATUS_OK;
  };
  const std::function<void()> starts[] = {[&] { count_devices(); },
                                          [&] {
                                            auto info = sized<yoke_device_info>();
                                            backend->device_describe(plugin, 0, &info, error());
                                          },
                                          [&] { backend->device_close(open_device(0), error()); }};
  for (const auto& start : starts) {
    session = layers::open_session(options, [](LogLevel, std::string_view) {});
    const yoke_entry_args args = host.args();
    ASSERT_EQ(layers::enter(session, entry_of(0, control), &args, &plugin, error()), YOKE_STATUS_OK);
    backend = static_cast<const yoke_backend_api*>(plugin->get_table(plugin, YOKE_BACKEND_TABLE));
    EXPECT_TRUE(is_served());
    EXPECT_TRUE(in_child([&] { return is_served() && count_devices() == YOKE_STATUS_OK; }));
    start();
    EXPECT_TRUE(is_served());
    EXPECT_FALSE(in_child(is_served));
    plugin->destroy(plugin);
  }
}

}  // namespace
}  // namespace yoke::test
