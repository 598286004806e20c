// SPDX-License-Identifier: Apache-2.0
// runtime/passes/region.cpp: statements that a backend can run tile by tile, and the bytes that this saves.
#include "region.h"

#include "cost.h"

namespace yoke::passes {
namespace {

// Precondition: the index is not an element of a tensor.
bool has_no_loop(const Index& index) {
  return std::all_of(index.affine.terms.begin(), index.affine.terms.end(),
                     [](const Affine::Term& term) { return term.is_symbol; });
}

// Whether the index is this loop, optionally plus a constant and symbols, which shift all rows equally.
bool is_row_of(std::uint32_t loop, Index index) {
  index.affine.constant = 0;
  std::erase_if(index.affine.terms, [](const Affine::Term& term) { return term.is_symbol; });
  return index.divisor == 1 && index.affine.single_loop() == loop;
}

// Keeps only the rows of a product: the leading loops of the target that index the same operand by
// themselves, without the last dimension of the target. A backend computes a range of rows with one library
// call.
void keep_rows(const Statement& statement, Summary& summary) {
  std::uint32_t rows = 0;
  program::visit_target_and_reads(statement.value, [&](const Access& operand) {
    std::uint32_t count = 0;
    const Numbers& target = summary.uses[0].loops;
    const auto is_row = [&](std::uint32_t dim) {
      return target[dim] == kNoLoop
                 ? has_no_loop(statement.target.indices[dim])
                 : std::count_if(operand.indices.begin(), operand.indices.end(),
                                 [&](const Index& index) { return is_row_of(target[dim], index); }) == 1;
    };
    while (count + 1 < target.size() && is_row(count)) {
      ++count;
    }
    rows = std::max(rows, count);
  });
  std::replace_if(
      summary.dims.begin(), summary.dims.end(), [&](std::uint32_t dim) { return dim >= rows; }, kNoLoop);
}

// A reduction along rows of memory does not name the loop along the columns: each iteration would read a few
// bytes of every row.
void drop_columns(const Statement& statement, Summary& summary) {
  program::visit_target_and_reads(statement.value, [&](const Access& access) {
    const std::vector<bool> loops = loops_of(access, statement);
    if (std::any_of(statement.reduce_loops.begin(), statement.reduce_loops.end(),
                    [&](std::uint32_t loop) { return loops[loop]; })) {
      const std::uint32_t last = use_of(access).loops.back();
      if (last != kNoLoop) {
        summary.dims[last] = kNoLoop;
      }
    }
  });
}

Summary summary_of(const Statement& statement) {
  Summary summary;
  summary.dims.assign(statement.loops.size(), kNoLoop);
  for (const Loop& loop : statement.loops) {
    summary.iterations *= loop.extent;
  }
  summary.uses = uses_of(statement);
  if (has_element_index(statement.target)) {
    return summary;
  }
  const Numbers& target = summary.uses[0].loops;
  for (std::uint32_t dim = static_cast<std::uint32_t>(target.size()); dim-- > 0;) {
    if (target[dim] != kNoLoop) {
      summary.dims[target[dim]] = dim;
    }
  }
  if (is_matrix_product(statement)) {
    summary.is_product = true;
    keep_rows(statement, summary);
  } else if (statement.reduce) {
    drop_columns(statement, summary);
  }
  return summary;
}

std::uint32_t lowest_bit(std::uint32_t bits) {
  return bits == 0 ? kNoLoop : static_cast<std::uint32_t>(__builtin_ctz(bits));
}

// A region that named only the innermost loop of a target would run along columns of memory.
void drop_innermost(const Statement& statement, Numbers& loops) {
  std::uint32_t innermost = kNoLoop;
  bool names_all = true;
  for (std::uint32_t loop = 0; loop < statement.loops.size() && !statement.reduces(loop); ++loop) {
    if (statement.loops[loop].extent > 1) {
      innermost = loop;
      names_all = names_all && std::find(loops.begin(), loops.end(), loop) != loops.end();
    }
  }
  if (!names_all) {
    std::replace(loops.begin(), loops.end(), innermost, kNoLoop);
  }
}

// The rows of a product that do not lead its target lie apart in memory, which makes the product slow.
void drop_scattered_rows(const Statement& statement, Numbers& loops) {
  for (std::uint32_t loop = 0; loop < statement.loops.size(); ++loop) {
    if (statement.loops[loop].extent > 1 && std::find(loops.begin(), loops.end(), loop) == loops.end()) {
      std::replace_if(
          loops.begin(), loops.end(), [&](std::uint32_t row) { return row > loop; }, kNoLoop);
    }
  }
}

}  // namespace

Summaries::Summaries(const Graph& graph) : user_count(graph.program().tensors.size(), 0) {
  for (Place i = 0; i < graph.size(); ++i) {
    of.push_back(summary_of(graph.at(i)));
    graph.for_each_use(i, [&](std::uint32_t tensor) { ++user_count[tensor]; });
  }
}

bool Region::start(Place first) {
  named_.clear();
  const Summary& summary = summaries_.of[first];
  for (std::uint32_t loop = 0; loop < summary.dims.size(); ++loop) {
    if (summary.dims[loop] != kNoLoop) {
      named_.push_back(loop);
    }
  }
  statements_ = {first};
  reset();
  return !named_.empty() && graph_.at(first).hint < 0 && enter(first);
}

bool Region::add(Place next) {
  if (statements_.size() == kMaxSize || graph_.at(next).hint >= 0 ||
      graph_.at(next).repeat != graph_.at(statements_[0]).repeat || summaries_.of[next].is_product) {
    return false;
  }
  statements_.push_back(next);
  for (bool entered = enter(next); !entered;) {  // with fewer loops, the region may also save fewer bytes
    if (named_.empty()) {
      return false;
    }
    reset();
    entered = std::all_of(statements_.begin(), statements_.end(), [&](Place i) { return enter(i); });
  }
  return true;
}

void Region::cut(std::size_t size, const Numbers& named) {
  statements_.resize(size);
  named_ = named;
  reset();
  for (const Place i : statements_) {
    enter(i);
  }
}

std::uint64_t Region::saved_bytes() const {
  return summaries_.of[statements_[0]].is_product && !uses_product_ ? 0 : saved_bytes_;
}

void Region::reset() {
  ++version_;
  loops_.clear();
  saved_bytes_ = 0;
  uses_product_ = false;
  names_all_loops_ = true;
}

const Region::Known* Region::find(std::uint32_t tensor) const {
  const Known& known = known_[tensor];
  return known.version == version_ ? &known : nullptr;
}

// If loops do not fit, gives them up and returns false.
bool Region::enter(Place i) {
  ++graph_.report().visits;
  Numbers loops = match(i);
  if (std::find(loops.begin(), loops.end(), kNoLoop) != loops.end()) {
    Numbers kept;
    for (std::size_t c = 0; c < named_.size(); ++c) {
      if (loops[c] != kNoLoop) {
        kept.push_back(named_[c]);
      }
    }
    named_ = std::move(kept);
    return false;
  }
  names_all_loops_ = names_all_loops_ && loops.size() == graph_.at(i).loops.size();
  const Summary& summary = summaries_.of[i];
  for (const Use& use : summary.uses) {
    Known& known = known_[use.tensor];
    const bool is_target = &use == &summary.uses[0];
    const bool is_new = known.version != version_;
    if (is_new) {
      known = {version_, i, 1, false, {}};
      known.dims.fill(~0U);
    }
    bool is_shared = known.is_written;
    for (std::size_t c = 0; c < named_.size(); ++c) {
      known.dims[c] = is_target ? 1U << summary.dims[loops[c]] : known.dims[c] & use.dims_at(loops[c]);
      is_shared = is_shared || known.dims[c] != 0;
    }
    known.is_written = known.is_written || is_target;
    if (known.seen_by != i) {
      known.seen_by = i;
      ++known.user_count;
      if (is_shared) {
        count(summary, use.tensor, known);
      }
    }
  }
  loops_.push_back(std::move(loops));
  return true;
}

void Region::count(const Summary& summary, std::uint32_t tensor, const Known& known) {
  const Tensor& used = graph_.program().tensors[tensor];
  const std::uint64_t bytes = std::min(used.element_count(), summary.iterations) * byte_size(used.type);
  const bool needs_no_memory = used.role == Role::kTemp &&
                               known.user_count == summaries_.user_count[tensor] &&
                               graph_.at(statements_[0]).repeat < 0;
  saved_bytes_ += needs_no_memory ? 2 * bytes : bytes;
  uses_product_ = uses_product_ || tensor == summaries_.of[statements_[0]].uses[0].tensor;
}

// The loops of statement i that correspond to the named loops; kNoLoop where no loop does.
Numbers Region::match(Place i) const {
  const Summary& summary = summaries_.of[i];
  Numbers loops;
  std::int64_t previous = -1;
  for (std::uint32_t c = 0; c < named_.size(); ++c) {
    const std::uint32_t loop = choose(summary, c);
    const bool fits = loop < summary.dims.size() && summary.dims[loop] != kNoLoop &&
                      std::int64_t{loop} > previous &&
                      graph_.at(i).loops[loop].extent == graph_.at(statements_[0]).loops[named_[c]].extent &&
                      target_fits(summary, c, loop);
    previous = fits ? std::int64_t{loop} : previous;
    loops.push_back(fits ? loop : kNoLoop);
  }
  if (summary.is_product) {
    drop_scattered_rows(graph_.at(i), loops);
  }
  drop_innermost(graph_.at(i), loops);
  return loops;
}

// The loop that indexes a tensor in the same dimension as the named loop does: a tensor that the region
// writes, else one that it reads. If there is no such tensor, the loop with the same number. kNoLoop if the
// uses of written tensors contradict each other.
std::uint32_t Region::choose(const Summary& summary, std::uint32_t named) const {
  std::uint32_t forced = kNoLoop;
  std::uint32_t proposed = kNoLoop;
  for (const Use& use : summary.uses) {
    const Known* known = find(use.tensor);
    if (known == nullptr) {
      continue;
    }
    const std::uint32_t dim = lowest_bit(known->dims[named]);
    if (known->is_written) {
      const std::uint32_t loop = use.loops[dim];
      if (loop == kNoLoop || (forced != kNoLoop && forced != loop)) {
        return kNoLoop;
      }
      forced = loop;
    } else if (dim != kNoLoop && proposed == kNoLoop && use.loops[dim] != kNoLoop &&
               summary.dims[use.loops[dim]] != kNoLoop) {
      proposed = use.loops[dim];
    }
  }
  return forced != kNoLoop ? forced : proposed != kNoLoop ? proposed : named_[named];
}

// Whether all uses of the target, here and earlier in the region, are at the loop's current value.
bool Region::target_fits(const Summary& summary, std::uint32_t named, std::uint32_t loop) const {
  const std::uint32_t target = summary.uses[0].tensor;
  const std::uint32_t dim = summary.dims[loop];
  const Known* known = find(target);
  if (known != nullptr &&
      (known->is_written ? lowest_bit(known->dims[named]) != dim : (known->dims[named] >> dim & 1) == 0)) {
    return false;
  }
  return std::all_of(summary.uses.begin(), summary.uses.end(),
                     [&](const Use& use) { return use.tensor != target || use.loops[dim] == loop; });
}

}  // namespace yoke::passes
