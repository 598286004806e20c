// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_optimizer.cpp: the optimizer of yoke train.
#include <yoke/runtime/closest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "subcommands.h"
#include "text.h"
#include "train_setup.h"

namespace yoke::cli {
namespace {

Optimizer plain_optimizer_of(const TrainOptions& options, double decay) {
  const std::string& name = options.optimizer;
  return name == "adam"      ? Optimizer(Adam{.weight_decay = decay})
         : name == "adamw"   ? Optimizer(AdamW{.weight_decay = decay})
         : name == "rmsprop" ? Optimizer(RmsProp{.momentum = options.momentum, .weight_decay = decay})
         : name == "adagrad" ? Optimizer(Adagrad{.weight_decay = decay})
         : name == "lion"    ? Optimizer(Lion{.weight_decay = decay})
         : name == "lamb"    ? Optimizer(Lamb{.weight_decay = decay})
                             : Optimizer(Sgd{options.momentum, decay, options.nesterov});
}

}  // namespace

void parse_clipping(TrainOptions& options) {
  if (options.clip.empty()) {
    return;
  }
  const bool is_value = options.clip.starts_with("value:");
  const std::size_t start = is_value ? 6 : options.clip.starts_with("norm:") ? 5 : 0;
  const char* const end = options.clip.data() + options.clip.size();
  double limit = 0;
  const auto [rest, problem] = std::from_chars(options.clip.data() + start, end, limit);
  if (problem != std::errc() || rest != end || !(limit > 0 && std::isfinite(limit))) {
    throw UsageError("--clip " + options.clip +
                     " is not a limit greater than 0; use one such as 1.0, norm:1.0 or value:0.5" +
                     did_you_mean(options.clip.substr(0, options.clip.find(':')), {"norm", "value"}));
  }
  (is_value ? options.clip_value : options.clip_norm) = limit;
}

std::string keep_matching_patterns(TrainOptions& options, const nn::Module& model) {
  std::vector<std::string> names;
  for (const Parameter& parameter : nn::parameters_and_states(model)) {
    if (!parameter.is_state()) {
      names.push_back(parameter.name());
    }
  }
  std::set<std::string> exempt;
  std::vector<std::string> used;
  std::vector<std::string> unmatched;
  for (const std::string& pattern : options.no_decay) {
    const Optimizer grouped = with_groups(Sgd{}, {{pattern, Sgd{}}});
    const std::size_t exempt_before = exempt.size();
    bool is_matched = false;
    for (const std::string& name : names) {
      if (grouped.group_of(name) != 0) {
        is_matched = true;
        exempt.insert(name);
      }
    }
    if (exempt.size() > exempt_before) {
      used.push_back(pattern);
    } else if (!is_matched) {
      unmatched.push_back("'" + pattern + "'");
    }
  }
  options.no_decay = used;
  if (unmatched.empty()) {
    return {};
  }
  constexpr std::size_t kMostNames = 6;
  const std::size_t count = names.size();
  names.resize(std::min(count, kMostNames));
  std::string text = "--no-decay: no parameter of --model " + options.model + " matches " +
                     join(unmatched, " or ") + "; its parameters are " + join(names, ", ") +
                     (count > kMostNames ? " and " + std::to_string(count - kMostNames) + " more" : "");
  if (used.empty()) {
    throw UsageError(text);
  }
  return text;
}

Optimizer optimizer_of(const TrainOptions& options) {
  std::vector<ParameterGroup> groups;
  for (const std::string& pattern : options.no_decay) {
    groups.push_back({pattern, plain_optimizer_of(options, 0)});
  }
  const Optimizer optimizer = with_groups(plain_optimizer_of(options, options.weight_decay), groups);
  return options.clip_norm > 0    ? clip_by_global_norm(optimizer, options.clip_norm)
         : options.clip_value > 0 ? clip_by_value(optimizer, options.clip_value)
                                  : optimizer;
}

}  // namespace yoke::cli
