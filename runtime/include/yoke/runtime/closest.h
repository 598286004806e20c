// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/closest.h: finds the name that a misspelled word probably means.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke {

// The number of letters to insert, delete, replace or swap with their neighbor to turn `a` into `b`.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min(
          {cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

// The candidate closest to `word`, ignoring case; the first of several. A candidate is close if at most a
// third of the letters differ, or if `word` is its beginning. Empty if no candidate is close.
inline std::string closest(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kLongest = 100;  // a longer word is not a misspelled name
  if (word.empty() || word.size() > kLongest) {
    return {};
  }
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
  };
  const std::string typed = lower(std::string(word));
  constexpr std::size_t kShortestBeginning = 3;
  std::size_t best = std::max<std::size_t>(1, typed.size() / 3) + 1;
  std::string found;
  for (const std::string& candidate : candidates) {
    const std::string name = lower(candidate);
    const bool is_beginning = typed.size() >= kShortestBeginning && name.starts_with(typed);
    const std::size_t distance =
        is_beginning ? std::min<std::size_t>(1, edit_distance(typed, name)) : edit_distance(typed, name);
    if (distance < best && distance < std::max(typed.size(), name.size())) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

// "; did you mean 'train'?", or nothing if no candidate is close, or `word` is one.
inline std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string found = closest(word, candidates);
  return found.empty() || found == word ? "" : "; did you mean '" + found + "'?";
}
inline std::string did_you_mean(std::string_view word, std::initializer_list<std::string> candidates) {
  return did_you_mean(word, std::span(candidates.begin(), candidates.size()));
}

}  // namespace yoke
