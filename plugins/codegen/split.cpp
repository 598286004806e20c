// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/split.cpp: rewrites long reductions.
#include "split.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "rows.h"

namespace yoke::codegen {

using program::Affine;
using program::Expr;
using program::Program;
using program::Statement;

namespace {

constexpr std::uint64_t kShortReduction = 64;        // not worth a second launch
constexpr std::uint64_t kEnoughThreads = 1U << 18U;  // to keep a GPU busy
constexpr std::uint64_t kLeastPart = 16;             // terms of a thread
constexpr std::uint64_t kLeastRowPart = 8192;        // terms of a block
constexpr std::uint64_t kMostParts = 1024;

void add(Affine& sum, const Affine& one, std::int64_t scale) {
  if (!program::add_scaled(sum, one, scale)) {
    throw std::logic_error("an index of a verified program overflows");
  }
}

using Rewrite = std::function<Affine(const Affine&)>;

void rewrite(program::Access& access, const Rewrite& to) {
  for (program::Index& index : access.indices) {
    index.affine = to(index.affine);
    std::transform(index.element_indices.begin(), index.element_indices.end(), index.element_indices.begin(),
                   to);
  }
}

void rewrite(Expr& expr, const Rewrite& to) {
  if (expr.op == program::Op::kIndex) {
    expr = program::value_of(to(expr.affine));
    return;
  }
  if (expr.op == program::Op::kRead) {
    rewrite(expr.access, to);
  }
  for (Expr& arg : expr.args) {
    rewrite(arg, to);
  }
}

// Replaces a loop r by part * length + r, and makes room for the loop `part` before the reduction loops. With
// a fixed part, the part is that number, and no loop is added.
class Substitution {
 public:
  Substitution(std::uint32_t split, std::uint32_t part, std::int64_t length,
               std::optional<std::int64_t> fixed)
      : split_(split), part_(part), length_(length), fixed_(fixed) {}

  Affine operator()(const Affine& affine) const {
    Affine result = Affine::number(affine.constant);
    for (const Affine::Term& term : affine.terms) {
      if (term.is_symbol) {
        add(result, Affine::symbol(term.id), term.coefficient);
        continue;
      }
      const std::uint32_t id = term.id < part_ || fixed_ ? term.id : term.id + 1;
      add(result, Affine::loop(id), term.coefficient);
      if (term.id == split_) {
        add(result, fixed_ ? Affine::number(*fixed_) : Affine::loop(part_), term.coefficient * length_);
      }
    }
    return result;
  }

 private:
  std::uint32_t split_;
  std::uint32_t part_;
  std::int64_t length_;
  std::optional<std::int64_t> fixed_;
};

// The loop to split, and the length of its parts; 0: no split.
struct Cut {
  std::uint32_t loop = 0;
  std::uint64_t length = 0;
};

Cut cut_of(const Program& program, std::size_t number) {
  const Statement& statement = program.statements[number];
  if (!is_row_reduction(statement) || is_product(statement)) {
    return {};
  }
  std::uint64_t targets = 1;
  std::uint64_t terms = 1;
  Cut cut = {statement.reduce_loops[0], 0};
  for (std::uint32_t loop = 0; loop < statement.loops.size(); ++loop) {
    const std::uint64_t extent = statement.loops[loop].extent;
    (statement.reduces(loop) ? terms : targets) *= extent;
    if (statement.reduces(loop) && extent > statement.loops[cut.loop].extent) {
      cut.loop = loop;
    }
  }
  const std::uint64_t extent = statement.loops[cut.loop].extent;
  std::uint64_t parts = 1;
  if (is_by_column(program, number)) {
    const std::uint64_t part = std::max(kLeastPart, targets * terms / kEnoughThreads);
    parts = terms <= kShortReduction || targets >= kEnoughThreads ? 1 : terms / part;
  } else if (targets < kFewRows && terms > kLongRow) {
    parts = terms / kLeastRowPart;
  }
  parts = std::min({parts, kMostParts, extent});
  cut.length = parts < 2 ? 0 : (extent + parts - 1) / parts;
  return cut;
}

// The same reduction with its loops first.
Statement rows_first(const Statement& statement) {
  const std::size_t rows = statement.reduce_loops.size();
  const std::size_t targets = statement.loops.size() - rows;
  Statement made = statement;
  std::rotate(made.loops.begin(), made.loops.begin() + static_cast<std::ptrdiff_t>(targets),
              made.loops.end());
  std::iota(made.reduce_loops.begin(), made.reduce_loops.end(), 0U);
  const auto moved = [&](const Affine& affine) {
    Affine result = Affine::number(affine.constant);
    for (const Affine::Term& term : affine.terms) {
      const std::size_t id = term.id < targets ? term.id + rows : term.id - targets;
      add(result, term.is_symbol ? Affine::symbol(term.id) : Affine::loop(static_cast<std::uint32_t>(id)),
          term.coefficient);
    }
    return result;
  };
  rewrite(made.target, moved);
  rewrite(made.value, moved);
  return made;
}

// Appends the statements that compute the parts, and the one that folds them.
class Splitter {
 public:
  Splitter(SplitProgram& result, const Statement& statement, std::uint32_t origin, const Cut& cut)
      : result_(result), statement_(statement), origin_(origin), cut_(cut) {}

  void split() {
    const std::uint64_t extent = statement_.loops[cut_.loop].extent;
    const std::uint64_t whole = extent / cut_.length;
    const std::uint64_t rest = extent % cut_.length;
    targets_ = static_cast<std::uint32_t>(statement_.loops.size() - statement_.reduce_loops.size());
    program::Tensor partial;
    partial.name = "part_" + std::to_string(result_.program.tensors.size());
    partial.type = statement_.accumulator_type();
    for (std::uint32_t loop = 0; loop < targets_; ++loop) {
      partial.dims.push_back(statement_.loops[loop].extent);
    }
    partial.dims.push_back(whole + (rest != 0 ? 1 : 0));
    tensor_ = static_cast<std::uint32_t>(result_.program.tensors.size());
    result_.program.tensors.push_back(partial);
    add_parts(whole, cut_.length, std::nullopt);
    if (rest != 0) {
      add_parts(1, rest, static_cast<std::int64_t>(whole));
    }
    add_fold(partial);
  }

 private:
  void add(Statement statement) {
    result_.program.statements.push_back(std::move(statement));
    result_.origins.push_back(origin_);
  }

  program::Access part(const Affine& number) const {
    program::Access access;
    access.tensor = tensor_;
    for (std::uint32_t loop = 0; loop < targets_; ++loop) {
      access.indices.push_back({Affine::loop(loop), std::nullopt, {}});
    }
    access.indices.push_back({number, std::nullopt, {}});
    return access;
  }

  void add_parts(std::uint64_t count, std::uint64_t length, std::optional<std::int64_t> fixed) {
    Statement made = statement_;
    made.assign = program::Assign::kSet;
    made.accumulator = statement_.accumulator_type();
    made.loops[cut_.loop].extent = length;
    rewrite(made.value, Substitution(cut_.loop, targets_, static_cast<std::int64_t>(cut_.length), fixed));
    made.target = part(fixed ? Affine::number(*fixed) : Affine::loop(targets_));
    if (!fixed) {
      made.loops.insert(made.loops.begin() + targets_, {"part", count});
      for (std::uint32_t& loop : made.reduce_loops) {
        ++loop;
      }
    }
    add(std::move(made));
  }

  void add_fold(const program::Tensor& partial) {
    Statement made = statement_;
    made.loops.resize(targets_);
    made.loops.push_back({"part", partial.dims.back()});
    made.reduce_loops = {targets_};
    made.accumulator = std::nullopt;
    made.value = Expr::read(partial.type, part(Affine::loop(targets_)));
    add(std::move(made));
  }

  SplitProgram& result_;
  const Statement& statement_;
  std::uint32_t origin_;
  Cut cut_;
  std::uint32_t targets_ = 0;
  std::uint32_t tensor_ = 0;
};

}  // namespace

SplitProgram split_reductions(const Program& program) {
  SplitProgram result = {program, {}};
  result.program.statements.clear();
  for (std::uint32_t i = 0; i < program.statements.size(); ++i) {
    const Cut cut = cut_of(program, i);
    if (cut.length != 0 && may_be_column_reduction(program, i)) {
      result.program.statements.push_back(rows_first(program.statements[i]));
      result.origins.push_back(i);
    } else if (cut.length != 0) {
      Splitter(result, program.statements[i], i, cut).split();
    } else {
      result.program.statements.push_back(program.statements[i]);
      result.origins.push_back(i);
    }
  }
  return result;
}

}  // namespace yoke::codegen
