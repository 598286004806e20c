// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/shrink.cpp: tries edits, large
// ones first, until none makes the case smaller.
#include "shrink.h"

#include <algorithm>
#include <chrono>
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
using program::Tensor;
using program::Type;

namespace {

// Edits a copy of the case. Returns false if there is nothing to change.
using Edit = std::function<bool(Case&)>;

Expr* nth_expression(Expr& expr, std::size_t& number) {
  if (number == 0) {
    return &expr;
  }
  --number;
  for (Expr& argument : expr.args) {
    if (Expr* found = nth_expression(argument, number)) {
      return found;
    }
  }
  return nullptr;
}

std::size_t count_expressions(const Expr& expr) {
  std::size_t count = 1;
  for (const Expr& argument : expr.args) {
    count += count_expressions(argument);
  }
  return count;
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

  std::size_t statement_count() const { return best_.program.statements.size(); }
  const Statement& statement(std::size_t number) const { return best_.program.statements[number]; }

  bool launches() {
    for (std::size_t i = 0; best_.launches.size() > 1 && i < best_.launches.size(); ++i) {
      if (attempt([&](Case& one) {
            one.launches = {one.launches[i]};
            return true;
          })) {
        return true;
      }
    }
    return false;
  }

  // Keeps one statement; keeps a prefix; removes one statement.
  bool statements() {
    bool progress = false;
    for (std::size_t i = statement_count(); i-- > 0 && statement_count() > 1;) {
      progress |= attempt([&](Case& one) {
        one.program.statements = {one.program.statements[i]};
        return true;
      });
    }
    for (std::size_t i = 0; i < statement_count() && statement_count() > 1; ++i) {
      progress |= attempt([&](Case& one) {
        one.program.statements.resize(i + 1);
        return i + 1 < statement_count();
      });
    }
    for (std::size_t i = statement_count(); i-- > 0 && statement_count() > 1;) {
      progress |= attempt([&](Case& one) {
        one.program.statements.erase(one.program.statements.begin() + static_cast<std::ptrdiff_t>(i));
        return true;
      });
    }
    return progress;
  }

  // Replaces a symbol by its value in the first launch.
  bool symbols() {
    bool progress = false;
    for (std::uint32_t i = static_cast<std::uint32_t>(best_.program.symbols.size()); i-- > 0;) {
      progress |= attempt([&](Case& one) {
        const std::int64_t value = one.launches[0][i];
        for (Statement& each : one.program.statements) {
          replace_term(each, true, i, value);
        }
        one.launches.resize(1);
        return true;
      });
    }
    return progress;
  }

  // Replaces an operation by one of its subexpressions or by a constant.
  bool expressions() {
    bool progress = false;
    for (std::size_t i = 0; i < statement_count(); ++i) {
      for (std::size_t node = 0; node < count_expressions(statement(i).value);) {
        progress |= simplify(i, node) ? true : (++node, false);
      }
    }
    return progress;
  }

  bool simplify(std::size_t number, std::size_t node) {
    const auto replace = [&](const std::function<bool(Expr&)>& change) {
      return attempt([&](Case& one) {
        std::size_t at = node;
        Expr* expr = nth_expression(one.program.statements[number].value, at);
        return expr != nullptr && change(*expr);
      });
    };
    for (std::size_t inner = 1; inner < 24; ++inner) {
      const bool replaced = replace([&](Expr& expr) {
        std::size_t at = inner;
        Expr* found = nth_expression(expr, at);
        if (found == nullptr || found->type != expr.type) {
          return false;
        }
        Expr taken = std::move(*found);
        expr = std::move(taken);
        return true;
      });
      if (replaced) {
        return true;
      }
    }
    return replace([](Expr& expr) {
      const bool leaf = expr.op == Op::kConst;
      expr = Expr::constant(expr.type, 1);
      return !leaf;
    });
  }

  static std::vector<std::uint64_t> smaller(std::uint64_t size) {
    std::vector<std::uint64_t> sizes;
    for (const std::uint64_t one :
         {std::uint64_t{1}, std::uint64_t{2}, size / 4, size / 2, size - size / 4, size - 1}) {
      if (one >= 1 && one < size && (sizes.empty() || one > sizes.back())) {
        sizes.push_back(one);
      }
    }
    return sizes;
  }

  // Reduces all equal extents together, then single loops and dimensions.
  bool sizes() {
    bool progress = false;
    std::set<std::uint64_t> all;
    for (const Tensor& tensor : best_.program.tensors) {
      all.insert(tensor.dims.begin(), tensor.dims.end());
    }
    for (const Statement& each : best_.program.statements) {
      for (const program::Loop& loop : each.loops) {
        all.insert(loop.extent);
      }
    }
    for (const std::uint64_t size : all) {
      for (const std::uint64_t wanted : smaller(size)) {
        if (attempt([&](Case& one) { return resize(one, size, wanted); })) {
          progress = true;
          break;
        }
      }
    }
    progress |= loop_sizes();
    progress |= tensor_sizes();
    return progress;
  }

  static bool resize(Case& one, std::uint64_t size, std::uint64_t wanted) {
    for (Tensor& tensor : one.program.tensors) {
      std::replace(tensor.dims.begin(), tensor.dims.end(), size, wanted);
    }
    for (Statement& each : one.program.statements) {
      for (program::Loop& loop : each.loops) {
        loop.extent = loop.extent == size ? wanted : loop.extent;
      }
    }
    return true;
  }

  bool loop_sizes() {
    bool progress = false;
    for (std::size_t i = 0; i < statement_count(); ++i) {
      for (std::uint32_t loop = 0; loop < statement(i).loops.size(); ++loop) {
        const auto without = [&](Case& one) {
          Statement& each = one.program.statements[i];
          replace_term(each, false, loop, 0);
          std::erase(each.reduce_loops, loop);
          return true;
        };
        if (attempt(without)) {
          progress = true;
          break;
        }
        for (const std::uint64_t wanted : smaller(statement(i).loops[loop].extent)) {
          if (attempt([&](Case& one) {
                one.program.statements[i].loops[loop].extent = wanted;
                return true;
              })) {
            progress = true;
            break;
          }
        }
      }
    }
    return progress;
  }

  bool tensor_sizes() {
    bool progress = false;
    for (std::size_t i = 0; i < best_.program.tensors.size(); ++i) {
      for (std::size_t dim = 0;
           i < best_.program.tensors.size() && dim < best_.program.tensors[i].dims.size(); ++dim) {
        for (const std::uint64_t wanted : smaller(best_.program.tensors[i].dims[dim])) {
          if (attempt([&](Case& one) {
                one.program.tensors[i].dims[dim] = wanted;
                return true;
              })) {
            progress = true;
            break;
          }
        }
      }
    }
    return progress;
  }

  // Removes a dimension and its index in every access.
  bool dimensions() {
    bool progress = false;
    for (std::uint32_t i = 0; i < best_.program.tensors.size(); ++i) {
      for (std::size_t dim = 0;
           i < best_.program.tensors.size() && dim < best_.program.tensors[i].dims.size();) {
        progress |= attempt([&](Case& one) { return drop_dimension(one, i, dim); }) ? true : (++dim, false);
      }
    }
    return progress;
  }

  static bool drop_dimension(Case& one, std::uint32_t tensor, std::size_t dim) {
    auto& dims = one.program.tensors[tensor].dims;
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(dim));
    for (Statement& each : one.program.statements) {
      visit_accesses(each, [&](Access& access) {
        if (access.tensor == tensor) {
          access.indices.erase(access.indices.begin() + static_cast<std::ptrdiff_t>(dim));
        }
        for (Index& index : access.indices) {
          if (index.element_of == tensor) {
            index.element_indices.erase(index.element_indices.begin() + static_cast<std::ptrdiff_t>(dim));
          }
        }
      });
    }
    return true;
  }

  // Simplifies indices: no gather, no offset, stride 1, fewer terms.
  bool indices() {
    bool progress = false;
    for (std::size_t i = 0; i < statement_count(); ++i) {
      for (std::size_t number = 0;; ++number) {
        std::size_t count = 0;
        const auto change = [&](const std::function<bool(Affine&)>& apply) {
          return attempt([&](Case& one) {
            std::size_t at = 0;
            bool changed = false;
            visit_affines(one.program.statements[i],
                          [&](Affine& affine) { changed = at++ == number ? apply(affine) : changed; });
            count = at;
            return changed;
          });
        };
        progress |= change([](Affine& affine) { return std::exchange(affine.constant, 0) != 0; });
        progress |= change([](Affine& affine) {
          const bool has_terms = !affine.terms.empty();
          affine = Affine{};
          return has_terms;
        });
        progress |= change([](Affine& affine) {
          return !affine.terms.empty() && std::exchange(affine.terms[0].coefficient, 1) != 1;
        });
        progress |= change([](Affine& affine) {
          const bool has_more = affine.terms.size() > 1;
          affine.terms.resize(has_more ? 1 : affine.terms.size());
          return has_more;
        });
        if (number >= count) {
          break;
        }
      }
      progress |= accesses(i);
    }
    return progress;
  }

  bool accesses(std::size_t number) {
    bool progress = false;
    std::size_t count = 0;
    visit_accesses(best_.program.statements[number], [&](Access&) { ++count; });
    for (std::size_t wanted = 0; wanted < count; ++wanted) {
      const auto change = [&](const std::function<bool(Access&)>& apply) {
        return attempt([&](Case& one) {
          std::size_t at = 0;
          bool changed = false;
          visit_accesses(one.program.statements[number],
                         [&](Access& access) { changed = at++ == wanted ? apply(access) : changed; });
          return changed;
        });
      };
      progress |= change([](Access& access) {
        const bool gathers = std::any_of(access.indices.begin(), access.indices.end(),
                                         [](const Index& index) { return index.element_of.has_value(); });
        for (Index& index : access.indices) {
          index = index.element_of ? Index{} : index;
        }
        return gathers;
      });
      progress |=
          change([](Access& access) { return std::exchange(access.otherwise, std::nullopt).has_value(); });
      progress |= change([](Access& access) {
        const bool has = access.otherwise.has_value();
        access.otherwise = has ? std::optional(program::Literal{}) : std::nullopt;
        return has;
      });
    }
    return progress;
  }

  bool forms() {
    bool progress = false;
    for (std::size_t i = 0; i < statement_count(); ++i) {
      progress |= attempt([&](Case& one) {
        return std::exchange(one.program.statements[i].assign, Assign::kSet) != Assign::kSet;
      });
      progress |= attempt([&](Case& one) {
        return std::exchange(one.program.statements[i].accumulator, std::nullopt).has_value();
      });
      progress |= attempt([&](Case& one) { return std::exchange(one.program.statements[i].hint, -1) >= 0; });
    }
    for (std::size_t i = 0; i < best_.data.size(); ++i) {
      progress |= attempt([&](Case& one) { return std::exchange(one.data[i].shared, -1) >= 0; });
      progress |= attempt(
          [&](Case& one) { return std::exchange(one.data[i].kind, DataKind::kDyadic) != DataKind::kDyadic; });
    }
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
