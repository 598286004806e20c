// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/sets_5_to_8.h: the bugs of the later sets, a sentence each.
#pragma once

#include "sets_1_to_4.h"

namespace yoke::handmade {

// Set 5: chosen later, by another author, for the backend in strip/. The number is the rule of RULES.md that the bug
// breaks. What a program must compute is defined in FORMAT.md, which rule 24 names.
inline constexpr BugRow kSet5[] = {
    // strip/queue.cpp
    {"detached_threads", "idle threads outlive their closed device by ten seconds"},        // 35
    {"one_waiter", "an event that is done wakes one of the threads that wait for it"},      // 18
    {"one_parked", "an event continues only the stream that was the last to wait for it"},  // 18
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
    {"seed_range", "rsqrt of f64 starts from an f32 estimate, even out of the range of f32"},            // 24
    {"sign_difference", "sign is (x > 0) - (x < 0), even for NaN"},                                      // 24
    {"lazy_wrap", "i32 and u32 wrap when they are stored, not after each operation"},                    // 24
    {"erfc_tail", "erfc is 1 - erf"},                                                                    // 24
    {"not_greater", "x <= y of floats is !(x > y)"},                                                     // 24
    {"bool_byte", "the cast of an integer to bool looks at its low byte"},                               // 24
    {"cast_twice", "integers are converted to f32 and 16-bit floats through f64, which rounds twice"},   // 24
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
    {"evicted_kernel", "the cache of kernels is emptied at 256 entries, although programs use them"},  // 15
    {"kernel_key", "the key of the cache of kernels lacks the dimensions of the tensors"},             // 24
    {"repeat_rounds", "the number of rounds of a repeat block is rounded down"},                       // 24
    {"ftz_left_on", "a launch on a null stream turns denormal results off for the calling thread"},    // 22
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
    {"negate_zero", "-x is 0 - x, so -x is 0, not -0, if x is 0"},                                      // 24
    {"divide_by_constant", "integers are divided by a 32-bit reciprocal, wrong for large ones"},        // 24
    {"part_row", "a part of a long reduction that begins within a row begins at its start"},            // 24
    {"early_combine", "the last part to start combines all parts, also those that still run"},          // 24
    {"bindings_key", "routines with the same first argument use the bindings of the first of them"},    // 42
    {"constant_temporary", "a temporary that does not depend on arguments is filled once"},             // 26
    {"signed_cast", "u32 is converted to floats through i32"},                                          // 24
    {"backward_head", "a large copy to a higher place of a buffer loses the odd chunk at its start"},   // 16
    {"record_running", "an event on a stream with an empty queue is done, although work still runs"},   // 18
    // board/
    {"grid_limit", "a statement runs on at most 65535 warps"},                                        // 24
    {"bf16_ties", "halfway numbers are rounded up in bf16, not to even"},                             // 24
    {"merged_waits", "of two waits for events in a row, a stream keeps the second one"},              // 18
    {"warp_vote", "any and all end when they are decided in one of the lanes"},                       // 24
    {"later_parts_zero", "from the second part on, the lanes of a reduction start at 0"},             // 24
    {"random_stream32", "the stream of random_bits has 32 bits"},                                     // 24
    {"pow_half", "pow(x, 0.5) is sqrt(x), also for -inf and -0"},                                     // 24
    {"u32_from_float", "the u32 of a float above the highest i32 is the highest i32"},                // 24
    {"transpose_pitch", "a transposing copy takes the loop's extent for the length of a row"},        // 24
    {"atomic_max_bits", "a scatter of f32 with max= or min= compares the bits as integers"},          // 24
    {"split_overwrites", "a long reduction that lanes share is stored with = for every assignment"},  // 24
    {"fused_by_shape", "statements of a hint with equal loops run 32 iterations at a time"},          // 24
    {"shared_counters", "launches of a program that run together share the loop counters"},           // 26
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

// Set 7: chosen later, for all three backends; with the rule that each breaks, as in set 5.
inline constexpr BugRow kSet7[] = {
    // the files of this folder
    {"pad_times_stale",
     "the terms that fill up a panel are 0 in the first operand only, so 0 * nan is added"},    // 26
    {"difference_sign", "< and > of integers are the sign of the difference, which may wrap"},  // 24
    {"staging_shared",
     "a from_host of the same range as the one before uses its staged copy while that is queued"},  // 16
    {"fill_cache_half",
     "a thread keeps the block of its last fill and compares 4 bytes of the pattern"},         // 16
    {"pinned_class", "a freed pinned block serves larger requests of the same power of two"},  // 52
    {"failed_from_last",
     "work that fails marks only the events after the work that is queued by then"},                   // 18
    {"query_started", "a query of a stream answers done while its last piece of work runs"},           // 45
    {"early_thread", "the plugin starts a thread when it is entered"},                                 // 22
    {"signals_left_blocked", "a call that starts a thread leaves all signals of its caller blocked"},  // 22
    {"verdict_numbering",
     "verdicts continue the numbering of statements from one program of a text to the next"},  // 25
    {"symbol_step_lost",
     "the description of a symbol has the step 1, so values off its step are accepted"},  // 24
    {"single_round", "a repeat block with one round is unrolled with the value 0"},       // 24
    // board/
    {"byte_carry",
     "a scatter adds to u8 in words of 4 bytes, so an overflow reaches the next element"},             // 24
    {"else_double", "the else value of an i64 read is kept in f64, which rounds numbers above 2^53"},  // 24
    {"exp2_by_exp", "exp2(x) is exp(x * ln 2), which is not exact enough for large f64"},              // 24
    {"transposed_update", "a transposing statement stores with = for every assignment"},               // 24
    {"dma_offset", "a copy between devices starts at multiples of 4 bytes"},                           // 16
    {"refused_counts", "a refused buffer counts as used memory"},                                      // 42
    {"empty_shared", "buffers of 0 bytes share one block, and each of them gives it back"},            // 35
    {"abort_drops_callbacks", "the host callbacks of an aborted stream are never called"},             // 58
    {"wall_clock", "the times of events are those of the system clock"},                               // 64
    {"timeout_aborts", "a wait that times out aborts its stream"},                                     // 21
    {"event_history", "a stream keeps the times of all its events until it is destroyed"},             // 35
    {"failed_entry", "a text that does not compile stays in the cache without programs"},              // 24
    {"dead_write",
     "the memory of a temporary is free after its last read, even if it is written later"},  // 24
    {"launch_ring", "a routine has room for the symbol values of 16 queued launches"},       // 18
    // strip/
    {"exp_clamped", "the argument of exp is clamped to the range of finite f32 results"},              // 24
    {"bitwise_equal", "== and != of floats compare their bits"},                                       // 24
    {"u8_saturates", "sums and differences of u8 saturate"},                                           // 24
    {"shared_panel", "two threads that share the rows of a product pack them into the same memory"},   // 24
    {"class_edge", "a buffer of exactly 4096 bytes comes from a slab but is freed as if it did not"},  // 15
    {"limit_bits", "the memory limit is kept in 32 bits"},                                             // 28
    {"fill_superseded",
     "a fill replaces the queued fill before it that starts at the same byte, even a longer one"},  // 18
    {"pool_cap",
     "a device has at most 6 threads, so kernels that wait for their second half block each other"},  // 18
    {"idle_event_error", "an event that is recorded on an idle stream does not carry its error"},     // 19
    {"timeout_ms", "the timeout of a wait is rounded down to milliseconds"},                          // 21
    {"skipped_events", "a failed stream skips its queued events, so that waits for them never end"},  // 18
    {"overwritten_indices",
     "a statement is left out if a later one sets its tensor at the same indices, even if only at some of "
     "them"},  // 24
    {"forwarded_copy",
     "reads of a temporary that copies an argument read the argument, even after it has changed"},  // 24
    {"text_address",
     "compile uses the program that can_compile read last if the address and length are the same"},  // 24
};

// Set 8: chosen later, for all three backends; with the rule that each breaks, as in set 5.
inline constexpr BugRow kSet8[] = {
    // the files of this folder
    {"broadcast_reload",
     "an operand constant along the two inner loops is loaded only when the loop around them advances"},  // 24
    {"select_to_max", "select(x > y, x, y) is max(x, y), which spreads a nan"},  // 24
    {"reassociated",
     "a float plus one constant plus another is the float plus the sum of the constants"},     // 24
    {"tanh_cancel", "tanh(x) is (1 - exp(-2x)) / (1 + exp(-2x)), which cancels for small x"},  // 24
    {"reversed_tail",
     "the last elements of a row that is read in reverse are loaded as if they were 16"},         // 24
    {"infinite_maximum", "a maximum ends at inf and a minimum at -inf, so a later nan is lost"},  // 24
    {"free_loop", "a loop of a contraction's target that neither operand uses runs once"},        // 24
    {"bool_by_int", "a float is converted to bool through an integer, so 0.5 is false"},          // 24
    {"symbol_from_low", "the offset of a symbol is counted from its lowest value"},               // 24
    {"fused_lifetime",
     "the memory of a temporary that a hint writes is free after the hint, even if read later"},        // 26
    {"scalar_when_queued", "a launch reads its scalar arguments when it is queued, not when it runs"},  // 18
    {"coalesced_copies",
     "a small from_host that continues the last one joins it while it is queued, even if other work is "
     "queued between them"},  // 18
    {"pool_notify_one",
     "the end of a kernel's last part wakes only one thread, which may be an idle one"},  // 18
    {"wake_when_idle",
     "the end of a piece of work wakes threads and streams only if its stream has nothing left to do"},  // 18
    // board/
    {"coalesced_guess",
     "a warp loads 32 neighbors if its last lane's element is 31 places after its first lane's"},  // 24
    {"nested_guard", "a guard that fails makes the guard around it fail"},                         // 24
    {"lazy_select",
     "in a guard, reads of the operand that select does not choose may be out of range"},  // 24
    {"transpose_offset", "a transposing copy ignores the constants in its indices"},       // 24
    {"erf_series",
     "erf is the approximation 7.1.26 of Abramowitz and Stegun, even for f64 and small numbers"},  // 24
    {"f16_saturates",
     "finite numbers beyond the range of f16 become its largest number instead of infinity"},   // 24
    {"divide_by_shift", "integers are divided by a power of 2 with a shift, so -1 / 2 is -1"},  // 24
    {"cast_round_trip",
     "a cast of a float to another float type and back is left out, even if the other type is narrower"},  // 24
    {"dead_in_repeat",
     "a statement is left out if no later one reads its temporary, even if the next round does"},  // 24
    {"nameless_key",
     "the key of the cache of codes lacks the program's name, so descriptions may have a wrong name"},  // 26
    {"abort_spares_running",
     "an abort does not fail running work, so an event after cancelled work counts as done"},  // 19
    {"landing_events",
     "the bytes of a small to_host arrive at a wait for its stream, not at a wait for an event"},  // 18
    {"fill_pattern_kept",
     "the pattern of a fill is kept in its buffer, so a queued fill uses that of the next one"},  // 18
    // strip/
    {"index_in_block",
     "a loop index used as a value in a reduction starts again at 0 after 1024 terms"},  // 24
    {"prod_ends_at_zero",
     "a product that is 0 skips the remaining rows and blocks of terms, even if they hold a nan"},  // 24
    {"diagonal_border",
     "if several indices advance along a strip, only the last one is checked for each element"},  // 24
    {"gather_symbol", "the symbol in the index of an index tensor is taken to be 0"},             // 24
    {"packed_by_address",
     "panels are packed again if the address of their first element changes, but not if their size does"},  // 24
    {"random_key_strip",
     "all values of a strip use the seed and the stream of random_bits of the first value"},  // 24
    {"select_half_mask",
     "a strip of select takes one operand as a whole if the first 32 of its 64 conditions agree"},  // 24
    {"scratch_below",
     "the memory of panels starts after the temporaries that live at the first statement with panels"},  // 26
    {"index_lifetime",
     "the memory of a temporary that is read only as an index is free after its last write"},  // 26
    {"key_decimals",
     "the key of the cache of kernels has only 6 decimals of each number in a program"},                 // 24
    {"symbol_pointer", "a launch reads the caller's symbol values when it runs"},                        // 18
    {"event_pool", "the fence of a destroyed event serves the next event, even if it is still queued"},  // 18
    {"word_merge",
     "a small from_host to an offset inside a word also rewrites the bytes before it in that word"},  // 16
};

}  // namespace yoke::handmade
