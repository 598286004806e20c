// SPDX-License-Identifier: Apache-2.0
// plugins/cc/gemm.cpp: contractions that oneDNN does not support: any strides, f64, 16-bit floats, integers.
#include "gemm.h"

#include <yoke/program/execute.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tile/op_map.h"

namespace yoke::cc {

using program::Type;

namespace {

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

// How a type is stored, and its values in memory.
template <class T>
struct Plain {
  using Stored = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
struct F16 {
  using Stored = std::uint16_t;
  static float load(std::uint16_t bits) { return program::f16_to_f32(bits); }
  static std::uint16_t store(float value) { return program::f32_to_f16(value); }
};
struct BF16 {
  using Stored = std::uint16_t;
  static float load(std::uint16_t bits) { return program::bf16_to_f32(bits); }
  static std::uint16_t store(float value) { return program::f32_to_bf16(value); }
};

// Calls `use` with a value of the type that stores a tensor's elements.
template <class Use>
void with_stored(Type type, const Use& use) {
  if (type == Type::kF16) {
    use(F16{});
  } else if (type == Type::kBF16) {
    use(BF16{});
  } else {
    with_type(reg_of(type), [&](auto zero) { use(Plain<decltype(zero)>{}); });
  }
}

// Packs lines (rows of a, columns of b) in panels of `width` lines. A panel stores one element of each line
// for each depth. The last panel is padded with zeros.
template <class From, class To>
void pack_lines(const std::byte* from, std::span<const std::int64_t> lines,
                std::span<const std::int64_t> depth, std::int64_t width, std::byte* to) {
  const auto* source = reinterpret_cast<const typename From::Stored*>(from);
  auto* target = reinterpret_cast<To*>(to);
  const auto count = static_cast<std::int64_t>(lines.size());
  for (std::int64_t first = 0; first < count; first += width) {
    const std::int64_t used = std::min(width, count - first);
    for (const std::int64_t at : depth) {
      for (std::int64_t i = 0; i < used; ++i) {
        target[i] = static_cast<To>(From::load(source[at + lines[static_cast<std::size_t>(first + i)]]));
      }
      std::fill(target + used, target + width, To{});
      target += width;
    }
  }
}

template <class T>
T combined(program::Assign assign, T old, T value) {
  // Sums and products of integers wrap, so they are computed as unsigned.
  using Wraps =
      typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  switch (assign) {
    case program::Assign::kAdd:
      return static_cast<T>(static_cast<Wraps>(old) + static_cast<Wraps>(value));
    case program::Assign::kMul:
      return static_cast<T>(static_cast<Wraps>(old) * static_cast<Wraps>(value));
    case program::Assign::kMax:
      return old > value || old != old ? old : value;
    case program::Assign::kMin:
      return old < value || old != old ? old : value;
    default:
      return value;
  }
}

// Rounds sums of type S to the target's type and combines them with the target in this type.
template <class S, class To>
void store_row(std::byte* t, const std::byte* sums, std::span<const std::int64_t> at,
               program::Assign assign) {
  using Value = decltype(To::load({}));
  auto* target = reinterpret_cast<typename To::Stored*>(t);
  const auto* source = reinterpret_cast<const S*>(sums);
  for (std::size_t i = 0; i < at.size(); ++i) {
    auto& place = target[at[i]];
    const Value value = To::load(To::store(static_cast<Value>(source[i])));
    place = To::store(combined(assign, To::load(place), value));
  }
}

}  // namespace

Gemm::Offsets Gemm::offsets_of(const std::vector<Axis>& axes) {
  Offsets offsets{{0}, {0}, {0}};
  const auto grow = [](std::vector<std::int64_t>& list, std::int64_t extent, std::int64_t stride) {
    std::vector<std::int64_t> grown;
    grown.reserve(list.size() * static_cast<std::size_t>(extent));
    for (const std::int64_t outer : list) {
      for (std::int64_t i = 0; i < extent; ++i) {
        grown.push_back(outer + i * stride);
      }
    }
    list = std::move(grown);
  };
  for (const Axis& axis : axes) {
    grow(offsets.a, axis.extent, axis.a);
    grow(offsets.b, axis.extent, axis.b);
    grow(offsets.t, axis.extent, axis.t);
  }
  return offsets;
}

Gemm::Gemm(const Contraction& contraction, const KernelTable& table)
    : shape_(contraction),
      size_(reg_size(reg_of(contraction.type))),
      block_(table.block_product(reg_of(contraction.type))),
      batch_(offsets_of(contraction.batch)),
      m_(offsets_of(contraction.m)),
      n_(offsets_of(contraction.n)),
      k_(offsets_of(contraction.k)) {
  const auto m = static_cast<std::int64_t>(m_.a.size());
  const auto n = static_cast<std::int64_t>(n_.a.size());
  const auto k = static_cast<std::int64_t>(k_.a.size());
  block_rows_ = std::min(round_up(m, block_.rows), round_up(96, block_.rows));
  block_columns_ = std::min(round_up(n, block_.columns), std::int64_t{512});
  block_depth_ = std::min(k, std::int64_t{256});
  batch_count_ = extent_of(contraction.batch);
  row_blocks_ = (m + block_rows_ - 1) / block_rows_;
  const auto bytes = [&](std::int64_t elements) { return round_up(elements * size_, 64); };
  scratch_byte_count_ =
      static_cast<std::uint64_t>(bytes(block_rows_ * block_columns_) + bytes(block_rows_ * block_depth_) +
                                 bytes(block_columns_ * block_depth_));
}

void Gemm::pack(const Operand& operand, const std::byte* from, std::span<const std::int64_t> lines,
                std::span<const std::int64_t> depth, std::int64_t width, std::byte* to) const {
  with_type(reg_of(shape_.type), [&](auto sum) {
    with_stored(operand.type, [&](auto stored) {
      pack_lines<decltype(stored), decltype(sum)>(from, lines, depth, width, to);
    });
  });
}

void Gemm::multiply(const std::byte* a, const std::byte* b, std::byte* sums, std::int64_t rows,
                    std::int64_t columns, std::int64_t depth) const {
  for (std::int64_t j = 0; j < columns; j += block_.columns) {
    for (std::int64_t i = 0; i < rows; i += block_.rows) {
      block_.run(depth, a + i * depth * size_, b + j * depth * size_, sums + (i * block_columns_ + j) * size_,
                 block_columns_);
    }
  }
}

void Gemm::store(std::byte* t, const std::byte* sums, std::int64_t row, std::int64_t rows,
                 std::int64_t column, std::int64_t columns) const {
  const auto size = static_cast<std::int64_t>(program::byte_size(shape_.t.type));
  const std::span<const std::int64_t> at(n_.t.data() + column, static_cast<std::size_t>(columns));
  for (std::int64_t i = 0; i < rows; ++i) {
    std::byte* target = t + m_.t[static_cast<std::size_t>(row + i)] * size;
    const std::byte* source = sums + i * block_columns_ * size_;
    with_type(reg_of(shape_.type), [&](auto sum) {
      with_stored(shape_.t.type, [&](auto stored) {
        store_row<decltype(sum), decltype(stored)>(target, source, at, shape_.assign);
      });
    });
  }
}

void Gemm::piece(const std::byte* a, const std::byte* b, std::byte* t, std::byte* scratch, std::int64_t row,
                 std::int64_t rows) const {
  std::byte* sums = scratch;
  std::byte* packed_a = sums + round_up(block_rows_ * block_columns_ * size_, 64);
  std::byte* packed_b = packed_a + round_up(block_rows_ * block_depth_ * size_, 64);
  const auto n = static_cast<std::int64_t>(n_.b.size());
  const auto k = static_cast<std::int64_t>(k_.a.size());
  const auto slice = [](const std::vector<std::int64_t>& list, std::int64_t first, std::int64_t count) {
    return std::span<const std::int64_t>(list.data() + first, static_cast<std::size_t>(count));
  };
  for (std::int64_t column = 0; column < n; column += block_columns_) {
    const std::int64_t columns = std::min(block_columns_, n - column);
    std::memset(sums, 0, static_cast<std::size_t>(block_rows_ * block_columns_ * size_));
    for (std::int64_t depth = 0; depth < k; depth += block_depth_) {
      const std::int64_t deep = std::min(block_depth_, k - depth);
      pack(shape_.a, a, slice(m_.a, row, rows), slice(k_.a, depth, deep), block_.rows, packed_a);
      pack(shape_.b, b, slice(n_.b, column, columns), slice(k_.b, depth, deep), block_.columns, packed_b);
      multiply(packed_a, packed_b, sums, rows, columns, deep);
    }
    store(t, sums, row, rows, column, columns);
  }
}

void Gemm::run(const std::byte* a, const std::byte* b, std::byte* t, std::byte* scratch, std::int64_t first,
               std::int64_t last) const {
  const auto m = static_cast<std::int64_t>(m_.a.size());
  const auto bytes = [](Type type) { return static_cast<std::int64_t>(program::byte_size(type)); };
  for (std::int64_t i = first; i < last; ++i) {
    const auto batch = static_cast<std::size_t>(i / row_blocks_);
    const std::int64_t row = i % row_blocks_ * block_rows_;
    piece(a + batch_.a[batch] * bytes(shape_.a.type), b + batch_.b[batch] * bytes(shape_.b.type),
          t + batch_.t[batch] * bytes(shape_.t.type), scratch, row, std::min(block_rows_, m - row));
  }
}

}  // namespace yoke::cc
