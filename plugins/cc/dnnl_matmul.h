// SPDX-License-Identifier: Apache-2.0
// plugins/cc/dnnl_matmul.h: contractions through oneDNN. Only this header and
// its source use oneDNN (2.x descriptors).
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

// A compiled matrix product. All routines linked from one code share
// it, so the caller provides the scratchpad.
class DnnlMatmul {
 public:
  // Returns null and sets `why_not` if oneDNN has no fast implementation. With `plan_only` oneDNN
  // generates no code and the result must not be executed. Precondition: a OneOpenMpThread exists, here and
  // in each execution.
  static std::shared_ptr<const DnnlMatmul> create(const DnnlEngine& engine, const Contraction& contraction,
                                                  bool with_bias, bool plan_only, std::string& why_not);
  ~DnnlMatmul();
  DnnlMatmul(const DnnlMatmul&) = delete;
  DnnlMatmul& operator=(const DnnlMatmul&) = delete;

  std::uint64_t scratch_byte_count() const;
  const std::string& implementation() const;  // "brg:avx512_core"

  // One routine's memory objects and arguments. A launch only sets their pointers and executes.
  class Bound {
   public:
    Bound(const DnnlMatmul& matmul, void* scratch);
    ~Bound();
    Bound(Bound&&) noexcept;
    Bound& operator=(Bound&&) = delete;
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
