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
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::codegen {

enum class Dialect : std::uint8_t { kCuda, kHip };

// The device that the kernels are for. Sums have the same order on all devices with the same warp size and matrix
// units.
struct Target {
  Dialect dialect = Dialect::kCuda;
  std::uint32_t capability = 0;  // CUDA: 10 * major + minor, such as 90
  std::string architecture;      // HIP: "gfx90a"
  std::uint32_t warp_size = 32;
  std::uint32_t max_threads = 1024;        // per block
  std::uint32_t shared_bytes = 48 * 1024;  // per block, without opting in to more
  bool atomics = false;                    // scatters may add in any order
};

// One pointer parameter of a kernel: an argument of the program, or the workspace.
struct Slot {
  static constexpr std::uint32_t kWorkspace = ~std::uint32_t{0};
  std::uint32_t argument = kWorkspace;  // index into Program::arguments()
  std::uint64_t offset = 0;             // in bytes; 0 for arguments
};

// A matrix of a LibraryProduct, stored column by column. All numbers count elements.
struct Matrix {
  program::Type type = program::Type::kF32;
  std::uint64_t rows = 1;
  std::uint64_t columns = 1;
  std::uint64_t pitch = 1;         // from a column to the next
  std::uint64_t batch_stride = 0;  // from a matrix to the next
  std::uint64_t offset = 0;        // of the first matrix, from the address in its slot
  bool is_transposed = false;      // the product uses its transpose; not for results
};

// A product of matrices that a library of the vendor may compute:
//   result = relu(result + a * b + bias)
// for each of `batch` matrices. Sums are f32, and rounded once to the type of the result. `accumulates` adds
// the old result, `has_bias` an f32 for each row of the result; `has_relu` replaces negative elements by 0.
struct LibraryProduct {
  Matrix a;
  Matrix b;
  Matrix result;
  std::uint64_t depth = 1;  // terms of a sum
  std::uint64_t batch = 1;
  bool accumulates = false;
  bool has_bias = false;
  bool has_relu = false;
  std::uint64_t bias_offset = 0;  // in elements
  std::uint64_t workspace_byte_count = 0;
};

// Arguments that a library reads or writes must have this alignment. Temporaries have it.
inline constexpr std::uint32_t kLibraryAlignment = 16;

// Which products a library computes on the target.
class ProductLibrary {
 public:
  virtual ~ProductLibrary() = default;
  virtual const char* name() const = 0;  // for display: "cublasLt"
  // False: the library is not installed or cannot be used. Called when a program has a product.
  virtual bool is_available() = 0;
  // Returns the size of the workspace that the library needs for the product; nothing if the library does not
  // compute it. Equal products get equal answers.
  virtual std::optional<std::uint64_t> workspace_for(const LibraryProduct& product) = 0;

 protected:
  ProductLibrary() = default;
  ProductLibrary(const ProductLibrary&) = default;
  ProductLibrary(ProductLibrary&&) = default;
  ProductLibrary& operator=(const ProductLibrary&) = default;
  ProductLibrary& operator=(ProductLibrary&&) = default;
};

// One launch of a kernel, or a product of the library. The parameters of a kernel, in this order: a pointer for
// each slot; if `reads_symbols`, a `const long long*` to the values of the program's launch symbols, in device
// memory; if `reads_variable`, the value of the repeat block's variable as a `long long`.
struct Launch {
  std::uint32_t kernel = 0;  // index into Plan::kernels
  // If set, no kernel is launched, and the slots are those of a, b, the result, the bias if there is one, and
  // the workspace if it is not empty.
  std::optional<LibraryProduct> product;
  std::array<std::uint32_t, 3> grid = {1, 1, 1};
  std::vector<Slot> slots;
  bool reads_symbols = false;
  bool reads_variable = false;
  std::uint32_t first_statement = 0;  // what it computes, for messages: [first, last)
  std::uint32_t last_statement = 0;
  std::string remark;  // for display: why it is slow, or what the library does
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
  bool is_deterministic = true;  // equal arguments give equal bits
};

// Precondition: the program is verified. Throws sdk::Failure with YOKE_STATUS_UNIMPLEMENTED for a statement
// that the target does not support; the text names the statement and the reason. Products that `library`
// computes become launches of it; null: kernels compute all products.
Plan generate(const program::Program& program, const Target& target, ProductLibrary* library = nullptr);

}  // namespace yoke::codegen
