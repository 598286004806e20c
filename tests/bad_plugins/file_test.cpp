// SPDX-License-Identifier: Apache-2.0
// tests/bad_plugins/file_test.cpp: files that are no plugins, or that somebody else may change: refused
// before the linker or the probe sees them.
#include <dlfcn.h>
#include <sys/stat.h>

#include "bad_plugin_test.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class BadFile : public BadPluginTest {
 protected:
  // What asking for `bad` says, with a good one beside it.
  std::string refused(const std::string& stage = "found") {
    Runtime runtime(with_probe());
    const auto outcome = ask(runtime, "bad");
    EXPECT_EQ(outcome.report.stage, stage);
    EXPECT_NE(outcome.report.mend, "");
    EXPECT_EQ(outcome.report.probed, "no: it was refused before");
    EXPECT_FALSE(is_mapped(file("bad").string()));
    use_a_good_one(runtime);
    return outcome.sentence;
  }
};

TEST_F(BadFile, ATextFile) {
  write(file("bad"), "GROUP ( libyoke_backend_real.so )\n");
  EXPECT_THAT(refused(), HasSubstr("it is a text file, not an ELF shared object"));
}

TEST_F(BadFile, AnEmptyFile) {
  write(file("bad"), "");
  EXPECT_THAT(refused(), HasSubstr("it is empty, not an ELF shared object"));
}

TEST_F(BadFile, ATruncatedElfFile) {
  write(file("bad"), read(compiled("good")).substr(0, 5000));
  EXPECT_THAT(refused(), HasSubstr("it is cut short"));
}

TEST_F(BadFile, AnotherMachinesElfFile) {
  auto bytes = read(compiled("good"));
  bytes[18] = '\x16';  // e_machine: S/390
  bytes[19] = 0;
  write(file("bad"), bytes);
  EXPECT_THAT(refused(), HasSubstr("it is built for another machine (ELF machine 22"));
}

TEST_F(BadFile, AFolder) {
  std::filesystem::create_directory(file("bad"));
  EXPECT_THAT(refused(), HasSubstr("it is a folder, not a file"));
}

TEST_F(BadFile, ANamedPipeDoesNotBlock) {
  ASSERT_EQ(::mkfifo(file("bad").c_str(), 0600), 0);
  EXPECT_THAT(refused(), HasSubstr("it is a named pipe, not a file"));
}

TEST_F(BadFile, ADanglingLink) {
  std::filesystem::create_symlink(folder_ / "nowhere", file("bad"));
  EXPECT_THAT(refused(), HasSubstr("it is a symbolic link to a file that does not exist"));
}

TEST_F(BadFile, ALoopOfLinks) {
  std::filesystem::create_symlink(folder_ / "other", file("bad"));
  std::filesystem::create_symlink(file("bad"), folder_ / "other");
  EXPECT_THAT(refused(), HasSubstr("its path cannot be resolved: Too many levels of symbolic links"));
}

TEST_F(BadFile, AFileThatEverybodyMayWrite) {
  std::filesystem::copy_file(compiled("good"), file("bad"));
  ::chmod(file("bad").c_str(), 0777);
  EXPECT_THAT(refused(),
              AllOf(HasSubstr("may be written by everybody (mode 0777)"), HasSubstr("chmod o-w ")));
}

TEST_F(BadFile, AFolderThatEverybodyMayWrite) {
  std::filesystem::create_directory(root_ / "open");
  ::chmod((root_ / "open").c_str(), 0777);
  std::filesystem::copy_file(compiled("good"), root_ / "open" / "libyoke_backend_bad.so");
  std::filesystem::create_symlink(root_ / "open" / "libyoke_backend_bad.so", file("bad"));
  EXPECT_THAT(refused(),
              HasSubstr("its folder " + (root_ / "open").string() + " may be written by everybody"));
}

TEST_F(BadFile, ABrokenOneIsSkippedWithAReportWhenItIsListed) {
  write(file("bad"), "no plugin");
  place("good");
  const Runtime runtime(with_probe());
  EXPECT_FALSE(of(runtime, "bad").at(0).usable);
  EXPECT_TRUE(of(runtime, "good").at(0).usable);
}

TEST_F(BadFile, ANameThatNoTerminalMustSeeIsEscapedInTheListAndInErrors) {
  write(folder_ / "libyoke_backend_x\x1b[2J.so", "no plugin");
  Runtime runtime(options({folder_}));
  const auto report = of(runtime, "x\\x1b[2J").at(0);
  EXPECT_THAT(report.verdict, HasSubstr("'x\\x1b[2J' in its file name is no backend name"));
  EXPECT_THAT(error_of([&] { runtime.backend("absent"); }).what(),
              AllOf(HasSubstr("x\\x1b[2J was refused ("), Not(HasSubstr("\x1b"))));
}

TEST_F(BadFile, TheSameFileTwiceCountsOnce) {
  place("good");
  const auto second = root_ / "second";
  const auto third = root_ / "third";
  std::filesystem::create_directory(second);
  std::filesystem::create_directory(third);
  std::filesystem::create_hard_link(file("good"), second / "libyoke_backend_good.so");
  std::filesystem::create_symlink(file("good"), third / "libyoke_backend_good.so");
  Runtime runtime(options({folder_, second, third}));
  EXPECT_THAT(of(runtime, "good"), ::testing::SizeIs(1));
}

TEST_F(BadFile, ASecondFileOfTheSameNameIsReportedAsShadowed) {
  place("good");
  const auto second = root_ / "second";
  std::filesystem::create_directory(second);
  std::filesystem::copy_file(compiled("good"), second / "libyoke_backend_good.so");
  auto given = with_probe();
  given.plugin_dirs = {folder_, second};
  Runtime runtime(given);
  EXPECT_EQ(runtime.backend("good")->path(), file("good"));
  const auto found = of(runtime, "good");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].shadowed_by, "");
  EXPECT_EQ(found[1].shadowed_by, file("good"));
  EXPECT_FALSE(is_mapped((second / "libyoke_backend_good.so").string()));
}

TEST_F(BadFile, AFileSwappedBetweenCheckAndOpenIsNotEntered) {
  place("bad");
  auto given = without_probe();
  given.log_sink = [&](LogLevel, std::string_view line) {
    lines_.emplace_back(line);
    if (line.starts_with("plugin.open name=bad ")) {
      std::filesystem::copy_file(compiled("good"), folder_ / "new");
      std::filesystem::rename(folder_ / "new", file("bad"));
    }
  };
  Runtime runtime(given);
  EXPECT_THAT(error_of([&] { runtime.backend("bad"); }).what(),
              HasSubstr("it was replaced while it was loaded"));
  EXPECT_EQ(lines_.end(), std::find(lines_.begin(), lines_.end(), "bad.destroy backend=bad"));
  use_a_good_one(runtime);
}

// abi.md rule 29.
TEST_F(BadFile, ListingAndAskingForAnotherNameLoadNothing) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  for (const char* name : {"aaa", "good", "zzz"}) {
    place(name);
  }
  auto given = with_probe();
  given.probe.which = ProbeOptions::Which::kAll;
  Runtime runtime(given);
  (void)runtime.list_backends();
  EXPECT_FALSE(std::filesystem::exists(root_ / "loaded")) << read(root_ / "loaded");
  for (const auto& report : {of(runtime, "aaa").at(0), of(runtime, "zzz").at(0)}) {
    EXPECT_EQ(report.probed, "no: it was not needed yet");
  }
  runtime.backend("good");
  EXPECT_EQ(read(root_ / "loaded"), "goodgood") << "once in the probe, once here";
  if (std::filesystem::exists(std::filesystem::path(YOKE_TEST_PLUGIN_DIR) / "libyoke_backend_cc.so")) {
    runtime.backend("cc");
    EXPECT_EQ(read(root_ / "loaded"), "goodgood");
  }
}

}  // namespace
}  // namespace yoke::test
