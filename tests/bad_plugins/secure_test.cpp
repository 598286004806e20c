// SPDX-License-Identifier: Apache-2.0
// tests/bad_plugins/secure_test.cpp: a program with a file capability (AT_SECURE) believes nothing of its
// user's environment.
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <optional>

#include "bad_plugin_test.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr unsigned kNobody = 65534;

class SecureTest : public BadPluginTest {
 protected:
  SecureTest() : app_(root_ / "app") {
    ::chmod(root_.c_str(), 0755);
    std::filesystem::copy_file(BAD_PLUGINS_SECURE_APP, app_);
    place("good");
    std::filesystem::permissions(app_, std::filesystem::perms(0755));
    std::filesystem::create_directories(root_ / "data" / "yoke" / "plugins");
    std::filesystem::copy_file(compiled("good"),
                               root_ / "data" / "yoke" / "plugins" / "libyoke_backend_user.so");
  }
  // What the program prints as a user without rights; nothing when it could not even be started.
  std::string run(const std::string& argument = "") {
    const Variable path("YOKE_PLUGIN_PATH", folder_.string());
    const Variable data("XDG_DATA_HOME", (root_ / "data").string());
    const Variable list("YOKE_PLUGIN_ALLOW_LIST", (root_ / "absent").string());
    const auto output = root_ / "output";
    write(output, "");
    const pid_t child = ::fork();
    if (child == 0) {
      const int to = ::open(output.c_str(), O_WRONLY | O_TRUNC);
      if (to < 0 || ::dup2(to, 1) < 0 || ::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 ||
          ::setuid(kNobody) != 0) {
        ::_exit(3);
      }
      ::execl(app_.c_str(), app_.c_str(), argument.empty() ? nullptr : argument.c_str(), nullptr);
      ::_exit(4);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return read(output);
  }
  // Why it cannot be tested here.
  std::optional<std::string> missing() {
    if (::geteuid() != 0) {
      return "only root may give a file a capability";
    }
    if (const auto before = run(); before.find("secure=0") == std::string::npos) {
      return "a user without rights cannot run the program from here";
    }
    if (std::system(
            ("PATH=$PATH:/usr/sbin:/sbin setcap cap_net_bind_service+ep " + app_.string() + " 2>/dev/null")
                .c_str()) != 0) {
      return "setcap is missing or not permitted (Debian's libcap2-bin)";
    }
    if (run().find("secure=1") == std::string::npos) {
      return "this file system gives a program no capabilities";
    }
    return std::nullopt;
  }
  std::filesystem::path app_;
};

TEST_F(SecureTest, TheEnvironmentChoosesNoFile) {
  if (::geteuid() == 0) {
    EXPECT_THAT(run(), HasSubstr("error=the plugin allow-list " + (root_ / "absent").string()))
        << "without more rights the environment counts";
  }
  if (const auto why = missing()) {
    GTEST_SKIP() << *why;
  }
  const auto output = run();
  EXPECT_THAT(output, AllOf(HasSubstr("secure=1"), Not(HasSubstr("error=")), Not(HasSubstr("good usable")),
                            Not(HasSubstr("user usable"))));
}

TEST_F(SecureTest, WhatIsOnlyDoubtfulElsewhereIsRefused) {
  if (const auto why = missing()) {
    GTEST_SKIP() << *why;
  }
  EXPECT_THAT(run(folder_.string()), HasSubstr("good usable=1"));
  ::chmod(file("good").c_str(), 0664);
  EXPECT_THAT(run(folder_.string()),
              AllOf(HasSubstr("good usable=0"), HasSubstr("this process has more rights than its user")));
  ::chmod(file("good").c_str(), 0644);
  ASSERT_EQ(::chown(file("good").c_str(), 1234, 0), 0);
  EXPECT_THAT(run(folder_.string()), AllOf(HasSubstr("good usable=0"), HasSubstr("belongs to user 1234")));
}

}  // namespace
}  // namespace yoke::test
