// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/schedules.cpp: learning rates as expressions of the step.
#include <yoke/ops.h>
#include <yoke/runtime/closest.h>
#include <yoke/runtime/counted.h>
#include <yoke/runtime/error.h>
#include <yoke/schedules.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "shortest.h"

namespace yoke {
namespace {

constexpr std::array<std::pair<std::string_view, Schedule::Kind>, 6> kKinds = {
    {{"constant", Schedule::Kind::kConstant},
     {"linear", Schedule::Kind::kLinear},
     {"cosine", Schedule::Kind::kCosine},
     {"step", Schedule::Kind::kStep},
     {"exponential", Schedule::Kind::kExponential},
     {"one-cycle", Schedule::Kind::kOneCycle}}};

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, "schedule: " + why);
}

Tensor f64(double value) {
  return full(Type::kF64, {}, value);
}

// From `from` at x = 0 to `to` at x = 1.
Tensor along_cosine(double from, double to, const Tensor& x) {
  return f64(to) + f64((from - to) / 2) * (f64(1) + cos(f64(std::numbers::pi) * x));
}

Tensor one_cycle(double rate, const Tensor& u, double steps) {
  constexpr double kStart = 25;
  constexpr double kEnd = 1e4;
  const double low = rate / kStart;
  const double top = std::max(0.3 * steps - 1, 1e-9);  // PyTorch does not round it
  const double last = steps - 1;
  const Tensor up = along_cosine(low, rate, minimum(u / f64(top), f64(1)));
  const Tensor down = along_cosine(rate, low / kEnd, minimum((u - f64(top)) / f64(last - top), f64(1)));
  return where(u <= f64(top), up, down);
}

Tensor after_warmup(const Schedule& schedule, const Tensor& u) {
  Tensor rate = f64(schedule.rate);
  const auto n = static_cast<double>(schedule.steps - schedule.warmup);
  switch (schedule.kind) {
    case Schedule::Kind::kLinear:
      return rate * (f64(schedule.start) + f64(schedule.end - schedule.start) * minimum(u / f64(n), f64(1)));
    case Schedule::Kind::kCosine:
      return along_cosine(schedule.rate, schedule.rate * schedule.end, minimum(u / f64(n), f64(1)));
    case Schedule::Kind::kStep:
      return rate * exp(f64(std::log(schedule.gamma)) * floor(u / f64(static_cast<double>(schedule.every))));
    case Schedule::Kind::kExponential:
      return rate * exp(f64(std::log(schedule.gamma)) * u);
    case Schedule::Kind::kOneCycle:
      return one_cycle(schedule.rate, u, n);
    default:
      return rate;
  }
}

void check(const Schedule& schedule) {
  if (std::none_of(kKinds.begin(), kKinds.end(),
                   [&](const auto& each) { return each.second == schedule.kind; })) {
    refuse("the kind is " + std::to_string(static_cast<int>(schedule.kind)) + "; use a Schedule::Kind");
  }
  const auto is_share = [](double value) { return value >= 0 && value <= 1e6; };
  if (!(schedule.rate >= 0 && schedule.rate <= 1e38)) {
    refuse("the rate is " + detail::shortest(schedule.rate) + "; it must be a finite number from 0 on");
  }
  if (schedule.warmup < 0 || schedule.every < 1) {
    refuse("warmup must be at least 0, and every at least 1");
  }
  if (!is_share(schedule.start) || !is_share(schedule.end)) {
    refuse("start and end must be from 0 to 1000000");
  }
  if (!(schedule.gamma > 0 && schedule.gamma <= 1e6)) {
    refuse("gamma must be greater than 0, at most 1000000");
  }
  const std::int64_t least =
      schedule.kind == Schedule::Kind::kOneCycle ? 4 : 1;  // the rate must rise and fall
  if (needs_steps(schedule.kind) && schedule.steps - schedule.warmup < least) {
    refuse("the run has " + detail::counted(schedule.steps, "step") + ", but needs at least " +
           std::to_string(least + schedule.warmup) +
           (schedule.warmup > 0 ? " with a warm-up of " + std::to_string(schedule.warmup) : "") +
           "; use more steps" + (schedule.warmup > 0 ? " or a shorter warm-up" : ""));
  }
}

template <class Number>
Number parse_number(std::string_view key, std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    refuse(std::string(key) + " takes a number, not '" + std::string(text) + "'");
  }
  return value;
}

// The options of "key=value,key=value".
void each_option(std::string_view options,
                 const std::function<void(std::string_view key, std::string_view value)>& visit) {
  std::vector<std::string_view> seen;
  for (std::size_t begin = 0; begin <= options.size();) {
    const std::string_view part = options.substr(begin, options.find(',', begin) - begin);
    if (part.empty()) {
      refuse("an option is empty; write key=value after each colon and comma");
    }
    const std::string_view key = part.substr(0, part.find('='));
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      refuse("the option '" + std::string(key) + "' is given more than once; give it once");
    }
    seen.push_back(key);
    visit(key, part.substr(std::min(key.size() + 1, part.size())));
    begin += part.size() + 1;
  }
}

// Those of "kind" or "kind:key=value,key=value".
void each_option_of_kind(std::string_view text,
                         const std::function<void(std::string_view key, std::string_view value)>& visit) {
  if (const std::size_t colon = text.find(':'); colon != text.npos) {
    each_option(text.substr(colon + 1), visit);
  }
}

void check(const PlateauOptions& options) {
  if (!(options.factor >= 0 && options.factor < 1)) {
    refuse("factor must be at least 0 and less than 1");
  }
  if (options.patience < 0 || options.cooldown < 0) {
    refuse("patience and cooldown must be at least 0");
  }
  if (!(options.threshold >= 0 && options.threshold <= 1)) {
    refuse("threshold must be from 0 to 1");
  }
  if (!(options.min_lr >= 0 && options.min_lr <= 1e38)) {
    refuse("min_lr must be finite and at least 0");
  }
}

}  // namespace

bool needs_steps(Schedule::Kind kind) {
  return kind == Schedule::Kind::kLinear || kind == Schedule::Kind::kCosine ||
         kind == Schedule::Kind::kOneCycle;
}

std::optional<PlateauOptions> parse_plateau(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  if (name != "plateau") {
    return std::nullopt;
  }
  PlateauOptions made;
  each_option_of_kind(text, [&](auto key, auto value) {
    if (key == "factor") {
      made.factor = parse_number<double>(key, value);
    } else if (key == "patience") {
      made.patience = parse_number<std::int64_t>(key, value);
    } else if (key == "threshold") {
      made.threshold = parse_number<double>(key, value);
    } else if (key == "cooldown") {
      made.cooldown = parse_number<std::int64_t>(key, value);
    } else if (key == "min_lr") {
      made.min_lr = parse_number<double>(key, value);
    } else {
      refuse("plateau has no option '" + std::string(key) +
             "'; use factor, patience, threshold, cooldown or min_lr" +
             did_you_mean(key, {"factor", "patience", "threshold", "cooldown", "min_lr"}));
    }
  });
  check(made);
  return made;
}

ReduceOnPlateau::ReduceOnPlateau(const Scalar& rate, const PlateauOptions& options)
    : rate_(rate), options_(options), best_(std::numeric_limits<double>::infinity()) {
  check(options);
  (void)rate.value();  // throws if it is empty
}

// In the order of PyTorch's step().
bool ReduceOnPlateau::observe(double loss) {
  constexpr double kLeastChange = 1e-8;
  const double rate = rate_.value();  // a moved-from object is an Error, whatever the loss
  ++observation_count_;
  if (loss < best_ * (1 - options_.threshold)) {
    best_ = loss;
    bad_count_ = 0;
  } else {
    ++bad_count_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_count_ = 0;
  }
  if (bad_count_ <= options_.patience) {
    return false;
  }
  cooldown_left_ = options_.cooldown;
  bad_count_ = 0;
  const double next = std::max(rate * options_.factor, options_.min_lr);
  if (rate - next <= kLeastChange) {
    return false;
  }
  rate_.set(next);
  return true;
}

std::string ReduceOnPlateau::state() const {
  return "rate=" + detail::shortest(rate_.value()) + ",best=" + detail::shortest(best_) +
         ",bad=" + std::to_string(bad_count_) + ",cooldown=" + std::to_string(cooldown_left_) +
         ",observations=" + std::to_string(observation_count_);
}

void ReduceOnPlateau::set_state(std::string_view text) {
  std::map<std::string, std::string_view, std::less<>> parts;
  if (!text.empty()) {
    each_option(text, [&](auto key, auto value) { parts.emplace(key, value); });
  }
  const auto number = [&]<class Number>(std::string_view key, Number least) {
    const auto part = parts.find(key);
    if (part == parts.end()) {
      refuse("the state of plateau, '" + std::string(text) + "', has no '" + std::string(key) + "'");
    }
    const auto value = parse_number<Number>(key, part->second);
    if (!(value >= least)) {
      refuse("the state of plateau is out of range: '" + std::string(text) + "'");
    }
    return value;
  };
  const auto rate = number("rate", 0.0);
  const auto best = number("best", -std::numeric_limits<double>::infinity());
  const auto bad_count = number("bad", std::int64_t{0});
  const auto cooldown_left = number("cooldown", std::int64_t{0});
  const auto observation_count = number("observations", std::int64_t{0});
  if (!std::isfinite(rate)) {
    refuse("the state of plateau is out of range: '" + std::string(text) + "'");
  }
  rate_.set(rate);
  observation_count_ = observation_count;
  best_ = best;
  bad_count_ = bad_count;
  cooldown_left_ = cooldown_left;
}

namespace {

std::vector<std::string> options_of(Schedule::Kind kind) {
  switch (kind) {
    case Schedule::Kind::kLinear:
      return {"warmup", "start", "end"};
    case Schedule::Kind::kCosine:
      return {"warmup", "end"};
    case Schedule::Kind::kStep:
      return {"warmup", "every", "gamma"};
    case Schedule::Kind::kExponential:
      return {"warmup", "gamma"};
    default:
      return {"warmup"};
  }
}

}  // namespace

Schedule parse_schedule(std::string_view text, double rate, std::int64_t steps) {
  const std::string_view name = text.substr(0, text.find(':'));
  const auto kind =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& each) { return each.first == name; });
  if (name == "plateau") {
    refuse("plateau depends on the losses, not on the step; use parse_plateau and ReduceOnPlateau");
  }
  if (kind == kKinds.end()) {
    const std::vector<std::string> names = {"constant",    "linear",    "cosine", "step",
                                            "exponential", "one-cycle", "plateau"};
    refuse("unknown kind '" + std::string(name) +
           "'; use constant, linear, cosine, step, exponential, one-cycle or plateau" +
           did_you_mean(name, names));
  }
  Schedule made{.kind = kind->second, .rate = rate, .steps = steps};
  each_option_of_kind(text, [&](auto key, auto value) {
    const std::vector<std::string> options = options_of(made.kind);
    if (std::find(options.begin(), options.end(), key) == options.end()) {
      refuse(std::string(name) + " has no option '" + std::string(key) +
             "'; all kinds have warmup, linear start and end, cosine end, step every and gamma, exponential "
             "gamma" +
             did_you_mean(key, options));
    }
    if (key == "warmup") {
      made.warmup = parse_number<std::int64_t>(key, value);
    } else if (key == "every") {
      made.every = parse_number<std::int64_t>(key, value);
    } else {
      (key == "gamma"   ? made.gamma
       : key == "start" ? made.start
                        : made.end) = parse_number<double>(key, value);
    }
  });
  check(made);
  return made;
}

Tensor learning_rate(const Schedule& schedule) {
  check(schedule);
  const Tensor t = cast(symbol_value(step_symbol()), Type::kF64);
  if (schedule.warmup == 0) {
    return cast(after_warmup(schedule, t), Type::kF32);
  }
  const auto warmup = static_cast<double>(schedule.warmup);
  const Tensor rising = f64(schedule.rate / (warmup + 1)) * (t + f64(1));
  const Tensor after = after_warmup(schedule, maximum(t - f64(warmup), f64(0)));
  return cast(where(t < f64(warmup), rising, after), Type::kF32);
}

}  // namespace yoke
