// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/run/random_programs.cpp: who runs where, and what is said about a failure.
#include "random_programs.h"

#include <yoke/program/text.h>

#include <algorithm>
#include <sstream>

#include "../shrink.h"
#include "batch.h"
#include "isolate.h"

namespace yoke::conformance {
namespace {

// One compile each: backends whose compiler is slow to start survive, and a failure is halved quickly.
constexpr std::size_t kBatch = 24;
constexpr double kSilencePart = 2.0 / 3;  // of --timeout without a word from a process: it hangs
constexpr double kNoLimit = 1e9;
constexpr ShrinkLimits kHere{20, 20000};    // in the process that found the failure
constexpr ShrinkLimits kForking{40, 2000};  // each candidate in a process of its own

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

std::string failure_text(const Case& small, const Case& drawn, const std::string& what) {
  return text("program ", drawn.index, " of seed ", drawn.seed, ": ", what, "\n",
              program::print(small.program), "(", small.program.statements.size(), " of the ",
              drawn.program.statements.size(),
              " statements that were drawn; arguments begin with the values of that seed and their names)");
}

// In the child: runs cases until one fails; tells of each step.
class Worker {
 public:
  Worker(const Settings& settings, const std::string& test, const Outlet& outlet)
      : kit_(settings, test, -1), outlet_(outlet) {}

  // `numbers`: of the programs. Ends early at a failure, after shrinking it.
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

  // Tells 'F' where the case fails.
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
        tell(runner, cases[failure.number], failure.text);
        return;
      }
      outlet_.send('T', written(tally));
    }
  }

  void tell(BatchRunner& runner, const Case& drawn, std::string what) {
    outlet_.send('W', failure_text(drawn, drawn, what));  // in case shrinking does not come back
    runner.before = nullptr;
    const auto last_words = [&](const Case& one) {
      Tally tally;
      return runner.run({&one, 1}, tally).text;
    };
    const std::string alone = last_words(drawn);
    if (alone.empty()) {
      outlet_.send(
          'F', failure_text(drawn, drawn, "it fails behind the programs before it, but not alone: " + what));
      return;
    }
    const Case small = shrink(
        drawn, [&](const Case& one) { return !last_words(one).empty(); }, kHere);
    const std::string said = last_words(small);
    outlet_.send('F', failure_text(small, drawn, said.empty() ? what : said));
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
      fail(unshrunk + "\n(while it was made smaller, the plugin " + ending.words + ")");
    }
    if (!ending.well()) {
      died(numbers, from, to, ending);
    }
    kit_.note(tally_.words());
  }

 private:
  static std::string where() {
    const std::string name = function_name(current_function().load(std::memory_order_relaxed));
    return name.empty() ? "" : " in " + name;
  }

  // Halves the programs that the dead process was about, then shrinks the one.
  void died(const std::vector<std::uint64_t>& numbers, std::size_t from, std::size_t to,
            const Ending& first) {
    const std::string words = "the plugin " + first.words + where();
    while (to - from > 1) {
      const std::size_t half = from + (to - from) / 2;
      const std::vector<std::uint64_t> lower(numbers.begin() + static_cast<std::ptrdiff_t>(from),
                                             numbers.begin() + static_cast<std::ptrdiff_t>(half));
      const Ending ending =
          isolate([&](const Outlet& outlet) { Worker(kit_.settings(), kit_.test_name(), outlet).run(lower); },
                  [](const Message&) {}, silence_s() / 2, kNoLimit);
      (ending.well() ? from : to) = half;
      kit_.progress(text("looking for the program: ", to - from, " left"));
    }
    const Case drawn = generate_case(kit_.settings().seed, numbers[from], options());
    const auto dies = [&](const Case& one) { return !ending_of(one).well(); };
    if (!dies(drawn)) {
      fail(failure_text(drawn, drawn, words + "; it does so behind other programs, but not alone"));
    }
    const Case small = shrink(drawn, dies, kForking);
    const Ending last = ending_of(small);
    fail(failure_text(small, drawn, last.well() ? words : "the plugin " + last.words + where()));
  }

  double silence_s() const { return kit_.settings().timeout_s * kSilencePart; }

  Ending ending_of(const Case& one) {
    return isolate(
        [&](const Outlet& outlet) { Worker(kit_.settings(), kit_.test_name(), outlet).try_case(one); },
        [](const Message&) {}, silence_s() / 4, silence_s());
  }

  // As the child's; asked in a child, because this process must not open the device.
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
  yoke_device_info info = sized<yoke_device_info>();
  expect_ok(device.plugin().call<&yoke_backend_api::device_describe>(device.plugin().get(),
                                                                     device.kit().settings().device, &info),
            "describing the device");
  GeneratorOptions options;
  options.type_mask = info.type_mask & GeneratorOptions{}.type_mask;
  check(options.type_mask != 0, "the device computes with no type: type_mask is ", info.type_mask);
  return options;
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
