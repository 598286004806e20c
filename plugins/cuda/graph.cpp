// SPDX-License-Identifier: Apache-2.0
// plugins/cuda/graph.cpp: builds graphs of operations with cuDNN's backend API.
#include "graph.h"

namespace yoke::cuda {

namespace {

constexpr std::int64_t kAlignment = codegen::kLibraryAlignment;

Dims dense(const Dims& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

}  // namespace

Descriptor::Descriptor(const gpu::Dnn& dnn, graph::Descriptor type, gpu::DnnFault& fault)
    : dnn_(dnn), fault_(&fault) {
  if (fault_->code == 0) {
    *fault_ = {dnn.descriptor_create.name, dnn.descriptor_create(type, &handle_)};
  }
}

Descriptor::~Descriptor() {
  if (handle_ != nullptr) {
    (void)dnn_.descriptor_destroy(handle_);
  }
}

void Descriptor::set(graph::Attribute attribute, graph::AttributeType type, std::int64_t count,
                     const void* elements) {
  if (fault_->code == 0) {
    *fault_ = {dnn_.descriptor_set.name, dnn_.descriptor_set(handle_, attribute, type, count, elements)};
  }
}

void Descriptor::finalize() {
  if (fault_->code == 0) {
    *fault_ = {dnn_.descriptor_finalize.name, dnn_.descriptor_finalize(handle_)};
  }
}

std::int64_t Descriptor::read(graph::Attribute attribute, graph::AttributeType type, std::int64_t wanted,
                              void* elements) const {
  std::int64_t count = 0;
  if (fault_->code == 0) {
    *fault_ = {dnn_.descriptor_get.name,
               dnn_.descriptor_get(handle_, attribute, type, wanted, &count, elements)};
  }
  return fault_->code == 0 ? count : 0;
}

GraphTensor Graph::add_tensor(graph::DataType type, const Dims& dims, const Dims& strides, bool is_virtual,
                              bool is_by_value, std::int64_t id) {
  Descriptor& made = tensors_.emplace_back(dnn_, graph::kTensor, fault_);
  const std::int64_t alignment = is_by_value ? 4 : kAlignment;
  made.set(graph::kTensorType, graph::kOfDataType, type);
  made.set(graph::kTensorDims, graph::kOfInt64, 4, dims.data());
  made.set(graph::kTensorStrides, graph::kOfInt64, 4, strides.data());
  made.set(graph::kTensorId, graph::kOfInt64, id);
  made.set(graph::kTensorAlignment, graph::kOfInt64, alignment);
  made.set(graph::kTensorIsVirtual, graph::kOfBoolean, is_virtual);
  made.set(graph::kTensorIsByValue, graph::kOfBoolean, is_by_value);
  made.finalize();
  return {tensors_.size() - 1, dims, strides};
}

GraphTensor Graph::tensor(graph::DataType type, const Dims& dims, const Dims& strides) {
  return add_tensor(type, dims, strides, false, false, next_id_++);
}

GraphTensor Graph::number(float value) {
  constexpr Dims kOne = {1, 1, 1, 1};
  numbers_.emplace_back(next_id_, value);
  return add_tensor(graph::kF32, kOne, kOne, false, true, next_id_++);
}

GraphTensor Graph::temporary(graph::DataType type, const Dims& dims) {
  return temporary(type, dims, dense(dims));
}

GraphTensor Graph::temporary(graph::DataType type, const Dims& dims, const Dims& strides) {
  return add_tensor(type, dims, strides, true, false, next_virtual_++);
}

void Graph::multiply(const GraphTensor& a, const GraphTensor& b, const GraphTensor& result) {
  Descriptor& product = parts_.emplace_back(dnn_, graph::kMatmul, fault_);
  product.set(graph::kMatmulType, graph::kOfDataType, graph::kF32);
  product.finalize();
  Descriptor& made = operations_.emplace_back(dnn_, graph::kMatmulOperation, fault_);
  made.set(graph::kMatmulDescriptor, product);
  made.set(graph::kMatmulA, at(a));
  made.set(graph::kMatmulB, at(b));
  made.set(graph::kMatmulC, at(result));
  made.finalize();
}

void Graph::reduce(graph::Reduction reduction, const GraphTensor& from, const GraphTensor& result) {
  Descriptor& part = parts_.emplace_back(dnn_, graph::kReduction, fault_);
  part.set(graph::kReductionType, graph::kOfDataType, graph::kF32);
  part.set(graph::kReductionOperator, graph::kOfReduction, reduction);
  part.finalize();
  Descriptor& made = operations_.emplace_back(dnn_, graph::kReductionOperation, fault_);
  made.set(graph::kReductionDescriptor, part);
  made.set(graph::kReductionX, at(from));
  made.set(graph::kReductionY, at(result));
  made.finalize();
}

void Graph::reshape(const GraphTensor& from, const GraphTensor& result) {
  Descriptor& made = operations_.emplace_back(dnn_, graph::kReshapeOperation, fault_);
  made.set(graph::kReshapeX, at(from));
  made.set(graph::kReshapeY, at(result));
  made.finalize();
}

GraphTensor Graph::pointwise(graph::Mode mode, const GraphTensor& x) {
  const GraphTensor result = temporary(graph::kF32, x.dims);
  pointwise(mode, x, nullptr, nullptr, result);
  return result;
}

GraphTensor Graph::pointwise(graph::Mode mode, const GraphTensor& x, const GraphTensor& b) {
  const GraphTensor result = temporary(graph::kF32, x.dims);
  pointwise(mode, x, &b, nullptr, result);
  return result;
}

void Graph::pointwise(graph::Mode mode, const GraphTensor& x, const GraphTensor* b, const GraphTensor* t,
                      const GraphTensor& result, graph::DataType type, std::int64_t axis) {
  Descriptor& part = parts_.emplace_back(dnn_, graph::kPointwise, fault_);
  part.set(graph::kPointwiseMode, graph::kOfPointwiseMode, mode);
  part.set(graph::kPointwiseType, graph::kOfDataType, type);
  if (axis >= 0) {
    part.set(graph::kPointwiseAxis, graph::kOfInt64, axis);
  }
  part.finalize();
  Descriptor& made = operations_.emplace_back(dnn_, graph::kPointwiseOperation, fault_);
  made.set(graph::kPointwiseDescriptor, part);
  made.set(graph::kPointwiseX, at(x));
  if (b != nullptr) {
    made.set(graph::kPointwiseB, at(*b));
  }
  if (t != nullptr) {
    made.set(graph::kPointwiseT, at(*t));
  }
  made.set(graph::kPointwiseY, at(result));
  made.finalize();
}

Descriptor Graph::finish(void* handle) {
  Descriptor made(dnn_, graph::kOperationGraph, fault_);
  std::vector<void*> operations;
  for (const Descriptor& operation : operations_) {
    operations.push_back(operation.get());
  }
  made.set(graph::kGraphOperations, graph::kOfDescriptor, static_cast<std::int64_t>(operations.size()),
           operations.data());
  if (handle != nullptr) {
    made.set(graph::kGraphHandle, graph::kOfHandle, handle);
  }
  made.finalize();
  return made;
}

}  // namespace yoke::cuda
