// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/run/random_programs.cpp: a child runs the programs; the
// parent finds and reports the one that fails.
#include "random_programs.h"

#include <yoke/program/text.h>

#include <algorithm>
#include <sstream>

#include "../products.h"
#include "../shrink.h"
#include "batch.h"
#include "isolate.h"

namespace yoke::conformance {
namespace {

// Programs per compilation: enough for compilers that start slowly, few
// enough to find the one that fails quickly.
constexpr std::size_t kBatch = 24;
// A process that sends no message for this part of --timeout has hung.
constexpr double kSilencePart = 2.0 / 3;
constexpr double kNoLimit = 1e9;
constexpr double kShrinkSeconds = 20;
constexpr ShrinkLimits kForking{40, 2000};  // each candidate in its own process

std::string written(const Tally& tally) {
  std::ostringstream out;
  out << tally.programs << ' ' << tally.launches << ' ' << tally.elements << ' ' << tally.native << ' '
      << tally.decomposed << ' ' << tally.unsupported << ' ' << tally.left_out << '\n';
  for (const auto& [reason, count] : tally.reasons) {
    out << count << ' ' << reason << '\n';
  }
  return out.str();
}

Tally read_tally(const std::string& text) {
  Tally tally;
  std::istringstream in(text);
  in >> tally.programs >> tally.launches >> tally.elements >> tally.native >> tally.decomposed >>
      tally.unsupported >> tally.left_out;
  std::uint64_t count = 0;
  std::string reason;
  while (in >> count && in.get() != EOF && std::getline(in, reason)) {
    tally.reasons[reason] = count;
  }
  return tally;
}

// In the child: runs programs until one fails, and announces each step.
class Worker {
 public:
  Worker(const Settings& settings, const std::string& test, const Outlet& outlet)
      : kit_(settings, test, -1), outlet_(outlet) {}

  // Runs the programs with these numbers. Stops at the first failure, after shrinking it.
  void run(const std::vector<std::uint64_t>& numbers) {
    try {
      kit_.device().plugin().table<yoke_program_api>();
      batches(numbers);
      kit_.finish();
    } catch (const Unsupported& reason) {
      outlet_.send('U', reason.what());
    } catch (const std::exception& failure) {
      outlet_.send('F', failure.what());
    }
  }

  // Sends 'F' if the case fails.
  void try_case(const Case& one) {
    try {
      BatchRunner runner(kit_.device());
      Tally tally;
      const BatchRunner::Failure failure = runner.run({&one, 1}, tally);
      if (!failure.text.empty()) {
        outlet_.send('F', failure.text);
      }
    } catch (const std::exception& failure) {
      outlet_.send('F', failure.what());
    }
  }

 private:
  void batches(const std::vector<std::uint64_t>& numbers) {
    const GeneratorOptions options = generator_options(kit_.device());
    BatchRunner runner(kit_.device());
    for (std::size_t first = 0; first < numbers.size(); first += kBatch) {
      std::vector<Case> cases;
      for (std::size_t i = first; i < std::min(numbers.size(), first + kBatch); ++i) {
        cases.push_back(generate_case(kit_.settings().seed, numbers[i], options));
      }
      runner.before = [&](std::size_t from, std::size_t to) {
        outlet_.send('B', text(first + from, " ", first + to));
      };
      Tally tally;
      const BatchRunner::Failure failure = runner.run(cases, tally);
      if (!failure.text.empty()) {
        report(runner, cases[failure.number], failure.text);
        return;
      }
      outlet_.send('T', written(tally));
    }
  }

  void report(BatchRunner& runner, const Case& drawn, const std::string& what) {
    outlet_.send('W', failure_text(drawn, drawn, what));  // in case shrinking crashes or hangs
    runner.before = nullptr;
    outlet_.send('F', runner.shrunk(drawn, what, kShrinkSeconds));
  }

  Kit kit_;
  const Outlet& outlet_;
};

class Parent {
 public:
  explicit Parent(Kit& kit) : kit_(kit) {}

  void run(const std::vector<std::uint64_t>& numbers) {
    std::size_t from = 0;
    std::size_t to = numbers.size();
    std::string failure;
    std::string reason;
    std::string unshrunk;
    std::size_t done = 0;
    const Ending ending =
        isolate([&](const Outlet& outlet) { Worker(kit_.settings(), kit_.test_name(), outlet).run(numbers); },
                [&](const Message& message) {
                  switch (message.kind) {
                    case 'B':
                      std::istringstream(message.text) >> from >> to;
                      break;
                    case 'T':
                      tally_.add(read_tally(message.text));
                      done = std::min(done + kBatch, numbers.size());
                      kit_.progress(text("program ", done, " of ", numbers.size()));
                      break;
                    case 'W':
                      unshrunk = message.text;
                      break;
                    case 'U':
                      reason = message.text;
                      break;
                    default:
                      failure = message.text;
                  }
                },
                silence_s(), kNoLimit);
    if (!reason.empty()) {
      unsupported(reason);
    }
    if (!failure.empty()) {
      fail(failure);
    }
    if (!ending.well() && !unshrunk.empty()) {
      fail(unshrunk + "\n(while the program was shrunk, the plugin's process " + ending.words + ")");
    }
    if (!ending.well()) {
      died(numbers, from, to, ending);
    }
    require_some(tally_);
    kit_.note(tally_.words());
  }

 private:
  static std::string where() {
    const std::string name = function_name(current_function().load(std::memory_order_relaxed));
    return name.empty() ? "" : " in " + name;
  }

  // Halves the programs that the process was running until one is left, then shrinks it.
  void died(const std::vector<std::uint64_t>& numbers, std::size_t from, std::size_t to,
            const Ending& first) {
    const std::string words = "the plugin's process " + first.words + where();
    while (to - from > 1) {
      const std::size_t half = from + (to - from) / 2;
      const std::vector<std::uint64_t> lower(numbers.begin() + static_cast<std::ptrdiff_t>(from),
                                             numbers.begin() + static_cast<std::ptrdiff_t>(half));
      const Ending ending =
          isolate([&](const Outlet& outlet) { Worker(kit_.settings(), kit_.test_name(), outlet).run(lower); },
                  [](const Message&) {}, silence_s() / 2, kNoLimit);
      (ending.well() ? from : to) = half;
      kit_.progress(text("searching for the program that fails: ", to - from, " left"));
    }
    const Case drawn = generate_case(kit_.settings().seed, numbers[from], options());
    const auto dies = [&](const Case& one) { return !ending_of(one).well(); };
    if (!dies(drawn)) {
      fail(failure_text(drawn, drawn, words + ", but only after other programs"));
    }
    const Case small = shrink(drawn, dies, kForking);
    const Ending last = ending_of(small);
    fail(failure_text(small, drawn, last.well() ? words : "the plugin's process " + last.words + where()));
  }

  double silence_s() const { return kit_.settings().timeout_s * kSilencePart; }

  Ending ending_of(const Case& one) {
    return isolate(
        [&](const Outlet& outlet) { Worker(kit_.settings(), kit_.test_name(), outlet).try_case(one); },
        [](const Message&) {}, silence_s() / 4, silence_s());
  }

  // The generator options, queried in a child, because this process must not open the device.
  GeneratorOptions options() {
    GeneratorOptions options;
    isolate(
        [&](const Outlet& outlet) {
          Kit child(kit_.settings(), kit_.test_name(), -1);
          outlet.send('O', std::to_string(generator_options(child.device()).type_mask));
        },
        [&](const Message& message) { options.type_mask = std::stoull(message.text); }, silence_s(),
        silence_s());
    return options;
  }

  Kit& kit_;
  Tally tally_;
};

}  // namespace

GeneratorOptions generator_options(Device& device) {
  const std::uint64_t type_mask = device.info().type_mask;
  GeneratorOptions options;
  options.type_mask = type_mask & GeneratorOptions{}.type_mask;
  check(options.type_mask != 0, "type_mask of the device is ", type_mask, "; it has no known type");
  return options;
}

std::vector<Case> supported_cases(Device& device, std::size_t count) {
  const GeneratorOptions options = generator_options(device);
  BatchRunner runner(device);
  std::vector<Case> found;
  Tally tally;
  for (std::uint64_t index = 0; index < 4 * count && found.size() < count; index += 8) {
    std::vector<Case> cases;
    for (std::uint64_t i = 0; i < 8; ++i) {
      cases.push_back(generate_case(device.kit().settings().seed, index + i, options));
    }
    for (const std::size_t number : runner.supported(cases, tally)) {
      found.push_back(cases[number]);
    }
  }
  // A backend that runs few statements may run products.
  for (std::uint64_t index = 0; index < count && found.size() < count / 2; ++index) {
    const Case one =
        product_case(ProductFamily::kLayouts, device.kit().settings().seed, index, options.type_mask);
    if (!runner.supported({&one, 1}, tally).empty()) {
      found.push_back(one);
    }
  }
  if (found.empty()) {
    unsupported("every random program has an unsupported statement: " + tally.words());
  }
  found.resize(std::min(found.size(), count));
  return found;
}

bool runs_everything(Device& device) {
  constexpr std::uint64_t kPrograms = 60;
  const GeneratorOptions options = generator_options(device);
  std::vector<Case> cases;
  for (std::uint64_t index = 0; index < kPrograms; ++index) {
    cases.push_back(generate_case(1, index, options));
  }
  Tally tally;
  return BatchRunner(device).supported(cases, tally).size() == cases.size();
}

void run_random_programs(Kit& kit, std::uint64_t part, std::uint64_t parts) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = part; number < static_cast<std::uint64_t>(kit.settings().programs);
       number += parts) {
    numbers.push_back(number);
  }
  Parent(kit).run(numbers);
}

}  // namespace yoke::conformance
