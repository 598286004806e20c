// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/trust_test.cpp: files that other users may write, allow-lists, and files that change
// between their check and their use.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "loader/allow_list.h"
#include "loader/file_check.h"
#include "loader/permissions.h"
#include "loader_test.h"

namespace yoke::test {
namespace {

using loader::Doubts;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class TrustTest : public LoaderTest {
 protected:
  TrustTest() : file_(place("good")) {
    ::chmod(folder_.c_str(), 0755);
    ::chmod(file_.c_str(), 0644);
  }
  std::string error(const RuntimeOptions& given) {
    Runtime runtime(given);
    return load(runtime, "good").error;
  }
  static std::string sum_of(const Path& path) {
    const auto command = "sha256sum " + path.string();
    FILE* pipe = ::popen(command.c_str(), "r");
    char sum[65] = {};
    EXPECT_EQ(::fread(sum, 1, 64, pipe), 64U);
    ::pclose(pipe);
    return sum;
  }
  static loader::Rights rights(const Path& path, Doubts doubts, const std::vector<Path>& links = {}) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return loader::check_rights(path, status, doubts, links);
  }
  // Calls `swap` at the worst moment: the log line is written between the check and the mapping.
  RuntimeOptions swapping(const std::function<void()>& swap) {
    auto given = options();
    given.log_sink = [this, swap](LogLevel, std::string_view line) {
      lines_.emplace_back(line);
      if (line.starts_with("plugin.open ")) {
        swap();
      }
    };
    return given;
  }

  const Path file_;
};

TEST_F(TrustTest, ReadsBeyondTheEndOfAFileFail) {
  write_file(root_ / "ten", "0123456789");
  const loader::Descriptor file(::open((root_ / "ten").c_str(), O_RDONLY | O_CLOEXEC));
  const auto read = [&](std::uint64_t offset, std::size_t byte_count) {
    std::string text(byte_count, '.');
    return loader::read_at(file.get(), offset, text.data(), byte_count) ? text : "failed";
  };
  EXPECT_EQ(read(0, 10), "0123456789");
  EXPECT_EQ(read(4, 6), "456789");
  EXPECT_EQ(read(4, 7), "failed") << "the last byte is missing";
  EXPECT_EQ(read(10, 0), "");
  EXPECT_EQ(read(10, 1), "failed");
}

TEST_F(TrustTest, WritableFolderIsRefusedUnlessItIsSticky) {
  const auto root = root_.path();
  ::chmod(root.c_str(), 0757);
  EXPECT_THAT(error(options()),
              HasSubstr("its folder " + root.string() + " is writable by every user (mode 0757)"));
  EXPECT_FALSE(is_mapped(file_));
  ::chmod(root.c_str(), 01757);
  EXPECT_EQ(error(options()), "");
}

TEST_F(TrustTest, CommandQuotesAPathWithSpaces) {
  const auto folder = root_ / "it's open";
  std::filesystem::create_directory(folder);
  std::filesystem::copy(file_, folder);
  ::chmod(folder.c_str(), 0777);
  const std::string quoted = "'" + (root_ / "it").string() + "'\\''s open'";
  EXPECT_THAT(error(options({folder})), HasSubstr("; chmod o-w " + quoted));
}

TEST_F(TrustTest, FolderOfALinkIsCheckedToo) {
  const auto open_folder = root_ / "open";
  std::filesystem::create_directory(open_folder);
  std::filesystem::create_symlink(file_, open_folder / "libyoke_backend_good.so");
  std::filesystem::create_directory_symlink(open_folder, root_ / "way");
  ::chmod(open_folder.c_str(), 0777);
  for (const auto& folder : {open_folder, root_ / "way"}) {
    EXPECT_THAT(error(options({folder})),
                HasSubstr("its folder " + open_folder.string() + " is writable by every user"));
  }
  ::chmod(open_folder.c_str(), 01777);
  EXPECT_EQ(error(options({root_ / "way"})), "");
}

TEST_F(TrustTest, LinksOnThePathAreFound) {
  std::filesystem::create_directory(root_ / "a");
  std::filesystem::create_symlink("a/../b", root_ / "c");
  std::filesystem::create_directory_symlink(folder_, root_ / "b");
  const auto root = std::filesystem::canonical(root_.path());
  EXPECT_THAT(loader::links_on(root / "c" / "." / file_.filename()), ElementsAre(root / "c", root / "b"));
  EXPECT_THAT(loader::links_on(std::filesystem::canonical(file_)), IsEmpty());
}

TEST_F(TrustTest, LinkOrFileOfAnotherUserIsDoubtful) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can change the owner of a file";
  }
  const auto link = folder_ / "libyoke_backend_other.so";
  std::filesystem::create_symlink(file_, link);
  ASSERT_EQ(::lchown(link.c_str(), 65534, 0), 0);
  EXPECT_THAT(rights(file_, Doubts::kWarn, {link}).warnings,
              ElementsAre(HasSubstr("the link " + link.string() + " belongs to user 65534")));
  EXPECT_THAT(rights(file_, Doubts::kRefusedPrivileged, {link}).refusal.reason, HasSubstr("the link "));
  ASSERT_EQ(::chown(file_.c_str(), 65534, 0), 0);
  EXPECT_THAT(rights(file_, Doubts::kWarn).warnings, ElementsAre(HasSubstr("belongs to user 65534")));
  EXPECT_THAT(rights(file_, Doubts::kRefusedPrivileged).refusal.reason, HasSubstr("belongs to user 65534"));
}

TEST_F(TrustTest, GroupWritableFileIsLoggedOnceAsDoubtful) {
  ::chmod(file_.c_str(), 0664);
  Runtime runtime(options());
  const auto doubt = "the file " + file_.string() + " is writable by group ";
  EXPECT_THAT(report_of(runtime, "good").warnings, ElementsAre(HasSubstr(doubt)));
  runtime.backend("good");
  runtime.backend("good");
  EXPECT_EQ(std::count_if(lines_.begin(), lines_.end(),
                          [&](const auto& line) { return line.find(doubt) != std::string::npos; }),
            1);
  EXPECT_THAT(lines_, Contains(HasSubstr("3 plugin.doubt name=good")));
}

TEST_F(TrustTest, DoubtfulFolderIsRefusedInAPrivilegedProcess) {
  ::chmod(folder_.c_str(), 0775);
  EXPECT_FALSE(rights(file_, Doubts::kWarn).refusal);
  EXPECT_EQ(rights(file_, Doubts::kWarn).warnings.size(), 1U);
  const auto privileged = rights(file_, Doubts::kRefusedPrivileged);
  EXPECT_THAT(privileged.refusal.reason,
              AllOf(HasSubstr("its folder " + folder_.string() + " is writable by group"),
                    HasSubstr("this process runs with more privileges than its user")));
  EXPECT_THAT(privileged.warnings, IsEmpty());
}

TEST_F(TrustTest, ListedFileIsLoaded) {
  const auto sum = sum_of(file_);
  for (const auto& line : {sum + "  " + file_.string(), sum + " *libyoke_backend_good.so\n"}) {
    EXPECT_EQ(error(allowing("# from sha256sum\n\n" + line)), "") << line;
  }
}

TEST_F(TrustTest, UnlistedFileIsRefused) {
  const auto sum = sum_of(file_);
  EXPECT_THAT(error(allowing(sum + "  libyoke_backend_other.so\n")),
              HasSubstr("it is not in the allow-list " + (root_ / "allowed").string()));
  EXPECT_THAT(error(allowing(std::string(64, '0') + "  libyoke_backend_good.so\n")),
              AllOf(HasSubstr("its sha256 is " + sum), HasSubstr(" has " + std::string(64, '0'))));
  EXPECT_FALSE(is_mapped(file_));
}

TEST_F(TrustTest, InvalidAllowListIsAnError) {
  const auto text = [&](const RuntimeOptions& given) {
    const auto error = error_of([&] { Runtime runtime(given); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return std::string(error.what());
  };
  EXPECT_THAT(text(allowing("# fine\n1234  libyoke_backend_good.so\n")),
              HasSubstr("has no checksum and file name in line 2 ('1234  libyoke_backend_good.so')"));
  EXPECT_THAT(text(allowing(std::string(64, '0') + "  plugins/good.so\n")),
              HasSubstr("a relative path in line 1"));
  auto given = allowing("");
  ::chmod(given.allow_list.c_str(), 0666);
  EXPECT_THAT(text(given), HasSubstr("cannot be trusted: the file "));
  given.allow_list = root_ / "absent";
  EXPECT_THAT(text(given), HasSubstr("cannot be read: No such file"));
}

TEST_F(TrustTest, DoubtfulFileOrListIsRefusedUnderAnAllowList) {
  const auto sum = sum_of(file_);
  ::chmod(file_.c_str(), 0664);
  EXPECT_THAT(error(allowing(sum + "  libyoke_backend_good.so\n")),
              AllOf(HasSubstr("the file " + file_.string() + " is writable by group "),
                    HasSubstr("and an allow-list is in use"), HasSubstr("chmod g-w ")));
  ::chmod(file_.c_str(), 0644);
  const auto given = allowing(sum + "  libyoke_backend_good.so\n");
  EXPECT_EQ(error(given), "");
  ::chmod(given.allow_list.c_str(), 0664);
  EXPECT_THAT(error_of([&] { Runtime unlisted(given); }).what(),
              AllOf(HasSubstr("cannot be trusted: the file " + given.allow_list.string()),
                    HasSubstr("is writable by group ")));
}

TEST_F(TrustTest, EnvironmentNamesAnAllowListUnlessTheOptionsDo) {
  write_file(root_ / "nothing", "");
  const Variable variable("YOKE_PLUGIN_ALLOW_LIST", (root_ / "nothing").string());
  auto given = options();
  EXPECT_TRUE(report_of(Runtime(given), "good").usable) << "search_environment is off";
  given.search_environment = true;
  EXPECT_FALSE(report_of(Runtime(given), "good").usable);
  given = allowing(sum_of(file_) + "  libyoke_backend_good.so\n");
  given.search_environment = true;
  EXPECT_TRUE(report_of(Runtime(given), "good").usable);
}

TEST_F(TrustTest, FileSwappedAfterTheCheckDoesNotRun) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  const auto swap = [&] {
    std::filesystem::copy_file(file_, folder_ / "new");
    std::filesystem::rename(folder_ / "new", file_);
  };
  Runtime runtime(swapping(swap));
  EXPECT_THAT(error_of([&] { runtime.backend("good"); }).what(),
              HasSubstr("it was replaced while being loaded; try again"));
  EXPECT_THAT(lines_, Not(Contains(HasSubstr("test.enter"))));
  EXPECT_EQ(loaded(), "") << "its constructors did not run";
}

TEST_F(TrustTest, SwapThatIsUndoneIsDetectedInTheMappedFile) {
  const auto swap = [&] {  // of the whole folder, which keeps the times of the file
    const auto aside = root_ / "aside";
    std::filesystem::rename(folder_, aside);
    std::filesystem::create_directory(folder_);
    std::filesystem::copy_file(built("build_id"), file_);
    void* const swapped = ::dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);  // the loader gets this mapping
    ASSERT_NE(swapped, nullptr);
    std::filesystem::remove_all(folder_);
    std::filesystem::rename(aside, folder_);
  };
  EXPECT_THAT(error(swapping(swap)),
              HasSubstr("another version of this file is already loaded in this process"));
  EXPECT_THAT(lines_, Not(Contains(HasSubstr("test.enter"))));
}

TEST_F(TrustTest, FileReplacedAfterItWasLoadedIsRefusedUntilARestart) {
  EXPECT_EQ(error(options()), "");
  std::filesystem::copy_file(built("build_id"), folder_ / "new");
  std::filesystem::rename(folder_ / "new", file_);
  EXPECT_THAT(error(options()),
              AllOf(HasSubstr("another version of this file is already loaded in this process"),
                    HasSubstr("restart the process")));
}

}  // namespace
}  // namespace yoke::test
