// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/blas.h: objects of cublasLt and hipBLASLt, and the numbers in which they differ.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "context.h"

namespace fake_gpu {

// Statuses that the functions return.
inline constexpr int kBlasInvalidValue = FAKE_GPU_NAME(7, 3);
inline constexpr int kBlasNotSupported = FAKE_GPU_NAME(15, 7);

enum BlasNumber : int {
  kF32 = 0,
  kF16 = 2,
  kBF16 = 14,
  kComputeF32 = FAKE_GPU_NAME(68, 2),
  kComputeTF32 = FAKE_GPU_NAME(77, 6),
  kPlain = FAKE_GPU_NAME(0, 111),
  kTransposed = FAKE_GPU_NAME(1, 112),
  kTransposeA = FAKE_GPU_NAME(3, 0),  // attributes of a product
  kTransposeB = FAKE_GPU_NAME(4, 1),
  kEpilogue = FAKE_GPU_NAME(7, 2),
  kBiasPointer = FAKE_GPU_NAME(8, 3),
  kBiasType = FAKE_GPU_NAME(26, 4),
  kBatchCount = FAKE_GPU_NAME(5, 0),  // attributes of a layout
  kBatchStride = FAKE_GPU_NAME(6, 1),
  kMaxWorkspace = 1,  // preferences
  kReductionSchemes = FAKE_GPU_NAME(3, -1),
  kAlignmentA = FAKE_GPU_NAME(5, -1),
};
inline constexpr std::uint32_t kRelu = 2;  // epilogues
inline constexpr std::uint32_t kBias = 4;

struct BlasHandle {
  int device = 0;
  std::mutex running;
};

struct BlasProduct {
  int compute_type = kComputeF32;
  std::array<std::int32_t, 2> operations = {kPlain, kPlain};
  std::uint32_t epilogue = 1;
  std::int32_t bias_type = -1;
  Address bias = 0;
};

struct BlasLayout {
  int type = kF32;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t pitch = 0;
  std::int32_t batch = 1;
  std::int64_t batch_stride = 0;
};

struct BlasPreference {
  std::uint64_t workspace = 0;
  std::uint32_t schemes = 7;
  std::array<std::uint32_t, 4> alignments = {256, 256, 256, 256};
};

Objects<BlasHandle>& blas_handles();

// One multiplication: what the functions are called with, and pointers.
struct BlasCall {
  BlasProduct product;
  std::array<BlasLayout, 3> layouts;  // a, b and the result
  std::array<Address, 3> addresses = {};
  std::uint64_t depth = 0;
  bool accumulates = false;
  Address workspace = 0;  // 0: sums have one part
};

// Complains and throws unless the descriptors fit together. Sets `depth`.
void check_shapes(const char* name, BlasCall& call);
// The bytes from the first to the last element.
std::uint64_t extent_of(const BlasLayout& layout);
// The size of the workspace if sums are computed in two parts.
std::uint64_t workspace_of(const BlasCall& call);
void run_product(const BlasCall& call);

// An element of memory as f32, from and to one of the types kF32, kF16 and kBF16.
std::uint64_t size_of(int type);
float load(const char* memory, std::uint64_t index, int type);
void store(char* memory, std::uint64_t index, int type, float value);
float to_tf32(float value);

// Conversions of f16 and bf16.
float from_half(std::uint16_t bits);
std::uint16_t to_half(float value);
float from_brain(std::uint16_t bits);
std::uint16_t to_brain(float value);

}  // namespace fake_gpu
