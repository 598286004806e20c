// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/bugs.h: the bugs of the handmade backend. YOKE_HANDMADE_BUG=<name> turns one on.
#pragma once

#include <cstddef>
#include <string_view>

namespace yoke::handmade {

struct BugRow {
  std::string_view name;
  std::string_view what;
};

inline constexpr BugRow kBugs[] = {
    // contraction.cpp
    {"k_tail", "the loop after the unrolled one ends one term early, so k % 4 != 0 loses a term"},
    {"block_edge", "the last panel of every row block has as many rows as the last panel of the matrix"},
    {"batch_stride", "from the second batch on, the second operand is read with the stride of the first"},
    {"index16", "offsets along the reduction are kept in 16 bits"},
    {"not_zeroed", "the sums are set to zero for the first block of rows only"},
    {"edge_accumulate", "columns beyond the last full group of 8 are stored with = where += is asked"},
    {"contiguous_guess", "two neighbors decide whether a whole reduction is contiguous"},
    {"f32_accumulator", "a sum with an f64 accumulator is computed in f32"},
    {"zero_shortcut", "products with a zero are skipped, so 0 * inf and 0 * nan add nothing"},
    {"stale_panel", "a panel that fits the workspace is packed at the first launch of a routine only"},
    {"panel_reuse",
     "the second operand is packed for the first block of rows only, also for a long reduction"},
    // map.cpp and formula.h
    {"broadcast_tail",
     "the loop for the last elements of a row reads a broadcast operand as if it were contiguous"},
    {"aligned_loads", "the address of an operand is rounded down to a multiple of 16"},
    {"aliased_target", "the first half of a value is stored in a target that the second half reads"},
    {"min_zeros", "min(-0, +0) is its second operand"},
    {"sigmoid_overflow", "sigmoid is exp(x) / (1 + exp(x)), which is nan for large x"},
    {"divide_trap", "integer division does not handle the lowest integer divided by -1"},
    {"u32_signed", "u32 runs the kernels of i32"},
    // reduce.cpp
    {"lowest_maximum", "a maximum starts at the lowest finite number instead of -inf"},
    {"overlapping_parts", "the last part of a long sum is as long as the others and counts some terms twice"},
    {"completion_order", "the parts of a long reduction are combined in the order in which they finish"},
    {"argmax_tie", "among equal maxima in different lanes, the one in the lower lane wins"},
    {"nan_lanes", "a nan is lost when the lanes of a maximum or minimum are combined"},
    // code.cpp
    {"cache_key",
     "the key of the cache of contractions lacks the assignment, so += may run as = or the reverse"},
    {"scratch_overlap", "the scratch memory of kernels starts where the temporaries are"},
    {"shared_scratch",
     "the routines of a code share one scratch memory, also when they run at the same time"},
    {"shared_symbols", "a launch overwrites the symbol values of the launch that is still queued"},
    {"launch_leak", "the parameters of a launch are never freed"},
    {"hoisted_offsets",
     "offsets are computed at the start of a launch, with the first value of a repeat variable"},
    {"offset32", "the byte offset of a symbol is computed in 32 bits"},
    // buffer.cpp
    {"copy_tail", "a copy that ends in 5, 6 or 7 odd bytes loses those after the fourth"},
    {"fill_phase", "the body of a fill starts a new pattern after a head that ended within one"},
    {"fill_empty", "a fill of 0 bytes writes one pattern"},
    {"staging_free", "the staging block of a small from_host is free for the next call before it was read"},
    // stream.cpp
    {"wait_started", "a stream that waits for an event continues when the last work before the event starts"},
    {"stamp_reuse", "the 65th timed event of a stream writes its time over that of the first"},
    {"timeout_overflow", "a very long timeout overflows and ends at once"},
    {"abort_early", "a wait for an aborted stream returns while a kernel still runs"},
    {"flush_denormals", "streams flush denormal numbers to zero"},
    // plugin.cpp
    {"memory_code", "a buffer larger than the machine's memory is refused with RESOURCE_EXHAUSTED"},
};

struct BugName {
  // Does not compile for a name that is not in the table.
  consteval BugName(const char* name) : number(0) {  // NOLINT(google-explicit-constructor)
    while (kBugs[number].name != name) {
      ++number;
    }
  }
  std::size_t number;
};

inline constexpr std::size_t kNoBug = ~std::size_t{0};
// The number of the bug that YOKE_HANDMADE_BUG names; kNoBug if it is not set.
// Throws std::invalid_argument if the name is not in the table.
std::size_t read_bug();
extern std::size_t active_bug;  // set when the plugin is entered

inline bool bug(BugName name) noexcept {
  return active_bug == name.number;
}

}  // namespace yoke::handmade
