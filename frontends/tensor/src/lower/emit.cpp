// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/emit.cpp: emits the statements that
// compute one value. Values without memory are inlined.
#include <yoke/program/access.h>

#include <functional>
#include <utility>

#include "../refine.h"
#include "graph.h"

namespace yoke::detail::lowering {
namespace {

using program::Access;
using program::Affine;
using program::Expr;
using program::Index;
using program::Op;
using program::Statement;

Affine sum_of(Affine a, const Affine& b, std::int64_t factor) {
  if (!program::add_scaled(a, b, factor)) {
    fail("lower: an index does not fit in 64 bits");
  }
  return a;
}

Index index_of(Affine affine) {
  return {std::move(affine), std::nullopt, {}};
}

Expr integer(std::int64_t value) {
  return Expr::constant(Type::kI64, {0, value});
}

// For each axis, the sum of coefficient * loop index over its terms.
std::vector<Index> sums_of(const std::vector<std::vector<Refinement::Term>>& axes,
                           const std::vector<Index>& loops) {
  std::vector<Index> indices;
  for (const auto& terms : axes) {
    Affine affine;
    for (const auto& term : terms) {
      affine = sum_of(affine, loops[term.loop].affine, term.coefficient);
    }
    indices.push_back(index_of(std::move(affine)));
  }
  return indices;
}

Affine row_of(const Graph& graph, std::int32_t loop, Row row) {
  return loop < 0 ? Affine::number(row.first)
                  : sum_of(Affine::number(row.first), Affine::symbol(graph.variable(loop)), row.step);
}

// The indices, in the value's tensor, of the element that has these indices in the value.
std::vector<Index> in_tensor(const Graph& graph, const Value& value, std::vector<Index> indices) {
  if (value.row) {
    indices.insert(indices.begin(), index_of(row_of(graph, value.loop, *value.row)));
  }
  return indices;
}

// Builds the expression of a value's element at given indices.
class Writer {
 public:
  Writer(const Graph& graph, Id root) : graph_(graph), root_(root) {}

  // If `outside` is set, indices may be out of range; that is the value then.
  Expr at(Id id, const std::vector<Index>& indices,
          const std::optional<program::Literal>& outside = std::nullopt) const {
    const Value& value = graph_.values[id];
    if (value.storage && id != root_) {
      return Expr::read(value.node->type, {value.tensor, in_tensor(graph_, value, indices), outside});
    }
    const Node& node = *value.node;
    switch (node.kind) {
      case Kind::kConstant:
        return program::is_float(node.type) ? Expr::constant(node.type, node.literal.number)
                                            : Expr::constant(node.type, node.literal);
      case Kind::kSymbol:
        return Expr::index_symbol(graph_.symbol(*node.symbol));
      case Kind::kIota:
        return value_of(indices[static_cast<std::size_t>(node.axis)].affine);
      case Kind::kRandom:
        return random(node, indices);
      case Kind::kMap:
        return map(value, indices);
      default:
        return view(value, indices, outside);
    }
  }

 private:
  Expr map(const Value& value, const std::vector<Index>& indices) const {
    std::vector<Expr> args;
    args.reserve(value.args.size());
    for (const Id arg : value.args) {
      const Dims& dims = graph_.values[arg].dims();
      std::vector<Index> own(indices.end() - static_cast<std::ptrdiff_t>(dims.size()), indices.end());
      for (std::size_t k = 0; k < dims.size(); ++k) {
        if (dims[k] == 1 && value.dims()[value.dims().size() - dims.size() + k] != 1) {
          own[k] = index_of(Affine::number(0));
        }
      }
      args.push_back(at(arg, own));
    }
    const Op op = value.node->op;
    if (op == Op::kCast) {
      return Expr::cast(value.node->type, std::move(args[0]));
    }
    if ((op == Op::kMax || op == Op::kMin) && args[0].op == Op::kConst) {
      std::swap(args[0], args[1]);  // max(z, 0) is the form that backends recognize
    }
    return Expr::make(op, std::move(args));
  }

  Expr random(const Node& node, const std::vector<Index>& indices) const {
    const bool by_row = node.key.by_row;
    Affine element;
    std::int64_t stride = node.lanes;
    for (std::size_t k = node.dims.size(); k-- > (by_row ? 1 : 0);) {
      element = sum_of(element, indices[k].affine, stride);
      stride *= static_cast<std::int64_t>(node.dims[k]);
    }
    element.constant += node.lane;
    Expr counter = value_of(element);
    if (node.key.every_step) {
      Expr step = Expr::make(Op::kMul, {Expr::index_symbol(graph_.symbol(step_symbol())), integer(stride)});
      counter = Expr::make(Op::kAdd, {std::move(counter), std::move(step)});
    }
    Expr stream = integer(graph_.stream_of(node));
    if (by_row) {
      Expr row = Expr::make(
          Op::kAdd, {Expr::index_symbol(graph_.symbol(batch_row_symbol())), value_of(indices[0].affine)});
      stream = Expr::make(
          Op::kAdd, {std::move(stream), Expr::make(Op::kMul, {std::move(row), integer(kStreamsOfARow)})});
    }
    const Symbol& seed = by_row ? run_seed_symbol() : seed_symbol();
    return Expr::make(Op::kRandomBits,
                      {Expr::index_symbol(graph_.symbol(seed)), std::move(stream), std::move(counter)});
  }

  Expr view(const Value& value, const std::vector<Index>& indices,
            const std::optional<program::Literal>& outside) const {
    const Node& node = *value.node;
    switch (node.kind) {
      case Kind::kView:
        return at(value.args[0], viewed(node, indices), node.is_filled ? node.literal : outside);
      case Kind::kRoll:
        return rolled(value, indices);
      case Kind::kStop:
        return at(value.args[0], indices, outside);
      case Kind::kReshape:
        return at(value.args[0], reshaped(value, indices), outside);
      default:
        return at(value.args[0], indexed_by(value.args[1], node.axis, indices), program::Literal{});
    }
  }

  // A roll reads one of two parts of the source. The index is out of range for the part that is not selected.
  Expr rolled(const Value& value, const std::vector<Index>& indices) const {
    const auto axis = static_cast<std::size_t>(value.node->axis);
    const std::int64_t shift = value.node->literal.integer;
    const auto moved = [&](std::int64_t by) {
      std::vector<Index> source = indices;
      source[axis].affine.constant += by;
      return at(value.args[0], source, program::Literal{});
    };
    Expr is_first = Expr::make(Op::kLess, {value_of(indices[axis].affine), integer(shift)});
    const auto size = static_cast<std::int64_t>(value.dims()[axis]);
    return Expr::make(Op::kSelect, {std::move(is_first), moved(size - shift), moved(-shift)});
  }

  std::vector<Index> viewed(const Node& node, const std::vector<Index>& indices) const {
    std::vector<Index> source;
    for (const ViewIndex& index : node.view) {
      if (index.is_axis()) {
        source.push_back(indices[static_cast<std::size_t>(index.terms[0].axis)]);
        continue;
      }
      Affine affine = Affine::number(index.constant);
      for (const auto& [axis, coefficient] : index.terms) {
        affine = sum_of(affine, indices[static_cast<std::size_t>(axis)].affine, coefficient);
      }
      for (const auto& [symbol, coefficient] : index.symbols) {
        affine = sum_of(affine, Affine::symbol(graph_.symbol(symbol)), coefficient);
      }
      source.push_back(index_of(std::move(affine)));
      source.back().divisor = index.divisor;
    }
    return source;
  }

  std::vector<Index> reshaped(const Value& value, const std::vector<Index>& indices) const {
    const Refinement refinement = *refine(graph_.values[value.args[0]].dims(), value.dims());
    std::vector<Index> loops(refinement.loops.size());
    for (std::size_t axis = 0; axis < refinement.result.size(); ++axis) {
      for (const auto& term : refinement.result[axis]) {
        loops[term.loop] = indices[axis];
      }
    }
    return sums_of(refinement.source, loops);
  }

 public:
  // The indices of a gather or a scatter. The element of `ids` replaces the leading indices, which are
  // those of `ids`. If `axis` is not negative, it replaces only the index of that axis.
  std::vector<Index> indexed_by(Id ids, int axis, const std::vector<Index>& indices) const {
    const auto rank = static_cast<std::ptrdiff_t>(graph_.values[ids].dims().size());
    // plan() ensures that this is a plain read.
    Index element = *program::element_of(at(ids, {indices.begin(), indices.begin() + rank}).access);
    std::vector<Index> result = indices;
    if (axis >= 0) {
      result[static_cast<std::size_t>(axis)] = std::move(element);
    } else {
      result.erase(result.begin(), result.begin() + rank);
      result.insert(result.begin(), std::move(element));
    }
    return result;
  }

 private:
  const Graph& graph_;
  Id root_;
};

std::vector<Index> loops_over(const Dims& dims, Statement& statement) {
  std::vector<Index> indices;
  for (const std::uint64_t dim : dims) {
    indices.push_back(index_of(Affine::loop(static_cast<std::uint32_t>(statement.loops.size()))));
    statement.loops.push_back({"", dim});
  }
  return indices;
}

Access target_of(const Graph& graph, Id id, std::vector<Index> indices) {
  return {graph.values[id].tensor, in_tensor(graph, graph.values[id], std::move(indices)), std::nullopt};
}

bool has_16_bits(Type type) {
  return type == Type::kF16 || type == Type::kBF16;
}

// 16-bit floats accumulate in f32.
std::optional<Type> accumulator_of(program::Reduce reduce, Type type) {
  const bool accumulates = reduce != program::Reduce::kArgMax && reduce != program::Reduce::kArgMin;
  return has_16_bits(type) && accumulates ? std::optional<Type>(Type::kF32) : std::nullopt;
}

Statement reduction(const Graph& graph, Id id, const Writer& writer) {
  const Value& value = graph.values[id];
  Statement statement;
  std::vector<Index> of_label = loops_over(value.dims(), statement);
  statement.target = target_of(graph, id, of_label);
  const std::vector<Index> reduced = loops_over(value.node->reduced, statement);
  for (const Index& index : reduced) {
    statement.reduce_loops.push_back(index.affine.terms[0].id);
  }
  of_label.insert(of_label.end(), reduced.begin(), reduced.end());
  std::optional<Expr> product;
  // Products of 16-bit floats are not rounded to 16 bits, as matrix units and libraries compute them.
  const bool widens = value.args.size() > 1 && has_16_bits(value.node->args[0].type());
  bool is_guarded = false;
  for (std::size_t i = 0; i < value.args.size(); ++i) {
    std::vector<Index> indices;
    for (const int label : value.node->labels[i]) {
      indices.push_back(of_label[static_cast<std::size_t>(label)]);
    }
    Expr factor = writer.at(value.args[i], indices);
    if (value.args.size() > 1 && factor.op == Op::kRead && factor.access.otherwise) {
      factor.access.otherwise.reset();  // guards the product: 0 times infinity is not 0
      is_guarded = true;
    }
    factor = widens ? Expr::cast(Type::kF32, std::move(factor)) : std::move(factor);
    product = product ? Expr::make(Op::kMul, {std::move(*product), std::move(factor)}) : std::move(factor);
  }
  if (is_guarded) {
    product = Expr::guard(std::move(*product), {});
  }
  statement.reduce = value.node->reduce;
  statement.accumulator = accumulator_of(value.node->reduce, value.node->type);
  statement.value = std::move(*product);
  return statement;
}

std::vector<Statement> concatenation(const Graph& graph, Id id, const Writer& writer) {
  const Value& value = graph.values[id];
  const auto axis = static_cast<std::size_t>(value.node->axis);
  std::vector<Statement> statements;
  std::int64_t begin = 0;
  for (const Id part : value.args) {
    Statement statement;
    std::vector<Index> indices = loops_over(graph.values[part].dims(), statement);
    statement.value = writer.at(part, indices);
    indices[axis].affine.constant = begin;
    statement.target = target_of(graph, id, std::move(indices));
    statements.push_back(std::move(statement));
    begin += static_cast<std::int64_t>(graph.values[part].dims()[axis]);
  }
  return statements;
}

std::vector<Statement> scattering(const Graph& graph, Id id, const Writer& writer) {
  const Value& value = graph.values[id];
  Statement zero = emit_zero(value.tensor, value.node->type, value.dims());
  zero.target.indices = in_tensor(graph, value, std::move(zero.target.indices));
  Statement add;
  const std::vector<Index> indices = loops_over(graph.values[value.args[1]].dims(), add);
  add.target = target_of(graph, id, writer.indexed_by(value.args[0], value.node->axis, indices));
  add.assign = program::Assign::kAdd;
  add.value = writer.at(value.args[1], indices);
  return {std::move(zero), std::move(add)};
}

Statement joining(const Graph& graph, Id id, const Writer& writer) {
  const Value& value = graph.values[id];
  const Refinement refinement = *refine(graph.values[value.args[0]].dims(), value.dims());
  Statement statement;
  const std::vector<Index> loops = loops_over(refinement.loops, statement);
  statement.target = target_of(graph, id, sums_of(refinement.result, loops));
  statement.value = writer.at(value.args[0], sums_of(refinement.source, loops));
  return statement;
}

std::vector<Statement> computed(const Graph& graph, Id id) {
  const Writer writer(graph, id);
  const Value& value = graph.values[id];
  switch (value.node->kind) {
    case Kind::kReduce:
      return {reduction(graph, id, writer)};
    case Kind::kConcat:
      return concatenation(graph, id, writer);
    case Kind::kScatter:
      return scattering(graph, id, writer);
    default:
      break;
  }
  if (value.node->kind == Kind::kReshape && !refine(value.node->args[0].dims(), value.dims())->is_view()) {
    return {joining(graph, id, writer)};
  }
  Statement statement;
  const std::vector<Index> indices = loops_over(value.dims(), statement);
  statement.target = target_of(graph, id, indices);
  statement.value = writer.at(id, indices);
  return {std::move(statement)};
}

}  // namespace

std::vector<Statement> emit(const Graph& graph, Id id) {
  std::vector<Statement> statements = computed(graph, id);
  for (Statement& statement : statements) {
    const std::int32_t loop = graph.values[id].loop;
    statement.repeat = loop >= 0 ? static_cast<std::int32_t>(graph.variable(loop)) : -1;
  }
  return statements;
}

// An id that no value has, so that Writer reads every value that has memory.
constexpr Id kNone = ~Id{0};

Statement emit_round(const Graph& graph, Id id, std::uint32_t tensor, std::int32_t loop,
                     std::optional<Row> row) {
  Statement statement;
  std::vector<Index> indices = loops_over(graph.values[id].dims(), statement);
  statement.value = Writer(graph, kNone).at(id, indices);
  if (row) {
    indices.insert(indices.begin(), index_of(row_of(graph, loop, *row)));
  }
  statement.target = {tensor, std::move(indices), std::nullopt};
  statement.repeat = loop >= 0 ? static_cast<std::int32_t>(graph.variable(loop)) : -1;
  return statement;
}

Statement emit_zero(std::uint32_t target, Type type, const Dims& dims) {
  Statement statement;
  statement.target = {target, loops_over(dims, statement), std::nullopt};
  statement.value = Expr::constant(type, 0);
  return statement;
}

Statement emit_copy(std::uint32_t target, std::uint32_t source, Type type, const Dims& dims) {
  Statement statement;
  const std::vector<Index> indices = loops_over(dims, statement);
  statement.target = {target, indices, std::nullopt};
  statement.value = Expr::read(type, {source, indices, std::nullopt});
  return statement;
}

}  // namespace yoke::detail::lowering
