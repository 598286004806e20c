// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/sets_9.h: the bugs of the ninth set, a sentence each.
#pragma once

#include "sets_5_to_8.h"

namespace yoke::handmade {

// Set 9: chosen later, for all three backends; with the rule that each breaks, as in set 5.
inline constexpr BugRow kSet9[] = {
    // the files of this folder
    {"tf32_products",
     "products whose sizes are multiples of 16, 8 and 8 round their operands to 10 bits of fraction"},  // 24
    {"eight_registers",
     "values nested more than 8 deep on the right overwrite their own intermediate results"},  // 24
    {"tail_overread",
     "the last elements of a row are loaded as 16, also beyond the end of the memory"},           // 42
    {"powi_products", "pow(x, n) with a whole number n is a product, whose error grows with n"},  // 24
    {"divide_by_reciprocal",
     "x / y of floats is x * (1 / y), which is wrong for very large and small y"},  // 24
    {"target_per_part",
     "a long sum that is added to its target starts each of its parts at the old element"},  // 24
    {"cast_by_f32", "f64 is converted to integers by way of f32"},                           // 24
    {"value_numbering",
     "a statement copies the result of an equal one before it, even if its operands have changed"},  // 24
    {"overlapped_statements",
     "two statements run at the same time even if the second one writes what the first one reads"},     // 26
    {"elapsed32", "the time between two events has 32 bits, so it wraps after 4.3 seconds"},            // 43
    {"failure_forgotten", "the events of a failed stream count as done once the stream is destroyed"},  // 18
    {"staged_always", "a small from_host also runs on a stream that has failed"},                       // 19
    {"import_null", "an import of 0 bytes is refused if its address is 0"},                             // 52
    // board/
    {"batched_submit", "commands are submitted in groups of 8 or by a wait, so a query stays pending"},  // 44
    {"priority_inversion",
     "a stream rests while one of higher priority has work, even if that waits for the stream"},  // 18
    {"inherits_later_errors",
     "a stream that waits for an event also inherits errors of work after the event"},  // 18
    {"foreign_stream_copy",
     "a copy between devices on a stream of the source's device does not wait for earlier work"},  // 17
    {"published_early",
     "a thread that compiles a text while another one does may get the code with programs missing"},  // 20
    {"argument_limit", "programs with more than 128 tensors count as native but do not compile"},     // 25
    {"unroll_and_jam",
     "two rounds of a repeat block run statement by statement and overwrite each other's temporaries"},  // 24
    {"pow_nan", "pow(1, y) and pow(x, 0) are nan if the other operand is"},                              // 24
    {"mul64_cross", "a product of i64 ignores the high half of the second factor"},                      // 24
    {"cast_rounds", "a cast of f32 to i32 rounds to the nearest integer instead of towards 0"},          // 24
    {"log_denormal", "log and log2 of a denormal f32 are -inf"},                                         // 24
    {"folded_unrounded",
     "an operation on two numbers is computed in f64 or i64 and keeps that result"},  // 24
    {"scatter_narrow", "a scatter of f64 with += adds in f32"},                       // 24
    // strip/
    {"failed_first", "a query of a failed stream answers failed although its last work still runs"},  // 45
    {"kernel_pool", "a kernel uses the threads of the device that ran it first, even a closed one"},  // 15
    {"chained_copies",
     "a copy joins the queued copy that it continues, even if it reads what that one writes"},  // 18
    {"idle_count_kept",
     "threads end after 2 idle seconds but count as idle, so later work does not run"},             // 18
    {"slab_unlocked", "two threads that create small buffers at the same time may get one block"},  // 20
    {"small_stacks", "threads have stacks of 256 KiB, too little for the deepest expressions"},     // 13
    {"first_row_inside",
     "a strip of reads that is in range in one row is not checked in later rows of the statement"},  // 24
    {"unit_dimension", "an index of a dimension with one element is never out of range"},            // 24
    {"row_reuse",
     "a row of values serves all rows if no read depends on the row, even if a loop value does"},  // 24
    {"argmax_float_index", "argmax and argmin keep the index in f32, which is exact up to 2^24"},  // 24
    {"absorbing_zero", "x * 0 and x - x are 0, even for infinity and nan"},                        // 24
    {"sigmoid_tanh", "sigmoid(x) is 0.5 + 0.5 * tanh(0.5 * x), which cancels for negative x"},     // 24
    {"cos_shifted", "cos(x) is sin(x + pi / 2), where the sum is rounded"},                        // 24
    {"log2_single", "log2 of f64 is computed in f32"},                                             // 24
};

}  // namespace yoke::handmade
