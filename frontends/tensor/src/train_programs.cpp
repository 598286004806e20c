// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/train_programs.cpp: programs for hand-written training loops, compiled alone or in batches.
#include <yoke/gradients.h>
#include <yoke/mode.h>
#include <yoke/program/text.h>
#include <yoke/train_helpers.h>

#include "host_copy.h"
#include "host_numbers.h"
#include "node.h"

namespace yoke {

using detail::fail;

namespace {

std::string labeled(const std::string& label, const char* what) {
  return label.empty() ? what : program_identifier(label) + "_" + what;
}

}  // namespace

void init_params(const std::shared_ptr<Stream>& stream, std::span<const Parameter> parameters,
                 std::int64_t seed) {
  if (stream == nullptr) {
    fail("init_params: the stream is null");
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor initial = parameters[i].init_tensor(static_cast<std::int64_t>(i));
    const std::vector<std::int64_t> seeds(forward(initial).program.symbols.size(), seed);
    parameters[i].set_values(detail::read_now(forward_and_ctx(Context(stream), initial, seeds), "value"));
  }
}

Lowered forward(const Tensor& t) {
  detail::require(t, "forward");
  return lower(labeled(t.name(), "forward"), {{"value", t}});
}

GradUpdate grad_update(const Tensor& loss) {
  detail::require(loss, "grad_update");
  const InMode graph = in_mode(std::span(&loss, 1), Mode::kTrain);
  GradUpdate update{graph.values[0], loss.name().empty() ? "" : program_identifier(loss.name()), {}, {}, {}};
  std::vector<Tensor> roots = graph.values;
  for (const Update& one : graph.updates) {
    roots.insert(roots.end(), {one.leaf, one.value});
  }
  for (const Parameter& used : parameters_of(roots)) {
    (used.is_state() ? update.states : update.params).push_back(used);
  }
  if (update.params.empty()) {
    fail("grad_update: the loss does not depend on any Parameter, so there is nothing to train");
  }
  std::vector<Tensor> leaves;
  for (const Parameter& parameter : update.params) {
    leaves.push_back(parameter.tensor());
  }
  const std::vector<Tensor> slopes = gradients(update.loss, leaves);
  std::vector<Output> outputs = {{"loss", update.loss}};
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    outputs.push_back({"gradient_" + std::to_string(i), slopes[i]});
  }
  update.lowered = lower(labeled(update.label, "gradient"), outputs, graph.updates);
  return update;
}

Lowered sgd_update(const GradUpdate& update, const Tensor& learning_rate, const Sgd& options) {
  std::vector<Update> updates;
  for (std::size_t i = 0; i < update.params.size(); ++i) {
    const Parameter& p = update.params[i];
    const std::string number = std::to_string(i);
    const Tensor gradient = placeholder("gradient_" + number, p.type(), p.dims());
    const Tensor momentum =
        options.needs_state() ? placeholder("momentum_" + number, p.type(), p.dims()) : Tensor();
    for (Update& one : sgd_one(p.tensor(), gradient, momentum, learning_rate, options)) {
      updates.push_back(std::move(one));
    }
  }
  return lower(labeled(update.label, "sgd_update"), {}, updates);
}

std::vector<Output> every_non_literal_on_host(const Tensor& t) {
  detail::require(t, "every_non_literal_on_host");
  std::vector<Output> outputs;
  for (const detail::Node* node : detail::topological(std::span<const Tensor>(&t, 1))) {
    const Tensor tensor(node->shared_from_this());
    if (!tensor.is_leaf() && !tensor.name().empty()) {
      outputs.push_back({tensor.name(), tensor});
    }
  }
  return outputs;
}

CodeBatch compile_batch(const std::shared_ptr<Device>& device, std::vector<Lowered> programs,
                        const std::function<bool(const std::string&, std::size_t)>& occupancy) {
  CodeBatch batch;
  program::Module module;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const std::string& name = programs[i].program.name;
    batch.is_compiled.push_back(!occupancy || occupancy(name, i));
    if (batch.is_compiled.back()) {
      module.programs.push_back(programs[i].program);
    }
  }
  if (!module.programs.empty()) {
    batch.code = compile(device, program::print(module));
  }
  batch.programs = std::move(programs);
  return batch;
}

LinkedBatch link_batch(const Context& context, const CodeBatch& batch) {
  if (batch.is_compiled.size() != batch.programs.size()) {
    fail("link_batch: the batch was not made by compile_batch");
  }
  LinkedBatch linked{context.child(), {}};
  for (std::size_t i = 0; i < batch.programs.size(); ++i) {
    linked.routines.emplace_back();
    if (batch.is_compiled[i]) {
      const Lowered& lowered = batch.programs[i];
      allocate_missing(linked.context, lowered);
      linked.routines.back() = linked.context.link(batch.code, lowered.program.name, context_names(lowered));
    }
  }
  return linked;
}

Context forward_and_ctx(const Context& context, const Tensor& t,
                        std::span<const std::int64_t> symbol_values) {
  const Lowered lowered = forward(t);
  Context child = context.child();
  child.allocate("value", {static_cast<std::int32_t>(t.type()), t.dims()});
  std::vector<LoweredArgument> missing;
  for (const LoweredArgument& argument : lowered.arguments) {
    if (argument.kind == LoweredArgument::Kind::kOutput || context.has(context_name(argument))) {
      continue;
    }
    if (argument.kind != LoweredArgument::Kind::kScalar && argument.leaf.host_bytes().empty()) {
      fail("'" + argument.name + "' has no values; give it host data, or compute '" + lowered.program.name +
           "' in a Context that holds it");
    }
    missing.push_back(argument);
  }
  allocate_missing(child, lowered);
  for (const LoweredArgument& argument : missing) {
    from_host(child, argument);
  }
  const auto code = compile(child.stream()->device(), program::print(lowered.program));
  child.link(code, lowered.program.name, context_names(lowered)).run(symbol_values);
  child.stream()->wait();
  return child;
}

std::vector<double> forward_and_forget(const std::shared_ptr<Stream>& stream, const Tensor& t,
                                       std::span<const std::int64_t> symbol_values) {
  if (stream == nullptr) {
    fail("forward_and_forget: the stream is null");
  }
  detail::require(t, "forward_and_forget");
  return detail::numbers_of(t.type(),
                            detail::read_now(forward_and_ctx(Context(stream), t, symbol_values), "value"));
}

}  // namespace yoke
