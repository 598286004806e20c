// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/collective.cpp: the parts of collectives that all strategies share, and AllReduce.
#include <yoke/runtime/collective.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "parallel/native.h"
#include "parallel/sum_program.h"
#include "schedule/collective_call.h"
#include "schedule/range.h"

namespace yoke {

namespace {

// A child context in which `as` is a slice of the tensor `name`, as a flat tensor.
Context flat_view(const Context& context, std::string_view name, std::string_view as, const Slice& slice) {
  Context child = context.child();
  const ContextTensor& tensor = context.tensor(name);
  const std::uint64_t element = program::byte_size(detail::type_of(tensor.spec));
  child.adopt(as, {tensor.spec.type, {slice.count()}},
              {tensor.view.buffer, tensor.view.offset + slice.begin * element, slice.count() * element});
  return child;
}

bool is_same_memory(const Context& a, const Context& b, std::string_view node) {
  const BufferView& one = a.tensor(node).view;
  const BufferView& other = b.tensor(node).view;
  return one.buffer == other.buffer && one.offset == other.offset;
}

void check_same_spec(std::span<const Context> contexts, std::string_view node) {
  const TensorSpec& first = contexts.front().tensor(node).spec;
  for (std::size_t k = 1; k < contexts.size(); ++k) {
    if (!(contexts[k].tensor(node).spec == first)) {
      throw Error(ErrorCode::kInvalidArgument, "collective of '" + std::string(node) + "': shard " +
                                                   std::to_string(k) +
                                                   " differs from shard 0 in type or shape");
    }
  }
}

}  // namespace

std::shared_ptr<const Code> CodeCache::get(const std::shared_ptr<Device>& device, const std::string& text) {
  std::shared_ptr<const Code>& code = codes_[{device.get(), text}];
  if (code == nullptr) {
    const auto start = std::chrono::steady_clock::now();
    code = compile(device, text);
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return code;
}

void CodeCache::forget(const Device& device) {
  std::erase_if(codes_, [&](const auto& entry) { return entry.first.first == &device; });
}

namespace {

// By the first stream: it waits for the others, and then they wait for it.
void run_barrier(std::span<const std::shared_ptr<Stream>> streams) {
  Stream& first = *streams[0];
  for (const auto& stream : streams.subspan(1)) {
    first.wait_for(stream->record());
  }
  const Event all = first.record();
  for (const auto& stream : streams.subspan(1)) {
    stream->wait_for(all);
  }
}

}  // namespace

void LinkedCollective::run() const {
  for (const auto& step : steps_) {
    if (const auto* transfer = std::get_if<Transfer>(&step)) {
      transfer->run();
    } else if (const auto* routine = std::get_if<LinkedRoutine>(&step)) {
      routine->run();
    } else if (const auto* stream = std::get_if<std::shared_ptr<Stream>>(&step)) {
      (*stream)->record();
    } else if (const auto* streams = std::get_if<std::vector<std::shared_ptr<Stream>>>(&step)) {
      run_barrier(*streams);
    } else {
      std::get<std::shared_ptr<const detail::CollectiveCall>>(step)->run();
    }
  }
}

void LinkedCollective::add_barrier(std::vector<std::shared_ptr<Stream>> streams) {
  if (std::find(streams.begin(), streams.end(), nullptr) != streams.end()) {
    throw Error(ErrorCode::kInvalidArgument, "barrier: a stream is null");
  }
  if (streams.size() > 1) {
    steps_.emplace_back(std::move(streams));
  }
}

void LinkedCollective::add(std::shared_ptr<const detail::CollectiveCall> call) {
  if (call == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "linked collective: the call is null");
  }
  steps_.emplace_back(std::move(call));
}

void LinkedCollective::add(std::shared_ptr<Stream> stream) {
  if (stream == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "linked collective: the stream is null");
  }
  steps_.emplace_back(std::move(stream));
}

void LinkedCollective::add(LinkedCollective other) {
  std::move(other.steps_.begin(), other.steps_.end(), std::back_inserter(steps_));
}

Collectives::Collectives(MergeStrategy strategy, std::span<const Context> members, MergeUse use,
                         std::shared_ptr<CodeCache> codes, Wire wire, const ProcessGroup& processes)
    : strategy_(strategy),
      members_(members.begin(), members.end()),
      use_(use),
      codes_(codes ? std::move(codes) : std::make_shared<CodeCache>()),
      wire_(wire),
      size_(processes.size != 0 ? processes.size : static_cast<std::uint32_t>(members.size())) {
  if (members.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "collectives: the group has no members");
  }
  detail::check_wire(wire, strategy);
}

Slice Collectives::checked(std::string_view node, const Range& range) const {
  check_same_spec(members_, node);
  const std::uint64_t count = detail::flat_count(members_[0].tensor(node).spec);
  const Slice result = range.value_or(Slice{0, count});
  if (result.begin > result.end || result.end > count) {
    throw Error(ErrorCode::kOutOfRange, "collective of '" + std::string(node) + "': range [" +
                                            std::to_string(result.begin) + ", " + std::to_string(result.end) +
                                            ") exceeds " + detail::counted(count, "element"));
  }
  return result;
}

std::vector<Slice> Collectives::parts(std::string_view node, const Slice& range) const {
  const std::uint64_t element = program::byte_size(detail::type_of(members_[0].tensor(node).spec));
  std::vector<Slice> result = slices(range.count(), element, size());
  for (Slice& part : result) {
    part = {range.begin + part.begin, range.begin + part.end};
  }
  return result;
}

void Collectives::begin_round(LinkedCollective& all) const {
  for (std::uint32_t k = 0; size() > 1 && k < size(); ++k) {
    all.add(members_[k].stream());
  }
}

bool Collectives::packs(std::string_view node) const {
  return wire_ == Wire::kBF16 && members_[0].tensor(node).spec.type == YOKE_TYPE_F32;
}

void Collectives::pack(LinkedCollective& all, std::uint32_t from, std::string_view node, const Slice& slice) {
  if (slice.count() == 0 || !packs(node)) {
    return;
  }
  Context& source = members_[from];
  const std::string wire = detail::wire_tensor(node);
  const std::string residual = detail::residual_tensor(node);
  const std::vector<std::uint64_t> dims = source.tensor(node).spec.dims;
  if (!source.has(wire)) {
    const std::uint64_t zero = 0;
    source.allocate(wire, {YOKE_TYPE_BF16, dims});
    source.stream()->fill(source.allocate(residual, {YOKE_TYPE_F32, dims}).view, &zero, 1);
  }
  Context own = flat_view(source, node, "gradient", slice);
  for (const auto& [name, as] : {std::pair(wire, "wire"), std::pair(residual, "residual")}) {
    const ContextTensor tensor = flat_view(source, name, as, slice).tensor(as);
    own.adopt(as, tensor.spec, tensor.view);
  }
  const auto code = codes_->get(source.stream()->device(), detail::pack_text(slice.count()));
  all.add(own.link(code, detail::kPackEntry));
}

void Collectives::add(LinkedCollective& all, std::uint32_t to, std::uint32_t from, std::string_view node,
                      const Slice& slice) {
  if (slice.count() == 0) {
    return;
  }
  const Context& target = members_[to];
  const std::string sent = packs(node) ? detail::wire_tensor(node) : std::string(node);
  const auto code = codes_->get(
      target.stream()->device(),
      packs(node) ? detail::unpack_text(slice.count())
                  : detail::sum_text(detail::type_of(target.tensor(node).spec), slice.count(), 2));
  const Context own = flat_view(target, node, node, slice);
  Transfer transfer = device_to_device(sent, use_, own, flat_view(members_[from], sent, sent, slice));
  LinkedRoutine routine =
      own.link_merge(code, detail::kSumEntry, "incoming1", transfer, {{"own", std::string(node)}});
  all.add(std::move(transfer));
  all.add(std::move(routine));
}

void Collectives::copy(LinkedCollective& all, std::uint32_t to, std::uint32_t from, std::string_view node,
                       const Slice& slice) {
  if (slice.count() != 0 && !is_same_memory(members_[to], members_[from], node)) {
    all.add(device_to_device(node, MergeUse::kNone, flat_view(members_[to], node, node, slice),
                             flat_view(members_[from], node, node, slice)));
  }
}

void Collectives::sum(LinkedCollective& all, std::uint32_t on, std::span<const std::uint32_t> sources,
                      std::string_view node, const Slice& slice) {
  if (slice.count() == 0 || sources.size() < 2) {
    return;
  }
  const TensorSpec& spec = members_[on].tensor(node).spec;
  Context own = members_[on].child();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string name = i == 0 ? "own" : "incoming" + std::to_string(i);
    own.adopt(name, {spec.type, {slice.count()}},
              flat_view(members_[sources[i]], node, name, slice).tensor(name).view);
  }
  const auto code = codes_->get(
      members_[on].stream()->device(),
      detail::sum_text(detail::type_of(spec), slice.count(), static_cast<std::uint32_t>(sources.size())));
  all.add(own.link(code, detail::kSumEntry));
}

LinkedCollective Collectives::gather(std::string_view node, Range range) {
  LinkedCollective all;
  const std::vector<Slice> cut = parts(node, checked(node, range));
  for (std::uint32_t k = 1; k < size(); ++k) {
    copy(all, 0, k, node, cut[k]);
  }
  return all;
}

LinkedCollective Collectives::reduce_scatter(std::string_view node, Range range) {
  LinkedCollective all = reduce(node, range);
  const std::vector<Slice> cut = parts(node, checked(node, range));
  for (std::uint32_t k = 1; k < size(); ++k) {
    copy(all, k, 0, node, cut[k]);
  }
  return all;
}

LinkedCollective Collectives::all_reduce(std::string_view node, Range range) {
  LinkedCollective all = reduce(node, range);
  begin_round(all);
  all.add(broadcast(node, range));
  return all;
}

LinkedCollective Collectives::all_gather(std::string_view node, Range range) {
  LinkedCollective all = gather(node, range);
  all.add(broadcast(node, range));
  return all;
}

LinkedCollective Collectives::broadcast(std::string_view node, Range range) {
  LinkedCollective all;
  const Slice slice = checked(node, range);
  for (std::uint32_t k = 1; k < size(); ++k) {
    copy(all, k, 0, node, slice);
  }
  return all;
}

LinkedCollective Collectives::barrier() {
  LinkedCollective all;
  std::vector<std::shared_ptr<Stream>> streams;
  for (const Context& member : members_) {
    streams.push_back(member.stream());
  }
  all.add_barrier(std::move(streams));
  return all;
}

// Other streams than the member's may write the tensor, so the event of this one does not include that without a join.
CollectiveTensor::CollectiveTensor(const Context& member, std::string_view name)
    : tensor_(member.tensor(name)) {
  member.stream()->join(tensor_.view);
  filled_ = member.stream()->record();
}

const ContextTensor& CollectiveTensor::resolve(Stream& consumer) const {
  consumer.wait_for(filled_);
  return tensor_;
}

AllReduce::AllReduce(std::span<Context> contexts, std::string_view input, std::string_view output,
                     Reduction reduction)
    : contexts_(contexts.begin(), contexts.end()), output_(output) {
  const auto codes = std::make_shared<CodeCache>();
  const auto group = Collectives::create(MergeStrategy::kOwner, contexts_, MergeUse::kStreaming, codes);
  check_same_spec(contexts_, input);
  const TensorSpec spec = contexts_[0].tensor(input).spec;
  if (reduction == Reduction::kMean && !program::is_float(detail::type_of(spec))) {
    throw Error(ErrorCode::kInvalidArgument,
                "all-reduce of '" + std::string(input) +
                    "': a mean requires a floating-point type; use a sum, or cast first");
  }
  for (Context& context : contexts_) {
    if (!context.has(output)) {
      context.allocate(output, spec);
    }
    if (!(context.tensor(output).spec == spec)) {
      throw Error(ErrorCode::kInvalidArgument, "all-reduce of '" + std::string(input) + "' into '" + output_ +
                                                   "': the tensors differ in type or shape");
    }
    copies_.emplace_back(context.tensor(output).view, context.tensor(input).view);
  }
  all_ = group->reduce(output);
  if (reduction == Reduction::kMean && contexts_.size() > 1) {
    const std::uint64_t count = detail::flat_count(spec);
    const auto code = codes->get(
        contexts_[0].stream()->device(),
        detail::sum_text(detail::type_of(spec), count, 1, 1.0 / static_cast<double>(contexts_.size())));
    all_.add(flat_view(contexts_[0], output, output, {0, count})
                 .link(code, detail::kSumEntry, {{"own", output_}}));
  }
  all_.add(group->broadcast(output));
}

std::vector<CollectiveTensor> AllReduce::run() const {
  if (contexts_.empty()) {
    throw Error(ErrorCode::kFailedPrecondition, "the AllReduce is empty, because it was moved from");
  }
  for (std::size_t k = 0; k < contexts_.size(); ++k) {
    contexts_[k].stream()->copy(copies_[k].first, copies_[k].second);
  }
  all_.run();
  std::vector<CollectiveTensor> result;
  result.reserve(contexts_.size());
  for (const Context& context : contexts_) {
    result.emplace_back(context, output_);
  }
  return result;
}

}  // namespace yoke
