// SPDX-License-Identifier: Apache-2.0
// kernel.h: generates OpenCL C from the statements of a program.
//
// Several statements can share a kernel, as cases of a switch. The parameters of every kernel are the
// number of the statement (`which`), the number of elements per work-item (`chunk`), memory slots (a buffer
// and a byte offset each), and symbols.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "hardware.h"

namespace ocl {

// Memory that a tensor is bound to: an argument of the program, or the workspace.
struct Slot {
  bool is_workspace = false;
  std::uint32_t argument = 0;
};

// The code of one statement, to be a case of a kernel.
struct Body {
  std::string text;
  std::vector<Slot> slots;             // kernel parameters s0, o0, s1, o1, ...
  std::vector<std::uint32_t> symbols;  // kernel parameters y0, y1, ...: indices into Program::symbols
  std::uint64_t element_count = 1;     // iterations that may run in parallel
  std::uint64_t work_per_element = 1;  // serial iterations of each
  bool optimized = true;               // compile with optimization
  std::string remark;                  // for display: why some iterations are serial
};

// Byte offsets of the temporaries in the workspace, by tensor.
using Offsets = std::span<const std::uint64_t>;

// How to generate code for a device.
struct Form {
  bool in_chunks = false;          // a work-item computes consecutive elements
  std::uint64_t vector_bytes = 0;  // size of a vector register, for tiles; 0: no tiles
};

// Adds the names of the functions that the code uses to `helpers`.
Body print_body(const yoke::program::Program& program, const yoke::program::Statement& statement,
                Offsets offsets, const Form& form, std::set<std::string>& helpers);

// Size of a kernel's parameters in bytes.
std::uint64_t parameter_bytes(std::size_t slot_count, std::size_t symbol_count);

// The kernel "yoke_<number>" with `bodies` as its cases. Without `optimized`, it has a pragma of Clang,
// which most OpenCL compilers are based on; other compilers ignore the pragma.
std::string print_kernel(std::size_t number, std::span<const Body* const> bodies,
                         std::uint64_t work_group_size, bool optimized);

// The functions that the kernels use.
std::string print_helpers(const std::set<std::string>& helpers, const Hardware& hardware);

}  // namespace ocl
