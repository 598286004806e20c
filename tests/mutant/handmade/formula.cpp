// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/formula.cpp: which values the kernels compute, and the operations on lanes.
#include "formula.h"

#include <yoke/program/access.h>

namespace yoke::handmade {
namespace {

using program::Expr;
using program::Op;
using program::Type;

template <class T>
T divided(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    // With the bug divide_by_reciprocal only: 1 / b is rounded, and may be denormal or infinite.
    return bug("divide_by_reciprocal") ? a * (1 / b) : a / b;
  } else {
    if (b == 0) {
      return 0;
    }
    if constexpr (std::is_signed_v<T>) {
      if (b == -1 && !bug("divide_trap")) {
        return multiply<T>(a, -1);
      }
    }
    if (bug("float_division")) {
      return static_cast<T>(static_cast<std::int64_t>(static_cast<float>(a) / static_cast<float>(b)));
    }
    return a / b;
  }
}

// x < y
template <class T>
bool is_less(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    if (bug("difference_sign")) {
      return static_cast<std::int32_t>(static_cast<std::uint32_t>(x) - static_cast<std::uint32_t>(y)) < 0;
    }
  }
  return x < y;
}

template <class T>
T tanh_of_exp(T x) {
  const T decay = std::exp(-2 * std::fabs(x));
  return std::copysign((1 - decay) / (1 + decay), x);
}

// x * y + z, z + x * y, x * y - z and z - x * y of floats as one operation, which rounds once.
std::optional<Expr> fused(const Expr& expr) {
  if (!kFuses || (expr.op != Op::kAdd && expr.op != Op::kSub) || !program::is_float(expr.type)) {
    return std::nullopt;
  }
  const auto negated = [&](const Expr& value) {
    return expr.op == Op::kSub ? Expr::make(Op::kNeg, {value}) : value;
  };
  const Expr& left = expr.args[0];
  const Expr& right = expr.args[1];
  if (left.op == Op::kMul) {
    return Expr::make(Op::kFma, {left.args[0], left.args[1], negated(right)});
  }
  if (right.op == Op::kMul) {
    return Expr::make(Op::kFma, {negated(right.args[0]), right.args[1], left});
  }
  return std::nullopt;
}

// The value as it is computed in the build that fuses, and with the bugs reassociated and select_to_max; otherwise the
// value itself.
Expr simplified(const Expr& expr) {
  if (std::optional<Expr> one = fused(expr)) {
    return *std::move(one);
  }
  const auto adds_constant = [](const Expr& sum) {
    return sum.op == Op::kAdd && sum.args[1].op == Op::kConst && program::is_float(sum.type);
  };
  if (bug("reassociated") && adds_constant(expr) && adds_constant(expr.args[0])) {
    const Expr& inner = expr.args[0];
    const double sum = inner.args[1].literal.number + expr.args[1].literal.number;
    return Expr::make(Op::kAdd, {inner.args[0], Expr::constant(expr.type, sum)});
  }
  if (bug("select_to_max") && expr.op == Op::kSelect && expr.args[0].op == Op::kGreater &&
      program::same(expr.args[0].args[0], expr.args[1]) &&
      program::same(expr.args[0].args[1], expr.args[2])) {
    return Expr::make(Op::kMax, {expr.args[1], expr.args[2]});
  }
  return expr;
}

// Calls `row(op, function)` for each operation that the kernels compute.
template <class T, class Row>
void visit_operations(const Row& row) {
  const auto minus = [](T x) { return multiply(x, static_cast<T>(-1)); };
  row(Op::kAdd, [](T x, T y, T) { return add(x, y); });
  row(Op::kSub, [=](T x, T y, T) { return add(x, minus(y)); });
  row(Op::kMul, [](T x, T y, T) { return multiply(x, y); });
  row(Op::kDiv, [](T x, T y, T) { return divided(x, y); });
  row(Op::kNeg, [=](T x, T, T) { return bug("negate_zero") ? add(T{0}, minus(x)) : minus(x); });
  row(Op::kMin, [](T x, T y, T) { return minimum(x, y); });
  row(Op::kMax, [](T x, T y, T) { return maximum(x, y); });
  row(Op::kSelect, [](T x, T y, T z) {
    return bug("select_blend") ? add(multiply(x, y), multiply<T>(x == 0, z)) : x != 0 ? y : z;
  });
  row(Op::kLess, [](T x, T y, T) { return is_less(x, y); });
  row(Op::kLessEqual, [](T x, T y, T) { return x <= y; });
  row(Op::kGreater, [](T x, T y, T) { return is_less(y, x); });
  row(Op::kGreaterEqual, [](T x, T y, T) { return x >= y; });
  row(Op::kEqual, [](T x, T y, T) { return x == y; });
  row(Op::kNotEqual, [](T x, T y, T) { return bug("nan_not_equal") ? x < y || x > y : x != y; });
  row(Op::kAnd, [](T x, T y, T) { return x != 0 && y != 0; });
  row(Op::kOr, [](T x, T y, T) { return x != 0 || y != 0; });
  row(Op::kNot, [](T x, T, T) { return x == 0; });
  if constexpr (std::is_floating_point_v<T>) {
    if (kFuses) {
      row(Op::kFma, [](T x, T y, T z) { return std::fma(x, y, z); });
    }
    row(Op::kAbs, [](T x, T, T) { return std::fabs(x); });
    row(Op::kFloor, [](T x, T, T) { return std::floor(x); });
    row(Op::kCeil, [](T x, T, T) { return std::ceil(x); });
    row(Op::kRound,
        [](T x, T, T) { return bug("round_half_up") ? std::floor(x + T{1} / 2) : std::nearbyint(x); });
    row(Op::kTrunc, [](T x, T, T) { return std::trunc(x); });
    row(Op::kExp, [](T x, T, T) { return std::exp(x); });
    row(Op::kExpm1, [](T x, T, T) { return bug("expm1_small") ? std::exp(x) - 1 : std::expm1(x); });
    row(Op::kLog, [](T x, T, T) { return std::log(x); });
    row(Op::kLog1p, [](T x, T, T) { return std::log1p(x); });
    row(Op::kSqrt, [](T x, T, T) { return std::sqrt(x); });
    row(Op::kRsqrt, [](T x, T, T) { return 1 / std::sqrt(x); });
    row(Op::kRecip, [](T x, T, T) { return 1 / x; });
    row(Op::kPow, [](T x, T y, T) { return bug("pow_log") ? std::exp(y * std::log(x)) : std::pow(x, y); });
    row(Op::kTanh, [](T x, T, T) { return bug("tanh_cancel") ? tanh_of_exp(x) : std::tanh(x); });
    row(Op::kErf, [](T x, T, T) { return std::erf(x); });
    row(Op::kSigmoid, [](T x, T, T) {
      return bug("sigmoid_overflow") ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
    });
  }
}

bool is_supported(Op op, Type type) {
  bool found = false;
  with_type(type, [&](auto zero) {
    visit_operations<decltype(zero)>([&](Op row, const auto&) { found = found || row == op; });
  });
  return found;
}

class Builder {
 public:
  Builder(const program::Program& program, const program::Statement& statement, Formula& formula)
      : program_(program), statement_(statement), formula_(formula) {}

  // Returns the number of the node.
  std::optional<std::uint32_t> add(const Expr& value) {
    const Expr expr = simplified(value);
    Formula::Node node{.op = expr.op, .literal = expr.literal};
    if (expr.op == Op::kRead) {
      std::optional<Walk> walk = walk_of(program_, statement_, expr.access);
      if (expr.type != formula_.type || !walk) {
        return std::nullopt;
      }
      formula_.reads_target = formula_.reads_target || walk->tensor == statement_.target.tensor;
      node.read = number_of_read(std::move(*walk));
    } else if (expr.op == Op::kConst ? expr.type != formula_.type : !can_apply(expr)) {
      return std::nullopt;
    }
    for (std::size_t i = 0; i < expr.args.size(); ++i) {
      const std::optional<std::uint32_t> arg = add(expr.args[i]);
      if (!arg) {
        return std::nullopt;
      }
      node.args[i] = *arg;
    }
    formula_.nodes.push_back(node);
    return static_cast<std::uint32_t>(formula_.nodes.size() - 1);
  }

 private:
  // Equal reads have one number.
  std::uint32_t number_of_read(Walk walk) {
    std::vector<Walk>& reads = formula_.reads;
    const auto found = std::find_if(reads.begin(), reads.end(), [&](const Walk& read) {
      return read.tensor == walk.tensor && read.constant == walk.constant && read.strides == walk.strides &&
             (read.symbols == walk.symbols || bug("read_cse"));
    });
    const auto number = static_cast<std::uint32_t>(found - reads.begin());
    if (found == reads.end()) {
      reads.push_back(std::move(walk));
    }
    return number;
  }
  bool can_apply(const Expr& expr) const {
    const auto is_known = [&](const Expr& arg) {
      return arg.type == formula_.type || arg.type == Type::kBool;
    };
    return is_supported(expr.op, formula_.type) && is_known(expr) &&
           std::all_of(expr.args.begin(), expr.args.end(), is_known);
  }

  const program::Program& program_;
  const program::Statement& statement_;
  Formula& formula_;
};

}  // namespace

std::optional<Walk> walk_of(const program::Program& program, const program::Statement& statement,
                            const program::Access& access) {
  const program::Tensor& tensor = program.tensors[access.tensor];
  if (program::has_element_index(access) || program::may_be_out_of_range(program, statement, access)) {
    return std::nullopt;
  }
  Walk walk{.tensor = access.tensor,
            .element_size = static_cast<std::int64_t>(program::byte_size(tensor.type)),
            .strides = std::vector<std::int64_t>(statement.loops.size())};
  const std::vector<std::uint64_t> distances = program::strides_of(tensor);
  for (std::size_t dim = 0; dim < distances.size(); ++dim) {
    const program::Index& index = access.indices[dim];
    const auto distance = static_cast<std::int64_t>(distances[dim]);
    if (index.divisor != 1) {
      return std::nullopt;
    }
    walk.constant += index.affine.constant * distance;
    for (const program::Affine::Term& term : index.affine.terms) {
      if (term.is_symbol && bug("one_symbol") && !walk.symbols.empty()) {
        continue;
      }
      if (term.is_symbol) {
        walk.symbols.emplace_back(term.id, term.coefficient * distance);
        const program::Symbol& symbol = program.symbols[term.id];
        const bool is_relative = bug("symbol_from_low") && !symbol.is_variable;
        walk.constant -= is_relative ? symbol.low * term.coefficient * distance : 0;
      } else {
        std::int64_t& stride = walk.strides[term.id];
        stride = (bug("diagonal") ? 0 : stride) + term.coefficient * distance;
      }
    }
  }
  return walk;
}

std::optional<Formula> formula_of(const program::Program& program, const program::Statement& statement) {
  Formula formula{.type = statement.value.type};
  const Type type = formula.type;
  if (type != Type::kF64 && type != Type::kF32 && type != Type::kI32 && type != Type::kU32) {
    return std::nullopt;
  }
  return Builder(program, statement, formula).add(statement.value) ? std::optional(std::move(formula))
                                                                   : std::nullopt;
}

template <class T>
void apply(Op op, const T* a, const T* b, const T* c, T* out, std::size_t count) {
  visit_operations<T>([&](Op row, const auto& function) {
    for (std::size_t i = 0; row == op && i < count; ++i) {
      out[i] = static_cast<T>(function(a[i], b[i], c[i]));
    }
  });
}
template void apply(Op, const float*, const float*, const float*, float*, std::size_t);
template void apply(Op, const double*, const double*, const double*, double*, std::size_t);
template void apply(Op, const std::int32_t*, const std::int32_t*, const std::int32_t*, std::int32_t*,
                    std::size_t);
template void apply(Op, const std::uint32_t*, const std::uint32_t*, const std::uint32_t*, std::uint32_t*,
                    std::size_t);

}  // namespace yoke::handmade
