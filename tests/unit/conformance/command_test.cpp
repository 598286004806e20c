// SPDX-License-Identifier: Apache-2.0
// tests/unit/conformance/command_test.cpp: yoke-conformance as people and CI run it, over plugins that are
// wrong in a known way.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

namespace {

using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

// Gone with its contents at the end of the test.
class Folder {
 public:
  Folder() {
    std::string name = fs::temp_directory_path() / "yoke-kit-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

std::string read_whole(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

Outcome run_program(const std::string& program, std::vector<std::string> words) {
  const Folder folder;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, (folder / "out").c_str(), O_CREAT | O_WRONLY, 0600);
  ::posix_spawn_file_actions_addopen(&actions, 2, (folder / "err").c_str(), O_CREAT | O_WRONLY, 0600);
  words.insert(words.begin(), program);
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  pid_t process = -1;
  EXPECT_EQ(::posix_spawn(&process, program.c_str(), &actions, nullptr, arguments.data(), environ), 0);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  ::waitpid(process, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_whole(folder / "out"),
          read_whole(folder / "err")};
}

Outcome kit(const std::vector<std::string>& words) {
  return run_program(CONFORMANCE_COMMAND, words);
}

std::string plugin(const std::string& way) {
  return std::string(CONFORMANCE_PLUGINS) + "/" + way + "/libyoke_backend_wrong.so";
}

Outcome round_trip(const std::string& way, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {plugin(way), "--filter", "copy.round-trip"});
  return kit(more);
}

// Is there a process that was started with this file?
bool has_process_of(const std::string& file) {
  const std::string path = fs::canonical(file);
  for (const fs::directory_entry& process : fs::directory_iterator("/proc")) {
    if (read_whole(process.path() / "cmdline").find(path) != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST(Conformance, WrongUsageIsTwo) {
  EXPECT_EQ(kit({}).code, 2);
  EXPECT_EQ(kit({"--no-such-option"}).code, 2);
  EXPECT_EQ(kit({"/no/such/file.so"}).code, 2);
  EXPECT_EQ(kit({plugin("good"), "--filter", "nothing.at-all"}).code, 2);
  EXPECT_EQ(kit({plugin("good"), "--jobs", "0"}).code, 2);
  EXPECT_EQ(kit({plugin("good"), "--timeout", "0"}).code, 2);
  EXPECT_EQ(kit({plugin("good"), "--option", "nameless"}).code, 2);
  EXPECT_EQ(kit({plugin("good"), "--expect", "/no/such/list"}).code, 2);
  EXPECT_THAT(kit({plugin("good"), "--filter", "nothing.at-all"}).err, HasSubstr("no test matches"));
}

std::size_t count_of(const std::string& part, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(Conformance, AFileThatCannotBeLoadedGetsOneSentenceAndNoTestIsRun) {
  const Folder folder;
  std::ofstream(folder / "text.so") << "GROUP ( libreal.so )\n";
  std::ofstream(folder / "cut.so", std::ios::binary) << read_whole(plugin("good")).substr(0, 5000);
  const std::size_t tests = count_of("\n", kit({"--list"}).out);
  const std::string ending = "; " + std::to_string(tests - 1) + " tests were not run\n";
  const auto said = [&](const std::string& file) {
    const Outcome outcome = kit({file});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(count_of("\n", outcome.out), 1U) << outcome.out;
    EXPECT_THAT(outcome.out, ::testing::StartsWith("FAILED " + fs::canonical(file).string() + ": "));
    EXPECT_THAT(outcome.out, ::testing::EndsWith(ending));
    return outcome.out;
  };

  EXPECT_THAT(said(folder / "text.so"),
              HasSubstr("it is a text file, not an ELF shared object; put the plugin itself "
                        "there (a linker script or a Git LFS pointer is not it); "));
  EXPECT_THAT(said(folder / "cut.so"), HasSubstr("it is cut short"));
  EXPECT_THAT(said(CONFORMANCE_YOKE), HasSubstr("the linker refused it: "));
  EXPECT_THAT(said(plugin("crashes_early")), HasSubstr("SIGSEGV (Segmentation fault), in dlopen"));
}

TEST(Conformance, AFileThatCannotBeLoadedFailsInJsonAndJunitToo) {
  const Folder folder;
  std::ofstream(folder / "text.so") << "no plugin\n";
  const Outcome outcome =
      kit({folder / "text.so", "--filter", "copy.r*", "--json", "--junit", folder / "report.xml"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("\"loads\": false"));
  EXPECT_THAT(outcome.out,
              HasSubstr("\"name\": \"load.enters\", \"group\": \"load\", \"verdict\": \"failed\", "
                        "\"text\": \"it is a text file"));
  EXPECT_THAT(outcome.out,
              HasSubstr("\"name\": \"copy.round-trip\", \"group\": \"copy\", \"verdict\": \"not run\""));
  EXPECT_THAT(outcome.out, HasSubstr("\"failed\": 1, "));
  const std::string junit = read_whole(folder / "report.xml");
  EXPECT_THAT(junit, HasSubstr("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"2\""));
  EXPECT_THAT(junit, HasSubstr("<failure message=\"it is a text file"));
}

TEST(Conformance, ListsItsTestsWithoutAPlugin) {
  const Outcome listed = kit({"--list", "--filter", "copy.*"});
  EXPECT_EQ(listed.code, 0);
  EXPECT_THAT(listed.out, HasSubstr("copy.round-trip"));
  EXPECT_THAT(listed.out, Not(HasSubstr("buffer.")));
}

TEST(Conformance, PassesAGoodPlugin) {
  const Outcome outcome = kit(
      {plugin("good"), "--filter", "load.*", "--filter", "copy.*", "--filter", "stream.idle", "--seed", "5"});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("seed 5"));
  EXPECT_THAT(outcome.out, HasSubstr("unsupported: the plugin does not have the table yoke.stream/1"));
}

TEST(Conformance, FailsAWrongCopyWithTheCommandThatRepeatsIt) {
  const Outcome outcome = round_trip("shifts", {"--seed", "77", "--timeout", "90.5"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("FAILED copy.round-trip"));
  EXPECT_THAT(outcome.out, HasSubstr("--seed 77 --timeout 90.5 --filter copy.round-trip"));
}

TEST(Conformance, NamesTheSignalAndTheFunctionOfACrash) {
  const Outcome outcome = round_trip("crashes");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("SIGSEGV"));
  EXPECT_THAT(outcome.out, HasSubstr("in from_host"));
}

TEST(Conformance, KillsWhatHangsAtTheDeadline) {
  // Long enough for a loaded machine to get as far as the copy that hangs.
  const Outcome outcome = round_trip("hangs", {"--timeout", "8"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("did not end within 8 s, in from_host"));
}

TEST(Conformance, KillsTheChildrenOfWhatHangs) {
  const Outcome outcome = round_trip("starts_children", {"--timeout", "8"});
  EXPECT_EQ(outcome.code, 1);
  // A child that lived on would show up as a process of that plugin; a killed one is gone soon.
  const auto begin = std::chrono::steady_clock::now();
  while (has_process_of(plugin("starts_children")) &&
         std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(has_process_of(plugin("starts_children")));
}

TEST(Conformance, FailsAPluginThatExits) {
  const Outcome outcome = round_trip("exits");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("must not call exit"));
}

TEST(Conformance, FailsAPluginThatThrows) {
  const Outcome outcome = round_trip("throws");
  EXPECT_EQ(outcome.code, 1);
}

TEST(Conformance, FailsAPluginThatLeaks) {
  const Outcome outcome = round_trip("leaks");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("1 buffer"));
}

TEST(Conformance, FailsAPluginThatPrints) {
  const Outcome outcome = kit({plugin("prints"), "--filter", "load.prints-nothing"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("copying now"));
}

TEST(Conformance, FailsAnErrorWithoutAText) {
  const Outcome outcome = kit({plugin("silent"), "--filter", "copy.host-out-of-range"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("without a text"));
}

TEST(Conformance, AnExpectedFailureIsNone) {
  const Folder folder;
  std::ofstream(folder / "list") << "copy.round-trip = \"shifts by a byte on purpose\"\n";
  const Outcome outcome = round_trip("shifts", {"--expect", folder / "list"});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("expected failure: shifts by a byte on purpose"));
}

TEST(Conformance, AnUnexpectedPassFails) {
  const Folder folder;
  std::ofstream(folder / "list") << "copy.round-trip = \"was broken once\"\n";
  const Outcome outcome = round_trip("good", {"--expect", folder / "list"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("take the line out"));
}

TEST(Conformance, AnEntryThatNamesNoTestFails) {
  const Folder folder;
  std::ofstream(folder / "list") << "copy.no-such-test = \"typo\"\n";
  const Outcome outcome = round_trip("good", {"--expect", folder / "list"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("there is no such test"));
}

TEST(Conformance, RunsTheSameAgainWithTheSameSeed) {
  const auto verdict = [](const std::string& seed) {
    return kit({plugin("shifts"), "--filter", "copy.random-ranges", "--seed", seed}).out;
  };
  const auto sentence = [](const std::string& out) {
    const std::size_t at = out.find("after ");
    return out.substr(at, out.find('\n', at) - at);
  };
  EXPECT_EQ(sentence(verdict("3")), sentence(verdict("3")));
}

// Balanced, and with nothing but text between; the JSON library of the command has tests of its own.
TEST(Conformance, PrintsOneJsonObjectAndNothingElse) {
  const Outcome outcome = kit({plugin("shifts"), "--filter", "copy.r*", "--json"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out.front(), '{');
  EXPECT_EQ(outcome.out.substr(outcome.out.size() - 2), "}\n");
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
  EXPECT_THAT(outcome.out,
              HasSubstr("\"name\": \"copy.round-trip\", \"group\": \"copy\", \"verdict\": \"failed\""));
  EXPECT_THAT(outcome.err, HasSubstr("FAILED copy.round-trip"));
}

TEST(Conformance, WritesJunitWhoseElementsAreClosed) {
  const Folder folder;
  const fs::path file = folder / "report.xml";
  EXPECT_EQ(kit({plugin("crashes"), "--filter", "copy.r*", "--filter", "stream.idle", "--junit", file}).code,
            1);
  const std::string text = read_whole(file);
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::string tag = text.substr(at + 1, text.find('>', at) - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ("/" + open.back(), tag);
      open.pop_back();
    } else if (tag[0] != '?' && tag.back() != '/') {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_THAT(text, HasSubstr("<failure message="));
  EXPECT_THAT(text, HasSubstr("<skipped message="));
}

TEST(Conformance, IsWhatYokeCheckPluginRuns) {
  EXPECT_EQ(run_program(CONFORMANCE_YOKE, {"check-plugin"}).code, 2);
  const Outcome outcome = run_program(
      CONFORMANCE_YOKE, {"check-plugin", plugin("good"), plugin("shifts"), "--filter", "copy.round-trip"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("PASSED " + fs::canonical(plugin("good")).string()));
  EXPECT_THAT(outcome.out, HasSubstr("FAILED " + fs::canonical(plugin("shifts")).string()));
}

}  // namespace
