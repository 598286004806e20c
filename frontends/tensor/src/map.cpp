// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/map.cpp: elementwise operations: types, broadcasting and constant folding.
#include <yoke/program/execute.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "node.h"

namespace yoke::detail {

using program::Op;

namespace {

// "+" for operator+, else the name of the function.
std::string function_name(Op op) {
  constexpr std::string_view kFunctions[] = {
#define YOKE_SPECIAL_OP(id, text, arity) text,
#define YOKE_OP(id, function, ...) #function,
#include <yoke/program/ops.def>
  };
  constexpr std::string_view kOperator = "operator";
  const std::string_view name = kFunctions[static_cast<std::size_t>(op)];
  return std::string(name.starts_with(kOperator) ? name.substr(kOperator.size()) : name);
}

Tensor retyped(const Tensor& weak, Type type, const std::string& operation, const Tensor& other) {
  const Node& node = *constant_of(weak);
  const bool from_float = program::is_float(node.type);
  if ((from_float && !program::is_float(type)) || (type == Type::kBool) != (node.type == Type::kBool)) {
    fail(operation + ": cannot combine " + describe(weak) + " with " + describe(other) + ", which is " +
         std::string(program::type_name(type)) + "; cast one of them");
  }
  const Tensor value =
      from_float ? constant(type, node.literal.number) : constant_integer(type, node.literal.integer);
  return weak.rank() == 0 ? value : permute_node(value, weak.dims(), {});
}

bool is_weak(const Tensor& x) {
  const Node* node = constant_of(x);
  return node != nullptr && node->weak;
}

// Converts args[first...] to one type: that of the first operand that is not a plain number.
void unify_types(const std::string& operation, std::vector<Tensor>& args, std::size_t first) {
  const Tensor* strong = nullptr;
  Type weakest = Type::kBool;
  for (std::size_t i = first; i < args.size(); ++i) {
    if (!is_weak(args[i])) {
      if (strong == nullptr) {
        strong = &args[i];
      } else if (strong->type() != args[i].type()) {
        fail(operation + ": " + describe(*strong) + " is " + std::string(program::type_name(strong->type())) +
             " but " + describe(args[i]) + " is " + std::string(program::type_name(args[i].type())) +
             "; cast one of them");
      }
    } else if (program::is_float(args[i].type()) || weakest == Type::kBool) {
      weakest = args[i].type();
    }
  }
  const Type type = strong != nullptr ? strong->type() : weakest;
  const Tensor other = strong != nullptr ? *strong : args[first];
  for (std::size_t i = first; i < args.size(); ++i) {
    if (is_weak(args[i]) && (strong != nullptr || args[i].type() != type)) {
      args[i] = retyped(args[i], type, operation, other);
    }
  }
}

Dims broadcast_dims(const std::string& operation, const std::vector<Tensor>& args) {
  Dims result;
  std::size_t widest = 0;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Dims& dims = args[i].dims();
    if (dims.size() > result.size()) {
      result.insert(result.begin(), dims.size() - result.size(), 1);
      widest = i;
    }
    for (std::size_t k = 0; k < dims.size(); ++k) {
      std::uint64_t& into = result[result.size() - dims.size() + k];
      if (into == 1) {
        into = dims[k];
      } else if (dims[k] != 1 && dims[k] != into) {
        fail(operation + ": cannot broadcast " + describe(args[i == widest ? 0 : widest]) + " with " +
             describe(args[i]) + ": axis -" + std::to_string(dims.size() - k) + " has sizes " +
             std::to_string(into) + " and " + std::to_string(dims[k]));
      }
    }
  }
  return result;
}

// The constant result of an operation on f32 or f64 constants, or an empty Tensor. Only a constant can take
// the type of another operand or be taken out of a sum; everything else is simplified by the runtime's
// passes.
Tensor fold(Op op, const std::vector<Tensor>& args, const Dims& dims) {
  std::vector<program::Expr> numbers;
  const bool weak = std::all_of(args.begin(), args.end(), is_weak);
  for (const Tensor& arg : args) {
    if (constant_of(arg) == nullptr || (arg.type() != Type::kF32 && arg.type() != Type::kF64)) {
      return {};
    }
    numbers.push_back(program::Expr::constant(weak ? Type::kF64 : arg.type(), *number_of(arg)));
  }
  if (program::op_info(op).result != program::Result::kSame) {
    return {};
  }
  const double value = program::evaluate(program::Expr::make(op, std::move(numbers))).number;
  const Tensor result = constant(args[0].type(), value, weak);
  return dims.empty() ? result : permute_node(result, dims, {});
}

[[noreturn]] void refuse_type(const Tensor& arg, const std::string& operation, const program::OpInfo& info) {
  std::string sentence(operation);
  sentence.append(": ").append(describe(arg)).append(" is ").append(program::type_name(arg.type()));
  sentence.append("; ").append(operation).append(" takes ").append(program::operands_name(info.operands));
  fail(sentence);
}

}  // namespace

Tensor map(Op op, std::vector<Tensor> args) {
  const std::string operation = function_name(op);
  for (const Tensor& arg : args) {
    require(arg, operation.c_str());
  }
  const std::size_t first = op == Op::kSelect ? 1 : 0;  // the first value operand
  if (op == Op::kSelect && args[0].type() != Type::kBool) {
    fail("where: the condition " + describe(args[0]) + " is " +
         std::string(program::type_name(args[0].type())) +
         ", but must be bool, such as the result of a comparison");
  }
  unify_types(operation, args, first);
  const program::OpInfo& info = program::op_info(op);
  for (std::size_t i = first; i < args.size(); ++i) {
    if (info.operands == program::Operands::kFloats && is_weak(args[i]) &&
        !program::is_float(args[i].type())) {
      args[i] = constant(Type::kF32, *number_of(args[i]), true);
    }
    if (!program::accepts(info.operands, args[i].type())) {
      refuse_type(args[i], operation, info);
    }
  }
  Dims dims = broadcast_dims(operation, args);
  if (Tensor result = fold(op, args, dims)) {
    return result;
  }
  if (op == Op::kPow && number_of(args[1]) == 2.0) {
    return map(Op::kMul, {args[0], args[0]});
  }
  const Type result = info.result == program::Result::kBool  ? Type::kBool
                      : info.result == program::Result::kU32 ? Type::kU32
                                                             : args[first].type();
  auto node = new_node(Kind::kMap, result, std::move(dims));
  node->op = op;
  node->args = std::move(args);
  return finish(std::move(node));
}

}  // namespace yoke::detail
