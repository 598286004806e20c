// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/general.h: kernels for any statement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "builder.h"
#include "printer.h"

namespace yoke::codegen {

// The grid for one thread per element: at most kMostBlocks blocks, whose threads then loop.
constexpr std::uint64_t kMostBlocks = std::uint64_t{1} << 16U;

// Opens the scope in which `name` is the number of an element, and returns the number of blocks.
std::uint32_t open_elements(Printer& printer, std::uint64_t count, std::uint32_t threads,
                            const std::string& name);
// Prints the index of each loop of a row-major number, and returns the names.
std::vector<std::string> split(Printer& printer, const std::string& number,
                               const std::vector<std::uint64_t>& extents);

// A thread for each element that is written independently of others; everything else is serial.
void plan_general(Builder& builder, std::size_t statement);

}  // namespace yoke::codegen
