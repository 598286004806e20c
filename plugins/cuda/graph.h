// SPDX-License-Identifier: Apache-2.0
// plugins/cuda/graph.h: graphs of operations for cuDNN's backend API.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "driver.h"

namespace yoke::cuda {

// Numbers of cudnn_graph.h. A test compares them with the header.
namespace graph {

enum Descriptor : int {
  kPointwise = 0,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristic = 4,
  kPlan = 5,
  kKnobChoice = 7,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kReshapeOperation = 31
};

enum Attribute : int {
  kPointwiseMode = 0,
  kPointwiseType = 1,
  kPointwiseAxis = 9,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kHeuristicDevice = 204,
  kConfigEngine = 300,
  kConfigKnobs = 302,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kKnobType = 600,
  kKnobValue = 601,
  kPointwiseDescriptor = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kPointwiseT = 758,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDims = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineIndex = 1301,
  kEngineNotes = 1303,
  kMatmulType = 1500,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kMatmulC = 1522,
  kMatmulDescriptor = 1523,
  kReductionOperator = 1600,
  kReductionType = 1601,
  kReductionX = 1610,
  kReductionY = 1611,
  kReductionDescriptor = 1612,
  kReshapeX = 2200,
  kReshapeY = 2201
};

enum AttributeType : int {
  kOfHandle = 0,
  kOfDataType = 1,
  kOfBoolean = 2,
  kOfInt64 = 3,
  kOfPointer = 6,
  kOfHeuristicMode = 8,
  kOfKnobType = 9,
  kOfNote = 11,
  kOfPointwiseMode = 14,
  kOfDescriptor = 15,
  kOfReduction = 18
};

enum DataType : int { kF32 = 0, kF16 = 2, kI32 = 4, kBF16 = 9, kBool = 11 };
enum Mode : int {
  kAdd = 0,
  kMultiply = 1,
  kDivide = 6,
  kSubtract = 9,
  kExp = 13,
  kLog = 15,
  kIsGreaterOrEqual = 303,
  kIndex = 501,
  kSelect = 601
};
enum Reduction : int { kSum = 0, kMaximum = 3 };
enum HeuristicMode : int { kFallback = 2, kBest = 3 };
// Properties of engines that this project does not use.
enum Note : int { kConvertsInputs = 1, kReducedSums = 2, kNondeterministic = 4, kNoteCount = 16 };

}  // namespace graph

// A descriptor of cuDNN. A function that failed is kept as the fault; later calls do nothing.
class Descriptor {
 public:
  Descriptor(const gpu::Dnn& dnn, graph::Descriptor type, gpu::DnnFault& fault);
  Descriptor(Descriptor&& other) noexcept
      : dnn_(other.dnn_), fault_(other.fault_), handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  void* get() const { return handle_; }
  void set(graph::Attribute attribute, graph::AttributeType type, std::int64_t count, const void* elements);
  template <class T>
  void set(graph::Attribute attribute, graph::AttributeType type, const T& element) {
    set(attribute, type, 1, &element);
  }
  void set(graph::Attribute attribute, const Descriptor& other) {
    void* const handle = other.get();
    set(attribute, graph::kOfDescriptor, 1, &handle);
  }
  void finalize();
  // Returns the number of elements that the descriptor has, of which up to `wanted` are copied.
  std::int64_t read(graph::Attribute attribute, graph::AttributeType type, std::int64_t wanted,
                    void* elements) const;

 private:
  const gpu::Dnn& dnn_;
  gpu::DnnFault* fault_;
  void* handle_ = nullptr;
};

using Dims = std::array<std::int64_t, 4>;

// A tensor of a graph.
struct GraphTensor {
  std::size_t number = 0;  // of its descriptor
  Dims dims = {};
  Dims strides = {};
};

// A graph of operations. Tensors and operations share the graph's fault.
class Graph {
 public:
  explicit Graph(const gpu::Dnn& dnn) : dnn_(dnn) {}

  // A tensor in memory. Its id is the number of tensors and numbers before it.
  GraphTensor tensor(graph::DataType type, const Dims& dims, const Dims& strides);
  // A number that is passed with each launch. Its id continues those of tensors.
  GraphTensor number(float value);
  // A tensor between two operations; dense unless it has strides.
  GraphTensor temporary(graph::DataType type, const Dims& dims);
  GraphTensor temporary(graph::DataType type, const Dims& dims, const Dims& strides);

  void multiply(const GraphTensor& a, const GraphTensor& b, const GraphTensor& result);  // matrices
  void reduce(graph::Reduction reduction, const GraphTensor& from, const GraphTensor& result);
  void reshape(const GraphTensor& from, const GraphTensor& result);
  // Returns the result, an f32 temporary with the dims of `x`.
  GraphTensor pointwise(graph::Mode mode, const GraphTensor& x);
  GraphTensor pointwise(graph::Mode mode, const GraphTensor& x, const GraphTensor& b);
  void pointwise(graph::Mode mode, const GraphTensor& x, const GraphTensor* b, const GraphTensor* t,
                 const GraphTensor& result, graph::DataType type = graph::kF32, std::int64_t axis = -1);

  // The descriptor of the graph. `handle` may be null.
  Descriptor finish(void* handle);
  const gpu::DnnFault& fault() const { return fault_; }
  const std::vector<std::pair<std::int64_t, float>>& numbers() const { return numbers_; }  // by id

 private:
  GraphTensor add_tensor(graph::DataType type, const Dims& dims, const Dims& strides, bool is_virtual,
                         bool is_by_value, std::int64_t id);
  const Descriptor& at(const GraphTensor& tensor) const { return tensors_[tensor.number]; }

  const gpu::Dnn& dnn_;
  gpu::DnnFault fault_;
  std::vector<Descriptor> tensors_;
  std::vector<Descriptor> parts_;  // that operations refer to
  std::vector<Descriptor> operations_;
  std::vector<std::pair<std::int64_t, float>> numbers_;
  std::int64_t next_id_ = 0;          // of what a launch passes
  std::int64_t next_virtual_ = 1000;  // of temporaries
};

}  // namespace yoke::cuda
