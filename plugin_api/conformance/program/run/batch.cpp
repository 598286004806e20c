// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/run/batch.cpp: verdicts, one compilation, many launches.
#include "batch.h"

#include <sys/resource.h>
#include <yoke/program/text.h>

#include <algorithm>

#include "../shrink.h"
#include "random_programs.h"

namespace yoke::conformance {

std::string text_of(std::span<const Case> cases) {
  program::Module module;
  for (const Case& one : cases) {
    module.programs.push_back(one.program);
  }
  return program::print(module);
}

std::string failure_text(const Case& small, const Case& drawn, const std::string& what) {
  return text("program ", drawn.index, " of seed ", drawn.seed, ": ", what, "\n",
              program::print(small.program), "(", small.program.statements.size(), " of the ",
              drawn.program.statements.size(),
              " statements of the drawn program; the initial values of the arguments depend on the seed and "
              "their names)");
}

namespace {

bool has(std::uint64_t type_mask, program::Type type) {
  return (type_mask >> static_cast<unsigned>(type) & 1U) != 0;
}

bool uses_only(const program::Expr& expr, std::uint64_t type_mask) {
  return has(type_mask, expr.type) &&
         std::all_of(expr.args.begin(), expr.args.end(),
                     [&](const program::Expr& arg) { return uses_only(arg, type_mask); });
}

}  // namespace

bool uses_only(const Case& one, std::uint64_t type_mask) {
  const auto& statements = one.program.statements;
  const auto& tensors = one.program.tensors;
  return std::all_of(statements.begin(), statements.end(),
                     [&](const program::Statement& statement) {
                       return (!statement.accumulator || has(type_mask, *statement.accumulator)) &&
                              uses_only(statement.value, type_mask);
                     }) &&
         std::all_of(tensors.begin(), tensors.end(),
                     [&](const program::Tensor& tensor) { return has(type_mask, tensor.type); });
}

void require_some(const Tally& tally) {
  if (tally.programs == 0) {
    unsupported("no program of this test ran: " + tally.words());
  }
}

std::uint64_t share_of_programs(const Kit& kit, std::uint64_t one_in, std::uint64_t least) {
  return std::max(least, static_cast<std::uint64_t>(kit.settings().programs) / one_in);
}

double TimeLimit::used_seconds() {
  double seconds = 0;
  for (const int whose : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    ::getrusage(whose, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    }
  }
  return seconds;
}

bool TimeLimit::is_over(double part) const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
  return used_seconds() - used_ > part * seconds_ || passed.count() > 4 * part * seconds_;
}

void run_cases(Kit& kit, std::uint64_t count, const std::function<Case(std::uint64_t)>& make,
               std::uint64_t least) {
  constexpr std::uint64_t kBatch = 16;
  constexpr double kShrinkSeconds = 15;
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const std::uint64_t type_mask = generator_options(device).type_mask;
  BatchRunner runner(device);
  Tally tally;
  const TimeLimit limit(kit);
  for (std::uint64_t first = 0; first < count && (first < least || !limit.is_over()); first += kBatch) {
    kit.progress(text("program ", first, " of ", count));
    std::vector<Case> cases;
    for (std::uint64_t index = first; index < std::min(count, first + kBatch); ++index) {
      Case one = make(index);
      if (uses_only(one, type_mask)) {
        cases.push_back(std::move(one));
      }
    }
    const BatchRunner::Failure failure = runner.run(cases, tally);
    if (!failure.text.empty()) {
      fail(runner.shrunk(cases[failure.number], failure.text, kShrinkSeconds));
    }
  }
  require_some(tally);
  kit.note(tally.words());
}

void Tally::add(const Tally& other) {
  programs += other.programs;
  launches += other.launches;
  elements += other.elements;
  native += other.native;
  decomposed += other.decomposed;
  unsupported += other.unsupported;
  left_out += other.left_out;
  for (const auto& [reason, count] : other.reasons) {
    reasons[reason] += count;
  }
}

std::string Tally::words() const {
  std::string words =
      text(programs, " programs, ", launches, " launches, ", elements,
           " elements compared; statements: ", native, " native, ", decomposed, " decomposed");
  if (left_out != 0) {
    words += text(", ", unsupported, " unsupported (", left_out, " programs left out)");
  }
  for (const auto& [reason, count] : reasons) {
    words += text("; ", count, " x ", reason);
  }
  return words;
}

BatchRunner::BatchRunner(Device& device) : device_(device), stream_(stream_if_any(device)) {}

std::vector<std::size_t> BatchRunner::supported(std::span<const Case> cases, Tally& tally) {
  return supported(cases, text_of(cases), tally);
}

std::vector<std::size_t> BatchRunner::supported(std::span<const Case> cases, const std::string& bytes,
                                                Tally& tally) {
  std::size_t total = 0;
  for (const Case& one : cases) {
    total += one.program.statements.size();
  }
  std::vector<yoke_verdict> verdicts(total);
  std::uint32_t count = 0;
  expect_ok(device_.plugin().can_compile(device_.get(), program_text(bytes), verdicts, &count),
            "can_compile with a valid text");
  check_equal(count, total, "the number of verdicts of can_compile");
  Tally mine;
  std::vector<std::size_t> good;
  std::size_t next = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    bool runs = true;
    for (std::size_t statement = 0; statement < cases[i].program.statements.size(); ++statement) {
      const yoke_verdict& verdict = verdicts[next++];
      check(verdict.program == i && verdict.statement == statement, "the verdict at the place of program ", i,
            ", statement ", statement, " is for program ", verdict.program, ", statement ",
            verdict.statement);
      mine.native += verdict.verdict == YOKE_VERDICT_NATIVE ? 1U : 0U;
      mine.decomposed += verdict.verdict == YOKE_VERDICT_DECOMPOSED ? 1U : 0U;
      if (verdict.verdict == YOKE_VERDICT_UNSUPPORTED) {
        const std::string reason(verdict.reason, ::strnlen(verdict.reason, sizeof verdict.reason));
        check(!reason.empty(), "can_compile gave no reason for the unsupported statement ",
              program::print(cases[i].program, cases[i].program.statements[statement]));
        ++mine.unsupported;
        ++mine.reasons[reason];
        runs = false;
      } else {
        check(verdict.verdict == YOKE_VERDICT_NATIVE || verdict.verdict == YOKE_VERDICT_DECOMPOSED,
              "can_compile returned the unknown verdict ", verdict.verdict);
      }
    }
    mine.left_out += runs ? 0U : 1U;
    if (runs) {
      good.push_back(i);
    }
  }
  tally.add(mine);
  return good;
}

void BatchRunner::run_case(const Case& one, const Code& code, std::uint32_t entry, Tally& tally) {
  const yoke_entry_info info = describe_entry(device_.plugin(), code, entry);
  check_description(device_, code, entry, one);
  Arena arena(device_, pool_, one, code, entry, info.workspace_byte_count, 0);
  const Routine routine = link(device_.plugin(), code, entry, arena);
  bool on_stream = one.index % 2 == 1;
  // Each launch has other inputs; a program without symbols is launched twice.
  const std::uint64_t rounds = std::max<std::uint64_t>(one.launches.size(), 2);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::vector<std::int64_t>& symbols = one.launches[round % one.launches.size()];
    const Contents start = initial_arguments(one, round);
    arena.upload(start);
    launch(device_.plugin(), routine, symbols, on_stream && stream_ ? &*stream_ : nullptr);
    const std::string wrong = compare_results(one, symbols, arena.download(), round, start);
    if (!wrong.empty()) {
      std::string values = round == 0 ? "" : text(" in launch ", round + 1, ", whose inputs differ");
      for (std::size_t i = 0; i < symbols.size(); ++i) {
        values += text(i == 0 ? " with " : ", ", one.program.symbols[i].name, " = ", symbols[i]);
      }
      fail(wrong + values);
    }
    ++tally.launches;
    on_stream = !on_stream;
  }
  ++tally.programs;
  for (const program::Tensor& tensor : one.program.tensors) {
    if (tensor.role == program::Role::kOut || tensor.role == program::Role::kInOut) {
      tally.elements += tensor.element_count() * rounds;
    }
  }
}

std::string BatchRunner::shrunk(const Case& drawn, const std::string& failure, double seconds) {
  const auto failure_of = [&](const Case& one) {
    Tally tally;
    return run({&one, 1}, tally).text;
  };
  const Quiet quiet;
  if (failure_of(drawn).empty()) {
    return failure_text(drawn, drawn, "it fails after the programs before it, but not alone: " + failure);
  }
  const Case small =
      shrink(drawn, [&](const Case& one) { return !failure_of(one).empty(); }, {seconds, 20000});
  const std::string last = failure_of(small);
  return failure_text(small, drawn, last.empty() ? failure : last);
}

BatchRunner::Failure BatchRunner::run(std::span<const Case> cases, Tally& tally) {
  if (cases.empty()) {
    return {};
  }
  return run_halves(cases, 0, tally);
}

BatchRunner::Failure BatchRunner::run_halves(std::span<const Case> cases, std::size_t first, Tally& tally) {
  const auto announce = [&](std::size_t from, std::size_t to) {
    if (before) {
      before(from, to);
    }
  };
  Code code;
  std::vector<Case> some;
  std::span<const Case> chosen = cases;
  std::vector<std::size_t> good;
  try {
    announce(first, first + cases.size());
    Tally found;
    std::string bytes = text_of(cases);
    good = supported(cases, bytes, found);
    if (good.empty()) {
      tally.add(found);
      return {};
    }
    if (good.size() != cases.size()) {
      for (const std::size_t number : good) {
        some.push_back(cases[number]);
      }
      chosen = some;
      bytes = text_of(chosen);
    }
    code = compile(device_, bytes);
    std::uint32_t count = 0;
    expect_ok(device_.plugin().call<&yoke_program_api::code_entry_count>(code.get(), &count),
              "counting the entries");
    check_equal(count, chosen.size(), "the number of entries of a text with that many programs");
    tally.add(found);
  } catch (const Failed& failed) {
    if (cases.size() == 1) {
      return {first, failed.what()};
    }
    const std::size_t half = cases.size() / 2;
    Failure failure = run_halves(cases.subspan(0, half), first, tally);
    if (failure.text.empty()) {
      failure = run_halves(cases.subspan(half), first + half, tally);
    }
    // Neither half fails alone, so report the whole text.
    return failure.text.empty()
               ? Failure{first, text("only together with the programs after it: ", failed.what())}
               : failure;
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::size_t number = first + good[i];
    try {
      announce(number, number + 1);
      run_case(chosen[i], code, static_cast<std::uint32_t>(i), tally);
    } catch (const Failed& failed) {
      return {number, failed.what()};
    }
  }
  return {};
}

}  // namespace yoke::conformance
