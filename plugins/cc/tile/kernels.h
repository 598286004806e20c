// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/kernels.h: the loops over one tile, in one table per instruction set.
//
// The files that fill a table are compiled several times with different -march levels. From the standard
// library they include only headers that define macros and types. Otherwise the linker could keep an inline
// function's AVX-512 copy, which would crash on older machines.
#pragma once

#include <stdint.h>

namespace yoke::cc {

// The type of a tile register. f16 and bf16 values are kept as f32 and rounded
// after each operation; bool is kU8, 0 or 1.
enum class Reg : uint8_t { kF64, kF32, kI64, kI32, kU32, kU8 };
constexpr int kRegCount = 6;
constexpr int64_t reg_size(Reg reg) {
  return reg == Reg::kF64 || reg == Reg::kI64 ? 8 : reg == Reg::kU8 ? 1 : 4;
}
// Calls use(T{}) for the type T of the register's values, and returns the result. `use` must be a lambda, so that
// each instruction set has its own copy.
template <class Use>
auto with_type(Reg reg, const Use& use) {
  switch (reg) {
    case Reg::kF64:
      return use(double{});
    case Reg::kF32:
      return use(float{});
    case Reg::kI64:
      return use(int64_t{});
    case Reg::kI32:
      return use(int32_t{});
    case Reg::kU32:
      return use(uint32_t{});
    default:
      return use(uint8_t{});
  }
}

// First the operations of the program format, in the order of ops.def, then those that only kernels use.
enum class MapOp : uint8_t {
#define YOKE_SPECIAL_OP(id, text, arity) k##id,
#define YOKE_OP(id, ...) k##id,
#include <yoke/program/ops.def>
  kCopy,
  kRoundF16,  // f32 to the nearest value of the type
  kRoundBF16,
  kWidenF16,  // between f32 and the stored 16 bits
  kWidenBF16,
  kNarrowF16,
  kNarrowBF16,
  // Two operations in one pass over the tile; each rounds its result.
  kMulAdd,  // a * b + c
  kMulSub,  // c - a * b
  kMulMul,  // a * b * c
  kSubMul,  // (a - b) * c
  kSubExp   // exp(a - b)
};

// dst[i] = op(a[i], b[i], c[i]) for i < n. dst may be one of the operands if the elements have the same size.
using MapFn = void (*)(void* dst, const void* a, const void* b, const void* c, int64_t n);

// Bits that mark operands with a single element for the whole tile.
constexpr unsigned kScalarA = 1;
constexpr unsigned kScalarB = 2;
constexpr unsigned kScalarC = 4;

// In the order of program::Reduce.
enum class ReduceOp : uint8_t { kSum, kProd, kMin, kMax, kAny, kAll, kArgMax, kArgMin };

// Folds a tile of nr x nc values into accumulators: rows into acc[c], or columns into acc[r].
// Only argmin and argmax use `index`, the best index so far per accumulator, and `first`, the
// reduced loop's value at the start of the tile.
using ReduceFn = void (*)(void* acc, const void* values, int64_t nr, int64_t nc, int64_t* index,
                          int64_t first);

// Adds the products of two tiles of floats, like a ReduceFn.
using ProductSumFn = void (*)(void* acc, const void* a, const void* b, int64_t nr, int64_t nc);

// dst[r * drs + c * dcs] = src[r * srs + c * scs]; strides in elements.
using CopyFn = void (*)(void* dst, const void* src, int64_t nr, int64_t nc, int64_t drs, int64_t dcs,
                        int64_t srs, int64_t scs);
// dst[i] = src[offsets[i]], or *otherwise if the offset is negative.
using GatherFn = void (*)(void* dst, const void* src, const int64_t* offsets, const void* otherwise,
                          int64_t n);
// dst[offsets[i]] = op(dst[offsets[i]], values[i]) in order of i; negative offsets are skipped. Without offsets,
// offsets[i] is i.
using ScatterFn = void (*)(void* dst, const int64_t* offsets, const void* values, int64_t n);

// How a scatter's target is stored: as the register type, or as a 16-bit float.
enum class Stored : uint8_t { kPlain, kF16, kBF16 };

// c[i * ldc + j] += sum over p of a[p * rows + i] * b[p * columns + j], for one block of rows x columns.
struct BlockProduct {
  int64_t rows = 0;
  int64_t columns = 0;
  void (*run)(int64_t k, const void* a, const void* b, void* c, int64_t ldc) = nullptr;
};

struct PanelKernels;  // panel_kernels.h

struct KernelTable {
  const char* name;  // "x86-64-v3"
  // Returns nullptr if the combination does not exist. `type` is the type
  // of the operands (kSelect: of the values).
  MapFn (*map)(MapOp op, Reg type, unsigned scalars);
  MapFn (*cast)(Reg from, Reg to, bool to_bool);
  // Sums of floats over columns accumulate in f64 (blocked summation),
  // all other reductions in the values' type.
  ReduceFn (*reduce)(ReduceOp op, Reg type, bool columns);
  ProductSumFn (*product_sum)(Reg type, bool columns);           // the same bits as a product and a sum
  void (*fold)(double* total, void* part, Reg type, int64_t n);  // total += part; part = 0
  CopyFn (*copy)(int64_t element_size);
  // Writes past the caches, so that memory is not read before it is overwritten. Other threads see the
  // bytes after stores_are_visible().
  void (*copy_past_caches)(void* dst, const void* src, int64_t byte_count);
  GatherFn (*gather)(int64_t element_size);
  ScatterFn (*scatter)(MapOp op, Reg type, Stored stored);  // kCopy, kAdd, kMul, kMin, kMax
  void (*iota)(int64_t* dst, int64_t first, int64_t row_step, int64_t column_step, int64_t nr, int64_t nc);
  BlockProduct (*block_product)(Reg type);
  const PanelKernels* panel;  // null if the instruction set has too few registers for them
};

// Makes the calling thread's stores past the caches visible to the threads that it synchronizes with.
inline void stores_are_visible() {
#if defined(__SSE2__)
  __builtin_ia32_sfence();
#endif
}

// Returns the best table that this machine can run.
const KernelTable& best_kernels();
// Lists all tables that this machine can run, from the plainest to the best. Returns their number.
int usable_kernels(const KernelTable** tables, int capacity);

}  // namespace yoke::cc
