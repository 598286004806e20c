// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/distributed.cpp: gradients reduced over a group, one parameter at a time.
#include <yoke/distributed.h>
#include <yoke/ops.h>
#include <yoke/program/text.h>
#include <yoke/runtime/closest.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <utility>

#include "node.h"

namespace yoke {

using detail::fail;

DistributedParamId DistributedParamId::of(const Parameter& parameter) {
  const std::string digest = program::digest(parameter.name());
  return from_text(std::string_view(digest).substr(0, 16));
}

DistributedParamId DistributedParamId::from_text(std::string_view text) {
  std::uint64_t value = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 16 || failure != std::errc{} || stop != text.data() + text.size()) {
    fail("'" + std::string(text) + "' is not the text of a DistributedParamId, 16 hexadecimal digits");
  }
  return DistributedParamId(value);
}

std::string DistributedParamId::text() const {
  std::array<char, 17> text{};
  (void)std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value_));
  return text.data();
}

const char* reduction_name(Reduction reduction) {
  return reduction == Reduction::kMean ? "mean" : reduction == Reduction::kSum ? "sum" : "unknown";
}

Reduction reduction_by_name(std::string_view name) {
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
    if (name == reduction_name(reduction)) {
      return reduction;
    }
  }
  fail("unknown reduction '" + std::string(name) + "'; choose mean or sum" +
       did_you_mean(name, {"mean", "sum"}));
}

struct DistributedGroup::Impl {
  struct Gradient {
    std::string name;  // of the tensors
    LinkedCollective all_reduce;
    std::vector<LinkedRoutine> scale;  // per member, for a mean
    std::vector<bool> submitted;       // per member, in this step
    bool is_reduced = false;           // in this step
    // Per member, of the latest reduction; empty: none yet.
    std::vector<CollectiveTensor> reduced;
  };

  Gradient& gradient(DistributedParamId id, const char* call) {
    const auto found = gradients.find(id);
    if (found == gradients.end()) {
      throw Error(ErrorCode::kNotFound, std::string(call) + ": parameter " + id.text() +
                                            " is not registered; call register_sync_parameters first");
    }
    return found->second;
  }
  void check_member(std::uint32_t member, const char* call) const {
    if (member >= members.size()) {
      throw Error(ErrorCode::kOutOfRange, std::string(call) + ": member " + std::to_string(member) +
                                              " is out of range [0, " + std::to_string(members.size()) + ")");
    }
  }
  void link_mean(Gradient& gradient);
  void clear_missing(Gradient& gradient) const;
  void reduce(Gradient& gradient);

  DistributedConfig config;
  std::vector<Context> members;
  std::shared_ptr<CodeCache> codes = std::make_shared<CodeCache>();
  std::unique_ptr<Collectives> group;
  std::map<DistributedParamId, Gradient> gradients;
};

DistributedGroup::DistributedGroup(const DistributedConfig& config, std::vector<Context> members)
    : impl_(std::make_unique<Impl>()) {
  (void)reduction_by_name(
      reduction_name(config.all_reduce_op));  // throws for a number that is not an enumerator
  impl_->config = config;
  impl_->members = std::move(members);
  impl_->group = Collectives::create(config.merge, impl_->members, MergeUse::kStreaming, impl_->codes);
}

DistributedGroup::~DistributedGroup() = default;

DistributedGroup::Impl& DistributedGroup::impl() const {
  if (impl_ == nullptr) {
    throw Error(ErrorCode::kFailedPrecondition, "the DistributedGroup is closed; create another one");
  }
  return *impl_;
}

void DistributedGroup::close() {
  (void)impl();
  impl_.reset();
}

std::uint32_t DistributedGroup::size() const {
  return static_cast<std::uint32_t>(impl().members.size());
}

bool DistributedGroup::is_registered(DistributedParamId id) const {
  return impl().gradients.contains(id);
}

std::optional<DistributedParams> DistributedGroup::distributed_params(const Parameter& parameter) const {
  const DistributedParamId id = DistributedParamId::of(parameter);
  return is_registered(id) ? std::optional(DistributedParams{id}) : std::nullopt;
}

// Every member scales its own copy of the sum, so the copies stay equal.
void DistributedGroup::Impl::link_mean(Gradient& gradient) {
  const TensorSpec spec = members[0].tensor(gradient.name).spec;
  const Tensor total = placeholder("total", static_cast<Type>(spec.type), spec.dims);
  const Lowered lowered = lower("scale", {}, {{total, total * (1.0 / static_cast<double>(members.size()))}});
  for (Context& member : members) {
    const auto code = codes->get(member.stream()->device(), program::print(lowered.program));
    gradient.scale.push_back(member.link(code, "scale", {{"total", gradient.name}}));
  }
}

void DistributedGroup::register_sync_parameters(std::span<const Parameter> parameters) {
  (void)impl();  // throws if the group is closed
  for (const Parameter& parameter : parameters) {
    const DistributedParamId id = DistributedParamId::of(parameter);
    if (is_registered(id)) {
      throw Error(ErrorCode::kAlreadyExists,
                  "register_sync_parameters: '" + parameter.name() +
                      "' is registered, or has the same name as another parameter; rename one of them");
    }
    Impl::Gradient gradient{"gradient/" + parameter.name(), {}, {}, {}, false, {}};
    for (Context& member : impl().members) {
      if (!member.has(gradient.name)) {
        member.init_zeros(gradient.name, {static_cast<std::int32_t>(parameter.type()), parameter.dims()});
      }
    }
    gradient.all_reduce = impl().group->all_reduce(gradient.name);
    if (impl().config.all_reduce_op == Reduction::kMean && size() > 1) {
      impl().link_mean(gradient);
    }
    gradient.submitted.assign(size(), false);
    impl().gradients.emplace(id, std::move(gradient));
  }
}

// Members that have not submitted the gradient did not use the parameter.
void DistributedGroup::Impl::clear_missing(Gradient& gradient) const {
  const std::byte zero{0};
  for (std::size_t k = 0; k < members.size(); ++k) {
    if (!gradient.submitted[k]) {
      members[k].stream()->fill(members[k].tensor(gradient.name).view, &zero, 1);
    }
  }
}

void DistributedGroup::Impl::reduce(Gradient& gradient) {
  gradient.all_reduce.run();
  gradient.reduced.clear();
  for (std::size_t k = 0; k < members.size(); ++k) {
    if (!gradient.scale.empty()) {
      gradient.scale[k].run();
    }
    gradient.reduced.emplace_back(members[k], gradient.name);
  }
  gradient.is_reduced = true;
}

void DistributedGroup::submit_gradient_sync(std::uint32_t member, DistributedParamId id) {
  impl().check_member(member, "submit_gradient_sync");
  Impl::Gradient& gradient = impl().gradient(id, "submit_gradient_sync");
  if (gradient.submitted[member]) {
    throw Error(ErrorCode::kAlreadyExists, "submit_gradient_sync: member " + std::to_string(member) +
                                               " has submitted '" + gradient.name +
                                               "' before; call sync_collective() at the end of each step");
  }
  gradient.submitted[member] = true;
  if (std::find(gradient.submitted.begin(), gradient.submitted.end(), false) == gradient.submitted.end()) {
    impl().reduce(gradient);
  }
}

void DistributedGroup::sync_collective() {
  for (auto& [id, gradient] : impl().gradients) {
    const bool is_used =
        std::find(gradient.submitted.begin(), gradient.submitted.end(), true) != gradient.submitted.end();
    if (is_used && !gradient.is_reduced) {
      impl().clear_missing(gradient);
      impl().reduce(gradient);
    }
    gradient.submitted.assign(impl().members.size(), false);
    gradient.is_reduced = false;
  }
}

CollectiveTensor DistributedGroup::gradient(std::uint32_t member, DistributedParamId id) const {
  impl().check_member(member, "gradient");
  const Impl::Gradient& gradient = impl().gradient(id, "gradient");
  if (gradient.reduced.empty()) {
    throw Error(ErrorCode::kFailedPrecondition,
                "gradient: '" + gradient.name + "' has not been reduced yet; call sync_collective() first");
  }
  return gradient.reduced[member];
}

std::map<std::string, std::string> distributed_names(const GradUpdate& update, const Lowered& lowered) {
  std::map<std::string, std::string> names = context_names(lowered);
  for (std::size_t i = 0; i < update.params.size(); ++i) {
    if (const auto found = names.find("gradient_" + std::to_string(i)); found != names.end()) {
      found->second = "gradient/" + update.params[i].name();
    }
  }
  return names;
}

}  // namespace yoke
