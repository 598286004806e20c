// SPDX-License-Identifier: Apache-2.0
// plugins/cc/access.h: addresses of accesses as linear forms over loops and symbols.
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

// The number of the accessed element within its tensor; indices read from tensors count as 0, and divided ones as
// their dividend.
Form linear_form(const program::Program& program, const program::Statement& statement,
                 const program::Access& access);

// True if the strides of `form` show that different values of its loops give different addresses.
bool is_injective(const Form& form, std::span<const program::Loop> loops);

}  // namespace yoke::cc
