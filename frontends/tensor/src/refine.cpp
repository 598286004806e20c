// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/refine.cpp: finds the common loops of two shapes from their row-major strides.
#include "refine.h"

#include <algorithm>
#include <functional>

namespace yoke::detail {
namespace {

// Appends the strides of all axes, and the number of elements.
void add_cuts(const Dims& dims, std::vector<std::uint64_t>& cuts) {
  std::uint64_t stride = 1;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    cuts.push_back(stride);
    stride *= *dim;
  }
  cuts.push_back(stride);
}

std::vector<std::vector<Refinement::Term>> terms_of(const Dims& dims,
                                                    const std::vector<std::uint64_t>& cuts) {
  std::vector<std::vector<Refinement::Term>> all(dims.size());
  std::uint64_t stride = 1;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    const std::uint64_t end = stride * dims[axis];
    for (std::size_t loop = 0; loop + 1 < cuts.size(); ++loop) {  // its strides: cuts[loop + 1] to cuts[loop]
      if (cuts[loop + 1] >= stride && cuts[loop] <= end) {
        all[axis].push_back({loop, static_cast<std::int64_t>(cuts[loop + 1] / stride)});
      }
    }
    stride = end;
  }
  return all;
}

}  // namespace

bool Refinement::is_view() const {
  return std::all_of(result.begin(), result.end(), [](const auto& terms) { return terms.size() <= 1; });
}

std::optional<Refinement> refine(const Dims& source, const Dims& result) {
  std::vector<std::uint64_t> cuts;
  add_cuts(source, cuts);
  add_cuts(result, cuts);
  std::sort(cuts.begin(), cuts.end(), std::greater<>());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  Refinement refinement;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i] % cuts[i + 1] != 0) {
      return std::nullopt;
    }
    refinement.loops.push_back(cuts[i] / cuts[i + 1]);
  }
  refinement.source = terms_of(source, cuts);
  refinement.result = terms_of(result, cuts);
  return refinement;
}

}  // namespace yoke::detail
