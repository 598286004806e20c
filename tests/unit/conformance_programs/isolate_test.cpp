// SPDX-License-Identifier: Apache-2.0
// tests/unit/conformance_programs/isolate_test.cpp: a process that crashes, hangs or throws takes nobody
// down.
#include "run/isolate.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <stdexcept>

namespace yoke::conformance {
namespace {

struct Heard {
  Ending ending;
  std::string text;
};

Heard hear(const std::function<void(const Outlet&)>& body, double silence_s = 20) {
  Heard heard;
  heard.ending = isolate(
      body, [&](const Message& message) { heard.text += message.kind + message.text; }, silence_s, 60);
  return heard;
}

TEST(Isolate, DeliversMessagesOfAnySizeInOrder) {
  const std::string large(300000, 'x');
  const Heard heard = hear([&](const Outlet& outlet) {
    outlet.send('A', "one");
    outlet.send('B', large);
    outlet.send('C', "");
  });
  EXPECT_TRUE(heard.ending.well());
  EXPECT_EQ(heard.text, "AoneB" + large + "C");
}

TEST(Isolate, NamesTheSignalOfAProcessThatDies) {
  const Heard heard = hear([](const Outlet& outlet) {
    outlet.send('A', "before");
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(heard.ending.crashed);
  EXPECT_EQ(heard.ending.words, "died of SIGKILL");
  EXPECT_EQ(heard.text, "Abefore");
}

TEST(Isolate, KillsAProcessThatSaysNothing) {
  const Heard heard = hear([](const Outlet&) { ::pause(); }, 0.2);
  EXPECT_TRUE(heard.ending.hung);
}

TEST(Isolate, AnExitOrAThrowIsACrash) {
  EXPECT_TRUE(hear([](const Outlet&) { ::_exit(3); }).ending.crashed);
  EXPECT_TRUE(hear([](const Outlet&) { throw std::runtime_error("lost"); }).ending.crashed);
}

}  // namespace
}  // namespace yoke::conformance
