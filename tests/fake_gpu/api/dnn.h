// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/dnn.h: objects of cuDNN and MIOpen, and the numbers in which they differ.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <set>

#include "context.h"

namespace fake_gpu {

// Statuses that the functions return.
inline constexpr int kDnnBadParam = FAKE_GPU_NAME(2000, 3);
inline constexpr int kDnnNotSupported = FAKE_GPU_NAME(3000, 6);

enum class DnnKind { kForward, kInput, kFilter };

struct DnnHandle {
  int device = 0;
  void* stream = nullptr;
  std::mutex running;
  std::set<std::uint64_t> compiled;  // algorithms that the handle has launched
};

struct DnnTensor {
  int type = -1;  // kF32, kF16 or kBF16; -1: not set
  bool is_filters = false;
  std::array<int, 4> dims = {};
  std::array<int, 4> strides = {};
};

struct DnnConvolution {
  std::array<int, 2> padding = {};
  std::array<int, 2> stride = {0, 0};  // not set
  std::array<int, 2> dilation = {};
  int groups = 1;
  int math = 0;  // of cuDNN
  bool is_fixed_order = kHip ? false : true;
  bool rounds_gradients = kHip;  // of f16 to bf16
};

Objects<DnnHandle>& dnn_handles();

// One convolution: the factors in the library's order and the result, and where they are.
struct DnnCall {
  DnnKind kind = DnnKind::kForward;
  DnnTensor x, w, y;
  DnnConvolution convolution;
  std::array<Address, 3> addresses = {};  // of x, w and y
  bool accumulates = false;
  Address workspace = 0;  // 0: sums are in registers
};

// Complains and throws unless the descriptors fit together. Throws if they are not supported.
void check_convolution(const char* name, const DnnCall& call);
const DnnTensor& result_of(const DnnCall& call);
// The bytes from the first to the last element.
std::uint64_t extent_of(const DnnTensor& tensor);
// The size of the workspace if the sums are there.
std::uint64_t workspace_of(const DnnCall& call);
// A number for the shapes and the algorithm.
std::uint64_t number_of(const DnnCall& call, std::uint64_t algorithm);
void run_convolution(const DnnCall& call);

[[noreturn]] void refuse_dnn(const char* name, const std::string& reason);

}  // namespace fake_gpu
