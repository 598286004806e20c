// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/vectors.cpp: prints accesses to neighboring elements.
#include "vectors.h"

#include <algorithm>

namespace yoke::codegen {

using program::Program;
using program::Type;

namespace {

std::string_view memory_name(Type type) {
  return type == Type::kBF16 ? "f16" : type == Type::kBool ? "u8" : program::type_name(type);
}

bool needs_wide(const Program& program, const Group& group) {
  return std::any_of(group.statements.begin(), group.statements.end(),
                     [&](std::size_t number) { return !fits_in_int(program, program.statements[number]); });
}

}  // namespace

bool same_element(const Linear& a, const Linear& b) {
  return a.touch->access.tensor == b.touch->access.tensor &&
         a.touch->access.indices == b.touch->access.indices;
}

bool contains(const std::vector<Linear>& list, const Linear& one) {
  return std::any_of(list.begin(), list.end(), [&](const Linear& other) { return same_element(one, other); });
}

VectorPrinter::VectorPrinter(Builder& builder, const Group& group, std::optional<std::size_t> boundary)
    : program_(builder.program()),
      group_(group),
      axes_(axes_of(program_, group, boundary)),
      private_(private_tensors(program_, group.statements)),
      printer_(builder, needs_wide(program_, group)) {
  printer_.defer_stores();
}

void VectorPrinter::select(std::size_t number, const std::string& last) {
  const program::Statement& statement = program_.statements[number];
  printer_.select(statement);
  for (std::uint32_t loop = 0; loop < statement.loops.size(); ++loop) {
    printer_.bind(loop, "0");
  }
  for (std::size_t i = 0; i < axes_.axes.size(); ++i) {
    const std::uint32_t loop = axes_.axes[i].loops.back();
    if (loop < statement.loops.size() && statement.loops[loop].extent > 1) {
      printer_.bind(loop, i + 1 == axes_.axes.size() ? last : indices_[i]);
    }
  }
}

std::string VectorPrinter::element(const Linear& one, const std::string& last) {
  select(one.touch->statement, last);
  return printer_.place(one.touch->access).element;
}

std::string VectorPrinter::pointer(const Linear& one, const std::string& last) {
  const std::string at = element(one, last);
  return printer_.tensor(one.touch->access.tensor) + (at == "0" ? "" : " + (" + at + ")");
}

std::uint64_t VectorPrinter::vector_bytes(std::uint32_t tensor) const {
  return axes_.lanes * program::byte_size(program_.tensors[tensor].type);
}

void VectorPrinter::print_alignment(const std::vector<Linear>& accesses) {
  const std::vector<std::string> indices = std::exchange(indices_, {});
  indices_.assign(axes_.axes.size(), "0");
  std::set<std::string> conditions;
  for (const Linear& one : accesses) {
    const std::uint32_t tensor = one.touch->access.tensor;
    if (program_.tensors[tensor].role != program::Role::kTemp || element(one, "0") != "0") {
      conditions.insert("((unsigned long long)(" + pointer(one, "0") + ") & " +
                        std::to_string(std::min<std::uint64_t>(vector_bytes(tensor), 16) - 1) + ") == 0");
    }
  }
  indices_ = indices;
  std::string all;
  for (const std::string& condition : conditions) {
    all += (all.empty() ? "" : " && ") + condition;
  }
  printer_.line("const bool aligned = " + (all.empty() ? "true" : all) + ";");
}

std::string VectorPrinter::array(const std::string& prefix, std::uint32_t tensor) {
  std::string name = printer_.fresh(prefix);
  printer_.line("__attribute__((aligned(16))) " + std::string(memory_type(program_.tensors[tensor].type)) +
                " " + name + "[" + std::to_string(axes_.lanes) + "];");
  return name;
}

std::string VectorPrinter::function(const std::string& verb, std::uint32_t tensor) {
  const Type type = program_.tensors[tensor].type;
  const std::string lanes = std::to_string(axes_.lanes);
  const std::string name = std::string(memory_name(type)) + "_" + lanes;
  const std::uint64_t bytes = vector_bytes(tensor);
  const std::string piece = bytes >= 16  ? "yk_16_bytes"
                            : bytes == 8 ? "yk_8_bytes"
                            : bytes == 4 ? "yk_4_bytes"
                                         : "yk_2_bytes";
  printer_.builder().function("YK_VECTOR(" + name + ", " + std::string(memory_type(type)) + ", " + lanes +
                              ", " + piece + ", " + std::to_string(std::max<std::uint64_t>(bytes / 16, 1)) +
                              ")\n");
  return "yk_" + verb + "_" + name;
}

}  // namespace yoke::codegen
