// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/rows.cpp: finds statements that compute rows together.
#include "rows.h"

#include <algorithm>

#include "printer.h"

namespace yoke::codegen {

using program::Program;
using program::Statement;

namespace {

constexpr std::size_t kMostRowStatements = 32;
constexpr std::size_t kMostLeftOut = 8;
constexpr std::uint64_t kMostColumns = 16384;                 // whose sums fit in the registers of a block
constexpr std::uint64_t kMostColumnBytes = 8;                 // of all sums of a column
constexpr std::uint64_t kMostRows = std::uint64_t{1} << 25U;  // HIP allows less than 2^32 threads

std::vector<std::uint64_t> extents_of(const Statement& statement, std::size_t first, std::size_t last) {
  std::vector<std::uint64_t> extents;
  for (std::size_t i = first; i < last; ++i) {
    extents.push_back(statement.loops[i].extent);
  }
  return extents;
}

std::uint64_t product(const std::vector<std::uint64_t>& extents) {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : extents) {
    count *= extent;
  }
  return count;
}

std::size_t target_loops(const Statement& statement) {
  return statement.loops.size() - statement.reduce_loops.size();
}

// Loops with more than one iteration that an access of the expression indexes, by access.
void add_loops(const Statement& statement, const program::Expr& expr,
               std::vector<std::set<std::uint32_t>>& all) {
  if (expr.op == program::Op::kRead) {
    std::set<std::uint32_t>& loops = all.emplace_back();
    program::visit_affines(expr.access, [&](const program::Affine& affine) {
      for (const program::Affine::Term& term : affine.terms) {
        if (!term.is_symbol && statement.loops[term.id].extent > 1) {
          loops.insert(term.id);
        }
      }
    });
  }
  for (const program::Expr& arg : expr.args) {
    add_loops(statement, arg, all);
  }
}

}  // namespace

bool is_row_reduction(const Statement& statement) {
  return statement.reduce && *statement.reduce != program::Reduce::kArgMax &&
         *statement.reduce != program::Reduce::kArgMin && !program::has_element_index(statement.target);
}

bool is_product(const Statement& statement) {
  std::vector<std::set<std::uint32_t>> reads;
  add_loops(statement, statement.value, reads);
  const auto has_own = [&](const std::set<std::uint32_t>& a, const std::set<std::uint32_t>& b) {
    return std::any_of(a.begin(), a.end(), [&](std::uint32_t loop) {
      return loop < target_loops(statement) && !b.contains(loop);
    });
  };
  return std::any_of(reads.begin(), reads.end(), [&](const auto& a) {
    return std::any_of(reads.begin(), reads.end(),
                       [&](const auto& b) { return has_own(a, b) && has_own(b, a); });
  });
}

bool is_by_column(const Program& program, std::size_t number) {
  const Statement& statement = program.statements[number];
  std::uint64_t largest = 0;  // reads count: a vector that the rows are multiplied by is small
  bool inner = false;
  bool target = false;
  for (const Touch& touch : touches_of(program, number)) {
    const auto element = program::flat_element(program, touch.access);
    if (touch.is_write || !element) {
      continue;
    }
    std::uint64_t size = 1;
    bool steps_inner = false;
    bool steps_target = false;
    for (const program::Affine::Term& term : element->terms) {
      const std::uint64_t extent = term.is_symbol ? 1 : statement.loops[term.id].extent;
      size *= extent;
      if (term.coefficient == 1 && extent > 1) {
        steps_target = steps_target || term.id < target_loops(statement);
        steps_inner = steps_inner || term.id + 1 == statement.loops.size();
      }
    }
    if (size >= largest) {
      inner = steps_inner || (size == largest && inner);
      target = steps_target || (size == largest && target);
      largest = size;
    }
  }
  return target && !inner;
}

bool is_column_reduction(const Statement& statement) {
  return is_row_reduction(statement) && statement.reduce_loops[0] == 0 && target_loops(statement) > 0;
}

bool may_be_column_reduction(const Program& program, std::size_t number) {
  const Statement& statement = program.statements[number];
  bool reads_target = false;
  program::visit_read_tensors(statement.value, [&](std::uint32_t tensor) {
    reads_target = reads_target || tensor == statement.target.tensor;
  });
  const std::uint64_t columns = product(extents_of(statement, 0, target_loops(statement)));
  const std::uint64_t rows = product(extents_of(statement, target_loops(statement), statement.loops.size()));
  return is_row_reduction(statement) && !is_product(statement) && is_by_column(program, number) &&
         !reads_target && columns > 1 && columns <= kMostColumns && rows <= kMostRows;
}

namespace {

class Finder {
 public:
  Finder(const Program& program, std::span<const std::size_t> statements)
      : program_(program), statements_(statements) {}

  std::optional<RowGroup> find() {
    const auto first = std::find_if(statements_.begin(), statements_.end(),
                                    [&](std::size_t number) { return starts(number); });
    if (first == statements_.end() ||
        first - statements_.begin() > static_cast<std::ptrdiff_t>(kMostRowStatements)) {
      return std::nullopt;
    }
    const Statement& reduction = program_.statements[*first];
    const std::size_t rows =
        is_column_reduction(reduction) ? reduction.reduce_loops.size() : target_loops(reduction);
    found_.rows = extents_of(reduction, 0, rows);
    found_.inner = extents_of(reduction, rows, reduction.loops.size());
    if (found_.row_count() > kMostRows || found_.inner_count() < 2 ||
        (found_.row_count() < kFewRows && found_.inner_count() > kLongRow)) {
      return std::nullopt;
    }
    if (!joins(statements_[0])) {
      return std::nullopt;
    }
    for (const std::size_t number : statements_) {
      if (found_.group.statements.size() == kMostRowStatements || left_out_count_ == kMostLeftOut) {
        break;
      }
      if (joins(number) && !left_out_.conflicts_with(touches_of(program_, number))) {
        add(number);
      } else {
        left_out_.add(program_, number);
        ++left_out_count_;
      }
    }
    const auto is_folded = [&](std::size_t number) { return program_.statements[number].reduce.has_value(); };
    if (std::none_of(found_.group.statements.begin(), found_.group.statements.end(), is_folded)) {
      return std::nullopt;
    }
    found_.group.extents = found_.rows;
    found_.group.extents.insert(found_.group.extents.end(), found_.inner.begin(), found_.inner.end());
    return std::move(found_);
  }

 private:
  bool starts(std::size_t number) const {
    const Statement& statement = program_.statements[number];
    return is_column_reduction(statement) ||
           (is_row_reduction(statement) && !is_product(statement) && !is_by_column(program_, number));
  }

  void add(std::size_t number) {
    found_.group.add(program_, number);
    const Statement& statement = program_.statements[number];
    if (is_column_reduction(statement)) {
      found_.columns.push_back(number);
      // Another kernel writes it.
      std::erase_if(found_.group.touches,
                    [&](const Touch& touch) { return touch.access.tensor == statement.target.tensor; });
    }
  }

  bool joins_columns(const Statement& statement) const {
    std::uint64_t bytes = program::byte_size(statement.accumulator_type());
    for (const std::size_t number : found_.columns) {
      bytes += program::byte_size(program_.statements[number].accumulator_type());
    }
    return bytes <= kMostColumnBytes && statement.reduce_loops.size() == found_.rows.size() &&
           !found_.group.touches_tensor(statement.target.tensor);
  }

  bool uses_columns(const std::vector<Touch>& touches) const {
    return std::any_of(found_.columns.begin(), found_.columns.end(), [&](std::size_t number) {
      return std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
        return touch.access.tensor == program_.statements[number].target.tensor;
      });
    });
  }

  bool joins(std::size_t number) const {
    const Statement& statement = program_.statements[number];
    const std::size_t rows = found_.rows.size();
    const bool is_column = is_column_reduction(statement);
    const std::size_t own = is_column ? rows : target_loops(statement);
    const bool is_over_rows =
        own >= rows && statement.loops.size() >= rows && extents_of(statement, 0, rows) == found_.rows;
    if (!is_over_rows || (statement.reduce && !starts(number)) ||
        (!statement.reduce && !is_elementwise(statement))) {
      return false;
    }
    const bool is_whole = extents_of(statement, rows, statement.loops.size()) == found_.inner;
    const bool fits = statement.reduce ? own == rows && is_whole : is_whole || is_row_value(statement, rows);
    const std::vector<Touch> touches = touches_of(program_, number);
    return fits && (!is_column || joins_columns(statement)) && !uses_columns(touches) &&
           found_.group.may_add(touches);
  }

  const Program& program_;
  std::span<const std::size_t> statements_;
  RowGroup found_;
  Group left_out_;
  std::size_t left_out_count_ = 0;
};

}  // namespace

bool is_row_value(const Statement& statement, std::size_t rows) {
  return !statement.reduce &&
         std::all_of(statement.loops.begin() + static_cast<std::ptrdiff_t>(rows), statement.loops.end(),
                     [](const program::Loop& loop) { return loop.extent == 1; });
}

std::uint64_t RowGroup::row_count() const {
  return product(rows);
}

std::uint64_t RowGroup::inner_count() const {
  return product(inner);
}

std::optional<RowGroup> find_rows(const Program& program, std::span<const std::size_t> statements) {
  return Finder(program, statements).find();
}

}  // namespace yoke::codegen
