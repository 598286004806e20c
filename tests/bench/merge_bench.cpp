// SPDX-License-Identifier: Apache-2.0
// tests/bench/merge_bench.cpp: sums and all-reduces of two shards' tensors on cc, compared with the same sum
// by two plain threads.
#include <yoke/runtime/collective.h>

#include <algorithm>
#include <atomic>
#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace yoke {
namespace {

// The best time of `rounds` calls, in seconds.
template <class Work>
double best_seconds(int rounds, const Work& work) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    const auto start = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

// Adds up two arrays with the calling thread and another one, which spins for work, so it starts at once. Only for
// the time of its own measurement, because it occupies a core.
class PlainSum {
 public:
  explicit PlainSum(std::size_t count) : target_(count, 1), source_(count, 2), helper_([this] { help(); }) {
    run();
  }
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

// Two shards' tensors, merged by the strategy that the trainer uses on CPUs: each shard computes one half. On a host
// that waits until both shards have finished.
class Shards {
 public:
  Shards(const std::shared_ptr<Backend>& backend, std::size_t count) {
    const std::uint32_t device_count = backend->device_count();
    for (std::uint32_t k = 0; k < 2; ++k) {
      contexts_.emplace_back(Stream::create(backend->open_device(k % device_count)));
      const std::vector<float> values(count, static_cast<float>(k + 1));
      contexts_.back().init_from_host("g", {YOKE_TYPE_F32, {count}}, std::as_bytes(std::span(values)));
      contexts_.back().stream()->wait();
    }
    group_ = Collectives::create(MergeStrategy::kDirect, contexts_);
    reduce_ = group_->reduce("g");
    all_reduce_ = group_->all_reduce("g");
  }

  void reduce() const {
    reduce_.run();
    wait();
  }
  void all_reduce() const {
    all_reduce_.run();
    wait();
  }
  float value(std::size_t shard) const {
    const ContextTensor& tensor = contexts_[shard].tensor("g");
    std::vector<float> values(tensor.view.byte_count / sizeof(float));
    contexts_[shard].stream()->to_host(values.data(), tensor.view);
    contexts_[shard].stream()->wait();
    return values.back();
  }

 private:
  void wait() const {
    for (const Context& context : contexts_) {
      context.stream()->wait();
    }
  }

  std::vector<Context> contexts_;
  std::unique_ptr<Collectives> group_;
  LinkedCollective reduce_;
  LinkedCollective all_reduce_;
};

void check(float value, float expected) {
  if (value != expected) {
    throw std::runtime_error("the sum is " + std::to_string(value) + " instead of " +
                             std::to_string(expected));
  }
}

// Alternates in blocks, so that other load on the machine slows all of them down. Reports the best times.
nlohmann::json compare(const std::shared_ptr<Backend>& backend, std::size_t byte_count, int rounds) {
  const std::size_t count = byte_count / sizeof(float);
  constexpr int kBlocks = 4;
  const int block = std::max(1, rounds / kBlocks);
  double reduce = std::numeric_limits<double>::infinity();
  double all_reduce = reduce;
  double plain = reduce;
  for (int i = 0; i < kBlocks; ++i) {
    const Shards shards(backend, count);
    shards.all_reduce();
    check(shards.value(0), 3);
    check(shards.value(1), 3);
    shards.reduce();
    check(shards.value(0), 6);
    reduce = std::min(reduce, best_seconds(block, [&] { shards.reduce(); }));
    all_reduce = std::min(all_reduce, best_seconds(block, [&] { shards.all_reduce(); }));
    PlainSum sum(count);
    check(sum.value(), 3);
    plain = std::min(plain, best_seconds(block, [&] { sum.run(); }));
  }
  return {{"bytes", byte_count},
          {"reduce_us", reduce * 1e6},
          {"all_reduce_us", all_reduce * 1e6},
          {"plain_sum_us", plain * 1e6},
          {"share_of_bandwidth", plain / reduce}};
}

int run(int rounds, bool as_json) {
  RuntimeOptions options;
  options.plugin_dirs = {YOKE_BENCH_PLUGIN_DIR};
  Runtime runtime(options);
  const std::shared_ptr<Backend> backend = runtime.backend("cc");
  nlohmann::json rows = nlohmann::json::array();
  if (!as_json) {
    std::printf("    bytes   sum, us  all-reduce, us  plain sum, us  plain sum, GB/s  sum: share of that\n");
  }
  for (std::size_t bytes = 1024; bytes <= std::size_t{64} << 20U; bytes *= 4) {
    const nlohmann::json row = rows.emplace_back(compare(backend, bytes, rounds));
    if (!as_json) {
      const double plain = row["plain_sum_us"].get<double>();
      const double moved = 3 * static_cast<double>(bytes);  // two reads and a write
      std::printf("%9zu %9.1f %15.1f %14.1f %16.1f %19.2f\n", bytes, row["reduce_us"].get<double>(),
                  row["all_reduce_us"].get<double>(), plain, moved / plain / 1e3,
                  row["share_of_bandwidth"].get<double>());
    }
  }
  if (as_json) {
    std::cout << rows << '\n';
  }
  return 0;
}

}  // namespace
}  // namespace yoke

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  int rounds = 200;
  po::options_description options(
      "usage: merge_bench [OPTION...]\n"
      "Sums and all-reduces of two shards' f32 tensors on cc, from 1 KiB to 64 MiB, beside the same sum by "
      "two\n"
      "threads without yoke. Times are the best of all rounds");
  options.add_options()("help", "show this text")("json", "print one JSON array")(
      "rounds", po::value(&rounds), "repetitions of each, default 200");
  try {
    po::variables_map given;
    po::store(po::parse_command_line(argc, argv, options), given);
    if (given.contains("help")) {
      std::cout << options;
      return 0;
    }
    po::notify(given);
    return yoke::run(rounds, given.contains("json"));
  } catch (const po::error& error) {
    std::cerr << "merge_bench: " << error.what() << "; --help lists the options\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "merge_bench: " << error.what() << '\n';
    return 1;
  }
}
