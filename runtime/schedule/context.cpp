// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/context.cpp: tensors by name.
#include <yoke/program/program.h>
#include <yoke/runtime/closest.h>
#include <yoke/runtime/context.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "schedule/context_impl.h"
#include "schedule/queue_copies.h"
#include "schedule/range.h"

namespace yoke {

namespace {

bool is_type(std::int32_t type) {
  return type >= YOKE_TYPE_F64 && type <= YOKE_TYPE_BOOL;
}

}  // namespace

namespace detail {

std::string spec_text(std::int32_t type, const std::vector<std::uint64_t>& dims) {
  std::string text = is_type(type) ? std::string(program::type_name(static_cast<program::Type>(type)))
                                   : "type " + std::to_string(type);
  text += "[";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  }
  return text + "]";
}

}  // namespace detail

namespace {

bool has_zero(const std::vector<std::uint64_t>& dims) {
  return std::find(dims.begin(), dims.end(), 0U) != dims.end();
}

// Empty: it does not fit in 63 bits.
std::optional<std::uint64_t> bytes_of(const TensorSpec& spec) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (!is_type(spec.type) || has_zero(spec.dims)) {
    return 0;
  }
  std::uint64_t count = program::byte_size(static_cast<program::Type>(spec.type));
  for (const std::uint64_t dim : spec.dims) {
    if (count > kMost / dim) {
      return std::nullopt;
    }
    count *= dim;
  }
  return count;
}

}  // namespace

std::uint64_t TensorSpec::byte_count() const {
  if (const std::optional<std::uint64_t> count = bytes_of(*this)) {
    return *count;
  }
  throw Error(ErrorCode::kInvalidArgument, "a tensor of " + detail::spec_text(type, dims) +
                                               " has 2^63 or more bytes; use smaller dimensions");
}

const ContextTensor* Context::Impl::find(std::string_view name) const {
  for (const Impl* context = this; context != nullptr; context = context->parent.get()) {
    if (const auto found = context->tensors.find(name); found != context->tensors.end()) {
      return &found->second;
    }
  }
  return nullptr;
}

bool Context::Impl::is_constant(std::string_view name) const {
  const Impl* owner = this;
  while (!owner->tensors.contains(name)) {
    owner = owner->parent.get();
  }
  return owner->constants.contains(name);
}

void Context::Impl::require_variable(std::string_view name) const {
  require_writable(name);
  if (is_constant(name)) {
    refuse(ErrorCode::kFailedPrecondition,
           "tensor '" + std::string(name) +
               "' is a constant; write another tensor, or give it values by from_host");
  }
}

void Context::Impl::require_writable(std::string_view name) const {
  bool is_read_only = false;
  const Impl* owner = this;
  for (; owner->tensors.find(name) == owner->tensors.end(); owner = owner->parent.get()) {
    is_read_only = is_read_only || owner->only_reads_parent;
  }
  if (is_read_only) {
    refuse(
        ErrorCode::kFailedPrecondition,
        "tensor '" + std::string(name) + "' belongs to stream '" + owner->stream->name() +
            "', and this context only reads it; create the child with ChildAccess::kReadWrite to write it");
  }
}

std::string Context::Impl::listing(std::string_view wanted) const {
  constexpr std::size_t kMostNames = 40;
  std::set<std::string> names;
  for (const Impl* context = this; context != nullptr; context = context->parent.get()) {
    for (const auto& [name, tensor] : context->tensors) {
      names.insert(name);
    }
  }
  const std::string similar = did_you_mean(wanted, std::vector<std::string>(names.begin(), names.end()));
  std::string text = similar + (similar.empty() ? "; the context has " : " The context has ");
  std::size_t count = 0;
  for (const std::string& name : names) {
    if (++count > kMostNames) {
      return text + " and " + std::to_string(names.size() - kMostNames) + " more";
    }
    text += (count == 1 ? "'" : ", '") + name + "'";
  }
  return names.empty() ? text + "no tensors" : text;
}

void Context::Impl::refuse(ErrorCode code, const std::string& reason) const {
  throw Error(code, "context on stream '" + stream->name() + "': " + reason);
}

void Context::Impl::check_spec(std::string_view name, const TensorSpec& spec) const {
  const std::string subject =
      "tensor '" + std::string(name) + "' of " + detail::spec_text(spec.type, spec.dims);
  if (name.empty()) {
    refuse(ErrorCode::kInvalidArgument, "the name of the tensor is empty");
  }
  if (!is_type(spec.type)) {
    refuse(ErrorCode::kInvalidArgument, subject + ": unknown element type");
  }
  if (spec.dims.size() > YOKE_MAX_RANK) {
    refuse(ErrorCode::kInvalidArgument,
           subject + " has more than " + std::to_string(YOKE_MAX_RANK) + " dimensions");
  }
  if (has_zero(spec.dims)) {
    refuse(ErrorCode::kInvalidArgument, subject + " has a dimension of 0");
  }
  if (!bytes_of(spec)) {
    refuse(ErrorCode::kInvalidArgument, subject + " has 2^63 or more bytes");
  }
}

void Context::Impl::check_byte_count(const char* call, std::string_view name, const TensorSpec& spec,
                                     std::size_t byte_count) const {
  if (byte_count != spec.byte_count()) {
    refuse(ErrorCode::kInvalidArgument, std::string(call) + ": tensor '" + std::string(name) + "' is " +
                                            detail::spec_text(spec.type, spec.dims) + ", which has " +
                                            detail::counted(spec.byte_count(), "byte") + ", but " +
                                            detail::counted(byte_count, "byte") + " were given");
  }
}

const ContextTensor& Context::Impl::add(std::string_view name, ContextTensor tensor) {
  const auto [place, is_new] = tensors.emplace(std::string(name), std::move(tensor));
  if (!is_new) {
    refuse(ErrorCode::kAlreadyExists,
           "tensor '" + std::string(name) + "' already exists, as " +
               detail::spec_text(place->second.spec.type, place->second.spec.dims));
  }
  return place->second;
}

Context::Context(std::shared_ptr<Stream> stream) : impl_(std::make_shared<Impl>()) {
  if (stream == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "Context: the stream is null");
  }
  impl_->stream = std::move(stream);
}

Context::Impl& Context::impl() const {
  if (impl_ == nullptr) {
    throw Error(ErrorCode::kFailedPrecondition, "the Context is empty, because it was moved from");
  }
  return *impl_;
}

Context Context::child() const {
  return child(impl().stream, ChildAccess::kReadWrite);
}

Context Context::child(std::shared_ptr<Stream> stream, ChildAccess access) const {
  const Device& device = *impl().stream->device();
  Context result(std::move(stream));
  if (!result.stream()->device()->is_same(device)) {
    impl().refuse(ErrorCode::kInvalidArgument, "a child on stream '" + result.stream()->name() +
                                                   "' of device '" + result.stream()->device()->name() +
                                                   "'; use a stream of the same device");
  }
  result.impl_->parent = impl_;
  result.impl_->only_reads_parent = access == ChildAccess::kRead && result.stream() != impl().stream;
  return result;
}

const std::shared_ptr<Stream>& Context::stream() const {
  return impl().stream;
}

bool Context::has(std::string_view name) const {
  return impl().find(name) != nullptr;
}

const ContextTensor& Context::tensor(std::string_view name) const {
  const ContextTensor* found = impl().find(name);
  if (found == nullptr) {
    impl().refuse(ErrorCode::kNotFound, "no tensor '" + std::string(name) + "'" + impl().listing(name));
  }
  return *found;
}

std::vector<std::string> Context::names() const {
  std::set<std::string> all;
  for (const Impl* context = &impl(); context != nullptr; context = context->parent.get()) {
    for (const auto& [name, tensor] : context->tensors) {
      all.insert(name);
    }
  }
  return {all.begin(), all.end()};
}

const ContextTensor& Context::allocate(std::string_view name, const TensorSpec& spec,
                                       const std::shared_ptr<Buffer>& old_buffer) {
  impl().check_spec(name, spec);
  if (impl().tensors.find(name) != impl().tensors.end()) {
    return impl().add(name, {});  // throws before memory is allocated
  }
  const std::uint64_t byte_count = spec.byte_count();
  if (old_buffer != nullptr && old_buffer->byte_count() >= byte_count &&
      impl().stream->device()->can_access(*old_buffer->device())) {
    return adopt(name, spec, {old_buffer, 0, old_buffer->byte_count()});
  }
  return impl().add(name,
                    {spec, {std::make_shared<Buffer>(impl().stream->device(), byte_count), 0, byte_count}});
}

const ContextTensor& Context::adopt(std::string_view name, const TensorSpec& spec, BufferView view) {
  impl().check_spec(name, spec);
  const std::string subject =
      "tensor '" + std::string(name) + "' of " + detail::spec_text(spec.type, spec.dims);
  const std::uint64_t byte_count = spec.byte_count();
  if (view.buffer == nullptr) {
    impl().refuse(ErrorCode::kInvalidArgument, subject + " has no buffer");
  }
  if (!detail::is_in_range(view)) {
    impl().refuse(ErrorCode::kOutOfRange, subject + ": " + detail::range_text(view));
  }
  if (view.byte_count < byte_count) {
    impl().refuse(ErrorCode::kOutOfRange, subject + " needs " + detail::counted(byte_count, "byte") +
                                              ", but the view has " + std::to_string(view.byte_count));
  }
  if (!impl().stream->device()->can_access(*view.buffer->device())) {
    impl().refuse(ErrorCode::kInvalidArgument,
                  subject + " is in memory of '" + view.buffer->device()->name() + "', which '" +
                      impl().stream->device()->name() + "' cannot access; copy it instead");
  }
  view.padding += view.byte_count - byte_count;
  view.byte_count = byte_count;
  return impl().add(name, {spec, std::move(view)});
}

void Context::set_constant(std::string_view name) const {
  (void)tensor(name);  // throws if it does not exist
  Impl* owner = &impl();
  while (!owner->tensors.contains(name)) {
    owner = owner->parent.get();
  }
  owner->constants.emplace(name);
}

void Context::from_host(std::string_view name, std::span<const std::byte> bytes) const {
  const ContextTensor& to = tensor(name);
  impl().check_byte_count("from_host", name, to.spec, bytes.size());
  impl().require_writable(name);
  detail::queue_from_host(impl().stream->state(), to.view, bytes.data(), name);
}

void Context::to_host(std::string_view name, std::span<std::byte> bytes) const {
  const ContextTensor& from = tensor(name);
  impl().check_byte_count("to_host", name, from.spec, bytes.size());
  detail::queue_to_host(impl().stream->state(), bytes.data(), from.view, name);
}

const ContextTensor& Context::init_from_host(std::string_view name, const TensorSpec& spec,
                                             std::span<const std::byte> bytes) {
  impl().check_spec(name, spec);
  impl().check_byte_count("init_from_host", name, spec, bytes.size());
  const ContextTensor& result = allocate(name, spec);
  from_host(name, bytes);
  return result;
}

const ContextTensor& Context::init_zeros(std::string_view name, const TensorSpec& spec) {
  const ContextTensor& result = allocate(name, spec);
  const std::byte zero{0};
  impl().stream->fill(result.view, &zero, 1);
  return result;
}

const ContextTensor& Context::init_from_device(std::string_view name, const Context& src) {
  const ContextTensor& from = src.tensor(name);
  const ContextTensor& result = allocate(name, from.spec);
  detail::queue_copy(impl().stream->state(), result.view, from.view, name);
  return result;
}

}  // namespace yoke
