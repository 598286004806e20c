// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/schedules_test.cpp: learning rates over the steps, compared with PyTorch's.
#include <gtest/gtest.h>
#include <yoke/schedules.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "evaluate.h"

namespace yoke::testing {
namespace {

using Kind = Schedule::Kind;

float rate_at(const Schedule& schedule, std::int64_t step) {
  return values<float>(learning_rate(schedule), {}, {{"step", step}}).at(0);
}

struct Golden {
  const char* text;             // of a schedule with rate 0.1 and 20 steps
  std::array<double, 5> rates;  // in steps 0, 1, 5, 10, 19
};

// Printed by PyTorch 2.15 for LinearLR(1/3, 1, 5), CosineAnnealingLR(20, 0.01), StepLR(4, 0.5), ExponentialLR(0.9),
// OneCycleLR(0.1, 20) and LambdaLR with a warm-up of 5 steps before a cosine.
constexpr Golden kGolden[] = {
    {"cosine:end=0.1", {0.1, 0.0994459753, 0.0868198052, 0.055, 0.0105540247}},
    {"step:every=4,gamma=0.5", {0.1, 0.1, 0.05, 0.025, 0.00625}},
    {"exponential:gamma=0.9", {0.1, 0.09, 0.059049, 0.034867844, 0.0135085172}},
    {"one-cycle", {0.004, 0.0131671843, 0.1, 0.0716943002, 4e-07}},
    {"cosine:warmup=5", {0.0166666667, 0.0333333333, 0.1, 0.075, 0.00109261996}},
    {"constant", {0.1, 0.1, 0.1, 0.1, 0.1}},
    {"linear:start=0.5,end=1", {0.05, 0.0525, 0.0625, 0.075, 0.0975}},
};

TEST(Schedules, MatchGoldenValuesOfPyTorch) {
  constexpr std::int64_t kSteps[] = {0, 1, 5, 10, 19};
  for (const Golden& golden : kGolden) {
    const Schedule schedule = parse_schedule(golden.text, 0.1, 20);
    for (std::size_t i = 0; i < golden.rates.size(); ++i) {
      // Rounded to f32, from f64; at the end of one-cycle a difference of cosines.
      EXPECT_NEAR(rate_at(schedule, kSteps[i]), golden.rates[i], 1e-7 * golden.rates[i] + 1e-15)
          << golden.text << ", step " << kSteps[i];
    }
  }
  const Schedule linear{.kind = Kind::kLinear, .rate = 0.1, .steps = 5, .start = 1.0 / 3, .end = 1};
  EXPECT_NEAR(rate_at(linear, 1), 0.0466666667, 1e-9);
  EXPECT_NEAR(rate_at(linear, 10), 0.1, 1e-8);
}

// Every step of several schedules, if the environment has PyTorch.
TEST(Schedules, MatchPyTorchPointByPoint) {
  if (std::system("python3 -c 'import torch' >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "python3 on PATH does not have torch";
  }
  constexpr const char* kScript = R"sh(python3 -W ignore -c "
import math, torch
from torch.optim import lr_scheduler as s
def rates(make):
  o = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=.3)
  schedule = make(o)
  for _ in range(50):
    print(o.param_groups[0]['lr'], end=' ')
    o.step(); schedule.step()
  print()
rates(lambda o: s.LinearLR(o, .25, .75, 50))
rates(lambda o: s.CosineAnnealingLR(o, 50, .03))
rates(lambda o: s.StepLR(o, 7, .3))
rates(lambda o: s.ExponentialLR(o, .95))
rates(lambda o: s.OneCycleLR(o, .3, total_steps=50))
rates(lambda o: s.LambdaLR(o, lambda t: (t + 1) / 11 if t < 10 else .9 ** (t - 10)))
")sh";
  const char* kTexts[] = {"linear:start=0.25,end=0.75", "cosine:end=0.1", "step:every=7,gamma=0.3",
                          "exponential:gamma=0.95",     "one-cycle",      "exponential:warmup=10,gamma=0.9"};
  std::FILE* const pipe = popen(kScript, "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  std::array<char, 4096> piece{};
  while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), pipe)) {
    text.append(piece.data(), count);
  }
  ASSERT_EQ(pclose(pipe), 0);
  std::istringstream lines(text);
  for (const char* each : kTexts) {
    const Schedule schedule = parse_schedule(each, 0.3, 50);
    for (std::int64_t step = 0; step < 50; ++step) {
      double expected = -1;
      ASSERT_TRUE(lines >> expected) << each;
      EXPECT_NEAR(rate_at(schedule, step), expected, 1e-7 * expected + 1e-14) << each << ", step " << step;
    }
  }
}

TEST(Schedules, LastRateStays) {
  for (const char* text : {"cosine:end=0.5", "linear:end=0.5", "one-cycle"}) {
    const Schedule schedule = parse_schedule(text, 0.1, 20);
    EXPECT_EQ(rate_at(schedule, 20), rate_at(schedule, 1000)) << text;
  }
}

TEST(Schedules, InvalidTextsAreErrors) {
  EXPECT_MESSAGE(
      "schedule: unknown kind 'cosin'; use constant, linear, cosine, step, exponential or one-cycle",
      parse_schedule("cosin", 0.1, 10));
  EXPECT_MESSAGE("schedule: warmup takes a number, not 'x'", parse_schedule("cosine:warmup=x", 0.1, 10));
  EXPECT_MESSAGE("schedule: warmup takes a number, not ''", parse_schedule("cosine:warmup", 0.1, 10));
  EXPECT_MESSAGE(
      "schedule: constant has no option 'gamma'; all kinds have warmup, linear start and end, cosine end, "
      "step every "
      "and gamma, exponential gamma",
      parse_schedule("constant:gamma=1", 0.1, 10));
  EXPECT_MESSAGE("schedule: warmup must be at least 0, and every at least 1",
                 parse_schedule("step:every=0", 0.1, 10));
  EXPECT_MESSAGE("schedule: gamma must be greater than 0, at most 1000000",
                 parse_schedule("step:gamma=0", 0.1, 10));
  EXPECT_MESSAGE("schedule: start and end must be from 0 to 1000000",
                 parse_schedule("cosine:end=-1", 0.1, 10));
  EXPECT_MESSAGE(
      "schedule: the run has 10 steps, too few after a warm-up of 10; use more steps or a shorter warm-up",
      parse_schedule("cosine:warmup=10", 0.1, 10));
}

}  // namespace
}  // namespace yoke::testing
