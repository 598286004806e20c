// SPDX-License-Identifier: Apache-2.0
// plugins/cc/panel.cpp: products of f32 matrices with one operand in the cache, and updates of their targets.
#include "panel.h"

#include <algorithm>
#include <span>
#include <utility>

namespace yoke::cc {

using program::Type;

namespace {

// A group of panels stays in the second-level cache.
constexpr std::int64_t kGroupBytes = std::int64_t{400} << 10;
constexpr std::int64_t kLargestDepth = 2048;
constexpr std::int64_t kLeastDepth = 16;
constexpr std::int64_t kLeastColumns = 16;
// oneDNN packs both operands. For large products, PanelProduct packs faster if both are transposed; for few
// columns it does not pack the rows.
constexpr std::int64_t kLargeProduct = std::int64_t{1} << 24;
constexpr std::int64_t kFewColumns = 128;
// This many blocks of rows per thread make up for packing the panels.
constexpr std::int64_t kBlocksPerThread = 4;
// For updates of weights.
constexpr std::int64_t kLeastRows = 8;

constexpr std::int64_t kWidest = 32;
constexpr std::int64_t kLine = 16;  // floats of a cache line
// Places in PanelKernels::block.
constexpr std::size_t kFourColumns = 3;
constexpr std::size_t kFourTerms = 4;
// How many terms of the summed loop one piece of the packing has: whole vectors.
constexpr std::int64_t kPackedDepth = 16;

// Whether lines at this distance, in floats, compete for a few sets of the caches.
bool is_crowded(std::int64_t distance) {
  return distance * static_cast<std::int64_t>(sizeof(float)) % 2048 == 0;
}

// Packs a panel for kFourTerms. Missing columns and terms are 0.
void pack_terms(const float* from, std::int64_t stride, std::int64_t columns, std::int64_t depth, float* to) {
  std::fill_n(to, (depth + 3) / 4 * 16, 0.0F);
  for (std::int64_t column = 0; column < columns; ++column) {
    for (std::int64_t p = 0; p < depth; ++p) {
      to[p / 4 * 16 + column * 4 + p % 4] = from[column * stride + p];
    }
  }
}

}  // namespace

std::unique_ptr<const PanelProduct> PanelProduct::make(const Contraction& c, const KernelTable& table,
                                                       int threads, bool is_update) {
  const auto is_f32 = [](const Operand& operand) { return operand.type == Type::kF32; };
  if (table.panel == nullptr || c.type != Type::kF32 || !is_f32(c.a) || !is_f32(c.b) || !is_f32(c.t) ||
      c.assign != program::Assign::kSet || !c.batch.empty() || c.m.size() != 1 || c.n.size() != 1 ||
      c.k.size() != 1) {
    return nullptr;
  }
  const Axis& k = c.k[0];
  const Side m{c.m[0].extent, c.m[0].a, k.a, c.m[0].t};
  const Side n{c.n[0].extent, c.n[0].b, k.b, c.n[0].t};
  const bool transposes = m.step == 1 && n.step == 1 && m.stride != 1 && n.stride != 1;
  // Panels are contiguous in the target, unless only the smaller operand should be packed.
  const bool is_small = std::min(m.extent, n.extent) <= kFewColumns;
  const bool columns_are_a = !is_update && is_small && m.extent < n.extent;
  const Side& columns = columns_are_a ? m : n;
  const Side& rows = columns_are_a ? n : m;
  if (columns.extent < kLeastColumns || k.extent < kLeastDepth || k.extent > kLargestDepth) {
    return nullptr;
  }
  const bool is_large = c.multiplications() >= kLargeProduct && columns.t == 1;
  const bool is_faster = is_update ? columns.stride == 1 && columns.t == 1 && rows.extent >= kLeastRows
                                   : transposes && (is_small || is_large) &&
                                         rows.extent >= kBlocksPerThread * table.panel->rows * threads;
  if (!is_faster) {
    return nullptr;
  }
  return std::unique_ptr<const PanelProduct>(
      new PanelProduct(*table.panel, rows, columns, columns_are_a, k.extent));
}

PanelProduct::PanelProduct(const PanelKernels& kernels, const Side& rows, const Side& columns,
                           bool columns_are_a, std::int64_t depth)
    : kernels_(kernels),
      rows_(rows),
      columns_(columns),
      columns_are_a_(columns_are_a),
      depth_(depth),
      is_short_(rows.extent < kernels.rows),
      packs_rows_(is_short_ ||
                  (rows.stride == 1 ? is_crowded(rows.step) : rows.step == 1 && is_crowded(rows.stride))),
      row_blocks_((rows.extent + kernels.rows - 1) / kernels.rows) {
  const std::int64_t bytes = kWidest * depth * static_cast<std::int64_t>(sizeof(float));
  group_size_ = static_cast<std::size_t>(std::max<std::int64_t>(kGroupBytes / bytes, 1));
  std::int64_t packed = 0;
  for (std::int64_t column = 0; column < columns.extent;) {
    Panel panel{0, kWidest, 4, column};
    while (panel.kernel < kFourColumns && column + panel.width > columns.extent) {
      panel.width /= 2;
      panel.cost = std::max<std::int64_t>(panel.cost / 2, 1);
      ++panel.kernel;
    }
    panel.used = std::min(panel.width, columns.extent - column);
    if (panel.kernel == kFourColumns && columns.step == 1 && rows.step == 1 && !packs_rows_) {
      panel.kernel = kFourTerms;
    }
    packed = panels_.size() % group_size_ == 0 ? 0 : packed;
    if (panel.kernel == kFourTerms || columns.stride != 1 || panel.used != panel.width ||
        is_crowded(columns.step)) {
      panel.packed = packed;
      packed += panel.width * ((depth + 3) / 4 * 4);
      group_count_ = std::max(group_count_, packed);
    }
    column += panel.used;
    cost_ += panel.cost;
    panels_.push_back(panel);
  }
}

std::uint64_t PanelProduct::scratch_byte_count() const {
  return static_cast<std::uint64_t>(group_count_ + kernels_.rows * kWidest) * sizeof(float);
}

std::uint64_t PanelProduct::shared_byte_count() const {
  return packs_rows_ ? static_cast<std::uint64_t>(row_blocks_ * kernels_.rows * depth_) * sizeof(float) : 0;
}

std::int64_t PanelProduct::pack_count() const {
  return packs_rows_ ? (depth_ + kPackedDepth - 1) / kPackedDepth : 0;
}

std::int64_t PanelProduct::first_row(std::int64_t row_block) const {
  return std::min(row_block * kernels_.rows, rows_.extent - kernels_.rows);
}

PanelProduct::Group PanelProduct::group_from(std::size_t first) const {
  return std::span(panels_).subspan(first, std::min(group_size_, panels_.size() - first));
}

void PanelProduct::pack(const PanelArguments& arguments, float* shared, std::int64_t first,
                        std::int64_t last) const {
  const float* rows = columns_are_a_ ? arguments.b : arguments.a;
  const std::int64_t begin = first * kPackedDepth;
  const std::int64_t end = std::min(last * kPackedDepth, depth_);
  if (is_short_) {
    pack_short_rows(rows, shared, begin, end);
    return;
  }
  // Reads lines in the order of the memory as far as possible.
  const std::int64_t together = rows_.step == 1 ? end - begin : kPackedDepth;
  for (std::int64_t p = begin; p < end; p += together) {
    for (std::int64_t block = 0; block < row_blocks_; ++block) {
      kernels_.pack({.to = shared + (block * depth_ + p) * kernels_.rows,
                     .from = rows + first_row(block) * rows_.stride + p * rows_.step,
                     .stride = rows_.stride,
                     .step = rows_.step,
                     .lines = kernels_.rows,
                     .width = kernels_.rows,
                     .depth = std::min(together, end - p)});
    }
  }
}

void PanelProduct::pack_short_rows(const float* rows, float* to, std::int64_t begin, std::int64_t end) const {
  const std::int64_t padding = kernels_.rows - rows_.extent;
  for (std::int64_t p = begin; p < end; ++p) {
    float* const packed = to + p * kernels_.rows;
    std::fill_n(packed, padding, 0.0F);
    for (std::int64_t i = 0; i < rows_.extent; ++i) {
      packed[padding + i] = rows[i * rows_.stride + p * rows_.step];
    }
  }
}

void PanelProduct::pack_group(Group group, const Operands& of) const {
  const std::int64_t together = columns_.step == 1 ? depth_ : kPackedDepth;
  for (std::int64_t p = 0; p < depth_; p += together) {
    for (const Panel& panel : group) {
      if (panel.kernel == kFourTerms) {
        pack_terms(of.columns + panel.column * columns_.stride, columns_.stride, panel.used, depth_,
                   of.group + panel.packed);
      } else if (panel.packed >= 0) {
        kernels_.pack({.to = of.group + panel.packed + p * panel.width,
                       .from = of.columns + panel.column * columns_.stride + p * columns_.step,
                       .stride = columns_.stride,
                       .step = columns_.step,
                       .lines = panel.used,
                       .width = panel.width,
                       .depth = std::min(together, depth_ - p)});
      }
    }
  }
}

void PanelProduct::run(const PanelArguments& arguments, const float* shared, float* scratch,
                       std::int64_t first, std::int64_t last) const {
  const Operands of{.rows = columns_are_a_ ? arguments.b : arguments.a,
                    .packed_rows = shared,
                    .columns = columns_are_a_ ? arguments.a : arguments.b,
                    .group = scratch,
                    .sums = scratch + group_count_,
                    .t = arguments.t,
                    .scale = arguments.scale,
                    .bias = arguments.bias,
                    .is_relu = arguments.is_relu};
  std::int64_t start = 0;  // of the group
  for (std::size_t begin = 0; begin < panels_.size() && start < last; begin += group_size_) {
    const Group group = group_from(begin);
    std::int64_t cost = 0;  // of the group and one block of rows
    for (const Panel& panel : group) {
      cost += panel.cost;
    }
    const std::int64_t end = start + cost * row_blocks_;
    if (first < end) {
      pack_group(group, of);
    }
    for (std::int64_t block = std::max<std::int64_t>(first - start, 0) / cost; block < row_blocks_; ++block) {
      std::int64_t at = start + block * cost;
      for (std::size_t i = 0; i < group.size() && at < last; at += group[i++].cost) {
        if (at >= first) {
          run_block(group, i, block, of);
        }
      }
    }
    start = end;
  }
}

// The last blocks of a group prefetch the next group, 16 columns each; the others prefetch the next rows.
std::pair<const float*, std::int64_t> PanelProduct::ahead_of(Group group, std::size_t number,
                                                             std::int64_t row_block,
                                                             const Operands& of) const {
  const auto size = static_cast<std::int64_t>(group.size());
  const std::int64_t rest = (row_blocks_ - row_block) * size - static_cast<std::int64_t>(number) - 1;
  const std::int64_t next = group.back().column + group.back().used + rest * kLine;
  if (packs_rows_ && rest * kLine < size * kWidest && next < columns_.extent) {
    return {of.columns + next * columns_.stride, columns_.step == 1 ? kLine : columns_.step};
  }
  if (packs_rows_ && row_block + 1 < row_blocks_) {
    return {of.packed_rows + (row_block + 1) * kernels_.rows * depth_, kernels_.rows};
  }
  return {nullptr, 0};
}

void PanelProduct::run_block(Group group, std::size_t number, std::int64_t row_block,
                             const Operands& of) const {
  const Panel& panel = group[number];
  // The last block also computes rows of the previous one, or padding, but does not store them.
  const std::int64_t row = first_row(row_block);
  const std::int64_t skipped = row_block * kernels_.rows - row;
  float* out = of.t + row * rows_.t + panel.column * columns_.t;
  const bool is_direct = columns_.t == 1 && panel.used == panel.width && panel.kernel != kFourTerms;
  const float* packed_rows = of.packed_rows + row_block * kernels_.rows * depth_;
  const auto [ahead, ahead_step] = ahead_of(group, number, row_block, of);
  const PanelBlock block{.depth = depth_,
                         .rows = packs_rows_ ? packed_rows : of.rows + row * rows_.stride,
                         .row_stride = packs_rows_ ? 1 : rows_.stride,
                         .row_step = packs_rows_ ? kernels_.rows : rows_.step,
                         .panel = panel.packed >= 0 ? of.group + panel.packed : of.columns + panel.column,
                         .panel_step = panel.packed >= 0 ? panel.width : columns_.step,
                         .out = is_direct ? out : of.sums,
                         .out_stride = is_direct ? rows_.t : panel.width,
                         .skipped = is_direct ? skipped : 0,
                         .scale = is_direct ? of.scale : nullptr,
                         .bias = is_direct && of.bias != nullptr ? of.bias + panel.column : nullptr,
                         .is_relu = of.is_relu,
                         .ahead = ahead,
                         .ahead_step = ahead_step};
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
                               .is_relu = of.is_relu});
    return;
  }
  for (std::int64_t i = skipped; i < kernels_.rows; ++i) {
    for (std::int64_t j = 0; j < panel.used; ++j) {
      const float sum = of.sums[i * panel.width + j];
      float& place = out[i * rows_.t + j * columns_.t];
      if (of.bias != nullptr) {
        const float value = sum + of.bias[panel.column + j];
        place = of.is_relu && value <= 0 ? 0 : value;
      } else {
        place = of.scale == nullptr ? sum : place - *of.scale * sum;
      }
    }
  }
}

}  // namespace yoke::cc
