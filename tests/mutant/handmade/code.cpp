// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/code.cpp: which kernel runs a statement, the workspace, and launches.
#include "code.h"

#include <yoke/program/access.h>
#include <yoke/sdk/program.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "bugs.h"
#include "stream.h"

namespace yoke::handmade {
namespace {

using program::Program;
using program::Statement;

std::unique_ptr<Kernel> kernel_of(const Program& program, const Statement& statement, PlanCache& plans) {
  if (auto kernel = contraction_kernel(program, statement, plans)) {
    return kernel;
  }
  if (auto kernel = map_kernel(program, statement)) {
    return kernel;
  }
  if (auto kernel = reduce_kernel(program, statement)) {
    return kernel;
  }
  return interpreted_kernel(program, statement);
}

// Whether every round of the statement's repeat block stores the same. With the bug repeat_invariant only: it
// ignores what later statements of the block write for the next round.
bool is_invariant(const Program& source, std::size_t number) {
  const Statement& statement = source.statements[number];
  if (statement.repeat < 0 || statement.assign != program::Assign::kSet) {
    return false;
  }
  bool is_same = true;
  const auto check = [&](const program::Affine& affine) {
    for (const program::Affine::Term& term : affine.terms) {
      is_same = is_same && !(term.is_symbol && term.id == static_cast<std::uint32_t>(statement.repeat));
    }
  };
  program::visit_affines(statement.target, check);
  program::visit_affines(statement.value, check);
  for (std::size_t i = 0; i < source.statements.size(); ++i) {
    const Statement& other = source.statements[i];
    if (other.repeat == statement.repeat) {
      const std::uint32_t written = other.target.tensor;
      is_same = is_same && (i == number || written != statement.target.tensor);
      program::visit_read_tensors(
          statement.value, [&](std::uint32_t read) { is_same = is_same && (read != written || i > number); });
    }
  }
  return is_same;
}

// Whether the statement fills a temporary, which no other statement writes, with a value that needs no tensor. With
// the bug constant_temporary only: another temporary may share its memory, or another routine the workspace.
bool is_constant(const Program& source, const Statement& statement) {
  bool is_known = source.tensors[statement.target.tensor].role == program::Role::kTemp && !statement.reduce &&
                  program::overwrites_target(source, statement);
  program::visit_read_tensors(statement.value, [&](std::uint32_t) { is_known = false; });
  program::visit_affines(statement.value, [&](const program::Affine&) { is_known = false; });
  return is_known &&
         1 == std::count_if(source.statements.begin(), source.statements.end(),
                            [&](const auto& one) { return one.target.tensor == statement.target.tensor; });
}

// Ends the lifetimes of temporaries that a hint writes first with the hint. With the bug fused_lifetime only: a
// statement after the hint, as one of its gradient, may read them.
void end_with_hint(const Program& source, std::vector<program::Lifetime>& lifetimes) {
  for (program::Lifetime& lifetime : lifetimes) {
    const std::int32_t hint = lifetime.byte_count == 0 ? -1 : source.statements[lifetime.first].hint;
    if (hint >= 0 && source.statements[lifetime.first].repeat < 0) {
      std::uint64_t last = lifetime.first;
      while (last < lifetime.last && source.statements[last + 1].hint == hint) {
        ++last;
      }
      lifetime.last = last;
    }
  }
}

bool reads(const program::Expr& value, std::uint32_t tensor) {
  bool found = false;
  program::visit_read_tensors(value, [&](std::uint32_t one) { found = found || one == tensor; });
  return found;
}

// The statement before `number` whose target holds the same value; `number` if there is none. With the bug
// value_numbering only: statements between the two may change what the value reads.
std::size_t first_equal(const Program& source, std::size_t number) {
  const Statement& statement = source.statements[number];
  const auto is_equal = [&](const Statement& one) {
    const program::Tensor& target = source.tensors[one.target.tensor];
    const program::Tensor& wanted = source.tensors[statement.target.tensor];
    return one.repeat < 0 && program::overwrites_target(source, one) &&
           one.target.tensor != statement.target.tensor && target.type == wanted.type &&
           target.dims == wanted.dims && one.target.indices == statement.target.indices &&
           one.loops == statement.loops && one.reduce == statement.reduce &&
           one.reduce_loops == statement.reduce_loops &&
           one.accumulator_type() == statement.accumulator_type() &&
           program::same(one.value, statement.value) && !reads(one.value, one.target.tensor);
  };
  for (std::size_t i = 0; i < number && statement.repeat < 0; ++i) {
    const std::uint32_t target = source.statements[i].target.tensor;
    const bool is_kept =
        std::none_of(source.statements.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                     source.statements.begin() + static_cast<std::ptrdiff_t>(number),
                     [&](const Statement& between) { return between.target.tensor == target; });
    if (is_kept && is_equal(source.statements[i]) && program::overwrites_target(source, statement)) {
      return i;
    }
  }
  return number;
}

// Whether the statement may run at the same time as the next one, because that does not read its target. With the bug
// overlapped_statements only: the next one may write what the statement reads, if only by sharing a temporary's memory.
bool can_overlap(const Unit& unit, std::size_t number) {
  const std::vector<Statement>& statements = unit.source.statements;
  if (number + 1 >= statements.size() || statements[number].repeat != statements[number + 1].repeat ||
      (number > 0 && unit.overlaps_next[number - 1])) {
    return false;
  }
  const Statement& next = statements[number + 1];
  const std::uint32_t target = statements[number].target.tensor;
  bool is_free = next.target.tensor != target && !reads(next.value, target) &&
                 std::min(unit.kernels[number]->scratch_byte_count(),
                          unit.kernels[number + 1]->scratch_byte_count()) == 0;
  program::visit_index_tensors(next.target, [&](std::uint32_t read) { is_free = is_free && read != target; });
  return is_free;
}

std::unique_ptr<Unit> unit_of(const Program& source, PlanCache& plans) {
  auto unit = std::make_unique<Unit>();
  unit->source = source;
  std::vector<program::Lifetime> lifetimes = program::lifetimes(source);
  for (program::Lifetime& lifetime : lifetimes) {
    lifetime.last -= std::uint64_t{bug("early_reuse") && lifetime.last > lifetime.first};
  }
  if (bug("fused_lifetime")) {
    end_with_hint(source, lifetimes);
  }
  for (std::size_t i = 0; i < source.statements.size(); ++i) {
    unit->same_as.push_back(bug("value_numbering") ? first_equal(source, i) : i);
    std::uint64_t& last = lifetimes[source.statements[unit->same_as[i]].target.tensor].last;
    last = std::max<std::uint64_t>(last, unit->same_as[i] == i ? 0 : i);
  }
  unit->memory = program::plan_memory(lifetimes);
  for (const Statement& statement : source.statements) {
    unit->kernels.push_back(kernel_of(source, statement, plans));
    unit->scratch_byte_count = std::max(unit->scratch_byte_count, unit->kernels.back()->scratch_byte_count());
    unit->runs_in_first_round.push_back(bug("repeat_invariant") &&
                                        is_invariant(source, unit->runs_in_first_round.size()));
    unit->is_constant.push_back(bug("constant_temporary") && is_constant(source, statement));
  }
  for (std::size_t i = 0; i < source.statements.size(); ++i) {
    unit->overlaps_next.push_back(bug("overlapped_statements") && can_overlap(*unit, i));
  }
  unit->scratch_offset = bug("scratch_overlap") ? 0 : (unit->memory.byte_count + 63) / 64 * 64;
  if (bug("shared_scratch")) {
    unit->own_scratch.resize(unit->scratch_byte_count);
  }
  return unit;
}

class Routine final : public sdk::Routine {
 public:
  Routine(const Unit& unit, std::shared_ptr<Engine> engine, std::shared_ptr<const Table> tensors,
          std::byte* scratch)
      : unit_(unit), engine_(std::move(engine)), tensors_(std::move(tensors)), scratch_(scratch) {}

  void launch(sdk::Stream* stream, std::span<const std::int64_t> symbol_values) override {
    std::shared_ptr<Parameters> parameters =
        bug("shared_symbols") && last_ != nullptr ? last_ : make_parameters();
    if (!bug("first_symbol_key") || known_.empty() || symbol_values[0] != known_[0]) {
      known_.assign(symbol_values.begin(), symbol_values.end());
    }
    std::copy(known_.begin(), known_.end(), parameters->symbols.begin());
    last_ = bug("shared_symbols") ? parameters : nullptr;
    Stream::run(stream, [this, parameters](const Timeline* timeline) { run(*parameters, timeline); });
  }

 private:
  // Of one launch.
  struct Parameters {
    std::vector<std::byte*> tensors;
    std::vector<std::int64_t> symbols;   // the variables of repeat blocks included
    std::vector<std::uint64_t> scalars;  // one per tensor; with the bug scalar_when_queued
  };
  // Replaces the scalar arguments by copies of their values. With the bug scalar_when_queued only: work that is
  // queued before the launch may change them.
  void copy_scalars(Parameters& parameters) const {
    parameters.scalars.resize(parameters.tensors.size());
    for (std::size_t i = 0; i < parameters.scalars.size(); ++i) {
      const program::Tensor& tensor = unit_.source.tensors[i];
      if (tensor.role == program::Role::kIn && tensor.dims.empty()) {
        std::memcpy(&parameters.scalars[i], parameters.tensors[i], tensor.byte_count());
        parameters.tensors[i] = reinterpret_cast<std::byte*>(&parameters.scalars[i]);
      }
    }
  }

  std::shared_ptr<Parameters> make_parameters() const {
    std::vector<std::int64_t> symbols;
    for (const program::Symbol& symbol : unit_.source.symbols) {
      symbols.push_back(symbol.low);
    }
    std::shared_ptr<Parameters> parameters(new Parameters{*tensors_, std::move(symbols), {}},
                                           [](Parameters* used) {
                                             if (!bug("launch_leak")) {
                                               delete used;
                                             }
                                           });
    if (bug("scalar_when_queued")) {
      copy_scalars(*parameters);
    }
    return parameters;
  }

  void run(const Parameters& parameters, const Timeline* timeline) {
    std::vector<std::int64_t> symbols = parameters.symbols;
    const bool is_first = std::exchange(is_first_, false);
    program::run_in_order(unit_.source, symbols, [&](std::size_t i) {
      if ((timeline != nullptr && timeline->is_cancelled()) || (!is_first && unit_.is_constant[i])) {
        return;
      }
      if (unit_.runs_in_first_round[i]) {
        const auto variable = static_cast<std::size_t>(unit_.source.statements[i].repeat);
        if (symbols[variable] != unit_.source.symbols[variable].low) {
          return;
        }
      }
      if (bug("single_round")) {
        unroll_single_round(unit_.source.statements[i].repeat, symbols);
      }
      const auto run_kernel = [&](std::size_t number) {
        const Kernel& kernel = *unit_.kernels[number];
        const bool is_stale = bug("hoisted_offsets") && kernel.is_native();
        kernel.run({.tensors = parameters.tensors,
                    .symbols = is_stale ? parameters.symbols : symbols,
                    .scratch = scratch_,
                    .pool = &engine_->pool,
                    .is_first = is_first});
      };
      if (unit_.same_as[i] != i) {
        copy_result(parameters, unit_.same_as[i], i);
      } else if (unit_.overlaps_next[i]) {
        engine_->pool.run(2, [&](std::size_t part) { run_kernel(i + part); });
      } else if (i == 0 || !unit_.overlaps_next[i - 1]) {
        run_kernel(i);
      }
    });
  }

  // Copies the target of one statement to that of another; with the bug value_numbering.
  void copy_result(const Parameters& parameters, std::size_t from, std::size_t to) const {
    const std::uint32_t source = unit_.source.statements[from].target.tensor;
    const std::uint32_t target = unit_.source.statements[to].target.tensor;
    std::memcpy(parameters.tensors[target], parameters.tensors[source],
                unit_.source.tensors[target].byte_count());
  }

  // Sets the variable of a repeat block with one round to 0; with the bug single_round.
  void unroll_single_round(std::int32_t repeat, std::vector<std::int64_t>& symbols) const {
    const auto variable = static_cast<std::size_t>(repeat);
    if (repeat >= 0 && unit_.source.symbols[variable].value_count() == 1) {
      symbols[variable] = 0;
    }
  }

  const Unit& unit_;  // owned by Code, which the SDK keeps alive as long as its routines
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const Table> tensors_;
  std::byte* scratch_;
  bool is_first_ = true;
  std::vector<std::int64_t> known_;   // the values of the symbols at the last launch
  std::shared_ptr<Parameters> last_;  // with the bug shared_symbols
};

}  // namespace

Code::Code(std::string_view text, std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {
  for (const Program& source : sdk::read_program(bug("text_zero") ? text.data() : text).programs) {
    units_.push_back(unit_of(source, engine_->plans));
    const Unit& unit = *units_.back();
    entries_.push_back(sdk::entry_of(source));
    sdk::Entry& entry = entries_.back();
    entry.fingerprint = bug("fingerprint_name") ? source.name : entry.fingerprint;
    for (sdk::SymbolRange& symbol : entry.symbols) {  // the SDK checks values against it (routine_launch)
      symbol.step = bug("symbol_step_lost") ? 1 : symbol.step;
    }
    for (sdk::Argument& argument : entry.arguments) {
      const bool is_wrong = bug("inout_as_out") && argument.access == YOKE_ACCESS_INOUT;
      argument.access = is_wrong ? YOKE_ACCESS_OUT : argument.access;
    }
    const std::uint64_t needed = unit.memory.byte_count + unit.scratch_byte_count;
    entry.workspace_byte_count = needed == 0 ? 0 : needed + 64;
  }
}

Code::~Code() {
  if (bug("kernel_leak")) {  // with it only: no one else frees them
    for (const std::unique_ptr<Unit>& unit : units_) {
      for (std::unique_ptr<Kernel>& kernel : unit->kernels) {
        static_cast<void>(kernel.release());
      }
    }
  }
}

std::unique_ptr<sdk::Routine> Code::link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                         const sdk::Binding& workspace) {
  Unit& unit = *units_[entry];
  const sdk::Binding origin{workspace.buffer, bug("workspace_offset") ? 0 : workspace.offset};
  auto* const memory = static_cast<std::byte*>(origin.host_address());
  // Without a workspace no statement uses a temporary, but the reference executor needs an address for each tensor.
  static std::byte unused{};
  Table tensors;
  std::size_t argument = 0;
  for (std::size_t i = 0; i < unit.source.tensors.size(); ++i) {
    const bool is_temporary = unit.source.tensors[i].role == program::Role::kTemp;
    tensors.push_back(is_temporary ? (memory == nullptr ? &unused : memory + unit.memory.offsets[i])
                                   : static_cast<std::byte*>(bindings[argument++].host_address()));
  }
  std::byte* const scratch = bug("shared_scratch") ? unit.own_scratch.data() : memory + unit.scratch_offset;
  auto table = std::make_shared<const Table>(std::move(tensors));
  if (bug("bindings_key") && !bindings.empty()) {
    const void* const first = bindings[0].host_address();
    const std::lock_guard lock(unit.linked.mutex);
    const std::shared_ptr<const Table> known =
        first == unit.linked.first ? unit.linked.table.lock() : nullptr;
    table = known != nullptr ? known : table;
    unit.linked.first = first;
    unit.linked.table = table;
  }
  return std::make_unique<Routine>(unit, engine_, std::move(table), scratch);
}

std::vector<sdk::Verdict> verdicts(std::string_view text) {
  std::vector<sdk::Verdict> all;
  PlanCache plans;
  const program::Module module = sdk::read_program(text);
  for (std::uint32_t p = 0; p < module.programs.size(); ++p) {
    const Program& source = module.programs[p];
    for (std::uint32_t s = 0; s < source.statements.size(); ++s) {
      const bool is_native = kernel_of(source, source.statements[s], plans)->is_native();
      const auto number = bug("verdict_numbering") ? static_cast<std::uint32_t>(all.size()) : s;
      all.push_back({p, number, is_native ? YOKE_VERDICT_NATIVE : YOKE_VERDICT_DECOMPOSED,
                     is_native ? "" : "no kernel computes this value; the reference executor interprets it"});
    }
  }
  return all;
}

}  // namespace yoke::handmade
