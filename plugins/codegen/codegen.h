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
  bool wgmma = false;                      // products may use instructions of sm_90a only
  bool fused_attention = false;            // attention may be computed without storing its scores
  // Multiprocessors that tiles of products are chosen for: not the device's, so that sums have the same parts on all.
  std::uint32_t processors = 132;
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

// What a LibraryConvolution computes: y from the images x and the filters w, or the gradient of x or of w.
enum class ConvolutionKind : std::uint8_t { kForward, kInputGradient, kFilterGradient };

// Images of a LibraryConvolution: batch, channels, height, width; or filters: outputs, inputs, height, width.
// Tensors of a LibraryAttention: batch, heads, length, size.
struct Volume {
  std::array<std::uint64_t, 4> dims = {1, 1, 1, 1};
  std::array<std::uint64_t, 4> strides = {1, 1, 1, 1};  // in elements
  std::uint64_t offset = 0;  // of the first element, relative to the address in its slot
};

// A convolution that a library of the vendor may compute:
//   y[n, k, p] = y[n, k, p] + sum of x[n, c, stride * p + dilation * r - padding] * w[k, c, r]
// in height and width; x is 0 out of range. The other kinds compute the gradient of x or of w from y. x and y have
// the channels of `groups` groups, and w has the input channels of one. Sums are f32 and are rounded once to `type`.
// With `accumulates`, the result is added to the old one.
struct LibraryConvolution {
  ConvolutionKind kind = ConvolutionKind::kForward;
  program::Type type = program::Type::kF32;  // of x, w and y
  std::array<Volume, 3> volumes;             // x, w, y
  std::uint64_t groups = 1;
  std::array<std::uint64_t, 2> stride = {1, 1};  // of height and width
  std::array<std::uint64_t, 2> dilation = {1, 1};
  std::array<std::uint64_t, 2> padding = {0, 0};  // on both sides
  bool accumulates = false;
  std::uint64_t workspace_byte_count = 0;

  std::size_t result() const {  // into volumes
    return kind == ConvolutionKind::kForward ? 2 : kind == ConvolutionKind::kInputGradient ? 0 : 1;
  }
};

enum class AttentionKind : std::uint8_t { kForward, kBackward };

// Attention that a library of the vendor may compute, for each head of a batch:
//   o = softmax(scale * q * transpose(k)) * v
// With `is_causal`, query i sees only the keys up to i. Its statistics are the logarithm of the sum of exp(scale *
// score) for each query, dense f32 of batch, heads and queries. kBackward computes the gradients of q, k and v
// from that of o and the results of kForward. Sums are f32; the library may round the weights and the gradients of the
// scores to `type`, but need not round the scores.
struct LibraryAttention {
  AttentionKind kind = AttentionKind::kForward;
  program::Type type = program::Type::kBF16;  // of all volumes; bf16 or f16
  std::array<Volume, 8> volumes;              // q, k, v and o; with kBackward, the gradients of o, q, k and v
  float scale = 1;
  bool is_causal = false;
  bool has_statistics = false;  // kForward writes them; kBackward always reads them
  std::uint64_t workspace_byte_count = 0;

  std::size_t volume_count() const { return kind == AttentionKind::kForward ? 4 : 8; }
};

// Arguments that a library reads or writes must have this alignment. Temporaries have it.
inline constexpr std::uint32_t kLibraryAlignment = 16;

// What a library computes on the target. Call: LibraryProduct, LibraryConvolution or LibraryAttention.
template <class Call>
class VendorLibrary {
 public:
  virtual ~VendorLibrary() = default;
  virtual const char* name() const = 0;  // for display: "cublasLt"
  // False if the library is not installed or cannot be used. Asked only if a program has a call for it.
  virtual bool is_available() = 0;
  // Returns the size of the workspace that the library needs for the call; nothing if the library does not
  // compute it. Equal calls get equal answers.
  virtual std::optional<std::uint64_t> workspace_for(const Call& call) = 0;

 protected:
  VendorLibrary() = default;
  VendorLibrary(const VendorLibrary&) = default;
  VendorLibrary(VendorLibrary&&) noexcept = default;
  VendorLibrary& operator=(const VendorLibrary&) = default;
  VendorLibrary& operator=(VendorLibrary&&) noexcept = default;
};

// Null: kernels compute all of them.
struct Libraries {
  VendorLibrary<LibraryProduct>* products = nullptr;
  VendorLibrary<LibraryConvolution>* convolutions = nullptr;
  VendorLibrary<LibraryAttention>* attentions = nullptr;
};

// One launch of a kernel, or a call of a library. The parameters of a kernel, in this order: a pointer for
// each slot; if `reads_symbols`, a `const long long*` to the values of the program's launch symbols, in device
// memory; if `reads_variable`, the value of the repeat block's variable as a `long long`.
struct Launch {
  std::uint32_t kernel = 0;  // index into Plan::kernels
  // If one is set, no kernel is launched. The slots are those of a, b, the result and the bias if there is one,
  // or of x, w and y, or of the volumes of attention and its statistics if it has them; then the workspace if it is
  // not empty.
  std::optional<LibraryProduct> product;
  std::optional<LibraryConvolution> convolution;
  std::optional<LibraryAttention> attention;
  std::array<std::uint32_t, 3> grid = {1, 1, 1};
  std::vector<Slot> slots;
  bool reads_symbols = false;
  bool reads_variable = false;
  std::vector<std::uint32_t> statements;  // what it computes, for messages; ascending
  std::string remark;                     // for display: why it is slow, or what the library does

  bool is_library_call() const {
    return product.has_value() || convolution.has_value() || attention.has_value();
  }
};

struct Kernel {
  std::string name;           // extern "C"
  std::uint32_t threads = 1;  // per block, all along x
  // Shared memory beside what it declares. If there is any, both may be more than Target::shared_bytes.
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
// that the target does not support; the text names the statement and the reason. What `libraries` compute
// becomes launches of them.
Plan generate(const program::Program& program, const Target& target, const Libraries& libraries = {});

}  // namespace yoke::codegen
