// SPDX-License-Identifier: Apache-2.0
// plugins/cc/access.h: what an access means as addresses: linear forms over loops and symbols.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <span>
#include <vector>

namespace yoke::cc {

// constant + sum of loops[i] * loop i + sum of symbols[i] * symbol i.
struct Form {
  std::int64_t constant = 0;
  std::vector<std::int64_t> loops;
  std::vector<std::int64_t> symbols;

  // The part that does not depend on loops.
  std::int64_t base(std::span<const std::int64_t> symbol_values) const;
  bool has_loops() const;
  friend bool operator==(const Form&, const Form&) = default;
};

Form form_of(const program::Affine& affine, std::size_t loop_count, std::size_t symbol_count);
void add_scaled(Form& to, const Form& from, std::int64_t scale);

// Elements between neighbours of each dimension.
std::vector<std::int64_t> strides_of(const program::Tensor& tensor);

bool has_element_index(const program::Access& access);

// May an affine index of the access leave its tensor for some value of loops and symbols?
bool may_leave(const program::Program& program, const program::Statement& statement, std::uint32_t tensor,
               std::span<const program::Affine> indices);
bool may_leave(const program::Program& program, const program::Statement& statement,
               const program::Access& access);

// The element's number in its tensor; element indices count as 0.
Form linear_form(const program::Program& program, const program::Statement& statement,
                 const program::Access& access);

// Do different values of the loops that `form` has give different addresses, by the sizes of its strides?
bool is_injective(const Form& form, std::span<const program::Loop> loops);

// The tensors that an expression reads, index tensors included, are handed to `visit(tensor id, access or
// null)`.
template <class Visit>
void visit_reads(const program::Access& access, const Visit& visit) {
  for (const program::Index& index : access.indices) {
    if (index.element_of) {
      visit(*index.element_of, nullptr);
    }
  }
}
template <class Visit>
void visit_reads(const program::Expr& expr, const Visit& visit) {
  if (expr.op == program::Op::kRead) {
    visit(expr.access.tensor, &expr.access);
    visit_reads(expr.access, visit);
  }
  for (const program::Expr& arg : expr.args) {
    visit_reads(arg, visit);
  }
}

}  // namespace yoke::cc
