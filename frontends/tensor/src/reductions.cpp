// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/reductions.cpp: reductions over axes, and
// the sums of products that einsum and autodiff use.
#include <yoke/ops.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <utility>

#include "node.h"

namespace yoke {

namespace detail {
namespace {

// Replaces an operand with repeated labels by its diagonal.
void take_diagonal(Tensor& arg, std::vector<int>& labels) {
  std::vector<int> unique;
  std::vector<int> axes;
  Dims dims;
  for (std::size_t k = 0; k < labels.size(); ++k) {
    auto found = std::find(unique.begin(), unique.end(), labels[k]);
    if (found == unique.end()) {
      unique.push_back(labels[k]);
      dims.push_back(arg.dims()[k]);
      found = unique.end() - 1;
    }
    axes.push_back(static_cast<int>(found - unique.begin()));
  }
  if (unique.size() != labels.size()) {
    arg = permute_node(arg, std::move(dims), axes);
    labels = std::move(unique);
  }
}

template <class T>
bool contains(const std::vector<T>& all, T one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

Dims sizes_of(const std::vector<int>& labels, const Dims& extents) {
  Dims sizes;
  for (const int label : labels) {
    sizes.push_back(extents[static_cast<std::size_t>(label)]);
  }
  return sizes;
}

// The operands of contract() that are not constant, and the product of the constant factors.
struct Operands {
  std::vector<Tensor> args;
  std::vector<std::vector<int>> labels;
  double factor = 1;
  Type type = Type::kF32;

  bool has(int label) const {
    return std::any_of(labels.begin(), labels.end(), [&](const auto& own) { return contains(own, label); });
  }
  // Whether there are labels to sum over.
  bool sums(const std::vector<int>& kept) const {
    return std::any_of(labels.begin(), labels.end(), [&](const auto& own) {
      return std::any_of(own.begin(), own.end(), [&](int label) { return !contains(kept, label); });
    });
  }
};

Operands split_constants(std::vector<Tensor> args, std::vector<std::vector<int>> labels,
                         const std::vector<int>& out, const Dims& extents) {
  Operands operands;
  operands.type = args[0].type();
  std::vector<int> all = out;
  for (std::size_t i = 0; i < args.size(); ++i) {
    for (const int label : labels[i]) {
      if (!contains(all, label)) {
        all.push_back(label);
      }
    }
    take_diagonal(args[i], labels[i]);
    // Axes of size 1 that the result lacks need no sum.
    drop_axes(args[i], labels[i],
              [&](std::size_t k) { return args[i].dims()[k] == 1 && !contains(out, labels[i][k]); });
    if (const auto number = number_of(args[i]); number && program::is_float(args[i].type())) {
      operands.factor *= *number;
      continue;
    }
    operands.args.push_back(args[i]);
    operands.labels.push_back(labels[i]);
  }
  for (const int label : all) {
    if (!contains(out, label) && !operands.has(label)) {
      operands.factor *= static_cast<double>(extents[static_cast<std::size_t>(label)]);
    }
  }
  return operands;
}

// Builds the sum, with labels renumbered so that the result's axes come first.
Tensor sum_of_products(const Operands& operands, const std::vector<int>& kept, const Dims& extents) {
  std::vector<int> order = kept;
  for (const auto& own : operands.labels) {
    std::copy_if(own.begin(), own.end(), std::back_inserter(order),
                 [&](int label) { return !contains(order, label); });
  }
  Dims dims = sizes_of(kept, extents);
  Dims reduced = sizes_of({order.begin() + static_cast<std::ptrdiff_t>(kept.size()), order.end()}, extents);
  std::vector<std::vector<int>> renumbered = operands.labels;
  for (auto& own : renumbered) {
    for (int& label : own) {
      label = static_cast<int>(std::find(order.begin(), order.end(), label) - order.begin());
    }
  }
  if (operands.args.size() == 1 && reduced.empty()) {
    return permute_node(operands.args[0], std::move(dims), renumbered[0]);
  }
  if (reduced.empty()) {
    Tensor product;
    for (std::size_t i = 0; i < operands.args.size(); ++i) {
      const Tensor factor = permute_node(operands.args[i], dims, renumbered[i]);
      product = product ? product * factor : factor;
    }
    return product;
  }
  auto node = new_node(Kind::kReduce, operands.type, std::move(dims));
  node->args = operands.args;
  node->reduce = program::Reduce::kSum;
  node->labels = std::move(renumbered);
  node->reduced = std::move(reduced);
  return finish(std::move(node));
}

// Splits a sum of products of more than two operands into products of pairs. Dynamic programming over the
// subsets of the operands finds the order with the fewest multiplications.
class PairwiseOrder {
 public:
  PairwiseOrder(const Operands& operands, const std::vector<int>& kept, const Dims& extents)
      : operands_(operands), kept_(kept), extents_(extents), best_(std::size_t{1} << operands.args.size()) {
    for (std::size_t set = 1; set < best_.size(); ++set) {
      Best& best = best_[set];
      best.labels = labels_of(set);
      for (std::size_t part = (set - 1) & set; part > set - part; part = (part - 1) & set) {
        const Best& one = best_[part];
        const Best& other = best_[set - part];
        double cost = one.cost + other.cost + 1;
        double size = 1;
        for (const int label : one.labels) {
          size *= extent(label);
        }
        for (const int label : other.labels) {
          size *= contains(one.labels, label) ? 1 : extent(label);
        }
        cost += size;
        if (best.part == 0 || cost < best.cost) {
          best.cost = cost;
          best.part = part;
        }
      }
    }
  }

  Tensor build() const { return build(best_.size() - 1); }

 private:
  struct Best {
    double cost = 0;
    std::size_t part = 0;     // the set of the last product's second factor; 0: the set is one operand
    std::vector<int> labels;  // of the result
  };

  double extent(int label) const { return static_cast<double>(extents_[static_cast<std::size_t>(label)]); }

  // The labels that remain when the operands of the set are multiplied and summed.
  std::vector<int> labels_of(std::size_t set) const {
    if (set + 1 == best_.size()) {
      return kept_;
    }
    std::vector<int> labels;
    for (std::size_t i = 0; i < operands_.labels.size(); ++i) {
      for (const int label : operands_.labels[i]) {
        bool stays = contains(kept_, label);
        for (std::size_t other = 0; other < operands_.labels.size(); ++other) {
          stays = stays || ((set >> other & 1) == 0 && contains(operands_.labels[other], label));
        }
        if ((set >> i & 1) != 0 && stays && !contains(labels, label)) {
          labels.push_back(label);
        }
      }
    }
    return labels;
  }

  Tensor build(std::size_t set) const {
    const Best& best = best_[set];
    Operands now;
    now.type = operands_.type;
    if (best.part == 0) {
      const auto i = static_cast<std::size_t>(std::countr_zero(set));
      now.args = {operands_.args[i]};
      now.labels = {operands_.labels[i]};
    } else {
      now.args = {build(set - best.part), build(best.part)};
      now.labels = {best_[set - best.part].labels, best_[best.part].labels};
    }
    return sum_of_products(now, best.labels, extents_);
  }

  const Operands& operands_;
  const std::vector<int>& kept_;
  const Dims& extents_;
  std::vector<Best> best_;  // by set of operands
};

}  // namespace

std::vector<int> labels_up_to(std::size_t count) {
  std::vector<int> labels(count);
  std::iota(labels.begin(), labels.end(), 0);
  return labels;
}

Tensor contract(std::vector<Tensor> args, std::vector<std::vector<int>> labels, const std::vector<int>& out,
                const Dims& extents) {
  const Operands operands = split_constants(std::move(args), std::move(labels), out, extents);
  Dims dims = sizes_of(out, extents);
  if (operands.args.empty()) {
    return full(operands.type, dims, operands.factor);
  }
  std::vector<int> kept;
  std::vector<int> axes;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (operands.has(out[k])) {
      kept.push_back(out[k]);
      axes.push_back(static_cast<int>(k));
    }
  }
  Tensor result = operands.sums(kept) && operands.args.size() > 1
                      ? PairwiseOrder(operands, kept, extents).build()
                      : sum_of_products(operands, kept, extents);
  if (operands.factor != 1) {
    result = result * (program::is_float(operands.type)
                           ? constant(operands.type, operands.factor)
                           : constant_integer(operands.type, static_cast<std::int64_t>(operands.factor)));
  }
  return permute_node(result, std::move(dims), axes);
}

Tensor sum_to(const Tensor& x, const Dims& dims) {
  if (x.dims() == dims) {
    return x;
  }
  const std::size_t extra = x.rank() - dims.size();
  std::vector<int> kept;
  std::vector<int> axes;  // of the result in `dims`
  for (std::size_t k = 0; k < dims.size(); ++k) {
    if (dims[k] == x.dims()[extra + k]) {
      kept.push_back(static_cast<int>(extra + k));
      axes.push_back(static_cast<int>(k));
    }
  }
  return permute_node(contract({x}, {labels_up_to(x.rank())}, kept, x.dims()), dims, axes);
}

Tensor reduce_node(program::Reduce reduce, Type type, const Tensor& x, const std::vector<std::size_t>& axes) {
  const int kept = static_cast<int>(x.rank() - axes.size());
  int next_kept = 0;
  int next_reduced = kept;
  std::vector<int> labels;
  Dims dims;
  Dims reduced;
  for (std::size_t k = 0; k < x.rank(); ++k) {
    if (contains(axes, k)) {
      labels.push_back(next_reduced++);
      reduced.push_back(x.dims()[k]);
    } else {
      labels.push_back(next_kept++);
      dims.push_back(x.dims()[k]);
    }
  }
  auto node = new_node(Kind::kReduce, type, std::move(dims));
  node->args = {x};
  node->reduce = reduce;
  node->labels = {std::move(labels)};
  node->reduced = std::move(reduced);
  return finish(std::move(node));
}

Tensor keep_axes(const Tensor& reduced, const Dims& before, const std::vector<std::size_t>& axes) {
  Dims dims = before;
  std::vector<int> kept;
  for (std::size_t k = 0; k < before.size(); ++k) {
    if (contains(axes, k)) {
      dims[k] = 1;
    } else {
      kept.push_back(static_cast<int>(k));
    }
  }
  return permute_node(reduced, std::move(dims), kept);
}

}  // namespace detail

using detail::fail;

namespace {

Tensor reduced(program::Reduce reduce, const Tensor& x, const Axes& axes, bool keep_dims,
               const char* operation) {
  detail::require(x, operation);
  const auto normal = detail::normal_axes(axes, x, operation);
  const bool logic = reduce == program::Reduce::kAny || reduce == program::Reduce::kAll;
  if (logic != (x.type() == Type::kBool)) {
    fail(std::string(operation) + ": " + detail::describe(x) + " is " +
         std::string(program::type_name(x.type())) +
         (logic ? ", but must be bool, such as the result of a comparison"
                : ", but must be numeric; cast it first"));
  }
  if (normal.empty()) {
    return x;
  }
  Tensor result;
  if (reduce == program::Reduce::kSum) {
    const std::vector<int> labels = detail::labels_up_to(x.rank());
    std::vector<int> kept = labels;
    std::erase_if(kept, [&](int label) {
      return std::binary_search(normal.begin(), normal.end(), static_cast<std::size_t>(label));
    });
    result = detail::contract({x}, {labels}, kept, x.dims());
  } else {
    result = detail::reduce_node(reduce, x.type(), x, normal);
  }
  return keep_dims ? detail::keep_axes(result, x.dims(), normal) : result;
}

Tensor widened(const Tensor& x) {
  return x && (x.type() == Type::kBool || x.type() == Type::kU8) ? cast(x, Type::kI64) : x;
}

Tensor arg_reduced(program::Reduce reduce, const Tensor& x, int axis, bool keep_dims, const char* operation) {
  detail::require(x, operation);
  const std::vector<std::size_t> axes = {detail::normal_axis(axis, x.rank(), operation, x)};
  if (x.type() == Type::kBool) {
    fail(std::string(operation) + ": " + detail::describe(x) +
         " is bool, but must be numeric; cast it first");
  }
  const Tensor result = detail::reduce_node(reduce, Type::kI64, x, axes);
  return keep_dims ? detail::keep_axes(result, x.dims(), axes) : result;
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keep_dims) {
  return reduced(program::Reduce::kSum, widened(x), axes, keep_dims, "sum");
}
Tensor prod(const Tensor& x, const Axes& axes, bool keep_dims) {
  return reduced(program::Reduce::kProd, widened(x), axes, keep_dims, "prod");
}
Tensor max(const Tensor& x, const Axes& axes, bool keep_dims) {
  return reduced(program::Reduce::kMax, x, axes, keep_dims, "max");
}
Tensor min(const Tensor& x, const Axes& axes, bool keep_dims) {
  return reduced(program::Reduce::kMin, x, axes, keep_dims, "min");
}
Tensor any(const Tensor& x, const Axes& axes, bool keep_dims) {
  return reduced(program::Reduce::kAny, x, axes, keep_dims, "any");
}
Tensor all(const Tensor& x, const Axes& axes, bool keep_dims) {
  return reduced(program::Reduce::kAll, x, axes, keep_dims, "all");
}

Tensor mean(const Tensor& x, const Axes& axes, bool keep_dims) {
  detail::require(x, "mean");
  if (!program::is_float(x.type())) {
    fail("mean: " + detail::describe(x) + " is " + std::string(program::type_name(x.type())) +
         "; cast it to a float first");
  }
  double count = 1;
  for (const std::size_t axis : detail::normal_axes(axes, x, "mean")) {
    count *= static_cast<double>(x.dims()[axis]);
  }
  return sum(x, axes, keep_dims) * detail::constant(x.type(), 1 / count);
}

Tensor argmax(const Tensor& x, int axis, bool keep_dims) {
  return arg_reduced(program::Reduce::kArgMax, x, axis, keep_dims, "argmax");
}
Tensor argmin(const Tensor& x, int axis, bool keep_dims) {
  return arg_reduced(program::Reduce::kArgMin, x, axis, keep_dims, "argmin");
}

}  // namespace yoke
