// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/trust_test.cpp: who may write a plugin, what an allow-list lets in, and files that change
// between check and use.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "fixture.h"
#include "loader/allow_list.h"
#include "loader/permissions.h"

namespace yoke::test {
namespace {

using loader::Doubts;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TrustTest : public LoaderTest {
 protected:
  TrustTest() : folder_(folder_with("good")), file_(folder_ / "libyoke_backend_good.so") {
    ::chmod(folder_.c_str(), 0755);
    ::chmod(file_.c_str(), 0644);
  }
  std::string refused() {
    Runtime runtime(options({folder_}));
    const auto report = of(runtime, "good").at(0);
    EXPECT_FALSE(report.usable);
    const auto error = error_of([&] { runtime.backend("good"); });
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(report.verdict), HasSubstr(report.mend)));
    return error.what();
  }
  RuntimeOptions allowing(const std::string& lines) {
    write(root_ / "allowed", lines);
    auto given = options({folder_});
    given.allow_list = root_ / "allowed";
    return given;
  }
  std::string sum_of(const std::filesystem::path& path) {
    const auto command = "sha256sum " + path.string();
    FILE* pipe = ::popen(command.c_str(), "r");
    char sum[65] = {};
    EXPECT_EQ(::fread(sum, 1, 64, pipe), 64U);
    ::pclose(pipe);
    return sum;
  }
  loader::Rights rights(const std::filesystem::path& path, Doubts doubts) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return loader::check_rights(path, status, doubts);
  }

  std::filesystem::path folder_;
  std::filesystem::path file_;
};

TEST_F(TrustTest, AFileThatEverybodyMayWriteIsRefused) {
  ::chmod(file_.c_str(), 0646);
  EXPECT_THAT(refused(),
              AllOf(HasSubstr("the file " + file_.string() + " may be written by everybody (mode 0646)"),
                    HasSubstr("chmod o-w " + file_.string())));
  EXPECT_FALSE(is_mapped(file_.string()));
}

TEST_F(TrustTest, AFolderOnItsPathThatEverybodyMayWriteIsRefusedUnlessItIsSticky) {
  ::chmod(root_.c_str(), 0757);
  EXPECT_THAT(refused(),
              HasSubstr("its folder " + root_.string() + " may be written by everybody (mode 0757)"));
  ::chmod(root_.c_str(), 01757);
  EXPECT_EQ(Runtime(options({folder_})).backend("good")->device_count(), 2U);
}

TEST_F(TrustTest, ALinkIsJudgedByWhereItLeads) {
  const auto open_folder = root_ / "open";
  std::filesystem::create_directory(open_folder);
  std::filesystem::rename(file_, open_folder / "real.so");
  std::filesystem::create_symlink(open_folder / "real.so", file_);
  ::chmod(open_folder.c_str(), 0777);
  EXPECT_THAT(refused(), HasSubstr("its folder " + open_folder.string()));
}

TEST_F(TrustTest, ALinkIsJudgedByWhereItLiesAsWell) {
  const auto open_folder = root_ / "open";
  std::filesystem::create_directory(open_folder);
  std::filesystem::create_symlink(file_, open_folder / "libyoke_backend_good.so");
  std::filesystem::create_directory_symlink(open_folder, root_ / "way");
  ::chmod(open_folder.c_str(), 0777);
  for (const auto& folder : {open_folder, root_ / "way"}) {
    Runtime runtime(options({folder}));
    EXPECT_THAT(error_of([&] { runtime.backend("good"); }).what(),
                HasSubstr("its folder " + open_folder.string() + " may be written by everybody"));
  }
  ::chmod(open_folder.c_str(), 01777);
  EXPECT_EQ(Runtime(options({root_ / "way"})).backend("good")->device_count(), 2U);
}

TEST_F(TrustTest, EveryLinkOnTheWayCounts) {
  std::filesystem::create_directory(root_ / "a");
  std::filesystem::create_symlink("a/../b", root_ / "c");
  std::filesystem::create_directory_symlink(folder_, root_ / "b");
  const auto root = std::filesystem::canonical(root_);
  EXPECT_THAT(loader::links_on(root / "c" / "." / file_.filename()), ElementsAre(root / "c", root / "b"));
  EXPECT_THAT(loader::links_on(std::filesystem::canonical(file_)), IsEmpty());
}

TEST_F(TrustTest, ALinkOfAnotherUserIsADoubt) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can give a link away";
  }
  const auto link = folder_ / "libyoke_backend_other.so";
  std::filesystem::create_symlink(file_, link);
  ASSERT_EQ(::lchown(link.c_str(), 65534, 0), 0);
  struct stat status {};
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_THAT(loader::check_rights(file_, status, Doubts::kTold, {link}).warnings,
              ElementsAre(HasSubstr("the link " + link.string() + " belongs to user 65534")));
  EXPECT_THAT(loader::check_rights(file_, status, Doubts::kRefusedPrivileged, {link}).refusal.reason,
              HasSubstr("the link "));
}

TEST_F(TrustTest, AFileThatItsGroupMayWriteIsADoubtThatIsLoggedOnce) {
  ::chmod(file_.c_str(), 0664);
  Runtime runtime(options({folder_}));
  const auto doubt = "the file " + file_.string() + " may be written by the group ";
  EXPECT_THAT(of(runtime, "good").at(0).warnings, ElementsAre(HasSubstr(doubt)));
  runtime.backend("good");
  runtime.backend("good");
  EXPECT_EQ(std::count_if(lines_.begin(), lines_.end(),
                          [&](const auto& line) { return line.find(doubt) != std::string::npos; }),
            1);
  EXPECT_THAT(lines_, Contains(HasSubstr("3 plugin.doubt name=good")));
}

TEST_F(TrustTest, ADoubtIsARefusalInAPrivilegedProcess) {
  ::chmod(folder_.c_str(), 0775);
  EXPECT_FALSE(rights(file_, Doubts::kTold).refusal);
  EXPECT_EQ(rights(file_, Doubts::kTold).warnings.size(), 1U);
  const auto privileged = rights(file_, Doubts::kRefusedPrivileged);
  EXPECT_THAT(privileged.refusal.reason,
              AllOf(HasSubstr("its folder " + folder_.string() + " may be written by the group"),
                    HasSubstr("this process has more rights than its user")));
  EXPECT_THAT(privileged.warnings, IsEmpty());
}

TEST_F(TrustTest, AFileOfAnotherUserIsADoubt) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can give a file away";
  }
  ASSERT_EQ(::chown(file_.c_str(), 65534, 0), 0);
  EXPECT_THAT(rights(file_, Doubts::kTold).warnings, ElementsAre(HasSubstr("belongs to user 65534")));
  EXPECT_THAT(rights(file_, Doubts::kRefusedPrivileged).refusal.reason, HasSubstr("belongs to user 65534"));
}

TEST_F(TrustTest, WhatTheAllowListPinsLoads) {
  const auto sum = sum_of(file_);
  for (const auto& line : {sum + "  " + file_.string(), sum + " *libyoke_backend_good.so\n"}) {
    Runtime runtime(allowing("# from sha256sum\n\n" + line));
    EXPECT_EQ(runtime.backend("good")->device_count(), 2U) << line;
  }
}

TEST_F(TrustTest, WhatTheAllowListDoesNotPinIsRefused) {
  const auto sum = sum_of(file_);
  Runtime unlisted(allowing(sum + "  libyoke_backend_other.so\n"));
  EXPECT_THAT(error_of([&] { unlisted.backend("good"); }).what(),
              HasSubstr("it is not in the allow-list " + (root_ / "allowed").string()));
  Runtime other(allowing(std::string(64, '0') + "  libyoke_backend_good.so\n"));
  EXPECT_THAT(error_of([&] { other.backend("good"); }).what(),
              AllOf(HasSubstr("its sha256 is " + sum), HasSubstr("asks for " + std::string(64, '0'))));
  EXPECT_FALSE(of(other, "good").at(0).usable);
  EXPECT_FALSE(is_mapped(file_.string()));
}

TEST_F(TrustTest, AnAllowListThatCannotBeUsedIsAnError) {
  const auto sentence = [&](const RuntimeOptions& given) {
    const auto error = error_of([&] { Runtime runtime(given); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return std::string(error.what());
  };
  EXPECT_THAT(sentence(allowing("# fine\n1234  libyoke_backend_good.so\n")),
              HasSubstr("has no sum and name in line 2 ('1234  libyoke_backend_good.so')"));
  EXPECT_THAT(sentence(allowing(std::string(64, '0') + "  plugins/good.so\n")),
              HasSubstr("a relative path in line 1"));
  auto given = allowing("");
  ::chmod(given.allow_list.c_str(), 0666);
  EXPECT_THAT(sentence(given), HasSubstr("cannot be trusted: the file "));
  given.allow_list = root_ / "absent";
  EXPECT_THAT(sentence(given), HasSubstr("cannot be read: No such file"));
}

TEST_F(TrustTest, ADoubtIsARefusalUnderAnAllowListOrOfTheListItself) {
  const auto sum = sum_of(file_);
  ::chmod(file_.c_str(), 0664);
  Runtime runtime(allowing(sum + "  libyoke_backend_good.so\n"));
  EXPECT_THAT(error_of([&] { runtime.backend("good"); }).what(),
              AllOf(HasSubstr("the file " + file_.string() + " may be written by the group "),
                    HasSubstr("and an allow-list pins what may load"), HasSubstr("chmod g-w ")));
  ::chmod(file_.c_str(), 0644);
  const auto given = allowing(sum + "  libyoke_backend_good.so\n");
  EXPECT_EQ(Runtime(given).backend("good")->device_count(), 2U);
  ::chmod(given.allow_list.c_str(), 0664);
  EXPECT_THAT(error_of([&] { Runtime unlisted(given); }).what(),
              AllOf(HasSubstr("cannot be trusted: the file " + given.allow_list.string()),
                    HasSubstr("may be written by the group ")));
}

TEST_F(TrustTest, TheEnvironmentMayNameAnAllowListButNotReplaceOne) {
  write(root_ / "nothing", "");
  const Variable variable("YOKE_PLUGIN_ALLOW_LIST", (root_ / "nothing").string());
  auto given = options({folder_});
  EXPECT_TRUE(of(Runtime(given), "good").at(0).usable) << "search_environment is off";
  given.search_environment = true;
  EXPECT_FALSE(of(Runtime(given), "good").at(0).usable);
  given = allowing(sum_of(file_) + "  libyoke_backend_good.so\n");
  given.search_environment = true;
  EXPECT_TRUE(of(Runtime(given), "good").at(0).usable);
}

// The log's line stands between check and open, so its receiver swaps at the worst moment.
TEST_F(TrustTest, AFileSwappedBetweenCheckAndOpenDoesNotRun) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  auto given = options({folder_});
  given.log_sink = [&](LogLevel, std::string_view line) {
    lines_.emplace_back(line);
    if (line.starts_with("plugin.open ")) {
      std::filesystem::copy_file(built("second"), folder_ / "new");
      std::filesystem::rename(folder_ / "new", file_);
    }
  };
  Runtime runtime(given);
  EXPECT_THAT(error_of([&] { runtime.backend("good"); }).what(),
              HasSubstr("it was replaced while it was loaded; try again"));
  EXPECT_THAT(lines_, ::testing::Not(Contains(HasSubstr("test.enter"))));
  EXPECT_FALSE(std::filesystem::exists(root_ / "loaded")) << "not even its constructors";
}

TEST_F(TrustTest, ASwapThatIsUndoneIsSeenByWhatWasMapped) {
  auto given = options({folder_});
  const auto aside = root_ / "aside";
  given.log_sink = [&](LogLevel, std::string_view line) {
    lines_.emplace_back(line);
    if (line.starts_with("plugin.open ")) {  // the whole folder, so that the file's own times stay
      std::filesystem::rename(folder_, aside);
      std::filesystem::create_directory(folder_);
      std::filesystem::copy_file(built("decoy", "decoy"), file_);
      void* const swapped = ::dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);  // what the loader then gets too
      ASSERT_NE(swapped, nullptr);
      std::filesystem::remove_all(folder_);
      std::filesystem::rename(aside, folder_);
    }
  };
  Runtime runtime(given);
  EXPECT_THAT(error_of([&] { runtime.backend("good"); }).what(),
              HasSubstr("another version of this file is in the process already"));
  EXPECT_THAT(lines_, ::testing::Not(Contains(HasSubstr("test.enter"))));
}

TEST_F(TrustTest, AFileThatWasReplacedAfterItWasLoadedIsRefusedUntilARestart) {
  Runtime(options({folder_})).backend("good");
  std::filesystem::copy_file(built("decoy", "decoy"), folder_ / "new");
  std::filesystem::rename(folder_ / "new", file_);
  Runtime later(options({folder_}));
  EXPECT_THAT(
      error_of([&] { later.backend("good"); }).what(),
      AllOf(HasSubstr("another version of this file is in the process already"), HasSubstr("restart")));
}

}  // namespace
}  // namespace yoke::test
