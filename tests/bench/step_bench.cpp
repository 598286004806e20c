// SPDX-License-Identifier: Apache-2.0
// tests/bench/step_bench.cpp: the host's cost of hand-written training steps on null: setting them up, queuing them.
#include <yoke/runtime/parallel.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace yoke {
namespace {

using Clock = std::chrono::steady_clock;

// Of all threads of this process: it hardly depends on what else the machine does.
double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Settings {
  std::uint32_t shards = 2;
  int launches = 20;   // of each shard in a step
  int parameters = 1;  // together of `elements` elements
  int elements = 32000;
  std::string merge = "direct";
  int rounds = 50;
};

constexpr int kStepsPerRound = 8;  // so that the queues of the streams are not full

// Reads all parameters and writes all gradients.
std::string gradient_text(int parameters, int elements) {
  const std::string type = "f32[" + std::to_string(elements) + "]";
  std::string arguments;
  std::string statements;
  for (int i = 0; i < parameters; ++i) {
    const std::string number = std::to_string(i);
    arguments += "  arg w" + number + " : " + type + " in\n  arg g" + number + " : " + type + " out\n";
    statements += "  g" + number + "[i] = w" + number + "[i] * 2.0\n";
  }
  return "yoke.program 1\nprogram gradient() {\n" + arguments + statements + "}\n";
}

StepProgram sgd(const UpdateShape& shape) {
  const std::string type = "f32[" + std::to_string(shape.count) + "]";
  std::string arguments = "  arg value : " + type + " inout\n";
  std::string sum;
  for (std::uint32_t k = 0; k < shape.terms; ++k) {
    const std::string gradient = "gradient_" + std::to_string(k);
    arguments += "  arg " + gradient + " : " + type + " in\n";
    sum += (k == 0 ? "" : " + ") + gradient + "[i]";
  }
  return {
      "yoke.program 1\nprogram sgd() {\n" + arguments + "  value[i] = value[i] - 0.1 * (" + sum + ")\n}\n",
      "sgd"};
}

// A training run of a user who writes programs, set up once.
class Run {
 public:
  Run(const std::shared_ptr<Device>& device, const Settings& settings)
      : launches_(settings.launches), symbols_(settings.shards) {
    const Clock::time_point start = Clock::now();
    const auto elements = static_cast<std::uint64_t>(settings.elements / settings.parameters);
    std::vector<StepParameter> parameters;
    std::map<std::string, std::string> names;
    for (int i = 0; i < settings.parameters; ++i) {
      const std::string number = std::to_string(i);
      parameters.push_back({"w" + number, {YOKE_TYPE_F32, {elements}}});
      names["g" + number] = "gradient/w" + number;
    }
    for (std::uint32_t k = 0; k < settings.shards; ++k) {
      shards_.emplace_back(Stream::create(device));
    }
    StepOptions options;
    options.merge = merge_strategy_by_name(settings.merge);
    plan_ = StepPlan(shards_, settings.shards, std::move(parameters), {}, options, nullptr);
    plan_.allocate();
    plan_.allocate_gradients();
    plan_.link(sgd, symbols_);
    const auto code = compile(device, gradient_text(settings.parameters, static_cast<int>(elements)));
    for (Context& shard : shards_) {
      gradients_.push_back(shard.link(code, "gradient", names));
    }
    wait();
    setup_seconds_ = seconds_since(start);
  }

  double setup_seconds() const { return setup_seconds_; }
  void step() {
    for (const LinkedRoutine& gradient : gradients_) {
      for (int i = 0; i < launches_; ++i) {
        gradient.run();
      }
    }
    plan_.step(symbols_);
  }
  void wait() const {
    for (const Context& shard : shards_) {
      shard.stream()->wait();
    }
  }

 private:
  int launches_;
  std::vector<SymbolTable> symbols_;  // the programs have none
  std::vector<Context> shards_;
  StepPlan plan_;
  std::vector<LinkedRoutine> gradients_;
  double setup_seconds_ = 0;
};

int measure(const Settings& settings, bool as_json) {
  RuntimeOptions options;
  options.plugin_dirs = {YOKE_BENCH_PLUGIN_DIR};
  Runtime runtime(std::move(options));
  const auto device = runtime.backend("null")->open_device(0);
  Run run(device, settings);
  run.step();
  run.wait();
  double queued = std::numeric_limits<double>::infinity();
  double done = queued;
  double cpu = queued;
  for (int round = 0; round < settings.rounds; ++round) {
    const Clock::time_point start = Clock::now();
    const double cpu_start = cpu_seconds();
    for (int i = 0; i < kStepsPerRound; ++i) {
      run.step();
    }
    queued = std::min(queued, seconds_since(start));
    run.wait();
    done = std::min(done, seconds_since(start));
    cpu = std::min(cpu, cpu_seconds() - cpu_start);
  }
  const auto in_us = [](double seconds) { return seconds * 1e6 / kStepsPerRound; };
  if (as_json) {
    std::cout << nlohmann::json{{"queued_us", in_us(queued)},
                                {"done_us", in_us(done)},
                                {"cpu_us", in_us(cpu)},
                                {"setup_seconds", run.setup_seconds()}}
              << '\n';
  } else {
    std::printf("set-up %.3f s; a step: queued in %.1f us, done in %.1f us, %.1f us of CPU time\n",
                run.setup_seconds(), in_us(queued), in_us(done), in_us(cpu));
  }
  return 0;
}

}  // namespace
}  // namespace yoke

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  yoke::Settings settings;
  po::options_description options(
      "usage: step_bench [OPTION...]\n"
      "The host's cost of a training step on null, which computes nothing: launches of gradients, a merge, "
      "and an\n"
      "update. Times are the best of all rounds, for a step: until the calling thread has queued it, and "
      "until the\n"
      "workers have finished it");
  options.add_options()("help", "show this text")("json", "print one JSON object")(
      "shards", po::value(&settings.shards), "default 2")(
      "launches", po::value(&settings.launches),
      "of the gradient program, by each shard in each step; default 20")(
      "parameters", po::value(&settings.parameters), "default 1")(
      "elements", po::value(&settings.elements), "f32, of all parameters together; default 32000")(
      "merge", po::value(&settings.merge), "direct (default), owner, tree or ring")(
      "rounds", po::value(&settings.rounds), "of 8 steps; default 50");
  try {
    po::variables_map given;
    po::store(po::parse_command_line(argc, argv, options), given);
    if (given.contains("help")) {
      std::cout << options;
      return 0;
    }
    po::notify(given);
    if (settings.shards < 1 || settings.launches < 1 || settings.rounds < 1 || settings.parameters < 1 ||
        settings.parameters > settings.elements) {
      std::cerr << "step_bench: use numbers of at least 1, and at most as many parameters as elements\n";
      return 2;
    }
    return yoke::measure(settings, given.contains("json"));
  } catch (const po::error& error) {
    std::cerr << "step_bench: " << error.what() << "; --help lists the options\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "step_bench: " << error.what() << '\n';
    return 1;
  }
}
