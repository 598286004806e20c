// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/scan.cpp: traces the bodies of scans; cumulative sums and products.
#include <yoke/ops.h>
#include <yoke/runtime/counted.h>
#include <yoke/scan.h>

#include <algorithm>
#include <string>
#include <utility>

#include "loop.h"

namespace yoke {

using detail::fail;
using detail::Loop;

namespace {

std::vector<std::shared_ptr<const Loop>>& loops_being_traced() {
  thread_local std::vector<std::shared_ptr<const Loop>> loops;
  return loops;
}

class Tracing {
 public:
  explicit Tracing(const std::shared_ptr<const Loop>& loop) { loops_being_traced().push_back(loop); }
  ~Tracing() { loops_being_traced().pop_back(); }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;
  Tracing(Tracing&&) = delete;
  Tracing& operator=(Tracing&&) = delete;
};

std::uint64_t rounds_of(const std::vector<Tensor>& xs, std::optional<std::uint64_t> length) {
  if (xs.empty() && !length.value_or(0)) {
    fail("scan: without xs, the length is required and must be at least 1");
  }
  for (const Tensor& x : xs) {
    detail::require(x, "scan");
    if (x.rank() == 0) {
      fail("scan: " + detail::describe(x) + " has no axis 0 to scan over; use it in the body directly");
    }
    const std::uint64_t rounds = length.value_or(xs[0].dims()[0]);
    if (x.dims()[0] != rounds) {
      fail("scan: axis 0 of " + detail::describe(x) + " has size " + std::to_string(x.dims()[0]) + ", but " +
           (length ? "the length" : "that of " + detail::describe(xs[0])) + " is " + std::to_string(rounds));
    }
  }
  return length ? *length : xs[0].dims()[0];
}

std::string text_of(const Tensor& x) {
  return std::string(program::type_name(x.type())) + dims_text(x.dims());
}

// Returns the next carry after a check of its shapes and types. Plain numbers are converted.
std::vector<Tensor> checked(std::vector<Tensor> next, const std::vector<Tensor>& init) {
  if (next.size() != init.size()) {
    fail("scan: the body returns " + detail::counted(next.size(), "carry", "carries") + ", but init has " +
         std::to_string(init.size()));
  }
  for (std::size_t k = 0; k < next.size(); ++k) {
    detail::require(next[k], "scan: the next carry");
    if (const detail::Node* number = detail::constant_of(next[k]); number != nullptr && number->weak) {
      next[k] = broadcast_to(cast(next[k], init[k].type()), init[k].dims());
    }
    if (next[k].type() != init[k].type() || next[k].dims() != init[k].dims()) {
      fail("scan: the body returns carry " + std::to_string(k) + " as " + text_of(next[k]) +
           ", but init has " + text_of(init[k]) + "; they must be equal");
    }
  }
  return next;
}

void refuse_nested(const std::vector<Tensor>& roots) {
  for (const auto& outer : loops_being_traced()) {
    if (!detail::varying_nodes(roots, *outer, outer->order).empty()) {
      fail(
          "scan: a scan in the body of another scan depends on the outer scan's carry or xs, "
          "but repeat blocks do not nest; unroll the inner scan with a C++ loop");
    }
  }
}

// Moves the axis to the front, scans, and moves it back.
Tensor cumulative(program::Op op, const Tensor& x, int axis, const char* operation) {
  detail::require(x, operation);
  const std::size_t at = detail::normal_axis(axis, x.rank(), operation, x);
  const Type type = x.type() == Type::kBool || x.type() == Type::kU8    ? Type::kI64
                    : x.type() == Type::kF16 || x.type() == Type::kBF16 ? Type::kF32
                                                                        : x.type();
  Axes order = {static_cast<int>(at)};
  Axes back;
  for (std::size_t k = 0; k < x.rank(); ++k) {
    if (k != at) {
      order.push_back(static_cast<int>(k));
    }
    back.push_back(k == at ? 0 : static_cast<int>(k < at ? k + 1 : k));
  }
  const Tensor front = permute(cast(x, type), order);
  const Tensor first =
      full(type, {front.dims().begin() + 1, front.dims().end()}, op == program::Op::kMul ? 1 : 0);
  const ScanBody body = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& slice) {
    const Tensor next = detail::map(op, {carry[0], slice[0]});
    return Scan{{next}, {next}};
  };
  const Tensor result = permute(scan(body, {first}, {front}).ys[0], back);
  return type == Type::kF32 ? cast(result, x.type()) : result;
}

}  // namespace

Scan scan(const ScanBody& body, const std::vector<Tensor>& init, const std::vector<Tensor>& xs,
          std::optional<std::uint64_t> length) {
  if (!body) {
    fail("scan: the body is empty");
  }
  const auto loop = detail::new_loop(rounds_of(xs, length), init.size());
  std::vector<Tensor> carry;
  for (const Tensor& one : init) {
    detail::require(one, "scan: init");
    carry.push_back(detail::carry_node(loop, carry.size(), one.type(), one.dims()));
  }
  std::vector<Tensor> slices;
  slices.reserve(xs.size());
  for (const Tensor& x : xs) {
    slices.push_back(detail::element_in_round(x, loop->variable, 1, 0));
  }
  Scan traced;
  {
    const Tracing tracing(loop);
    traced = body(carry, slices);
  }
  std::vector<Tensor> roots = checked(std::move(traced.carry), init);
  for (const Tensor& y : traced.ys) {
    detail::require(y, "scan: a value of the body");
    roots.push_back(y);
  }
  roots = detail::with_products_hoisted(roots, *loop);
  const auto varying = detail::varying_nodes(roots, *loop, loop->order);
  const auto ys = roots.begin() + static_cast<std::ptrdiff_t>(init.size());
  detail::Results results(loop, init, {roots.begin(), ys}, {varying.begin(), varying.end()});
  Scan scanned;
  for (std::size_t k = 0; k < init.size(); ++k) {
    scanned.carry.push_back(results.last(k));
  }
  for (auto y = ys; y != roots.end(); ++y) {
    scanned.ys.push_back(results.after_loop(*y));
  }
  std::vector<Tensor> all = scanned.carry;
  all.insert(all.end(), scanned.ys.begin(), scanned.ys.end());
  refuse_nested(all);
  return scanned;
}

Tensor cumsum(const Tensor& x, int axis) {
  return cumulative(program::Op::kAdd, x, axis, "cumsum");
}
Tensor cumprod(const Tensor& x, int axis) {
  return cumulative(program::Op::kMul, x, axis, "cumprod");
}

}  // namespace yoke
