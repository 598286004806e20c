// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/einsum_spec.h: the parsed form of "bi,oi->bo" or "b 2*o+k; k => b o".
#pragma once

#include <yoke/tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::detail::einsum_spec {

struct Term {
  std::string text;  // as written
  std::string name;  // "..." for further axes; empty: element `factor` of the axis
  std::uint64_t factor = 1;
  std::string other;  // of factor * name + other_factor * other; empty: no sum
  std::uint64_t other_factor = 1;
  bool is_padded = false;

  bool is_plain() const { return !name.empty() && other.empty() && factor == 1; }
  bool is_rest() const { return name == "..."; }
};
using Terms = std::vector<Term>;  // "..." at most once

Term plain(const std::string& name);  // an index, or "..."

bool has_rest(const Terms& terms);

// The axis of terms[i], which is not "...".
std::size_t axis_of(const Terms& terms, std::size_t i, const Tensor& arg);

struct Spec {
  std::string text;  // `einsum "b i => b"`, for messages
  std::vector<Terms> operands;
  Terms result;
};

// Error kInvalidArgument, with the column: the text is malformed.
Spec parse(std::string_view spec);

}  // namespace yoke::detail::einsum_spec
