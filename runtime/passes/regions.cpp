// SPDX-License-Identifier: Apache-2.0
// runtime/passes/regions.cpp: groups statements that a backend can run tile by tile into `@fused[n] { .. }`.
#include <array>
#include <limits>

#include "cost.h"
#include "graph.h"

namespace yoke::passes {
namespace {

constexpr std::size_t kLargestRegion = 64;
constexpr std::uint32_t kNoLoop = ~std::uint32_t{0};
using Numbers = std::vector<std::uint32_t>;

// One use of a tensor: for each dimension, the loop that indexes it by itself, or kNoLoop.
struct Use {
  std::uint32_t tensor = 0;
  Numbers loops;
};

// What the pass needs to know about a statement.
struct Summary {
  std::vector<Use> uses;  // the target comes first
  // For each loop that a region may name, the dimension of the target that it indexes; kNoLoop for others.
  Numbers dims;
  std::uint64_t iterations = 1;
  bool is_product = false;
};

Use use_of(const Access& access) {
  Use use = {access.tensor, {}};
  for (const Index& index : access.indices) {
    const bool is_plain = !index.element_of && index.divisor == 1;
    use.loops.push_back(is_plain ? index.affine.single_loop().value_or(kNoLoop) : kNoLoop);
  }
  return use;
}

void add_uses(const Access& access, std::vector<Use>& uses) {
  uses.push_back(use_of(access));
  for (const Index& index : access.indices) {
    if (index.element_of) {
      Use& use = uses.emplace_back(Use{*index.element_of, {}});
      for (const Affine& affine : index.element_indices) {
        use.loops.push_back(affine.single_loop().value_or(kNoLoop));
      }
    }
  }
}

bool mentions_reduced_loop(const Statement& statement, const Access& access) {
  bool found = false;
  program::visit_affines(access, [&](const Affine& affine) {
    for (const Affine::Term& term : affine.terms) {
      found = found || (!term.is_symbol && statement.reduces(term.id));
    }
  });
  return found;
}

// The rows of a product: the leading loops of the target that index the same operand by themselves, but not the
// last dimension of the target. A backend computes a range of rows by one library call.
void keep_rows(const Statement& statement, Summary& summary) {
  std::uint32_t rows = 0;
  for (const Use& operand : summary.uses) {
    if (&operand == &summary.uses[0]) {
      continue;
    }
    std::uint32_t count = 0;
    const Numbers& target = summary.uses[0].loops;
    while (count + 1 < target.size() && target[count] != kNoLoop &&
           std::count(operand.loops.begin(), operand.loops.end(), target[count]) == 1) {
      ++count;
    }
    rows = std::max(rows, count);
  }
  for (std::uint32_t loop = 0; loop < statement.loops.size(); ++loop) {
    if (summary.dims[loop] != kNoLoop && summary.dims[loop] >= rows) {
      summary.dims[loop] = kNoLoop;
    }
  }
}

// A reduction along rows of memory does not name the loop along the columns: each iteration would read a few
// bytes of every row.
void drop_columns(const Statement& statement, Summary& summary) {
  program::visit_target_and_reads(statement.value, [&](const Access& access) {
    if (!access.indices.empty() && mentions_reduced_loop(statement, access)) {
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
  program::visit_target_and_reads(statement, [&](const Access& access) { add_uses(access, summary.uses); });
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

// A region that grows from its first statement. Its loops are numbered as in the first statement.
class Growth {
 public:
  Growth(const Graph& graph, const std::vector<Summary>& summaries)
      : graph_(graph), summaries_(summaries), known_(graph.program().tensors.size()) {}

  // Returns false if no region starts with this statement.
  bool start(Place first) {
    first_ = first;
    last_ = first;
    named_.clear();
    const Summary& summary = summaries_[first];
    for (std::uint32_t loop = 0; loop < summary.dims.size(); ++loop) {
      if (summary.dims[loop] != kNoLoop) {
        named_.push_back(loop);
      }
    }
    reset();
    return !named_.empty() && add(first) == Added::kYes;
  }

  // Takes the next statement in. Returns false if the region cannot.
  bool extend() {
    const Place next = last_ + 1;
    if (next == graph_.size() || next - first_ >= kLargestRegion || graph_.at(next).hint >= 0 ||
        graph_.at(next).repeat != graph_.at(first_).repeat || summaries_[next].is_product) {
      return false;
    }
    Added added = add(next);
    while (added == Added::kWithFewerLoops) {  // the saved bytes may be fewer, too
      reset();
      added = Added::kYes;
      for (Place i = first_; i <= next && added == Added::kYes; ++i) {
        added = add(i);
      }
    }
    last_ = next;
    return added == Added::kYes;
  }

  Place last() const { return last_; }
  // The bytes that need not go through memory.
  std::uint64_t saved_bytes() const {
    return summaries_[first_].is_product && !uses_product_ ? 0 : saved_bytes_;
  }
  // Whether the region names every loop, so that each value can stay in a register.
  bool names_all_loops() const { return names_all_loops_; }
  const Numbers& named() const { return named_; }
  // For statement i, the loops that stand for named().
  const Numbers& loops_of(Place i) const { return loops_[i - first_]; }

 private:
  enum class Added { kYes, kWithFewerLoops, kNo };

  // A tensor that the region uses. Per named loop: the dimensions that it indexes by itself in every use, as bits.
  // Of a tensor that the region writes, the lowest is the one where it must.
  struct Known {
    std::uint64_t version = 0;  // that of the region; other entries are out of date
    Place seen_by = 0;
    bool is_written = false;
    std::array<std::uint8_t, 8> dims = {};  // as many as a tensor can have
  };

  void reset() {
    ++version_;
    loops_.clear();
    saved_bytes_ = 0;
    uses_product_ = false;
    names_all_loops_ = true;
  }

  Known* find(std::uint32_t tensor) {
    Known& known = known_[tensor];
    return known.version == version_ ? &known : nullptr;
  }

  Added add(Place i) {
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
      return named_.empty() ? Added::kNo : Added::kWithFewerLoops;
    }
    names_all_loops_ = names_all_loops_ && loops.size() == graph_.at(i).loops.size();
    enter(i, loops);
    loops_.push_back(std::move(loops));
    return Added::kYes;
  }

  // The loops of statement i that stand for the named loops; kNoLoop where none can.
  Numbers match(Place i) {
    const Summary& summary = summaries_[i];
    Numbers loops;
    std::int64_t previous = -1;
    for (std::uint32_t c = 0; c < named_.size(); ++c) {
      std::uint32_t loop = choose(summary, c);
      const bool fits = loop < summary.dims.size() && summary.dims[loop] != kNoLoop &&
                        std::int64_t{loop} > previous &&
                        graph_.at(i).loops[loop].extent == graph_.at(first_).loops[named_[c]].extent &&
                        target_fits(summary, c, loop);
      previous = fits ? std::int64_t{loop} : previous;
      loops.push_back(fits ? loop : kNoLoop);
    }
    drop_innermost(graph_.at(i), loops);
    return loops;
  }

  // A region that named only the innermost loop of a target would run along columns of memory.
  static void drop_innermost(const Statement& statement, Numbers& loops) {
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

  // The loop that indexes what the region writes where the named loop does; else what it reads; else the loop with
  // the same number. kNoLoop if uses contradict each other.
  std::uint32_t choose(const Summary& summary, std::uint32_t c) {
    std::uint32_t forced = kNoLoop;
    std::uint32_t proposed = kNoLoop;
    for (const Use& use : summary.uses) {
      const Known* known = find(use.tensor);
      if (known == nullptr) {
        continue;
      }
      const std::uint32_t dim = lowest_bit(known->dims[c]);
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
    return forced != kNoLoop ? forced : proposed != kNoLoop ? proposed : named_[c];
  }

  // Whether all uses of the target, here and earlier in the region, are at the loop's current value.
  bool target_fits(const Summary& summary, std::uint32_t c, std::uint32_t loop) {
    const std::uint32_t target = summary.uses[0].tensor;
    const std::uint32_t dim = summary.dims[loop];
    const Known* known = find(target);
    if (known != nullptr &&
        (known->is_written ? lowest_bit(known->dims[c]) != dim : (known->dims[c] >> dim & 1) == 0)) {
      return false;
    }
    return std::all_of(summary.uses.begin(), summary.uses.end(),
                       [&](const Use& use) { return use.tensor != target || use.loops[dim] == loop; });
  }

  static std::uint32_t lowest_bit(std::uint8_t bits) {
    return bits == 0 ? kNoLoop : static_cast<std::uint32_t>(__builtin_ctz(bits));
  }

  void enter(Place i, const Numbers& loops) {
    const Summary& summary = summaries_[i];
    for (const Use& use : summary.uses) {
      Known& known = known_[use.tensor];
      const bool is_new = known.version != version_;
      const bool is_target = &use == &summary.uses[0];
      if (is_new) {
        known = {version_, i, is_target, {}};
        known.dims.fill(0xFF);
      }
      // Reads count after the target: a tensor that only this statement uses saves nothing.
      bool is_shared = known.is_written;
      for (std::size_t c = 0; c < named_.size(); ++c) {
        std::uint8_t here = 0;
        for (std::size_t dim = 0; dim < use.loops.size(); ++dim) {
          here = static_cast<std::uint8_t>(here | (use.loops[dim] == loops[c] ? 1U << dim : 0U));
        }
        known.dims[c] = known.is_written && !is_new ? known.dims[c]
                        : is_target                 ? static_cast<std::uint8_t>(1U << summary.dims[loops[c]])
                                                    : static_cast<std::uint8_t>(known.dims[c] & here);
        is_shared = is_shared || known.dims[c] != 0;
      }
      known.is_written = known.is_written || is_target;
      if (!is_new && known.seen_by != i && is_shared) {
        known.seen_by = i;
        const Tensor& tensor = graph_.program().tensors[use.tensor];
        const std::uint64_t bytes =
            std::min(tensor.element_count(), summary.iterations) * byte_size(tensor.type);
        saved_bytes_ += is_temporary_until(use.tensor, i) ? 2 * bytes : bytes;
        uses_product_ = uses_product_ || use.tensor == summaries_[first_].uses[0].tensor;
      }
    }
  }

  // Whether statement i is the last to use the temporary, which is first written in the region: it needs no memory.
  bool is_temporary_until(std::uint32_t tensor, Place i) const {
    return graph_.program().tensors[tensor].role == Role::kTemp && graph_.end_of(tensor) == i + 1 &&
           graph_.writers(tensor).front() >= first_ && graph_.at(i).repeat < 0;
  }

  const Graph& graph_;
  const std::vector<Summary>& summaries_;
  std::vector<Known> known_;  // by tensor
  std::uint64_t version_ = 0;
  Place first_ = 0;
  Place last_ = 0;
  Numbers named_;               // loops of the first statement
  std::vector<Numbers> loops_;  // by statement of the region
  std::uint64_t saved_bytes_ = 0;
  bool uses_product_ = false;
  bool names_all_loops_ = true;
};

// Names `loops` of the statement, and gives other loops with these names new ones.
void rename_loops(const Program& program, Statement& statement, const Numbers& loops,
                  const std::vector<std::string>& names) {
  const auto is_taken = [&](const std::string& name) {
    const auto has_name = [&](const auto& one) { return one.name == name; };
    return std::find(names.begin(), names.end(), name) != names.end() ||
           std::any_of(statement.loops.begin(), statement.loops.end(), has_name) ||
           std::any_of(program.symbols.begin(), program.symbols.end(), has_name) ||
           program.find_tensor(name).has_value();
  };
  for (std::size_t c = 0; c < loops.size(); ++c) {
    statement.loops[loops[c]].name = names[c];
  }
  for (std::uint32_t i = 0; i < statement.loops.size(); ++i) {
    std::string& name = statement.loops[i].name;
    const bool is_named = std::find(loops.begin(), loops.end(), i) != loops.end();
    if (is_named || std::find(names.begin(), names.end(), name) == names.end()) {
      continue;
    }
    int number = 2;
    while (is_taken(name + std::to_string(number))) {
      ++number;
    }
    name += std::to_string(number);
  }
}

// The cuts between statements that save the most.
class Cuts {
 public:
  explicit Cuts(Graph& graph) : graph_(graph), best_(graph.size() + 1, 0), from_(graph.size() + 1, 0) {
    for (Place i = 0; i < graph.size(); ++i) {
      summaries_.push_back(summary_of(graph.at(i)));
    }
    Growth growth(graph, summaries_);
    for (Place i = 0; i < graph.size(); ++i) {
      consider(i, i + 1, 0);
      if (graph.at(i).hint < 0 && growth.start(i)) {
        while (growth.extend()) {
          consider(i, growth.last() + 1, worth_of(growth));
        }
      }
    }
  }

  bool apply() {
    Growth growth(graph_, summaries_);
    bool changed = false;
    for (Place end = graph_.size(); end > 0; end = from_[end]) {
      if (best_[end] > best_[from_[end]]) {
        growth.start(from_[end]);
        while (growth.last() + 1 < end) {
          growth.extend();
        }
        mark(growth, from_[end], end);
        changed = true;
      }
    }
    return changed;
  }

 private:
  // Where a region does not name every loop, values stay in a cache and not in registers.
  static std::uint64_t worth_of(const Growth& growth) {
    return growth.saved_bytes() * (growth.names_all_loops() ? 16 : 15);
  }

  // Among equals, the shortest last region is best: nothing is gained by statements that share nothing.
  void consider(Place first, Place end, std::uint64_t worth) {
    if (best_[first] + worth >= best_[end]) {
      best_[end] = best_[first] + worth;
      from_[end] = first;
    }
  }

  void mark(const Growth& growth, Place first, Place end) {
    program::Hint hint = {"fused", {}};
    for (const std::uint32_t loop : growth.named()) {
      hint.loops.push_back(graph_.at(first).loops[loop].name);
    }
    const std::int32_t number = graph_.add_hint(hint);
    for (Place i = first; i < end; ++i) {
      graph_.note(i, [&] { return note_text(growth, first, end, i); });
      graph_.edit(i, [&](Statement& statement) {
        statement.hint = number;
        rename_loops(graph_.program(), statement, growth.loops_of(i), hint.loops);
        return true;
      });
    }
    Report& report = graph_.report();
    ++report.regions;
    report.grouped += end - first;
    report.saved_bytes += growth.saved_bytes();
  }

  std::string note_text(const Growth& growth, Place first, Place end, Place i) const {
    std::string loops;
    for (const std::uint32_t loop : growth.named()) {
      loops += (loops.empty() ? "" : ", ") + graph_.at(first).loops[loop].name;
    }
    if (i != first) {
      return "runs with " + line_of(graph_.at(first)) + " for each [" + loops + "]";
    }
    return "starts a region of " + std::to_string(end - first) + " statements that run together for each [" +
           loops + "]: " + std::to_string(growth.saved_bytes()) + " bytes need not go through memory";
  }

  Graph& graph_;
  std::vector<Summary> summaries_;
  std::vector<std::uint64_t> best_;  // by number of statements from the start: what the best cuts save
  std::vector<Place> from_;          // the first statement of the last region
};

}  // namespace

bool form_regions_in(Graph& graph) {
  return Cuts(graph).apply();
}

}  // namespace yoke::passes
