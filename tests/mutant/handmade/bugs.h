// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/bugs.h: the bugs of the handmade backends. YOKE_HANDMADE_BUG=<name> turns one on.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

namespace yoke::handmade {

struct BugRow {
  std::string_view name;
  std::string_view what;
};

inline constexpr std::size_t kNoBug = ~std::size_t{0};
// Set 1: the kit now has tests for those that it missed.
inline constexpr BugRow kSet1[] = {
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

// Set 2: chosen later, by another author.
inline constexpr BugRow kSet2[] = {
    // contraction.cpp
    {"depth_block", "each block of a long reduction packs the first 128 terms of an operand with a stride"},
    {"cache_extents", "the key of the cache of contractions has strides but no extents"},
    {"same_operand",
     "where both operands are the same tensor, the second one starts where the first one does"},
    {"beta_nan", "= stores 0 * old + sum, so a nan or an infinity in the target remains"},
    {"f32_workspace", "the workspace of an f64 product is sized for f32"},
    {"reversed_contiguous", "a reduction that steps by -1 is read as if it stepped by 1"},
    // formula.cpp, formula.h and map.cpp
    {"select_blend", "select is x * a + (1 - x) * b, so a nan that is not selected spreads"},
    {"nan_not_equal", "a != b is a < b || a > b, so x != x does not find a nan"},
    {"pow_log", "pow(x, y) is exp(y * log(x)), which is nan for negative x"},
    {"float_division", "integers are divided in f32, which rounds those above 2^24"},
    {"f32_literals", "the numbers of an f64 expression are rounded to f32"},
    {"one_symbol", "an access with several symbols adds the offset of the first one only"},
    {"deep_loops", "only the last 4 of the outer loops advance, so tensors of 6 dimensions are incomplete"},
    {"overlapping_tail", "the last 16 elements of a row overlap those before, so += counts some twice"},
    // reduce.cpp
    {"part_index", "argmax of a long row counts from the start of the part"},
    {"u32_minimum", "a minimum of u32 starts at the highest i32"},
    {"own_operation",
     "a reduction is combined with its target by its own operation, whatever the assignment is"},
    {"low_half", "argmax to i64 stores the lower half of the element only"},
    // code.cpp
    {"early_reuse", "the statement that reads a temporary last may write its result over it"},
    {"workspace_offset", "the workspace is taken from the start of its buffer, not from its offset"},
    {"fingerprint_name", "the fingerprint is the name of the program"},
    {"inout_as_out", "inout arguments are described as out"},
    {"text_zero", "the text of a program is read up to a zero byte"},
    // interpreted.cpp
    {"guard_factors", "a guard around a product pads its factors, and 0 * inf is nan"},
    {"u8_wrap", "floats become u8 by way of i32, so 300 becomes 44 instead of 255"},
    {"u8_promotion", "u8 is computed in i32 up to the end of the expression, so (a + b) / 2 does not wrap"},
    {"i64_in_double", "i64 is compared in f64, which rounds numbers above 2^53"},
    {"random_counter32", "the counter of random_bits has 32 bits"},
    {"mod_quotient", "x % y of floats is x - y * trunc(x / y), which is not exact"},
    {"symbol_value32", "a symbol as a value has 32 bits"},
    // buffer.cpp
    {"chunk_multiple", "a copy of a multiple of 256 KiB leaves out the last chunk"},
    {"memset_guess", "a pattern whose first and last byte are equal is taken for a single byte"},
    {"self_copy", "a copy within one buffer does nothing"},
    {"early_copied", "a from_host of 4 to 8 KiB reports COPIED before it has read its source"},
    // stream.cpp
    {"wait_once", "a second wait for a stream that was waited for last is left out, also for a later event"},
    {"late_inherit", "a stream inherits an event's error only if it was known when the wait was queued"},
    {"callback_status", "a callback gets the status of the stream at the time when it was queued"},
    {"idle_abort", "aborting a stream without pending work does nothing"},
    {"last_error", "an abort replaces the error that a stream already has"},
    // plugin.cpp
    {"same_unique_id", "both devices have the same unique_id"},
};

// Set 3: chosen later, for the backend in board/.
inline constexpr BugRow kSet3[] = {
    // board/warp.cpp
    {"index_magic",
     "lanes find their loop counters by a 32-bit reciprocal, which is wrong from some millions on"},
    {"flat_bounds", "a read is in range if its element is inside the tensor, also when an index is not"},
    {"negative_quotient",
     "a divided index is exact unless the remainder is positive, so -1 / 2 is taken for 0"},
    {"inner_else", "a read with an else of its own also makes the guard around it fail"},
    {"low_symbol_check",
     "the checks of a statement are left out if it is in range at the lowest symbol values"},
    {"gather_low", "only the low 32 bits of an i64 index are used"},
    {"scatter_negative", "a scatter drops indices that are too high, but not negative ones"},
    {"warp_conflict",
     "a scatter reads the old elements of all lanes before it writes, so duplicates are lost"},
    {"pair_store", "16-bit results are stored in pairs, so a single one at the end overwrites its neighbor"},
    {"tile_edge", "the last tiles of a transposing copy have as many columns as rows"},
    {"odd_tree", "the tree that combines the parts of a reduction drops the middle one of an odd number"},
    {"narrow_partials", "the parts of a long reduction are kept in the type of the target"},
    {"unrounded_product", "the factors of a sum are multiplied in the type of the accumulator"},
    {"argmin_nan", "a nan never wins in argmin"},
    // board/values.cpp
    {"bf16_nan", "a nan with all bits set becomes zero in bf16, because rounding overflows"},
    {"f16_denormal", "numbers below the smallest normal f16 become zero"},
    {"f64_direct", "f64 is rounded to 16 bits at once, not by way of f32"},
    {"saturate_edge", "exactly 2^63 is not seen to be out of range of i64"},
    {"shift_mask", "shift counts are taken modulo 32 for every type"},
    {"floor_mod", "the remainder of integers has the sign of the divisor"},
    {"trig_period", "the argument of sin and cos is reduced by 2 pi in f32"},
    // board/memory.cpp
    {"ring_wrap", "the ring of staged sources does not count the bytes that it skips at its end"},
    {"ring_order", "a copy that has run frees the staged sources of earlier copies on other streams"},
    {"shared_bounce", "copies between devices on different streams go through the same block of host memory"},
    {"failed_inline", "a small to_host on a failed stream without pending work runs"},
    {"no_trim", "memory of freed buffers is used only for buffers of the same size"},
    // board/queue.cpp
    {"callback_order", "work after a host callback does not wait until the callback returns"},
    {"other_device_wake",
     "a stream that waits for an event of the other device sleeps until something else happens"},
    {"restarted_timeout", "the timeout of a wait starts again whenever any work finishes"},
    {"zero_timeout", "a wait with a timeout of 0 returns OK"},
    {"full_queue", "a stream with 1024 queued commands blocks the caller until one has run"},
    {"abort_waiting", "an abort does not end a stream's wait for an event"},
    {"abort_both", "an abort of a device handle aborts the streams of the other handle of the device"},
    {"sequence16", "events compare 16 bits, so an event is pending again after 32768 more commands"},
    // board/plugin.cpp
    {"repeat_lifetime", "a temporary that one round writes and the next one reads shares its memory"},
    {"hash_prefix", "the key of the cache of codes is a hash of the first 1024 bytes of the text"},
    {"entry_workspace", "every entry of a code reports the workspace of the first one"},
    {"cache_growth", "the cache of codes never drops one"},
    {"shared_limit",
     "the memory limit of the handle that was opened last holds for all handles of the device"},
    {"process_id", "the unique_id of a device contains the number of the process"},
};

// Set 4: chosen later, for both backends.
inline constexpr BugRow kSet4[] = {
    // contraction.cpp
    {"column_reuse",
     "a panel of the second operand that holds the whole reduction is kept for the next 64 columns"},
    // formula.cpp
    {"diagonal", "a loop that indexes two dimensions of a tensor advances along the last one only"},
    {"read_cse", "two reads of a tensor that differ in a symbol only are loaded once"},
    {"expm1_small", "expm1(x) is exp(x) - 1, which is 0 for small x"},
    {"round_half_up", "round(x) is floor(x + 0.5)"},
    // reduce.cpp
    {"tail_zero", "the lanes beyond the end of a row take part in a reduction, with 0"},
    {"argmax_last_nan", "of several nans, argmax and argmin return the last one"},
    // code.cpp
    {"repeat_invariant",
     "a statement of a repeat block runs once if no statement before it in the block writes what it reads"},
    {"first_symbol_key",
     "a launch whose first symbol has the same value as before uses the earlier values of all symbols"},
    // board/warp.cpp
    {"second_gather", "an access with two gathered indices uses the first one for both"},
    {"hoisted_gather", "a gathered index is loaded once for all terms of a reduction"},
    {"negative_from_end", "a gather counts negative indices from the end"},
    {"scatter_break", "a scattered index out of range also drops the elements of the lanes after it"},
    {"guard_mask", "a guard also fails where an earlier guard of the expression failed"},
    {"assign_nan", "max= and min= keep the old element unless the new one is beyond it, so a nan is lost"},
    // board/values.cpp
    {"fma_split", "fma rounds the product before the sum"},
    {"bf16_chain", "an expression of bf16 is rounded only when it is stored or converted"},
    {"random_block",
     "four lanes share a block of random bits, as if the counter of the first were a multiple of 4"},
    // board/plugin.cpp
    {"group_checks",
     "the first statement of a hint decides whether the indices of all its statements are checked"},
    {"repeat_last", "the last value of a repeat variable is left out if its range ends within a step"},
    // buffer.cpp
    {"pattern_pointer", "a fill reads the caller's pattern when it runs"},
    {"staging_leak", "staging blocks are never used again"},
    // board/memory.cpp
    {"bounce_chunk", "every chunk of a copy between devices is the first one"},
    {"fill_words", "a fill writes whole words of 8 bytes, also at its end"},
    {"shrunk_blocks",
     "a free block may serve a smaller buffer and then counts with that size, so the device loses memory"},
    {"inline_running",
     "a small to_host runs at once if nothing is queued, also while the last command of the stream runs"},
    // plugin.cpp
    {"import_aligned", "the address of imported memory is rounded down to a multiple of 256"},
    {"pinned_alignment", "pinned memory is aligned to 64 bytes"},
    // stream.cpp
    {"old_event_fails", "an event that was recorded before a failure carries it, too"},
    {"waits_for_all",
     "a stream that waits for an event waits for all work that the other stream has by then"},
    {"destroyed_event", "a stream does not wait for an event that is destroyed before the wait begins"},
    {"error_once", "the error of a stream is returned by the first wait only"},
    {"inherited_code", "a stream that inherits an error reports it as ABORTED"},
    // board/queue.cpp
    {"time_when_queued", "the time of an event is that of its recording"},
    {"thread_growth", "each new stream starts a thread, which ends with the device"},
    // board/plugin.cpp
    {"abort_forgotten", "streams that are created after an abort of their device handle work"},
    {"host_visible", "the device claims that the host can address its memory"},
    {"limit_mib", "the memory limit is rounded down to MiB, so that a small one is no limit"},
    // plugin.cpp
    {"no_reason", "the error for an invalid program has no line and no reason"},
    {"reopened_aborted", "a device that is opened after another one was aborted is aborted, too"},
};

// Set 5: chosen later, by another author, for the backend in strip/. The number is the rule of RULES.md that the bug
// breaks. What a program must compute is defined in FORMAT.md, which rule 24 names.
inline constexpr BugRow kSet5[] = {
    // strip/queue.cpp
    {"detached_threads", "the idle threads of a closed device end only after ten seconds"},  // 35
    {"one_waiter", "an event that is done wakes one of the threads that wait for it"},       // 18
    {"one_parked", "an event continues only the stream that was the last to wait for it"},   // 18
    {"two_workers",
     "work queued when a stream has used up its turn lets a second thread run the stream, too"},  // 18
    {"parked_done", "a stream that waits for an event counts that wait as finished work"},        // 44
    {"inherit_if_parked",
     "a stream does not inherit the error of an event that has failed before it is reached"},    // 19
    {"query_behind_fill", "a fill runs under the lock of its stream, so a query waits for it"},  // 20
    {"abort_calls_back",
     "an abort calls the queued host callbacks at once, also while work is running"},          // 58
    {"drain_wait", "a wait for a stream also waits for work that is queued during the wait"},  // 21
    // strip/memory.cpp
    {"odd_class",
     "sizes above 1 KiB are rounded up to 128 bytes, so blocks of a slab are not aligned to 256"},  // 42
    {"slab_trim", "the blocks of a slab that was freed stay in the list of free blocks"},           // 15
    {"import_pooled",
     "small imported memory becomes a free block of the device when its buffer is destroyed"},           // 52
    {"fill_halves", "the second half of a large fill starts with the first byte of the pattern"},        // 16
    {"slot_early", "the staging slot of a small copy is free before the copy has read it"},              // 16
    {"slot_wait", "a small from_host waits for a staging slot if all of them belong to queued copies"},  // 20
    {"source_mode", "a small from_host that cannot be staged reports its source as copied"},             // 16
    {"pinned_source", "a from_host of pinned memory reports its source as copied when it is queued"},    // 16
    {"helper_unwaited", "a large device_to_device is done when the first of its two threads is"},        // 45
    // strip/values.cpp
    {"f16_overflow_early", "values from 65504 to 65520 become an infinite f16"},                         // 24
    {"round_magic", "round() adds and subtracts 1.5 * 2^52, which loses -0 and low bits of large f64"},  // 24
    {"seed_range", "rsqrt of f64 starts from an f32 estimate, also out of the range of f32"},            // 24
    {"sign_difference", "sign is (x > 0) - (x < 0), also of NaN"},                                       // 24
    {"lazy_wrap", "i32 and u32 wrap when they are stored, not after each operation"},                    // 24
    {"erfc_tail", "erfc is 1 - erf"},                                                                    // 24
    {"not_greater", "x <= y of floats is !(x > y)"},                                                     // 24
    {"bool_byte", "the cast of an integer to bool looks at its low byte"},                               // 24
    {"cast_twice", "integers become f32 and 16-bit floats by way of f64, which rounds twice"},           // 24
    // strip/place.cpp
    {"gather_signed", "elements of a u8 tensor that are indices count as signed"},  // 24
    {"both_ends",
     "a strip of reads that starts and ends out of range is taken to be out of range as a whole"},  // 24
    // strip/kernel.cpp
    {"decided_once",
     "once any or all is decided for an element, the terms of later elements are skipped"},  // 24
    {"block_multiple",
     "the last block of a reduction is skipped if the reduction is a multiple of 1024 long"},  // 24
    // strip/product.cpp
    {"unit_coefficient",
     "the reduction's index in the second operand is taken to have the coefficient 1"},  // 24
    {"panel_rounding",
     "the workspace has no room for the rows that fill up the last panel of the first operand"},  // 26
    {"second_block_base",
     "the second 64 rows of the first operand are read without the offset of the batch"},  // 24
    {"packed_batch",
     "the second operand stays packed if it is constant along the first of several batch loops"},  // 24
    // strip/plugin.cpp
    {"evicted_kernel", "programs use kernels of the cache that is emptied when it has 256"},         // 15
    {"kernel_key", "the key of the cache of kernels lacks the dimensions of the tensors"},           // 24
    {"repeat_rounds", "the number of rounds of a repeat block is rounded down"},                     // 24
    {"ftz_left_on", "a launch on a null stream turns denormal results off for the calling thread"},  // 22
    {"scratch_last",
     "the workspace has room for the panels of a program's last product, not of its largest"},  // 26
};

// Set 6: chosen later, for all three backends; with the rule of RULES.md that each breaks, as in set 5.
inline constexpr BugRow kSet6[] = {
    // the files of this folder
    {"plan_target", "the key of the cache of contractions lacks the strides of the target"},  // 24
    {"contiguous_tail",
     "after the first 128 terms, contiguous operands are packed up to a multiple of 4"},                // 24
    {"symmetric_update", "x * x^T computes one half and mirrors it, also if it is added to a target"},  // 24
    {"merged_rows", "rows are merged although an operand is constant along each of them only"},         // 24
    {"relu_nan", "max(x, 0) is x > 0 ? x : 0, which is 0 for a nan"},                                   // 24
    {"negate_zero", "-x is 0 - x, so that of 0 is not -0"},                                             // 24
    {"divide_by_constant", "integers are divided by a 32-bit reciprocal, wrong for large ones"},        // 24
    {"part_row", "a part of a long reduction that begins within a row begins at its start"},            // 24
    {"early_combine", "the last part to start combines all parts, also those that still run"},          // 24
    {"bindings_key", "routines with the same first argument use the bindings of the first of them"},    // 42
    {"constant_temporary", "a temporary that does not depend on arguments is filled once"},             // 26
    {"signed_cast", "u32 becomes a float by way of i32"},                                               // 24
    {"backward_head", "a large copy to a higher place of a buffer loses the odd chunk at its start"},   // 16
    {"record_running", "an event on a stream with an empty queue is done, though work runs"},           // 18
    // board/
    {"grid_limit", "a statement runs on at most 65535 warps"},                                     // 24
    {"bf16_ties", "halfway numbers are rounded up in bf16, not to even"},                          // 24
    {"merged_waits", "of two waits for events in a row, a stream keeps the second one"},           // 18
    {"warp_vote", "any and all end when they are decided in one of the lanes"},                    // 24
    {"later_parts_zero", "from the second part on, the lanes of a reduction start at 0"},          // 24
    {"random_stream32", "the stream of random_bits has 32 bits"},                                  // 24
    {"pow_half", "pow(x, 0.5) is sqrt(x), also for -inf and -0"},                                  // 24
    {"u32_from_float", "floats above the highest i32 become that in u32"},                         // 24
    {"transpose_pitch", "a transposing copy takes the loop's extent for the length of a row"},     // 24
    {"atomic_max_bits", "a scatter of f32 with max= or min= compares the bits as integers"},       // 24
    {"split_overwrites", "a long reduction that lanes share is stored with = whatever is asked"},  // 24
    {"fused_by_shape", "statements of a hint with equal loops run 32 iterations at a time"},       // 24
    {"shared_counters", "launches of a program that run together share the loop counters"},        // 26
    // strip/
    {"shift_clamped", "a shift by the width or more shifts all bits out"},                           // 24
    {"border_per_tensor", "the else of a tensor's first read holds for all its reads"},              // 24
    {"nan_lowest", "a nan becomes the lowest integer"},                                              // 24
    {"floor_integer", "floor goes through i64, which loses -0, nan and large numbers"},              // 24
    {"sqrt_product", "sqrt(x) is x * rsqrt(x), which is nan for infinity"},                          // 24
    {"narrow_total", "an integer accumulator has the type of the terms"},                            // 24
    {"one_remainder", "only the first divided index of a read is checked for a remainder"},          // 24
    {"edge_depth", "the tiles at the right edge keep the last 256 terms of a product only"},         // 24
    {"odd_rows", "two threads share a statement's rows and leave out the middle one"},               // 24
    {"statement_barrier", "a statement starts before the second thread has finished the last one"},  // 24
    {"slab_last_block", "the last block of a slab extends beyond it if blocks do not divide it"},    // 15
    {"idle_event_time", "an event on an idle stream has the time of the last work"},                 // 43
    {"lost_wakeup", "work that is queued while a thread leaves the stream waits for more work"},     // 18
};

constexpr std::size_t number_of(std::string_view name) {
  std::size_t number = 0;
  for (const auto set :
       std::initializer_list<std::span<const BugRow>>{kSet1, kSet2, kSet3, kSet4, kSet5, kSet6}) {
    for (const BugRow& row : set) {
      if (row.name == name) {
        return number;
      }
      ++number;
    }
  }
  return kNoBug;
}

struct BugName {
  // Does not compile for a name that is not in a table.
  consteval BugName(const char* name) : number(number_of(name)) {  // NOLINT(google-explicit-constructor)
    if (number == kNoBug) {
      throw name;
    }
  }
  std::size_t number;
};

// The number of the bug that YOKE_HANDMADE_BUG names; kNoBug if it is not set.
// Throws std::invalid_argument if the name is not in a table.
std::size_t read_bug();
extern std::size_t active_bug;  // set when the plugin is entered

inline bool bug(BugName name) noexcept {
  return active_bug == name.number;
}

}  // namespace yoke::handmade
