// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/simplify.h: what compiling a program leaves out or merges with some bugs.
#pragma once

#include <yoke/program/memory.h>
#include <yoke/program/program.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace yoke::strip {

namespace program = yoke::program;

// Whether the statement is not needed, because a later one sets its target and no statement reads it before. With the
// bug overwritten_indices only: the later one may have fewer iterations.
bool is_overwritten(const program::Program& source, std::size_t number);

// The argument that the statement copies as a whole to a temporary, which no other statement writes. With the bug
// forwarded_copy only: later statements may change the argument.
std::optional<std::uint32_t> copied_argument(const program::Program& source, std::size_t number);

// Replaces x * 0 and x - x by 0. With the bug absorbing_zero only: they are nan for infinity and nan.
void fold_zeros(program::Program& source);

// The program with 6 decimals of each number. With the bug key_decimals only.
program::Program with_decimals(const program::Program& source);

// The text without the types of arguments. With the bug untyped_key only.
std::string without_types(const std::string& text);

// The lifetimes of the temporaries. With the bug index_lifetime, reads as an index do not count.
std::vector<program::Lifetime> lifetimes_of(const program::Program& source);

}  // namespace yoke::strip
