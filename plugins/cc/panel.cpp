// SPDX-License-Identifier: Apache-2.0
// plugins/cc/panel.cpp: products of f32 matrices with one operand in the cache, and updates of their targets.
#include "panel.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace yoke::cc {

using program::Expr;
using program::Op;
using program::Program;
using program::Statement;
using program::Type;

namespace {

// The operand in panels must stay in the second-level cache.
constexpr std::int64_t kPanelBytes = std::int64_t{400} << 10;
constexpr std::int64_t kLargestDepth = 1024;
constexpr std::int64_t kLeastDepth = 16;
constexpr std::int64_t kLeastColumns = 16;
// oneDNN packs the rows; with more columns, that pays. With several threads it packs them more often.
constexpr std::int64_t kMostPackedColumns = 64;
constexpr std::int64_t kMostSharedColumns = 128;
// Each thread packs the panels; this many blocks of rows per thread make up for it.
constexpr std::int64_t kBlocksPerThread = 4;
// Of an update.
constexpr std::int64_t kLeastRows = 8;
// With fewer blocks of rows per thread, threads divide the panels too.
constexpr std::int64_t kManyBlocksPerThread = 16;

constexpr std::int64_t kWidest = 32;

bool is_read_of(const Expr& expr, std::uint32_t tensor) {
  return expr.op == Op::kRead && expr.access.tensor == tensor;
}

}  // namespace

std::optional<ScaledUpdate> recognize_update(const Program& program, const Statement& contraction,
                                             const Contraction& shape, const Statement& next) {
  const std::uint32_t sum = contraction.target.tensor;
  const std::uint32_t target = next.target.tensor;
  if (contraction.assign != program::Assign::kSet || next.assign != program::Assign::kSet || next.reduce ||
      next.repeat != contraction.repeat || next.value.op != Op::kSub || next.value.type != Type::kF32 ||
      target == sum || next.loops.size() + contraction.reduce_loops.size() != contraction.loops.size()) {
    return std::nullopt;
  }
  const Expr& old = next.value.args[0];
  const Expr& product = next.value.args[1];
  if (!is_read_of(old, target) || old.access.indices != next.target.indices || product.op != Op::kMul) {
    return std::nullopt;
  }
  for (const std::size_t place : {std::size_t{0}, std::size_t{1}}) {
    const Expr& scale = product.args[place];
    const Expr& factor = product.args[1 - place];
    const bool is_scalar = scale.op == Op::kRead && scale.access.indices.empty() &&
                           scale.access.tensor != target && scale.access.tensor != sum;
    if (!is_read_of(factor, sum) || factor.access.indices != contraction.target.indices ||
        (!is_scalar && scale.op != Op::kConst)) {
      continue;
    }
    ScaledUpdate update{{target, Type::kF32, linear_form(program, next, next.target)}};
    if (is_scalar) {
      update.scale = {scale.access.tensor, Type::kF32, linear_form(program, next, scale.access)};
    } else {
      update.constant = static_cast<float>(scale.literal.number);
    }
    for (std::size_t i = 0; i < next.loops.size(); ++i) {
      if (next.loops[i].extent != contraction.loops[i].extent ||
          (next.loops[i].extent > 1 && update.target.form.loops[i] != shape.t.form.loops[i])) {
        return std::nullopt;
      }
    }
    return update;
  }
  return std::nullopt;
}

std::optional<BiasAdd> recognize_relu(const Program& program, const Statement& contraction,
                                      const Contraction& shape, const Statement& next) {
  const auto is_zero = [](const Expr& expr) {
    return expr.op == Op::kConst && expr.literal.number == 0 && !std::signbit(expr.literal.number);
  };
  if (next.value.op != Op::kMax || next.value.type != Type::kF32 || !is_zero(next.value.args[1])) {
    return std::nullopt;
  }
  Statement sum = next;
  sum.value = Expr(next.value.args[0]);
  return recognize_bias(program, contraction, shape, sum);
}

std::unique_ptr<const PanelProduct> PanelProduct::make(const Contraction& c, const KernelTable& table,
                                                       int threads, bool is_update) {
  const auto is_f32 = [](const Operand& operand) { return operand.type == Type::kF32; };
  if (table.panel.rows == 0 || c.type != Type::kF32 || !is_f32(c.a) || !is_f32(c.b) || !is_f32(c.t) ||
      c.assign != program::Assign::kSet || !c.batch.empty() || c.m.size() != 1 || c.n.size() != 1 ||
      c.k.size() != 1) {
    return nullptr;
  }
  const Axis& k = c.k[0];
  const Side m{c.m[0].extent, c.m[0].a, k.a, c.m[0].t};
  const Side n{c.n[0].extent, c.n[0].b, k.b, c.n[0].t};
  const bool columns_are_a = is_update ? n.t != 1 : m.extent < n.extent;
  const Side& columns = columns_are_a ? m : n;
  const Side& rows = columns_are_a ? n : m;
  if (columns.extent < kLeastColumns || k.extent < kLeastDepth || k.extent > kLargestDepth ||
      columns.extent * k.extent * static_cast<std::int64_t>(sizeof(float)) > kPanelBytes) {
    return nullptr;
  }
  // The update reads and writes whole panels. Otherwise oneDNN is faster unless it must transpose an operand.
  const bool is_faster =
      is_update ? columns.t == 1 && columns.stride == 1 && rows.extent >= kLeastRows
                : rows.step == 1 && columns.step == 1 && rows.stride != 1 && columns.stride != 1 &&
                      columns.extent <= (threads > 1 ? kMostSharedColumns : kMostPackedColumns) &&
                      rows.extent >= kBlocksPerThread * table.panel.rows * threads;
  if (!is_faster) {
    return nullptr;
  }
  return std::unique_ptr<const PanelProduct>(
      new PanelProduct(table.panel, rows, columns, columns_are_a, k.extent, threads));
}

PanelProduct::PanelProduct(const PanelKernels& kernels, const Side& rows, const Side& columns,
                           bool columns_are_a, std::int64_t depth, int threads)
    : kernels_(kernels),
      rows_(rows),
      columns_(columns),
      columns_are_a_(columns_are_a),
      depth_(depth),
      is_short_(rows.extent < kernels.rows),
      row_blocks_((rows.extent + kernels.rows - 1) / kernels.rows) {
  for (std::int64_t column = 0; column < columns.extent;) {
    Panel panel{0, kWidest, column};
    while (panel.kernel < 3 && column + panel.width > columns.extent) {
      panel.width /= 2;
      ++panel.kernel;
    }
    panel.used = std::min(panel.width, columns.extent - column);
    if (columns.stride != 1 || panel.used != panel.width) {
      panel.packed = packed_count_;
      packed_count_ += panel.width * depth;
    }
    column += panel.used;
    panels_.push_back(panel);
  }
  if (row_blocks_ < kManyBlocksPerThread * threads) {
    panel_groups_ = static_cast<std::int64_t>(panels_.size());
  }
}

std::uint64_t PanelProduct::scratch_byte_count() const {
  return static_cast<std::uint64_t>(packed_count_ + kernels_.rows * kWidest + packed_rows()) * sizeof(float);
}

void PanelProduct::pack(const Panel& panel, const Operands& of) const {
  if (panel.packed < 0) {
    return;
  }
  const float* from = of.columns + panel.column * columns_.stride;
  float* to = of.scratch + panel.packed;
  if (columns_.step == 1) {
    kernels_.pack(to, from, columns_.stride, panel.used, panel.width, depth_);
    return;
  }
  for (std::int64_t p = 0; p < depth_; ++p, to += panel.width) {
    std::fill(std::copy_n(from + p * columns_.step, panel.used, to), to + panel.width, 0.0F);
  }
}

void PanelProduct::pack_rows(const float* operand, float* packed) const {
  const std::int64_t padding = kernels_.rows - rows_.extent;
  for (std::int64_t p = 0; p < depth_; ++p, packed += kernels_.rows) {
    std::fill_n(packed, padding, 0.0F);
    for (std::int64_t i = 0; i < rows_.extent; ++i) {
      packed[padding + i] = operand[i * rows_.stride + p * rows_.step];
    }
  }
}

void PanelProduct::run(const PanelArguments& arguments, float* scratch, std::int64_t first,
                       std::int64_t last) const {
  const float* columns = columns_are_a_ ? arguments.a : arguments.b;
  const float* rows = columns_are_a_ ? arguments.b : arguments.a;
  float* const sums = scratch + packed_count_;
  float* const short_rows = sums + kernels_.rows * kWidest;
  if (is_short_) {
    pack_rows(rows, short_rows);
  }
  const Operands of{
      is_short_ ? short_rows : rows, columns, arguments.t, arguments.scale, arguments.bias, scratch, sums};
  if (panel_groups_ == 1) {
    for (const Panel& panel : panels_) {
      pack(panel, of);
    }
  }
  for (std::int64_t piece = first; piece < last; ++piece) {
    if (panel_groups_ == 1) {
      for (const Panel& panel : panels_) {
        run_block(panel, piece, of);
      }
      continue;
    }
    const Panel& panel = panels_[static_cast<std::size_t>(piece / row_blocks_)];
    if (piece == first || piece % row_blocks_ == 0) {
      pack(panel, of);
    }
    run_block(panel, piece % row_blocks_, of);
  }
}

void PanelProduct::run_block(const Panel& panel, std::int64_t row_block, const Operands& of) const {
  // The last block also computes rows of the previous one, or padding, but does not store them.
  const std::int64_t row = std::min(row_block * kernels_.rows, rows_.extent - kernels_.rows);
  const std::int64_t skipped = row_block * kernels_.rows - row;
  float* out = of.t + row * rows_.t + panel.column * columns_.t;
  const bool is_direct = columns_.t == 1 && panel.used == panel.width;
  const PanelBlock block{.depth = depth_,
                         .rows = is_short_ ? of.rows : of.rows + row * rows_.stride,
                         .row_stride = is_short_ ? 1 : rows_.stride,
                         .row_step = is_short_ ? kernels_.rows : rows_.step,
                         .panel = panel.packed >= 0 ? of.scratch + panel.packed : of.columns + panel.column,
                         .panel_step = panel.packed >= 0 ? panel.width : columns_.step,
                         .out = is_direct ? out : of.sums,
                         .out_stride = is_direct ? rows_.t : panel.width,
                         .skipped = is_direct ? skipped : 0,
                         .scale = is_direct ? of.scale : nullptr};
  kernels_.block[panel.kernel](block);
  if (is_direct) {
    return;
  }
  if (is_transposed() && of.scale == nullptr) {
    kernels_.store_transposed({.out = out,
                               .out_stride = columns_.t,
                               .sums = of.sums,
                               .width = panel.width,
                               .columns = panel.used,
                               .skipped = skipped,
                               .bias = of.bias == nullptr ? nullptr : of.bias + row,
                               .is_relu = of.bias != nullptr});
    return;
  }
  for (std::int64_t i = skipped; i < kernels_.rows; ++i) {
    for (std::int64_t j = 0; j < panel.used; ++j) {
      const float sum = of.sums[i * panel.width + j];
      float& place = out[i * rows_.t + j * columns_.t];
      place = of.scale == nullptr ? sum : place - *of.scale * sum;
    }
  }
}

}  // namespace yoke::cc
