// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/loop.h: which nodes of a scan vary from round to round, and their values in all
// rounds.
#pragma once

#include <yoke/ops.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "node.h"

namespace yoke::detail {

using NodeSet = std::unordered_set<const Node*>;

std::shared_ptr<const Loop> new_loop(std::uint64_t rounds, std::size_t carry_count);
Tensor carry_node(const std::shared_ptr<const Loop>& loop, std::size_t number, Type type, const Dims& dims);
// source[scale * variable + offset, ...]: one element of axis 0.
Tensor element_in_round(const Tensor& source, const Symbol& variable, std::int64_t scale,
                        std::int64_t offset);

// The nodes of the expressions `roots` that depend on the variable or the carries of the loop, arguments
// before users. Leaves out the nodes in `known`, which vary too, and the nodes that they depend on. Nodes
// whose order is below `floor` do not vary.
std::vector<const Node*> varying_nodes(std::span<const Tensor> roots, const Loop& loop, std::uint64_t floor,
                                       const NodeSet& known = {});

// Replaces the variable in the terms of the index by scale * `by` + offset.
ViewIndex with_variable(ViewIndex index, const Symbol& variable, const Symbol& by, std::int64_t scale,
                        std::int64_t offset);

// The indices of a view in all rounds: axis 0 is the variable, and the view's axes follow. If the source also
// varies, the caller adds the index of the source's axis 0.
std::vector<ViewIndex> view_over_rounds(const Node& view, const Loop& loop);

// A sum of products in all rounds, or its sum over the rounds. `args` are the node's arguments; axis 0 of
// those in `varying` is the rounds.
Tensor product_over_rounds(const Node& node, std::vector<Tensor> args, const Loop& loop,
                           const NodeSet& varying, bool is_summed);

double elements_in_all_rounds(const Dims& dims, const Loop& loop);
// Returns a few times the number of elements that the loop reads and returns in all rounds; `returned` are
// its next carries and ys. No larger tensor is stored to move a product out of the loop.
double movable_elements(const NodeSet& body, std::span<const Tensor> returned, const Loop& loop);

// Returns the values of a body, in which slices of one product over all rounds, computed before the loop,
// replace the sums of products that depend on the variable but not on the carries. Products whose results for
// all rounds are too large stay.
std::vector<Tensor> with_products_hoisted(const std::vector<Tensor>& values, const Loop& loop);

// Creates the results of a loop. `varying` are the nodes of its body that callers may request. The gradient
// of a loop, which runs from the last round of that loop to the first, stores values in the order of that
// loop: both are then read in the same order.
enum class Order : std::uint8_t { kOfRounds, kReversed };
class Results {
 public:
  Results(std::shared_ptr<const Loop> loop, std::vector<Tensor> first, std::vector<Tensor> next,
          NodeSet varying, Order order = Order::kOfRounds);

  bool varies(const Tensor& x) const { return varying_.contains(x.node().get()); }
  Tensor history(std::size_t carry);      // [rounds + 1, ...]
  Tensor last(std::size_t carry);         // the carry after the last round
  Tensor over_rounds(const Tensor& x);    // x in every round: [rounds, ...]
  Tensor sum_of_rounds(const Tensor& x);  // computed after the loop if x is itself a sum
  // Like over_rounds(), but computes a product after the loop if only the result needs it.
  Tensor after_loop(const Tensor& x);
  void use(const Tensor& result);  // registers a result of the loop that exists already

 private:
  Tensor result(Kind kind, const Tensor& value, Dims dims, std::size_t axis) const;
  std::optional<std::size_t> carry_after(const Tensor& x) const;  // the carry whose next value x is
  // over_rounds() of a value that is not read through views.
  Tensor stored_over_rounds(const Tensor& x);
  bool is_stored(const Tensor& x) const;
  bool is_linear(const Node& node) const;
  Tensor sum_of_terms(const Tensor& x);
  bool may_store_operands(const Node& node, double more = 0) const;
  Tensor product(const Node& node, bool is_summed);

  Tensor in_order(const Tensor& x) const { return order_ == Order::kReversed ? flip(x, {0}) : x; }

  std::shared_ptr<const Loop> loop_;
  Order order_;
  std::vector<Tensor> args_;  // the first carries, then the next carries
  NodeSet varying_;
  NodeSet used_;  // arguments of nodes that vary
  double limit_ = 0;
  std::unordered_map<std::size_t, Tensor> histories_;
  std::unordered_map<const Node*, Tensor> stacked_;
};

// A term of the gradient of the node `to`.
struct Contribution {
  Tensor to;
  Tensor gradient;
};
// What the results of one loop contribute to the gradients of other nodes. The gradient of a result may be
// empty. `active` are the nodes outside the loop that need gradients.
std::vector<Contribution> loop_gradients(const std::vector<Tensor>& results,
                                         const std::vector<Tensor>& gradients, const NodeSet& active);

}  // namespace yoke::detail
