// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_setup.cpp: allocates, initializes and links everything that a trainer needs.
#include <yoke/program/text.h>

#include <algorithm>
#include <new>
#include <numeric>

#include "host_copy.h"
#include "trainer_impl.h"

namespace yoke {

using detail::NamedProgram;
using detail::Variant;

namespace {

TensorSpec spec_of(const Tensor& tensor) {
  return {static_cast<std::int32_t>(tensor.type()), tensor.dims()};
}

}  // namespace

void Trainer::Impl::open_shards() {
  std::map<std::pair<Backend*, std::uint32_t>, std::shared_ptr<Device>> devices;
  for (std::size_t k = 0; k < shard_backends.size(); ++k) {
    auto& device = devices[{shard_backends[k].get(), shard_ordinals[k]}];
    if (shard_devices.size() == k) {
      if (device == nullptr) {
        Backend& backend = *shard_backends[k];
        device = backend.open_device(shard_ordinals[k],
                                     detail::options_for(backend.name(), options.device_options));
      }
      shard_devices.push_back(device);
      shard_numbers.push_back(static_cast<std::uint32_t>(k));
    }
    const std::shared_ptr<Device>& used = shard_devices[k];
    auto stream = Stream::create(used, "shard " + std::to_string(shard_numbers[k]) + " on " + used->name());
    contexts.emplace_back(stream);
    shards.push_back({static_cast<std::uint32_t>(k), stream, contexts.back(),
                      options.base_seed + first_micro[k], rows_of(variants[0], k), LinkedRoutine()});
    streams.push_back(stream);
    all_streams.push_back(stream);
    step_ends.emplace_back(options.steps_ahead);
    seeds.push_back(shards.back().seed);
  }
  micro_batches.resize(plan.rows.size(), {0, contexts[0], {}});
  for (std::uint32_t k = 0; k < shards.size(); ++k) {
    for (std::uint32_t number = 0; number < per_shard; ++number) {
      const Context own = number == 0 ? contexts[k] : contexts[k].child();
      detail::MicroBatch& micro = micro_batches[first_micro[k] + number] = {k, own, {own}};
      while (micro.slots.size() < slot_count()) {
        micro.slots.push_back(own.child());
      }
    }
  }
}

std::int64_t Trainer::Impl::rows_of(const Variant& variant, std::size_t k) const {
  const auto first = variant.rows.begin() + first_micro[k];
  return static_cast<std::int64_t>(std::accumulate(first, first + per_shard, std::uint64_t{0}));
}

void Trainer::Impl::plan_steps() {
  const MergeStrategy merge = is_reproducible() ? MergeStrategy::kTree : options.merge;
  order_parameters();
  step_plan = StepPlan(contexts, active_shards(variants[0]), step_parameters(), options.optimizer.states(),
                       {merge,
                        options.placement,
                        options.merge_use,
                        options.bucket_byte_count,
                        options.overlap,
                        set_count() == 2,
                        options.wire,
                        has_number(),
                        options.optimizer.rule().whole_parameters,
                        is_scaled() ? detail::kScaleElements : 1,
                        {}},
                       codes);
  cut_gradients();
}

std::vector<StepParameter> Trainer::Impl::step_parameters() const {
  std::vector<StepParameter> described;
  for (const std::size_t i : parameter_order) {
    const Parameter& parameter = parameters[i];
    described.push_back({parameter.name(), spec_of(parameter.tensor()), parameter.is_state(),
                         parameter.is_state() ? 0 : options.optimizer.group_of(parameter.name())});
  }
  return described;
}

void Trainer::Impl::make_tensors() {
  step_plan.allocate();
  streams.insert(streams.end(), step_plan.streams().begin(), step_plan.streams().end());
  all_streams.insert(all_streams.end(), step_plan.streams().begin(), step_plan.streams().end());
  step_ends.resize(streams.size(), std::vector<Event>(options.steps_ahead));
  for (std::size_t s = 0; s < micro_batches.size(); ++s) {
    Context& context = micro_batches[s].context;
    const auto zero_total = [&](const char* name) {
      const std::uint64_t zero = 0;
      context.stream()->fill(context.allocate(name, {YOKE_TYPE_F64, {}}).view, &zero, 1);
    };
    for (const Variant& variant : variants) {
      zero_total(variant.loss_total);
      const double weight = variant.weights[s];
      context.stream()->fill(context.allocate(variant.loss_weight, {YOKE_TYPE_F64, {}}).view, &weight,
                             sizeof(weight));
    }
    zero_total(detail::kFiniteSteps);
    context.allocate("loss", {static_cast<std::int32_t>(variants[0].graph.loss.type()), {}});
    for (const Field& metric : metrics()) {
      context.allocate(detail::kMetric + metric.name, {YOKE_TYPE_F64, {}});
    }
    for (const auto& [name, tensor] : data.fields()) {
      TensorSpec spec = spec_of(tensor);
      spec.dims[0] = slot_rows(s);
      for (std::size_t i = 0; spec.dims[0] > 0 && i < slot_count(); ++i) {
        micro_batches[s].slots[i].allocate(name, spec);
      }
    }
  }
  for (std::size_t s = 0; is_varying() && s < micro_batches.size(); ++s) {
    make_piece_tensors(s);
  }
  make_feeds();
  if (is_scaled()) {
    write_scale(scale_bytes.empty() ? detail::scale_bytes(detail::kFirstLossScale) : scale_bytes);
  }
}

void Trainer::Impl::make_symbols() {
  for (std::size_t k = 0; k < shards.size(); ++k) {
    SymbolTable& table = symbols->emplace_back();
    table.add(detail::kRowSymbol, 0);
    table.add(detail::kStepNumber, 0);
    table.add(seed_symbol().name, seeds[k]);
    table.add(step_symbol().name, 0);
    table.add(run_seed_symbol().name, options.base_seed);
    table.add(batch_row_symbol().name, 0);
    for (const Symbol& binding : options.bindings) {
      if (binding.name != step_symbol().name) {
        table.add(binding.name, binding.low);
      }
    }
  }
  for (std::size_t i = binding_values.size(); i < options.bindings.size(); ++i) {
    binding_values.push_back(options.bindings[i].low);
  }
  set_symbols();
}

// Keeps the values of parameters that have some, in a prior context or on the host, such as restored ones, and
// initializes the others on the owner, with its seed.
void Trainer::Impl::start_parameters() {
  std::vector<Output> drawn;
  std::map<std::string, std::string> given;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (starts_from_prior(parameter)) {
      continue;
    }
    if (parameter.has_values()) {
      contexts[0].from_host(parameter.name(), parameter.values());
      continue;
    }
    drawn.push_back({"start_" + std::to_string(i), parameter.init_tensor(static_cast<std::int64_t>(i))});
    given[drawn.back().name] = parameter.name();
  }
  StepRoutine routine;  // outlives the wait: its destructor waits, too, but reports no error
  if (!drawn.empty()) {
    const NamedProgram start = detail::name_program(lower("start", drawn), given, "literal/start/");
    routine = link(contexts[0], start, (*symbols)[0]);
    routine.run((*symbols)[0]);
  }
  step_plan.publish();
  shards[0].stream->wait();
}

void Trainer::Impl::prepare(Context& context, const NamedProgram& program) {
  scalars->add(contexts, program.scalars);
  for (const auto& [name, tensor] : program.literals) {
    if (!context.has(name)) {
      context.allocate(name, spec_of(tensor));
      context.set_constant(name);
      detail::write_now(context, name, {tensor.host_bytes().begin(), tensor.host_bytes().end()});
    }
  }
}

// In set 1, the program's parameters have other names.
StepRoutine Trainer::Impl::link(Context& context, const NamedProgram& program, const SymbolTable& table,
                                std::shared_ptr<Buffer> workspace, std::uint32_t set) {
  prepare(context, program);
  const auto code = codes->get(context.stream()->device(), program.text);
  std::map<std::string, std::string> rename = program.rename;
  for (const Parameter& parameter : parameters) {
    for (auto& [argument, tensor] : rename) {
      if (tensor == parameter.name()) {
        tensor = StepPlan::name_in(set, tensor);
      }
    }
  }
  return {context.link(code, program.name, rename, std::move(workspace)), table};
}

// Per shard, one workspace for its gradient programs, which run one after the other; null if it has only one.
std::vector<std::shared_ptr<Buffer>> Trainer::Impl::make_workspaces() {
  std::vector<std::shared_ptr<Buffer>> made(shards.size());
  for (std::uint32_t k = 0; shares_workspaces() && k < shards.size(); ++k) {
    if (const std::uint64_t bytes = workspace_of(k); bytes > 0) {
      made[k] = std::make_shared<Buffer>(shards[k].stream->device(), bytes);
    }
  }
  return made;
}

void Trainer::Impl::link_steps() {
  const std::shared_ptr<Buffer> workspace = make_workspaces()[0];
  for (Variant& variant : variants) {
    for (Context& slot : micro_batches[0].slots) {
      variant.steps.push_back(link(slot, variant.programs[0], (*symbols)[0], workspace));
    }
  }
}

// Makes each shard's micro-batches store and add up their gradients.
void Trainer::Impl::make_sums() {
  if (!has_sums()) {
    return;
  }
  for (std::uint32_t k = 0; k < active_shards(variants[0]); ++k) {
    sums.emplace_back(contexts[k], step_plan.arenas(), step_parameters(), per_shard, sum_order(), *codes,
                      is_varying());
    if (is_cut()) {
      sums[k].link_buckets(step_plan, *codes);
    }
    for (std::uint32_t number = 1; number < per_shard; ++number) {
      sums[k].adopt_gradients(micro_batches[first_micro[k] + number].context, number);
    }
  }
}

void Trainer::Impl::link_gradients() {
  if (is_cut() && !has_sums()) {
    link_gradient_parts(make_workspaces());
    return;
  }
  if (is_varying()) {
    link_pieces(make_workspaces());
    return;
  }
  for (Variant& variant : variants) {
    variant.gradients.clear();
    if (is_single()) {
      variant.single_gradient = build_program(variant.graph, &variant != &variants[0], 0);
    }
  }
  const std::vector<std::shared_ptr<Buffer>> workspaces = make_workspaces();
  for (Variant& variant : variants) {
    for (std::uint32_t i = 0; i < set_count() * slot_count(); ++i) {  // as routine_slot()
      for (std::size_t s = 0; s < variant.active; ++s) {
        detail::MicroBatch& micro = micro_batches[s];
        if (is_cut() && s == last_micro(variant, micro.shard)) {
          variant.gradients.emplace_back();  // it runs in parts
          continue;
        }
        const NamedProgram& program = variant.gradient_program(s);
        prepare(contexts[micro.shard], program);  // shares the literals between the shard's routines
        variant.gradients.push_back(link(micro.slots[i % slot_count()], program, (*symbols)[micro.shard],
                                         workspaces[micro.shard], i / slot_count()));
      }
    }
  }
  if (is_cut()) {
    link_gradient_parts(workspaces);
  }
  for (Shard& shard : shards) {
    if (!is_cut() && !is_fed() &&
        first_micro[shard.number] < variants[0].active) {  // a feed uses its slots in turn
      shard.gradient = variants[0].gradients[first_micro[shard.number]].routine();
    }
  }
}

// Links the functions that make up a step, unless that has been done. After an Error, the next call tries
// again.
void Trainer::Impl::link_parts() {
  if (has_parts) {
    return;
  }
  step_plan.allocate_gradients();
  make_sums();
  link_gradients();
  link_updates();
  has_parts = true;
}

// One deadline for all streams, because their destructors wait in turn.
Trainer::Impl::~Impl() {
  Stream::finish(all_streams);
}

void Trainer::Impl::set_up() {
  const detail::Stopwatch watch;
  check_arguments();
  find_backends();
  measure_row_weights();
  build();
  setup_seconds = watch.seconds();
}

void Trainer::Impl::build() {
  plan_micro_batches();
  build_graphs();
  open_shards();
  plan_steps();
  count_memory();
  check_memory();
  make_tensors();
  make_symbols();
  if (!is_fed()) {
    upload(data);
  }
  snapshot ? restore_snapshot() : start_parameters();
  is_single() ? link_steps() : link_parts();
  for (const auto& stream : streams) {
    stream->wait();
  }
}

void Trainer::run(std::unique_ptr<Impl> impl, const std::function<void(Trainer&)>& body) {
  if (!impl->loss_of || !body) {
    throw Error(
        ErrorCode::kInvalidArgument,
        std::string("data_parallel: ") + (impl->loss_of ? "body" : "loss_of") + " is an empty function");
  }
  impl->set_up();
  Trainer trainer(std::move(impl));
  body(trainer);
  trainer.sync_params_to_host();
  trainer.impl_->update_prior();
}

void data_parallel(const DataParallelOptions& options, const Batch& data, const LossOf& loss_of,
                   const std::function<void(Trainer&)>& body) {
  auto impl = std::make_unique<Trainer::Impl>();
  impl->options = options;
  impl->data = data;
  impl->loss_of = loss_of;
  Trainer::run(std::move(impl), body);
}

void data_parallel(const DataParallelOptions& options, const Feed& feed, const LossOf& loss_of,
                   const std::function<void(Trainer&)>& body) {
  if (!feed.next) {
    throw Error(ErrorCode::kInvalidArgument, "data_parallel: feed.next is an empty function");
  }
  auto impl = std::make_unique<Trainer::Impl>();
  impl->options = options;
  impl->feed = feed;
  impl->loss_of = loss_of;
  Trainer::run(std::move(impl), body);
}

}  // namespace yoke
