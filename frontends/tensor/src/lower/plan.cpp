// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/plan.cpp: decides which values get memory and which are inlined.
#include <algorithm>

#include "../refine.h"
#include "graph.h"

namespace yoke::detail::lowering {
namespace {

class Planner {
 public:
  explicit Planner(Graph& graph) : graph_(graph) {}

  void run(const std::vector<Id>& roots) {
    for (Value& value : graph_.values) {
      value.storage = !is_inlined(*value.node) || narrows(value);
    }
    for (const Id root : roots) {
      require(root);
    }
    for (const Group& group : graph_.groups) {
      std::for_each(group.outputs.begin(), group.outputs.end(), [&](Id id) { require(id); });
    }
    // Values of a body that its loop returns are stored in the tensors of the results.
    for (const LoopResults& one : graph_.loops) {
      for (const Id result : one.results) {
        for (const Id arg : value(result).args) {
          if (value(arg).loop >= 0) {
            require(arg);
          }
        }
      }
    }
    for (auto id = static_cast<Id>(graph_.values.size()); id-- > 0;) {
      require_operands(value(id));
    }
  }

 private:
  Value& value(Id id) { return graph_.values[id]; }
  void require(Id id) { value(id).storage = true; }

  // Constants and index arithmetic.
  static bool is_inlined(const Node& node) {
    switch (node.kind) {
      case Kind::kConstant:
      case Kind::kSymbol:
      case Kind::kIota:
      case Kind::kView:
      case Kind::kRoll:
      case Kind::kStop:
      case Kind::kGather:
        return true;
      case Kind::kReshape:
        return refine(node.args[0].dims(), node.dims)->is_view();
      default:
        return false;
    }
  }

  // Of a map of which only a part is used, the passes compute only this part if it has memory.
  bool narrows(const Value& part) {
    if (part.node->kind != Kind::kView || part.node->is_filled ||
        element_count(part.dims()) >= element_count(value(part.args[0]).dims())) {
      return false;
    }
    Id base = part.args[0];
    while (is_inlined(*value(base).node) && !value(base).args.empty()) {
      base = value(base).args[0];
    }
    // A value that is the same in all rounds of a loop must be computed before the loop, and a value of a
    // composite in its hint.
    return value(base).node->kind == Kind::kMap && value(base).loop == part.loop &&
           value(base).group == part.group;
  }

  void require_operands(const Value& own) {
    switch (own.node->kind) {
      case Kind::kReduce:
        // Backends recognize contractions by their operands, which must be reads.
        for (std::size_t i = 0; own.args.size() > 1 && i < own.args.size(); ++i) {
          require_operand(own.args[i]);
        }
        break;
      case Kind::kView:
        if (own.node->is_filled) {
          require_source(own.args[0]);
        }
        break;
      case Kind::kRoll:
        require_source(own.args[0]);
        break;
      case Kind::kGather:
        require_source(own.args[0]);
        require_plain(own.args[1]);
        break;
      case Kind::kScatter:
        require_plain(own.args[0]);
        break;
      default:
        break;
    }
  }

  bool is_exact_view(Id id) {
    const Node& node = *value(id).node;
    return !value(id).storage && (node.kind == Kind::kStop || (node.kind == Kind::kView && !node.is_filled));
  }

  // Ensures that `id` can be read as tensor[affine, ...].
  void require_plain(Id id) {
    while (is_exact_view(id)) {
      id = value(id).args[0];
    }
    require(id);
  }

  // As require_plain, but overlapping windows with padding are read with an `else`, because they are larger
  // than their source.
  void require_operand(Id id) {
    while (is_exact_view(id)) {
      id = value(id).args[0];
    }
    const Value& own = value(id);
    const bool is_zero = program::same(own.node->type, own.node->literal, {});
    if (!own.storage && own.node->kind == Kind::kView && is_zero &&
        element_count(own.dims()) > element_count(value(own.args[0]).dims())) {
      require_source(own.args[0]);
    } else {
      require(id);
    }
  }

  // Ensures that `id` can be read with an `else`. An index must be out of range for `id` exactly if it is
  // out of range for the tensor, so only a permutation may be in between.
  void require_source(Id id) {
    while (!value(id).storage && (value(id).node->kind == Kind::kStop ||
                                  (value(id).node->kind == Kind::kView && is_permutation(*value(id).node)))) {
      id = value(id).args[0];
    }
    require(id);
  }

  Graph& graph_;
};

}  // namespace

void plan(Graph& graph, const std::vector<Id>& roots) {
  Planner(graph).run(roots);
}

}  // namespace yoke::detail::lowering
