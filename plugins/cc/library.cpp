// SPDX-License-Identifier: Apache-2.0
// plugins/cc/library.cpp: divides the products and convolutions that oneDNN computes among threads.
#include "library.h"

#include <algorithm>
#include <map>
#include <optional>

namespace yoke::cc {
namespace {

// Threads share a product only if it has at least this many multiplications.
constexpr std::int64_t kParallelProduct = 1 << 18;
// With this many elements per thread, the rows may be divided although n is longer, and an axis of n is
// divided into multiples of this length.
constexpr std::int64_t kLongAxis = 64;
// Channels that oneDNN computes together.
constexpr std::int64_t kChannelBlock = 16;

std::int64_t byte_size(const Operand& operand) {
  return static_cast<std::int64_t>(program::byte_size(operand.type));
}

// Divides an axis of `sum` into multiples of `unit`. `make` returns the call for the current extent of
// `axis`.
template <class Make>
std::vector<LibraryPiece> pieces_of(const SumOfProducts& sum, Axis& axis, std::int64_t unit,
                                    std::int64_t threads, const Make& make) {
  const std::int64_t whole = axis.extent;
  const std::int64_t units = (whole + unit - 1) / unit;
  const std::int64_t count = std::min(threads, units);
  std::vector<LibraryPiece> pieces;
  std::map<std::int64_t, std::optional<DnnlCall>> made;  // by extent
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = units * i / count * unit;
    axis.extent = std::min(units * (i + 1) / count * unit, whole) - first;
    std::optional<DnnlCall>& call = made[axis.extent];
    if (!call) {
      call = make();
    }
    if (!call) {
      pieces.clear();
      break;
    }
    const std::int64_t t = first * axis.t * byte_size(sum.t);
    pieces.push_back({.call = *call,
                      .a = first * axis.a * byte_size(sum.a),
                      .b = first * axis.b * byte_size(sum.b),
                      .bias = axis.a == 0 ? t : 0,
                      .t = t});
  }
  axis.extent = whole;
  return pieces;
}

}  // namespace

Axis& divided_axis(Contraction& c, std::int64_t threads) {
  const bool transposes_a = c.k.back().a != 1 && c.k.back().b != 1;
  Axis* longest = nullptr;
  for (std::vector<Axis>* axes : {&c.batch, &c.m, &c.n}) {
    if (axes == &c.n && transposes_a && extent_of(c.m) >= kLongAxis * threads) {
      continue;
    }
    for (Axis& axis : *axes) {
      longest = longest == nullptr || axis.extent > longest->extent ? &axis : longest;
    }
  }
  return *longest;
}

LibraryCalls divide(const LibraryOptions& options, Contraction c, bool with_bias, std::string& why_not) {
  const auto threads = c.multiplications() >= kParallelProduct ? std::int64_t{options.threads} : 1;
  Axis& axis = divided_axis(c, threads);
  // Pieces consist of whole vectors if there are enough of them.
  const std::int64_t unit = axis.a == 0 && axis.extent >= kLongAxis * threads ? kLongAxis : 1;
  return {pieces_of(c, axis, unit, threads, [&] { return dnnl_matmul(options, c, with_bias, why_not); })};
}

LibraryCalls divide(const LibraryOptions& options, Convolution c, std::string& why_not) {
  using Kind = Convolution::Kind;
  const auto threads = c.multiplications() >= kParallelProduct ? std::int64_t{options.threads} : 1;
  std::vector<Axis*> candidates = {&c.group};
  if (c.kind != Kind::kWeightGradient) {
    candidates.insert(candidates.begin(), &c.batch);
  }
  if (c.group.extent == 1) {  // oneDNN has one stride for the channels of all groups
    if (c.kind != Kind::kInputGradient) {
      candidates.push_back(&c.out);
    }
    if (c.kind != Kind::kForward) {
      candidates.push_back(&c.in);
    }
  }
  const auto unit_of = [&](const Axis* axis) {
    return axis == &c.out || axis == &c.in ? kChannelBlock : std::int64_t{1};
  };
  const auto units_of = [&](const Axis* axis) { return std::min(axis->extent / unit_of(axis), threads); };
  Axis* const axis =
      *std::max_element(candidates.begin(), candidates.end(),
                        [&](const Axis* x, const Axis* y) { return units_of(x) < units_of(y); });
  // All pieces of a gradient by the weights read the whole operand that is not divided.
  const Shared shared = c.kind != Kind::kWeightGradient || axis == &c.group ? Shared::kNone
                        : axis == &c.out                                    ? Shared::kA
                                                                            : Shared::kB;
  const auto divided = [&](std::int64_t count, Shared operand) {
    return LibraryCalls{pieces_of(c, *axis, unit_of(axis), count,
                                  [&] { return dnnl_convolution(options, c, operand, why_not); })};
  };
  // oneDNN may support fewer and larger pieces only.
  LibraryCalls calls;
  for (std::int64_t count = threads; count > 0 && calls.pieces.empty(); count /= 2) {
    calls = divided(count, count > 1 ? shared : Shared::kNone);
    if (!calls.pieces.empty() && !shared_copy(options, calls.pieces, calls.copy)) {
      calls = divided(count, Shared::kNone);
    }
  }
  return calls;
}

}  // namespace yoke::cc
