// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/random.cpp: Threefry 4x32 with 20 rounds. Every backend must generate the same bits.
#include <yoke/program/execute.h>

#include <bit>

namespace yoke::program {
namespace {

constexpr int kRotations[8][2] = {{10, 26}, {11, 21}, {13, 27}, {23, 5},
                                  {6, 20},  {17, 11}, {25, 10}, {18, 20}};

}  // namespace

std::array<std::uint32_t, 4> threefry4x32(const std::array<std::uint32_t, 4>& key,
                                          const std::array<std::uint32_t, 4>& counter) {
  std::array<std::uint32_t, 5> schedule = {key[0], key[1], key[2], key[3],
                                           0x1BD11BDAU ^ key[0] ^ key[1] ^ key[2] ^ key[3]};
  std::array<std::uint32_t, 4> x = {};
  for (std::size_t i = 0; i < 4; ++i) {
    x[i] = counter[i] + key[i];
  }
  for (std::uint32_t round = 0; round < 20; ++round) {
    // Even rounds mix (0,1) and (2,3); odd rounds mix (0,3) and (2,1), which
    // is Threefry's permutation in place.
    const std::size_t first = round % 2 == 0 ? 1 : 3;
    const std::size_t second = round % 2 == 0 ? 3 : 1;
    x[0] += x[first];
    x[first] = std::rotl(x[first], kRotations[round % 8][0]) ^ x[0];
    x[2] += x[second];
    x[second] = std::rotl(x[second], kRotations[round % 8][1]) ^ x[2];
    if (round % 4 == 3) {
      const std::uint32_t injection = round / 4 + 1;
      for (std::uint32_t i = 0; i < 4; ++i) {
        x[i] += schedule[(injection + i) % 5];
      }
      x[3] += injection;
    }
  }
  return x;
}

std::uint32_t random_bits(std::int64_t seed, std::int64_t stream, std::int64_t counter) {
  const auto low = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const auto high = [](std::int64_t value) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32);
  };
  const std::int64_t block = counter >> 2;  // an arithmetic shift
  const auto words =
      threefry4x32({low(seed), high(seed), low(stream), high(stream)}, {low(block), high(block), 0, 0});
  return words[static_cast<std::size_t>(counter & 3)];
}

}  // namespace yoke::program
