// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/product.cpp: sums of products of two tensors, from packed panels.
#include <yoke/program/access.h>

#include <algorithm>
#include <array>
#include <optional>

#include "../bugs.h"
#include "kernel.h"

namespace yoke::strip {

using handmade::bug;
using program::Assign;

namespace {

constexpr std::uint64_t kTileRows = 4;
constexpr std::uint64_t kTileColumns = 8;
constexpr std::uint64_t kRows = 64;      // of the first operand in a packed block
constexpr std::uint64_t kColumns = 256;  // of the second operand
constexpr std::uint64_t kDepth = 256;    // of both

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// The loops of a product: c[.., m, n] = sum[k] a[.., m, k] * b[.., k, n], with any strides.
struct Roles {
  std::uint32_t m = 0;
  std::uint32_t n = 0;
  std::uint32_t k = 0;
  std::vector<std::uint32_t> outer;
};

// The stride of the second operand along the reduction.
std::int64_t depth_stride(const program::Program& program, const program::Access& access, const Place& place,
                          std::uint32_t k) {
  if (bug("unit_coefficient")) {
    const std::vector<std::uint64_t> strides = program::strides_of(program.tensors[access.tensor]);
    for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
      for (const program::Affine::Term& term : access.indices[dim].affine.terms) {
        if (!term.is_symbol && term.id == k) {
          return static_cast<std::int64_t>(strides[dim]);
        }
      }
    }
  }
  return place.stride(k);
}

template <class T>
class Product final : public Kernel {
 public:
  Product(const program::Program& program, const program::Statement& statement, Roles roles)
      : loops_(statement.loops),
        roles_(std::move(roles)),
        is_set_(statement.assign == Assign::kSet),
        a_(program, statement, statement.value.args[0].access),
        b_(program, statement, statement.value.args[1].access),
        c_(program, statement, statement.target),
        b_depth_(depth_stride(program, statement.value.args[1].access, b_, roles_.k)) {
    const std::uint64_t m = loops_[roles_.m].extent;
    const std::uint64_t depth = std::min(kDepth, loops_[roles_.k].extent);
    const std::uint64_t rows = std::min(kRows, bug("panel_rounding") ? m : rounded_up(m, kTileRows));
    const std::uint64_t columns = std::min(kColumns, rounded_up(loops_[roles_.n].extent, kTileColumns));
    b_size_ = columns * depth;
    scratch_bytes_ = (b_size_ + rows * depth) * sizeof(T);
  }

  void run(const Launch& launch) const override {
    Frame frame{&launch, std::vector<std::int64_t>(loops_.size()), 0, 1};
    std::uint64_t count = 1;
    for (const std::uint32_t loop : roles_.outer) {
      count *= loops_[loop].extent;
    }
    Packed packed;
    for (std::uint64_t number = 0; number < count; ++number) {
      set_counters(loops_, roles_.outer, number, frame.counters);
      if (bug("tile_reused") && is_set_) {
        run_by_tiles(frame);
      } else {
        run_one(frame, packed);
      }
    }
  }

 private:
  struct Size {
    std::uint64_t rows;
    std::uint64_t columns;
    std::uint64_t depth;
  };
  // What the panels of b were packed from. Blocks of different sizes may start at the same element.
  struct Packed {
    const T* block = nullptr;
    std::uint64_t columns = 0;
    std::uint64_t depth = 0;
  };

  struct Matrix {
    T* first;
    std::int64_t row_stride;
    std::int64_t column_stride;
  };

  void run_one(const Frame& frame, Packed& packed) const {
    const auto* const a = static_cast<const T*>(a_.address(frame));
    const auto* const b = static_cast<const T*>(b_.address(frame));
    auto* const c = static_cast<T*>(c_.address(frame));
    auto* const b_panels = static_cast<T*>(frame.launch->scratch);
    T* const a_panels = b_panels + b_size_;
    const std::uint64_t m = loops_[roles_.m].extent;
    const std::uint64_t n = loops_[roles_.n].extent;
    const std::uint64_t k = loops_[roles_.k].extent;
    for (std::uint64_t n0 = 0; n0 < n; n0 += kColumns) {
      for (std::uint64_t k0 = 0; k0 < k; k0 += kDepth) {
        const Size size{0, std::min(kColumns, n - n0), std::min(kDepth, k - k0)};
        const T* const b_block = b + distance(n0, b_.stride(roles_.n)) + distance(k0, b_depth_);
        Pending packing;
        if (!is_packed(packed, {b_block, size.columns, size.depth}, n, k)) {
          const auto pack_b = [=, this] {
            pack(b_block, b_.stride(roles_.n), b_depth_, size.columns, size.depth, kTileColumns, b_panels);
          };
          if (bug("panel_unwaited")) {  // with it only: the products need the panels
            packing.add();
            frame.launch->pool->submit([&packing, pack_b] {
              pack_b();
              packing.remove();
            });
          } else {
            pack_b();
          }
          packed = {b_block, size.columns, size.depth};
        }
        const auto run_rows = [&](std::uint64_t m0) {
          const Size block{std::min(kRows, m - m0), size.columns, size.depth};
          const T* const base = m0 != 0 && bug("second_block_base")
                                    ? static_cast<const T*>(frame.launch->tensors[a_.tensor()])
                                    : a;
          pack(base + distance(m0, a_.stride(roles_.m)) + distance(k0, a_.stride(roles_.k)),
               a_.stride(roles_.m), a_.stride(roles_.k), block.rows, block.depth, kTileRows, a_panels);
          multiply(a_panels, b_panels, block, k0 == 0 && is_set_, block_of(c, m0, n0));
        };
        const std::uint64_t threads = m > kRows && bug("shared_panel") ? 2 : 1;
        const auto run_part = [&](int part) {
          for (std::uint64_t m0 = static_cast<std::uint64_t>(part) * kRows; m0 < m; m0 += threads * kRows) {
            run_rows(m0);
          }
        };
        if (threads == 1) {
          run_part(0);
        } else {
          frame.launch->pool->parallel(2, run_part);  // each part needs its own a_panels
        }
        packing.wait();
      }
    }
  }

  Matrix block_of(T* c, std::uint64_t m0, std::uint64_t n0) const {
    return {c + distance(m0, c_.stride(roles_.m)) + distance(n0, c_.stride(roles_.n)), c_.stride(roles_.m),
            c_.stride(roles_.n)};
  }

  // Computes blocks of the target in a tile, which another thread copies. With the bug tile_reused only: the next block
  // must wait until the tile is free.
  void run_by_tiles(const Frame& frame) const {
    const auto* const a = static_cast<const T*>(a_.address(frame));
    const auto* const b = static_cast<const T*>(b_.address(frame));
    auto* const c = static_cast<T*>(c_.address(frame));
    auto* const b_panels = static_cast<T*>(frame.launch->scratch);
    T* const a_panels = b_panels + b_size_;
    std::vector<T> tile(kRows * kColumns);
    Pending copies;
    const std::uint64_t k = loops_[roles_.k].extent;
    for (std::uint64_t n0 = 0; n0 < loops_[roles_.n].extent; n0 += kColumns) {
      for (std::uint64_t m0 = 0; m0 < loops_[roles_.m].extent; m0 += kRows) {
        Size size{std::min(kRows, loops_[roles_.m].extent - m0),
                  std::min(kColumns, loops_[roles_.n].extent - n0), 0};
        for (std::uint64_t k0 = 0; k0 < k; k0 += kDepth) {
          size.depth = std::min(kDepth, k - k0);
          pack(b + distance(n0, b_.stride(roles_.n)) + distance(k0, b_depth_), b_.stride(roles_.n), b_depth_,
               size.columns, size.depth, kTileColumns, b_panels);
          pack(a + distance(m0, a_.stride(roles_.m)) + distance(k0, a_.stride(roles_.k)), a_.stride(roles_.m),
               a_.stride(roles_.k), size.rows, size.depth, kTileRows, a_panels);
          multiply(a_panels, b_panels, size, k0 == 0, {tile.data(), static_cast<std::int64_t>(kColumns), 1});
        }
        copies.add();
        frame.launch->pool->submit([&tile, &copies, size, to = block_of(c, m0, n0)] {
          for (std::uint64_t i = 0; i < size.rows; ++i) {
            for (std::uint64_t j = 0; j < size.columns; ++j) {
              to.first[distance(i, to.row_stride) + distance(j, to.column_stride)] = tile[i * kColumns + j];
            }
          }
          copies.remove();
        });
      }
    }
    copies.wait();
  }

  bool is_packed(const Packed& packed, const Packed& wanted, std::uint64_t n, std::uint64_t k) const {
    if (bug("packed_batch") && packed.block != nullptr && !roles_.outer.empty() && n <= kColumns &&
        k <= kDepth && b_.stride(roles_.outer[0]) == 0) {
      return true;
    }
    if (packed.block == wanted.block && bug("packed_by_address")) {
      return true;
    }
    return packed.block == wanted.block && packed.columns == wanted.columns && packed.depth == wanted.depth;
  }

  static std::int64_t distance(std::uint64_t count, std::int64_t stride) {
    return static_cast<std::int64_t>(count) * stride;
  }

  // Copies `width` rows or columns of `depth` elements to panels of `tile`; the last panel is filled up with zeros.
  static void pack(const T* from, std::int64_t stride, std::int64_t depth_stride, std::uint64_t width,
                   std::uint64_t depth, std::uint64_t tile, T* to) {
    for (std::uint64_t first = 0; first < width; first += tile) {
      for (std::uint64_t d = 0; d < depth; ++d) {
        for (std::uint64_t i = first; i < first + tile; ++i) {
          *to++ = i < width ? from[distance(i, stride) + distance(d, depth_stride)] : T{0};
        }
      }
    }
  }

  void multiply(const T* a, const T* b, const Size& size, bool is_first, const Matrix& c) const {
    for (std::uint64_t j = 0; j < size.columns; j += kTileColumns) {
      for (std::uint64_t i = 0; i < size.rows; i += kTileRows) {
        std::array<std::array<T, kTileColumns>, kTileRows> sums{};
        const T* a_at = a + i * size.depth;
        const T* b_at = b + j * size.depth;
        for (std::uint64_t d = 0; d < size.depth; ++d, a_at += kTileRows, b_at += kTileColumns) {
          for (std::size_t row = 0; row < kTileRows; ++row) {
            for (std::size_t column = 0; column < kTileColumns; ++column) {
              sums[row][column] += a_at[row] * b_at[column];
            }
          }
        }
        for (std::uint64_t row = i; row < std::min(i + kTileRows, size.rows); ++row) {
          for (std::uint64_t column = j; column < std::min(j + kTileColumns, size.columns); ++column) {
            T& element = c.first[distance(row, c.row_stride) + distance(column, c.column_stride)];
            const bool is_edge = j + kTileColumns > size.columns && is_set_ && bug("edge_depth");
            element = (is_first || is_edge ? T{0} : element) + sums[row - i][column - j];
          }
        }
      }
    }
  }

  std::vector<program::Loop> loops_;
  Roles roles_;
  bool is_set_;
  Place a_;
  Place b_;
  Place c_;
  std::int64_t b_depth_;
  std::uint64_t b_size_ = 0;
};

std::optional<Roles> roles_of(const program::Program& program, const program::Statement& statement) {
  const Place a(program, statement, statement.value.args[0].access);
  const Place b(program, statement, statement.value.args[1].access);
  Roles roles;
  roles.k = statement.reduce_loops[0];
  bool has_m = false;
  bool has_n = false;
  for (auto loop = static_cast<std::uint32_t>(statement.loops.size()); loop-- > 0;) {
    if (statement.reduces(loop)) {
      continue;
    }
    if (!has_m && a.stride(loop) != 0 && b.stride(loop) == 0) {
      roles.m = loop;
      has_m = true;
    } else if (!has_n && a.stride(loop) == 0 && b.stride(loop) != 0) {
      roles.n = loop;
      has_n = true;
    } else {
      roles.outer.insert(roles.outer.begin(), loop);
    }
  }
  return has_m && has_n ? std::optional(roles) : std::nullopt;
}

}  // namespace

std::unique_ptr<Kernel> make_product(const program::Program& program, const program::Statement& statement) {
  const program::Expr& value = statement.value;
  const Type type = value.type;
  if (statement.reduce != program::Reduce::kSum || statement.reduce_loops.size() != 1 ||
      value.op != Op::kMul || (type != Type::kF32 && type != Type::kF64) ||
      statement.accumulator_type() != type || program.tensors[statement.target.tensor].type != type ||
      (statement.assign != Assign::kSet && statement.assign != Assign::kAdd)) {
    return nullptr;
  }
  for (const program::Expr& arg : value.args) {
    if (arg.op != Op::kRead || arg.access.tensor == statement.target.tensor ||
        program::may_be_out_of_range(program, statement, arg.access)) {
      return nullptr;
    }
  }
  const std::optional<Roles> roles = roles_of(program, statement);
  if (!roles) {
    return nullptr;
  }
  if (type == Type::kF32) {
    return std::make_unique<Product<float>>(program, statement, *roles);
  }
  return std::make_unique<Product<double>>(program, statement, *roles);
}

}  // namespace yoke::strip
