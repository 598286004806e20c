// SPDX-License-Identifier: Apache-2.0
// tests/bench/merge_bench.cpp: sums of two shards' tensors on cc, beside the same sum by two plain threads.
#include <yoke/runtime/collective.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace yoke {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Adds up two arrays with the calling thread and another one, which spins for work, so it starts at once.
class PlainSum {
 public:
  explicit PlainSum(std::size_t count) : target_(count, 1), source_(count, 2), helper_([this] { help(); }) {}
  ~PlainSum() {
    round_ = -1;
    helper_.join();
  }
  PlainSum(const PlainSum&) = delete;
  PlainSum& operator=(const PlainSum&) = delete;

  void run() {
    const int next = round_.load() + 1;
    round_ = next;
    add(0, target_.size() / 2);
    while (done_.load() != next) {
      std::this_thread::yield();
    }
  }
  float value() const { return target_.back(); }

 private:
  void add(std::size_t begin, std::size_t end) {
    float* target = target_.data();
    const float* source = source_.data();
    for (std::size_t i = begin; i < end; ++i) {
      target[i] += source[i];
    }
  }
  void help() {
    for (int round = 0; round >= 0;) {
      const int now = round_.load();
      if (now > round) {
        add(target_.size() / 2, target_.size());
        done_ = now;
      }
      round = now;
    }
  }

  std::vector<float> target_;
  std::vector<float> source_;
  std::atomic<int> round_{0};
  std::atomic<int> done_{0};
  std::thread helper_;
};

// The sum on shard 0, by the strategy that the trainer uses on CPUs: each shard computes one half.
class ShardSum {
 public:
  ShardSum(const std::shared_ptr<Backend>& backend, std::size_t count) {
    const std::uint32_t device_count = backend->device_count();
    for (std::uint32_t k = 0; k < 2; ++k) {
      contexts_.emplace_back(Stream::create(backend->open_device(k % device_count)));
      const std::vector<float> values(count, static_cast<float>(k + 1));
      contexts_.back().init_from_host("g", {YOKE_TYPE_F32, {count}}, std::as_bytes(std::span(values)));
      contexts_.back().stream()->wait();
    }
    group_ = Collectives::create(MergeStrategy::kDirect, contexts_);
    sum_ = group_->reduce("g");
  }

  void run() const {
    sum_.run();
    for (const Context& context : contexts_) {
      context.stream()->wait();
    }
  }
  float value() const {
    const ContextTensor& tensor = contexts_[0].tensor("g");
    std::vector<float> values(tensor.view.byte_count / sizeof(float));
    contexts_[0].stream()->to_host(values.data(), tensor.view);
    contexts_[0].stream()->wait();
    return values.back();
  }

 private:
  std::vector<Context> contexts_;
  std::unique_ptr<Collectives> group_;
  LinkedCollective sum_;
};

// Alternates both, so that other load on the machine slows both down. Prints the best times.
void compare(const std::shared_ptr<Backend>& backend, std::size_t byte_count, int rounds) {
  const std::size_t count = byte_count / sizeof(float);
  const ShardSum shards(backend, count);
  PlainSum plain(count);
  shards.run();
  plain.run();
  if (shards.value() != 3 || plain.value() != 3) {
    throw std::runtime_error("wrong sum: " + std::to_string(shards.value()));
  }
  double best_shards = std::numeric_limits<double>::infinity();
  double best_plain = best_shards;
  for (int round = 0; round < rounds; ++round) {
    best_shards = std::min(best_shards, seconds_of([&] { shards.run(); }));
    best_plain = std::min(best_plain, seconds_of([&] { plain.run(); }));
  }
  const double moved = 3 * static_cast<double>(byte_count);  // two reads and a write
  std::printf("%9zu bytes  %9.1f us %6.1f GB/s   plain %9.1f us %6.1f GB/s   %5.2f of the bandwidth\n",
              byte_count, best_shards * 1e6, moved / best_shards / 1e9, best_plain * 1e6,
              moved / best_plain / 1e9, best_plain / best_shards);
}

void run(int rounds) {
  RuntimeOptions options;
  options.plugin_dirs = {YOKE_BENCH_PLUGIN_DIR};
  Runtime runtime(options);
  const std::shared_ptr<Backend> backend = runtime.backend("cc");
  for (std::size_t bytes = 1024; bytes <= std::size_t{64} << 20U; bytes *= 4) {
    compare(backend, bytes, rounds);
  }
}

}  // namespace
}  // namespace yoke

int main(int argc, char** argv) {
  try {
    yoke::run(argc > 1 ? std::stoi(argv[1]) : 200);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "merge_bench: %s\n", error.what());
    return 1;
  }
}
