// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/dnn_graph_run.cpp: operations of cuDNN's graphs on the CPU.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "blas.h"
#include "dnn_graph.h"

#ifndef FAKE_GPU_HIP
namespace fake_gpu {
namespace {

constexpr int kCudnnF16 = 2;
constexpr int kCudnnBF16 = 9;
constexpr int kMaximum = 3;

float rounded(float value, int type) {
  return type == kCudnnF16    ? from_half(to_half(value))
         : type == kCudnnBF16 ? from_brain(to_brain(value))
                              : value;
}

GraphDims place_of(const GraphTensor& tensor, std::int64_t element) {
  GraphDims place = {};
  for (std::size_t i = 4; i-- > 0;) {
    place[i] = element % tensor.dims[i];
    element /= tensor.dims[i];
  }
  return place;
}

// The element at the place, where dimensions of one element repeat.
std::int64_t element_at(const GraphTensor& tensor, const GraphDims& place) {
  std::int64_t element = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    element = element * tensor.dims[i] + (tensor.dims[i] == 1 ? 0 : place[i]);
  }
  return element;
}

using Elements = std::vector<float>;

// The values of all tensors of a graph while it runs.
class GraphRunner {
 public:
  GraphRunner(const std::map<std::int64_t, Address>& pointers, const std::map<std::int64_t, float>& values)
      : pointers_(pointers), values_(values) {}

  void run(const GraphObject& operation) {
    switch (operation.type) {
      case kMatmulOpType:
        multiply(operation);
        break;
      case kReductionOpType:
        reduce(operation);
        break;
      case kReshapeOpType:
        reshape(operation);
        break;
      default:
        pointwise(operation);
    }
  }

 private:
  const Elements& read(const GraphTensor& tensor) {
    const auto [known, is_new] = all_.emplace(tensor.id, Elements());
    if (is_new) {
      Elements& made = known->second;
      made.resize(static_cast<std::size_t>(tensor.count()));
      for (std::int64_t i = 0; i < tensor.count(); ++i) {
        made[static_cast<std::size_t>(i)] =
            tensor.is_by_value
                ? values_.at(tensor.id)
                : load(pointer(pointers_.at(tensor.id)), static_cast<std::uint64_t>(tensor.offset(i)),
                       element_type(tensor.type));
      }
    }
    return known->second;
  }
  void write(const GraphTensor& tensor, Elements elements) {
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      float& element = elements[static_cast<std::size_t>(i)];
      element = rounded(element, tensor.type);
      if (!tensor.is_virtual) {
        store(pointer(pointers_.at(tensor.id)), static_cast<std::uint64_t>(tensor.offset(i)),
              element_type(tensor.type), element);
      }
    }
    all_[tensor.id] = std::move(elements);
  }

  void multiply(const GraphObject& operation);
  void reduce(const GraphObject& operation);
  void reshape(const GraphObject& operation);
  void pointwise(const GraphObject& operation);

  const std::map<std::int64_t, Address>& pointers_;
  const std::map<std::int64_t, float>& values_;
  std::map<std::int64_t, Elements> all_;  // by id
};

void GraphRunner::multiply(const GraphObject& operation) {
  const GraphTensor a(operation.object(1520));
  const GraphTensor b(operation.object(1521));
  const GraphTensor c(operation.object(1522));
  const Elements& left = read(a);
  const Elements& right = read(b);
  Elements sums(static_cast<std::size_t>(c.count()));
  for (std::int64_t i = 0; i < c.count(); ++i) {
    GraphDims from = place_of(c, i);
    GraphDims to = from;
    for (std::int64_t depth = 0; depth < a.dims[3]; ++depth) {
      from[3] = to[2] = depth;
      sums[static_cast<std::size_t>(i)] += left[static_cast<std::size_t>(element_at(a, from))] *
                                           right[static_cast<std::size_t>(element_at(b, to))];
    }
  }
  write(c, std::move(sums));
}

void GraphRunner::reduce(const GraphObject& operation) {
  const bool is_maximum = operation.object(1612).number(1600) == kMaximum;
  const GraphTensor x(operation.object(1610));
  const GraphTensor y(operation.object(1611));
  const Elements& from = read(x);
  Elements results(static_cast<std::size_t>(y.count()),
                   is_maximum ? -std::numeric_limits<float>::infinity() : 0.0F);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    float& result = results[static_cast<std::size_t>(element_at(y, place_of(x, i)))];
    const float value = from[static_cast<std::size_t>(i)];
    result = is_maximum ? std::max(result, value) : result + value;
  }
  write(y, std::move(results));
}

// Both tensors are views of the same memory.
void GraphRunner::reshape(const GraphObject& operation) {
  const GraphTensor x(operation.object(2200));
  const GraphTensor y(operation.object(2201));
  const Elements& from = read(x);
  std::unordered_map<std::int64_t, float> memory;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    memory[x.offset(i)] = from[static_cast<std::size_t>(i)];
  }
  Elements results(static_cast<std::size_t>(y.count()));
  for (std::int64_t i = 0; i < y.count(); ++i) {
    results[static_cast<std::size_t>(i)] = memory.at(y.offset(i));
  }
  write(y, std::move(results));
}

void GraphRunner::pointwise(const GraphObject& operation) {
  const GraphObject& kind = operation.object(750);
  const auto mode = static_cast<int>(kind.number(0));
  const GraphTensor x(operation.object(751));
  const GraphTensor y(operation.object(753));
  const auto operand = [&](int attribute) {
    return operation.objects.contains(attribute) ? GraphTensor(operation.object(attribute)) : x;
  };
  const GraphTensor b = operand(752);
  const GraphTensor t = operand(758);
  Elements results(static_cast<std::size_t>(y.count()));
  const auto value = [&](const GraphTensor& tensor, const GraphDims& place) {
    return read(tensor)[static_cast<std::size_t>(element_at(tensor, place))];
  };
  for (std::int64_t i = 0; i < y.count(); ++i) {
    const GraphDims place = place_of(y, i);
    float& result = results[static_cast<std::size_t>(i)];
    if (mode == kGenIndexMode) {
      result = static_cast<float>(place[static_cast<std::size_t>(kind.number(9))]);
      continue;
    }
    const float first = value(x, place);
    const float second = value(b, place);
    result = mode == kAddMode            ? first + second
             : mode == kMulMode          ? first * second
             : mode == kDivMode          ? first / second
             : mode == kSubMode          ? first - second
             : mode == kExpMode          ? std::exp(first)
             : mode == kLogMode          ? std::log(first)
             : mode == kGreaterEqualMode ? (first >= second ? 1.0F : 0.0F)
                                         : (value(t, place) != 0 ? first : second);
  }
  write(y, std::move(results));
}

}  // namespace

GraphTensor::GraphTensor(const GraphObject& object)
    : id(object.number(906)),
      type(static_cast<int>(object.number(901))),
      is_virtual(object.number(907) != 0),
      is_by_value(object.number(908) != 0) {
  std::copy_n(object.numbers.at(902).begin(), 4, dims.begin());
  std::copy_n(object.numbers.at(903).begin(), 4, strides.begin());
}

std::int64_t GraphTensor::offset(std::int64_t element) const {
  const GraphDims place = place_of(*this, element);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    sum += place[i] * strides[i];
  }
  return sum;
}

std::uint64_t GraphTensor::byte_count() const {
  return (static_cast<std::uint64_t>(offset(count() - 1)) + 1) * size_of(element_type(type));
}

int element_type(int type) {
  return type == kCudnnF16 ? kF16 : type == kCudnnBF16 ? kBF16 : kF32;
}

void run_graph(const GraphObject& graph, const std::map<std::int64_t, Address>& pointers,
               const std::map<std::int64_t, float>& values) {
  GraphRunner runner(pointers, values);
  for (const auto& operation : graph.objects.at(801)) {
    runner.run(*operation);
  }
}

}  // namespace fake_gpu
#endif
