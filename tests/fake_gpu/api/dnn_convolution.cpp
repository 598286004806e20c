// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/dnn_convolution.cpp: convolutions and their gradients on the CPU.
#include <algorithm>
#include <string>
#include <vector>

#include "blas.h"
#include "dnn.h"

namespace fake_gpu {
namespace {

std::uint64_t element_count(const DnnTensor& tensor) {
  std::uint64_t count = 1;
  for (const int extent : tensor.dims) {
    count *= static_cast<std::uint64_t>(extent);
  }
  return count;
}

using Place = std::array<int, 4>;

std::uint64_t offset_of(const DnnTensor& tensor, const Place& at) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    sum += std::int64_t{at[i]} * tensor.strides[i];
  }
  return static_cast<std::uint64_t>(sum);
}

std::uint64_t number_of(const DnnTensor& tensor, const Place& at) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    number = number * static_cast<std::uint64_t>(tensor.dims[i]) + static_cast<std::uint64_t>(at[i]);
  }
  return number;
}

// Calls visit(place) for each element, the last dimension fastest.
template <class Visit>
void for_each(const DnnTensor& tensor, const Visit& visit) {
  Place at = {};
  for (at[0] = 0; at[0] < tensor.dims[0]; ++at[0]) {
    for (at[1] = 0; at[1] < tensor.dims[1]; ++at[1]) {
      for (at[2] = 0; at[2] < tensor.dims[2]; ++at[2]) {
        for (at[3] = 0; at[3] < tensor.dims[3]; ++at[3]) {
          visit(at);
        }
      }
    }
  }
}

}  // namespace

const DnnTensor& result_of(const DnnCall& call) {
  return call.kind == DnnKind::kForward ? call.y : call.kind == DnnKind::kInput ? call.x : call.w;
}

std::uint64_t extent_of(const DnnTensor& tensor) {
  Place last = tensor.dims;
  for (int& index : last) {
    --index;
  }
  return (offset_of(tensor, last) + 1) * size_of(tensor.type);
}

std::uint64_t workspace_of(const DnnCall& call) {
  return element_count(result_of(call)) * sizeof(float);
}

std::uint64_t number_of(const DnnCall& call, std::uint64_t algorithm) {
  std::uint64_t hash = algorithm * 4 + static_cast<std::uint64_t>(call.kind);
  for (const DnnTensor* tensor : {&call.x, &call.w, &call.y}) {
    for (const std::array<int, 4>& numbers : {tensor->dims, tensor->strides}) {
      for (const int number : numbers) {
        hash = (hash ^ static_cast<unsigned>(number)) * 0x100000001b3U;
      }
    }
  }
  return hash;
}

void check_convolution(const char* name, const DnnCall& call) {
  const auto& [kind, x, w, y, convolution, addresses, accumulates, workspace] = call;
  for (const DnnTensor* tensor : {&x, &w, &y}) {
    if (tensor->type < 0) {
      refuse_dnn(name, "a tensor is not described");
    }
  }
  if (w.is_filters == kHip || x.is_filters || y.is_filters || convolution.stride[0] == 0) {
    refuse_dnn(name, "the tensors are in another order, or the convolution is not described");
  }
  if (x.type != w.type || x.type != y.type) {
    throw Error{kDnnNotSupported};
  }
  if (x.dims[0] != y.dims[0] || x.dims[1] != w.dims[1] * convolution.groups || y.dims[1] != w.dims[0] ||
      w.dims[0] % convolution.groups != 0) {
    refuse_dnn(name, "the batches or channels of the tensors do not fit together");
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const int reach = convolution.dilation[i] * (w.dims[2 + i] - 1);
    const int last = x.dims[2 + i] + 2 * convolution.padding[i] - reach - 1;
    if (last < 0 || last / convolution.stride[i] + 1 != y.dims[2 + i]) {
      refuse_dnn(name, "y has " + std::to_string(y.dims[2 + i]) + " windows along a dimension");
    }
  }
  if (!convolution.is_fixed_order) {
    refuse_dnn(name, "the order of sums is not fixed");
  }
  if (x.type == kF32 ? convolution.math == 1 : convolution.math == 3 || convolution.rounds_gradients) {
    refuse_dnn(name, "the type of math does not fit the type of the tensors");
  }
}

// The sums are f32, in the order of the elements of y and then of w.
void run_convolution(const DnnCall& call) {
  const DnnTensor& x = call.x;
  const DnnTensor& w = call.w;
  const DnnTensor& y = call.y;
  const DnnConvolution& convolution = call.convolution;
  const DnnTensor& result = result_of(call);
  std::vector<float> own(call.workspace == 0 ? element_count(result) : 0);
  auto* sums = call.workspace == 0 ? own.data() : reinterpret_cast<float*>(pointer(call.workspace));
  std::fill_n(sums, element_count(result), 0.0F);
  const bool rounds = !kHip && x.type == kF32 && convolution.math == 0;
  const auto read = [&](const DnnTensor& tensor, std::size_t which, const Place& at) {
    const float value = load(pointer(call.addresses[which]), offset_of(tensor, at), tensor.type);
    return rounds ? to_tf32(value) : value;
  };
  const int outs = w.dims[0] / convolution.groups;
  for_each(y, [&](const Place& y_at) {
    const int group = y_at[1] / outs;
    DnnTensor filter = w;
    filter.dims[0] = 1;
    for_each(filter, [&](const Place& tap) {
      const Place w_at = {y_at[1], tap[1], tap[2], tap[3]};
      Place x_at = {y_at[0], group * w.dims[1] + tap[1], 0, 0};
      for (std::size_t i = 2; i < 4; ++i) {
        x_at[i] = y_at[i] * convolution.stride[i - 2] + tap[i] * convolution.dilation[i - 2] -
                  convolution.padding[i - 2];
        if (x_at[i] < 0 || x_at[i] >= x.dims[i]) {
          return;
        }
      }
      if (call.kind == DnnKind::kForward) {
        sums[number_of(y, y_at)] += read(x, 0, x_at) * read(w, 1, w_at);
      } else if (call.kind == DnnKind::kInput) {
        sums[number_of(x, x_at)] += read(y, 2, y_at) * read(w, 1, w_at);
      } else {
        sums[number_of(w, w_at)] += read(x, 0, x_at) * read(y, 2, y_at);
      }
    });
  });
  const std::size_t which = call.kind == DnnKind::kForward ? 2 : call.kind == DnnKind::kInput ? 0 : 1;
  char* memory = pointer(call.addresses[which]);
  for_each(result, [&](const Place& at) {
    const std::uint64_t offset = offset_of(result, at);
    const float old = call.accumulates ? load(memory, offset, result.type) : 0.0F;
    store(memory, offset, result.type, old + sums[number_of(result, at)]);
  });
}

}  // namespace fake_gpu
