// SPDX-License-Identifier: Apache-2.0
// plugins/cc/access.h: what an access means as addresses: linear forms over loops and symbols.
#pragma once

#include <yoke/program/access.h>
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

}  // namespace yoke::cc
