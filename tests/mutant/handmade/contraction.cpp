// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/contraction.cpp: batches of matrix products, from packed panels of 4 rows and
// 8 columns.
//
// The loops of a statement become the batch, the rows (loops of the target and the first operand), the columns
// (of the target and the second operand) and the reduction. Tables hold the offset of each, so any order of
// dimensions and any stride works. The sum of an element runs in loop order, in blocks of 128 terms.
#include <bit>

#include "kernels.h"

namespace yoke::handmade {

// Offsets in elements, relative to the first element of the tensor's walk.
struct Plan {
  using Table = std::vector<std::int64_t>;
  struct Side {
    Table batch, outer, depth;   // `outer`: rows or columns
    bool is_contiguous = false;  // along the reduction
  };
  Side a, b;
  Table c_batch, c_row, c_column;
  bool adds = false;

  std::int64_t batches() const { return static_cast<std::int64_t>(c_batch.size()); }
  std::int64_t rows() const { return static_cast<std::int64_t>(c_row.size()); }
  std::int64_t columns() const { return static_cast<std::int64_t>(c_column.size()); }
  std::int64_t depth() const { return static_cast<std::int64_t>(a.depth.size()); }
  // Whether the product of a tensor with itself is a symmetric matrix.
  bool is_symmetric() const { return a.batch == b.batch && a.outer == b.outer && a.depth == b.depth; }
};

namespace {

using program::Statement;
using program::Type;

constexpr std::int64_t kPanelRows = 4;
constexpr std::int64_t kPanelColumns = 8;
constexpr std::int64_t kRows = 32;  // of a block
constexpr std::int64_t kColumns = 64;
constexpr std::int64_t kDepth = 128;
constexpr std::uint64_t kMaxEntries = 1 << 22;  // of all tables

// Which table a loop belongs to.
enum class Part { kBatch, kRow, kColumn, kReduced };

struct Shape {
  const Statement& statement;
  Walk a, b, c;

  Part part(std::uint32_t loop) const {
    if (statement.reduces(loop)) {
      return Part::kReduced;
    }
    const bool in_a = a.strides[loop] != 0;
    return in_a == (b.strides[loop] != 0) ? Part::kBatch : in_a ? Part::kRow : Part::kColumn;
  }
  std::uint64_t count(Part which) const {
    std::uint64_t product = 1;
    for (std::uint32_t i = 0; i < statement.loops.size(); ++i) {
      product *= part(i) == which ? statement.loops[i].extent : 1;
      if (product > kMaxEntries) {
        return product;
      }
    }
    return product;
  }
  Plan::Table table(Part which, const Walk& walk) const {
    Plan::Table offsets = {0};
    for (std::uint32_t loop = 0; loop < statement.loops.size(); ++loop) {
      const bool is_free = a.strides[loop] == 0 && b.strides[loop] == 0;
      if (part(loop) != which || (which == Part::kBatch && is_free && bug("free_loop"))) {
        continue;
      }
      Plan::Table next;
      for (const std::int64_t offset : offsets) {
        for (std::uint64_t i = 0; i < statement.loops[loop].extent; ++i) {
          next.push_back(offset + static_cast<std::int64_t>(i) * walk.strides[loop]);
        }
      }
      offsets = std::move(next);
    }
    return offsets;
  }
  Plan::Side side(Part outer, const Walk& walk) const {
    Plan::Side side{table(Part::kBatch, walk), table(outer, walk), table(Part::kReduced, walk)};
    const std::size_t checked =
        bug("contiguous_guess") ? std::min<std::size_t>(2, side.depth.size()) : side.depth.size();
    side.is_contiguous = true;
    for (std::size_t i = 1; i < checked; ++i) {
      const std::int64_t step = side.depth[i] - side.depth[i - 1];
      side.is_contiguous = side.is_contiguous && (step == 1 || (step == -1 && bug("reversed_contiguous")));
    }
    if (bug("index16")) {
      for (std::int64_t& offset : side.depth) {
        offset = static_cast<std::uint16_t>(offset);
      }
    }
    return side;
  }
  std::string key() const {
    std::string text = bug("cache_key") ? "" : statement.assign == program::Assign::kAdd ? "+" : "=";
    for (std::uint32_t i = 0; i < statement.loops.size(); ++i) {
      const auto extent = static_cast<std::int64_t>(statement.loops[i].extent);
      for (const std::int64_t number :
           {bug("cache_extents") ? std::int64_t{0} : extent, a.strides[i], b.strides[i],
            bug("plan_target") ? 0 : c.strides[i], std::int64_t{statement.reduces(i)}}) {
        text += std::to_string(number) + ',';
      }
    }
    return text;
  }
};

// The nearest number with 10 bits of fraction, as matrix units round the operands of f32.
float to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::isfinite(value) ? std::bit_cast<float>((bits + 0xfffU + (bits >> 13 & 1U)) & ~0x1fffU) : value;
}

// One launch. T: type of the operands and the target; Sum: of the accumulators; Term: of the terms.
template <class T, class Sum, class Term>
class Product {
 public:
  static constexpr std::uint64_t kScratch =
      sizeof(T) * kDepth * (kRows + kColumns) + sizeof(Sum) * kRows * kColumns;

  // `is_packed`: the panel of the second operand is still in the scratch memory.
  Product(const Plan& plan, const T* a, const T* b, T* c, std::byte* scratch, bool is_packed)
      : plan_(plan), a_(a), b_(b), c_(c), is_packed_(is_packed) {
    is_tf32_ = std::is_same_v<Sum, float> && bug("tf32_products") && plan.rows() % 16 == 0 &&
               plan.columns() % 8 == 0 && plan.depth() % 8 == 0;  // the shapes of a matrix unit
    sums_ = reinterpret_cast<Sum*>(scratch);
    a_panel_ = reinterpret_cast<T*>(sums_ + kRows * kColumns);
    b_panel_ = a_panel_ + kDepth * kRows;
  }

  void run() {
    for (std::int64_t batch = 0; batch < plan_.batches(); ++batch) {
      for (std::int64_t column = 0; column < plan_.columns(); column += kColumns) {
        for (std::int64_t row = 0; row < plan_.rows(); row += kRows) {
          block(batch, row, column);
        }
      }
    }
  }
  // Copies the half of the target below the diagonal to the other half.
  void mirror() {
    for (std::int64_t batch = 0; batch < plan_.batches(); ++batch) {
      T* const target = c_ + plan_.c_batch[at(batch)];
      for (std::int64_t i = 0; i < plan_.rows(); ++i) {
        for (std::int64_t j = i + 1; j < plan_.columns(); ++j) {
          target[plan_.c_row[at(i)] + plan_.c_column[at(j)]] =
              target[plan_.c_row[at(j)] + plan_.c_column[at(i)]];
        }
      }
    }
  }

 private:
  void block(std::int64_t batch, std::int64_t row, std::int64_t column) {
    const std::int64_t rows = std::min(kRows, plan_.rows() - row);
    const std::int64_t columns = std::min(kColumns, plan_.columns() - column);
    if (row == 0 || !bug("not_zeroed")) {
      std::fill_n(sums_, kRows * kColumns, Sum{0});
    }
    for (std::int64_t from = 0; from < plan_.depth(); from += kDepth) {
      const std::int64_t depth = std::min(kDepth, plan_.depth() - from);
      const std::int64_t rest =
          bug("block_edge") ? (plan_.rows() - 1) % kPanelRows + 1 : (rows - 1) % kPanelRows + 1;
      pack<kPanelRows>(plan_.a, a_ + plan_.a.batch[at(batch)], row, rows, rest, from, depth, a_panel_);
      const bool is_later = row > 0 || (column > 0 && bug("column_reuse"));
      const bool is_kept = is_later && (plan_.depth() <= kDepth || bug("panel_reuse"));
      if (!is_kept && !is_packed_) {
        const auto& stride_of = batch > 0 && bug("batch_stride") ? plan_.a : plan_.b;
        pack<kPanelColumns>(plan_.b, b_ + stride_of.batch[at(batch)], column, columns,
                            (columns - 1) % kPanelColumns + 1, from, depth, b_panel_);
      }
      for (std::int64_t j = 0; j < columns; j += kPanelColumns) {
        for (std::int64_t i = 0; i < rows; i += kPanelRows) {
          multiply_panels(a_panel_ + i * padded(depth), b_panel_ + j * padded(depth), padded(depth),
                          sums_ + i * kColumns + j);
        }
      }
    }
    store(c_ + plan_.c_batch[at(batch)], row, rows, column, columns);
  }

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  // The terms in a panel. With the bug pad_times_stale, those beyond `depth` are 0 in panels of rows only; before a
  // launch, the contents of a workspace are undefined.
  static std::int64_t padded(std::int64_t depth) {
    return bug("pad_times_stale") ? (depth + 3) / 4 * 4 : depth;
  }

  // Copies `count` rows or columns to panels of `Width`, depth after depth. The last panel has `rest` of them
  // and is filled up with zeros.
  template <std::int64_t Width>
  void pack(const Plan::Side& side, const T* source, std::int64_t first, std::int64_t count,
            std::int64_t rest, std::int64_t from, std::int64_t depth, T* panel) const {
    const std::int64_t depth_block = bug("depth_block") ? 0 : from;
    for (std::int64_t i = 0; i < count; i += Width, panel += Width * padded(depth)) {
      if (Width == kPanelRows) {
        std::fill(panel + depth * Width, panel + padded(depth) * Width, T{0});
      }
      const std::int64_t used = i + Width < count ? Width : rest;
      for (std::int64_t lane = 0; lane < Width; ++lane) {
        const T* line = lane < used && i + lane < count ? source + side.outer[at(first + i + lane)] : nullptr;
        const T* contiguous = line != nullptr && side.is_contiguous ? line + side.depth[at(from)] : nullptr;
        const bool is_cut = contiguous != nullptr && from > 0 && bug("contiguous_tail");
        for (std::int64_t k = 0; k < (is_cut ? depth / 4 * 4 : depth); ++k) {
          const T value = contiguous != nullptr ? contiguous[k]
                          : line != nullptr     ? line[side.depth[at(depth_block + k)]]
                                                : T{0};
          // With the bug tf32_products only: an operation rounds its result, not its operands.
          panel[k * Width + lane] = is_tf32_ ? static_cast<T>(to_tf32(static_cast<float>(value))) : value;
        }
      }
    }
  }

  static void multiply_panels(const T* a, const T* b, std::int64_t depth, Sum* sums) {
    std::array<std::array<Sum, kPanelColumns>, kPanelRows> tile{};
    const bool skips = bug("zero_shortcut");
    const auto term = [&](std::int64_t k) {
      for (std::size_t i = 0; i < kPanelRows; ++i) {
        const T left = a[k * kPanelRows + static_cast<std::int64_t>(i)];
        if (skips && left == 0) {
          continue;
        }
        for (std::size_t j = 0; j < kPanelColumns; ++j) {
          const T right = b[k * kPanelColumns + static_cast<std::int64_t>(j)];
          tile[i][j] += static_cast<Sum>(static_cast<Term>(left) * static_cast<Term>(right));
        }
      }
    };
    std::int64_t k = 0;
    for (; k + 4 <= depth; k += 4) {
      term(k);
      term(k + 1);
      term(k + 2);
      term(k + 3);
    }
    const std::int64_t groups = k / 4;
    for (; k < depth - (bug("k_tail") ? 1 : 0); ++k) {
      term(bug("tail_in_vectors") ? groups + k % 4 : k);  // with it only: a group has 4 terms
    }
    for (std::size_t i = 0; i < kPanelRows; ++i) {
      for (std::size_t j = 0; j < kPanelColumns; ++j) {
        sums[i * kColumns + j] += tile[i][j];
      }
    }
  }

  void store(T* target, std::int64_t row, std::int64_t rows, std::int64_t column,
             std::int64_t columns) const {
    const std::int64_t edge = columns - columns % kPanelColumns;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        T& element = target[plan_.c_row[at(row + i)] + plan_.c_column[at(column + j)]];
        const T sum = static_cast<T>(sums_[i * kColumns + j]);
        const T kept = bug("beta_nan") ? 0 * element : T{0};
        element = (plan_.adds && (j < edge || !bug("edge_accumulate")) ? element : kept) + sum;
      }
    }
  }

  const Plan& plan_;
  const T* a_;
  const T* b_;
  T* c_;
  bool is_packed_;
  bool is_tf32_;
  Sum* sums_;
  T* a_panel_;
  T* b_panel_;
};

class ContractionKernel final : public Kernel {
 public:
  ContractionKernel(std::shared_ptr<const Plan> plan, const Shape& shape, Type type, Type accumulator,
                    bool is_constant)
      : plan_(std::move(plan)),
        a_(shape.a),
        b_(shape.b),
        c_(shape.c),
        type_(type),
        accumulator_(accumulator),
        has_constant_panel_(is_constant && plan_->batches() == 1 && plan_->columns() <= kColumns &&
                            plan_->depth() <= kDepth) {}

  std::uint64_t scratch_byte_count() const override {
    return bug("f32_workspace") ? Product<float, float, float>::kScratch
                                : Product<double, double, double>::kScratch;
  }
  void run(const Launch& launch) const override {
    if (type_ == Type::kF64) {
      run_typed<double, double, double>(launch);
    } else if (accumulator_ == Type::kF64 && !bug("f32_accumulator")) {
      run_typed<float, double, float>(launch);
    } else if (kSumsAreWide) {
      run_typed<float, double, double>(launch);
    } else {
      run_typed<float, float, float>(launch);
    }
  }

 private:
  template <class T, class Sum, class Term>
  void run_typed(const Launch& launch) const {
    const bool is_packed = bug("stale_panel") && has_constant_panel_ && !launch.is_first;
    const T* const a = a_.base<const T>(launch);
    const T* const b = a_.tensor == b_.tensor && bug("same_operand") ? a : b_.base<const T>(launch);
    Product<T, Sum, Term> product(*plan_, a, b, c_.base<T>(launch), launch.scratch, is_packed);
    product.run();
    if (bug("symmetric_update") && a == b && a_.tensor == b_.tensor && plan_->is_symmetric()) {
      product.mirror();
    }
  }

  std::shared_ptr<const Plan> plan_;
  Walk a_, b_, c_;
  Type type_;
  Type accumulator_;
  bool has_constant_panel_;
};

// The three walks, if the statement is a contraction.
std::optional<Shape> shape_of(const program::Program& program, const Statement& statement) {
  const program::Expr& value = statement.value;
  const Type type = value.type;
  if (statement.reduce != program::Reduce::kSum || value.op != program::Op::kMul ||
      (type != Type::kF32 && type != Type::kF64) || program.tensors[statement.target.tensor].type != type ||
      (statement.accumulator_type() != type && statement.accumulator_type() != Type::kF64) ||
      (statement.assign != program::Assign::kSet && statement.assign != program::Assign::kAdd)) {
    return std::nullopt;
  }
  const auto walk = [&](const program::Expr& expr) -> std::optional<Walk> {
    const bool is_other = expr.op == program::Op::kRead && expr.access.tensor != statement.target.tensor;
    return is_other ? walk_of(program, statement, expr.access) : std::nullopt;
  };
  std::optional<Walk> a = walk(value.args[0]);
  std::optional<Walk> b = walk(value.args[1]);
  std::optional<Walk> c = walk_of(program, statement, statement.target);
  if (!a || !b || !c) {
    return std::nullopt;
  }
  return Shape{statement, std::move(*a), std::move(*b), std::move(*c)};
}

}  // namespace

std::shared_ptr<const Plan> PlanCache::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(key);
  return found == plans_.end() ? nullptr : found->second;
}

void PlanCache::add(const std::string& key, std::shared_ptr<const Plan> plan) {
  constexpr std::size_t kCapacity = 64;
  const std::lock_guard lock(mutex_);
  if (plans_.size() >= kCapacity) {
    plans_.clear();
  }
  plans_.insert_or_assign(key, std::move(plan));
}

std::unique_ptr<Kernel> contraction_kernel(const program::Program& program, const Statement& statement,
                                           PlanCache& cache) {
  const std::optional<Shape> shape = shape_of(program, statement);
  if (!shape) {
    return nullptr;
  }
  std::uint64_t entries = 0;
  for (const Part part : {Part::kBatch, Part::kRow, Part::kColumn, Part::kReduced}) {
    entries += shape->count(part);
  }
  if (entries > kMaxEntries || shape->count(Part::kRow) * shape->count(Part::kColumn) == 1) {
    return nullptr;
  }
  const std::string key = shape->key();
  std::shared_ptr<const Plan> plan = cache.find(key);
  if (plan == nullptr) {
    auto made = std::make_shared<Plan>();
    made->a = shape->side(Part::kRow, shape->a);
    made->b = shape->side(Part::kColumn, shape->b);
    made->c_batch = shape->table(Part::kBatch, shape->c);
    made->c_row = shape->table(Part::kRow, shape->c);
    made->c_column = shape->table(Part::kColumn, shape->c);
    made->adds = statement.assign == program::Assign::kAdd;
    plan = std::move(made);
    cache.add(key, plan);
  }
  const bool is_constant = program.tensors[shape->b.tensor].role == program::Role::kIn;
  return std::make_unique<ContractionKernel>(std::move(plan), *shape, statement.value.type,
                                             statement.accumulator_type(), is_constant);
}

}  // namespace yoke::handmade
