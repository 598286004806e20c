// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/hazard_test.cpp: several streams compute the same
// results as one stream, independent of timing.
#include <random>

#include "rig.h"

namespace yoke::test {
namespace {

constexpr std::size_t kLength = 24;

// y = 3 y + x: not commutative, and depends on all earlier values.
std::string mix_program(std::size_t count) {
  const std::string n = std::to_string(count);
  return "yoke.program 1\nprogram mix() {\n  arg x : i64[" + n + "] in\n  arg y : i64[" + n +
         "] inout\n  y[i] = y[i] * 3 + x[i]\n}\n";
}

struct Case {
  Streams streams;
  std::uint64_t seed;
};

void PrintTo(const Case& which, std::ostream* out) {
  PrintTo(which.streams, out);
  *out << ", seed " << which.seed;
}

class HazardTest : public testing::TestWithParam<Case> {};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    all.push_back({Streams::kWorker, seed});
    all.push_back({Streams::kNative, seed});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Seeds, HazardTest, testing::ValuesIn(cases()), [](const auto& tested) {
  return std::string(tested.param.streams == Streams::kWorker ? "Worker" : "Native") +
         std::to_string(tested.param.seed);
});

// Random operations on random ranges of three buffers. Each is also applied to `model` at once.
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
        const std::size_t src = (dst + 1 + below(buffers.size() - 1)) % buffers.size();
        const std::size_t from = below(kLength - count + 1);
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

TEST_P(HazardTest, FourStreamsOnSharedBuffersMatchSequentialExecution) {
  RuntimeOptions options;
  options.injected_delay_us = 150;
  options.injected_delay_seed = GetParam().seed;
  Rig rig(GetParam().streams, options);
  rig.control->delay_us = GetParam().streams == Streams::kNative ? 50 : 0;
  RandomWork work(rig, GetParam().seed);

  for (int i = 0; i < 400; ++i) {
    work.step();
  }
  for (const auto& stream : work.streams) {
    stream->wait();
  }

  EXPECT_EQ(work.targets, work.expected) << "seed " << GetParam().seed;
  for (std::size_t b = 0; b < work.buffers.size(); ++b) {
    EXPECT_EQ(read<std::int64_t>(*work.streams[0], work.buffers[b]), work.model[b])
        << "seed " << GetParam().seed;
  }
}

class RangeTest : public testing::TestWithParam<Streams> {};
INSTANTIATE_TEST_SUITE_P(Streams, RangeTest, testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(RangeTest, DisjointRangesOfOneBufferDoNotWaitForEachOther) {
  Rig rig(GetParam());
  const auto first = rig.stream();
  const auto second = rig.stream();
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 16);
  const BufferView gate = buffer_of<std::uint8_t>(rig.device, 1);
  rig.control->is_blocked = true;
  fill<std::uint8_t>(*first, part<std::uint8_t>(buffer, 0, 8), 1);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  fill<std::uint8_t>(*second, part<std::uint8_t>(buffer, 8, 8), 1);

  EXPECT_TRUE(wait_for_calls(*rig.control, 2)) << "both calls must be in the backend at the same time";
  rig.control->is_blocked = false;
}

TEST_P(RangeTest, ReadersDoNotWaitForEachOther) {
  Rig rig(GetParam());
  const auto first = rig.stream();
  const auto second = rig.stream();
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 16);
  std::vector<std::uint8_t> a(16);
  std::vector<std::uint8_t> b(16);
  rig.control->is_blocked = true;
  first->to_host(a.data(), buffer);
  second->to_host(b.data(), buffer);

  EXPECT_TRUE(wait_for_calls(*rig.control, 2));
  rig.control->is_blocked = false;
  first->wait();
  second->wait();
}

TEST_P(RangeTest, OverlappingWriteWaits) {
  Rig rig(GetParam());
  const auto first = rig.stream();
  const auto second = rig.stream();
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 16);
  std::vector<std::uint8_t> seen(9);
  rig.control->is_blocked = true;
  first->to_host(seen.data(), part<std::uint8_t>(buffer, 0, 9));
  fill<std::uint8_t>(*second, part<std::uint8_t>(buffer, 8, 8), 1);
  EXPECT_TRUE(wait_for_calls(*rig.control, 1));
  std::this_thread::sleep_for(50ms);

  EXPECT_EQ(rig.control->call_count.load(), 1U);
  rig.control->is_blocked = false;
  second->wait();
  EXPECT_EQ(seen[8], 0x5a);
}

TEST_P(RangeTest, ThreadsThatCopyInOppositeDirectionsDoNotDeadlock) {
  Rig rig(GetParam());
  const BufferView a = buffer_of<std::int64_t>(rig.device, 4);
  const BufferView b = buffer_of<std::int64_t>(rig.device, 4);
  const auto first = rig.stream();
  const auto second = rig.stream();
  fill<std::uint8_t>(*first, a, 0);
  fill<std::uint8_t>(*first, b, 0);
  const auto run = [&](Stream& stream, const BufferView& to, const BufferView& from) {
    const auto routine = link(rig.device, mix_program(4), {from, to});
    for (int i = 0; i < 1500; ++i) {
      stream.copy(to, from);
      stream.launch(*routine);
    }
    stream.wait(20s);
  };

  std::thread thread([&] { run(*first, a, b); });
  run(*second, b, a);
  thread.join();
}

TEST_P(RangeTest, LaunchesOfOneRoutineDoNotOverlap) {
  Rig rig(GetParam());
  const BufferView x = buffer_of<std::int64_t>(rig.device, 4);
  const BufferView y = buffer_of<std::int64_t>(rig.device, 4);
  const auto first = rig.stream();
  const auto second = rig.stream();
  fill<std::int64_t>(*first, x, 1);
  fill<std::int64_t>(*first, y, 1);
  first->wait();
  const auto routine = link(rig.device, mix_program(4), {x, y});
  rig.control->is_blocked = true;
  const std::uint64_t before = rig.control->call_count.load();

  first->launch(*routine);
  second->launch(*routine);
  EXPECT_TRUE(wait_for_calls(*rig.control, before + 1));
  std::this_thread::sleep_for(50ms);

  EXPECT_EQ(rig.control->call_count.load(), before + 1);
  rig.control->is_blocked = false;
  EXPECT_EQ(read<std::int64_t>(*second, y), (std::vector<std::int64_t>(4, 13)));
}

TEST_P(RangeTest, BufferIsFreedAfterItsWork) {
  Rig rig(GetParam());
  const auto stream = rig.stream();
  rig.control->delay_us = 20000;
  {
    const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 1 << 16);
    fill<std::uint8_t>(*stream, buffer, 1);
  }
  EXPECT_TRUE(stream->is_idle());
}

}  // namespace
}  // namespace yoke::test
