// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/dnn_graph_check.cpp: which descriptors of cuDNN's graph API are complete and fit together.
#include <algorithm>
#include <set>
#include <utility>

#include "blas.h"
#include "dnn_graph.h"

#ifndef FAKE_GPU_HIP
namespace fake_gpu {
namespace {

constexpr std::uint64_t kWorkspaceUnit = 256;

// An attribute that plugins set.
struct Rule {
  int type;
  int attribute;
  int element;  // the type of its elements
  std::int64_t least;
  std::int64_t most;
  bool is_optional = false;
};
constexpr std::int64_t kAny = 1'000'000;
constexpr Rule kRules[] = {{kTensorType, 900, 3, 1, 1},
                           {kTensorType, 901, 1, 1, 1},
                           {kTensorType, 902, 3, 4, 4},
                           {kTensorType, 903, 3, 4, 4},
                           {kTensorType, 906, 3, 1, 1},
                           {kTensorType, 907, 2, 1, 1},
                           {kTensorType, 908, 2, 1, 1},
                           {kMatmulType, 1500, 1, 1, 1},
                           {kMatmulOpType, 1520, 15, 1, 1},
                           {kMatmulOpType, 1521, 15, 1, 1},
                           {kMatmulOpType, 1522, 15, 1, 1},
                           {kMatmulOpType, 1523, 15, 1, 1},
                           {kReductionType, 1600, 18, 1, 1},
                           {kReductionType, 1601, 1, 1, 1},
                           {kReductionOpType, 1610, 15, 1, 1},
                           {kReductionOpType, 1611, 15, 1, 1},
                           {kReductionOpType, 1612, 15, 1, 1},
                           {kReshapeOpType, 2200, 15, 1, 1},
                           {kReshapeOpType, 2201, 15, 1, 1},
                           {kPointwiseType, 0, 14, 1, 1},
                           {kPointwiseType, 1, 1, 1, 1},
                           {kPointwiseType, 9, 3, 1, 1, true},
                           {kPointwiseOpType, 750, 15, 1, 1},
                           {kPointwiseOpType, 751, 15, 1, 1},
                           {kPointwiseOpType, 752, 15, 1, 1, true},
                           {kPointwiseOpType, 753, 15, 1, 1},
                           {kPointwiseOpType, 758, 15, 1, 1, true},
                           {kGraphType, 800, 0, 1, 1},
                           {kGraphType, 801, 15, 1, kAny},
                           {kHeuristicType, 200, 8, 1, 1},
                           {kHeuristicType, 201, 15, 1, 1},
                           {kPlanType, 400, 0, 1, 1},
                           {kPlanType, 401, 15, 1, 1},
                           {kPackType, 1000, 3, 1, kAny},
                           {kPackType, 1001, 6, 1, kAny},
                           {kPackType, 1003, 6, 1, 1}};

void check_tensor(const char* name, const GraphObject& object) {
  const GraphTensor tensor(object);
  const std::set<int> known = {0, 2, 4, 9, 11};
  const bool fits =
      std::all_of(tensor.dims.begin(), tensor.dims.end(), [](auto dim) { return dim > 0; }) &&
      std::all_of(tensor.strides.begin(), tensor.strides.end(), [](auto step) { return step > 0; });
  if (!fits || !known.contains(tensor.type) || (tensor.is_virtual && tensor.is_by_value)) {
    refuse_dnn(name, "a tensor has no such dimensions, type or place");
  }
  if (object.number(900) != (tensor.is_by_value ? 4 : 16)) {
    refuse_dnn(name, "this alignment is not modeled");
  }
}

// Dimensions of one element repeat.
bool spreads_to(const GraphDims& from, const GraphDims& to) {
  bool spreads = true;
  for (std::size_t i = 0; i < 4; ++i) {
    spreads = spreads && (from[i] == to[i] || from[i] == 1);
  }
  return spreads;
}

void check_pointwise(const char* name, const GraphObject& operation) {
  const auto mode = static_cast<int>(operation.object(750).number(0));
  const bool has_b = operation.objects.contains(752);
  const bool has_t = operation.objects.contains(758);
  const std::map<int, std::pair<bool, bool>> modes = {
      {kAddMode, {true, false}},       {kMulMode, {true, false}},          {kDivMode, {true, false}},
      {kSubMode, {true, false}},       {kExpMode, {false, false}},         {kLogMode, {false, false}},
      {kGenIndexMode, {false, false}}, {kGreaterEqualMode, {true, false}}, {kSelectMode, {true, true}}};
  const auto known = modes.find(mode);
  if (known == modes.end() || known->second != std::pair(has_b, has_t) ||
      (mode == kGenIndexMode) != operation.object(750).numbers.contains(9)) {
    refuse_dnn(name, "pointwise mode " + std::to_string(mode) + " is not modeled, or has other operands");
  }
  const GraphTensor y(operation.object(753));
  for (const int attribute : {751, 752, 758}) {
    if (operation.objects.contains(attribute) &&
        !spreads_to(GraphTensor(operation.object(attribute)).dims, y.dims)) {
      refuse_dnn(name, "an operand has other dimensions than the result");
    }
  }
  if (has_t && GraphTensor(operation.object(758)).type != 11) {
    refuse_dnn(name, "what selects is not bool");
  }
}

void check_operation(const char* name, const GraphObject& operation) {
  if (operation.type == kPointwiseOpType) {
    check_pointwise(name, operation);
  } else if (operation.type == kMatmulOpType) {
    const GraphDims a = GraphTensor(operation.object(1520)).dims;
    const GraphDims b = GraphTensor(operation.object(1521)).dims;
    if (GraphTensor(operation.object(1522)).dims != GraphDims{a[0], a[1], a[2], b[3]} || a[3] != b[2] ||
        a[0] != b[0] || a[1] != b[1]) {
      refuse_dnn(name, "the matrices do not fit together");
    }
  } else if (operation.type == kReductionOpType) {
    if (!spreads_to(GraphTensor(operation.object(1611)).dims, GraphTensor(operation.object(1610)).dims)) {
      refuse_dnn(name, "the result has other dimensions than the operand");
    }
  } else if (GraphTensor(operation.object(2200)).count() != GraphTensor(operation.object(2201)).count()) {
    refuse_dnn(name, "the result has another number of elements than the operand");
  }
}

// The attributes of an operation's operands and of its result.
std::pair<std::vector<int>, int> operands_of(int type) {
  return type == kMatmulOpType      ? std::pair(std::vector{1520, 1521}, 1522)
         : type == kReductionOpType ? std::pair(std::vector{1610}, 1611)
         : type == kReshapeOpType   ? std::pair(std::vector{2200}, 2201)
                                    : std::pair(std::vector{751, 752, 758}, 753);
}

void check_graph(const char* name, const GraphObject& graph) {
  std::map<std::int64_t, const GraphObject*> by_id;
  std::set<std::int64_t> computed;
  for (const auto& operation : graph.objects.at(801)) {
    const auto [operands, result] = operands_of(operation->type);
    for (const int attribute : operands) {
      if (!operation->objects.contains(attribute)) {
        continue;
      }
      const GraphObject& object = operation->object(attribute);
      const GraphTensor tensor(object);
      if (by_id.emplace(tensor.id, &object).first->second != &object) {
        refuse_dnn(name, "two tensors have the id " + std::to_string(tensor.id));
      }
      if (tensor.is_virtual && !computed.contains(tensor.id)) {
        refuse_dnn(name, "an operation uses a tensor that none before it computes");
      }
    }
    const GraphObject& object = operation->object(result);
    const GraphTensor tensor(object);
    if (by_id.emplace(tensor.id, &object).first->second != &object || !computed.insert(tensor.id).second ||
        tensor.is_by_value) {
      refuse_dnn(name, "an operation computes a tensor that has a value");
    }
  }
}

}  // namespace

bool may_set(const GraphObject& object, int attribute, int type, std::int64_t count) {
  return std::any_of(std::begin(kRules), std::end(kRules), [&](const Rule& rule) {
    return rule.type == object.type && rule.attribute == attribute && rule.element == type &&
           count >= rule.least && count <= rule.most;
  });
}

// Tensors that a launch must pass, by id.
std::map<std::int64_t, GraphTensor> passed_tensors(const GraphObject& graph) {
  std::map<std::int64_t, GraphTensor> passed;
  for (const auto& operation : graph.objects.at(801)) {
    for (const auto& [attribute, objects] : operation->objects) {
      if (objects[0]->type == kTensorType) {
        const GraphTensor tensor(*objects[0]);
        if (!tensor.is_virtual) {
          passed.emplace(tensor.id, tensor);
        }
      }
    }
  }
  return passed;
}

// The scores' gradients in 16 bits, with which a gradient's engine avoids atomics.
std::uint64_t workspace_of(const GraphObject& graph) {
  std::uint64_t bytes = 0;
  for (const auto& operation : graph.objects.at(801)) {
    bytes += operation->type == kReshapeOpType ? GraphTensor(operation->object(2200)).byte_count() : 0;
  }
  return (bytes + kWorkspaceUnit - 1) / kWorkspaceUnit * kWorkspaceUnit;
}

void check_final(const char* name, const GraphObject& object) {
  for (const Rule& rule : kRules) {
    const bool is_set = object.numbers.contains(rule.attribute) || object.objects.contains(rule.attribute);
    if (rule.type == object.type && !rule.is_optional && !is_set) {
      refuse_dnn(name, "attribute " + std::to_string(rule.attribute) + " is not set");
    }
  }
  switch (object.type) {
    case kTensorType:
      return check_tensor(name, object);
    case kMatmulOpType:
    case kReductionOpType:
    case kReshapeOpType:
    case kPointwiseOpType:
      return check_operation(name, object);
    case kGraphType:
      return check_graph(name, object);
    case kPlanType:
      if (object.object(401).number(-1) == 1) {
        throw Error{kDnnNotSupported};
      }
      return;
    case kPackType:
      if (object.numbers.at(1000).size() != object.numbers.at(1001).size()) {
        refuse_dnn(name, "the numbers of ids and pointers differ");
      }
      return;
    default:
      return;
  }
}

}  // namespace fake_gpu
#endif
