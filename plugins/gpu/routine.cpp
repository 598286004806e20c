// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/routine.cpp: links kernels to memory and launches them.
#include "routine.h"

#include <yoke/sdk/program.h>

#include <string>
#include <utility>

#include "stream.h"

namespace yoke::gpu {
namespace {

// Graphs with more kernels use much memory, and their launches are not limited by the host.
constexpr std::uint64_t kLargestGraph = 4096;

std::string unsupported_reason(const Context& context, const program::Program& program,
                               std::size_t statement) {
  program::Program alone = program;
  alone.statements = {program.statements[statement]};
  alone.statements[0].hint = -1;
  alone.hints.clear();
  try {
    (void)codegen::generate(alone, context.hardware().target);
    return {};
  } catch (const sdk::Failure& failure) {
    return failure.text();
  }
}

void add_verdicts(Context& context, const program::Program& program, const PlanOptions& options,
                  std::uint32_t number, std::vector<sdk::Verdict>& all) {
  std::vector<std::uint32_t> launches(program.statements.size());
  std::vector<std::string> remarks(program.statements.size());
  std::string fault;
  try {
    for (const codegen::Launch& launch : plan_for(context, program, options).launches) {
      for (const std::uint32_t s : launch.statements) {
        ++launches[s];
        remarks[s] = launch.remark;
      }
    }
  } catch (const sdk::Failure& failure) {
    if (failure.code() != YOKE_STATUS_UNIMPLEMENTED) {
      throw;
    }
    fault = failure.text();
  }
  bool is_named = false;
  for (std::uint32_t s = 0; s < program.statements.size(); ++s) {
    if (!fault.empty()) {
      const std::string reason = unsupported_reason(context, program, s);
      is_named = is_named || !reason.empty();
      all.push_back({number, s, reason.empty() ? YOKE_VERDICT_NATIVE : YOKE_VERDICT_UNSUPPORTED, reason});
    } else {
      const bool is_split = launches[s] > 1;
      std::string reason = remarks[s];
      if (is_split) {
        reason.insert(0, reason.empty() ? " kernels" : " kernels; ")
            .insert(0, std::to_string(launches[s]))
            .insert(0, "in ");
      }
      all.push_back({number, s, is_split ? YOKE_VERDICT_DECOMPOSED : YOKE_VERDICT_NATIVE, std::move(reason)});
    }
  }
  if (!fault.empty() && !is_named && !program.statements.empty()) {
    all.back().verdict = YOKE_VERDICT_UNSUPPORTED;
    all.back().reason = fault;
  }
}

}  // namespace

std::vector<sdk::Verdict> verdicts(Context& context, std::string_view text, const PlanOptions& options) {
  std::vector<sdk::Verdict> all;
  const program::Module module = sdk::read_program(text);
  for (std::uint32_t p = 0; p < module.programs.size(); ++p) {
    add_verdicts(context, module.programs[p], options, p, all);
  }
  return all;
}

Code::Code(const std::shared_ptr<Context>& context, std::string_view text, CodeOptions options)
    : options_(std::move(options)) {
  for (const program::Program& source : sdk::read_program(text).programs) {
    programs_.push_back(std::make_shared<const Kernels>(context, source, *options_.cache, options_.plan));
    sdk::Entry entry = sdk::entry_of(source);
    for (const codegen::Launch& launch : programs_.back()->plan().launches) {
      for (const codegen::Slot& slot :
           launch.is_library_call() ? launch.slots : std::vector<codegen::Slot>()) {
        if (slot.argument != codegen::Slot::kWorkspace) {
          entry.arguments[slot.argument].alignment = codegen::kLibraryAlignment;
        }
      }
    }
    entry.deterministic = programs_.back()->plan().is_deterministic;
    entry.workspace_byte_count = programs_.back()->plan().workspace_byte_count;
    entry.fingerprint = std::string(context->vendor().facts().name) + "-" + programs_.back()->key();
    entries_.push_back(std::move(entry));
  }
}

std::unique_ptr<sdk::Routine> Code::link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                         const sdk::Binding& workspace) {
  return std::make_unique<Routine>(programs_[entry], bindings, workspace, entries_[entry].symbols.size(),
                                   options_.graphs);
}

Routine::Routine(std::shared_ptr<const Kernels> kernels, std::span<const sdk::Binding> bindings,
                 const sdk::Binding& workspace, std::size_t symbol_count, bool graphs)
    : kernels_(std::move(kernels)), known_symbols_(symbol_count) {
  const codegen::Plan& plan = kernels_->plan();
  bool reads_symbols = false;
  std::size_t address_count = 0;
  for (const codegen::Launch& launch : plan.launches) {
    reads_symbols = reads_symbols || launch.reads_symbols;
    address_count += launch.slots.size();
  }
  addresses_.reserve(address_count);  // parameters_ points into it
  for (const codegen::Launch& launch : plan.launches) {
    first_parameter_.push_back(parameters_.size());
    for (const codegen::Slot& slot : launch.slots) {
      const sdk::Binding& binding =
          slot.argument == codegen::Slot::kWorkspace ? workspace : bindings[slot.argument];
      addresses_.push_back(binding.buffer->device_address() + binding.offset + slot.offset);
      parameters_.push_back(&addresses_.back());
    }
    if (launch.reads_symbols) {
      parameters_.push_back(&symbols_);
    }
    if (launch.reads_variable) {
      parameters_.push_back(&variable_);
    }
  }
  link_calls();
  for (const codegen::Round& round : plan.rounds) {
    kernel_count_ += round.count * (round.last_launch - round.first_launch);
  }
  wants_graph_ = graphs && kernel_count_ > 1 && kernel_count_ <= kLargestGraph;
  // Last, because the destructor does not run if the constructor throws.
  if (reads_symbols && symbol_count != 0) {
    Context& context = kernels_->context();
    const Current current = context.enter();
    symbols_ = context.watch([&] { return context.pool().allocate(symbol_count * sizeof(std::int64_t)); });
  }
}

void Routine::link_calls() {
  const codegen::Plan& plan = kernels_->plan();
  std::size_t first = 0;
  for (std::size_t l = 0; l < plan.launches.size(); ++l) {
    const std::size_t count = plan.launches[l].slots.size();
    const PlannedCall* const planned = kernels_->calls()[l].get();
    calls_.emplace_back();
    if (planned != nullptr) {
      const Current current = kernels_->context().enter();  // the library may load kernels
      DeviceLibrary::Handle& handle = handles_[&planned->library];
      if (handle == nullptr) {
        handle = planned->library.take_handle();
      }
      calls_.back() =
          planned->link(plan.launches[l], std::span(addresses_).subspan(first, count), handle.get());
    }
    first += count;
  }
}

Routine::~Routine() {
  Context& context = kernels_->context();
  if (const Current current = context.try_enter()) {
    if (graph_ != nullptr) {
      (void)context.driver().graph_executable_destroy(graph_);
    }
    if (symbols_ != 0) {
      context.pool().free(symbols_, known_symbols_.size() * sizeof(std::int64_t));
    }
  }
}

void Routine::launch(sdk::Stream* stream, std::span<const std::int64_t> symbol_values) {
  if (stream != nullptr) {
    static_cast<Stream*>(stream)->timeline().submit([&](void* queue) { launch_on(queue, symbol_values); });
    return;
  }
  Context& context = kernels_->context();
  const Current current = context.enter();
  launch_on(context.immediate(), symbol_values);
  context.finish(context.immediate());
}

void Routine::launch_on(void* stream, std::span<const std::int64_t> symbol_values) {
  Context& context = kernels_->context();
  if (symbols_ != 0) {
    update_symbols(stream, symbol_values);
  }
  if (graph_ == nullptr && wants_graph_ && has_launched_) {
    std::string why_not;
    graph_ = context.capture([this](void* capturing) { launch_kernels(capturing); }, why_not);
    wants_graph_ = graph_ != nullptr;
    if (graph_ == nullptr) {
      context.machine().host().log(
          YOKE_LOG_WARN,
          "graph.skip device=" + std::to_string(context.hardware().ordinal) + " reason=\"" + why_not + "\"");
    }
  }
  has_launched_ = true;
  if (graph_ != nullptr) {
    context.call(context.driver().graph_launch, graph_, stream);
  } else {
    launch_kernels(stream);
  }
}

// A fill carries its value, so the copy of a symbol needs no host memory that must outlive the launch.
void Routine::update_symbols(void* stream, std::span<const std::int64_t> symbol_values) {
  Context& context = kernels_->context();
  const bool are_known = std::exchange(symbols_are_known_, false);  // stays false if a fill fails
  for (std::size_t i = 0; i < symbol_values.size(); ++i) {
    const auto old_bits = static_cast<std::uint64_t>(known_symbols_[i]);
    const auto new_bits = static_cast<std::uint64_t>(symbol_values[i]);
    for (unsigned half = 0; half < 2; ++half) {
      const auto word = static_cast<std::uint32_t>(new_bits >> (32 * half));
      if (!are_known || word != static_cast<std::uint32_t>(old_bits >> (32 * half))) {
        context.call(context.driver().fill_words, symbols_ + 8 * i + std::size_t{4} * half, word,
                     std::size_t{1}, stream);
      }
    }
    known_symbols_[i] = symbol_values[i];
  }
  symbols_are_known_ = true;
}

void Routine::launch_kernels(void* stream) {
  Context& context = kernels_->context();
  const codegen::Plan& plan = kernels_->plan();
  for (const codegen::Round& round : plan.rounds) {
    variable_ = round.low;
    for (std::uint64_t i = 0; i < round.count; ++i, variable_ += round.step) {
      for (std::uint32_t l = round.first_launch; l < round.last_launch; ++l) {
        const codegen::Launch& launch = plan.launches[l];
        if (calls_[l] != nullptr) {
          calls_[l]->launch(stream);
          continue;
        }
        const codegen::Kernel& kernel = plan.kernels[launch.kernel];
        context.call(context.driver().launch, kernels_->function(launch.kernel), launch.grid[0],
                     launch.grid[1], launch.grid[2], kernel.threads, 1U, 1U, kernel.dynamic_shared_bytes,
                     stream, parameters_.data() + first_parameter_[l], static_cast<void**>(nullptr));
      }
    }
  }
}

}  // namespace yoke::gpu
