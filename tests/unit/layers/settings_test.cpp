// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/settings_test.cpp: the layer validate compares the settings of thread and process.
#include <signal.h>

#include <clocale>
#include <functional>
#include <utility>

#include "layers_test.h"

namespace yoke::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kOne = "yoke.program 1\nprogram one() {\n  arg a : f32[4] out\n  a[i] = 1.0\n}\n";

class PluginSettings : public LayersTest {};

TEST_F(PluginSettings, EveryChangedSettingIsNamed) {
  static std::function<void()> change;
  control->on_compile = [](std::string_view) { change(); };
  enter();
  const auto named = [&](std::function<void()> act) {
    change = std::move(act);
    lines.clear();
    compile(kOne);
    return lines.empty() ? "" : lines.back();
  };
  EXPECT_EQ(named([] {}), "");
  if (std::setlocale(LC_ALL, "C.UTF-8") != nullptr) {  // the system has it
    for (const char* const locale : {"C", "C.UTF-8", "C"}) {
      EXPECT_THAT(named([locale] { std::setlocale(LC_ALL, locale); }), HasSubstr("\"changed the locale\""));
    }
  }
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  EXPECT_THAT(named([&] { pthread_sigmask(SIG_BLOCK, &set, nullptr); }),
              HasSubstr("\"changed the thread's signal mask\""));
  EXPECT_THAT(named([&] {
                pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
                ::signal(SIGSYS, SIG_IGN);  // the last one that is watched
              }),
              HasSubstr("\"changed the thread's signal mask, a signal handler\""));
  ::signal(SIGSYS, SIG_DFL);
  EXPECT_THAT(named([] { ::signal(SIGHUP, SIG_IGN); }), HasSubstr("\"changed a signal handler\""));
  struct sigaction action = {};
  action.sa_handler = SIG_IGN;
  action.sa_flags = SA_NODEFER;
  EXPECT_THAT(named([&] { ::sigaction(SIGHUP, &action, nullptr); }),
              HasSubstr("\"changed a signal handler\""));
  ::signal(SIGHUP, SIG_DFL);
}

TEST_F(PluginSettings, SettingsOfTheProcessAreComparedInRareCallsOnly) {
  static void (*handler)(int) = SIG_DFL;
  const auto change = [] {
    ::signal(SIGHUP, std::exchange(handler, handler == SIG_DFL ? SIG_IGN : SIG_DFL));
  };
  static void (*const act)() = change;
  control->backend.device_memory = [](auto...) {
    act();
    return YOKE_STATUS_OK;
  };
  control->stream.stream_wait = [](auto...) {
    act();
    return YOKE_STATUS_OK;
  };
  control->backend.buffer_create = [](auto... all) {
    act();
    return sdk::detail::buffer_create(all...);
  };
  control->backend.buffer_destroy = [](auto buffer) {
    act();
    sdk::detail::buffer_destroy(buffer);
  };
  control->stream.stream_create = [](auto... all) {
    act();
    return sdk::detail::stream_create(all...);
  };
  enter();
  auto info = sized<yoke_memory_info>();
  act();
  backend->device_memory(device, &info, error());
  backend->buffer_destroy(make_buffer(16));
  EXPECT_THAT(found(), IsEmpty());
  auto* const stream = make_stream();
  EXPECT_THAT(found(), ElementsAre("22 plugin stream_create"));
  streams->stream_wait(stream, 1'000'000'000, error());
  EXPECT_THAT(found(), ElementsAre("22 plugin stream_create"));
  ::signal(SIGHUP, SIG_DFL);
}

}  // namespace
}  // namespace yoke::test
