// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/collectives_test.cpp: the results of collectives, and the order of their sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

// The sum of the shards' values in the order of a strategy.
std::vector<float> expected_sum(const std::vector<std::vector<float>>& values, MergeStrategy strategy) {
  std::vector<std::vector<float>> terms = values;
  const auto add = [](std::vector<float>& to, const std::vector<float>& from) {
    std::transform(to.begin(), to.end(), from.begin(), to.begin(), std::plus<>());
  };
  if (strategy == MergeStrategy::kTree) {
    for (const auto& [from, to] : merge_pairs(static_cast<std::uint32_t>(terms.size()))) {
      add(terms[to], terms[from]);
    }
    return terms[0];
  }
  const std::size_t group = strategy == MergeStrategy::kDirect ? 16 : terms.size();
  while (terms.size() > 1) {
    std::vector<std::vector<float>> sums;
    for (std::size_t k = 0; k < terms.size(); ++k) {
      if (k % group == 0) {
        sums.push_back(terms[k]);
      } else {
        add(sums.back(), terms[k]);
      }
    }
    terms = sums;
  }
  return terms[0];
}

TEST(Collectives, SumManyShardsInTheOrderOfTheStrategy) {
#if defined(__SANITIZE_THREAD__)
  constexpr std::size_t kShards = 40;  // the thread sanitizer supports at most 64 locks per thread
#else
  constexpr std::size_t kShards = 273;  // direct: 17 groups of 16 and one of 1, so three rounds
#endif
  constexpr std::size_t kElements = 133;
  const auto runtime = test_runtime();
  const auto device = runtime->backend(backend_name())->open_device(0);
  const auto stream = Stream::create(device);
  for (const auto strategy : {MergeStrategy::kOwner, MergeStrategy::kTree, MergeStrategy::kDirect}) {
    std::vector<Context> contexts;
    std::vector<std::vector<float>> values;
    for (std::uint32_t k = 0; k < kShards; ++k) {
      values.push_back(some_numbers(kElements, k));
      contexts.emplace_back(stream);
      contexts[k].init_from_host("g", {YOKE_TYPE_F32, {kElements}}, std::as_bytes(std::span(values[k])));
    }
    Collectives::create(strategy, contexts)->reduce("g").run();
    std::vector<float> merged(kElements);
    contexts[0].to_host("g", std::as_writable_bytes(std::span(merged)));
    stream->wait();
    EXPECT_EQ(merged, expected_sum(values, strategy)) << merge_strategy_name(strategy);
  }
}

TEST(Collectives, MembersMayHaveSlicesOfOneBuffer) {
  const auto device = test_runtime()->backend(backend_name())->open_device(0);
  const auto stream = Stream::create(device);
  const auto memory = std::make_shared<Buffer>(device, 1024);
  std::vector<Context> contexts;
  for (std::uint32_t k = 0; k < 2; ++k) {
    contexts.emplace_back(stream);
    contexts[k].adopt("g", {YOKE_TYPE_F32, {4}}, {memory, std::uint64_t{512} * k, 16});
    const std::vector<float> values = some_numbers(4, k);
    stream->from_host(contexts[k].tensor("g").view, values.data());
    stream->wait();
  }
  const auto sum = expected_sum({some_numbers(4, 0), some_numbers(4, 1)}, MergeStrategy::kOwner);
  Collectives::create(MergeStrategy::kOwner, contexts)->all_reduce("g").run();
  for (const Context& context : contexts) {
    std::vector<float> merged(4);
    context.to_host("g", std::as_writable_bytes(std::span(merged)));
    stream->wait();
    EXPECT_EQ(merged, sum);
  }
}

// Each member in turn is held up; the work of all members after the barrier waits for it.
TEST(Collectives, ABarrierWaitsForTheWorkOfAllMembers) {
  const auto device = test_runtime()->backend(backend_name())->open_device(0);
  std::vector<Context> contexts;
  for (int k = 0; k < 3; ++k) {
    contexts.emplace_back(Stream::create(device));
  }
  const LinkedCollective barrier = Collectives::create(MergeStrategy::kOwner, contexts)->barrier();
  for (Context& late : contexts) {
    std::atomic<bool> is_released = false;
    std::atomic<int> finished = 0;
    late.stream()->host_callback([&](ErrorCode) {
      while (!is_released) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    barrier.run();
    for (Context& member : contexts) {
      member.stream()->host_callback([&](ErrorCode) { ++finished; });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(finished, 0);
    is_released = true;
    for (Context& member : contexts) {
      member.stream()->wait();
    }
    EXPECT_EQ(finished, 3);
  }
}

TEST(Collectives, ABarrierPassesAFailureOn) {
  const auto device = test_runtime()->backend(backend_name())->open_device(0);
  std::vector<Context> contexts;
  for (int k = 0; k < 3; ++k) {
    contexts.emplace_back(Stream::create(device, "member " + std::to_string(k)));
  }
  const LinkedCollective barrier = Collectives::create(MergeStrategy::kOwner, contexts)->barrier();
  std::atomic<bool> is_queued = false;
  contexts[1].stream()->host_callback([&](ErrorCode) {
    while (!is_queued) {
      std::this_thread::yield();
    }
    throw 1;
  });
  barrier.run();
  is_queued = true;
  for (Context& member : contexts) {
    EXPECT_THAT(test::error_of([&] { member.stream()->wait(); }),
                test::is_error(ErrorCode::kUnknown, "member 1", "a host callback threw an exception"));
  }
}

// The values of a group of shards: whole numbers, so that every order of sums is exact.
class Group {
 public:
  Group(std::uint32_t size, std::uint64_t elements) {
    const auto device = runtime_->backend(backend_name())->open_device(0);
    for (std::uint32_t k = 0; k < size; ++k) {
      contexts_.emplace_back(Stream::create(device));
      std::vector<float> values(elements);
      for (std::size_t i = 0; i < elements; ++i) {
        values[i] = value(k, i);
      }
      contexts_[k].init_from_host("g", {YOKE_TYPE_F32, {elements}}, std::as_bytes(std::span(values)));
      contexts_[k].stream()->wait();
    }
  }
  static float value(std::uint32_t k, std::size_t i) { return static_cast<float>(k * 1000 + i); }
  std::span<const Context> contexts() const { return contexts_; }
  float sum(std::size_t i) const {
    float result = 0;
    for (std::uint32_t k = 0; k < contexts_.size(); ++k) {
      result += value(k, i);
    }
    return result;
  }
  std::vector<float> read(std::uint32_t k) const {
    std::vector<float> values(contexts_[k].tensor("g").spec.dims[0]);
    contexts_[k].to_host("g", std::as_writable_bytes(std::span(values)));
    contexts_[k].stream()->wait();
    return values;
  }

 private:
  std::shared_ptr<Runtime> runtime_ = test_runtime();
  std::vector<Context> contexts_;
};

constexpr std::size_t kElements = 500;
constexpr Slice kRange = {64, 436};  // other elements keep their values

bool is_inside(std::size_t i) {
  return i >= kRange.begin && i < kRange.end;
}

// Runs a collective, and expects `wanted(group, k, part, i)` in element i of shard k if it has a value.
template <class Link, class Wanted>
void expect_values(MergeStrategy strategy, MergeUse use, std::uint32_t size, const Link& link,
                   const Wanted& wanted) {
  const Group group(size, kElements);
  const auto collectives = Collectives::create(strategy, group.contexts(), use);
  link(*collectives).run();
  const std::vector<Slice> parts = slices(kRange.count(), sizeof(float), size);
  for (std::uint32_t k = 0; k < size; ++k) {
    const std::vector<float> got = group.read(k);
    for (std::size_t i = 0; i < kElements; ++i) {
      std::uint32_t part = 0;
      while (is_inside(i) && i - kRange.begin >= parts[part].end) {
        ++part;
      }
      const std::optional<float> value =
          is_inside(i) ? wanted(group, k, part, i) : std::optional<float>(Group::value(k, i));
      ASSERT_EQ(got[i], value.value_or(got[i]))
          << merge_strategy_name(strategy) << ", shard " << k << " of " << size << ", element " << i;
    }
  }
}

template <class Link, class Wanted>
void expect(const Link& link, const Wanted& wanted) {
  for (const MergeStrategy strategy : kStrategies) {
    for (const MergeUse use : {MergeUse::kCopy, MergeUse::kStreaming}) {
      for (const std::uint32_t size : {1U, 2U, 5U, 18U}) {
        expect_values(strategy, use, size, link, wanted);
      }
    }
  }
}

TEST(Collectives, Reduce) {
  expect([](Collectives& all) { return all.reduce("g", kRange); },
         [](const Group& group, std::uint32_t k, std::uint32_t, std::size_t i) {
           return k == 0 ? std::optional(group.sum(i)) : std::nullopt;
         });
}
TEST(Collectives, ReduceScatter) {
  expect([](Collectives& all) { return all.reduce_scatter("g", kRange); },
         [](const Group& group, std::uint32_t k, std::uint32_t part, std::size_t i) {
           return k == part ? std::optional(group.sum(i)) : std::nullopt;
         });
}
TEST(Collectives, AllReduce) {
  expect([](Collectives& all) { return all.all_reduce("g", kRange); },
         [](const Group& group, std::uint32_t, std::uint32_t, std::size_t i) {
           return std::optional(group.sum(i));
         });
}
TEST(Collectives, AllGather) {
  expect([](Collectives& all) { return all.all_gather("g", kRange); },
         [](const Group&, std::uint32_t, std::uint32_t part, std::size_t i) {
           return std::optional(Group::value(part, i));
         });
}
TEST(Collectives, Gather) {
  expect([](Collectives& all) { return all.gather("g", kRange); },
         [](const Group&, std::uint32_t k, std::uint32_t part, std::size_t i) {
           return std::optional(Group::value(k == 0 ? part : k, i));
         });
}
TEST(Collectives, Broadcast) {
  expect([](Collectives& all) { return all.broadcast("g", kRange); },
         [](const Group&, std::uint32_t, std::uint32_t, std::size_t i) {
           return std::optional(Group::value(0, i));
         });
}

}  // namespace
}  // namespace yoke::testing
