// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/random_work.h: random work on several streams, and the results of running it in order.
#pragma once

#include <random>

#include "rig.h"

namespace yoke::test {

inline constexpr std::size_t kLength = 24;

// y = 3 y + x: the result depends on the order of all operations.
inline std::string mix_program(std::size_t count) {
  const std::string n = std::to_string(count);
  return "yoke.program 1\nprogram mix() {\n  arg x : i64[" + n + "] in\n  arg y : i64[" + n +
         "] inout\n  y[i] = y[i] * 3 + x[i]\n}\n";
}

// Queues random operations on random ranges of three buffers, some on two ranges of one buffer. Applies each one to
// `model` immediately.
class RandomWork {
 public:
  RandomWork(Rig& rig, std::uint64_t seed) : rig_(rig), random_(seed) {
    for (int s = 0; s < 4; ++s) {
      streams.push_back(rig.stream());
    }
    for (int b = 0; b < 3; ++b) {
      buffers.push_back(buffer_of<std::int64_t>(rig.device, kLength));
      model.emplace_back(kLength, 0);
      const std::uint8_t zero = 0;
      streams[0]->fill(buffers.back(), &zero, 1);
    }
    sources.reserve(1000);
    targets.reserve(1000);
    expected.reserve(1000);
  }

  void step() {
    Stream& stream = *streams[below(streams.size())];
    const std::size_t dst = below(buffers.size());
    const std::size_t count = 1 + below(kLength / 2);
    const std::size_t at = below(kLength - count + 1);
    const BufferView to = part<std::int64_t>(buffers[dst], at, count);
    if (below(8) == 0) {
      stream.join(to);
    }
    switch (below(5)) {
      case 0: {
        sources.emplace_back(count);
        for (std::size_t i = 0; i < count; ++i) {
          sources.back()[i] = model[dst][at + i] = static_cast<std::int64_t>(below(1000));
        }
        stream.from_host(to, sources.back().data());
        break;
      }
      case 1: {
        targets.emplace_back(count);
        expected.emplace_back(model[dst].begin() + static_cast<std::ptrdiff_t>(at),
                              model[dst].begin() + static_cast<std::ptrdiff_t>(at + count));
        stream.to_host(targets.back().data(), to);
        break;
      }
      case 2: {
        const auto value = static_cast<std::int64_t>(below(1000));
        std::fill_n(model[dst].begin() + static_cast<std::ptrdiff_t>(at), count, value);
        stream.fill(to, &value, 8);
        break;
      }
      default: {
        const std::size_t from = below(kLength - count + 1);
        std::size_t src = below(buffers.size());
        if (src == dst && from < at + count && at < from + count) {
          src = (dst + 1) % buffers.size();  // one buffer only if the ranges do not overlap
        }
        const BufferView x = part<std::int64_t>(buffers[src], from, count);
        if (below(2) == 0) {
          std::copy_n(model[src].begin() + static_cast<std::ptrdiff_t>(from), count,
                      model[dst].begin() + static_cast<std::ptrdiff_t>(at));
          stream.copy(to, x);
        } else {
          for (std::size_t i = 0; i < count; ++i) {
            model[dst][at + i] =
                static_cast<std::int64_t>(static_cast<std::uint64_t>(model[dst][at + i]) * 3 +
                                          static_cast<std::uint64_t>(model[src][from + i]));
          }
          routines.push_back(link(rig_.device, mix_program(count), {x, to}));
          stream.launch(*routines.back());
        }
      }
    }
  }

  std::vector<std::shared_ptr<Stream>> streams;
  std::vector<BufferView> buffers;
  std::vector<std::vector<std::int64_t>> model;
  std::vector<std::vector<std::int64_t>> sources;
  std::vector<std::vector<std::int64_t>> targets;
  std::vector<std::vector<std::int64_t>> expected;
  std::vector<std::shared_ptr<const Routine>> routines;

 private:
  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  }
  Rig& rig_;
  std::mt19937_64 random_;
};

// Runs random work with random delays, and compares its results with those of sequential execution.
inline void expect_sequential_results(Rig& rig, std::uint64_t seed, int steps) {
  RandomWork work(rig, seed);
  for (int i = 0; i < steps; ++i) {
    work.step();
  }
  for (const auto& stream : work.streams) {
    stream->wait();
  }
  EXPECT_EQ(work.targets, work.expected) << "seed " << seed;
  for (std::size_t b = 0; b < work.buffers.size(); ++b) {
    EXPECT_EQ(read<std::int64_t>(*work.streams[0], work.buffers[b]), work.model[b]) << "seed " << seed;
  }
}

}  // namespace yoke::test
