// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/random_bits.h: Threefry; included once per instruction set.
#pragma once

#include <stdint.h>

namespace {

inline uint32_t rotate(uint32_t x, unsigned count) {
  return (x << count) | (x >> (32U - count));
}

// Threefry 4x32 with 20 rounds, the same as yoke::program::random_bits.
template <class T>
struct RandomBits {
  static inline uint32_t apply(int64_t seed, int64_t stream, int64_t counter) {
    uint32_t words[4];
    four_words(seed, stream, counter >> 2, words);
    const uint64_t word = static_cast<uint64_t>(counter) & 3U;
    const uint32_t low = (word & 1U) != 0 ? words[1] : words[0];
    const uint32_t high = (word & 1U) != 0 ? words[3] : words[2];
    return (word & 2U) != 0 ? high : low;
  }

  // What the counters 4 * number, ..., 4 * number + 3 give.
  static inline void four_words(int64_t seed, int64_t stream, int64_t number, uint32_t* words) {
    const uint64_t s = static_cast<uint64_t>(seed);
    const uint64_t t = static_cast<uint64_t>(stream);
    const uint64_t block = static_cast<uint64_t>(number);
    const uint32_t k[5] = {static_cast<uint32_t>(s), static_cast<uint32_t>(s >> 32U),
                           static_cast<uint32_t>(t), static_cast<uint32_t>(t >> 32U),
                           0x1BD11BDAU ^ static_cast<uint32_t>(s) ^ static_cast<uint32_t>(s >> 32U) ^
                               static_cast<uint32_t>(t) ^ static_cast<uint32_t>(t >> 32U)};
    uint32_t x0 = static_cast<uint32_t>(block) + k[0];
    uint32_t x1 = static_cast<uint32_t>(block >> 32U) + k[1];
    uint32_t x2 = k[2];
    uint32_t x3 = k[3];
#define YOKE_CC_ROUNDS(r0, r1, r2, r3, r4, r5, r6, r7, ka, kb, kc, kd, step) \
  x0 += x1;                                                                  \
  x1 = rotate(x1, r0) ^ x0;                                                  \
  x2 += x3;                                                                  \
  x3 = rotate(x3, r1) ^ x2;                                                  \
  x0 += x3;                                                                  \
  x3 = rotate(x3, r2) ^ x0;                                                  \
  x2 += x1;                                                                  \
  x1 = rotate(x1, r3) ^ x2;                                                  \
  x0 += x1;                                                                  \
  x1 = rotate(x1, r4) ^ x0;                                                  \
  x2 += x3;                                                                  \
  x3 = rotate(x3, r5) ^ x2;                                                  \
  x0 += x3;                                                                  \
  x3 = rotate(x3, r6) ^ x0;                                                  \
  x2 += x1;                                                                  \
  x1 = rotate(x1, r7) ^ x2;                                                  \
  x0 += k[ka];                                                               \
  x1 += k[kb];                                                               \
  x2 += k[kc];                                                               \
  x3 += k[kd] + (step);
    YOKE_CC_ROUNDS(10, 26, 11, 21, 13, 27, 23, 5, 1, 2, 3, 4, 1U)
    YOKE_CC_ROUNDS(6, 20, 17, 11, 25, 10, 18, 20, 2, 3, 4, 0, 2U)
    YOKE_CC_ROUNDS(10, 26, 11, 21, 13, 27, 23, 5, 3, 4, 0, 1, 3U)
    YOKE_CC_ROUNDS(6, 20, 17, 11, 25, 10, 18, 20, 4, 0, 1, 2, 4U)
    YOKE_CC_ROUNDS(10, 26, 11, 21, 13, 27, 23, 5, 0, 1, 2, 3, 5U)
#undef YOKE_CC_ROUNDS
    words[0] = x0;
    words[1] = x1;
    words[2] = x2;
    words[3] = x3;
  }
};

}  // namespace
