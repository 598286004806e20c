// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/variants.h: programs that differ from a program in one thing.
#pragma once

#include <yoke/program/program.h>

#include <vector>

namespace yoke::conformance {

// Every valid program that differs from `base` in one attribute: a name, an extent, a dimension, a type, a bound or
// step of a symbol, an operation, the order of operands, a number by as little as its type allows, an index, a tensor,
// an assignment, a reduction, an accumulator, a hint, or the order of statements and arguments. No two are equal. What
// other statements or rules exclude is left out.
std::vector<program::Program> variants_of(const program::Program& base);

}  // namespace yoke::conformance
