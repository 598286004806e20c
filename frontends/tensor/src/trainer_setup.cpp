// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_setup.cpp: everything of a trainer that happens once: checks, graphs, memory,
// links.
#include <yoke/gradients.h>
#include <yoke/nn.h>
#include <yoke/ops.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "host_copy.h"
#include "trainer_impl.h"

namespace yoke {

namespace detail {

namespace {

constexpr std::int64_t kMaxShards = 4096;

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::kInvalidArgument, sentence);
}

}  // namespace

std::vector<Placement> parse_placements(const std::string& text) {
  std::vector<Placement> placements;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const std::size_t colon = item.find(':');
    Placement placement{item.substr(0, colon), -1};
    if (colon != std::string::npos) {
      const char* first = item.data() + colon + 1;
      const char* last = item.data() + item.size();
      const auto [stop, failure] = std::from_chars(first, last, placement.shard_count);
      if (failure != std::errc{} || stop != last || placement.shard_count < 1 ||
          placement.shard_count > kMaxShards) {
        refuse("backend '" + item +
               "': behind the colon stands a number of shards, 1 to 4096, as in cuda:1,cc:2");
      }
    }
    if (placement.backend_name.empty()) {
      refuse("backend_name '" + text +
             "': a name is missing; write one name, or names with counts as in cuda:1,cc:2");
    }
    placements.push_back(placement);
    begin = end + 1;
  }
  if (placements.size() > 1) {
    for (const Placement& placement : placements) {
      if (placement.shard_count < 0) {
        refuse("backend_name '" + text +
               "': in a list every backend needs its number of shards, as in cuda:1,cc:2");
      }
    }
  }
  return placements;
}

NamedProgram name_program(const Lowered& lowered, const std::map<std::string, std::string>& given,
                          const std::string& literal_prefix) {
  NamedProgram named;
  named.name = lowered.program.name;
  named.text = program::print(lowered.program);
  for (const LoweredArgument& argument : lowered.arguments) {
    std::string tensor = argument.name;
    if (argument.kind == LoweredArgument::Kind::kParameter) {
      tensor = Parameter::of(argument.leaf).name();
    } else if (argument.kind == LoweredArgument::Kind::kLiteral) {
      tensor = literal_prefix + argument.name;
      named.literals.emplace_back(tensor, argument.leaf);
    }
    const auto found = given.find(argument.name);
    named.rename[argument.name] = found != given.end() ? found->second : tensor;
  }
  return named;
}

}  // namespace detail

using detail::Arena;
using detail::BoundRoutine;
using detail::NamedProgram;
using detail::Placement;
using detail::RowPlan;
using detail::Variant;

namespace {

void check_data(const Tensor& tensor, const char* what) {
  if (!tensor || tensor.source() != Source::kLiteral) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string("data_parallel: ") + what +
                    " must be host data (a literal), made by tensor() or literal()");
  }
  if (tensor.rank() == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string("data_parallel: ") + what + " is a scalar; axis 0 must be the batch");
  }
}

TensorSpec spec_of(const Tensor& tensor) {
  return {static_cast<std::int32_t>(tensor.type()), tensor.dims()};
}

}  // namespace

void Trainer::Impl::check_arguments() {
  if (!options.learning_rate) {
    throw Error(ErrorCode::kInvalidArgument,
                "data_parallel: learning_rate is missing; set options.learning_rate, e.g. 0.1F");
  }
  if (options.learning_rate.rank() != 0) {
    throw Error(ErrorCode::kInvalidArgument, "data_parallel: learning_rate has shape " +
                                                 dims_text(options.learning_rate.dims()) +
                                                 "; it must be a scalar");
  }
  if (options.optimizer.nesterov && options.optimizer.momentum == 0) {
    throw Error(ErrorCode::kInvalidArgument, "data_parallel: nesterov needs a momentum above 0");
  }
  check_bindings();
  check_data(inputs, "inputs");
  check_data(targets, "targets");
  const std::uint64_t rows = inputs.dims()[0];
  if (targets.dims()[0] != rows) {
    throw Error(ErrorCode::kInvalidArgument, "data_parallel: inputs have " + std::to_string(rows) +
                                                 " rows, targets " + std::to_string(targets.dims()[0]) +
                                                 "; give both the same number");
  }
  if (options.batch_size < 0 || static_cast<std::uint64_t>(options.batch_size) > rows) {
    throw Error(ErrorCode::kInvalidArgument,
                "data_parallel: a batch of " + std::to_string(options.batch_size) +
                    " rows does not fit data of " + std::to_string(rows) + " rows; choose 1 to " +
                    std::to_string(rows) + ", or 0 for all");
  }
  if (options.shards && (*options.shards < 1 || *options.shards > detail::kMaxShards)) {
    throw Error(ErrorCode::kInvalidArgument, "data_parallel: " + std::to_string(*options.shards) +
                                                 " shards; choose 1 to " +
                                                 std::to_string(detail::kMaxShards));
  }
  if (options.base_seed < 0 || options.base_seed > (std::int64_t{1} << 62) - detail::kMaxShards - 1) {
    throw Error(ErrorCode::kInvalidArgument, "data_parallel: base_seed " + std::to_string(options.base_seed) +
                                                 " is outside 0..2^62 - 4097");
  }
}

void Trainer::Impl::check_bindings() const {
  std::set<std::string> names = {detail::kRowSymbol, seed_symbol().name};
  for (const Symbol& binding : options.bindings) {
    if (!names.insert(binding.name).second) {
      throw Error(ErrorCode::kInvalidArgument,
                  "data_parallel: the binding '" + binding.name +
                      "' is given twice, or the trainer's own; choose another name");
    }
    if (binding.step < 1 || binding.high <= binding.low) {
      throw Error(ErrorCode::kInvalidArgument,
                  "data_parallel: the binding '" + binding.name +
                      "' has no values; high must be above low, and step 1 or more");
    }
  }
}

void Trainer::Impl::find_backends() {
  runtime = options.runtime ? options.runtime : std::make_shared<Runtime>();
  const std::vector<Placement> placements = detail::parse_placements(options.backend_name);
  std::int64_t said = 0;
  for (const Placement& placement : placements) {
    said += std::max<std::int64_t>(placement.shard_count, 0);
  }
  if (options.shards && said > 0 && said != *options.shards) {
    throw Error(ErrorCode::kInvalidArgument, "data_parallel: backend_name '" + options.backend_name +
                                                 "' asks for " + std::to_string(said) +
                                                 " shards, options.shards for " +
                                                 std::to_string(*options.shards) + "; leave one of them out");
  }
  for (const Placement& placement : placements) {
    const auto backend = runtime->backend(placement.backend_name);
    const std::uint32_t devices = backend->device_count();
    if (devices == 0) {
      throw Error(ErrorCode::kUnavailable,
                  "backend '" + backend->name() + "' has no devices here: " + backend->no_device_reason());
    }
    std::int64_t count = placement.shard_count > 0 ? placement.shard_count : options.shards.value_or(0);
    if (count == 0) {
      for (std::uint32_t ordinal = 0; ordinal < devices; ++ordinal) {
        count += backend->device_info(ordinal).suggested_stream_count;
      }
    }
    if (count + static_cast<std::int64_t>(shard_backends.size()) > detail::kMaxShards) {
      throw Error(ErrorCode::kInvalidArgument, "data_parallel: backend_name '" + options.backend_name +
                                                   "' asks for more than 4096 shards; choose fewer");
    }
    for (std::int64_t i = 0; i < count; ++i) {
      shard_backends.push_back(backend);
      shard_ordinals.push_back(static_cast<std::uint32_t>(i) % devices);
    }
    device_names += (device_names.empty() ? "" : ", ") + backend->name() + " x" + std::to_string(count);
  }
}

NamedProgram Trainer::Impl::build_gradient(std::size_t k, bool is_tail, double weight) {
  const auto all_of = [&](const char* name, const Tensor& data) {
    Dims dims = data.dims();
    dims[0] = plan.shard_rows(k);
    return placeholder(name, data.type(), dims);
  };
  const Tensor x = plan.batch_of(all_of("inputs", inputs), k, is_tail);
  const Tensor y = plan.batch_of(all_of("targets", targets), k, is_tail);
  const Tensor loss = loss_of(x, y);
  if (!loss || loss.rank() != 0 || !program::is_float(loss.type())) {
    throw Error(ErrorCode::kInvalidArgument,
                "data_parallel: loss_of gave " +
                    (loss ? "a tensor of shape " + dims_text(loss.dims()) : std::string("an empty tensor")) +
                    "; it must give one float, e.g. by mean() or sum()");
  }
  const std::vector<Parameter> used = parameters_of(loss);
  if (parameters.empty()) {
    parameters = used;
  }
  if (parameters.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "data_parallel: the loss depends on no Parameter, so there is nothing to train");
  }
  std::vector<Tensor> leaves;
  for (const Parameter& parameter : parameters) {
    leaves.push_back(parameter.tensor());
  }
  for (const Parameter& parameter : used) {
    if (std::none_of(parameters.begin(), parameters.end(),
                     [&](const Parameter& known) { return known.is(parameter); })) {
      throw Error(ErrorCode::kInvalidArgument,
                  "data_parallel: loss_of made a new parameter '" + parameter.name() +
                      "' when it was called again; make the layers outside of it");
    }
  }
  // The share of this shard goes in where the backward pass starts, so that merging is a plain sum.
  const std::vector<Tensor> slopes = gradients(weight == 1 ? loss : loss * weight, leaves);
  const Tensor total = placeholder("loss_total", Type::kF64, {});
  std::vector<Output> outputs = {{"loss", loss}};
  std::map<std::string, std::string> given;
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    outputs.push_back({"gradient_" + std::to_string(i), slopes[i]});
    given[outputs.back().name] = "gradient/" + parameters[i].name();
  }
  const std::vector<Update> sums = {{total, total + cast(loss, Type::kF64) * weight}};
  const std::string name = is_tail ? "gradient_of_last_batch" : "gradient";
  return detail::name_program(lower(name, outputs, sums), given, "literal/" + name + "/");
}

void Trainer::Impl::build_variant(bool is_tail) {
  Variant made;
  made.rows = is_tail ? plan.tail : plan.rows;
  const double batch_rows = static_cast<double>(is_tail ? plan.tail_rows() : plan.batch);
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> same_shape;  // rows and tail -> first shard
  for (std::size_t k = 0; k < made.rows.size(); ++k) {
    const bool sums = options.reduction == Reduction::kSum;
    const double share = sums ? 1.0 : static_cast<double>(made.rows[k]) / batch_rows;
    made.weights.push_back(made.rows[k] == 0 ? 0 : share);
    if (made.rows[k] == 0) {
      continue;
    }
    made.active = static_cast<std::uint32_t>(k) + 1;
    const auto [found, is_new] = same_shape.try_emplace({plan.rows[k], plan.tail[k]}, k);
    made.programs.push_back(is_new ? build_gradient(k, is_tail, share) : made.programs[found->second]);
  }
  variants.push_back(std::move(made));
}

void Trainer::Impl::build_graphs() {
  const auto shard_count = static_cast<std::uint32_t>(shard_backends.size());
  const std::uint64_t rows = inputs.dims()[0];
  plan = RowPlan::make(rows, options.batch_size == 0 ? rows : static_cast<std::uint64_t>(options.batch_size),
                       shard_count);
  const nn::ModeScope training(nn::Mode::kTrain);
  build_variant(false);
  if (plan.tail_rows() > 0) {
    build_variant(true);
  }
  std::set<std::string> names = {"loss", "loss_total", "inputs", "targets"};
  for (const Parameter& parameter : parameters) {
    if (!names.insert(parameter.name()).second) {
      throw Error(ErrorCode::kInvalidArgument,
                  "data_parallel: two tensors are called '" + parameter.name() +
                      "'; give layers outside of a sequential a name of their own");
    }
  }
}

void Trainer::Impl::lay_out_parameters() {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    auto arena = std::find_if(arenas.begin(), arenas.end(),
                              [&](const Arena& a) { return a.type == parameter.type(); });
    if (arena == arenas.end()) {
      arenas.push_back({parameter.type(), 0, {}, {}});
      arena = arenas.end() - 1;
    }
    const std::uint64_t grain = 64 / program::byte_size(arena->type);
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

void Trainer::Impl::make_shards() {
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
    seeds.push_back(shards.back().seed);
  }
  strategy = shards.size() == 1 ? MergeStrategy::kOwner : resolve_strategy(options.merge, contexts);
  const std::uint64_t zero = 0;
  const auto make = [&](std::size_t k, const Arena& arena, const char* what, bool shared) {
    const std::string name = arena.name(what);
    if (shared && k > 0) {
      contexts[k].adopt(name, arena.spec(), contexts[0].tensor(name).view);
      return;
    }
    contexts[k].allocate(name, arena.spec());
    contexts[k].stream()->fill(contexts[k].tensor(name).view, &zero, 1);
  };
  const bool is_shared = strategy == MergeStrategy::kDirect;
  for (std::size_t k = 0; k < shards.size(); ++k) {
    for (const Arena& arena : arenas) {
      make(k, arena, "parameters", is_shared);
      make(k, arena, "gradients", false);
      if (options.optimizer.needs_state() && (is_shared || k == 0)) {
        make(k, arena, "momentum", is_shared);
      }
      for (std::size_t m = 0; m < arena.members.size(); ++m) {
        const Parameter& parameter = parameters[arena.members[m]];
        const Slice part{arena.offsets[m], arena.offsets[m] + element_count(parameter.dims())};
        const TensorSpec spec{static_cast<std::int32_t>(arena.type), parameter.dims()};
        contexts[k].adopt(parameter.name(), spec, arena_part(k, arena, "parameters", part));
        contexts[k].adopt("gradient/" + parameter.name(), spec, arena_part(k, arena, "gradients", part));
      }
    }
    contexts[k].allocate("loss_total", {YOKE_F64, {}});
    contexts[k].stream()->fill(contexts[k].tensor("loss_total").view, &zero, 1);
    symbols.emplace_back();
    symbols[k].add(detail::kRowSymbol, 0);
    symbols[k].add(seed_symbol().name, seeds[k]);
    symbols[k].add(step_symbol().name, 0);
    for (const Symbol& binding : options.bindings) {
      if (binding.name != step_symbol().name) {
        symbols[k].add(binding.name, binding.low);
      }
    }
  }
  for (const Symbol& binding : options.bindings) {
    binding_values.push_back(binding.low);
  }
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
    const std::vector<std::byte> packed = plan.pack(all.host_bytes(), k);
    detail::write_now(contexts[k], name, packed);
  }
}

std::shared_ptr<const Code> Trainer::Impl::compile_timed(const std::shared_ptr<Device>& device,
                                                         const std::string& text) {
  const detail::Stopwatch watch;
  auto code = compile(device, text);
  compile_seconds += watch.seconds();
  return code;
}

// Values that parameters already have (restored ones) are kept; the others are drawn on the owner, from its
// seed.
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
    upload_literals(contexts[0], start);
    const auto code = compile_timed(shards[0].stream->device(), start.text);
    BoundRoutine(contexts[0].link(code, start.name, start.rename), symbols[0]).run(symbols[0]);
  }
  for (const Arena& arena : arenas) {
    broadcasts.emplace_back(contexts, arena.name("parameters"));
    broadcasts.back().run();
  }
  shards[0].stream->wait();
}

void Trainer::Impl::upload_literals(Context& context, const NamedProgram& program) const {
  for (const auto& [name, tensor] : program.literals) {
    if (!context.has(name)) {
      context.init_from_host(name, spec_of(tensor), tensor.host_bytes());
      context.stream()->wait();
    }
  }
}

void Trainer::Impl::link_gradients() {
  for (Variant& variant : variants) {
    for (std::uint32_t k = 0; k < variant.active; ++k) {
      const NamedProgram& program = variant.programs[k];
      Context& context = contexts[k];
      if (!context.has("loss")) {
        const auto module = program::parse(program.text);
        const auto number = module.programs[0].find_tensor("loss");
        context.allocate("loss", {static_cast<std::int32_t>(module.programs[0].tensors[*number].type), {}});
      }
      upload_literals(context, program);
      const auto code = compile_timed(shards[k].stream->device(), program.text);
      variant.gradients.emplace_back(context.link(code, program.name, program.rename), symbols[k]);
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

// value (and momentum) of `count` elements from the sum of `gradient_count` gradients.
std::string Trainer::Impl::update_text(const Arena& arena, std::uint64_t count, std::size_t gradient_count,
                                       std::map<std::string, std::string>& rename) {
  const Tensor value = placeholder("value", arena.type, {count});
  const Tensor momentum =
      options.optimizer.needs_state() ? placeholder("momentum", arena.type, {count}) : Tensor();
  Tensor gradient;
  for (std::size_t k = 0; k < gradient_count; ++k) {
    const Tensor term = placeholder("gradient_" + std::to_string(k), arena.type, {count});
    gradient = k == 0 ? term : gradient + term;
  }
  Tensor rate = options.learning_rate;
  if (rate.type() != arena.type) {
    rate = cast(rate, arena.type);
  }
  const Lowered lowered = lower("update", {}, sgd_one(value, gradient, momentum, rate, options.optimizer));
  for (const LoweredArgument& argument : lowered.arguments) {
    rename[argument.name] =
        argument.kind == LoweredArgument::Kind::kPlaceholder ? argument.leaf.name() : argument.name;
  }
  if (std::any_of(lowered.arguments.begin(), lowered.arguments.end(), [](const LoweredArgument& argument) {
        return argument.kind == LoweredArgument::Kind::kLiteral ||
               argument.kind == LoweredArgument::Kind::kParameter;
      })) {
    throw Error(ErrorCode::kInvalidArgument,
                "data_parallel: learning_rate may use numbers and symbols (the step), not tensors with data");
  }
  return program::print(lowered.program);
}

BoundRoutine Trainer::Impl::link_update(std::size_t k, const Arena& arena, const Slice& part,
                                        std::span<const std::size_t> gradient_shards) {
  const std::uint64_t count = part.end - part.begin;
  std::map<std::string, std::string> rename;
  const std::string text = update_text(arena, count, gradient_shards.size(), rename);
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
  return {own.link(compile_timed(shards[k].stream->device(), text), "update", rename), symbols[k]};
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
  const std::vector<std::size_t> owner = {0};
  for (const Arena& arena : arenas) {
    if (strategy == MergeStrategy::kDirect) {
      link_direct(arena);
    } else {
      updates.push_back(link_update(0, arena, {0, arena.element_count}, owner));
    }
  }
}

void Trainer::Impl::set_up() {
  const detail::Stopwatch watch;
  check_arguments();
  find_backends();
  build_graphs();
  lay_out_parameters();
  make_shards();
  upload(inputs, "inputs");
  upload(targets, "targets");
  start_parameters();
  link_gradients();
  link_updates();
  for (const Shard& shard : shards) {
    shard.stream->wait();
  }
  setup_seconds = watch.seconds();
}

}  // namespace yoke
