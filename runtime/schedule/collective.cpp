// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/collective.cpp: sums over shards in the order of shard
// numbers, as small programs that are linked once.
#include <yoke/program/program.h>
#include <yoke/program/text.h>
#include <yoke/runtime/collective.h>

#include <algorithm>
#include <iterator>

namespace yoke {

namespace {

using program::Access;
using program::Affine;
using program::Expr;
using program::Index;
using program::Op;
using program::Role;

// An expression may be 200 operations deep, so sums over more shards take several statements.
constexpr std::uint32_t kMostTerms = 100;

// A program over flat tensors that sums all arguments, in their order,
// into the first one and multiplies it by `scale`.
std::string sum_text(std::string_view name, program::Type type, std::uint64_t element_count,
                     std::uint32_t terms, double scale = 1) {
  program::Program result;
  result.name = name;
  const Access own{0, {Index{Affine::loop(0), {}, {}}}, {}};
  const auto assign = [&](Expr value) {
    program::Statement statement;
    statement.loops = {{"i", element_count}};
    statement.target = own;
    statement.value = std::move(value);
    result.statements.push_back(std::move(statement));
  };
  Expr value = Expr::read(type, own);
  result.tensors.push_back({"own", type, {element_count}, Role::kInOut, {}});
  for (std::uint32_t k = 1; k < terms; ++k) {
    if (k % kMostTerms == 0) {
      assign(std::move(value));
      value = Expr::read(type, own);
    }
    result.tensors.push_back({"incoming" + std::to_string(k), type, {element_count}, Role::kIn, {}});
    Access read = own;
    read.tensor = k;
    value = Expr::make(Op::kAdd, {std::move(value), Expr::read(type, read)});
  }
  if (scale != 1) {
    value = Expr::make(Op::kMul, {std::move(value), Expr::constant(type, scale)});
  }
  assign(std::move(value));
  return program::print(result);
}

std::uint64_t flat_count(const TensorSpec& spec) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : spec.dims) {
    count *= dim;
  }
  return count;
}

program::Type type_of(const TensorSpec& spec) {
  return static_cast<program::Type>(spec.type);
}

// A child context in which `as` is the tensor `name`, or a part of it, as a flat tensor.
Context flat_view(const Context& context, std::string_view name, std::string_view as,
                  const Slice* part = nullptr) {
  Context child = context.child();
  const ContextTensor& tensor = context.tensor(name);
  const std::uint64_t element = program::byte_size(type_of(tensor.spec));
  const Slice all{0, flat_count(tensor.spec)};
  const Slice& used = part != nullptr ? *part : all;
  BufferView view = tensor.view;
  view.offset += used.begin * element;
  view.byte_count = (used.end - used.begin) * element;
  child.adopt(as, {tensor.spec.type, {used.end - used.begin}}, std::move(view));
  return child;
}

void check_same_spec(std::span<const Context> contexts, std::string_view node) {
  if (contexts.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "merge of '" + std::string(node) + "': there are no shards");
  }
  const TensorSpec& first = contexts.front().tensor(node).spec;
  for (std::size_t k = 1; k < contexts.size(); ++k) {
    if (!(contexts[k].tensor(node).spec == first)) {
      throw Error(ErrorCode::kInvalidArgument, "merge of '" + std::string(node) + "': shard " +
                                                   std::to_string(k) +
                                                   " differs from shard 0 in type or shape");
    }
  }
}

}  // namespace

const char* merge_strategy_name(MergeStrategy strategy) {
  constexpr const char* kNames[] = {"auto", "owner", "tree", "direct"};
  const auto number = static_cast<std::size_t>(strategy);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

MergeStrategy merge_strategy_by_name(std::string_view name) {
  for (const auto strategy :
       {MergeStrategy::kAuto, MergeStrategy::kOwner, MergeStrategy::kTree, MergeStrategy::kDirect}) {
    if (name == merge_strategy_name(strategy)) {
      return strategy;
    }
  }
  throw Error(ErrorCode::kInvalidArgument,
              "unknown merge strategy '" + std::string(name) + "'; use auto, owner, tree or direct");
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> merge_pairs(std::uint32_t shard_count) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::uint32_t live = shard_count; live > 1;) {
    const std::uint32_t kept = (live + 1) / 2;
    // With an odd count, shard 0 is not part of this round.
    const std::uint32_t first = live % 2;
    for (std::uint32_t to = first; to < kept; ++to) {
      pairs.emplace_back(kept + to - first, to);
    }
    live = kept;
  }
  return pairs;
}

void parallel_merge(std::uint32_t shard_count,
                    const std::function<void(std::uint32_t, std::uint32_t)>& merge) {
  if (!merge) {
    throw Error(ErrorCode::kInvalidArgument, "parallel_merge: the function is empty");
  }
  for (const auto& [from, to] : merge_pairs(shard_count)) {
    merge(from, to);
  }
}

std::vector<Slice> slices(std::uint64_t element_count, std::uint64_t element_byte_count,
                          std::uint32_t shard_count) {
  if (element_byte_count == 0 || element_byte_count > YOKE_BUFFER_ALIGNMENT) {
    throw Error(ErrorCode::kInvalidArgument, "slices: an element of " + std::to_string(element_byte_count) +
                                                 " bytes; use 1 to " + std::to_string(YOKE_BUFFER_ALIGNMENT));
  }
  const std::uint64_t grain = YOKE_BUFFER_ALIGNMENT / element_byte_count;
  const std::uint64_t grains = (element_count + grain - 1) / grain;
  std::vector<Slice> result(shard_count);
  for (std::uint32_t k = 0; k < shard_count; ++k) {
    result[k].begin = std::min(element_count, grains * k / shard_count * grain);
    result[k].end = std::min(element_count, grains * (k + 1) / shard_count * grain);
  }
  return result;
}

bool memory_is_shared(std::span<const Context> contexts) {
  for (const Context& a : contexts) {
    for (const Context& b : contexts) {
      if (!a.stream()->device()->can_access(*b.stream()->device())) {
        return false;
      }
    }
  }
  return true;
}

MergeStrategy resolve_strategy(MergeStrategy strategy, std::span<const Context> contexts) {
  if (strategy == MergeStrategy::kDirect && !memory_is_shared(contexts)) {
    throw Error(ErrorCode::kFailedPrecondition,
                "merge strategy direct: the devices cannot access each other's memory; use owner or tree");
  }
  if (strategy != MergeStrategy::kAuto) {
    return strategy;
  }
  if (memory_is_shared(contexts)) {
    return MergeStrategy::kDirect;
  }
  return contexts.size() > 2 ? MergeStrategy::kTree : MergeStrategy::kOwner;
}

GradientMerge::GradientMerge(std::span<const Context> contexts, std::string_view node, MergeStrategy strategy,
                             MergeUse use)
    : strategy_(resolve_strategy(strategy, contexts)) {
  check_same_spec(contexts, node);
  const auto shard_count = static_cast<std::uint32_t>(contexts.size());
  if (shard_count == 1) {
    return;
  }
  if (strategy_ == MergeStrategy::kDirect) {
    link_slices(contexts, node);
  } else if (strategy_ == MergeStrategy::kTree) {
    parallel_merge(shard_count, [&](std::uint32_t from, std::uint32_t to) {
      link_pair(contexts[to], contexts[from], node, use);
    });
  } else {
    for (std::uint32_t from = 1; from < shard_count; ++from) {
      link_pair(contexts[0], contexts[from], node, use);
    }
  }
}

void GradientMerge::link_pair(const Context& to, const Context& from, std::string_view node, MergeUse use) {
  const TensorSpec& spec = to.tensor(node).spec;
  const auto code = compile(to.stream()->device(), sum_text("merge_add", type_of(spec), flat_count(spec), 2));
  const Context own = flat_view(to, node, node);
  Transfer transfer = device_to_device(node, use, own, flat_view(from, node, node));
  LinkedRoutine add = own.link_merge(code, "merge_add", "incoming1", transfer, {{"own", std::string(node)}});
  steps_.push_back({std::move(transfer), true, std::move(add)});
}

void GradientMerge::link_slices(std::span<const Context> contexts, std::string_view node) {
  const TensorSpec& spec = contexts[0].tensor(node).spec;
  const std::uint64_t element = program::byte_size(type_of(spec));
  const auto parts = slices(flat_count(spec), element, static_cast<std::uint32_t>(contexts.size()));
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const std::uint64_t count = parts[k].end - parts[k].begin;
    if (count == 0) {
      continue;
    }
    Context own = contexts[k].child();
    for (std::size_t source = 0; source < contexts.size(); ++source) {
      const std::string name = source == 0 ? "own" : "incoming" + std::to_string(source);
      own.adopt(name, {spec.type, {count}},
                flat_view(contexts[source], node, name, &parts[k]).tensor(name).view);
    }
    const auto code =
        compile(contexts[k].stream()->device(),
                sum_text("merge_slice", type_of(spec), count, static_cast<std::uint32_t>(contexts.size())));
    steps_.push_back({{}, false, own.link(code, "merge_slice")});
  }
}

void GradientMerge::run() const {
  for (const Step& step : steps_) {
    if (step.has_transfer) {
      step.transfer.run();
    }
    step.add.run();
  }
}

Broadcast::Broadcast(std::span<const Context> contexts, std::string_view node) {
  check_same_spec(contexts, node);
  const BufferView& source = contexts[0].tensor(node).view;
  for (std::size_t k = 1; k < contexts.size(); ++k) {
    const BufferView& view = contexts[k].tensor(node).view;
    if (view.buffer != source.buffer || view.offset != source.offset) {
      transfers_.push_back(device_to_device(node, MergeUse::kNone, contexts[k], contexts[0]));
    }
  }
}

void Broadcast::run() const {
  for (const Transfer& transfer : transfers_) {
    transfer.run();
  }
}

const ContextTensor& CollectiveTensor::resolve(Stream& consumer) const {
  consumer.wait_for(filled_);
  return tensor_;
}

AllReduce::AllReduce(std::span<Context> contexts, std::string_view input, std::string_view output,
                     Reduction reduction)
    : contexts_(contexts.begin(), contexts.end()), output_(output) {
  check_same_spec(contexts_, input);
  const TensorSpec spec = contexts_[0].tensor(input).spec;
  for (Context& context : contexts_) {
    if (!context.has(output)) {
      context.allocate(output, spec);
    }
  }
  check_same_spec(contexts_, output);
  const Context& owner = contexts_[0];
  if (reduction == Reduction::kMean && !program::is_float(type_of(spec))) {
    throw Error(ErrorCode::kInvalidArgument,
                "all-reduce of '" + std::string(input) +
                    "': a mean requires a floating-point type; use a sum, or cast first");
  }
  if (!(owner.tensor(output).spec == spec)) {
    throw Error(ErrorCode::kInvalidArgument, "all-reduce of '" + std::string(input) + "' into '" + output_ +
                                                 "': the tensors differ in type or shape");
  }
  owner_input_ = owner.tensor(input);
  owner_output_ = owner.tensor(output);
  const auto& device = owner.stream()->device();
  const auto add = compile(device, sum_text("merge_add", type_of(spec), flat_count(spec), 2));
  const Context flat_owner = flat_view(owner, output, output);
  for (std::size_t k = 1; k < contexts_.size(); ++k) {
    Transfer transfer = device_to_device(input, MergeUse::kStreaming, flat_view(owner, input, input),
                                         flat_view(contexts_[k], input, input));
    LinkedRoutine routine =
        flat_owner.link_merge(add, "merge_add", "incoming1", transfer, {{"own", output_}});
    steps_.push_back({std::move(transfer), std::move(routine)});
  }
  if (reduction == Reduction::kMean && contexts_.size() > 1) {
    const auto scale = compile(device, sum_text("merge_scale", type_of(spec), flat_count(spec), 1,
                                                1.0 / static_cast<double>(contexts_.size())));
    scale_.push_back(flat_owner.link(scale, "merge_scale", {{"own", output_}}));
  }
  broadcast_.emplace_back(contexts_, output_);
}

std::vector<CollectiveTensor> AllReduce::run() const {
  if (contexts_.empty()) {
    throw Error(ErrorCode::kFailedPrecondition, "the AllReduce is empty, because it was moved from");
  }
  contexts_[0].stream()->copy(owner_output_.view, owner_input_.view);
  for (const Step& step : steps_) {
    step.transfer.run();
    step.add.run();
  }
  for (const LinkedRoutine& scale : scale_) {
    scale.run();
  }
  broadcast_.front().run();
  std::vector<CollectiveTensor> result;
  result.reserve(contexts_.size());
  for (const Context& context : contexts_) {
    result.emplace_back(context.tensor(output_), context.stream()->record());
  }
  return result;
}

}  // namespace yoke
