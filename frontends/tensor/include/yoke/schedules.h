// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/schedules.h: learning rates as functions of the step.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>
#include <optional>
#include <string>
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
  std::int64_t steps = 0;  // of the whole run, for the kinds of needs_steps()
  std::int64_t warmup = 0;
  double start = 1;        // kLinear
  double end = 0;          // kLinear and kCosine
  double gamma = 0.1;      // kStep and kExponential
  std::int64_t every = 1;  // kStep
};

// Whether the rate depends on the number of steps of the whole run: kLinear, kCosine and kOneCycle.
bool needs_steps(Schedule::Kind kind);

// Parses "cosine", "cosine:warmup=100,end=0.1", "step:every=30,gamma=0.1": the name of a kind (constant, linear,
// cosine, step, exponential, one-cycle) and the other members by name. Error kInvalidArgument says what is wrong.
Schedule parse_schedule(std::string_view text, double rate, std::int64_t steps);

// The rate as an f32 scalar of step_symbol(), for DataParallelOptions::learning_rate; it is computed in f64.
// Error kInvalidArgument: a member is out of range, or warmup is not less than steps where steps are needed.
Tensor learning_rate(const Schedule& schedule);

// The options of PyTorch's ReduceLROnPlateau, with its defaults. min_lr is in the unit of the rate.
struct PlateauOptions {
  double factor = 0.1;         // the new rate divided by the old one; at least 0, less than 1
  std::int64_t patience = 10;  // after more observations than this without improvement, the rate is reduced
  double threshold = 1e-4;     // a loss less than best * (1 - threshold) is an improvement; from 0 to 1
  std::int64_t cooldown = 0;   // observations after a reduction that do not count
  double min_lr = 0;           // the rate is never reduced below this
};

// Parses "plateau" or "plateau:factor=0.5,patience=3". Empty: the text names another schedule. Error kInvalidArgument:
// an option is unknown, repeated, malformed or out of range.
std::optional<PlateauOptions> parse_plateau(std::string_view text);

// Reduces a learning rate when a loss has stopped improving. Use rate.tensor() as DataParallelOptions::learning_rate,
// and call observe() after each evaluation. The new rate applies from the next step on; nothing is compiled again. As
// in PyTorch, the rate stays as it is if it would fall by at most 1e-8. Not thread-safe.
class ReduceOnPlateau {
 public:
  // Errors: kInvalidArgument: an option is out of range; kFailedPrecondition: the rate is an empty Scalar.
  explicit ReduceOnPlateau(const Scalar& rate, const PlateauOptions& options = {});

  // NaN is not an improvement. Returns whether the rate was reduced. Error kFailedPrecondition: moved from.
  bool observe(double loss);
  std::int64_t observation_count() const { return observation_count_; }

  // All that later calls of observe() depend on, including the rate, as one line of text for the notes of a checkpoint.
  std::string state() const;
  // Continues from the result of state(). Error kInvalidArgument: the text is not a valid state; nothing is changed.
  void set_state(std::string_view text);

 private:
  Scalar rate_;
  PlateauOptions options_;
  double best_;
  std::int64_t bad_count_ = 0;  // observations without improvement
  std::int64_t cooldown_left_ = 0;
  std::int64_t observation_count_ = 0;
};

}  // namespace yoke
