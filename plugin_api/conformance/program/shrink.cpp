// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/shrink.cpp: tries edits, large ones first, until none makes the case smaller.
#include "shrink.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

#include "edit.h"

namespace yoke::conformance {

using program::Access;
using program::Affine;
using program::Assign;
using program::Expr;
using program::Index;
using program::Op;
using program::Statement;

namespace {

// Edits a copy of the case. Returns false if there is nothing to change.
using Edit = std::function<bool(Case&)>;

// The places in a case that one kind of edit applies to, in an order that depends only on the case.
template <class T>
using Places = std::vector<T*>;

template <class T>
void add(std::vector<T>& values, Places<T>& found) {
  std::transform(values.begin(), values.end(), std::back_inserter(found), [](T& each) { return &each; });
}

Places<Statement> statements_of(Case& one) {
  Places<Statement> found;
  add(one.program.statements, found);
  return found;
}

Places<Data> data_of(Case& one) {
  Places<Data> found;
  add(one.data, found);
  return found;
}

void add(Expr& expr, Places<Expr>& found) {
  visit_expressions(expr, [&](Expr& each) { found.push_back(&each); });
}

Places<Expr> expressions_of(Case& one) {
  Places<Expr> found;
  for (Statement& each : one.program.statements) {
    add(each.value, found);
  }
  return found;
}

Places<Access> accesses_of(Case& one) {
  Places<Access> found;
  for (Statement& each : one.program.statements) {
    visit_accesses(each, [&](Access& access) { found.push_back(&access); });
  }
  return found;
}

Places<Affine> affines_of(Case& one) {
  Places<Affine> found;
  for (Statement& each : one.program.statements) {
    visit_affines(each, [&](Affine& affine) { found.push_back(&affine); });
  }
  return found;
}

// The extents of loops, then the dimensions of tensors.
Places<std::uint64_t> sizes_of(Case& one) {
  Places<std::uint64_t> found;
  for (Statement& each : one.program.statements) {
    for (program::Loop& loop : each.loops) {
      found.push_back(&loop.extent);
    }
  }
  for (program::Tensor& tensor : one.program.tensors) {
    add(tensor.dims, found);
  }
  return found;
}

// Returns candidate `number` for a smaller size, from the smallest up, or 0 if it is not smaller. The initial
// data depend on the sizes, so a wrong element may show only at some of the small sizes.
constexpr std::size_t kSmaller = 12;  // candidates
std::uint64_t smaller(std::uint64_t size, std::size_t number) {
  const std::uint64_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, size / 4, size / 2, size - size / 4, size - 1};
  return sizes[number] < size ? sizes[number] : 0;
}

class Shrinker {
 public:
  Shrinker(Case failing, const std::function<bool(const Case&)>& fails, const ShrinkLimits& limits)
      : best_(std::move(failing)), fails_(fails), limits_(limits) {}

  Case run() {
    for (bool progress = true; progress && !is_over();) {
      progress = launches();
      progress |= statements();
      progress |= symbols();
      progress |= expressions();
      progress |= loops();
      progress |= sizes();
      progress |= dimensions();
      progress |= indices();
      progress |= forms();
    }
    return std::move(best_);
  }

 private:
  bool is_over() const {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start_;
    return tries_ >= limits_.tries || taken.count() > limits_.seconds;
  }

  bool attempt(const Edit& edit) {
    if (is_over()) {
      return false;
    }
    Case candidate = best_;
    if (!edit(candidate) || !tidy(candidate) || weight(candidate) >= weight(best_) - 1e-9) {
      return false;
    }
    ++tries_;
    if (!fails_(candidate)) {
      return false;
    }
    best_ = std::move(candidate);
    return true;
  }

  // Attempts `change` at each place. `change` returns false if it has nothing to change.
  template <class T, class Change>
  bool each(Places<T> (*places)(Case&), const Change& change) {
    bool progress = false;
    for (std::size_t n = 0; n < places(best_).size(); ++n) {
      progress |= attempt([&](Case& one) { return change(*places(one)[n]); });
    }
    return progress;
  }

  bool launches() {
    bool progress = false;
    for (std::size_t i = 0; best_.launches.size() > 1 && i < best_.launches.size(); ++i) {
      progress |= attempt([&](Case& one) {
        one.launches = {one.launches[i]};
        return true;
      });
    }
    return progress;
  }

  // Keeps one statement; keeps a prefix; removes one statement.
  bool statements() {
    using All = std::vector<Statement>;
    constexpr void (*kEdits[])(All&, std::size_t) = {
        [](All& all, std::size_t i) { all = {all[all.size() - 1 - i]}; },
        [](All& all, std::size_t i) { all.resize(i + 1); },
        [](All& all, std::size_t i) { all.erase(all.end() - 1 - static_cast<std::ptrdiff_t>(i)); }};
    bool progress = false;
    for (const auto edit : kEdits) {
      for (std::size_t i = 0; i < best_.program.statements.size(); ++i) {
        progress |= attempt([&](Case& one) {
          edit(one.program.statements, i);
          return true;
        });
      }
    }
    return progress;
  }

  // Replaces a symbol by its value in the first launch, and a repeat block by its first or its last round.
  bool symbols() {
    bool progress = false;
    for (std::uint32_t i = static_cast<std::uint32_t>(best_.program.symbols.size()); i-- > 0;) {
      progress |= attempt([&](Case& one) { return replace_symbol(one, i, false); }) ||
                  attempt([&](Case& one) { return replace_symbol(one, i, true); });
    }
    return progress;
  }

  static bool replace_symbol(Case& one, std::uint32_t number, bool last_round) {
    const program::Symbol& symbol = one.program.symbols[number];
    const std::int64_t rounds = last_round ? (symbol.high - 1 - symbol.low) / symbol.step : 0;
    const std::int64_t value =
        symbol.is_variable ? symbol.low + rounds * symbol.step : one.launches[0][number];
    for (Statement& each : one.program.statements) {
      replace_term(each, true, number, value);
      each.repeat = each.repeat == static_cast<std::int32_t>(number) ? -1 : each.repeat;
    }
    one.launches.resize(1);
    return symbol.is_variable || !last_round;
  }

  // Replaces an operation by one of its subexpressions or by a constant.
  bool expressions() {
    bool progress = false;
    for (std::size_t inner = 1; inner < 24; ++inner) {
      progress |= each(expressions_of, [inner](Expr& expr) {
        Places<Expr> below;
        add(expr, below);
        if (inner >= below.size() || below[inner]->type != expr.type) {
          return false;
        }
        Expr taken = std::move(*below[inner]);
        expr = std::move(taken);
        return true;
      });
    }
    progress |= each(expressions_of, [](Expr& expr) {
      return expr.op == Op::kGuard && !program::same(expr.type, std::exchange(expr.literal, {}), {});
    });
    progress |= each(expressions_of, [](Expr& expr) {
      const bool leaf = expr.op == Op::kConst;
      expr = Expr::constant(expr.type, 1);
      return !leaf;
    });
    return progress;
  }

  // Removes a loop.
  bool loops() {
    bool progress = false;
    for (std::uint32_t loop = 0; loop < 12; ++loop) {
      progress |= each(statements_of, [loop](Statement& each) {
        replace_term(each, false, loop, 0);
        std::erase(each.reduce_loops, loop);
        return loop < each.loops.size();
      });
    }
    return progress;
  }

  // Reduces all equal sizes together, then single ones.
  bool sizes() {
    bool progress = false;
    std::set<std::uint64_t> all;
    for (const std::uint64_t* size : sizes_of(best_)) {
      all.insert(*size);
    }
    for (const std::uint64_t size : all) {
      for (std::size_t number = 0; number < kSmaller; ++number) {
        progress |= attempt([&](Case& one) {
          const std::uint64_t to = smaller(size, number);
          for (std::uint64_t* each : sizes_of(one)) {
            *each = *each == size ? to : *each;
          }
          const auto shorten = [&](std::int64_t& value, std::int64_t before_end) {
            const bool equal = value == static_cast<std::int64_t>(size) - before_end;
            value = equal ? static_cast<std::int64_t>(to) - before_end : value;
          };
          for (Affine* affine : affines_of(one)) {  // indices of the last element: x[-i + 9] or x[9]
            shorten(affine->constant, 1);
          }
          for (Data& data : one.data) {
            shorten(data.limit, 0);
          }
          return to != 0;
        });
      }
    }
    for (std::size_t number = 0; number < kSmaller; ++number) {
      progress |= each(sizes_of, [number](std::uint64_t& size) {
        size = smaller(size, number);
        return size != 0;
      });
    }
    for (std::size_t i = 0; i < best_.program.statements.size(); ++i) {
      for (std::uint32_t loop = 0; loop < best_.program.statements[i].loops.size(); ++loop) {
        for (std::size_t number = 0; number < kSmaller; ++number) {
          progress |= loop < best_.program.statements[i].loops.size() &&
                      attempt([&](Case& one) { return shrink_loop(one, i, loop, number); });
        }
      }
    }
    return progress;
  }

  // Makes a loop smaller, together with the dimensions that it indexes.
  static bool shrink_loop(Case& one, std::size_t statement, std::uint32_t loop, std::size_t number) {
    std::uint64_t& extent = one.program.statements[statement].loops[loop].extent;
    const std::uint64_t to = smaller(extent, number);
    const auto is_loop = [&](const Affine::Term& term) { return !term.is_symbol && term.id == loop; };
    visit_accesses(one.program.statements[statement], [&](Access& access) {
      for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
        const auto& terms = access.indices[dim].affine.terms;
        std::uint64_t& size = one.program.tensors[access.tensor].dims[dim];
        const bool is_indexed = std::any_of(terms.begin(), terms.end(), is_loop);
        size = size == extent && is_indexed ? to : size;
      }
    });
    extent = to;
    return to != 0;
  }

  // Removes a dimension and its index in every access.
  bool dimensions() {
    bool progress = false;
    for (std::uint32_t i = 0; i < best_.program.tensors.size(); ++i) {
      for (std::size_t dim = 0; dim < 8; ++dim) {
        progress |= attempt([&](Case& one) { return drop_dimension(one, i, dim); });
      }
    }
    return progress;
  }

  static bool drop_dimension(Case& one, std::uint32_t tensor, std::size_t dim) {
    const auto drop = [dim](auto& values) {
      values.erase(values.begin() + static_cast<std::ptrdiff_t>(dim));
    };
    if (tensor >= one.program.tensors.size() || dim >= one.program.tensors[tensor].dims.size()) {
      return false;
    }
    drop(one.program.tensors[tensor].dims);
    for (Access* access : accesses_of(one)) {
      if (access->tensor == tensor) {
        drop(access->indices);
      }
      for (Index& index : access->indices) {
        if (index.element_of == tensor) {
          drop(index.element_indices);
        }
      }
    }
    return true;
  }

  // Simplifies indices: no offset, no terms, stride 1, fewer terms, no division, no gather, no `else` or a
  // plain one.
  bool indices() {
    bool progress = each(affines_of, [](Affine& affine) { return std::exchange(affine.constant, 0) != 0; });
    progress |= each(affines_of, [](Affine& affine) { return !std::exchange(affine, {}).terms.empty(); });
    progress |= each(affines_of, [](Affine& affine) {
      return !affine.terms.empty() && std::exchange(affine.terms[0].coefficient, 1) != 1;
    });
    progress |= each(affines_of, [](Affine& affine) {
      const bool has_more = affine.terms.size() > 1;
      affine.terms.resize(has_more ? 1 : affine.terms.size());
      return has_more;
    });
    progress |= each(accesses_of, [](Access& access) {
      bool divides = false;
      for (Index& index : access.indices) {
        divides = std::exchange(index.divisor, 1) != 1 || divides;
      }
      return divides;
    });
    progress |= each(accesses_of, [](Access& access) {
      bool gathers = false;
      for (Index& index : access.indices) {
        gathers = gathers || index.element_of;
        index = index.element_of ? Index{} : index;
      }
      return gathers;
    });
    progress |= each(accesses_of, [](Access& access) {
      return std::exchange(access.otherwise, std::nullopt).has_value();
    });
    progress |= each(accesses_of,
                     [](Access& access) { return access.otherwise && (access.otherwise.emplace(), true); });
    return progress;
  }

  bool forms() {
    bool progress = each(statements_of, [](Statement& one) {
      return std::exchange(one.assign, Assign::kSet) != Assign::kSet;
    });
    progress |= each(statements_of,
                     [](Statement& one) { return std::exchange(one.accumulator, std::nullopt).has_value(); });
    progress |= each(statements_of, [](Statement& one) { return std::exchange(one.hint, -1) >= 0; });
    progress |= each(data_of, [](Data& one) { return std::exchange(one.shared, -1) >= 0; });
    progress |= each(
        data_of, [](Data& one) { return std::exchange(one.kind, DataKind::kDyadic) != DataKind::kDyadic; });
    return progress;
  }

  Case best_;
  const std::function<bool(const Case&)>& fails_;
  ShrinkLimits limits_;
  std::uint64_t tries_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Case shrink(Case failing, const std::function<bool(const Case&)>& fails, const ShrinkLimits& limits) {
  return Shrinker(std::move(failing), fails, limits).run();
}

}  // namespace yoke::conformance
