// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/codegen.h: translates a program to the source of GPU kernels and a list of launches.
//
// The text is CUDA C++ without includes and templates. A prelude per dialect (prelude.h) defines what differs
// between NVRTC, hiprtc and the host compiler of the tests. The generator calls no driver; results depend
// only on its arguments. Every function is safe to call from any thread.
#pragma once

#include <yoke/program/program.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::codegen {

enum class Dialect : std::uint8_t { kCuda, kHip };

// The device that the kernels are for. Sums have the same order on all devices of a warp size.
struct Target {
  Dialect dialect = Dialect::kCuda;
  std::uint32_t capability = 0;  // CUDA: 10 * major + minor, such as 90
  std::string architecture;      // HIP: "gfx90a"
  std::uint32_t warp_size = 32;
  std::uint32_t max_threads = 1024;        // per block
  std::uint32_t shared_bytes = 48 * 1024;  // per block, without opting in to more
};

// One pointer parameter of a kernel: an argument of the program, or the workspace.
struct Slot {
  static constexpr std::uint32_t kWorkspace = ~std::uint32_t{0};
  std::uint32_t argument = kWorkspace;  // index into Program::arguments()
  std::uint64_t offset = 0;             // in bytes; 0 for arguments
};

// One launch of a kernel. Its parameters, in this order: a pointer for each slot; if `reads_symbols`, a
// `const long long*` to the values of the program's launch symbols, in device memory; if `reads_variable`,
// the value of the repeat block's variable as a `long long`.
struct Launch {
  std::uint32_t kernel = 0;  // index into Plan::kernels
  std::array<std::uint32_t, 3> grid = {1, 1, 1};
  std::vector<Slot> slots;
  bool reads_symbols = false;
  bool reads_variable = false;
  std::uint32_t first_statement = 0;  // what it computes, for messages: [first, last)
  std::uint32_t last_statement = 0;
  std::string remark;  // for display: why it is slow; empty: it is not
};

struct Kernel {
  std::string name;           // extern "C"
  std::uint32_t threads = 1;  // per block, all along x
  std::uint32_t dynamic_shared_bytes = 0;
  std::uint32_t statement = 0;  // the first statement that it was generated for, for messages
};

// Consecutive launches that run once, or once for each value of a repeat variable.
struct Round {
  std::uint32_t first_launch = 0;  // [first, last)
  std::uint32_t last_launch = 0;
  std::int64_t low = 0;  // values low, low + step, ...
  std::int64_t step = 1;
  std::uint64_t count = 1;
};

struct Plan {
  std::string source;  // one translation unit with every kernel
  std::vector<Kernel> kernels;
  std::vector<Launch> launches;
  std::vector<Round> rounds;  // together all launches, in order of execution
  std::uint64_t workspace_byte_count = 0;
};

// Changes whenever the generated text may change for the same program and target.
std::string_view revision();

// Precondition: the program is verified. Throws sdk::Failure with YOKE_STATUS_UNIMPLEMENTED for a statement
// that the target does not support; the text names the statement and the reason.
Plan generate(const program::Program& program, const Target& target);

}  // namespace yoke::codegen
