// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/type_rules.cpp: the rules for types, names and ranks that parser and verifier share.
#include "type_rules.h"

#include <yoke/program/access.h>

#include <algorithm>

namespace yoke::program {
namespace {

constexpr std::string_view kReduceNames[] = {"sum", "prod", "min", "max", "any", "all", "argmax", "argmin"};

// Reserved words. Functions and types are not reserved, because they are always followed by `(`.
constexpr std::string_view kReserved[] = {"inf", "nan", "true", "false", "else",
                                          "for", "arg", "temp", "repeat"};

std::string kind_fault(Op op, Type type) {
  const OpInfo& info = op_info(op);
  if (accepts(info.operands, type)) {
    return "";
  }
  return std::string(info.name) + " requires " + std::string(operands_name(info.operands)) + ", got " +
         std::string(type_name(type));
}

void infer_from(const Access& access, const Program& program,
                std::vector<std::optional<std::uint64_t>>& extents) {
  const auto one = [&](const Affine& affine, const Tensor& of, std::size_t dim) {
    const auto loop = affine.single_loop();
    if (loop && dim < of.dims.size() && *loop < extents.size() && !extents[*loop]) {
      extents[*loop] = of.dims[dim];
    }
  };
  const Tensor& tensor = program.tensors.at(access.tensor);
  for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
    const Index& index = access.indices[dim];
    if (!index.element_of) {
      one(index.divisor == 1 ? index.affine : Affine{}, tensor, dim);
      continue;
    }
    for (std::size_t i = 0; i < index.element_indices.size(); ++i) {
      one(index.element_indices[i], program.tensors.at(*index.element_of), i);
    }
  }
}

}  // namespace

SharedType shared_type(Op op) {
  if (op == Op::kSelect) {
    return {1, 3, true};
  }
  const OpInfo& info = op_info(op);
  if (info.family == Family::kSpecial || info.operands == Operands::kI64s) {
    return {0, 0, false};
  }
  return {0, static_cast<std::size_t>(info.arity), info.result == Result::kSame};
}

std::optional<Type> result_type(Op op, std::span<const Type> args, std::string& reason) {
  const std::string name(op_info(op).name);
  if (static_cast<int>(args.size()) != op_info(op).arity) {
    reason = argument_fault(name, op_info(op).arity, args.size());
    return std::nullopt;
  }
  if (op == Op::kSelect && args[0] != Type::kBool) {
    reason = "the condition of select must be bool, got " + std::string(type_name(args[0]));
    return std::nullopt;
  }
  const SharedType shared = shared_type(op);
  for (std::size_t i = shared.first + 1; i < shared.last; ++i) {
    if (args[i] != args[shared.first]) {
      reason = name + " requires operands of the same type, got " +
               std::string(type_name(args[shared.first])) + " and " + std::string(type_name(args[i])) +
               "; cast one of them";
      return std::nullopt;
    }
  }
  for (const Type type : args) {
    reason = kind_fault(op, type);
    if (!reason.empty()) {
      return std::nullopt;
    }
  }
  const Result result = op_info(op).result;
  return result == Result::kBool ? Type::kBool : result == Result::kU32 ? Type::kU32 : args[shared.first];
}

std::string name_fault(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !letter(name[0]) ||
      !std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); })) {
    return "invalid name '" + std::string(name.substr(0, kMaxNameBytes)) +
           "'; a name consists of letters, digits and _, and does not start with a digit";
  }
  if (name.size() > kMaxNameBytes) {
    return "the name '" + std::string(name.substr(0, 20)) + "...' is " + std::to_string(name.size()) +
           " bytes long; the limit is " + std::to_string(kMaxNameBytes);
  }
  if (reduce_by_name(name) ||
      std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved)) {
    return "'" + std::string(name) + "' is a reserved word";
  }
  return "";
}

std::string counted(std::size_t count, const std::string& noun, const std::string& plural) {
  return std::to_string(count) + " " + (count == 1 ? noun : plural.empty() ? noun + "s" : plural);
}

std::string rank_fault(const Tensor& tensor, std::size_t index_count) {
  if (tensor.dims.size() == index_count) {
    return "";
  }
  return "tensor '" + tensor.name + "' has " + counted(tensor.dims.size(), "dimension") + ", got " +
         counted(index_count, "index", "indices");
}

std::string argument_fault(std::string_view function, int expected, std::size_t count) {
  return std::string(function) + " expects " + counted(static_cast<std::size_t>(expected), "argument") +
         ", got " + std::to_string(count);
}

std::string depth_fault() {
  return "the expression is nested too deeply; the limit is " + std::to_string(kMaxDepth) + " levels";
}

std::string_view reduce_name(Reduce reduce) {
  return kReduceNames[std::min(static_cast<std::size_t>(reduce), std::size(kReduceNames) - 1)];
}

std::optional<Reduce> reduce_by_name(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kReduceNames); ++i) {
    if (kReduceNames[i] == name) {
      return static_cast<Reduce>(i);
    }
  }
  return std::nullopt;
}

std::optional<Op> op_by_text(std::string_view text, int arity) {
  for (std::size_t i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    const OpInfo& info = op_info(op);
    const bool is_asked = arity == 0 ? !info.is_operator() : info.is_operator() && info.arity == arity;
    if (is_asked && info.family != Family::kSpecial && info.name == text) {
      return op;
    }
  }
  return std::nullopt;
}

std::vector<std::optional<std::uint64_t>> inferred_extents(const Program& program,
                                                           const Statement& statement) {
  std::vector<std::optional<std::uint64_t>> extents(statement.loops.size());
  visit_target_and_reads(statement, [&](const Access& access) { infer_from(access, program, extents); });
  return extents;
}

}  // namespace yoke::program
