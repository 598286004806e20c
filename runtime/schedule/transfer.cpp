// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/transfer.cpp: copies between contexts, directly or into merge buffers.
#include "schedule/context_impl.h"
#include "schedule/queue_copies.h"

namespace yoke {

namespace {

std::string subject_of(std::string_view name, const Context& dst, const Context& src) {
  return "transfer of '" + std::string(name) + "' from stream '" + src.stream()->name() + "' to stream '" +
         dst.stream()->name() + "'";
}

// Replaces a merge buffer that is too small. Routines and transfers that were linked with it keep it.
BufferView merge_view(detail::StreamState& state, std::uint64_t byte_count) {
  if (state.merge_buffer == nullptr || state.merge_buffer->byte_count() < byte_count) {
    state.merge_buffer = std::make_shared<Buffer>(state.device, byte_count);
  }
  return {state.merge_buffer, 0, byte_count};
}

}  // namespace

Transfer device_to_device(std::string_view name, MergeUse use, const Context& dst, const Context& src) {
  const ContextTensor* from = src.impl().find(name);
  if (use == MergeUse::kNone && dst.impl().find(name) == nullptr) {
    return {};
  }
  if (from == nullptr) {
    throw Error(ErrorCode::kNotFound,
                subject_of(name, dst, src) + ": the source has no such tensor" + src.impl().listing(name));
  }
  auto linked = std::make_shared<Transfer::Impl>();
  linked->node = std::make_shared<const std::string>(name);
  linked->spec = from->spec;
  linked->src = from->view;
  linked->stream = dst.stream();
  const std::shared_ptr<Device>& here = dst.stream()->device();
  const std::shared_ptr<Device>& there = from->view.buffer->device();
  linked->use = use == MergeUse::kStreaming && !here->can_access(*there) ? MergeUse::kCopy : use;

  if (linked->use == MergeUse::kNone) {
    const ContextTensor* to = dst.impl().find(name);
    dst.impl().require_variable(name);
    if (!(to->spec == from->spec)) {
      throw Error(ErrorCode::kInvalidArgument, subject_of(name, dst, src) + ": the source is " +
                                                   detail::spec_text(from->spec.type, from->spec.dims) +
                                                   ", but the destination is " +
                                                   detail::spec_text(to->spec.type, to->spec.dims));
    }
    linked->dst = to->view;
  } else if (linked->use == MergeUse::kCopy) {
    linked->dst = merge_view(dst.stream()->state(), from->view.byte_count);
  } else {
    linked->dst = from->view;
  }

  if (linked->use != MergeUse::kStreaming && detail::is_staged(*linked->dst.buffer->device(), *there)) {
    // Creates threads and memory now rather than in the first run.
    dst.stream()->state().prepare_staging(linked->dst, linked->src);
  }
  Transfer result;
  result.impl_ = std::move(linked);
  return result;
}

void Transfer::run() const {
  if (impl_ == nullptr) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        "the Transfer is empty; create it with device_to_device, from a context to another that both have "
        "the tensor");
  }
  detail::StreamState& state = impl_->stream->state();
  const bool is_same_memory =
      impl_->dst.buffer == impl_->src.buffer && impl_->dst.offset == impl_->src.offset;
  if (!is_same_memory) {
    detail::queue_copy(state, impl_->dst, impl_->src, *impl_->node);
  }
  if (impl_->use != MergeUse::kNone) {
    state.merge_content = {impl_->node, impl_->dst.buffer.get(), impl_->dst.offset};
  }
}

MergeUse Transfer::use() const {
  return impl_ == nullptr ? MergeUse::kNone : impl_->use;
}

}  // namespace yoke
