// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/audit.cpp: walks through the iterations of a program, as audit.h describes.
#include "audit.h"

#include <yoke/program/access.h>
#include <yoke/program/text.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness.h"

namespace yoke::fuzz {
namespace {

using program::Access;
using program::Affine;
using program::Assign;
using program::Expr;
using program::Index;
using program::Op;
using program::Program;
using program::Role;
using program::Statement;
using program::Tensor;

class Audit {
 public:
  Audit(const Program& program, std::span<const std::int64_t> symbols)
      : program_(program), symbols_(symbols.begin(), symbols.end()) {
    symbols_.resize(program.symbols.size());
    for (const Tensor& tensor : program.tensors) {
      const bool given = tensor.role == Role::kIn || tensor.role == Role::kInOut;
      written_.emplace_back(tensor.element_count(), given);
    }
  }

  void run() {
    program::run_in_order(program_, symbols_, [this](std::size_t i) { walk(program_.statements[i]); });
    for (std::size_t i = 0; i < program_.tensors.size(); ++i) {
      const Tensor& tensor = program_.tensors[i];
      for (const bool written : written_[i]) {
        require(tensor.role != Role::kOut || written, "'" + tensor.name + "' is `out` and not fully written");
      }
    }
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const {
    throw Finding(what + ": " + program::print(program_, *statement_) + "\n" + program::print(program_));
  }

  std::int64_t value(const Affine& affine) const {
    std::int64_t sum = affine.constant;
    for (const Affine::Term& term : affine.terms) {
      sum += term.coefficient * (term.is_symbol ? symbols_[term.id] : counters_[term.id]);
    }
    return sum;
  }

  // The number of an element. Empty if an index is out of range or is known only when the program runs.
  struct Element {
    std::optional<std::uint64_t> number;
    bool outside = false;
    bool dynamic = false;
  };
  Element element(std::uint32_t number, const std::vector<Index>& indices) {
    const Tensor& tensor = program_.tensors[number];
    Element found;
    std::uint64_t at = 0;
    for (std::size_t dim = 0; dim < indices.size(); ++dim) {
      if (indices[dim].element_of) {
        found.dynamic = true;
        continue;
      }
      const std::int64_t dividend = value(indices[dim].affine);
      const std::int64_t i = dividend / indices[dim].divisor;
      found.outside = found.outside || i < 0 || i >= static_cast<std::int64_t>(tensor.dims[dim]) ||
                      i * indices[dim].divisor != dividend;
      at = at * tensor.dims[dim] + static_cast<std::uint64_t>(found.outside ? 0 : i);
    }
    if (!found.outside && !found.dynamic) {
      found.number = at;
    }
    return found;
  }

  // Returns the accessed element. Also checks the elements from which its indices are read.
  Element locate(const Access& access) {
    for (const Index& index : access.indices) {
      if (index.element_of) {
        std::vector<Index> indices;
        for (const Affine& affine : index.element_indices) {
          indices.push_back({affine, {}, {}});
        }
        const Element inner = element(*index.element_of, indices);
        if (!inner.number) {
          wrong("an index is read out of the range of '" + program_.tensors[*index.element_of].name + "'");
        }
        check_written(*index.element_of, *inner.number);
      }
    }
    return element(access.tensor, access.indices);
  }

  void check_written(std::uint32_t tensor, std::uint64_t number) {
    if (!written_[tensor][number]) {
      wrong("element " + std::to_string(number) + " of '" + program_.tensors[tensor].name +
            "' was never written");
    }
    if (tensor == statement_->target.tensor && target_.number != number) {
      others_.insert(number);
    }
  }

  void read(const Expr& expr, bool guarded) {
    if (expr.op == Op::kRead) {
      const Element found = locate(expr.access);
      if (!expr.access.otherwise && !found.number && !guarded) {
        wrong(found.dynamic
                  ? "a gather has no else"
                  : "a read is out of the range of '" + program_.tensors[expr.access.tensor].name + "'");
      }
      if (found.number) {
        check_written(expr.access.tensor, *found.number);
      }
    }
    for (const Expr& arg : expr.args) {
      read(arg, guarded || expr.op == Op::kGuard);
    }
  }

  bool advance(std::size_t first, std::size_t last) {
    for (std::size_t i = last; i-- > first;) {
      if (++counters_[i] < static_cast<std::int64_t>(statement_->loops[i].extent)) {
        return true;
      }
      counters_[i] = 0;
    }
    return false;
  }

  void walk(const Statement& statement) {
    statement_ = &statement;
    counters_.assign(statement.loops.size(), 0);
    const std::size_t outer = statement.loops.size() - statement.reduce_loops.size();
    std::set<std::uint64_t> targets;
    others_.clear();
    do {
      target_ = locate(statement.target);
      if (target_.outside) {
        wrong("a write is out of the range of '" + program_.tensors[statement.target.tensor].name + "'");
      }
      if (target_.dynamic && statement.assign == Assign::kSet) {
        wrong("a scatter that does not accumulate");
      }
      if (target_.number && !targets.insert(*target_.number).second) {
        wrong("two iterations write element " + std::to_string(*target_.number));
      }
      if (target_.number && statement.assign != Assign::kSet) {
        check_written(statement.target.tensor, *target_.number);
      }
      do {
        read(statement.value, false);
      } while (advance(outer, statement.loops.size()));
    } while (advance(0, outer));
    for (const std::uint64_t number : targets) {
      if (others_.contains(number)) {
        wrong("an element of the target is read that another iteration writes");
      }
      written_[statement.target.tensor][number] = true;
    }
  }

  const Program& program_;
  std::vector<std::int64_t> symbols_;       // the variables of repeat blocks included
  std::vector<std::vector<bool>> written_;  // per tensor, per element
  std::set<std::uint64_t> others_;          // elements of the target that iterations for other elements read
  const Statement* statement_ = nullptr;
  std::vector<std::int64_t> counters_;
  Element target_;
};

}  // namespace

void audit(const Program& program, std::span<const std::int64_t> symbols) {
  Audit(program, symbols).run();
}

}  // namespace yoke::fuzz
