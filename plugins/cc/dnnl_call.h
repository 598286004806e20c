// SPDX-License-Identifier: Apache-2.0
// plugins/cc/dnnl_call.h: a statement that oneDNN computes. Only the sources dnnl_*.cpp use oneDNN (2.x
// descriptors).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contraction.h"
#include "convolution.h"

namespace yoke::cc {

struct DnnlEngine {
  DnnlEngine();
  std::shared_ptr<void> handle;
};

struct LibraryOptions {
  const DnnlEngine& engine;
  int threads = 1;
  bool plan_only = false;  // oneDNN generates no code, and the calls must not be bound
};

// Computes t from a, b and perhaps a bias, with one or more primitives. All routines linked from one code
// share it, so the caller provides the scratchpad.
struct DnnlCall {
  struct Impl;  // dnnl_call_impl.h
  std::shared_ptr<const Impl> impl;
  std::string description;  // for example "oneDNN matmul (brg:avx512_core)"
  std::uint64_t scratch_byte_count = 0;
};

// One routine's memory objects and arguments. A launch only sets their pointers and executes. Precondition: a
// OneOpenMpThread exists during each execution.
class BoundCall {
 public:
  BoundCall(const DnnlCall& call, void* scratch);
  void execute(const void* a, const void* b, const void* bias, void* t);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// One thread's piece of work. a, b, bias and t are its distances in bytes from the start of the whole
// operands.
struct LibraryPiece {
  DnnlCall call;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t bias = 0;
  std::int64_t t = 0;
};

// The operand that several calls read from one copy.
enum class Shared : std::uint8_t { kNone, kA, kB };
// A copy of an operand in a layout that oneDNN prefers.
struct SharedCopy {
  Shared operand = Shared::kNone;
  std::vector<LibraryPiece> pieces{};  // copy from `a` to `t`
  std::uint64_t byte_count = 0;
};

// These return nothing and set `why_not` if oneDNN has no fast implementation. Precondition: a
// OneOpenMpThread exists. A call for a convolution copies its operands to the layouts that oneDNN prefers,
// and its result back, in the scratchpad. The caller copies the `shared` operand; see shared_copy().
std::optional<DnnlCall> dnnl_matmul(const LibraryOptions& options, const Contraction& contraction,
                                    bool with_bias, std::string& why_not);
std::optional<DnnlCall> dnnl_convolution(const LibraryOptions& options, const Convolution& convolution,
                                         Shared shared, std::string& why_not);

// Describes the copy that all `pieces` read. `copy.pieces` is empty if they read the operand itself.
// Returns false if no single copy suits all pieces, or if threads cannot make it image by image with a fast
// oneDNN copy.
bool shared_copy(const LibraryOptions& options, const std::vector<LibraryPiece>& pieces, SharedCopy& copy);

}  // namespace yoke::cc
