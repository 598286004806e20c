// SPDX-License-Identifier: Apache-2.0
// tests/mutant/program.cpp: compiling, linking and launching.
#include "program.h"

#include <yoke/program/access.h>
#include <yoke/program/execute.h>
#include <yoke/program/memory.h>
#include <yoke/program/text.h>
#include <yoke/sdk/program.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "bug.h"
#include "device.h"
#include "rewrite.h"

namespace yoke::mutant {
namespace {

// Bug: reads of indices do not keep a temporary alive.
void end_at_last_value(const program::Program& source, std::vector<program::Lifetime>& lifetimes) {
  for (std::size_t tensor = 0; tensor < lifetimes.size(); ++tensor) {
    lifetimes[tensor].last = lifetimes[tensor].first;
  }
  for (std::size_t number = 0; number < source.statements.size(); ++number) {
    program::visit_target_and_reads(source.statements[number], [&](const program::Access& access) {
      lifetimes[access.tensor].last = std::max<std::uint64_t>(lifetimes[access.tensor].last, number);
    });
  }
}

// Bug: programs that differ only in their names are one.
program::Program first_of_equal(const program::Program& source) {
  static std::mutex mutex;
  static std::map<std::string, program::Program> found;
  program::Program nameless = source;
  nameless.name = "p";
  const std::lock_guard lock(mutex);
  return found.try_emplace(program::print(nameless), source).first->second;
}

// Turns every temporary of `source` into an argument in the workspace.
Runnable runnable_of(const program::Program& source) {
  Runnable runnable;
  runnable.variants = planted_variants(source);
  const program::Program& first = runnable.variants.front();
  std::vector<program::Lifetime> lifetimes = program::lifetimes(first);
  const bool has_blocks =
      std::any_of(first.statements.begin(), first.statements.end(),
                  [](const program::Statement& statement) { return statement.repeat >= 0; });
  if (on<"temporaries_that_are_indices_end_early">() && !has_blocks) {
    end_at_last_value(first, lifetimes);
  }
  const program::MemoryPlan plan = program::plan_memory(lifetimes);
  runnable.workspace_byte_count = plan.byte_count;
  std::int64_t binding = 0;
  for (std::size_t i = 0; i < first.tensors.size(); ++i) {
    const program::Tensor& tensor = first.tensors[i];
    const bool is_temporary = tensor.role == program::Role::kTemp;
    runnable.places.push_back(is_temporary ? -1 : binding++);
    runnable.offsets.push_back(is_temporary ? plan.offsets[i] : 0);
    runnable.byte_counts.push_back(tensor.byte_count());
    if (!is_temporary) {
      runnable.is_written.push_back(tensor.role != program::Role::kIn);
      runnable.is_read.push_back(tensor.role != program::Role::kOut);
    }
  }
  for (program::Program& variant : runnable.variants) {
    for (program::Tensor& tensor : variant.tensors) {
      tensor.role = tensor.role == program::Role::kTemp ? program::Role::kInOut : tensor.role;
    }
  }
  return runnable;
}

// Bug: one workspace for all programs of the process.
std::byte* shared_scratch(std::uint64_t byte_count) {
  static std::array<std::byte, std::size_t{1} << 20U> scratch;
  return byte_count <= scratch.size() ? scratch.data() : nullptr;
}

std::string fingerprint_of(const program::Program& source) {
  return on<"fingerprint_is_constant">() ? "mutant"
                                         : "mutant-" + program::fingerprint(program::Module{{source}});
}

// Whether the indices are the loops of the target, in order and in their whole range, or the tensor is a scalar.
bool is_in_place(const program::Program& source, const program::Statement& statement,
                 const program::Access& access) {
  const std::vector<std::uint64_t>& dims = source.tensors[access.tensor].dims;
  bool is = !access.otherwise && (dims.empty() || dims.size() == statement.loops.size());
  for (std::uint32_t i = 0; is && i < dims.size(); ++i) {
    const program::Index& index = access.indices[i];
    is = !index.element_of && index.divisor == 1 && index.affine.single_loop() == i &&
         dims[i] == statement.loops[i].extent;
  }
  return is;
}

bool is_elementwise(const program::Program& source, const program::Statement& statement,
                    const program::Expr& value) {
  if (value.op == program::Op::kIndex || value.op == program::Op::kGuard) {
    return false;
  }
  return (value.op != program::Op::kRead || is_in_place(source, statement, value.access)) &&
         std::all_of(value.args.begin(), value.args.end(), [&](const program::Expr& argument) {
           return is_elementwise(source, statement, argument);
         });
}

bool is_elementwise(const program::Program& source, const program::Statement& statement) {
  return !statement.reduce && statement.repeat < 0 && is_in_place(source, statement, statement.target) &&
         is_elementwise(source, statement, statement.value);
}

}  // namespace

std::vector<sdk::Verdict> verdicts_of(std::string_view text, bool elementwise_only) {
  std::vector<sdk::Verdict> verdicts;
  const program::Module module = sdk::read_program(text);
  for (std::uint32_t p = 0; p < module.programs.size(); ++p) {
    for (std::uint32_t s = 0; s < module.programs[p].statements.size(); ++s) {
      if (elementwise_only && !is_elementwise(module.programs[p], module.programs[p].statements[s])) {
        verdicts.push_back({p, s, YOKE_VERDICT_UNSUPPORTED, "it is not elementwise"});
      } else {
        verdicts.push_back({p, s, YOKE_VERDICT_DECOMPOSED, "the reference executor interprets it"});
      }
    }
  }
  if (on<"can_compile_forgets_a_statement">()) {
    verdicts.pop_back();
  }
  if (on<"can_compile_reports_unsupported">()) {
    verdicts.front() = {0, 0, YOKE_VERDICT_UNSUPPORTED, "the mutant does not support it"};
  }
  return verdicts;
}

void refuse_unsupported(std::string_view text) {
  for (const sdk::Verdict& verdict : verdicts_of(text, /*elementwise_only=*/true)) {
    if (verdict.verdict == YOKE_VERDICT_UNSUPPORTED) {
      throw sdk::Failure(YOKE_STATUS_UNIMPLEMENTED, verdict.reason);
    }
  }
}

Code::Code(std::string_view text, std::shared_ptr<DeviceState> device) : device_(std::move(device)) {
  for (const program::Program& parsed : sdk::read_program(text).programs) {
    const program::Program source =
        on<"codes_are_found_without_their_names">() ? first_of_equal(parsed) : parsed;
    runnables_.push_back(runnable_of(source));
    sdk::Entry entry = sdk::entry_of(source);
    entry.workspace_byte_count = runnables_.back().workspace_byte_count;
    entry.fingerprint = fingerprint_of(source);
    entries_.push_back(std::move(entry));
  }
}

std::unique_ptr<sdk::Routine> Code::link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                         const sdk::Binding& workspace) {
  device_->check_not_lost();
  return std::make_unique<Routine>(runnables_[entry], bindings, workspace, device_);
}

void Code::forget() {
  for (Runnable& runnable : runnables_) {
    for (program::Program& variant : runnable.variants) {
      variant.statements.clear();
    }
  }
}

Routine::Routine(const Runnable& runnable, std::span<const sdk::Binding> bindings,
                 const sdk::Binding& workspace, std::shared_ptr<DeviceState> device)
    : runnable_(runnable),
      workspace_(static_cast<std::byte*>(workspace.host_address())),
      device_(std::move(device)) {
  if (on<"routines_share_scratch">() && shared_scratch(runnable.workspace_byte_count) != nullptr) {
    workspace_ = shared_scratch(runnable.workspace_byte_count);
  }
  for (std::size_t i = 0; i < runnable.places.size(); ++i) {
    if (runnable.places[i] < 0) {
      addresses_.push_back(workspace_ + runnable.offsets[i]);
      continue;
    }
    const sdk::Binding& binding = bindings[static_cast<std::size_t>(runnable.places[i])];
    addresses_.push_back(on<"routine_forgets_binding_offset">() ? binding.buffer->host_address()
                                                                : binding.host_address());
  }
}

void Routine::launch(sdk::Stream* stream, std::span<const std::int64_t> symbol_values) {
  if (on<"symbols_are_read_later">()) {
    perform(stream, device_, YOKE_FAULT_LAUNCH, [this, symbol_values] { run(symbol_values); });
    return;
  }
  std::vector<std::int64_t> values(symbol_values.begin(), symbol_values.end());
  if (on<"workspace_is_prepared_when_queued">()) {
    sign_workspace();
  }
  if (on<"failed_launch_overruns_its_output">()) {
    const Trouble trouble = device_->next(YOKE_FAULT_LAUNCH);
    perform(stream, device_, /*kind=*/0, [this, trouble, values] {
      if (trouble != Trouble::kNone) {
        std::memset(end_of(addresses_.size() - 1), 0, 1);
      }
      device_->suffer(trouble);
      run(values);
    });
    return;
  }
  if (on<"scalars_are_read_when_queued">()) {
    perform(stream, device_, YOKE_FAULT_LAUNCH, [this, values, scalars = scalars()]() mutable {
      std::vector<void*> addresses = addresses_;
      for (auto& [argument, bytes] : scalars) {
        addresses[argument] = bytes.data();
      }
      program::execute(runnable_.variants.front(), addresses, values);
    });
    return;
  }
  if (on<"symbols_of_previous_launch_are_used">()) {
    std::swap(values, last_values_);
    if (values.empty()) {
      values = last_values_;
    }
  }
  perform(stream, device_, YOKE_FAULT_LAUNCH, [this, values = std::move(values)] { run(values); });
}

std::map<std::size_t, std::vector<std::byte>> Routine::scalars() const {
  std::map<std::size_t, std::vector<std::byte>> all;
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    const std::int64_t binding = runnable_.places[i];
    if (binding >= 0 && !runnable_.is_written[static_cast<std::size_t>(binding)] &&
        runnable_.byte_counts[i] == sizeof(float)) {
      all[i].assign(static_cast<std::byte*>(addresses_[i]), end_of(i));
    }
  }
  return all;
}

void Routine::sign_workspace() {
  const Routine* const self = this;
  if (runnable_.workspace_byte_count >= sizeof self) {
    std::memcpy(workspace_, &self, sizeof self);
  }
}

bool Routine::is_signed() const {
  const Routine* const self = this;
  return runnable_.workspace_byte_count < sizeof self || std::memcmp(workspace_, &self, sizeof self) == 0;
}

// Runs the program with the bugs that change memory around it.
void Routine::run(std::span<const std::int64_t> values) {
  if (planted() == kNoBug) {
    execute(values);
    return;
  }
  if (on<"workspace_is_prepared_when_queued">() && !is_signed()) {
    return;
  }
  if (on<"every_second_launch_is_lost">() && ++launches_ % 2 == 0) {
    return;
  }
  std::vector<std::byte> last_element;
  std::size_t written = addresses_.size();
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    const std::int64_t binding = runnable_.places[i];
    if (binding >= 0 && runnable_.is_written[static_cast<std::size_t>(binding)]) {
      written = i;
      if (on<"inout_is_cleared">() && runnable_.is_read[static_cast<std::size_t>(binding)]) {
        std::memset(addresses_[i], 0, runnable_.byte_counts[i]);
      }
    }
  }
  const program::Program& first = runnable_.variants.front();
  const std::uint64_t size = written == addresses_.size() ? 0 : byte_size(first.tensors[written].type);
  if (size != 0) {
    last_element.assign(end_of(written) - size, end_of(written));
  }
  execute(values);
  if (on<"workspace_is_prepared_when_queued">()) {
    sign_workspace();
  }
  if (on<"last_element_is_not_written">() && size != 0) {
    std::copy(last_element.begin(), last_element.end(), end_of(written) - size);
  }
  if (on<"one_element_too_many_is_written">() && size != 0) {
    std::memset(end_of(written), 0, size);
  }
  if (on<"workspace_is_overrun">() && runnable_.workspace_byte_count != 0) {
    std::memset(workspace_ + runnable_.workspace_byte_count, 0, 4);
  }
}

void Routine::execute(std::span<const std::int64_t> values) {
  static std::atomic<std::size_t> turn{0};
  const std::size_t count = runnable_.variants.size();
  const std::size_t variant = count == 1 ? 0 : turn.fetch_add(1) % count;
  program::execute(runnable_.variants[variant], addresses_, values);
}

}  // namespace yoke::mutant
