// SPDX-License-Identifier: Apache-2.0
// plugins/cc/library.cpp: divides the products and convolutions that oneDNN computes among threads.
#include "library.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dnnl_convolution.h"
#include "dnnl_matmul.h"

namespace yoke::cc {
namespace {

// Threads share a product only if it has at least this many multiplications.
constexpr std::int64_t kParallelProduct = 1 << 18;
// An axis of this length per thread is long enough to be divided even if another is longer, or into whole vectors.
constexpr std::int64_t kLongAxis = 64;
// Channels that oneDNN computes together.
constexpr std::int64_t kChannelBlock = 16;

std::int64_t byte_size(const Operand& operand) {
  return static_cast<std::int64_t>(program::byte_size(operand.type));
}

// Divides `extent` into multiples of `unit`. `step` holds the distances in bytes between neighbors along the
// divided axis; `make` returns the call for the current value of `extent`.
template <class Make>
std::vector<LibraryPart> parts_of(std::int64_t& extent, std::int64_t unit, std::int64_t threads,
                                  const LibraryPart& step, const Make& make) {
  const std::int64_t whole = extent;
  const std::int64_t units = (whole + unit - 1) / unit;
  const std::int64_t count = std::min(threads, units);
  std::vector<LibraryPart> parts;
  std::map<std::int64_t, std::shared_ptr<const DnnlCall>> made;  // by extent
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = units * i / count * unit;
    extent = std::min(units * (i + 1) / count * unit, whole) - first;
    std::shared_ptr<const DnnlCall>& call = made[extent];
    if (!call) {
      call = make();
    }
    if (!call) {
      extent = whole;
      return {};
    }
    parts.push_back({call, first * step.a, first * step.b, first * step.bias, first * step.t});
  }
  return parts;
}

// Adds the pieces of the shared copy to the parts. Returns false if the parts cannot share one.
bool add_copies(const LibraryOptions& options, std::int64_t batch, std::vector<LibraryPart>& parts) {
  for (const LibraryPart& part : parts) {
    if (!part.dnnl->shares_with(*parts[0].dnnl)) {
      return false;
    }
  }
  if (parts[0].dnnl->shared() == DnnlCall::Shared::kNone) {
    return true;
  }
  const auto count = static_cast<std::int64_t>(parts.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = batch * i / count;
    const std::int64_t last = batch * (i + 1) / count;
    if (first == last) {
      continue;
    }
    SharedCopy copy = copy_shared(options.engine, *parts[0].dnnl, first, last, options.plan_only);
    LibraryPart& part = parts[static_cast<std::size_t>(i)];
    if (!copy.call || copy.call->own_byte_count() > part.dnnl->own_byte_count()) {
      return false;
    }
    part.copy = std::move(copy.call);
    part.copy_from = copy.from;
    part.copy_to = copy.to;
  }
  return true;
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

std::vector<LibraryPart> divide(const LibraryOptions& options, Contraction c, bool with_bias,
                                std::string& why_not) {
  const auto threads = c.multiplications() >= kParallelProduct ? std::int64_t{options.threads} : 1;
  Axis& axis = divided_axis(c, threads);
  const bool is_along_n = axis.a == 0;
  const std::int64_t unit = is_along_n && axis.extent >= kLongAxis * threads ? kLongAxis : 1;
  const std::int64_t t = axis.t * byte_size(c.t);
  const LibraryPart step{nullptr, axis.a * byte_size(c.a), axis.b * byte_size(c.b), is_along_n ? t : 0, t};
  return parts_of(axis.extent, unit, threads, step,
                  [&] { return dnnl_matmul(options.engine, c, with_bias, options.plan_only, why_not); });
}

std::vector<LibraryPart> divide(const LibraryOptions& options, Convolution c, std::string& why_not) {
  using Kind = Convolution::Kind;
  const auto threads = c.multiplications() >= kParallelProduct ? std::int64_t{options.threads} : 1;
  std::vector<Channels*> candidates = {&c.group};
  if (c.kind != Kind::kWeightGradient) {
    candidates.insert(candidates.begin(), &c.batch);
  }
  for (Channels* channels : {&c.out, &c.in}) {
    // oneDNN has one stride for the channels of all groups.
    if (c.group.extent == 1 && channels != (c.kind == Kind::kForward         ? &c.in
                                            : c.kind == Kind::kInputGradient ? &c.out
                                                                             : nullptr)) {
      candidates.push_back(channels);
    }
  }
  const auto unit_of = [&](const Channels* axis) {
    return axis == &c.out || axis == &c.in ? kChannelBlock : std::int64_t{1};
  };
  const auto units_of = [&](const Channels* axis) { return axis->extent / unit_of(axis); };
  Channels* chosen = candidates[0];
  for (Channels* axis : candidates) {
    if (units_of(axis) >= threads) {
      chosen = axis;
      break;
    }
    chosen = units_of(axis) > units_of(chosen) ? axis : chosen;
  }
  const Channels along = *chosen;
  const bool input = c.kind == Kind::kInputGradient;
  const bool weights = c.kind == Kind::kWeightGradient;
  const LibraryPart step{nullptr, (input ? along.y : along.x) * byte_size(c.a),
                         (weights ? along.y : along.w) * byte_size(c.b), 0,
                         (input     ? along.x
                          : weights ? along.w
                                    : along.y) *
                             byte_size(c.t)};
  const auto divided = [&](std::int64_t count, DnnlCall::Shared shared) {
    return parts_of(chosen->extent, unit_of(chosen), count, step, [&] {
      return dnnl_convolution(options.engine, c, {shared, count}, options.plan_only, why_not);
    });
  };
  // All parts of a gradient by the weights read the whole operand that is not divided.
  const auto shared = !weights || chosen == &c.group ? DnnlCall::Shared::kNone
                      : chosen == &c.out             ? DnnlCall::Shared::kA
                                                     : DnnlCall::Shared::kB;
  // oneDNN may support fewer and larger parts only.
  std::vector<LibraryPart> parts;
  for (std::int64_t count = threads; count > 0 && parts.empty(); count /= 2) {
    parts = divided(count, count > 1 ? shared : DnnlCall::Shared::kNone);
    if (!parts.empty() && !add_copies(options, c.batch.extent, parts)) {
      parts = divided(count, DnnlCall::Shared::kNone);
    }
  }
  return parts;
}

}  // namespace yoke::cc
