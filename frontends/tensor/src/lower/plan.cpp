// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/plan.cpp: decides which values get memory and which are inlined.
#include <algorithm>

#include "../refine.h"
#include "graph.h"

namespace yoke::detail::lowering {
namespace {

using program::Op;

// Operations per statement. Far below the format's limit on the depth of expressions.
constexpr std::uint64_t kLongestExpression = 40;

bool is_view_reshape(const Node& reshape) {
  return refine(reshape.args[0].dims(), reshape.dims)->is_view();
}

bool is_view(const Node& node) {
  switch (node.kind) {
    case Kind::kPermute:
    case Kind::kSlice:
    case Kind::kPad:
    case Kind::kGather:
    case Kind::kTake:
      return true;
    case Kind::kReshape:
      return is_view_reshape(node);
    default:
      return false;
  }
}

// Always has memory.
bool is_intrinsic(const Node& node) {
  switch (node.kind) {
    case Kind::kPlaceholder:
    case Kind::kLiteral:
    case Kind::kParameter:
    case Kind::kReduce:
    case Kind::kConcat:
    case Kind::kScatter:
      return true;
    case Kind::kReshape:
      return !is_view_reshape(node);
    default:
      return false;
  }
}

// Whether computing an element costs more than reading it from memory.
bool is_expensive(const Node& node) {
  if (node.kind == Kind::kRandom) {
    return true;
  }
  return node.kind == Kind::kMap && program::op_info(node.op).cost > 1 && node.op != Op::kFma;
}

// Whether every reader may compute it again.
bool is_trivial(const Node& node) {
  return node.kind == Kind::kMap && (node.op == Op::kCast || node.op == Op::kNeg);
}

class Planner {
 public:
  explicit Planner(Graph& graph) : graph_(graph) {}

  void run() {
    for (std::size_t i = graph_.values.size(); i-- > 0;) {
      decide(static_cast<Id>(i));
      propagate(static_cast<Id>(i));
    }
    limit_length();
  }

 private:
  Value& value(Id id) { return graph_.values[id]; }
  std::uint64_t count(Id id) { return element_count(value(id).dims()); }
  bool has_memory(Id id) { return value(id).required || is_intrinsic(*value(id).node); }

  void decide(Id id) {
    Value& own = value(id);
    const Kind kind = own.node->kind;
    const bool computes = kind == Kind::kMap || kind == Kind::kRandom;
    own.storage =
        has_memory(id) ||
        (computes && ((own.uses > 1 && !is_trivial(*own.node)) || (own.expanded && is_expensive(*own.node))));
  }

  void propagate(Id id) {
    const Value own = value(id);
    const std::uint64_t weight = own.storage ? 1 : own.uses;
    for (const Id arg : own.args) {
      value(arg).uses += weight;
      if ((!own.storage && own.expanded) || (own.node->kind != Kind::kReduce && count(id) > count(arg))) {
        value(arg).expanded = true;
      }
    }
    switch (own.node->kind) {
      case Kind::kReduce:
        // Backends recognize contractions by their operands, which must be plain reads.
        for (const Id arg : own.args) {
          if (own.args.size() > 1) {
            require_plain(arg);
          }
        }
        break;
      case Kind::kPad:
        require_source(own.args[0]);
        break;
      case Kind::kGather:
      case Kind::kTake:
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

  // Ensures that `id` can be read as tensor[loop + constant + symbol, ...].
  void require_plain(Id id) {
    Id base = id;
    while (!has_memory(base) &&
           (value(base).node->kind == Kind::kPermute || value(base).node->kind == Kind::kSlice)) {
      base = value(base).args[0];
    }
    if (!has_memory(base)) {
      // Of a slice of a larger value, only the slice is computed.
      value(count(id) < count(base) ? id : base).required = true;
    }
  }

  // Ensures that `id` can be read with an `else`. An index must be out of range for `id` exactly if it is
  // out of range for the tensor, so there may be no slice or dropped axis in between.
  void require_source(Id id) {
    Id base = id;
    while (!has_memory(base) && value(base).node->kind == Kind::kPermute &&
           uses_every_axis(*value(base).node)) {
      base = value(base).args[0];
    }
    value(base).required = true;
  }

  static bool uses_every_axis(const Node& permute) {
    for (int axis = 0; axis < static_cast<int>(permute.dims.size()); ++axis) {
      if (std::find(permute.axes.begin(), permute.axes.end(), axis) == permute.axes.end()) {
        return false;
      }
    }
    return true;
  }

  void limit_length() {
    std::vector<std::uint64_t> length(graph_.values.size(), 0);
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      Value& own = graph_.values[i];
      length[i] = is_view(*own.node) ? 0 : own.node->kind == Kind::kRandom ? 6 : 1;
      for (const Id arg : own.args) {
        length[i] += value(arg).storage ? 0 : length[arg];
      }
      own.storage = own.storage || (own.node->kind == Kind::kMap && length[i] > kLongestExpression);
    }
  }

  Graph& graph_;
};

}  // namespace

void plan(Graph& graph) {
  Planner(graph).run();
}

}  // namespace yoke::detail::lowering
