// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/secure_test.cpp: a program with a file capability
// (AT_SECURE) ignores its user's environment.
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <optional>

#include "loader_test.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr unsigned kUnprivilegedUser = 65534;

class SecureTest : public LoaderTest {
 protected:
  SecureTest() : app_(root_ / "app") {
    ::chmod(root_.path().c_str(), 0755);
    std::filesystem::copy_file(LOADER_TEST_SECURE_APP, app_);
    place("good");
    std::filesystem::permissions(app_, std::filesystem::perms(0755));
    place("user", root_ / "data" / "yoke" / "plugins");
  }
  // Returns the program's output when an unprivileged user runs it; empty if it could not be started.
  std::string run(const std::string& argument = "") {
    const Variable path("YOKE_PLUGIN_PATH", folder_.string());
    const Variable data("XDG_DATA_HOME", (root_ / "data").string());
    const Variable list("YOKE_PLUGIN_ALLOW_LIST", (root_ / "absent").string());
    const auto output = root_ / "output";
    write_file(output, "");
    const pid_t child = ::fork();
    if (child == 0) {
      const int to = ::open(output.c_str(), O_WRONLY | O_TRUNC);
      if (to < 0 || ::dup2(to, 1) < 0 || ::setgroups(0, nullptr) != 0 || ::setgid(kUnprivilegedUser) != 0 ||
          ::setuid(kUnprivilegedUser) != 0) {
        ::_exit(3);
      }
      ::execl(app_.c_str(), app_.c_str(), argument.empty() ? nullptr : argument.c_str(), nullptr);
      ::_exit(4);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return read_whole(output);
  }
  // Gives the program a capability. Returns the reason if that is impossible on this machine.
  std::optional<std::string> make_secure() {
    if (::geteuid() != 0) {
      return "only root can give a file a capability";
    }
    if (const auto before = run(); before.find("secure=0") == std::string::npos) {
      return "an unprivileged user cannot run the program in this folder";
    }
    if (std::system(
            ("PATH=$PATH:/usr/sbin:/sbin setcap cap_net_bind_service+ep " + app_.string() + " 2>/dev/null")
                .c_str()) != 0) {
      return "setcap is missing or not permitted (Debian's libcap2-bin)";
    }
    if (run().find("secure=1") == std::string::npos) {
      return "this file system does not support file capabilities";
    }
    return std::nullopt;
  }
  const Path app_;
};

TEST_F(SecureTest, EnvironmentIsIgnoredAndDoubtfulFilesAreRefused) {
  if (::geteuid() == 0) {
    EXPECT_THAT(run(), HasSubstr("error=the plugin allow-list " + (root_ / "absent").string()))
        << "without a capability the environment is used";
  }
  if (const auto why = make_secure()) {
    GTEST_SKIP() << *why;
  }
  const auto output = run();
  EXPECT_THAT(output, AllOf(HasSubstr("secure=1"), Not(HasSubstr("error=")), Not(HasSubstr("good usable")),
                            Not(HasSubstr("user usable"))));
  EXPECT_THAT(run(folder_.string()), HasSubstr("good usable=1"));
  ::chmod(file("good").c_str(), 0664);
  EXPECT_THAT(
      run(folder_.string()),
      AllOf(HasSubstr("good usable=0"), HasSubstr("this process runs with more privileges than its user")));
  ::chmod(file("good").c_str(), 0644);
  ASSERT_EQ(::chown(file("good").c_str(), 1234, 0), 0);
  EXPECT_THAT(run(folder_.string()), AllOf(HasSubstr("good usable=0"), HasSubstr("belongs to user 1234")));
}

}  // namespace
}  // namespace yoke::test
