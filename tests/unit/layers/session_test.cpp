// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/session_test.cpp: the options of the layers, their environment variables, the trace file, and
// the counts of violations.
#include "layers/session.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "layers_test.h"
#include "recorded.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class Sessions : public ::testing::Test {
 protected:
  ~Sessions() override {
    for (const char* const name : {"YOKE_LAYERS", "YOKE_VALIDATE", "YOKE_TRACE_FILE", "YOKE_TRACE_DATA"}) {
      ::unsetenv(name);
    }
  }
  LayerOptions options(const std::string& names) const {
    LayerOptions all;
    all.names = names;
    all.trace_file = path();
    return all;
  }
  std::filesystem::path path() const { return folder_ / "run.yoketrace"; }
  std::shared_ptr<layers::Session> open(const LayerOptions& with) {
    return layers::open_session(with, [this](LogLevel level, std::string_view line) {
      lines.push_back(std::to_string(static_cast<int>(level)) + " " + std::string(line));
    });
  }
  Error error_for(const LayerOptions& with) {
    return error_of([&] { open(with); });
  }
  static layers::TraceHeader header_of(const std::filesystem::path& file) {
    layers::TraceHeader header{};
    std::memcpy(&header, read_bytes(file).data(), sizeof(header));
    return header;
  }
  static std::string at(LogLevel level, const std::string& line) {
    return std::to_string(static_cast<int>(level)) + " " + line;
  }

  static std::size_t open_descriptors() {
    std::size_t count = 0;
    for (int file = 0; file < 256; ++file) {
      count += ::fcntl(file, F_GETFD) >= 0 ? 1U : 0U;
    }
    return count;
  }

  TemporaryFolder folder_;
  std::vector<std::string> lines;
};

TEST_F(Sessions, LayersAreOffByDefaultAndListedOnce) {
  EXPECT_EQ(open(options("")), nullptr);
  EXPECT_THAT(lines, IsEmpty());
  EXPECT_THAT(
      error_for(options("trace,validate,trace")),
      is_error(ErrorCode::kInvalidArgument, "LayerOptions::names: the layer 'trace' is listed twice"));
  EXPECT_THAT(error_for(options("validate,")), is_error(ErrorCode::kInvalidArgument, "unknown layer ''"));
  const auto session = open(options("trace,validate"));
  EXPECT_THAT(session->names, ElementsAre("trace", "validate"));
  EXPECT_THAT(lines, ElementsAre(at(LogLevel::kInfo, "layer.on name=trace"),
                                 at(LogLevel::kInfo, "layer.on name=validate"),
                                 at(LogLevel::kInfo, "trace.open file=\"" + path().string() + "\" data=0")));
}

TEST_F(Sessions, EnvironmentAppliesUnlessItIsIgnoredOrAnOptionIsSet) {
  ::setenv("YOKE_LAYERS", "validate", 1);
  ::setenv("YOKE_VALIDATE", "fail", 1);
  const auto session = open(options(""));
  EXPECT_THAT(session->names, ElementsAre("validate"));
  EXPECT_TRUE(session->ledger->fail_calls());
  EXPECT_EQ(session->writer, nullptr);
  EXPECT_THAT(open(options("trace"))->names, ElementsAre("trace"));
  auto ignoring = options("");
  ignoring.use_environment = false;
  EXPECT_EQ(open(ignoring), nullptr);
  ignoring.names = "validate";
  EXPECT_FALSE(open(ignoring)->ledger->fail_calls());
  ::unsetenv("YOKE_VALIDATE");
  EXPECT_FALSE(open(options(""))->ledger->fail_calls());
  auto failing = options("");
  failing.fail_calls = true;
  EXPECT_TRUE(open(failing)->ledger->fail_calls());
  ::setenv("YOKE_LAYERS", "tarce", 1);
  EXPECT_THAT(error_for(options("")),
              is_error(ErrorCode::kInvalidArgument, "YOKE_LAYERS: unknown layer 'tarce'"));
}

TEST_F(Sessions, TraceFileAndItsContentsAreSetByTheEnvironment) {
  const std::string other = (folder_ / "other.yoketrace").string();
  ::setenv("YOKE_TRACE_FILE", other.c_str(), 1);
  open(options("trace"));
  EXPECT_TRUE(std::filesystem::exists(path()));
  EXPECT_FALSE(std::filesystem::exists(other));
  auto unnamed = options("trace");
  unnamed.trace_file.clear();
  for (const auto& [value, data] : {std::pair("", 0), std::pair("0", 0), std::pair("1", 1)}) {
    ::setenv("YOKE_TRACE_DATA", value, 1);
    open(unnamed);
    EXPECT_EQ(header_of(other).flags, data);
    EXPECT_EQ(header_of(other).process, ::getpid());
    EXPECT_THAT(lines, Contains(HasSubstr("data=" + std::to_string(data))));
    lines.clear();
  }
  ::setenv("YOKE_TRACE_DATA", "yes", 1);
  EXPECT_THAT(error_for(unnamed),
              is_error(ErrorCode::kInvalidArgument, "YOKE_TRACE_DATA is 'yes'; it takes 1 or 0"));
  ::unsetenv("YOKE_TRACE_DATA");
  auto with_data = options("trace");
  with_data.trace_data = true;
  open(with_data);
  EXPECT_EQ(header_of(path()).flags, layers::kTraceHasData);
}

TEST_F(Sessions, TraceHasTheTimeOfItsStart) {
  const auto now = [] {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::system_clock::now().time_since_epoch())
                                          .count());
  };
  const std::uint64_t before = now();
  open(options("trace"));
  EXPECT_GE(header_of(path()).unix_ns, before);
  EXPECT_LE(header_of(path()).unix_ns, now());
  EXPECT_EQ(header_of(path()).version, layers::kTraceVersion);
}

TEST_F(Sessions, TracesAtTheSameTimeHaveSeparateFiles) {
  const std::size_t before = open_descriptors();
  {
    const auto first = open(options("trace"));
    const auto second = open(options("trace"));
    const auto third = open(options("trace"));
    EXPECT_EQ(open_descriptors(), before + 3);
    EXPECT_TRUE(std::filesystem::exists(folder_ / "run.2.yoketrace"));
    EXPECT_TRUE(std::filesystem::exists(folder_ / "run.3.yoketrace"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run.4.yoketrace"));
    EXPECT_EQ(std::filesystem::status(path()).permissions(), std::filesystem::perms(0600));
  }
  EXPECT_EQ(open_descriptors(), before);
  for (const char* const name : {"run.yoketrace", "run.2.yoketrace", "run.3.yoketrace"}) {
    std::ostringstream text;
    replay::print(read_bytes(folder_ / name), text);
    EXPECT_THAT(text.str(), Not(HasSubstr("# incomplete"))) << name;
  }
  const auto size = std::filesystem::file_size(path());
  open(options("trace"));
  EXPECT_EQ(std::filesystem::file_size(path()), size) << "an old file is overwritten";
}

TEST_F(Sessions, TraceFileMayHaveTheLowestDescriptor) {
  const int kept = ::dup(STDIN_FILENO);
  ::close(STDIN_FILENO);
  EXPECT_NE(open(options("trace")), nullptr);
  EXPECT_GT(std::filesystem::file_size(path()), sizeof(layers::TraceHeader));
  ::dup2(kept, STDIN_FILENO);
  ::close(kept);
}

TEST_F(Sessions, TraceFileThatCannotBeCreatedIsAnError) {
  auto missing = options("trace");
  missing.trace_file = folder_ / "missing" / "run.yoketrace";
  EXPECT_THAT(error_for(missing),
              is_error(ErrorCode::kNotFound, "cannot create the trace file " + missing.trace_file.string() +
                                                 ": No such file or directory; set YOKE_TRACE_FILE"));
  const auto locked = folder_ / "locked";
  std::filesystem::permissions(path().parent_path(), std::filesystem::perms(0755));
  std::filesystem::create_directory(locked);
  std::filesystem::permissions(locked, std::filesystem::perms(0555));
  missing.trace_file = locked / "run.yoketrace";
  const uid_t user = ::geteuid();
  const bool is_root = user == 0 && ::seteuid(65534) == 0;  // root may write anywhere
  const Error error = error_for(missing);
  EXPECT_EQ(is_root ? ::seteuid(user) : 0, 0);
  EXPECT_THAT(error, is_error(ErrorCode::kPermissionDenied, "Permission denied"));
}

TEST_F(Sessions, FirstFailureToWriteIsReportedAndLaterRecordsAreDropped) {
  auto full = options("trace");
  full.trace_file = "/dev/full";
  std::vector<std::string> problems;
  full.on_trace_problem = [&](const std::string& problem) {
    problems.push_back(problem);
    throw std::runtime_error("dropped");
  };
  open(full);
  EXPECT_THAT(problems, ElementsAre("the trace /dev/full is incomplete: No space left on device"));
  const auto stop = at(LogLevel::kError, "trace.stop file=\"/dev/full\" reason=\"No space left on device\"");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), stop), 1);
}

TEST_F(Sessions, RemovedFileIsReportedAlsoIfAnotherHasItsName) {
  std::vector<std::string> problems;
  auto watched = options("trace");
  watched.on_trace_problem = [&](const std::string& problem) { problems.push_back(problem); };
  {
    const auto session = open(watched);
    std::filesystem::rename(path(), folder_ / "moved");
    std::ofstream(path()) << "another file";
  }
  EXPECT_THAT(problems, ElementsAre(HasSubstr("the file was removed while it was written")));
  EXPECT_THAT(lines, Contains(StartsWith(at(LogLevel::kError, "trace.stop file="))));
}

TEST_F(Sessions, ViolationsAreLoggedCountedAndTraced) {
  {
    const auto session = open(options("validate,trace"));
    session->ledger->report({15, Culprit::kHost, false, "cc", "fill", "a \"quoted\" text"});
    session->ledger->report({20, Culprit::kPlugin, true, "cc", "fill", "slow"});
    EXPECT_THAT(lines, Contains(at(LogLevel::kError,
                                   "validate.violation rule=15 who=host call=fill backend=cc "
                                   "text=\"a 'quoted' text\"")));
    EXPECT_THAT(lines, Contains(at(LogLevel::kWarn,
                                   "validate.warning rule=20 who=plugin call=fill backend=cc "
                                   "text=\"slow\"")));
    EXPECT_EQ(layers::summary(*session), "layer.off name=validate violations=1 warnings=1");
  }
  std::ostringstream text;
  replay::print(read_bytes(path()), text);
  EXPECT_THAT(text.str(), HasSubstr("log level=" + std::to_string(YOKE_LOG_ERROR) + " validate.violation"));
  EXPECT_THAT(text.str(), HasSubstr("log level=" + std::to_string(YOKE_LOG_WARN) + " validate.warning"));
  EXPECT_EQ(layers::summary(*open(options("trace"))), "");
}

TEST_F(Sessions, FirstThousandViolationsAreKept) {
  const auto session = layers::open_session(options("validate"), {});
  for (int i = 0; i < 1001; ++i) {
    session->ledger->report({i, Culprit::kHost, false, "cc", "fill", "text"});
  }
  const ValidationReport report = layers::validation(*session);
  EXPECT_EQ(report.violations, 1001);
  ASSERT_EQ(report.first.size(), 1000);
  EXPECT_EQ(report.first.back().rule, 999);
}

TEST_F(Sessions, SinkThatThrowsLosesOnlyItsLine) {
  const auto session = layers::open_session(options("validate"), [](LogLevel, std::string_view line) {
    if (line.find("violation") != line.npos) {
      throw std::runtime_error("full");
    }
  });
  session->ledger->report({15, Culprit::kHost, false, "cc", "fill", "text"});
  EXPECT_EQ(layers::validation(*session).violations, 1);
}

TEST_F(Sessions, MissingArgumentsOfAnEntryAreRefused) {
  TestHost host;
  yoke_entry_args args = host.args();
  yoke_plugin* plugin = nullptr;
  const auto session = open(options("validate"));
  for (const auto& one : {std::shared_ptr<layers::Session>(), session}) {
    EXPECT_EQ(layers::enter(one, nullptr, &args, &plugin, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(layers::enter(one, entry_of(0), nullptr, &plugin, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(layers::enter(one, entry_of(0), &args, nullptr, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
  }
  args.host = nullptr;
  yoke_plugin* direct = nullptr;
  EXPECT_EQ(layers::enter(session, entry_of(0), &args, &plugin, nullptr),
            entry_of(0)(&args, &direct, nullptr))
      << "without a host, the plugin decides";
  for (yoke_plugin* const entered : {plugin, direct}) {
    if (entered != nullptr) {
      entered->destroy(entered);
    }
  }
}

}  // namespace
}  // namespace yoke::test
