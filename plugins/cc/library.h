// SPDX-License-Identifier: Apache-2.0
// plugins/cc/library.h: divides the products and convolutions that oneDNN computes among threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "contraction.h"
#include "convolution.h"
#include "dnnl_call.h"

namespace yoke::cc {

// One thread's part. a, b, bias and t are its distances in bytes from the start of the whole operands.
struct LibraryPart {
  std::shared_ptr<const DnnlCall> dnnl;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t bias = 0;
  std::int64_t t = 0;
  // A piece of the copy that all parts share (DnnlCall::shared); null: none. Before any part runs, the threads copy
  // all pieces to memory before the parts' scratchpads.
  std::shared_ptr<const DnnlCall> copy = nullptr;
  std::int64_t copy_from = 0;
  std::int64_t copy_to = 0;
};

struct LibraryOptions {
  const DnnlEngine& engine;
  int threads = 1;
  bool plan_only = false;  // as in dnnl_matmul()
};

// The axis along which a product is divided: its longest that is not summed, but if oneDNN has to transpose only
// `a`, rows of the target, because each part along n would transpose the whole of `a` again.
Axis& divided_axis(Contraction& product, std::int64_t threads);

// These return no parts and set `why_not` if oneDNN does not support the statement. A convolution is
// divided along its batch, groups or channels.
std::vector<LibraryPart> divide(const LibraryOptions& options, Contraction product, bool with_bias,
                                std::string& why_not);
std::vector<LibraryPart> divide(const LibraryOptions& options, Convolution convolution, std::string& why_not);

}  // namespace yoke::cc
