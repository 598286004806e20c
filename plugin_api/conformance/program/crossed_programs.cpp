// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/crossed_programs.cpp: border_programs.h, statements that combine every two choices: of
// types, reductions, assignments, indices of the target and the operands, extents, contexts and data. Kernels are
// often right for each choice alone and wrong for two of them together.
#include <yoke/program/text.h>

#include <algorithm>
#include <set>
#include <utility>

#include "../random.h"
#include "border_programs.h"
#include "crossed.h"

namespace yoke::conformance {

using program::Type;

namespace {

// The pairs of choices that programs have.
class Pairs {
 public:
  // How many pairs of these choices are new.
  std::size_t fresh(const Choices& choices) const {
    std::size_t count = 0;
    visit(choices, [&](std::uint32_t pair) { count += seen_.contains(pair) ? 0U : 1U; });
    return count;
  }
  void add(const Choices& choices) {
    visit(choices, [&](std::uint32_t pair) { seen_.insert(pair); });
  }

 private:
  static void visit(const Choices& choices, const auto& visit_one) {
    for (std::uint32_t a = 0; a < kChoices; ++a) {
      for (std::uint32_t b = a + 1; b < kChoices; ++b) {
        visit_one(((a * kChoices + b) * 16 + choices[a]) * 16 + choices[b]);
      }
    }
  }
  std::set<std::uint32_t> seen_;
};

// Any choices, or mostly the first ones of indices, contexts and data.
Choices drawn(Random& random, bool is_plain) {
  Choices choices;
  for (std::size_t choice = 0; choice < kChoices; ++choice) {
    const bool is_detail = choice >= kContext && (choice < kRows || choice > kTerms);
    choices[choice] = is_plain && is_detail && !random.chance(5)
                          ? 0
                          : static_cast<std::uint8_t>(random.below(choice_counts()[choice]));
  }
  return choices;
}

}  // namespace

std::vector<Case> crossed_programs(std::uint64_t seed, std::uint64_t type_mask) {
  constexpr std::size_t kCount = 1000;
  constexpr int kCandidates = 12;
  constexpr std::int64_t kMostIterations = 12'000;
  const std::vector<Type> types = types_of(type_mask);
  const auto has = [&](Type type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  std::vector<Case> all;
  if (!has(Type::kI32) || !has(Type::kI64) || !has(Type::kF32)) {
    return all;
  }
  Random random(seed, "crossed");
  Pairs pairs;
  for (std::uint64_t attempt = 0; all.size() < kCount && attempt < 20 * kCount; ++attempt) {
    // Kernels for special cases need many choices to be plain, which pairs alone make rare.
    const bool is_plain = attempt % 2 == 0;
    std::pair<std::size_t, Choices> best{};
    for (int i = 0; i < (is_plain ? 1 : kCandidates); ++i) {
      const Choices choices = drawn(random, is_plain);
      if (crossed_iterations(choices, types) <= kMostIterations) {
        best = std::max(best, std::pair(pairs.fresh(choices) + 1, choices));
      }
    }
    if (best.first == 0) {
      continue;
    }
    try {
      append(all, {crossed_program(seed, all.size(), best.second, types)});
      pairs.add(best.second);
    } catch (const program::ProgramError&) {
      // Two choices exclude each other.
    }
  }
  return all;
}

}  // namespace yoke::conformance
