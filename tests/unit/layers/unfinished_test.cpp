// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/unfinished_test.cpp: traces of calls that never returned, or never reached the plugin.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <stdexcept>

#include "layers_test.h"
#include "recorded.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class UnfinishedTrace : public LayersTest {
 protected:
  UnfinishedTrace() { trace_file = folder_ / "run.yoketrace"; }

  // Runs `act` in a child process, which is killed if it returns.
  void in_child(const std::function<void()>& act) {
    const pid_t child = ::fork();
    if (child == 0) {
      act();
      ::kill(::getpid(), SIGKILL);
    }
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    file_ = read_bytes(trace_file);
  }
  std::vector<std::string> names() const {
    replay::Reader reader(file_);
    replay::Record record;
    while (reader.next(record)) {
    }
    std::vector<std::string> all;
    for (const replay::Unfinished& one : reader.unfinished()) {
      all.emplace_back(one.name());
    }
    return all;
  }
  // Lists the calls that returned and the spans that ended.
  std::vector<std::string> ended() const {
    replay::Reader reader(file_);
    replay::Record record;
    std::vector<std::string> all;
    while (reader.next(record)) {
      if (record.type == replay::Record::Type::kCall) {
        all.push_back(record.function->name);
      } else if (record.type == replay::Record::Type::kSpan) {
        all.emplace_back(record.text);
      }
    }
    return all;
  }
  std::string printed(void (*print)(std::span<const std::byte>, std::ostream&) = replay::print) const {
    std::ostringstream text;
    print(file_, text);
    return text.str();
  }
  std::string events() const { return printed(replay::write_chrome); }
  // Runs `act` inside the plugin, in from_host.
  void plant(std::function<void()> act) {
    static std::function<void()> current;
    current = std::move(act);
    control->backend.from_host = [](auto, auto, auto, auto, auto, std::int32_t* out_source, auto) {
      current();
      *out_source = YOKE_SOURCE_COPIED;
      return YOKE_STATUS_OK;
    };
  }
  void copy(yoke_stream* stream) { copy_in(stream, make_buffer(16), kData.data(), 16); }

  TemporaryFolder folder_;
  std::vector<std::byte> file_;
};

TEST_F(UnfinishedTrace, CallInWhichTheProcessEndedIsNamed) {
  plant([] { ::_exit(7); });
  for (const bool on_stream : {false, true}) {
    in_child([&] {
      enter("trace");
      copy(on_stream ? make_stream() : nullptr);
    });
    EXPECT_THAT(names(), ElementsAre("from_host"));
    EXPECT_THAT(printed(), HasSubstr("never returned: from_host of plugin 1"));
    EXPECT_THAT(events(), HasSubstr(R"("ph": "B", "pid": 1)"));
    EXPECT_THAT(events(), HasSubstr(R"("name": "from_host"})"));
  }
}

TEST_F(UnfinishedTrace, CallThatReturnedBeforeTheKillIsComplete) {
  in_child([&] {
    enter("trace");
    copy(nullptr);
  });
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THAT(ended(), Contains("from_host"));
  EXPECT_THAT(printed(), Not(HasSubstr("never returned")));
  EXPECT_THAT(events(), Not(HasSubstr(R"("ph": "B")")));
}

TEST_F(UnfinishedTrace, OpenSpanIsNamedAfterItsCall) {
  plant([] {
    plugin_host->trace_begin(plugin_host->host, "done");
    plugin_host->trace_end(plugin_host->host);
    plugin_host->trace_begin(plugin_host->host, "upload");
    ::kill(::getpid(), SIGKILL);
  });
  in_child([&] {
    enter("trace");
    copy(nullptr);
  });
  EXPECT_THAT(names(), ElementsAre("from_host", "upload"));
  EXPECT_THAT(ended(), Contains("done"));
}

TEST_F(UnfinishedTrace, EntryGetTableAndDestroyAreSpans) {
  in_child([&] {
    enter("trace");
    backend->device_close(device, error());
    plugin->destroy(plugin);
  });
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THAT(ended(), ElementsAre("yoke_plugin_entry", "get_table yoke.backend/1", "get_table yoke.stream/1",
                                   "get_table yoke.program/1", "device_open", "device_close", "destroy"));
}

TEST_F(UnfinishedTrace, EntryGetTableAndDestroyThatNeverReturnAreNamed) {
  const auto kill_self = [] { ::kill(::getpid(), SIGKILL); };
  control->on_entry = [&](yoke_plugin&) { kill_self(); };
  in_child([&] { enter("trace"); });
  EXPECT_THAT(names(), ElementsAre("yoke_plugin_entry"));
  control->on_entry = nullptr;

  control->on_table = [&](const char*, const void* table) {
    kill_self();
    return table;
  };
  in_child([&] { enter("trace"); });
  EXPECT_THAT(names(), ElementsAre("get_table yoke.backend/1"));
  control->on_table = nullptr;

  control->on_destroy = kill_self;
  in_child([&] {
    enter("trace");
    plugin->destroy(plugin);
  });
  EXPECT_THAT(names(), ElementsAre("destroy"));
}

TEST_F(UnfinishedTrace, DestroyThatThrewHasEnded) {
  control->on_destroy = [] { throw std::runtime_error("oops"); };
  in_child([&] {
    enter("trace");
    EXPECT_THROW(plugin->destroy(plugin), std::runtime_error);
    session.reset();  // closes the file
  });
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THAT(ended(), Contains("destroy"));
  EXPECT_THAT(printed(), HasSubstr("destroy threw an exception: oops"));
  EXPECT_THAT(printed(), Not(HasSubstr("# incomplete")));
}

TEST_F(UnfinishedTrace, RefusedCallIsALogLineUnderEitherOrderOfLayers) {
  for (const std::string layers : {"trace", "validate,trace", "trace,validate"}) {
    SCOPED_TRACE(layers);
    in_child([&] {
      enter(layers);
      auto* const buffer = make_buffer(16);
      backend->buffer_destroy(buffer);
      backend->buffer_destroy(buffer);
      backend->device_close(device, error());
      plugin->destroy(plugin);
      count_devices();
      session.reset();  // closes the file
    });
    EXPECT_THAT(names(), IsEmpty());
    EXPECT_THAT(printed(), HasSubstr("buffer 2, which is already destroyed"));
    EXPECT_THAT(printed(), HasSubstr("the plugin is already destroyed"));
    EXPECT_THAT(printed(), Not(HasSubstr("# incomplete")));
  }
}

}  // namespace
}  // namespace yoke::test
