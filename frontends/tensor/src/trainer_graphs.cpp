// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_graphs.cpp: builds the gradient and update programs of a trainer.
#include <yoke/gradients.h>
#include <yoke/mode.h>
#include <yoke/ops.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "rewrite.h"
#include "trainer_impl.h"

namespace yoke {

namespace detail {

std::vector<double> loss_weights(std::span<const std::uint64_t> rows, Reduction reduction) {
  const auto batch_rows = static_cast<double>(std::accumulate(rows.begin(), rows.end(), std::uint64_t{0}));
  std::vector<double> weights;
  for (const std::uint64_t own : rows) {
    const double share = reduction == Reduction::kSum ? 1.0 : static_cast<double>(own) / batch_rows;
    weights.push_back(own == 0 ? 0 : share);
  }
  return weights;
}

std::vector<std::uint64_t> rows_before(std::span<const std::uint64_t> rows) {
  std::vector<std::uint64_t> before(rows.size(), 0);
  std::exclusive_scan(rows.begin(), rows.end(), before.begin(), std::uint64_t{0});
  return before;
}

Batch each_field(const Batch& data, std::uint64_t rows,
                 const std::function<Tensor(const Tensor& all)>& view) {
  std::vector<Field> fields;
  for (const auto& [name, tensor] : data.fields()) {
    Dims dims = tensor.dims();
    dims[0] = rows;
    fields.push_back({name, view(placeholder(name, tensor.type(), dims))});
  }
  return Batch(std::move(fields));
}

void check_fields(const Batch& given, const Batch& like, const char* what) {
  for (const Field& field : like.fields()) {
    try {
      (void)given[field.name];
    } catch (const Error& error) {
      fail(std::string(what) + " differs from the run's fields: " + error.what());
    }
  }
  if (given.fields().size() != like.fields().size()) {
    fail(std::string(what) + " has " + counted(given.fields().size(), "field") + "; the run has " +
         std::to_string(like.fields().size()));
  }
}

NamedProgram name_program(const Lowered& lowered, const std::map<std::string, std::string>& names,
                          const std::string& literal_prefix) {
  const auto name_of = [&](const std::string& own) {
    const auto found = names.find(own);
    return found != names.end() ? found->second : own;
  };
  NamedProgram named;
  named.name = lowered.program.name;
  named.text = program::print(lowered.program);
  for (const LoweredArgument& argument : lowered.arguments) {
    std::string& tensor = named.rename[argument.name];
    switch (argument.kind) {
      case LoweredArgument::Kind::kParameter:
        tensor = Parameter::of(argument.leaf).name();
        break;
      case LoweredArgument::Kind::kLiteral:
        tensor = literal_prefix + argument.name;
        named.literals.emplace_back(tensor, argument.leaf);
        break;
      case LoweredArgument::Kind::kScalar:
        tensor = scalar_name(argument.leaf);
        named.scalars.push_back(argument.leaf);
        break;
      case LoweredArgument::Kind::kPlaceholder:
        tensor = name_of(argument.leaf.name());
        break;
      case LoweredArgument::Kind::kOutput:
        tensor = name_of(argument.name);
        break;
    }
  }
  return named;
}

}  // namespace detail

using detail::fail;
using detail::LossGraph;
using detail::NamedProgram;
using detail::RowPlan;
using detail::Variant;

namespace {

constexpr const char* kTailLossTotal = "loss_total_of_last_batch";
constexpr const char* kTailLossWeight = "loss_weight_of_last_batch";

// A parameter that only metrics use would get gradients of zero, and weight decay.
void require_use_by_loss(const std::vector<Parameter>& used, const InMode& graph) {
  std::vector<Tensor> roots = {graph.values[0]};
  for (const Update& update : graph.updates) {
    roots.insert(roots.end(), {update.leaf, update.value});
  }
  const std::vector<Parameter> of_loss = parameters_of(roots);
  for (const Parameter& parameter : used) {
    if (std::none_of(of_loss.begin(), of_loss.end(),
                     [&](const Parameter& known) { return known.is(parameter); })) {
      fail("data_parallel: only metrics use the parameter '" + parameter.name() +
           "'; the loss must use it too, or make it a literal");
    }
  }
}

// The tensors of the parameters that have gradients.
std::vector<Tensor> trained(const std::vector<Parameter>& parameters) {
  std::vector<Tensor> leaves;
  for (const Parameter& parameter : parameters) {
    if (!parameter.is_state()) {
      leaves.push_back(parameter.tensor());
    }
  }
  if (leaves.empty()) {
    fail("data_parallel: the loss does not depend on any Parameter, so there is nothing to train");
  }
  return leaves;
}

void require_known(const std::vector<Parameter>& used, const std::vector<Parameter>& parameters) {
  for (const Parameter& parameter : used) {
    if (std::none_of(parameters.begin(), parameters.end(),
                     [&](const Parameter& known) { return known.is(parameter); })) {
      fail("data_parallel: loss_of created a new parameter '" + parameter.name() +
           "' when it was called again; create the layers outside of it");
    }
  }
}

}  // namespace

InMode Trainer::Impl::in_precision(InMode graph) const {
  if (options.precision == Precision::kF32) {
    return graph;
  }
  std::vector<Tensor> values = graph.values;
  for (const Update& update : graph.updates) {
    values.push_back(update.value);
  }
  values = detail::in_precision(values, is_scaled() ? Type::kF16 : Type::kBF16);
  const auto updates = values.begin() + static_cast<std::ptrdiff_t>(graph.values.size());
  std::copy(values.begin(), updates, graph.values.begin());
  for (std::size_t i = 0; i < graph.updates.size(); ++i) {
    graph.updates[i].value = updates[static_cast<std::ptrdiff_t>(i)];
  }
  return graph;
}

// The loss of some rows, and the gradients of the weighted loss. `row_share` is their share of the batch.
LossGraph Trainer::Impl::build_loss(const Batch& batch, const Tensor& weight, const Tensor& row_share) {
  const std::uint64_t floor = detail::next_order();
  const Loss returned = loss_of(batch);
  if (!returned.loss || returned.loss.rank() != 0 || !program::is_float(returned.loss.type())) {
    fail("data_parallel: loss_of returned " +
         (returned.loss ? "a tensor of shape " + dims_text(returned.loss.dims())
                        : std::string("an empty Tensor")) +
         "; it must return a floating-point scalar, such as the result of mean() or sum()");
  }
  check_metrics(returned);
  std::vector<Tensor> values = {returned.loss};
  for (const Field& metric : returned.metrics) {
    values.push_back(metric.tensor);
  }
  const InMode graph = in_precision(in_mode(values, Mode::kTrain));
  const Tensor& loss = graph.values[0];
  std::vector<Tensor> roots = graph.values;
  for (const Update& update : graph.updates) {
    roots.insert(roots.end(), {update.leaf, update.value});
  }
  const std::vector<Parameter> used = parameters_of(roots);
  require_use_by_loss(used, graph);
  if (parameters.empty()) {
    parameters = used;
    if (std::any_of(used.begin(), used.end(),
                    [&](const Parameter& each) { return each.tensor().node()->order > floor; })) {
      (void)build_loss(batch, weight, row_share);  // whether loss_of keeps what it has created
    }
  }
  const std::vector<Tensor> leaves = trained(parameters);
  require_known(used, parameters);
  // Weights the loss before the backward pass, so that merging the gradients is a plain sum.
  Tensor weighted = weight ? loss * cast(weight, loss.type()) : loss;
  if (is_scaled()) {
    weighted = cast(weighted, Type::kF64) * detail::scale_element(scale, detail::kScale);
  }
  std::vector<Tensor> slopes = gradients(weighted, leaves);
  if (options.precision != Precision::kF32) {
    detail::widen(slopes);
  }
  LossGraph made{loss, {}, {}, graph.updates};
  for (std::size_t i = 0; i < returned.metrics.size(); ++i) {
    made.metrics.push_back({returned.metrics[i].name, cast(graph.values[i + 1], Type::kF64)});
  }
  for (std::size_t i = 0, next = 0; i < parameters.size(); ++i) {
    const Tensor value = parameters[i].tensor();
    if (!parameters[i].is_state()) {
      made.gradients.push_back(slopes[next++]);
      continue;
    }
    const auto reported = std::find_if(graph.updates.begin(), graph.updates.end(),
                                       [&](const Update& update) { return update.leaf.is(value); });
    made.gradients.push_back(reported == graph.updates.end()
                                 ? zeros(value.type(), value.dims())
                                 : (reported->value - value) * cast(row_share, value.type()));
  }
  return made;
}

// loss_of must return the same metrics in each call.
void Trainer::Impl::check_metrics(const Loss& returned) {
  std::set<std::string> names;
  for (const auto& [name, value] : returned.metrics) {
    if (name.empty()) {
      fail(
          "data_parallel: loss_of returned a metric without a name; metrics are scalars with distinct names");
    }
    if (!value || value.rank() != 0 || !names.insert(name).second) {
      fail("data_parallel: loss_of returned the metric '" + name + "' " +
           (!value             ? "as an empty Tensor"
            : value.rank() > 0 ? "of shape " + dims_text(value.dims())
                               : "twice") +
           "; metrics are scalars with distinct names");
    }
  }
  if (names != metric_names.value_or(names)) {
    fail(
        "data_parallel: loss_of returned different metrics in a later call; it must return the same ones "
        "each time");
  }
  metric_names = names;
}

void Trainer::Impl::add_gradients(const LossGraph& graph, std::vector<Output>& outputs,
                                  std::map<std::string, std::string>& names) const {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    outputs.push_back({"gradient_" + std::to_string(i), graph.gradients[i]});
    names[outputs.back().name] = "gradient/" + parameters[i].name();
  }
}

// Computes the loss and the gradients of micro-batch s or, for kWholeStep, the loss and the new parameters.
NamedProgram Trainer::Impl::build_program(const LossGraph& graph, bool is_tail, std::size_t s) {
  const bool with_update = s == detail::kWholeStep;
  const Tensor total = placeholder(is_tail ? kTailLossTotal : detail::kLossTotal, Type::kF64, {});
  std::vector<Output> outputs = {{"loss", graph.loss}};
  const Tensor loss = cast(graph.loss, Type::kF64);
  const Tensor count = placeholder(detail::kFiniteSteps, Type::kF64, {});
  std::vector<Update> stores = {
      {total, total + loss},
      {count,
       where(count < 0.0, count, where(abs(loss) <= detail::kLargestLoss, count + 1.0, -1.0 - count))}};
  std::map<std::string, std::string> names;
  for (std::size_t i = 0; i < graph.metrics.size(); ++i) {
    outputs.push_back({"metric_" + std::to_string(i), graph.metrics[i].tensor});
    names[outputs.back().name] = detail::kMetric + graph.metrics[i].name;
  }
  if (!with_update) {
    add_gradients(graph, outputs, names);
  }
  if (with_update) {
    stores.insert(stores.end(), graph.state_updates.begin(), graph.state_updates.end());
  }
  const Tensor number = with_update ? number_of(graph.gradients) : Tensor();
  if (with_update && is_scaled()) {
    stores.push_back({scale, number});
  }
  for (std::size_t i = 0; with_update && i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (!parameter.is_state()) {
      const auto updates = update_of(parameter.tensor(), graph.gradients[i], "/" + parameter.name(),
                                     options.optimizer.group_of(parameter.name()), number);
      stores.insert(stores.end(), updates.begin(), updates.end());
    }
  }
  const std::string name = std::string(with_update ? "step" : "gradient") + (is_tail ? "_of_last_batch" : "");
  const Lowered lowered = lower(name, outputs, stores);
  check_reductions(lowered.program);
  check_values(lowered);
  // Micro-batches of one shard may differ in shape, and then in literals.
  return detail::name_program(lowered, names,
                              "literal/" + name + "/" + (with_update ? "" : std::to_string(s) + "/"));
}

void Trainer::Impl::build_variant(bool is_tail) {
  Variant made;
  made.rows = is_tail ? plan.tail : plan.rows;
  made.first_in_batch = detail::rows_before(made.rows);
  made.weights = detail::loss_weights(made.rows, options.reduction);
  made.loss_total = is_tail ? kTailLossTotal : detail::kLossTotal;
  made.loss_weight = is_tail ? kTailLossWeight : detail::kLossWeight;
  const std::vector<double> shares = detail::loss_weights(made.rows, Reduction::kMean);
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> same_shape;  // rows and tail -> the first
  for (std::size_t s = 0; s < made.rows.size(); ++s) {
    if (made.rows[s] == 0) {
      continue;
    }
    made.active = static_cast<std::uint32_t>(s) + 1;
    const auto [found, is_new] = same_shape.try_emplace({plan.rows[s], plan.tail[s]}, s);
    if (!is_new) {
      made.programs.push_back(made.programs[found->second]);
      continue;
    }
    const Batch batch = detail::each_field(
        data, slot_plan.part_rows(s), [&](const Tensor& all) { return slot_plan.batch_of(all, s, is_tail); });
    made.graph =
        build_loss(batch, made.weights[s] == 1 ? Tensor() : placeholder(made.loss_weight, Type::kF64, {}),
                   full(Type::kF64, {}, shares[s]));
    made.programs.push_back(build_program(made.graph, is_tail, is_single() ? detail::kWholeStep : s));
  }
  variants.push_back(std::move(made));
}

RowPlan Trainer::Impl::plan_of(std::uint64_t rows) const {
  const auto batch = static_cast<std::uint64_t>(options.batch_size);
  return RowPlan::make(rows, batch == 0 ? rows : std::min(rows, batch), micro_weights());
}

// The names of a shard's tensors must differ.
void Trainer::Impl::check_names() const {
  std::set<std::string> names = {"loss",
                                 detail::kLossTotal,
                                 kTailLossTotal,
                                 detail::kLossTotalOfShards,
                                 detail::kLossWeight,
                                 kTailLossWeight,
                                 detail::kShardShare,
                                 detail::kFiniteSteps,
                                 detail::kCarried};
  const auto is_reserved = [](const std::string& name) {
    return name.starts_with(std::string(detail::kCarried) + "/") || name.starts_with(detail::kMetric);
  };
  for (const Field& field : data.fields()) {
    const bool is_output = field.name.starts_with("gradient_") || field.name.starts_with("metric_");
    const bool has_slash = field.name.find('/') != std::string::npos;  // as the trainer's own tensors have
    if (field.name.empty() || is_output || has_slash || !names.insert(field.name).second) {
      fail("data_parallel: the name '" + field.name +
           "' of a field is reserved, empty or used twice, or contains '/'; choose another name");
    }
  }
  for (const Parameter& parameter : parameters) {
    if (is_reserved(parameter.name()) || !names.insert(parameter.name()).second) {
      fail("data_parallel: two tensors are named '" + parameter.name() +
           "'; make the layers children of one module, or name them with nn::named");
    }
  }
}

void Trainer::Impl::build_graphs() {
  plan = plan_of(data.row_count());
  most_rows = std::max({most_rows, plan.total, static_cast<std::uint64_t>(options.max_rows)});
  slot_plan = is_fed() ? RowPlan::make(plan.batch + plan.tail_rows(), plan.batch, micro_weights()) : plan;
  if (is_varying()) {
    build_pieces();
  } else {
    build_variant(false);
    if (plan.tail_rows() > 0) {
      build_variant(true);
    }
  }
  check_names();
  check_groups();
  check_number();
  check_prior();
}

}  // namespace yoke
