// SPDX-License-Identifier: Apache-2.0
// plugins/cuda/attention.cpp: describes attention to cuDNN and picks a plan.
#include "attention.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph.h"
#include "vendor.h"

namespace yoke::cuda {

using codegen::AttentionKind;
using codegen::LibraryAttention;
using codegen::Volume;

namespace {

constexpr std::uint64_t kWorkspaceAlignment = 256;

Dims dims_of(const std::array<std::uint64_t, 4>& numbers) {
  Dims dims = {};
  std::copy(numbers.begin(), numbers.end(), dims.begin());
  return dims;
}

Dims swapped(Dims dims) {
  std::swap(dims[2], dims[3]);
  return dims;
}

std::uint64_t row_byte_count(const LibraryAttention& attention) {
  const auto& [batch, heads, queries, size] = attention.volumes[0].dims;
  return batch * heads * queries * sizeof(float);
}

// Builds the graphs in which cuDNN recognizes attention: those of NVIDIA's cudnn-frontend. The ids are those of the
// volumes, the statistics if there are any, and the row sums of kBackward, in this order; then those of numbers.
class Builder {
 public:
  Builder(Graph& graph, const LibraryAttention& attention);
  void forward();
  void backward();

 private:
  GraphTensor rows_in_memory() {
    return graph_.tensor(graph::kF32, rows_, {rows_[1] * rows_[2], rows_[2], 1, 1});
  }
  GraphTensor reduced(const GraphTensor& from, graph::Reduction reduction) {
    const GraphTensor result = graph_.temporary(graph::kF32, rows_);
    graph_.reduce(reduction, from, result);
    return result;
  }
  GraphTensor scores_of(const GraphTensor& a, const GraphTensor& b) {
    const GraphTensor result = graph_.temporary(graph::kF32, scores_);
    graph_.multiply(a, b, result);
    return result;
  }
  // A factor with the last two dimensions swapped, in 16 bits.
  GraphTensor transposed(const GraphTensor& from) {
    const GraphTensor result = graph_.temporary(type_, swapped(from.dims), swapped(from.strides));
    graph_.reshape(from, result);
    return result;
  }
  GraphTensor masked(const GraphTensor& scores);

  Graph& graph_;
  graph::DataType type_;
  const LibraryAttention& attention_;
  std::vector<GraphTensor> volumes_;
  GraphTensor statistics_;
  Dims scores_ = {};
  Dims rows_ = {};
};

Builder::Builder(Graph& graph, const LibraryAttention& attention)
    : graph_(graph),
      type_(attention.type == program::Type::kF16 ? graph::kF16 : graph::kBF16),
      attention_(attention) {
  const bool is_gradient = attention.kind == AttentionKind::kBackward;
  for (std::size_t i = 0; i < attention.volume_count(); ++i) {
    const Dims dims = dims_of(attention.volumes[i].dims);
    const Dims strides = dims_of(attention.volumes[i].strides);
    const bool is_second_factor = i == 1 || (i == 2 && is_gradient);  // of a product over the size
    volumes_.push_back(is_second_factor ? graph.tensor(type_, swapped(dims), swapped(strides))
                                        : graph.tensor(type_, dims, strides));
  }
  const Dims& queries = volumes_[0].dims;
  scores_ = {queries[0], queries[1], queries[2], volumes_[1].dims[3]};
  rows_ = {queries[0], queries[1], queries[2], 1};
  if (attention.has_statistics) {
    statistics_ = rows_in_memory();
  }
}

GraphTensor Builder::masked(const GraphTensor& scores) {
  if (!attention_.is_causal) {
    return scores;
  }
  const GraphTensor query = graph_.temporary(graph::kI32, scores_);
  const GraphTensor key = graph_.temporary(graph::kI32, scores_);
  const GraphTensor is_seen = graph_.temporary(graph::kBool, scores_);
  const GraphTensor result = graph_.temporary(graph::kF32, scores_);
  const GraphTensor hidden = graph_.number(-std::numeric_limits<float>::infinity());
  graph_.pointwise(graph::kIndex, scores, nullptr, nullptr, query, graph::kF32, 2);
  graph_.pointwise(graph::kIndex, scores, nullptr, nullptr, key, graph::kF32, 3);
  graph_.pointwise(graph::kIsGreaterOrEqual, query, &key, nullptr, is_seen, graph::kBool);
  graph_.pointwise(graph::kSelect, scores, &hidden, &is_seen, result);
  return result;
}

void Builder::forward() {
  const GraphTensor scale = graph_.number(attention_.scale);
  const GraphTensor scores =
      masked(graph_.pointwise(graph::kMultiply, scores_of(volumes_[0], volumes_[1]), scale));
  const GraphTensor top = reduced(scores, graph::kMaximum);
  const GraphTensor exp = graph_.pointwise(graph::kExp, graph_.pointwise(graph::kSubtract, scores, top));
  const GraphTensor total = reduced(exp, graph::kSum);
  const GraphTensor log = graph_.pointwise(graph::kLog, total);
  graph_.pointwise(graph::kAdd, top, &log, nullptr,
                   attention_.has_statistics ? statistics_ : graph_.temporary(graph::kF32, rows_));
  const GraphTensor weights = graph_.temporary(type_, scores_);
  graph_.pointwise(graph::kDivide, exp, &total, nullptr, weights);
  graph_.multiply(weights, volumes_[2], volumes_[3]);
}

// cuDNN adds parts of the query's gradient in any order if the graph keeps an f32 sum of them in memory. In this graph
// it is a product with the gradients of the scores, which cuDNN then keeps in its workspace.
void Builder::backward() {
  const GraphTensor& query = volumes_[0];
  const GraphTensor& key = volumes_[1];
  const GraphTensor& result_gradient = volumes_[4];
  const GraphTensor row_sums = rows_in_memory();
  const GraphTensor one = graph_.number(1);
  const GraphTensor scale = graph_.number(attention_.scale);
  const GraphTensor sum =
      reduced(graph_.pointwise(graph::kMultiply, result_gradient, volumes_[3]), graph::kSum);
  graph_.pointwise(graph::kMultiply, sum, &one, nullptr, row_sums);

  const GraphTensor scores = graph_.pointwise(graph::kMultiply, scores_of(query, key), scale);
  const GraphTensor weights =
      graph_.pointwise(graph::kExp, masked(graph_.pointwise(graph::kSubtract, scores, statistics_)));
  graph_.multiply(transposed(weights), result_gradient, volumes_[7]);

  const GraphTensor difference =
      graph_.pointwise(graph::kSubtract, scores_of(result_gradient, volumes_[2]), row_sums);
  const GraphTensor gradient =
      graph_.pointwise(graph::kMultiply, graph_.pointwise(graph::kMultiply, difference, weights), scale);
  graph_.multiply(transposed(gradient), query, volumes_[6]);
  graph_.multiply(gradient, transposed(key), volumes_[5]);
}

Descriptor engine_of(const gpu::Dnn& dnn, const Descriptor& config, gpu::DnnFault& fault) {
  Descriptor engine(dnn, graph::kEngine, fault);
  void* handle = engine.get();
  (void)config.read(graph::kConfigEngine, graph::kOfDescriptor, 1, &handle);
  return engine;
}

// A plan with its graph, which it may refer to.
class Plan final : public gpu::AttentionPlan {
 public:
  Plan(const gpu::Dnn& dnn, const LibraryAttention& attention)
      : dnn_(dnn),
        row_byte_count_(attention.kind == AttentionKind::kBackward ? row_byte_count(attention) : 0),
        graph_(dnn) {
    Builder builder(graph_, attention);
    attention.kind == AttentionKind::kForward ? builder.forward() : builder.backward();
  }
  // Returns whether an engine fits.
  bool choose(const PlanTarget& target, gpu::DnnFault& fault);
  std::unique_ptr<gpu::BoundAttention> bind(std::span<const gpu::Address> data, gpu::Address workspace,
                                            gpu::DnnFault& fault) const override;

 private:
  bool choose(const PlanTarget& target, graph::HeuristicMode mode, gpu::DnnFault& fault);
  bool is_usable(const Descriptor& config, gpu::DnnFault& fault) const;
  std::string identity_of(const Descriptor& config, gpu::DnnFault& fault) const;
  bool finalize(Descriptor config, const PlanTarget& target, gpu::DnnFault& fault);

  const gpu::Dnn& dnn_;
  std::uint64_t row_byte_count_;
  Graph graph_;
  gpu::DnnFault kept_fault_;  // of the descriptors that are kept
  std::optional<Descriptor> operations_;
  std::optional<Descriptor> config_;
  std::optional<Descriptor> plan_;
};

class Bound final : public gpu::BoundAttention {
 public:
  Bound(const gpu::Dnn& dnn, const Descriptor& plan, const Graph& graph, std::span<const gpu::Address> data,
        gpu::Address workspace)
      : dnn_(dnn), plan_(plan), pack_(dnn, graph::kVariantPack, fault_) {
    std::vector<std::int64_t> ids;
    std::vector<void*> pointers;
    const auto pointer = [](gpu::Address address) {
      return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): of the device
    };
    for (const gpu::Address address : data) {
      ids.push_back(static_cast<std::int64_t>(ids.size()));
      pointers.push_back(pointer(address));
    }
    for (const auto& [id, value] : graph.numbers()) {
      numbers_.push_back(value);
      ids.push_back(id);
    }
    for (float& number : numbers_) {
      pointers.push_back(&number);
    }
    const auto count = static_cast<std::int64_t>(ids.size());
    void* const scratch = pointer(workspace);
    pack_.set(graph::kPackIds, graph::kOfInt64, count, ids.data());
    pack_.set(graph::kPackPointers, graph::kOfPointer, count, pointers.data());
    pack_.set(graph::kPackWorkspace, graph::kOfPointer, scratch);
    pack_.finalize();
  }
  const gpu::DnnFault& fault() const { return fault_; }
  gpu::DnnFault launch(void* handle) const override {
    return {dnn_.graph_execute.name, dnn_.graph_execute(handle, plan_.get(), pack_.get())};
  }

 private:
  const gpu::Dnn& dnn_;
  const Descriptor& plan_;
  std::vector<float> numbers_;
  gpu::DnnFault fault_;
  Descriptor pack_;
};

std::unique_ptr<gpu::BoundAttention> Plan::bind(std::span<const gpu::Address> data, gpu::Address workspace,
                                                gpu::DnnFault& fault) const {
  std::vector<gpu::Address> addresses(data.begin(), data.end());
  if (row_byte_count_ != 0) {
    addresses.push_back(workspace + workspace_byte_count - row_byte_count_);
  }
  auto bound = std::make_unique<Bound>(dnn_, *plan_, graph_, addresses, workspace);
  fault = bound->fault();
  return bound;
}

// Its results are the same in each run, with sums in f32.
bool Plan::is_usable(const Descriptor& config, gpu::DnnFault& fault) const {
  const Descriptor engine = engine_of(dnn_, config, fault);
  std::array<int, graph::kNoteCount> notes = {};
  const std::int64_t count =
      engine.read(graph::kEngineNotes, graph::kOfNote, graph::kNoteCount, notes.data());
  return std::none_of(notes.begin(), notes.begin() + std::min<std::int64_t>(count, graph::kNoteCount),
                      [](int note) {
                        return note == graph::kConvertsInputs || note == graph::kReducedSums ||
                               note == graph::kNondeterministic;
                      });
}

// The number of the engine, and its settings.
std::string Plan::identity_of(const Descriptor& config, gpu::DnnFault& fault) const {
  std::int64_t index = 0;
  (void)engine_of(dnn_, config, fault).read(graph::kEngineIndex, graph::kOfInt64, 1, &index);
  std::string text = " engine " + std::to_string(index);
  std::vector<Descriptor> knobs;
  std::vector<void*> handles;
  for (std::int64_t i = config.read(graph::kConfigKnobs, graph::kOfDescriptor, 0, nullptr); i > 0; --i) {
    handles.push_back(knobs.emplace_back(dnn_, graph::kKnobChoice, fault).get());
  }
  if (!knobs.empty()) {
    (void)config.read(graph::kConfigKnobs, graph::kOfDescriptor, static_cast<std::int64_t>(knobs.size()),
                      handles.data());
  }
  for (const Descriptor& knob : knobs) {
    int type = 0;
    std::int64_t value = 0;
    (void)knob.read(graph::kKnobType, graph::kOfKnobType, 1, &type);
    (void)knob.read(graph::kKnobValue, graph::kOfInt64, 1, &value);
    text += " " + std::to_string(type) + "=" + std::to_string(value);
  }
  return text;
}

bool Plan::finalize(Descriptor config, const PlanTarget& target, gpu::DnnFault& fault) {
  Descriptor plan(dnn_, graph::kPlan, fault);
  plan.set(graph::kPlanConfig, config);
  if (target.handle != nullptr) {
    plan.set(graph::kPlanHandle, graph::kOfHandle, target.handle);
  }
  plan.finalize();
  std::int64_t bytes = 0;
  (void)plan.read(graph::kPlanWorkspace, graph::kOfInt64, 1, &bytes);
  const std::uint64_t aligned = (static_cast<std::uint64_t>(bytes) + kWorkspaceAlignment - 1) /
                                kWorkspaceAlignment * kWorkspaceAlignment;
  workspace_byte_count = aligned + row_byte_count_;
  identity = identity_of(config, fault);
  if (fault.code != 0 || bytes < 0 || workspace_byte_count > gpu::kLargestDnnWorkspace) {
    return false;
  }
  config_.emplace(std::move(config));
  plan_.emplace(std::move(plan));
  return true;
}

// The fault to report if no engine fits. Failures are worse than refusals.
gpu::DnnFault worse(const gpu::DnnFault& before, const gpu::DnnFault& now) {
  return now.code == 0 || (before.code != 0 && !is_refusal(before.code) && is_refusal(now.code)) ? before
                                                                                                 : now;
}

bool Plan::choose(const PlanTarget& target, graph::HeuristicMode mode, gpu::DnnFault& fault) {
  Descriptor heuristic(dnn_, graph::kHeuristic, fault);
  heuristic.set(graph::kHeuristicGraph, *operations_);
  heuristic.set(graph::kHeuristicMode, graph::kOfHeuristicMode, mode);
  if (target.properties != nullptr) {
    heuristic.set(graph::kHeuristicDevice, graph::kOfDescriptor, target.properties);
  }
  heuristic.finalize();
  std::vector<Descriptor> configs;
  std::vector<void*> handles;
  for (std::int64_t i = heuristic.read(graph::kHeuristicResults, graph::kOfDescriptor, 0, nullptr); i > 0;
       --i) {
    handles.push_back(configs.emplace_back(dnn_, graph::kEngineConfig, fault).get());
  }
  std::int64_t count = 0;
  if (!configs.empty()) {
    count = heuristic.read(graph::kHeuristicResults, graph::kOfDescriptor,
                           static_cast<std::int64_t>(configs.size()), handles.data());
  }
  gpu::DnnFault last;
  for (std::size_t i = 0; i < std::min<std::size_t>(configs.size(), static_cast<std::size_t>(count)); ++i) {
    if (fault.code == 0 && is_usable(configs[i], fault) && finalize(std::move(configs[i]), target, fault)) {
      return true;
    }
    last = worse(last, fault);
    fault = {};
  }
  fault = worse(last, fault);
  return false;
}

bool Plan::choose(const PlanTarget& target, gpu::DnnFault& fault) {
  operations_.emplace(graph_.finish(target.handle));
  if (graph_.fault().code != 0) {
    fault = graph_.fault();
    return false;
  }
  for (const graph::HeuristicMode mode : {graph::kBest, graph::kFallback}) {
    kept_fault_ = {};
    if (choose(target, mode, kept_fault_)) {
      return true;
    }
    fault = worse(fault, kept_fault_);
  }
  return false;
}

bool is_supported(std::uint32_t capability, const LibraryAttention& attention) {
  constexpr std::uint64_t kLargestHead = 128;
  constexpr std::uint64_t kHeadUnit = 8;
  constexpr std::uint32_t kOldest = 80;
  // Up to this capability, every engine sums in a fixed order. Newer devices have engines that sum the gradients in an
  // order that varies, and cuDNN does not report which.
  constexpr std::uint32_t kNewestForGradients = 99;
  const auto fits = [](const Volume& volume) {
    return volume.dims[3] <= kLargestHead && volume.dims[3] % kHeadUnit == 0;
  };
  return capability >= kOldest &&
         (attention.kind == AttentionKind::kForward || capability <= kNewestForGradients) &&
         std::all_of(attention.volumes.begin(),
                     attention.volumes.begin() + static_cast<std::ptrdiff_t>(attention.volume_count()), fits);
}

}  // namespace

std::unique_ptr<gpu::AttentionPlan> plan_attention(const gpu::Dnn& dnn, const PlanTarget& target,
                                                   std::uint32_t capability,
                                                   const LibraryAttention& attention, gpu::DnnFault& fault) {
  if (!is_supported(capability, attention)) {
    return nullptr;
  }
  auto plan = std::make_unique<Plan>(dnn, attention);
  return plan->choose(target, fault) ? std::move(plan) : nullptr;
}

}  // namespace yoke::cuda
