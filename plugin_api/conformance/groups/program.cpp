// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/program.cpp: random programs and the corpus, compared with the reference executor.
// The rest of the group is in program_text.cpp.
#include "groups.h"
#include "program/corpus.h"
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
  return {random_test("random-0", random_part<0>),
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
           3}};
}

}  // namespace yoke::conformance
