// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/attentions.cpp: asks the vendor's library for plans of attention, and launches them.
#include "attentions.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "context.h"

namespace yoke::gpu {

using codegen::LibraryAttention;

namespace {

std::string text_of(const LibraryAttention& attention) {
  std::string text = attention.kind == codegen::AttentionKind::kForward ? "forward " : "backward ";
  text += program::type_name(attention.type);
  const auto add = [&](const auto& numbers) {
    for (const std::uint64_t number : numbers) {
      text += "," + std::to_string(number);
    }
  };
  for (std::size_t i = 0; i < attention.volume_count(); ++i) {
    add(attention.volumes[i].dims);
    text += "/";
    add(attention.volumes[i].strides);
  }
  char digits[32];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), attention.scale).ptr;
  text.append(" scale ").append(std::begin(digits), end);
  return text + (attention.is_causal ? " causal" : "") + (attention.has_statistics ? " statistics" : "");
}

// Destroying a plan may unload code.
template <class T>
struct DestroyInContext {
  Context* context;
  void operator()(T* object) const noexcept {
    const Current current = context->try_enter();
    delete object;
  }
};
template <class T>
using InContext = std::unique_ptr<T, DestroyInContext<T>>;
template <class T>
InContext<T> in_context(std::unique_ptr<T> object, Context& context) {
  return {object.release(), {&context}};
}

// Attention with its plan.
class PlannedAttention final : public PlannedCall {
 public:
  PlannedAttention(Attentions& owner, std::unique_ptr<AttentionPlan> plan)
      : PlannedCall(owner), attentions(owner), plan_(in_context(std::move(plan), owner.context())) {
    workspace_byte_count = plan_->workspace_byte_count;
    identity = plan_->identity;
  }
  std::unique_ptr<LinkedCall> link(const codegen::Launch& launch, std::span<const Address> addresses,
                                   void* handle) const override;

  const Attentions& attentions;

 private:
  InContext<AttentionPlan> plan_;
};

// Attention that is bound to memory.
class LinkedAttention final : public LinkedCall {
 public:
  LinkedAttention(const Attentions& attentions, std::unique_ptr<BoundAttention> bound, void* handle)
      : attentions_(attentions),
        bound_(in_context(std::move(bound), attentions.context())),
        handle_(handle) {}
  void launch(void* stream) const override {
    const auto& set_stream = attentions_.dnn().set_stream;
    attentions_.check_launch(set_stream.name, set_stream(handle_, stream));
    const DnnFault fault = bound_->launch(handle_);
    attentions_.check_launch(fault.name, fault.code);
  }

 private:
  const Attentions& attentions_;
  InContext<BoundAttention> bound_;
  void* handle_;
};

std::unique_ptr<LinkedCall> PlannedAttention::link(const codegen::Launch& launch,
                                                   std::span<const Address> addresses, void* handle) const {
  const LibraryAttention& attention = *launch.attention;
  std::vector<Address> data;
  for (std::size_t i = 0; i < attention.volume_count(); ++i) {
    data.push_back(addresses[i] + attention.volumes[i].offset * program::byte_size(attention.type));
  }
  if (attention.has_statistics) {
    data.push_back(addresses[attention.volume_count()]);
  }
  const Current current = library.context().enter();
  DnnFault fault;
  auto bound = plan_->bind(data, workspace_byte_count != 0 ? addresses.back() : Address{0}, fault);
  library.check(fault.name, fault.code);
  return std::make_unique<LinkedAttention>(attentions, std::move(bound), handle);
}

LibraryFacts facts_of(const Vendor& vendor) {
  LibraryFacts facts = vendor.facts().dnn.library;
  facts.oldest = std::max(facts.oldest, vendor.facts().dnn.oldest_for_attention);
  return facts;
}

}  // namespace

Attentions::Attentions(Context& context)
    : DnnLibrary(context, facts_of(context.vendor()), "attention", "vendor_attention") {}

DeviceLibrary::Planned Attentions::plan(const LibraryAttention& attention) {
  const auto make = [&]() -> std::shared_ptr<PlannedCall> {
    const Current current = context().enter();
    const Handle handle = take_handle();
    DnnFault fault;
    auto plan = vendor().plan_attention(dnn(), handle.get(), context().hardware().target, attention, fault);
    if (plan == nullptr && fault.code != 0 && !vendor().is_unsupported(fault.code)) {
      check(fault.name, fault.code);
    }
    return plan != nullptr ? std::make_shared<PlannedAttention>(*this, std::move(plan)) : nullptr;
  };
  // Searching all engines takes seconds, and each layer asks.
  return DeviceLibrary::plan(text_of(attention), make, true);
}

std::optional<std::uint64_t> AttentionChooser::workspace_for(const LibraryAttention& call) {
  const auto planned = attentions_.plan(call);
  return planned != nullptr ? std::optional(planned->workspace_byte_count) : std::nullopt;
}

}  // namespace yoke::gpu
