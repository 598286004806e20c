// SPDX-License-Identifier: Apache-2.0
// kernel.h: OpenCL C from the statements of a program.
//
// A statement becomes the body of a kernel that is called with one chunk of its elements. Statements that
// share a kernel are the cases of a switch. Every kernel has the same kinds of parameters: `which` statement,
// how many elements for each work-item (`chunk`), memory slots (a buffer and a byte offset each), and
// symbols.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "hardware.h"

namespace ocl {

// What a tensor is bound to: an argument of the program, or a place in the workspace.
struct Slot {
  bool is_workspace = false;
  std::uint32_t argument = 0;
};

// One statement, ready to be a case of a kernel.
struct Body {
  std::string text;
  std::vector<Slot> slots;             // kernel parameters s0, o0, s1, o1, ...
  std::vector<std::uint32_t> symbols;  // kernel parameters y0, y1, ...: numbers of the program's symbols
  std::uint64_t element_count = 1;     // iterations that may run at the same time
  std::uint64_t work_per_element = 1;  // iterations inside each of them
  bool optimized = true;               // by OpenCL's compiler
  std::string remark;                  // for a person: why iterations run one after the other
};

// Where the program's temporaries lie in the workspace, by tensor.
using Offsets = std::span<const std::uint64_t>;

// What the text of a statement depends on besides the program.
struct Form {
  bool in_chunks = false;          // neighbouring elements for one work-item
  std::uint64_t vector_bytes = 0;  // of a register, for tiles of matrix products; 0: no tiles
};

// `helpers` gets the names of the functions that the text uses.
Body print_body(const yoke::program::Program& program, const yoke::program::Statement& statement,
                Offsets offsets, const Form& form, std::set<std::string>& helpers);

// Bytes of a kernel's parameters.
std::uint64_t parameter_bytes(std::size_t slot_count, std::size_t symbol_count);

// "yoke_<number>", with `bodies` as its cases. One that is not optimized says so to Clang, which most OpenCL
// compilers are; others optimize it as well.
std::string print_kernel(std::size_t number, std::span<const Body* const> bodies,
                         std::uint64_t work_group_size, bool optimized);

// What stands before all kernels: the functions that they use.
std::string print_helpers(const std::set<std::string>& helpers, const Hardware& hardware);

}  // namespace ocl
