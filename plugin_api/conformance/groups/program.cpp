// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/program.cpp: random programs and the corpus, compared with the reference executor.
// The rest of the group is in program_text.cpp.
#include <algorithm>

#include "groups.h"
#include "program/corpus.h"
#include "program/large_forms.h"
#include "program/products.h"
#include "program/run/at_once.h"
#include "program/run/batch.h"
#include "program/run/random_programs.h"

namespace yoke::conformance {
namespace {

constexpr std::uint64_t kParts = 8;

template <std::uint64_t part>
void random_part(Kit& kit) {
  run_random_programs(kit, part, kParts);
}

void corpus_programs(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  BatchRunner runner(device);
  Tally tally;
  for (const CorpusText& one : corpus()) {
    kit.progress(text("program ", one.name));
    const Case drawn = corpus_case(one.text, kit.settings().seed);
    const BatchRunner::Failure failure = runner.run({&drawn, 1}, tally);
    check(failure.text.empty(), one.name, ".yoke of the corpus: ", failure.text);
  }
  require_some(tally);
  kit.note(tally.words());
}

void large(Kit& kit) {
  const std::uint64_t seed = kit.settings().seed;
  run_cases(kit, share_of_programs(kit, 60, 6), [&](std::uint64_t index) {
    // 7 has no factor in common with the number of forms, so few programs already differ in form.
    return large_form(
        seed, index / large_form_count() * large_form_count() + (index * 7 + seed) % large_form_count());
  });
}

void vast(Kit& kit) {
  GeneratorOptions options = generator_options(kit.device());
  options.vast = true;
  const std::uint64_t seed = kit.settings().seed;
  // Odd numbers are about a form of statement, even ones about an operation. Each seed has other operations.
  const std::uint64_t first = seed % 100'000 * 2;
  run_cases(kit, share_of_programs(kit, 50, 4), [&](std::uint64_t index) {
    return generate_case(seed, first + 2 * index + (index % 5 == 4 ? 0 : 1), options);
  });
}

// The most programs of one text for launches at the same time: each has four sets of buffers.
constexpr std::uint64_t kTogether = 25;

// Random programs, products and large forms.
std::vector<Case> real_programs(Kit& kit, std::uint64_t first, std::uint64_t count) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const std::uint64_t seed = kit.settings().seed;
  const GeneratorOptions options = generator_options(device);
  std::vector<Case> cases;
  for (std::uint64_t i = first; i < first + count; ++i) {
    cases.push_back(i % 3 == 0   ? generate_case(seed, i, options)
                    : i % 3 == 1 ? product_case(ProductFamily::kLayouts, seed, i, options.type_mask)
                                 : large_form(seed, i * 5));
  }
  return cases;
}

void at_once(Kit& kit) {
  const std::uint64_t count = share_of_programs(kit, 80, 9);
  for (std::uint64_t first = 0; first < count; first += kTogether) {
    run_at_once(kit, real_programs(kit, first, std::min(kTogether, count - first)), 3);
  }
}

void queued(Kit& kit) {
  const std::uint64_t count = share_of_programs(kit, 80, 9);
  for (std::uint64_t first = 0; first < count; first += kTogether) {
    run_queued(kit, real_programs(kit, first, std::min(kTogether, count - first)));
  }
}

// More arguments, symbols, statements and entries than a table of fixed length holds.
void many(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const std::uint64_t seed = kit.settings().seed;
  std::vector<Case> cases = {wide_program(seed, 40, 70, 9),
                             wide_program(seed, 3, kit.settings().programs < 1000 ? 80 : 150, 20)};
  const auto count = static_cast<int>(std::min<std::uint64_t>(share_of_programs(kit, 7, 12), 270));
  for (int i = 0; i < count; ++i) {
    cases.push_back(
        corpus_case(text("yoke.program 1\nprogram entry", i,
                         "() {\n  arg x : f32[8] in\n  arg y : f32[8] out\n  y[i] = x[i] + ", i, ".0\n}\n"),
                    seed + static_cast<std::uint64_t>(i)));
  }
  cases[1].program.name += "2";
  Tally tally;
  const BatchRunner::Failure failure = BatchRunner(device).run(cases, tally);
  check(failure.text.empty(), "program ", failure.number, " of ", cases.size(),
        " in one text: ", failure.text);
  require_some(tally);
  kit.note(tally.words());
}

Test random_test(const char* name, void (*run)(Kit&)) {
  return {name,
          "random valid programs have the results of the reference executor, within the error budget of each "
          "op, and write nothing else",
          {25, 26},
          run,
          6};
}

}  // namespace

std::vector<Test> program_tests() {
  return {
      random_test("random-0", random_part<0>),
      random_test("random-1", random_part<1>),
      random_test("random-2", random_part<2>),
      random_test("random-3", random_part<3>),
      random_test("random-4", random_part<4>),
      random_test("random-5", random_part<5>),
      random_test("random-6", random_part<6>),
      random_test("random-7", random_part<7>),
      {"corpus",
       "the programs of share/yoke/corpus match the reference executor: convolutions, pooling, "
       "norms, attention and others, with gradients",
       {25, 26},
       corpus_programs,
       3},
      {"large",
       "statements of every form have the right results at sizes beyond 2^16 and around tiles",
       {25, 26},
       large,
       3},
      {"vast",
       "random programs with extents beyond 2^16 have the results of the reference executor",
       {25, 26},
       vast,
       3},
      {"many",
       "a text may have hundreds of programs, and a program dozens of arguments, symbols and statements",
       {25, 26},
       many,
       3},
      {"at-once",
       "routines of one code that run at the same time give the results that each gives alone",
       {20, 25, 26},
       at_once,
       3},
      {"queued",
       "launches queued between copies use the inputs of the copies before them, not those of later copies",
       {16, 18, 26},
       queued,
       3}};
}

}  // namespace yoke::conformance
