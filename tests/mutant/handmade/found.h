// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/found.h: for tests of the kit that find no bug of tests/mutant/bugs.h: bugs of these backends
// that they must find.
#pragma once

#include <algorithm>
#include <iterator>
#include <ostream>
#include <string_view>

#include "bugs.h"

namespace yoke::handmade {

struct FoundBug {
  std::string_view backend;
  std::string_view name;      // the value of YOKE_HANDMADE_BUG
  std::string_view found_by;  // the test that must fail
  std::string_view says;      // a regular expression that its message must match
  int programs = 60;
};

inline void PrintTo(const FoundBug& bug, std::ostream* out) {
  *out << bug.backend << " " << bug.name << " " << bug.found_by;
}

// Each was found with three other seeds, too. A bug that only some seeds find, or a race that the kit missed once, does
// not belong here.
inline constexpr FoundBug kFoundBugs[] = {
    {"handmade", "column_reuse", "contraction.layouts", "y\\[.*the reference executor has"},
    {"strip", "unit_coefficient", "contraction.layouts", "y\\[.*the reference executor has"},
    {"handmade", "not_zeroed", "contraction.borders", "y\\[.*the reference executor has"},
    {"strip", "panel_rounding", "contraction.borders", "guard byte was written.* end of the workspace"},
    {"handmade", "index16", "contraction.beyond-16-bits", "y\\[.*the reference executor has"},
    {"strip", "narrow_total", "contraction.types", "y\\[.*the reference executor has", 2000},
    {"handmade", "zero_shortcut", "contraction.special-values", "allowed: nan"},
    {"handmade", "beta_nan", "contraction.special-values", "is -?nan, the reference executor has"},
    {"handmade", "same_operand", "contraction.operands", "y\\[.*the reference executor has"},
    {"strip", "panel_unwaited", "contraction.at-once", "at the same time"},
    {"handmade", "stale_panel", "contraction.queued", "queued new inputs.*the reference executor has"},
    {"handmade", "stale_panel", "contraction.same-bits", "deterministic entry gives different bits"},
    {"handmade", "not_zeroed", "contraction.loops", "y0\\[.*the reference executor has"},
    {"handmade", "k_tail", "contraction.epilogues", "the reference executor has", 200},
    {"handmade", "hoisted_offsets", "contraction.repeated", "y\\[.*the reference executor has"},
    {"board", "index_magic", "program.large", "guard byte was written|the reference executor has", 1000},
    {"board", "index_magic", "program.vast", "guard byte was written|the reference executor has", 1000},
    {"board", "shared_counters", "program.at-once", "at the same time as others"},
    {"handmade", "backward_head", "copy.large-ranges", "after device_to_device .*has the wrong value"},
    {"handmade", "fill_phase", "copy.large-fills", "after fill of range .*has the wrong value"},
    {"board", "fill_words", "copy.large-fills", "after fill of range .*has the wrong value"},
    {"handmade", "staging_free", "stream.storm", "different bytes|has the wrong value"},
    {"board", "merged_waits", "stream.storm", "different bytes|has the wrong value"},
    {"handmade", "launch_leak", "lifetime.growth-launches", "heap grew by .* in 10000 launches"},
    {"board", "result_leak", "lifetime.growth-launches", "heap grew by .* in 10000 launches"},
    {"strip", "panel_unwaited", "train.repeated", "the same training run on 4 shards gives different bits"},
    {"strip", "tile_reused", "train.repeated", "the same training run on 4 shards gives different bits"},
    {"handmade", "k_tail", "train.like-cc", "on cc"},
};

static_assert(std::all_of(std::begin(kFoundBugs), std::end(kFoundBugs),
                          [](const FoundBug& bug) { return number_of(bug.name) != kNoBug; }));

}  // namespace yoke::handmade
