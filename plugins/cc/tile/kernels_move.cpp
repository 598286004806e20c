// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/kernels_move.cpp: reductions, copies, gathers and
// scatters; compiled once per instruction set.
#include "kernels_isa.h"
#include "operations.h"

namespace yoke::cc::YOKE_CC_ISA {
namespace {

template <class T>
struct Second {
  static inline T apply(T, T y) { return y; }
};

template <class T, template <class> class F>
void rows(void* acc, const void* values, int64_t nr, int64_t nc, int64_t*, int64_t) {
  T* total = static_cast<T*>(acc);
  const T* x = static_cast<const T*>(values);
  for (int64_t r = 0; r < nr; ++r, x += nc) {
    YOKE_CC_VECTORIZE
    for (int64_t c = 0; c < nc; ++c) {
      total[c] = F<T>::apply(total[c], x[c]);
    }
  }
}

// Folds one row over a fixed number of lanes, so that the order does not depend on
// the instruction set. Precondition: n >= 1.
template <class T, template <class> class F>
inline T fold_row(const T* x, int64_t n) {
  constexpr int64_t kLanes = 32;
  int64_t i = 0;
  T total = x[0];
  if (n >= kLanes) {
    T lane[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) {
      lane[l] = x[l];
    }
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
      YOKE_CC_VECTORIZE
      for (int64_t l = 0; l < kLanes; ++l) {
        lane[l] = F<T>::apply(lane[l], x[i + l]);
      }
    }
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      YOKE_CC_VECTORIZE
      for (int64_t l = 0; l < half; ++l) {
        lane[l] = F<T>::apply(lane[l], lane[l + half]);
      }
    }
    total = lane[0];
  } else {
    i = 1;
  }
  for (; i < n; ++i) {
    total = F<T>::apply(total, x[i]);
  }
  return total;
}

template <class T, class A, template <class> class F>
void columns(void* acc, const void* values, int64_t nr, int64_t nc, int64_t*, int64_t) {
  A* total = static_cast<A*>(acc);
  const T* x = static_cast<const T*>(values);
  for (int64_t r = 0; r < nr; ++r, x += nc) {
    total[r] = F<A>::apply(total[r], static_cast<A>(fold_row<T, F>(x, nc)));
  }
}

// The accumulator type of sums over columns.
template <class T>
struct SumType {
  using Type = T;
};
template <>
struct SumType<float> {
  using Type = double;
};
template <class T>
using SumOf = typename SumType<T>::Type;

template <class T, template <class> class F>
ReduceFn pick(bool by_columns) {
  return by_columns ? columns<T, T, F> : rows<T, F>;
}

// The first of equal extremes wins. NaN beats every number, and the first NaN wins.
template <class T, bool kMax>
inline bool beats(T x, T best) {
  const bool better = kMax ? x > best : x < best;
  return (best == best) & (better | (x != x));
}

template <class T, bool kMax>
void arg_rows(void* acc, const void* values, int64_t nr, int64_t nc, int64_t* index, int64_t first) {
  T* best = static_cast<T*>(acc);
  const T* x = static_cast<const T*>(values);
  for (int64_t r = 0; r < nr; ++r, x += nc) {
    for (int64_t c = 0; c < nc; ++c) {
      const bool take = beats<T, kMax>(x[c], best[c]);
      best[c] = take ? x[c] : best[c];
      index[c] = take ? first + r : index[c];
    }
  }
}

template <class T, bool kMax>
void arg_columns(void* acc, const void* values, int64_t nr, int64_t nc, int64_t* index, int64_t first) {
  T* best = static_cast<T*>(acc);
  const T* x = static_cast<const T*>(values);
  for (int64_t r = 0; r < nr; ++r, x += nc) {
    T b = best[r];
    int64_t at = index[r];
    for (int64_t c = 0; c < nc; ++c) {
      const bool take = beats<T, kMax>(x[c], b);
      b = take ? x[c] : b;
      at = take ? first + c : at;
    }
    best[r] = b;
    index[r] = at;
  }
}

template <class T>
ReduceFn reduce_of(ReduceOp op, bool by_columns) {
  switch (op) {
    case ReduceOp::kSum:
      return by_columns ? columns<T, SumOf<T>, Add> : rows<T, Add>;
    case ReduceOp::kProd:
      return pick<T, Mul>(by_columns);
    case ReduceOp::kMin:
      return pick<T, Min>(by_columns);
    case ReduceOp::kMax:
      return pick<T, Max>(by_columns);
    case ReduceOp::kArgMin:
      return by_columns ? arg_columns<T, false> : arg_rows<T, false>;
    case ReduceOp::kArgMax:
      return by_columns ? arg_columns<T, true> : arg_rows<T, true>;
    default:
      return nullptr;
  }
}

template <class T>
void fold_of(double* total, T* part, int64_t n) {
  YOKE_CC_VECTORIZE
  for (int64_t i = 0; i < n; ++i) {
    total[i] += static_cast<double>(part[i]);
    part[i] = T{0};
  }
}

template <class T>
void copy(void* dst, const void* src, int64_t nr, int64_t nc, int64_t drs, int64_t dcs, int64_t srs,
          int64_t scs) {
  T* out = static_cast<T*>(dst);
  const T* in = static_cast<const T*>(src);
  for (int64_t r = 0; r < nr; ++r, out += drs, in += srs) {
    if (dcs == 1 && scs == 1) {
      YOKE_CC_VECTORIZE
      for (int64_t c = 0; c < nc; ++c) {
        out[c] = in[c];
      }
    } else if (dcs == 1 && scs == 0) {
      const T value = *in;
      YOKE_CC_VECTORIZE
      for (int64_t c = 0; c < nc; ++c) {
        out[c] = value;
      }
    } else {
      for (int64_t c = 0; c < nc; ++c) {
        out[c * dcs] = in[c * scs];
      }
    }
  }
}

template <class T>
void gather(void* dst, const void* src, const int64_t* offsets, const void* otherwise, int64_t n) {
  T* out = static_cast<T*>(dst);
  const T* in = static_cast<const T*>(src);
  const T missing = *static_cast<const T*>(otherwise);
  for (int64_t i = 0; i < n; ++i) {
    out[i] = offsets[i] >= 0 ? in[offsets[i]] : missing;
  }
}

template <class T, template <class> class F>
void scatter(void* dst, const int64_t* offsets, const void* values, int64_t n) {
  T* out = static_cast<T*>(dst);
  const T* x = static_cast<const T*>(values);
  for (int64_t i = 0; i < n; ++i) {
    if (offsets[i] >= 0) {
      out[offsets[i]] = F<T>::apply(out[offsets[i]], x[i]);
    }
  }
}

template <template <class> class F, bool kBF16>
void scatter16(void* dst, const int64_t* offsets, const void* values, int64_t n) {
  uint16_t* out = static_cast<uint16_t*>(dst);
  const float* x = static_cast<const float*>(values);
  for (int64_t i = 0; i < n; ++i) {
    if (offsets[i] >= 0) {
      uint16_t* at = out + offsets[i];
      const float sum = F<float>::apply(kBF16 ? bf16_to(*at) : f16_to(*at), x[i]);
      *at = kBF16 ? bf16_of(sum) : f16_of(sum);
    }
  }
}

template <template <class> class F>
ScatterFn pick_scatter(Reg type, Stored stored) {
  if (stored != Stored::kPlain) {
    return stored == Stored::kBF16 ? scatter16<F, true> : scatter16<F, false>;
  }
  switch (type) {
    case Reg::kF64:
      return scatter<double, F>;
    case Reg::kF32:
      return scatter<float, F>;
    case Reg::kI64:
      return scatter<int64_t, F>;
    case Reg::kI32:
      return scatter<int32_t, F>;
    case Reg::kU32:
      return scatter<uint32_t, F>;
    case Reg::kU8:
      return scatter<uint8_t, F>;
  }
  return nullptr;
}

}  // namespace

ReduceFn find_reduce(ReduceOp op, Reg type, bool by_columns) {
  if (op == ReduceOp::kAny || op == ReduceOp::kAll) {
    return op == ReduceOp::kAny ? pick<uint8_t, BitOr>(by_columns) : pick<uint8_t, BitAnd>(by_columns);
  }
  switch (type) {
    case Reg::kF64:
      return reduce_of<double>(op, by_columns);
    case Reg::kF32:
      return reduce_of<float>(op, by_columns);
    case Reg::kI64:
      return reduce_of<int64_t>(op, by_columns);
    case Reg::kI32:
      return reduce_of<int32_t>(op, by_columns);
    case Reg::kU32:
      return reduce_of<uint32_t>(op, by_columns);
    case Reg::kU8:
      return reduce_of<uint8_t>(op, by_columns);
  }
  return nullptr;
}

CopyFn find_copy(int64_t element_size) {
  switch (element_size) {
    case 1:
      return copy<uint8_t>;
    case 2:
      return copy<uint16_t>;
    case 4:
      return copy<uint32_t>;
    default:
      return copy<uint64_t>;
  }
}

GatherFn find_gather(int64_t element_size) {
  switch (element_size) {
    case 1:
      return gather<uint8_t>;
    case 2:
      return gather<uint16_t>;
    case 4:
      return gather<uint32_t>;
    default:
      return gather<uint64_t>;
  }
}

ScatterFn find_scatter(MapOp op, Reg type, Stored stored) {
  switch (op) {
    case MapOp::kCopy:
      return pick_scatter<Second>(type, stored);
    case MapOp::kAdd:
      return pick_scatter<Add>(type, stored);
    case MapOp::kMul:
      return pick_scatter<Mul>(type, stored);
    case MapOp::kMin:
      return pick_scatter<Min>(type, stored);
    case MapOp::kMax:
      return pick_scatter<Max>(type, stored);
    default:
      return nullptr;
  }
}

void fold(double* total, void* part, Reg type, int64_t n) {
  if (type == Reg::kF64) {
    fold_of(total, static_cast<double*>(part), n);
  } else {
    fold_of(total, static_cast<float*>(part), n);
  }
}

void iota(int64_t* dst, int64_t first, int64_t row_step, int64_t column_step, int64_t nr, int64_t nc) {
  for (int64_t r = 0; r < nr; ++r) {
    YOKE_CC_VECTORIZE
    for (int64_t c = 0; c < nc; ++c) {
      dst[r * nc + c] = first + r * row_step + c * column_step;
    }
  }
}

#define YOKE_CC_TEXT_OF(x) #x
#define YOKE_CC_TEXT(x) YOKE_CC_TEXT_OF(x)

const KernelTable& table() {
  static constexpr KernelTable kTable = {.name = YOKE_CC_TEXT(YOKE_CC_ISA),
                                         .map = find_map,
                                         .cast = find_cast,
                                         .reduce = find_reduce,
                                         .fold = fold,
                                         .copy = find_copy,
                                         .gather = find_gather,
                                         .scatter = find_scatter,
                                         .iota = iota,
                                         .block_product = find_block_product};
  return kTable;
}

}  // namespace yoke::cc::YOKE_CC_ISA
