// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/bounded.cpp: which columns of a row are in range.
#include <algorithm>

#include "kernel.h"

namespace yoke::cc {

using std::int64_t;

namespace {

// The first column at which every division is exact; nc if there is none.
int64_t first_exact(const Bounded& bounded, const Lines& lines, int64_t nc) {
  for (int64_t c = 0; c < std::min(bounded.period, nc); ++c) {
    bool exact = true;
    for (std::size_t i = 0; i < bounded.dims.size(); ++i) {
      const int64_t divisor = bounded.dims[i].divisor;
      exact = exact && (divisor == 1 || (lines[i].place + c * lines[i].step) % divisor == 0);
    }
    if (exact) {
      return c;
    }
  }
  return nc;
}

}  // namespace

Columns columns_inside(const Bounded& bounded, const Lines& lines, int64_t nc) {
  int64_t low = 0;
  int64_t high = nc;
  for (std::size_t i = 0; i < bounded.dims.size(); ++i) {
    const auto [place, step] = lines[i];
    const int64_t extent = bounded.dims[i].extent * bounded.dims[i].divisor;
    if (step == 0) {
      high = place < 0 || place >= extent ? 0 : high;
    } else if (step > 0) {
      low = std::max(low, place < 0 ? (-place + step - 1) / step : 0);
      high = std::min(high, place >= extent ? 0 : (extent - place + step - 1) / step);
    } else {
      low = std::max(low, place >= extent ? (place - extent) / -step + 1 : 0);
      high = std::min(high, place < 0 ? 0 : place / -step + 1);
    }
    if (low >= high) {
      return {};
    }
  }
  int64_t first = first_exact(bounded, lines, nc);
  if (first < low) {
    first += (low - first + bounded.period - 1) / bounded.period * bounded.period;
  }
  return first >= high ? Columns{} : Columns{first, (high - 1 - first) / bounded.period + 1};
}

}  // namespace yoke::cc
