// SPDX-License-Identifier: Apache-2.0
// runtime/layers/taint.cpp: sets of ranges.
#include "layers/taint.h"

#include <algorithm>
#include <iterator>

namespace yoke::layers {
namespace {

std::uint64_t end_of(std::uint64_t begin, std::uint64_t byte_count) {
  return begin + std::min(byte_count, ~std::uint64_t{0} - begin);
}

}  // namespace

void Taint::add(const Buffer& buffer, std::uint64_t begin, std::uint64_t byte_count) {
  std::uint64_t end = end_of(begin, byte_count);
  if (begin == end) {
    return;
  }
  Ranges& ranges = ranges_[buffer];
  auto at = ranges.upper_bound(begin);
  if (at != ranges.begin() && std::prev(at)->second >= begin) {
    --at;
  }
  while (at != ranges.end() && at->first <= end) {
    begin = std::min(begin, at->first);
    end = std::max(end, at->second);
    at = ranges.erase(at);
  }
  ranges.emplace(begin, end);
}

void Taint::remove(const Buffer& buffer, std::uint64_t begin, std::uint64_t byte_count) {
  const std::uint64_t end = end_of(begin, byte_count);
  const auto found = ranges_.find(buffer);
  if (found == ranges_.end() || begin == end) {
    return;
  }
  Ranges& ranges = found->second;
  auto at = ranges.upper_bound(begin);
  if (at != ranges.begin() && std::prev(at)->second > begin) {
    --at;
  }
  while (at != ranges.end() && at->first < end) {
    const auto [first, last] = *at;
    at = ranges.erase(at);
    if (first < begin) {
      ranges.emplace(first, begin);
    }
    if (last > end) {
      ranges.emplace(end, last);
      break;
    }
  }
}

bool Taint::meets(const Buffer& buffer, std::uint64_t begin, std::uint64_t byte_count) const {
  const std::uint64_t end = end_of(begin, byte_count);
  const auto found = ranges_.find(buffer);
  if (found == ranges_.end() || begin == end) {
    return false;
  }
  const auto after = found->second.lower_bound(end);
  return after != found->second.begin() && std::prev(after)->second > begin;
}

}  // namespace yoke::layers
