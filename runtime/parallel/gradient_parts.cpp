// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/gradient_parts.cpp: where gradient programs are cut, and what a step does with buckets between
// the parts.
#include <yoke/runtime/gradient_parts.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace yoke {

namespace {

constexpr std::size_t kMostParts = 8;

// For each bucket, after how many statements a program no longer uses its gradients and its parameters.
struct Uses {
  std::vector<std::uint32_t> gradients;
  std::vector<std::uint32_t> parameters;
};

Uses uses_of(const StepPlan& plan, const GradientProgram& given) {
  const std::vector<std::uint32_t> arguments = given.program.arguments();
  const std::vector<std::uint32_t> used = passes::used_until(given.program);
  std::map<std::string, std::uint32_t> until = {{"", 0}};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    until[given.program.tensors[arguments[i]].name] = used[i];
  }
  const auto latest = [&](const std::vector<std::string>& names, const std::vector<std::size_t>& parameters) {
    std::uint32_t result = 0;
    for (const std::size_t parameter : parameters) {
      const std::string name = parameter < names.size() ? names[parameter] : std::string();
      const auto found = until.find(name);
      if (found == until.end()) {
        throw Error(ErrorCode::kInvalidArgument,
                    "gradient program '" + given.program.name + "': it has no argument '" + name +
                        "'; name its arguments, in the order of the plan's parameters");
      }
      result = std::max(result, found->second);
    }
    return result;
  };
  Uses uses;
  for (std::size_t b = 0; b < plan.bucket_count(); ++b) {
    uses.gradients.push_back(latest(given.gradients, plan.parameters_of(b)));
    uses.parameters.push_back(latest(given.parameters, plan.parameters_of(b)));
  }
  return uses;
}

// For each bucket, the part of the first program after which it is final.
std::vector<std::size_t> parts_of(const std::vector<std::uint32_t>& final_after) {
  std::vector<std::uint32_t> places = final_after;
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  const std::size_t count = std::min(kMostParts, places.size());
  std::vector<std::size_t> parts;
  for (const std::uint32_t place : final_after) {
    const auto number =
        static_cast<std::size_t>(std::lower_bound(places.begin(), places.end(), place) - places.begin());
    parts.push_back(number * count / places.size());
  }
  return parts;
}

// Where another program is cut so that the same buckets are final after each part.
std::vector<std::uint32_t> cuts_of(const Uses& uses, const std::vector<std::size_t>& parts,
                                   std::size_t count) {
  std::vector<std::uint32_t> after(count - 1, 0);
  for (std::size_t b = 0; b < parts.size(); ++b) {
    if (parts[b] + 1 < count) {
      after[parts[b]] = std::max(after[parts[b]], uses.gradients[b]);
    }
  }
  std::partial_sum(after.begin(), after.end(), after.begin(),
                   [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); });
  return after;
}

}  // namespace

GradientParts cut_at_buckets(const StepPlan& plan, std::span<const GradientProgram> programs) {
  if (programs.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "cut_at_buckets: the list of gradient programs is empty; pass at least one");
  }
  GradientParts result;
  std::vector<std::size_t> merged_after;
  std::vector<std::size_t> updated_after;
  std::size_t count = 0;
  for (const GradientProgram& given : programs) {
    const Uses uses = uses_of(plan, given);
    if (count == 0) {
      merged_after = parts_of(uses.gradients);
      updated_after = merged_after;
      count = 1 + *std::max_element(merged_after.begin(), merged_after.end());
    }
    const std::vector<std::uint32_t> after = cuts_of(uses, merged_after, count);
    for (std::size_t b = 0; b < updated_after.size(); ++b) {
      const auto part = std::lower_bound(after.begin(), after.end(), uses.parameters[b]) - after.begin();
      updated_after[b] = std::max(updated_after[b], static_cast<std::size_t>(part));
    }
    result.programs.push_back(passes::cut(given.program, after));
  }
  std::vector<std::size_t> order(merged_after.size());  // in which buckets become final
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return merged_after[a] < merged_after[b]; });
  result.after.resize(count);
  for (std::size_t part = 0; part < count; ++part) {
    for (const std::size_t b : order) {
      if (merged_after[b] == part || updated_after[b] == part) {
        result.after[part].push_back({b, merged_after[b] == part, updated_after[b] == part});
      }
    }
  }
  return result;
}

}  // namespace yoke
