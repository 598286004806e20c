// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/distributed.h: reduces gradients of replicated parameters one by one, when they become
// final. For hand-written training; a Trainer (data_parallel.h) already does this.
//
// Invalid arguments are an Error kInvalidArgument unless stated otherwise.
#pragma once

#include <yoke/parameter.h>
#include <yoke/runtime/collective.h>
#include <yoke/train_helpers.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace yoke {

// Identifies a parameter on all members of a group.
class DistributedParamId {
 public:
  DistributedParamId() = default;
  explicit DistributedParamId(std::uint64_t value) : value_(value) {}
  // A hash of the name: the same in each process and run.
  static DistributedParamId of(const Parameter& parameter);
  // The inverse of text(). Error kInvalidArgument: it is not 16 hexadecimal digits.
  static DistributedParamId from_text(std::string_view text);
  std::string text() const;  // "00000000000000ff"
  std::uint64_t value() const { return value_; }
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 of <=> for a pointer
  friend auto operator<=>(const DistributedParamId&, const DistributedParamId&) = default;

 private:
  std::uint64_t value_ = 0;
};

// What a group knows about a parameter.
struct DistributedParams {
  DistributedParamId param_id;
};

// "mean", "sum"; "unknown" for another number.
const char* reduction_name(Reduction reduction);
// Error kInvalidArgument, which lists the names.
Reduction reduction_by_name(std::string_view name);

struct DistributedConfig {
  Reduction all_reduce_op = Reduction::kMean;
  MergeStrategy merge = MergeStrategy::kAuto;
};

// A group of members, each with a replica of the same parameters in its own context. Several groups may exist at
// once, with the same or different members. A group is usable once it is created, and starts no thread. It allocates
// and links when parameters are registered; the other functions only queue work. Not thread-safe.
//
// A step: for each member, queue its backward pass, then call submit_gradient_sync for each parameter that it used. A
// gradient is reduced once all members have submitted it. sync_collective() reduces gradients that only some members
// have submitted: those of the others count as zero, and a mean divides by the size of the group. Afterwards the
// gradients of all members are bit-identical.
class DistributedGroup {
 public:
  DistributedGroup(const DistributedConfig& config, std::vector<Context> members);
  ~DistributedGroup();
  DistributedGroup(const DistributedGroup&) = delete;
  DistributedGroup& operator=(const DistributedGroup&) = delete;
  DistributedGroup(DistributedGroup&&) = delete;
  DistributedGroup& operator=(DistributedGroup&&) = delete;

  std::uint32_t size() const;
  // The tensors "gradient/<name>" of these parameters will be reduced. Allocates them for members that lack them.
  // Error kAlreadyExists: a parameter, or another one with the same name, is already registered.
  void register_sync_parameters(std::span<const Parameter> parameters);
  bool is_registered(DistributedParamId id) const;
  // Empty: the parameter is not registered.
  std::optional<DistributedParams> distributed_params(const Parameter& parameter) const;
  // Precondition: the work queued on the member's stream computes the gradient. Errors: kOutOfRange: the group has no
  // such member; kNotFound: the parameter is not registered; kAlreadyExists: it was already submitted in this step.
  void submit_gradient_sync(std::uint32_t member, DistributedParamId id);
  // Ends the step for all members. Gradients that no member has submitted stay as they are.
  void sync_collective();
  // The member's gradient after the latest reduction. Error kFailedPrecondition: no step has reduced it.
  CollectiveTensor gradient(std::uint32_t member, DistributedParamId id) const;
  // Ends the group: later calls throw Error kFailedPrecondition. Queued reductions still run.
  void close();

 private:
  struct Impl;
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

// context_names() for a program of a GradUpdate, with the arguments "gradient_<i>" renamed to "gradient/<name>".
std::map<std::string, std::string> distributed_names(const GradUpdate& update, const Lowered& lowered);

}  // namespace yoke

namespace std {  // not struct std::hash, which Doxygen 1.9 cannot read
template <>
struct hash<yoke::DistributedParamId> {
  size_t operator()(yoke::DistributedParamId id) const noexcept { return hash<uint64_t>()(id.value()); }
};
}  // namespace std
