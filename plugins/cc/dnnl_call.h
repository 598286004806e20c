// SPDX-License-Identifier: Apache-2.0
// plugins/cc/dnnl_call.h: a statement that oneDNN computes. Only the sources dnnl_*.cpp use oneDNN (2.x
// descriptors).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace yoke::cc {

class DnnlEngine {
 public:
  DnnlEngine();
  ~DnnlEngine();
  DnnlEngine(const DnnlEngine&) = delete;
  DnnlEngine& operator=(const DnnlEngine&) = delete;
  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
};

// Computes t from a, b and perhaps a bias, with one or more primitives. All routines linked from one code
// share it, so the caller provides the scratchpad. Precondition: a OneOpenMpThread exists during each
// execution.
class DnnlCall {
 public:
  struct Impl;  // dnnl_call_impl.h
  explicit DnnlCall(std::unique_ptr<Impl> impl);
  ~DnnlCall();
  DnnlCall(const DnnlCall&) = delete;
  DnnlCall& operator=(const DnnlCall&) = delete;
  const Impl& impl() const { return *impl_; }

  std::uint64_t scratch_byte_count() const;  // including this call's share of the memory of a shared copy
  std::uint64_t own_byte_count() const;      // without that share
  const std::string& description() const;    // for example "oneDNN matmul (brg:avx512_core)"

  // Names an operand that several calls read in a layout other than the caller's. execute() takes the address of
  // the copy in that layout.
  enum class Shared : std::uint8_t { kNone, kA, kB };
  Shared shared() const;
  std::uint64_t shared_byte_count() const;
  bool shares_with(const DnnlCall& other) const;  // whether both can read the same copy, or share nothing

  // One routine's memory objects and arguments. A launch only sets their pointers and executes.
  class Bound {
   public:
    Bound(const DnnlCall& call, void* scratch);
    ~Bound();
    Bound(const Bound&) = delete;
    Bound(Bound&&) noexcept;
    Bound& operator=(const Bound&) = delete;
    Bound& operator=(Bound&&) = delete;
    void execute(const void* a, const void* b, const void* bias, void* t);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace yoke::cc
