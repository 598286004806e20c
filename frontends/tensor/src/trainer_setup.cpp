// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_setup.cpp: allocates, initializes and links everything that a trainer needs.
#include <yoke/program/text.h>

#include <algorithm>
#include <new>

#include "host_copy.h"
#include "trainer_impl.h"

namespace yoke {

using detail::Arena;
using detail::BoundRoutine;
using detail::NamedProgram;
using detail::Variant;

namespace {

TensorSpec spec_of(const Tensor& tensor) {
  return {static_cast<std::int32_t>(tensor.type()), tensor.dims()};
}

}  // namespace

void Trainer::Impl::lay_out_parameters() {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    auto arena = std::find_if(arenas.begin(), arenas.end(),
                              [&](const Arena& a) { return a.type == parameter.type(); });
    if (arena == arenas.end()) {
      arenas.push_back({parameter.type(), 0, {}, {}});
      arena = arenas.end() - 1;
    }
    const std::uint64_t grain = YOKE_BUFFER_ALIGNMENT / program::byte_size(arena->type);
    arena->members.push_back(i);
    arena->offsets.push_back(arena->element_count);
    arena->element_count += (element_count(parameter.dims()) + grain - 1) / grain * grain;
  }
}

BufferView Trainer::Impl::arena_part(std::size_t k, const Arena& arena, const char* what,
                                     const Slice& part) const {
  BufferView view = contexts[k].tensor(arena.name(what)).view;
  const std::uint64_t element = program::byte_size(arena.type);
  return {view.buffer, view.offset + part.begin * element, (part.end - part.begin) * element};
}

void Trainer::Impl::open_shards() {
  std::map<std::pair<Backend*, std::uint32_t>, std::shared_ptr<Device>> devices;
  for (std::size_t k = 0; k < shard_backends.size(); ++k) {
    auto& device = devices[{shard_backends[k].get(), shard_ordinals[k]}];
    if (!device) {
      device = shard_backends[k]->open_device(shard_ordinals[k], options.device_options);
    }
    auto stream = Stream::create(device, "shard " + std::to_string(k) + " on " + device->name());
    contexts.emplace_back(stream);
    shards.push_back({static_cast<std::uint32_t>(k),
                      stream,
                      contexts.back(),
                      options.base_seed + static_cast<std::int64_t>(k),
                      static_cast<std::int64_t>(plan.rows[k]),
                      {}});
    step_ends.emplace_back(options.steps_ahead);
    seeds.push_back(shards.back().seed);
  }
  strategy = shards.size() == 1 ? MergeStrategy::kOwner : resolve_strategy(options.merge, contexts);
}

void Trainer::Impl::make_tensors() {
  for (std::size_t k = 0; k < shards.size(); ++k) {
    for (const Arena& arena : arenas) {
      make_arena(k, arena, "parameters", "");
      if (options.optimizer.needs_state() && (strategy == MergeStrategy::kDirect || k == 0)) {
        make_arena(k, arena, "momentum", "momentum/");
      }
    }
    const std::uint64_t zero = 0;
    for (const Variant& variant : variants) {
      contexts[k].allocate(variant.loss_total, {YOKE_TYPE_F64, {}});
      contexts[k].stream()->fill(contexts[k].tensor(variant.loss_total).view, &zero, 1);
    }
    contexts[k].allocate(detail::kFiniteSteps, {YOKE_TYPE_F64, {}});
    contexts[k].stream()->fill(contexts[k].tensor(detail::kFiniteSteps).view, &zero, 1);
    contexts[k].allocate("loss", {static_cast<std::int32_t>(variants[0].graph.loss.type()), {}});
  }
}

// Allocates an arena of shard k and names its parts after the parameters. With the strategy kDirect, all
// shards share the first shard's arena, unless it holds gradients.
void Trainer::Impl::make_arena(std::size_t k, const Arena& arena, const char* what, const char* prefix) {
  const std::string name = arena.name(what);
  const bool is_shared = strategy == MergeStrategy::kDirect && std::string_view(what) != "gradients";
  if (is_shared && k > 0) {
    contexts[k].adopt(name, arena.spec(), contexts[0].tensor(name).view);
  } else {
    const std::uint64_t zero = 0;
    contexts[k].allocate(name, arena.spec());
    contexts[k].stream()->fill(contexts[k].tensor(name).view, &zero, 1);
  }
  for (std::size_t m = 0; m < arena.members.size(); ++m) {
    const Parameter& parameter = parameters[arena.members[m]];
    const Slice part{arena.offsets[m], arena.offsets[m] + element_count(parameter.dims())};
    const TensorSpec spec{static_cast<std::int32_t>(arena.type), parameter.dims()};
    contexts[k].adopt(prefix + parameter.name(), spec, arena_part(k, arena, what, part));
  }
}

void Trainer::Impl::make_symbols() {
  for (std::size_t k = 0; k < shards.size(); ++k) {
    detail::SymbolTable& table = symbols->emplace_back();
    table.add(detail::kRowSymbol, 0);
    table.add(seed_symbol().name, seeds[k]);
    table.add(step_symbol().name, 0);
    for (const Symbol& binding : options.bindings) {
      if (binding.name != step_symbol().name) {
        table.add(binding.name, binding.low);
      }
    }
  }
  for (const Symbol& binding : options.bindings) {
    binding_values.push_back(binding.low);
  }
  set_symbols();
}

void Trainer::Impl::upload(const Tensor& all, const char* name) {
  for (std::size_t k = 0; k < shards.size(); ++k) {
    if (plan.shard_rows(k) == 0) {
      continue;
    }
    TensorSpec spec = spec_of(all);
    spec.dims[0] = plan.shard_rows(k);
    if (!contexts[k].has(name)) {
      contexts[k].allocate(name, spec);
    }
    detail::write_now(contexts[k], name, plan.pack(all.host_bytes(), k));
  }
}

// Keeps the values of parameters that have some, such as restored ones, and
// initializes the others on the owner, with its seed.
void Trainer::Impl::start_parameters() {
  std::vector<Output> drawn;
  std::map<std::string, std::string> given;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (parameter.has_values()) {
      contexts[0].from_host(parameter.name(), parameter.values());
      continue;
    }
    drawn.push_back({"start_" + std::to_string(i), parameter.init_tensor(static_cast<std::int64_t>(i))});
    given[drawn.back().name] = parameter.name();
  }
  if (!drawn.empty()) {
    const NamedProgram start = detail::name_program(lower("start", drawn), given, "literal/start/");
    link(contexts[0], start, (*symbols)[0]).run((*symbols)[0]);
  }
  for (const Arena& arena : arenas) {
    broadcasts.emplace_back(contexts, arena.name("parameters"));
    broadcasts.back().run();
  }
  shards[0].stream->wait();
}

// Uploads the literals and scalars that the program reads, compiles it for the context's device and links it.
BoundRoutine Trainer::Impl::link(Context& context, const NamedProgram& program,
                                 const detail::SymbolTable& table) {
  scalars->add(contexts, program.scalars);
  for (const auto& [name, tensor] : program.literals) {
    if (!context.has(name)) {
      context.allocate(name, spec_of(tensor));
      detail::write_now(context, name, {tensor.host_bytes().begin(), tensor.host_bytes().end()});
    }
  }
  const auto code = code_for(context.stream()->device(), program.text);
  return {context.link(code, program.name, program.rename), table};
}

void Trainer::Impl::link_steps() {
  for (Variant& variant : variants) {
    variant.step = link(contexts[0], variant.programs[0], (*symbols)[0]);
  }
}

void Trainer::Impl::link_gradients() {
  for (Variant& variant : variants) {
    variant.gradients.clear();
    variant.merges.clear();
    for (std::uint32_t k = 0; k < variant.active; ++k) {
      variant.gradients.push_back(link(
          contexts[k],
          is_single() ? build_program(variant.graph, &variant != &variants[0], false) : variant.programs[k],
          (*symbols)[k]));
    }
    for (const Arena& arena : arenas) {
      variant.merges.emplace_back(std::span(contexts).first(variant.active), arena.name("gradients"),
                                  strategy, options.merge_use);
    }
  }
  for (std::uint32_t k = 0; k < variants[0].active; ++k) {
    shards[k].gradient = variants[0].gradients[k].routine();
  }
}

BoundRoutine Trainer::Impl::link_update(std::size_t k, const Arena& arena, const Slice& part,
                                        std::span<const std::size_t> gradient_shards) {
  const std::uint64_t count = part.end - part.begin;
  const TensorSpec spec{static_cast<std::int32_t>(arena.type), {count}};
  Context own = contexts[k].child();
  own.adopt("value", spec, arena_part(k, arena, "parameters", part));
  if (options.optimizer.needs_state()) {
    own.adopt("momentum", spec, arena_part(k, arena, "momentum", part));
  }
  for (std::size_t i = 0; i < gradient_shards.size(); ++i) {
    own.adopt("gradient_" + std::to_string(i), spec,
              arena_part(gradient_shards[i], arena, "gradients", part));
  }
  return link(own, build_update(arena, count, gradient_shards.size()), (*symbols)[k]);
}

void Trainer::Impl::link_direct(const Arena& arena) {
  const auto parts =
      slices(arena.element_count, program::byte_size(arena.type), static_cast<std::uint32_t>(shards.size()));
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (parts[k].begin == parts[k].end) {
      continue;
    }
    const std::vector<std::size_t> owner = {0};
    updates.push_back(link_update(k, arena, parts[k], owner));
    for (Variant& variant : variants) {
      std::vector<std::size_t> active(variant.active);
      for (std::size_t i = 0; i < active.size(); ++i) {
        active[i] = i;
      }
      variant.fused.push_back(link_update(k, arena, parts[k], active));
    }
  }
}

void Trainer::Impl::link_updates() {
  updates.clear();
  for (Variant& variant : variants) {
    variant.fused.clear();
  }
  const std::vector<std::size_t> owner = {0};
  for (const Arena& arena : arenas) {
    if (strategy == MergeStrategy::kDirect) {
      link_direct(arena);
    } else {
      updates.push_back(link_update(0, arena, {0, arena.element_count}, owner));
    }
  }
}

// Links the functions that make up a step, unless that has been done. After an Error, the next call tries
// again.
void Trainer::Impl::link_parts() {
  if (has_parts) {
    return;
  }
  for (std::size_t k = 0; k < variants[0].active; ++k) {
    for (const Arena& arena : arenas) {
      if (!contexts[k].has(arena.name("gradients"))) {
        make_arena(k, arena, "gradients", "gradient/");
      }
    }
  }
  link_gradients();
  link_updates();
  has_parts = true;
}

// Aborts all streams together if one of them hangs, because their destructors wait for them in turn.
Trainer::Impl::~Impl() {
  for (const Shard& shard : shards) {
    try {
      if (!has_hung) {
        shard.stream->wait();
      }
    } catch (const Error& error) {
      has_hung = error.code() == ErrorCode::kDeadlineExceeded;
    } catch (const std::bad_alloc&) {  // no memory for an error; the streams' destructors wait
    }
  }
  for (const Shard& shard : shards) {
    if (has_hung) {
      shard.stream->abort();
    }
  }
}

void Trainer::Impl::set_up() {
  const detail::Stopwatch watch;
  check_arguments();
  find_backends();
  build_graphs();
  lay_out_parameters();
  open_shards();
  count_memory();
  check_memory();
  make_tensors();
  make_symbols();
  upload(inputs, "inputs");
  upload(targets, "targets");
  start_parameters();
  is_single() ? link_steps() : link_parts();
  for (const Shard& shard : shards) {
    shard.stream->wait();
  }
  setup_seconds = watch.seconds();
}

}  // namespace yoke
