// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/schedules_test.cpp: learning rates over the steps, compared with PyTorch's.
#include <gmock/gmock.h>
#include <yoke/schedules.h>

#include <array>
#include <cmath>
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

std::string printed_by(const char* script) {
  std::FILE* const pipe = popen(script, "r");
  std::string text;
  std::array<char, 4096> piece{};
  while (const std::size_t count = pipe == nullptr ? 0 : std::fread(piece.data(), 1, piece.size(), pipe)) {
    text.append(piece.data(), count);
  }
  EXPECT_TRUE(pipe != nullptr && pclose(pipe) == 0) << text;
  return text;
}

bool has_torch() {
  return std::system("python3 -c 'import torch' >/dev/null 2>&1") == 0;
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

TEST(Schedules, OnlySomeKindsDependOnTheNumberOfSteps) {
  for (const Golden& golden : kGolden) {
    const Schedule schedule = parse_schedule(golden.text, 0.1, 20);
    Schedule longer = schedule;
    longer.steps = 40;
    bool is_same = true;
    for (std::int64_t step = 0; step < 20; ++step) {
      is_same = is_same && rate_at(schedule, step) == rate_at(longer, step);
    }
    EXPECT_EQ(needs_steps(schedule.kind), !is_same) << golden.text;
  }
}

// Every step of several schedules, if the environment has PyTorch.
TEST(Schedules, MatchPyTorchPointByPoint) {
  if (!has_torch()) {
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
  std::istringstream lines(printed_by(kScript));
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
      "schedule: unknown kind 'cosin'; use constant, linear, cosine, step, exponential, one-cycle or "
      "plateau; did you mean 'cosine'?",
      parse_schedule("cosin", 0.1, 10));
  EXPECT_MESSAGE("schedule: warmup takes a number, not 'x'", parse_schedule("cosine:warmup=x", 0.1, 10));
  for (const char* text : {"cosine:", "cosine:warmup=1,", "cosine:,warmup=1"}) {
    EXPECT_MESSAGE("schedule: an option is empty; write key=value after each colon and comma",
                   parse_schedule(text, 0.1, 10));
  }
  EXPECT_MESSAGE("schedule: warmup takes a number, not ''", parse_schedule("cosine:warmup", 0.1, 10));
  EXPECT_MESSAGE(
      "schedule: constant has no option 'gamma'; all kinds have warmup, linear start and end, cosine end, "
      "step every "
      "and gamma, exponential gamma",
      parse_schedule("constant:gamma=1", 0.1, 10));
  EXPECT_MESSAGE(
      "schedule: cosine has no option 'warmpu'; all kinds have warmup, linear start and end, cosine end, "
      "step every and gamma, exponential gamma; did you mean 'warmup'?",
      parse_schedule("cosine:warmpu=3", 0.1, 10));
  for (const char* text : {"linear:gama=1", "cosine:star=1", "exponential:evry=1", "one-cycle:edn=1"}) {
    EXPECT_THAT(test::error_of([&] { parse_schedule(text, 0.1, 10); }).what(),
                ::testing::EndsWith("exponential gamma"))
        << text << ": the kind does not have the option that is close";
  }
  EXPECT_MESSAGE("schedule: the option 'warmup' is given more than once; give it once",
                 parse_schedule("cosine:warmup=3,end=0.1,warmup=0", 0.1, 10));
  EXPECT_MESSAGE("schedule: the option 'patience' is given more than once; give it once",
                 parse_plateau("plateau:patience=1,patience=1"));
  EXPECT_MESSAGE("schedule: warmup must be at least 0, and every at least 1",
                 parse_schedule("step:every=0", 0.1, 10));
  EXPECT_MESSAGE("schedule: gamma must be greater than 0, at most 1000000",
                 parse_schedule("step:gamma=0", 0.1, 10));
  EXPECT_MESSAGE("schedule: start and end must be from 0 to 1000000",
                 parse_schedule("cosine:end=-1", 0.1, 10));
  EXPECT_MESSAGE("schedule: the run has 3 steps, but needs at least 4; use more steps",
                 parse_schedule("one-cycle", 0.1, 3));
  EXPECT_MESSAGE(
      "schedule: the run has 10 steps, but needs at least 11 with a warm-up of 10; use more steps or a "
      "shorter warm-up",
      parse_schedule("cosine:warmup=10", 0.1, 10));
}

// The rate after each observation, from 0.1.
std::vector<double> plateau_rates(const char* text, const std::vector<double>& losses) {
  const Scalar rate = scalar("rate", 0.1);
  ReduceOnPlateau plateau(rate, *parse_plateau(text));
  std::vector<double> rates;
  for (const double loss : losses) {
    const double before = rate.value();
    const bool is_reduced = plateau.observe(loss);
    EXPECT_EQ(is_reduced, rate.value() != before);
    rates.push_back(rate.value());
  }
  return rates;
}

// What torch.optim.lr_scheduler.ReduceLROnPlateau of PyTorch 2 gives.
TEST(Plateau, MatchesGoldenValuesOfPyTorch) {
  const double none = std::nan("");
  const std::vector<double> losses = {3, 2, 2, 1.9999, 1.5, 1.6, none, 1.6, 1.5, 1.5, 1.4, 1.5, 1.5, 1.5};
  EXPECT_THAT(plateau_rates("plateau:factor=0.5,patience=1", losses),
              ::testing::ElementsAre(.1, .1, .1, .05, .05, .05, .025, .025, .0125, .0125, .0125, .0125,
                                     .00625, .00625));
  EXPECT_THAT(plateau_rates("plateau:factor=0.5,patience=0,cooldown=2,min_lr=0.03", losses),
              ::testing::ElementsAre(.1, .1, .05, .05, .05, .03, .03, .03, .03, .03, .03, .03, .03, .03));
  EXPECT_THAT(plateau_rates("plateau:factor=0.5,patience=1,threshold=0", losses),
              ::testing::ElementsAre(.1, .1, .1, .1, .1, .1, .05, .05, .025, .025, .025, .025, .0125, .0125));
  EXPECT_EQ(plateau_rates("plateau", std::vector<double>(12, 1.0))[10], 0.1);
  EXPECT_EQ(plateau_rates("plateau", std::vector<double>(12, 1.0))[11], 0.1 * 0.1);
}

TEST(Plateau, MatchesPyTorchPointByPoint) {
  if (!has_torch()) {
    GTEST_SKIP() << "python3 on PATH does not have torch";
  }
  constexpr const char* kScript = R"sh(python3 -W ignore -c "
import torch
def rates(**options):
  o = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=.1)
  s = torch.optim.lr_scheduler.ReduceLROnPlateau(o, **options)
  for i in range(200):
    s.step(1 / (1 + i // 2) + (i * 7919 % 101) / 300)
    print('%.17g' % o.param_groups[0]['lr'], end=' ')
rates(factor=.5, patience=3)
rates(factor=.9, patience=0, cooldown=2, min_lr=.02)
rates(factor=.7, patience=5, threshold=.1)
rates()
")sh";
  std::vector<double> losses;
  for (int i = 0; i < 200; ++i) {
    losses.push_back(1.0 / (1 + i / 2) + (i * 7919 % 101) / 300.0);
  }
  std::istringstream lines(printed_by(kScript));
  for (const char* text :
       {"plateau:factor=0.5,patience=3", "plateau:factor=0.9,patience=0,cooldown=2,min_lr=0.02",
        "plateau:factor=0.7,patience=5,threshold=0.1", "plateau"}) {
    for (const double rate : plateau_rates(text, losses)) {
      double expected = -1;
      ASSERT_TRUE(lines >> expected) << text;
      EXPECT_EQ(rate, expected) << text;
    }
  }
}

TEST(Plateau, StateGoesOnWithTheSameRates) {
  const PlateauOptions options{.factor = 0.5, .patience = 2, .cooldown = 1};
  const Scalar rate = scalar("rate", 0.1);
  const Scalar other = scalar("other", 7);
  ReduceOnPlateau plateau(rate, options);
  int reductions = 0;
  for (int i = 0; i < 30; ++i) {
    ReduceOnPlateau resumed(other, options);  // after every observation
    resumed.set_state(plateau.state());
    EXPECT_EQ(resumed.state(), plateau.state());
    EXPECT_EQ(resumed.observation_count(), i);
    const double loss = i == 9 ? 0.1 : 1.0 / 3 + i % 4;
    EXPECT_EQ(resumed.observe(loss), plateau.observe(loss));
    reductions += other.value() == rate.value() && rate.value() < 0.1 ? 1 : 0;
  }
  EXPECT_GT(reductions, 10);
  const std::string before = plateau.state();
  EXPECT_MESSAGE("schedule: the state of plateau, '', has no 'rate'", plateau.set_state(""));
  EXPECT_MESSAGE(
      "schedule: the state of plateau is out of range: 'rate=1,best=1,bad=-1,cooldown=0,observations=1'",
      plateau.set_state("rate=1,best=1,bad=-1,cooldown=0,observations=1"));
  EXPECT_MESSAGE("schedule: best takes a number, not 'x'", plateau.set_state("rate=1,best=x"));
  EXPECT_EQ(plateau.state(), before);
}

TEST(Plateau, WrongOptionsAreErrors) {
  EXPECT_FALSE(parse_plateau("cosine:warmup=1"));
  EXPECT_MESSAGE("schedule: plateau has no option 'end'; use factor, patience, threshold, cooldown or min_lr",
                 parse_plateau("plateau:end=1"));
  EXPECT_MESSAGE(
      "schedule: plateau has no option 'patient'; use factor, patience, threshold, cooldown or min_lr; did "
      "you mean "
      "'patience'?",
      parse_plateau("plateau:patient=1"));
  EXPECT_MESSAGE("schedule: factor must be at least 0 and less than 1", parse_plateau("plateau:factor=1"));
  EXPECT_MESSAGE("schedule: patience and cooldown must be at least 0", parse_plateau("plateau:cooldown=-1"));
  EXPECT_MESSAGE("schedule: threshold must be from 0 to 1", parse_plateau("plateau:threshold=2"));
  EXPECT_MESSAGE("schedule: min_lr must be finite and at least 0", parse_plateau("plateau:min_lr=inf"));
  EXPECT_MESSAGE("schedule: patience takes a number, not '1.5'", parse_plateau("plateau:patience=1.5"));
  EXPECT_MESSAGE(
      "schedule: plateau depends on the losses, not on the step; use parse_plateau and ReduceOnPlateau",
      parse_schedule("plateau", 0.1, 10));
}

}  // namespace
}  // namespace yoke::testing
