// SPDX-License-Identifier: Apache-2.0
// plugins/cc/library.h: divides the products and convolutions that oneDNN computes among threads.
#pragma once

#include <string>
#include <vector>

#include "dnnl_call.h"

namespace yoke::cc {

struct LibraryCalls {
  std::vector<LibraryPiece> pieces;
  SharedCopy copy{};  // which the threads make before any piece runs
};

// The axis along which threads divide a product: the longest one that is not summed. If oneDNN must
// transpose only `a` and there are enough rows, it is not an axis of n, because with pieces along n each
// thread would transpose all of `a`.
Axis& divided_axis(Contraction& product, std::int64_t threads);

// These return no pieces and set `why_not` if oneDNN does not support the statement. A convolution is
// divided along its batch, groups or channels.
LibraryCalls divide(const LibraryOptions& options, Contraction product, bool with_bias, std::string& why_not);
LibraryCalls divide(const LibraryOptions& options, Convolution convolution, std::string& why_not);

}  // namespace yoke::cc
