// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/verify_access.cpp: checks bounds, overlapping writes
// and reads of uninitialized elements.
#include <algorithm>

#include "type_rules.h"
#include "verify.h"

namespace yoke::program {

// Checks that the numbers of tensors, loops and symbols exist, that ranks match, and that terms are sorted.
// Must run before code that uses them as indices.
void Verifier::shape_of(const Access& access, Location at) const {
  if (access.tensor >= program_.tensors.size()) {
    fail(at, "an access refers to tensor number " + std::to_string(access.tensor) + ", which does not exist");
  }
  fail_if(at, rank_fault(tensor_of(access), access.indices.size()));
  for (const Index& index : access.indices) {
    if (!index.element_of) {
      if (!index.element_indices.empty()) {
        fail(at, "an affine index must not have element indices");
      }
      if (index.divisor < 1) {
        fail(at, "the divisor of an index must be at least 1; 1 means no division");
      }
      shape_of(index.affine, at);
      continue;
    }
    if (*index.element_of >= program_.tensors.size() || index.affine != Affine{} || index.divisor != 1) {
      fail(at, "an element index refers to tensor number " + std::to_string(*index.element_of) +
                   ", which does not exist, or has an affine part");
    }
    const Tensor& tensor = program_.tensors[*index.element_of];
    if (!is_integer(tensor.type)) {
      fail(at, "'" + tensor.name + "' cannot be used as index: its type is " +
                   std::string(type_name(tensor.type)) + ", not an integer type");
    }
    shape_of(access_of(index), at);
  }
}

void Verifier::shape_of(const Affine& affine, Location at) const {
  const Affine::Term* before = nullptr;
  for (const Affine::Term& term : affine.terms) {
    const std::size_t count = term.is_symbol ? program_.symbols.size() : statement_->loops.size();
    if (term.id >= count) {
      fail(at,
           "an index refers to loop or symbol number " + std::to_string(term.id) + ", which does not exist");
    }
    if (term.is_symbol && program_.symbols[term.id].is_variable &&
        static_cast<std::int64_t>(term.id) != statement_->repeat) {
      fail(at, "the variable '" + program_.symbols[term.id].name + "' is used outside its repeat block");
    }
    const bool in_order =
        before == nullptr || std::pair(before->is_symbol, before->id) < std::pair(term.is_symbol, term.id);
    if (!in_order || term.coefficient == 0) {
      fail(at, "the terms of an index are not sorted, or a coefficient is 0");
    }
    before = &term;
  }
}

void Verifier::read(const Expr& expr, bool guarded) const {
  const Access& access = expr.access;
  shape_of(access, expr.at);
  const Tensor& tensor = tensor_of(access);
  if (tensor.type != expr.type) {
    fail(expr.at, "the type of '" + tensor.name + "' is " + std::string(type_name(tensor.type)) + ", not " +
                      std::string(type_name(expr.type)));
  }
  if (access.otherwise) {
    literal(expr, expr.type, *access.otherwise);
  } else if (has_element_index(access) && !guarded) {
    fail(expr.at, "a gather needs a value for indices out of range of '" + tensor.name + "': write (" +
                      tensor.name + "[...] else 0)");
  }
  bounds(access, access.otherwise || guarded, expr.at);
}

void Verifier::target() const {
  const Statement& statement = *statement_;
  const Tensor& tensor = tensor_of(statement.target);
  if (tensor.role == Role::kIn) {
    fail(statement.at, "'" + tensor.name + "' is an `in` argument and cannot be written");
  }
  if (statement.target.otherwise) {
    fail(statement.at, "a target must not have an else");
  }
  bounds(statement.target, false, statement.at);
  if (scatters()) {
    if (statement.assign == Assign::kSet) {
      fail(statement.at, "a scatter to '" + tensor.name +
                             "' with = depends on the order of iterations; use += *= max= or min=");
    }
    return;
  }
  if (const auto loop = colliding_loop(statement)) {
    fail(statement.at, "iterations that differ in loop '" + statement.loops[*loop].name +
                           "' may write the same element of '" + tensor.name +
                           "'; reduce over the loop instead");
  }
}

void Verifier::bounds(const Access& access, bool may_be_out_of_range, Location at) const {
  const Tensor& tensor = tensor_of(access);
  const bool is_target = &access == &statement_->target;
  for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
    const Index& index = access.indices[dim];
    if (!index.element_of) {
      if (is_target && index.divisor != 1) {
        fail(at, "the index '" + index_text(program_, *statement_, index) + "' of the target '" +
                     tensor.name + "' must not be divided");
      }
      bounds(index, tensor, dim, may_be_out_of_range,
             is_target ? "" : "; to allow this, write (" + tensor.name + "[...] else 0)", at);
      continue;
    }
    const Tensor& elements = program_.tensors[*index.element_of];
    for (std::size_t i = 0; i < index.element_indices.size(); ++i) {
      bounds({index.element_indices[i], {}, {}}, elements, i, false, "", at);
    }
  }
}

void Verifier::bounds(const Index& index, const Tensor& tensor, std::size_t dim, bool may_be_out_of_range,
                      const std::string& fix, Location at) const {
  const auto range = range_of(program_, *statement_, index.affine);
  const std::string text = index_text(program_, *statement_, index);
  const auto size = static_cast<std::int64_t>(tensor.dims[dim]);
  if (!range || (index.divisor != 1 && size > kMaxIndex / index.divisor)) {
    fail(at, "the index '" + text + "' of '" + tensor.name + "' may exceed 2^61" +
                 (range ? " before it is divided" : ""));
  }
  if (!may_be_out_of_range && index.divisor != 1) {
    fail(at, "the division in the index '" + text + "' of '" + tensor.name + "' may leave a remainder" + fix);
  }
  if (!may_be_out_of_range && (range->low < 0 || range->high >= size)) {
    fail(at, "the index '" + text + "' of '" + tensor.name + "' ranges from " + std::to_string(range->low) +
                 " to " + std::to_string(range->high) + "; the valid range is 0 to " +
                 std::to_string(size - 1) + fix);
  }
}

bool Verifier::scatters() const {
  return has_element_index(statement_->target);
}

// Whether the access never touches an element that the statement writes: along some dimension the two
// ranges of indices do not overlap, whatever the symbols are.
bool Verifier::is_apart(const Access& access) const {
  for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
    const Index& read = access.indices[dim];
    const Index& written = statement_->target.indices[dim];
    if (read.element_of || written.element_of || read.divisor != 1) {
      continue;
    }
    const auto split = [](const Affine& affine) {
      std::pair<Affine, std::vector<Affine::Term>> parts;
      parts.first.constant = affine.constant;
      for (const Affine::Term& term : affine.terms) {
        (term.is_symbol ? parts.second : parts.first.terms).push_back(term);
      }
      return parts;
    };
    const auto [of_read, read_symbols] = split(read.affine);
    const auto [of_written, written_symbols] = split(written.affine);
    const auto here = range_of(program_, *statement_, of_read);
    const auto there = range_of(program_, *statement_, of_written);
    if (read_symbols == written_symbols && here && there &&
        (here->high < there->low || there->high < here->low)) {
      return true;
    }
  }
  return false;
}

// An iteration may read its target only at the element that it writes, or at elements that no iteration
// writes.
void Verifier::own_target(const Expr& expr) const {
  const Access& target = statement_->target;
  const auto through = [&](const Access& access) {
    return std::any_of(access.indices.begin(), access.indices.end(), [&](const Index& index) {
      return index.element_of && *index.element_of == target.tensor;
    });
  };
  const bool reads_others = expr.op == Op::kRead &&
                            (through(expr.access) || (expr.access.tensor == target.tensor &&
                                                      (scatters() || expr.access.indices != target.indices) &&
                                                      !is_apart(expr.access)));
  if (reads_others || through(target)) {
    fail(reads_others ? expr.at : statement_->at,
         "the statement reads elements of its target '" + tensor_of(target).name +
             "' that other iterations write; an iteration may read only the element that it writes, or "
             "elements that none writes");
  }
  for (const Expr& arg : expr.args) {
    own_target(arg);
  }
}

void Verifier::reads_are_written(const Expr& expr) {
  if (expr.op == Op::kRead) {
    access_is_written(expr.access, expr.at);
  }
  for (const Expr& arg : expr.args) {
    reads_are_written(arg);
  }
}

void Verifier::access_is_written(const Access& access, Location at) {
  elements_are_written(access, at);
  if (!is_written(access)) {
    fail(at, "reads elements of '" + tensor_of(access).name + "' that no statement has written");
  }
}

void Verifier::elements_are_written(const Access& access, Location at) {
  for (const Index& index : access.indices) {
    if (!index.element_of) {
      continue;
    }
    if (!is_written(access_of(index))) {
      fail(at, "reads elements of '" + program_.tensors[*index.element_of].name +
                   "' that no statement has written");
    }
  }
}

void Verifier::write() {
  const Statement& statement = *statement_;
  elements_are_written(statement.target, statement.at);
  if (statement.assign != Assign::kSet) {
    if (!is_written(statement.target)) {
      fail(statement.at, "accumulates to elements of '" + tensor_of(statement.target).name +
                             "' that no statement has written");
    }
    return;
  }
  if (target_moves()) {
    return;  // block() adds it after the last round
  }
  if (auto region = written_region(program_, statement)) {
    written_[statement.target.tensor].add(std::move(*region));
  }
}

void Verifier::outputs_are_written() const {
  for (std::size_t i = 0; i < program_.tensors.size(); ++i) {
    const Tensor& tensor = program_.tensors[i];
    if (tensor.role == Role::kOut && !written_[i].covers(whole(tensor))) {
      fail(tensor.at, "the program does not write every element of the `out` argument '" + tensor.name + "'");
    }
  }
}

}  // namespace yoke::program
