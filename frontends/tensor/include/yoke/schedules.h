// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/schedules.h: learning rates as functions of the step.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>
#include <string_view>

namespace yoke {

// The rate in step t, from 0. After warm-up, u = t - warmup and n = steps - warmup:
//   warm-up       rate * (t + 1) / (warmup + 1), in the first `warmup` steps
//   kConstant     rate
//   kLinear       rate * (start + (end - start) * min(u / n, 1))
//   kCosine       rate * (end + (1 - end) * (1 + cos(pi * min(u / n, 1))) / 2)
//   kStep         rate * gamma^floor(u / every)
//   kExponential  rate * gamma^u
//   kOneCycle     from rate / 25 to rate in 0.3 * n - 1 steps, then to rate / 250000 at u = n - 1, each along a cosine
// These are PyTorch's LinearLR, CosineAnnealingLR (until step n; then the rate stays), StepLR, ExponentialLR and
// OneCycleLR with their defaults.
struct Schedule {
  enum class Kind : std::uint8_t { kConstant, kLinear, kCosine, kStep, kExponential, kOneCycle };
  Kind kind = Kind::kConstant;
  double rate = 0;
  std::int64_t steps = 0;  // of the whole run; not for kConstant, kStep and kExponential
  std::int64_t warmup = 0;
  double start = 1;        // kLinear
  double end = 0;          // kLinear and kCosine
  double gamma = 0.1;      // kStep and kExponential
  std::int64_t every = 1;  // kStep
};

// Parses "cosine", "cosine:warmup=100,end=0.1", "step:every=30,gamma=0.1": the name of a kind (constant, linear,
// cosine, step, exponential, one-cycle) and the other members by name. Error kInvalidArgument says what is wrong.
Schedule parse_schedule(std::string_view text, double rate, std::int64_t steps);

// The rate as an f32 scalar of step_symbol(), for DataParallelOptions::learning_rate; it is computed in f64.
// Error kInvalidArgument: a member is out of range, or warmup is not less than steps where steps are needed.
Tensor learning_rate(const Schedule& schedule);

}  // namespace yoke
