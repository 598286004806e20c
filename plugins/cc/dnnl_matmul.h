// SPDX-License-Identifier: Apache-2.0
// plugins/cc/dnnl_matmul.h: contractions by oneDNN. The only header and source that know oneDNN (2.x
// descriptors).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "contraction.h"

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

// A compiled matrix product. Shared by the routines of one code: the scratchpad is always the caller's.
class DnnlMatmul {
 public:
  // Nothing, and why, where oneDNN has no fast implementation. Call it with the OpenMP threads that will run
  // it.
  static std::shared_ptr<const DnnlMatmul> create(const DnnlEngine& engine, const Contraction& contraction,
                                                  bool with_bias, std::string& why_not);
  ~DnnlMatmul();
  DnnlMatmul(const DnnlMatmul&) = delete;
  DnnlMatmul& operator=(const DnnlMatmul&) = delete;

  std::uint64_t scratch_byte_count() const;
  const std::string& implementation() const;  // "brg:avx512_core"

  // One routine's memory objects and arguments. A launch sets pointers, and executes.
  class Bound {
   public:
    Bound(const DnnlMatmul& matmul, void* scratch);
    ~Bound();
    Bound(const Bound&) = delete;
    Bound& operator=(const Bound&) = delete;
    void execute(const void* a, const void* b, const void* bias, void* t);

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

 private:
  DnnlMatmul();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace yoke::cc
