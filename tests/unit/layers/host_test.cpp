// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/host_test.cpp: what the layer validate finds a host doing.
#include <sys/wait.h>
#include <unistd.h>

#include "crooked.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HostRules : public LayersTest {};

constexpr const char* kProgram = R"(yoke.program 1
program scale(symbol row in 0..8 step 4) {
  arg x : f32[8, 4] in
  arg y : f32[4, 4] out
  y[n, o] = x[row + n, o] * 2.0
}
)";

TEST_F(HostRules, AHostThatKeepsThemIsNotBlamed) {
  enter();
  const std::vector<std::byte> data(64);
  auto* buffer = make_buffer(64);
  auto* stream = make_stream();
  copy_in(stream, buffer, data.data(), 64);
  auto* event = record(stream);
  streams->event_wait(event, 1'000'000, error());
  streams->event_destroy(event);
  streams->stream_destroy(stream);
  backend->buffer_destroy(buffer);
  EXPECT_EQ(backend->device_close(device, error()), YOKE_OK);
  plugin->destroy(plugin);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(HostRules, UseAfterDestroyNeverReachesThePlugin) {
  enter();
  const std::vector<std::byte> data(16);
  auto* buffer = make_buffer(16);
  backend->buffer_destroy(buffer);
  EXPECT_EQ(copy_in(nullptr, buffer, data.data(), 16), YOKE_FAILED_PRECONDITION);
  EXPECT_THAT(status.text, HasSubstr("destroyed before"));
  EXPECT_EQ(plugin_side->calls, 0);
  EXPECT_THAT(found(), ElementsAre("15 host from_host"));
  EXPECT_THAT(lines, Contains(HasSubstr("rule=15 who=host call=from_host backend=crooked")));
}

TEST_F(HostRules, ASecondDestroyIsCaught) {
  enter();
  auto* buffer = make_buffer(16);
  backend->buffer_destroy(buffer);
  backend->buffer_destroy(buffer);
  EXPECT_THAT(found(), ElementsAre("15 host buffer_destroy"));
}

TEST_F(HostRules, GarbageAndHandlesOfAnotherKindAreCaught) {
  enter();
  auto* stream = make_stream();
  yoke_memory_info info{sizeof(info), 0, 0, 0};
  EXPECT_EQ(backend->device_memory(reinterpret_cast<yoke_device*>(stream), &info, error()),
            YOKE_FAILED_PRECONDITION);
  std::uint64_t garbage[8] = {};
  yoke_event* event = nullptr;
  streams->event_record(reinterpret_cast<yoke_stream*>(garbage), &event, error());
  EXPECT_EQ(event, nullptr);
  EXPECT_THAT(found(), ElementsAre("15 host device_memory"));  // garbage alone says not whose call it is
}

TEST_F(HostRules, AHandleOfAnotherPluginIsNamed) {
  enter();
  auto* foreign = make_buffer(16);
  auto* const first = backend;
  enter();
  auto* stream = make_stream();
  const std::vector<std::byte> data(16);
  EXPECT_EQ(copy_in(stream, foreign, data.data(), 16), YOKE_FAILED_PRECONDITION);
  EXPECT_THAT(status.text, HasSubstr("of another plugin"));
  EXPECT_THAT(found(), ElementsAre("15 host from_host"));
  first->buffer_destroy(foreign);
}

TEST_F(HostRules, AChildThatIsAliveAtCloseIsCounted) {
  enter();
  auto* buffer = make_buffer(16);
  EXPECT_EQ(backend->device_close(device, error()), YOKE_FAILED_PRECONDITION);
  EXPECT_THAT(found(), ElementsAre("14 host device_close"));
  backend->buffer_destroy(buffer);
  EXPECT_EQ(backend->device_close(device, error()), YOKE_OK);  // it stayed open
}

TEST_F(HostRules, ARangeThatLeavesItsBufferIsCaught) {
  enter();
  const std::vector<std::byte> data(32);
  auto* buffer = make_buffer(16);
  EXPECT_EQ(copy_in(nullptr, buffer, data.data(), 8, 9), YOKE_OUT_OF_RANGE);
  EXPECT_EQ(copy_in(nullptr, buffer, data.data(), 8, ~std::uint64_t{0}), YOKE_OUT_OF_RANGE);
  EXPECT_THAT(found(), ElementsAre("16 host from_host", "16 host from_host"));
}

TEST_F(HostRules, ABufferWithQueuedWorkMayNotBeDestroyed) {
  enter();
  const std::vector<std::byte> data(16);
  auto* buffer = make_buffer(16);
  auto* stream = make_stream();
  copy_in(stream, buffer, data.data(), 16);
  backend->buffer_destroy(buffer);
  EXPECT_THAT(found(), ElementsAre("15 host buffer_destroy"));
  streams->stream_destroy(stream);
  EXPECT_THAT(found(), ElementsAre("15 host buffer_destroy", "18 host stream_destroy"));
}

TEST_F(HostRules, WorkIsDoneWhenAStreamThatWaitedForItIs) {
  enter();
  const std::vector<std::byte> data(16);
  auto* buffer = make_buffer(16);
  auto* first = make_stream();
  auto* second = make_stream();
  copy_in(first, buffer, data.data(), 16);
  auto* event = record(first);
  streams->stream_wait_event(second, event, error());
  streams->stream_wait(second, 1'000'000, error());
  backend->buffer_destroy(buffer);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(HostRules, ASourceThatChangesBeforeItsEventIsSeen) {
  enter();
  plugin_side->source = YOKE_SOURCE_UNTIL_EVENT;
  std::vector<std::byte> data(4096);
  auto* buffer = make_buffer(4096);
  auto* stream = make_stream();
  copy_in(stream, buffer, data.data(), 4096);
  data[100] = std::byte{1};
  streams->stream_wait(stream, 1'000'000, error());
  EXPECT_THAT(found(), ElementsAre("16 host from_host"));
  copy_in(stream, buffer, data.data(), 4096);
  streams->stream_wait(stream, 1'000'000, error());
  data[100] = std::byte{2};  // now it may
  EXPECT_THAT(found(), ElementsAre("16 host from_host"));
}

TEST_F(HostRules, ASourceThatTheStreamItselfWritesLaterIsNotBlamed) {
  enter();
  plugin_side->source = YOKE_SOURCE_UNTIL_EVENT;
  std::vector<std::byte> staging(64, std::byte{1});
  auto* zeros = make_buffer(64);
  auto* buffer = make_buffer(64);
  auto* stream = make_stream();
  copy_in(stream, buffer, staging.data(), 64);
  backend->to_host(stream, zeros, 0, staging.data(), 64, error());  // in order behind the copy
  streams->stream_wait(stream, 1'000'000, error());
  EXPECT_EQ(staging[0], std::byte{0});
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(HostRules, SymbolsOutsideOfTheirRangeAndSharedBytesAreCaught) {
  enter();
  auto* code = compile(kProgram);
  auto* x = make_buffer(128);
  auto* y = make_buffer(64);
  auto* good = link(code, {{x, 0}, {y, 0}});
  const std::int64_t wrong[] = {3};
  const std::int64_t right[] = {4};
  programs->routine_launch(nullptr, good, right, 1, error());
  EXPECT_THAT(found(), IsEmpty());
  programs->routine_launch(nullptr, good, wrong, 1, error());
  programs->routine_launch(nullptr, good, right, 2, error());
  EXPECT_THAT(found(), ElementsAre("26 host routine_launch", "26 host routine_launch"));
  auto* shared = link(code, {{x, 0}, {x, 64}});
  EXPECT_THAT(found(), Contains("26 host routine_link"));
  backend->buffer_destroy(y);
  EXPECT_THAT(found(), Contains("15 host buffer_destroy"));  // a routine is linked against it
  programs->routine_destroy(shared);
  programs->routine_destroy(good);
}

TEST_F(HostRules, OneRoutineOnTwoStreamsNeedsAnEventBetweenThem) {
  enter();
  auto* code = compile(kProgram);
  auto* routine = link(code, {{make_buffer(128), 0}, {make_buffer(64), 0}});
  auto* first = make_stream();
  auto* second = make_stream();
  const std::int64_t row[] = {0};
  programs->routine_launch(first, routine, row, 1, error());
  streams->stream_wait_event(second, record(first), error());
  programs->routine_launch(second, routine, row, 1, error());
  EXPECT_THAT(found(), IsEmpty());
  programs->routine_launch(first, routine, row, 1, error());
  EXPECT_THAT(found(), ElementsAre("20 host routine_launch"));
}

TEST_F(HostRules, CallingThePluginFromInsideOfItsLogIsCaught) {
  enter();
  plugin_side->on_call = [&] { plugin_side->host.log(plugin_side->host.host, YOKE_LOG_INFO, "a.line", 6); };
  auto* buffer = make_buffer(16);
  on_log = [&] {
    std::uint32_t count = 0;
    backend->device_count(plugin, &count, nullptr);
  };
  const std::vector<std::byte> data(16);
  copy_in(nullptr, buffer, data.data(), 16);
  EXPECT_THAT(found(), ElementsAre("20 host device_count"));
}

TEST_F(HostRules, ACallAfterDestroyIsAnswered) {
  enter();
  auto* const last = backend;
  backend->device_close(device, error());
  plugin->destroy(plugin);
  std::uint32_t count = 0;
  EXPECT_EQ(last->device_count(plugin, &count, error()), YOKE_FAILED_PRECONDITION);
  EXPECT_EQ(plugin->get_table(plugin, YOKE_BACKEND_TABLE), nullptr);
  plugin->destroy(plugin);
  EXPECT_THAT(found(), ElementsAre("35 host device_count", "35 host get_table", "35 host destroy"));
}

// Whether `act` answered true in a child; not, when it hangs.
bool in_child(const std::function<bool()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::_exit(act() ? 0 : 1);
  }
  int result = 0;
  return ::waitpid(child, &result, 0) == child && WIFEXITED(result) && WEXITSTATUS(result) == 0;
}

TEST_F(HostRules, AForkedChildIsTold) {
  enter();
  EXPECT_TRUE(in_child([&] {
    std::uint32_t count = 0;
    const auto code = backend->device_count(plugin, &count, error());
    return code == YOKE_FAILED_PRECONDITION && status.text.find("forked") != std::string::npos &&
           found() == std::vector<std::string>{"23 host device_count"} &&
           plugin->get_table(plugin, YOKE_BACKEND_TABLE) == nullptr;
  }));
  backend->device_close(device, error());
  EXPECT_TRUE(in_child([&] { return plugin->get_table(plugin, YOKE_BACKEND_TABLE) != nullptr; }));
}

TEST_F(HostRules, AForkedChildIsAnsweredAlsoWhereAnotherThreadHoldsALock) {
  plugin_side->source = YOKE_SOURCE_UNTIL_EVENT;
  enter();
  auto* const stream = make_stream();
  auto* const buffer = make_buffer(4096);
  std::vector<std::byte> data(4096);
  copy_in(stream, buffer, data.data(), 4096);
  data[100] = std::byte{1};  // too early: what says so is told with the stream's lock held
  std::atomic<bool> is_held{false};
  std::atomic<bool> is_over{false};
  on_line = [&] {
    is_held = true;
    while (!is_over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  std::thread other([&] { streams->stream_wait(stream, 1'000, nullptr); });
  for (int i = 0; i < 20'000 && !is_held; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(is_held);
  EXPECT_TRUE(in_child([&] {
    std::int32_t done = 0;
    return copy_in(stream, buffer, data.data(), 4096) == YOKE_FAILED_PRECONDITION &&
           streams->stream_query(stream, &done, error()) == YOKE_FAILED_PRECONDITION;
  }));
  is_over = true;
  other.join();
}

TEST_F(HostRules, AskedToItFailsTheCall) {
  enter("validate", true);
  const std::vector<std::byte> data(32);
  auto* buffer = make_buffer(16);
  EXPECT_EQ(copy_in(nullptr, buffer, data.data(), 32), YOKE_FAILED_PRECONDITION);
  EXPECT_THAT(status.text, HasSubstr("rule 16"));
  EXPECT_EQ(plugin_side->calls, 0);
}

TEST_F(HostRules, TablesThatAreNotKnownAreNotPassedThrough) {
  enter();
  EXPECT_EQ(plugin->get_table(plugin, "org.example.private/1"), nullptr);
  EXPECT_EQ(backend->fill, nullptr);  // and what the plugin lacks stays NULL
  EXPECT_NE(backend->from_host, plugin_side->backend.from_host);
}

}  // namespace
}  // namespace yoke::test
