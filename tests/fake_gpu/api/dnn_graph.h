// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/dnn_graph.h: descriptors of cuDNN's graph API, and the numbers of its header.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dnn.h"

namespace fake_gpu {

#ifndef FAKE_GPU_HIP

enum GraphType : int {
  kPointwiseType = 0,
  kEngineType = 2,
  kConfigType = 3,
  kHeuristicType = 4,
  kPlanType = 5,
  kKnobType = 7,
  kPointwiseOpType = 13,
  kGraphType = 15,
  kPackType = 16,
  kTensorType = 17,
  kMatmulType = 18,
  kMatmulOpType = 19,
  kReductionType = 21,
  kReductionOpType = 22,
  kReshapeOpType = 31,
};

enum GraphMode : int {
  kAddMode = 0,
  kMulMode = 1,
  kDivMode = 6,
  kSubMode = 9,
  kExpMode = 13,
  kLogMode = 15,
  kGreaterEqualMode = 303,
  kGenIndexMode = 501,
  kSelectMode = 601,
};

// A descriptor: the elements of its attributes, or the descriptors that they refer to.
struct GraphObject {
  int device = -1;  // whose context was current when it was made
  int type = -1;
  bool is_final = false;
  std::map<int, std::vector<std::int64_t>> numbers;  // also pointers and handles
  std::map<int, std::vector<std::shared_ptr<GraphObject>>> objects;

  std::int64_t number(int attribute) const { return numbers.at(attribute).at(0); }
  const GraphObject& object(int attribute) const { return *objects.at(attribute).at(0); }
};

using GraphDims = std::array<std::int64_t, 4>;

struct GraphTensor {
  explicit GraphTensor(const GraphObject& object);
  std::int64_t count() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  std::int64_t offset(std::int64_t element) const;  // in memory, of an element in row-major order
  std::uint64_t byte_count() const;                 // from the first to the last element

  std::int64_t id = 0;
  int type = 0;  // of cuDNN
  bool is_virtual = false;
  bool is_by_value = false;
  GraphDims dims = {};
  GraphDims strides = {};
};

// The numbers of tensors' types in which elements are kept: kF32, kF16 or kBF16 of blas.h.
int element_type(int type);

// Runs the operations in order. `pointers` are device addresses by id, `values` the numbers that are passed.
void run_graph(const GraphObject& graph, const std::map<std::int64_t, Address>& pointers,
               const std::map<std::int64_t, float>& values);

Objects<GraphObject>& graph_objects();

bool may_set(const GraphObject& object, int attribute, int type, std::int64_t count);
// Complains and throws unless the descriptor is complete and its parts fit together.
void check_final(const char* name, const GraphObject& object);
// Tensors that a launch must pass, by id.
std::map<std::int64_t, GraphTensor> passed_tensors(const GraphObject& graph);
// The size of the workspace of a plan.
std::uint64_t workspace_of(const GraphObject& graph);
#endif

}  // namespace fake_gpu
