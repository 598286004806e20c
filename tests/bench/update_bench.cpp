// SPDX-License-Identifier: Apache-2.0
// tests/bench/update_bench.cpp: updates of many parameters by an optimizer on cc, compared with plain threads
// that read and write the same number of bytes.
#include <yoke/program/text.h>
#include <yoke/yoke.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using yoke::Context;
using yoke::Tensor;

constexpr float kGradient = 0.25F;
constexpr float kRate = 0.125F;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Parameters of 1, states of 0, and the program that a frontend makes of an optimizer.
class YokeUpdate {
 public:
  YokeUpdate(const std::shared_ptr<yoke::Device>& device, const yoke::Optimizer& optimizer,
             std::uint64_t count)
      : context_(yoke::Stream::create(device)) {
    const Tensor parameters = yoke::placeholder("parameters", yoke::Type::kF32, {count});
    const Tensor gradient = yoke::placeholder("gradient", yoke::Type::kF32, {count});
    std::vector<Tensor> states;
    for (const std::string& name : optimizer.states()) {
      states.push_back(yoke::placeholder(name, yoke::Type::kF32, {count}));
    }
    const yoke::Lowered lowered = yoke::lower(
        "update", {}, optimizer.update(parameters, gradient, states, yoke::tensor<float>({kRate}, {})));
    yoke::allocate_missing(context_, lowered);
    yoke::all_host_to_device(context_, lowered);
    fill("parameters", count, 1);
    fill("gradient", count, kGradient);
    for (const std::string& name : optimizer.states()) {
      fill(name, count, 0);
    }
    const auto code = yoke::compile(device, yoke::program::print(lowered.program));
    routine_ = context_.link(code, "update", yoke::context_names(lowered));
  }

  void run() const {
    const std::vector<std::int64_t> step(routine_.symbols().size(), 0);
    routine_.run(step);
    context_.stream()->wait();
  }
  float parameter(std::uint64_t count) const {
    std::vector<float> values(count);
    context_.to_host("parameters", std::as_writable_bytes(std::span(values)));
    context_.stream()->wait();
    if (std::any_of(values.begin(), values.end(), [&](float value) { return value != values.front(); })) {
      throw std::runtime_error("elements that were equal differ after an update");
    }
    return values.back();
  }

 private:
  void fill(const std::string& name, std::uint64_t count, float value) const {
    const std::vector<float> values(count, value);
    context_.from_host(name, std::as_bytes(std::span(values)));
    context_.stream()->wait();
  }

  Context context_;
  yoke::LinkedRoutine routine_;
};

// Reads the gradient, and reads and writes all other arrays, by several threads.
class PlainStreams {
 public:
  PlainStreams(std::size_t written, std::uint64_t count, unsigned threads)
      : arrays_(written, std::vector<float>(count, 1)), gradient_(count, 2), threads_(threads) {}

  void run() {
    std::vector<std::thread> helpers;
    for (unsigned k = 0; k < threads_; ++k) {
      helpers.emplace_back(
          [this, k] { add(gradient_.size() * k / threads_, gradient_.size() * (k + 1) / threads_); });
    }
    for (std::thread& helper : helpers) {
      helper.join();
    }
  }

 private:
  void add(std::size_t begin, std::size_t end) {
    constexpr std::size_t kBlock = 4096;  // several arrays at once, as an update reads them
    for (; begin < end; begin += kBlock) {
      for (std::vector<float>& array : arrays_) {
        float* target = array.data();
        const float* source = gradient_.data();
        for (std::size_t i = begin; i < std::min(end, begin + kBlock); ++i) {
          target[i] += source[i];
        }
      }
    }
  }

  std::vector<std::vector<float>> arrays_;
  std::vector<float> gradient_;
  unsigned threads_;
};

struct Row {
  yoke::Optimizer optimizer;
  double expected;  // the parameter after a step
};

std::vector<Row> rows() {
  const double rate = kRate;
  return {{yoke::Sgd{}, 1 - rate * kGradient},
          {yoke::Sgd{.momentum = 0.9}, 1 - rate * kGradient},
          {yoke::AdamW{}, 1 - rate * 0.01 - rate},
          {yoke::Lion{}, 1 - rate}};
}

// Returns 1 if AdamW reaches less than `least_share` of the plain threads' bandwidth.
int run(std::uint64_t count, int rounds, unsigned threads, bool as_json, double least_share) {
  yoke::RuntimeOptions options;
  options.plugin_dirs = {YOKE_BENCH_PLUGIN_DIR};
  yoke::Runtime runtime(options);
  const auto backend = runtime.backend("cc");
  const std::vector<std::string> words = {"threads=" + std::to_string(threads)};
  const auto device = backend->open_device(0, backend->parse_options(words));
  nlohmann::json result = nlohmann::json::array();
  bool is_enough = true;
  if (!as_json) {
    std::printf("optimizer  states   update, ms   update, GB/s   plain, GB/s   share of that\n");
  }
  for (const Row& row : rows()) {
    const YokeUpdate update(device, row.optimizer, count);
    PlainStreams plain(row.optimizer.states().size() + 1, count, threads);
    update.run();
    if (const double is = update.parameter(count); std::fabs(is - row.expected) > 1e-5) {
      throw std::runtime_error(row.optimizer.name() + ": a parameter is " + std::to_string(is) +
                               " instead of " + std::to_string(row.expected));
    }
    double best = std::numeric_limits<double>::infinity();
    double best_plain = best;
    for (int i = 0; i < rounds; ++i) {
      best = std::min(best, seconds_of([&] { update.run(); }));
      best_plain = std::min(best_plain, seconds_of([&] { plain.run(); }));
    }
    is_enough = is_enough && (row.optimizer.name() != "adamw" || best_plain / best >= least_share);
    const double bytes =
        4.0 * static_cast<double>(count) * static_cast<double>(1 + 2 * (row.optimizer.states().size() + 1));
    result.push_back({{"optimizer", row.optimizer.name()},
                      {"states", row.optimizer.states().size()},
                      {"elements", count},
                      {"update_ms", best * 1e3},
                      {"update_gb_per_second", bytes / best / 1e9},
                      {"plain_gb_per_second", bytes / best_plain / 1e9},
                      {"share_of_bandwidth", best_plain / best}});
    if (!as_json) {
      std::printf("%-9s %7zu %12.2f %14.1f %13.1f %15.2f\n", row.optimizer.name().c_str(),
                  row.optimizer.states().size(), best * 1e3, bytes / best / 1e9, bytes / best_plain / 1e9,
                  best_plain / best);
    }
  }
  if (as_json) {
    std::cout << result << '\n';
  }
  return is_enough ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  std::uint64_t count = 25'000'000;
  int rounds = 20;
  double least_share = 0;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  po::options_description options(
      "usage: update_bench [OPTION...]\n"
      "Times updates of f32 parameters by optimizers on cc, and plain threads that read and write the same "
      "number of\n"
      "bytes. Times are the best of all rounds");
  options.add_options()("help", "show this text")("json", "print one JSON array")(
      "elements", po::value(&count), "number of parameters, default 25,000,000")(
      "rounds", po::value(&rounds), "repetitions of each, default 20")(
      "threads", po::value(&threads), "threads of each, default one for each core")(
      "least-share", po::value(&least_share),
      "exit with 1 if AdamW reaches less than this share of the plain threads' bandwidth; the goal is 0.85");
  try {
    po::variables_map given;
    po::store(po::parse_command_line(argc, argv, options), given);
    if (given.contains("help")) {
      std::cout << options;
      return 0;
    }
    po::notify(given);
    if (count == 0 || rounds < 1 || threads == 0) {
      throw po::error("--elements, --rounds and --threads must be at least 1");
    }
    return run(count, rounds, threads, given.contains("json"), least_share);
  } catch (const po::error& error) {
    std::cerr << "update_bench: " << error.what() << "; --help lists the options\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "update_bench: " << error.what() << '\n';
    return 1;
  }
}
