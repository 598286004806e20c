// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/kernels_reduce.cpp: reductions of tiles; compiled once per instruction set.
#include "kernels_isa.h"
#include "operations.h"

namespace yoke::cc::YOKE_CC_ISA {
namespace {

// The values that a reduction combines: those of a tile, or the products of two tiles.
template <class T>
struct Values {
  const T* x;
  T operator[](int64_t i) const { return x[i]; }
  Values from(int64_t i) const { return {x + i}; }
};
template <class T>
struct Products {
  const T* x;
  const T* y;
  T operator[](int64_t i) const { return x[i] * y[i]; }
  Products from(int64_t i) const { return {x + i, y + i}; }
};

template <class T, template <class> class F, class V>
inline void add_rows(T* total, V x, int64_t nr, int64_t nc) {
  for (int64_t r = 0; r < nr; ++r, x = x.from(nc)) {
    YOKE_CC_VECTORIZE
    for (int64_t c = 0; c < nc; ++c) {
      total[c] = F<T>::apply(total[c], x[c]);
    }
  }
}

template <class T, template <class> class F>
void rows(void* acc, const void* values, int64_t nr, int64_t nc, int64_t*, int64_t) {
  add_rows<T, F>(static_cast<T*>(acc), Values<T>{static_cast<const T*>(values)}, nr, nc);
}

// Folds kFrom lanes to the first kTo.
template <class T, template <class> class F, int64_t kFrom, int64_t kTo>
inline void fold_lanes(T* lane) {
  if constexpr (kFrom > kTo) {
    for (int64_t l = 0; l < kFrom / 2; ++l) {
      lane[l] = F<T>::apply(lane[l], lane[l + kFrom / 2]);
    }
    fold_lanes<T, F, kFrom / 2, kTo>(lane);
  }
}

// Folds as many whole groups of kLanes values as there are, each lane for itself. Precondition: n >= kLanes.
template <class T, template <class> class F, int64_t kLanes, class V>
inline int64_t fill_lanes(T* lane, V x, int64_t n) {
  for (int64_t l = 0; l < kLanes; ++l) {
    lane[l] = x[l];
  }
  int64_t i = kLanes;
  for (; i + kLanes <= n; i += kLanes) {
    YOKE_CC_VECTORIZE
    for (int64_t l = 0; l < kLanes; ++l) {
      lane[l] = F<T>::apply(lane[l], x[i + l]);
    }
  }
  return i;
}

// Folds one row over fixed numbers of lanes, so that the order does not depend on
// the instruction set. Precondition: n >= 1.
template <class T, template <class> class F, class V>
inline T fold_row(V x, int64_t n) {
  constexpr int64_t kWide = 64;
  constexpr int64_t kNarrow = 16;
  int64_t i = 1;
  T total = x[0];
  if (n >= kWide) {
    T lane[kWide];
    i = fill_lanes<T, F, kWide>(lane, x, n);
    fold_lanes<T, F, kWide, 1>(lane);
    total = lane[0];
  }
  if (n - i >= kNarrow) {
    T lane[kNarrow];
    const V rest = x.from(n >= kWide ? i : 0);
    i = (n >= kWide ? i : 0) + fill_lanes<T, F, kNarrow>(lane, rest, n >= kWide ? n - i : n);
    fold_lanes<T, F, kNarrow, 1>(lane);
    total = n >= kWide ? F<T>::apply(total, lane[0]) : lane[0];
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
    total[r] = F<A>::apply(total[r], static_cast<A>(fold_row<T, F>(Values<T>{x}, nc)));
  }
}

// The extreme of a row that has no NaN, up to the sign of zero.
template <class T>
struct Larger {
  static inline T apply(T x, T y) { return x > y ? x : y; }
};
template <class T>
struct Smaller {
  static inline T apply(T x, T y) { return x < y ? x : y; }
};

template <class T, template <class> class F, template <class> class Simple>
void extremes(void* acc, const void* values, int64_t nr, int64_t nc, int64_t*, int64_t) {
  T* total = static_cast<T*>(acc);
  const T* x = static_cast<const T*>(values);
  for (int64_t r = 0; r < nr; ++r, x += nc) {
    T extreme = fold_row<T, Simple>(Values<T>{x}, nc);
    uint32_t has_nan = 0;
    for (int64_t c = 0; c < nc; ++c) {
      has_nan |= x[c] != x[c] ? 1U : 0U;
    }
    if (has_nan != 0 || extreme == T{0}) {
      extreme = fold_row<T, F>(Values<T>{x}, nc);
    }
    total[r] = F<T>::apply(total[r], extreme);
  }
}

// As `columns` and `rows` with Add, for the products of two tiles.
template <class T>
void product_columns(void* acc, const void* a, const void* b, int64_t nr, int64_t nc) {
  double* total = static_cast<double*>(acc);
  Products<T> x{static_cast<const T*>(a), static_cast<const T*>(b)};
  for (int64_t r = 0; r < nr; ++r, x = x.from(nc)) {
    total[r] += static_cast<double>(fold_row<T, Add>(x, nc));
  }
}
template <class T>
void product_rows(void* acc, const void* a, const void* b, int64_t nr, int64_t nc) {
  add_rows<T, Add>(static_cast<T*>(acc), Products<T>{static_cast<const T*>(a), static_cast<const T*>(b)}, nr,
                   nc);
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

template <class T, template <class> class F, template <class> class Simple>
ReduceFn pick_extreme(bool by_columns) {
  if constexpr (is_float_v<T>) {
    return by_columns ? extremes<T, F, Simple> : rows<T, F>;
  } else {
    return pick<T, F>(by_columns);
  }
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
      return pick_extreme<T, Min, Smaller>(by_columns);
    case ReduceOp::kMax:
      return pick_extreme<T, Max, Larger>(by_columns);
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

}  // namespace

ReduceFn find_reduce(ReduceOp op, Reg type, bool by_columns) {
  if (op == ReduceOp::kAny || op == ReduceOp::kAll) {
    return op == ReduceOp::kAny ? pick<uint8_t, BitOr>(by_columns) : pick<uint8_t, BitAnd>(by_columns);
  }
  return with_type(type, [&](auto zero) { return reduce_of<decltype(zero)>(op, by_columns); });
}

ProductSumFn find_product_sum(Reg type, bool by_columns) {
  if (type == Reg::kF64) {
    return by_columns ? product_columns<double> : product_rows<double>;
  }
  return by_columns ? product_columns<float> : product_rows<float>;
}

void fold(double* total, void* part, Reg type, int64_t n) {
  if (type == Reg::kF64) {
    fold_of(total, static_cast<double*>(part), n);
  } else {
    fold_of(total, static_cast<float*>(part), n);
  }
}

}  // namespace yoke::cc::YOKE_CC_ISA
