// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/verify_repeat.cpp: what the rounds of a repeat block have written before a read.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "verify.h"

namespace yoke::program {
namespace {

// A read may look back this many rounds.
constexpr std::uint64_t kMaxRounds = 64;

std::int64_t coefficient_of(const Affine& affine, std::uint32_t variable) {
  for (const Affine::Term& term : affine.terms) {
    if (term.is_symbol && term.id == variable) {
      return term.coefficient;
    }
  }
  return 0;
}

// How far the access moves along each dimension from one value of the variable to the next; empty if its
// motion is not a constant offset.
std::optional<std::vector<std::int64_t>> motion(const Access& access, std::uint32_t variable) {
  std::vector<std::int64_t> steps;
  for (const Index& index : access.indices) {
    steps.push_back(coefficient_of(index.affine, variable));
    if (steps.back() != 0 && index.divisor != 1) {
      return std::nullopt;
    }
  }
  return steps;
}

bool moves(const Access& access, std::uint32_t variable) {
  return std::any_of(access.indices.begin(), access.indices.end(),
                     [&](const Index& index) { return coefficient_of(index.affine, variable) != 0; });
}

// Per dimension, a superset of the indices in all rounds.
std::vector<Interval> reach_of(const Program& program, const Statement& statement, const Access& access) {
  std::vector<Interval> reach;
  for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
    const auto size = static_cast<std::int64_t>(program.tensors[access.tensor].dims[dim]);
    const Index& index = access.indices[dim];
    const auto range = range_of(program, statement, index.affine);
    const bool is_plain = !index.element_of && index.divisor == 1 && range;
    reach.push_back(is_plain ? *range : Interval{0, size - 1});
  }
  return reach;
}

// Proves by induction that a read finds its elements written in every round, without visiting every round.
// Writers that move with the reader have written the same elements, relative to what is read, in every round
// but the first few. So it is enough to look at these rounds, with what was written before the block, and at
// one later round without it.
class Rounds {
 public:
  // `fixed` has the symbols of the program, in which this object changes the variable.
  Rounds(const Program& program, const Block& block, const Statement& reader, const Access& access,
         const std::vector<MovingWriter>& writers, Program& fixed)
      : reader_(reader),
        access_(access),
        tensor_(program.tensors[access.tensor]),
        variable_(static_cast<std::uint32_t>(block.repeat)),
        step_(program.symbols[variable_].step),
        low_(program.symbols[variable_].low),
        count_(program.symbols[variable_].value_count()),
        fixed_(fixed) {
    const std::vector<Interval> reach = reach_of(program, reader, access);
    for (const MovingWriter& one : writers) {
      bool may_meet = true;
      for (std::size_t dim = 0; dim < reach.size(); ++dim) {
        may_meet = may_meet && one.reach[dim].low <= reach[dim].high && reach[dim].low <= one.reach[dim].high;
      }
      if (may_meet) {
        writers_.push_back(one.statement);
      }
    }
  }

  bool write_before(Coverage coverage) {
    if (writers_.empty()) {
      return false;
    }
    const auto needed = count_ <= kMaxRounds ? std::optional(count_) : rounds_needed();
    for (std::uint64_t round = 0; needed && round < *needed; ++round) {
      add_round(coverage, at(round), [&](const Statement* writer) { return writer < &reader_; });
      if (!coverage.covers(read_region(at(round), true))) {
        return false;
      }
      add_round(coverage, at(round), [&](const Statement* writer) { return writer >= &reader_; });
    }
    return needed.has_value();
  }

 private:
  std::int64_t at(std::uint64_t round) const { return low_ + static_cast<std::int64_t>(round) * step_; }

  // The number of latest rounds that together write what a late round reads.
  std::optional<std::uint64_t> rounds_needed() {
    if (!motion(access_, variable_)) {
      return std::nullopt;
    }
    const auto keeps_step = [&](const Statement* writer) {
      return motion(writer->target, variable_) == motion(access_, variable_);
    };
    Coverage coverage;
    const std::int64_t late = at(0);  // any value: everything moves alike
    const Region read = read_region(late, false);
    add_round(coverage, late,
              [&](const Statement* writer) { return writer < &reader_ && keeps_step(writer); });
    for (std::uint64_t rounds = 1; rounds <= kMaxRounds; ++rounds) {
      add_round(coverage, late - static_cast<std::int64_t>(rounds) * step_, keeps_step);
      if (coverage.covers(read)) {
        return rounds;
      }
    }
    return std::nullopt;
  }

  // Adds what the chosen writers write in the round in which the variable is `value`.
  template <class Chosen>
  void add_round(Coverage& coverage, std::int64_t value, const Chosen& chosen) {
    fix(value);
    for (const Statement* writer : writers_) {
      if (!chosen(writer)) {
        continue;
      }
      if (auto region = written_region(fixed_, *writer)) {
        coverage.add(std::move(*region));
      }
    }
  }

  Region read_region(std::int64_t value, bool clips) {
    fix(value);
    return touched(fixed_, reader_, access_, tensor_, clips);
  }

  void fix(std::int64_t value) {
    Symbol& variable = fixed_.symbols[variable_];
    variable.low = value;
    variable.high = value + 1;
    variable.step = 1;
  }

  const Statement& reader_;
  const Access& access_;
  const Tensor& tensor_;
  std::uint32_t variable_;
  std::int64_t step_;
  std::int64_t low_;
  std::uint64_t count_;
  std::vector<const Statement*> writers_;
  Program& fixed_;
};

}  // namespace

// Every variable belongs to one block, and the variables are in the order of their blocks.
void Verifier::repeats() const {
  std::size_t next = program_.launch_symbol_count();
  for (const Block& one : program_.blocks()) {
    const bool is_next = one.repeat >= 0 && static_cast<std::size_t>(one.repeat) == next;
    if (one.repeat != -1 && !is_next) {
      fail(program_.statements[one.first].at,
           "the statements of a repeat block must be consecutive, and its variable the next symbol");
    }
    next += is_next ? 1 : 0;
  }
  const auto variables =
      program_.symbols.begin() + static_cast<std::ptrdiff_t>(program_.launch_symbol_count());
  if (next != program_.symbols.size() ||
      !std::all_of(variables, program_.symbols.end(), [](const Symbol& one) { return one.is_variable; })) {
    fail({}, "a variable has no repeat block, or a symbol follows a variable");
  }
}

void Verifier::block(const Block& block) {
  block_ = block;
  const auto each_statement = [&](const auto& visit) {
    for (std::size_t i = block.first; i < block.last; ++i) {
      statement_ = &program_.statements[i];
      visit(*statement_);
    }
  };
  each_statement([&](const Statement&) { statement(); });
  // A round also reads what later statements wrote in earlier rounds, so all of them are valid by now.
  moving_writers_.clear();
  if (block.repeat >= 0) {
    fixed_.symbols = program_.symbols;
  }
  each_statement([&](const Statement& one) {
    if (one.assign == Assign::kSet && !has_element_index(one.target) && target_moves()) {
      moving_writers_[one.target.tensor].push_back({&one, reach_of(program_, one, one.target)});
    }
  });
  each_statement([&](const Statement& one) {
    reads_are_written(one.value);
    write();
  });
  // Now that all rounds have run, what they wrote is written.
  for (std::size_t i = block.first; block.repeat >= 0 && i < block.last; ++i) {
    const Statement& one = program_.statements[i];
    if (one.assign == Assign::kSet && !has_element_index(one.target)) {
      if (auto region = written_region(program_, one)) {
        written_[one.target.tensor].add(std::move(*region));
      }
    }
  }
}

bool Verifier::is_written(const Access& access) const {
  const Coverage& written = written_[access.tensor];
  if (written.covers(touched(program_, *statement_, access, tensor_of(access)))) {
    return true;
  }
  const auto writers = moving_writers_.find(access.tensor);
  return writers != moving_writers_.end() &&
         Rounds(program_, block_, *statement_, access, writers->second, fixed_).write_before(written);
}

// What the statement writes moves from round to round.
bool Verifier::target_moves() const {
  return block_.repeat >= 0 && moves(statement_->target, static_cast<std::uint32_t>(block_.repeat));
}

}  // namespace yoke::program
