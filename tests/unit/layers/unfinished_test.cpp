// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/unfinished_test.cpp: what a trace tells of calls that never returned, and of calls that
// never reached the plugin.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yoke/runtime/trace.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "crooked.h"
#include "test_files.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Unfinished : public LayersTest {
 protected:
  Unfinished() { trace_file = folder_ / "run.yoketrace"; }
  ~Unfinished() override { session.reset(); }

  // Runs `act` in a child that ends in it, or right after it by SIGKILL.
  void in_child(const std::function<void()>& act) {
    const pid_t child = ::fork();
    if (child == 0) {
      act();
      ::kill(::getpid(), SIGKILL);
    }
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    std::ifstream in(trace_file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
    file_.assign(begin, begin + bytes.size());
  }
  std::vector<std::string> names() const {
    TraceReader reader(file_);
    TraceRecord record;
    while (reader.next(record)) {
    }
    std::vector<std::string> all;
    for (const TraceUnfinished& one : reader.unfinished()) {
      all.emplace_back(one.name());
    }
    return all;
  }
  // The names of calls that returned, and of spans that ended.
  std::vector<std::string> ended() const {
    TraceReader reader(file_);
    TraceRecord record;
    std::vector<std::string> all;
    while (reader.next(record)) {
      if (record.type == TraceRecord::Type::kCall) {
        all.push_back(record.function->name);
      } else if (record.type == TraceRecord::Type::kSpan) {
        all.emplace_back(record.text);
      }
    }
    return all;
  }
  std::string listed() const {
    std::ostringstream text;
    print_trace(file_, text);
    return text.str();
  }
  std::string drawn() const {
    std::ostringstream text;
    write_chrome_trace(file_, text);
    return text.str();
  }
  void copy(yoke_stream* stream) {
    const std::vector<std::byte> data(16);
    copy_in(stream, make_buffer(16), data.data(), 16);
  }

  TemporaryFolder folder_;
  std::vector<std::byte> file_;
};

TEST_F(Unfinished, ACallInWhichTheProcessEndedIsNamed) {
  plugin_side->on_call = [] { ::_exit(7); };
  for (const bool on_stream : {false, true}) {
    in_child([&] {
      enter("trace");
      copy(on_stream ? make_stream() : nullptr);
    });
    EXPECT_THAT(names(), ElementsAre("from_host"));
    EXPECT_THAT(listed(), HasSubstr("never returned: from_host of plugin 1"));
    EXPECT_THAT(drawn(), HasSubstr(R"("ph": "B", "pid": 1)"));
    EXPECT_THAT(drawn(), HasSubstr(R"("name": "from_host"})"));
  }
}

TEST_F(Unfinished, ACallThatReturnedBeforeTheProcessWasKilledIsNot) {
  in_child([&] {
    enter("trace");
    copy(nullptr);
  });
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THAT(ended(), Contains("from_host"));
  EXPECT_THAT(listed(), Not(HasSubstr("never returned")));
  EXPECT_THAT(drawn(), Not(HasSubstr(R"("ph": "B")")));
}

TEST_F(Unfinished, ASpanInACallIsNamedBehindIt) {
  plugin_side->on_call = [this] {
    const yoke_host_api& host = plugin_side->host;
    host.trace_begin(host.host, "done");
    host.trace_end(host.host);
    host.trace_begin(host.host, "upload");
    ::kill(::getpid(), SIGKILL);
  };
  in_child([&] {
    enter("trace");
    copy(nullptr);
  });
  EXPECT_THAT(names(), ElementsAre("from_host", "upload"));
  EXPECT_THAT(ended(), Contains("done"));
}

TEST_F(Unfinished, EntryTableAndDestroyAreSpans) {
  in_child([&] {
    enter("trace");
    backend->device_close(device, error());
    plugin->destroy(plugin);
  });
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THAT(ended(), ElementsAre("yoke_plugin_entry", "get_table yoke.backend/1", "get_table yoke.stream/1",
                                   "get_table yoke.program/1", "device_open", "device_close", "destroy"));
}

TEST_F(Unfinished, OnesThatNeverReturnAreNamed) {
  const auto kill_self = [] { ::kill(::getpid(), SIGKILL); };
  plugin_side->on_entry = kill_self;
  in_child([&] { enter("trace"); });
  EXPECT_THAT(names(), ElementsAre("yoke_plugin_entry"));
  plugin_side->on_entry = nullptr;

  plugin_side->on_table = kill_self;
  in_child([&] { enter("trace"); });
  EXPECT_THAT(names(), ElementsAre("get_table yoke.backend/1"));
  plugin_side->on_table = nullptr;

  plugin_side->on_destroy = kill_self;
  in_child([&] {
    enter("trace");
    plugin->destroy(plugin);
  });
  EXPECT_THAT(names(), ElementsAre("destroy"));
}

TEST_F(Unfinished, OnesThatThrewHaveEnded) {
  plugin_side->on_destroy = [] { throw std::runtime_error("oops"); };
  in_child([&] {
    enter("trace");
    EXPECT_THROW(plugin->destroy(plugin), std::runtime_error);
    session.reset();  // closes the file
  });
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THAT(ended(), Contains("destroy"));
  EXPECT_THAT(listed(), HasSubstr("destroy threw an exception: oops"));
  EXPECT_THAT(listed(), Not(HasSubstr("# cut")));
}

TEST_F(Unfinished, ARefusedCallIsALineOfTheLogUnderEitherLayer) {
  for (const std::string layers : {"trace", "validate,trace", "trace,validate"}) {
    SCOPED_TRACE(layers);
    in_child([&] {
      enter(layers);
      auto* const buffer = make_buffer(16);
      backend->buffer_destroy(buffer);
      backend->buffer_destroy(buffer);
      backend->device_close(device, error());
      plugin->destroy(plugin);
      std::uint32_t count = 0;
      backend->device_count(plugin, &count, error());
      session.reset();  // closes the file
    });
    EXPECT_THAT(names(), IsEmpty());
    EXPECT_THAT(listed(), HasSubstr("buffer 2, which was destroyed before"));
    EXPECT_THAT(listed(), HasSubstr("the plugin was destroyed before"));
    EXPECT_THAT(listed(), Not(HasSubstr("# cut")));
  }
}

TEST_F(Unfinished, ATraceWithoutBeginRecordsIsReadAsBefore) {
  std::ifstream in(std::filesystem::path(YOKE_TEST_SOURCE_DIR) / "tests/fuzz/regressions/replay/whole_run",
                   std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  file_.assign(begin, begin + bytes.size());
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THAT(ended(), Contains("device_close"));
  EXPECT_THAT(listed(), Not(HasSubstr("# cut")));
}

}  // namespace
}  // namespace yoke::test
