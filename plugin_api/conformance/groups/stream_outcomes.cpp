// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/stream_outcomes.cpp: streams, events and callbacks report exactly the errors of the
// work before them.
#include "groups.h"
#include "outcomes.h"

namespace yoke::conformance {
namespace {

void outcomes(Kit& kit) {
  kit.plugin().table<yoke_stream_api>();
  Random random = kit.random();
  kit.device();
  Outcomes all(kit, random);
  const int rounds = 80 * kit.effort();
  for (int round = 0; round < rounds; ++round) {
    kit.progress(text("round ", round, " of ", rounds));
    if (round == rounds - 5) {
      all.abort_last_home();
    }
    const bool is_long = round == rounds / 2;
    all.play(is_long ? 4000 : 5 + static_cast<int>(random.below(60)), is_long);
  }
  kit.note(text(rounds, " rounds of work on 7 streams"));
}

}  // namespace

std::vector<Test> stream_outcome_tests() {
  return {
      {"outcomes",
       "whatever fails or is aborted while streams of several handles and devices wait for each other, each "
       "stream, event and host callback has the first error of the work before it, and only that work is "
       "skipped",
       {14, 18, 19, 44, 46, 55, 58},
       outcomes,
       2}};
}

}  // namespace yoke::conformance
