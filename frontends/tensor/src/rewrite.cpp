// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/rewrite.cpp: copies of expressions in which some nodes are replaced.
#include "rewrite.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace yoke::detail {

std::vector<Tensor> rewrite(std::span<const Tensor> values, const RewriteRule& rule) {
  std::unordered_map<const Node*, Tensor> replaced;
  const auto now = [&](const Tensor& x) {
    const auto found = x ? replaced.find(x.node().get()) : replaced.end();
    return found == replaced.end() ? x : found->second;
  };
  for (const Node* node : topological(values)) {
    std::vector<Tensor> args;
    bool is_new = false;
    for (const Tensor& arg : node->args) {
      args.push_back(now(arg));
      is_new = is_new || (arg && !args.back().is(arg));
    }
    if (Tensor made = rule(*node, args)) {
      replaced[node] = std::move(made);
    } else if (is_new) {
      auto copy = std::make_shared<Node>(*node);
      copy->args = std::move(args);
      replaced[node] = finish(std::move(copy));
    }
  }
  std::vector<Tensor> results;
  std::transform(values.begin(), values.end(), std::back_inserter(results), now);
  return results;
}

}  // namespace yoke::detail
