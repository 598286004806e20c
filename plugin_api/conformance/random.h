// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/random.h: counter-based random numbers: word i depends only on the seed, the
// test's name and the stream, so every run of a test with the same seed uses the same numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace yoke::conformance {

// Not thread-safe: use a different stream for each thread.
class Random {
 public:
  Random(std::uint64_t seed, std::string_view name, std::uint64_t stream = 0)
      : key_(mixed(seed ^ mixed(stream + 1))) {
    for (const char character : name) {
      key_ = mixed(key_ ^ static_cast<unsigned char>(character));
    }
  }

  std::uint64_t at(std::uint64_t counter) const { return mixed(key_ + (counter + 1) * kGolden); }
  std::uint64_t next() { return at(counter_++); }
  // 0 .. limit - 1; limit > 0
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  // both ends included
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  bool chance(std::uint64_t one_in) { return below(one_in) == 0; }
  // 0 <= x < 1
  double unit() { return static_cast<double>(next() >> 11U) * 0x1p-53; }

  void fill(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const std::uint64_t word = next();
      const std::size_t size = bytes.size() < sizeof word ? bytes.size() : sizeof word;
      std::memcpy(bytes.data(), &word, size);
      bytes = bytes.subspan(size);
    }
  }
  std::vector<std::byte> bytes(std::uint64_t count) {
    std::vector<std::byte> made(count);
    fill(made);
    return made;
  }

 private:
  static constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;
  // SplitMix64's finalizer.
  static constexpr std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
  }

  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

}  // namespace yoke::conformance
