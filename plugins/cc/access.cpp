// SPDX-License-Identifier: Apache-2.0
// plugins/cc/access.cpp: addresses of accesses as linear forms over loops and symbols.
#include "access.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace yoke::cc {

using program::Access;
using program::Affine;
using program::Program;
using program::Statement;

namespace {

// sum + a * b modulo 2^64. If a symbol's range starts far from 0 and a constant shifts the index back,
// partial sums of an address may overflow 64 bits although the address itself does not.
std::int64_t add_product(std::int64_t sum, std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) +
                                   static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

}  // namespace

std::int64_t Form::base(std::span<const std::int64_t> symbol_values) const {
  std::int64_t value = constant;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    value = add_product(value, symbols[i], symbol_values[i]);
  }
  return value;
}

bool Form::has_loops() const {
  return std::any_of(loops.begin(), loops.end(), [](std::int64_t c) { return c != 0; });
}

Form form_of(const Affine& affine, std::size_t loop_count, std::size_t symbol_count) {
  Form form{affine.constant, std::vector<std::int64_t>(loop_count), std::vector<std::int64_t>(symbol_count)};
  for (const Affine::Term& term : affine.terms) {
    (term.is_symbol ? form.symbols : form.loops)[term.id] += term.coefficient;
  }
  return form;
}

void add_scaled(Form& to, const Form& from, std::int64_t scale) {
  to.constant = add_product(to.constant, from.constant, scale);
  for (std::size_t i = 0; i < to.loops.size(); ++i) {
    to.loops[i] = add_product(to.loops[i], from.loops[i], scale);
  }
  for (std::size_t i = 0; i < to.symbols.size(); ++i) {
    to.symbols[i] = add_product(to.symbols[i], from.symbols[i], scale);
  }
}

Form linear_form(const Program& program, const Statement& statement, const Access& access) {
  const std::size_t loop_count = statement.loops.size();
  const std::size_t symbol_count = program.symbols.size();
  Form form = form_of(Affine{}, loop_count, symbol_count);
  const std::vector<std::uint64_t> strides = strides_of(program.tensors[access.tensor]);
  for (std::size_t i = 0; i < access.indices.size(); ++i) {
    if (!access.indices[i].element_of) {
      add_scaled(form, form_of(access.indices[i].affine, loop_count, symbol_count),
                 static_cast<std::int64_t>(strides[i]));
    }
  }
  return form;
}

bool is_injective(const Form& form, std::span<const program::Loop> loops) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // stride, reach
  for (std::size_t i = 0; i < loops.size(); ++i) {
    if (form.loops[i] != 0 && loops[i].extent > 1) {
      const std::int64_t stride = std::abs(form.loops[i]);
      steps.emplace_back(stride, stride * static_cast<std::int64_t>(loops[i].extent - 1));
    }
  }
  std::sort(steps.begin(), steps.end());
  std::int64_t reach = 0;
  for (const auto& [stride, more] : steps) {
    if (stride <= reach) {
      return false;
    }
    reach += more;
  }
  return true;
}

}  // namespace yoke::cc
