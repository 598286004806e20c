// SPDX-License-Identifier: Apache-2.0
// tests/unit/conformance_programs/isolate_test.cpp: child processes that crash, hang or throw.
#include "run/isolate.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <stdexcept>

namespace yoke::conformance {
namespace {

struct Received {
  Ending ending;
  std::string text;
};

Received run(const std::function<void(const Outlet&)>& body, double silence_s = 20) {
  Received received;
  received.ending = isolate(
      body, [&](const Message& message) { received.text += message.kind + message.text; }, silence_s, 60);
  return received;
}

TEST(Isolate, DeliversMessagesOfAnySizeInOrder) {
  const std::string large(300000, 'x');
  const Received received = run([&](const Outlet& outlet) {
    outlet.send('A', "one");
    outlet.send('B', large);
    outlet.send('C', "");
  });
  EXPECT_TRUE(received.ending.well());
  EXPECT_EQ(received.text, "AoneB" + large + "C");
}

TEST(Isolate, ReportsTheSignalThatKilledTheChild) {
  const Received received = run([](const Outlet& outlet) {
    outlet.send('A', "before");
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(received.ending.crashed);
  EXPECT_EQ(received.ending.words, "was killed by SIGKILL");
  EXPECT_EQ(received.text, "Abefore");
}

TEST(Isolate, KillsAChildThatSendsNoMessages) {
  const Received received = run([](const Outlet&) { ::pause(); }, 0.2);
  EXPECT_TRUE(received.ending.hung);
}

TEST(Isolate, TreatsExitAndThrowAsCrashes) {
  EXPECT_TRUE(run([](const Outlet&) { ::_exit(3); }).ending.crashed);
  EXPECT_TRUE(run([](const Outlet&) { throw std::runtime_error("lost"); }).ending.crashed);
}

}  // namespace
}  // namespace yoke::conformance
