// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/sets_1_to_4.h: the bugs of the first four sets, a sentence each.
#pragma once

#include <string_view>

namespace yoke::handmade {

struct BugRow {
  std::string_view name;
  std::string_view what;
};

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

}  // namespace yoke::handmade
