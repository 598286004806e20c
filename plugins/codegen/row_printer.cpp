// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/row_printer.cpp: decides which threads compute a row and what they keep in registers.
#include "row_printer.h"

#include <algorithm>
#include <utility>

#include "general.h"

namespace yoke::codegen {

namespace {

constexpr std::uint64_t kMostInWarp = 1024;  // elements of a row that lanes of a warp share
constexpr std::uint64_t kMostAlone = 16;     // elements of a row that a thread computes alone
constexpr std::uint64_t kPerThread = 16;     // elements of a row that a thread of a block has, if it can
constexpr std::uint64_t kMostCached = 32;    // elements of a row that a thread keeps in registers, per tensor
// Registers of a thread, and of all threads of a block, that hold elements at the same time.
constexpr std::uint64_t kMostCachedAll = 96;
constexpr std::uint64_t kMostCachedInBlock = 32768;
constexpr std::uint32_t kWarpRowThreads = 128;

// Blocks of a kernel with sums of columns, by whether they have at least kWideThreads: enough to keep a GPU busy.
constexpr std::uint64_t kWideBlocks = 256;
constexpr std::uint64_t kNarrowBlocks = 512;
constexpr std::uint64_t kWideThreads = 512;

std::uint64_t divided_up(std::uint64_t count, std::uint64_t by) {
  return (count + by - 1) / by;
}

std::uint64_t power_of_two(std::uint64_t least) {
  std::uint64_t power = 1;
  while (power < least) {
    power *= 2;
  }
  return power;
}

}  // namespace

RowPrinter::RowPrinter(Builder& builder, const RowGroup& rows)
    : VectorPrinter(builder, rows.group, rows.rows.size()), rows_(rows) {
  const Target& target = builder.target();
  warp_ = target.warp_size;
  const std::uint64_t count = rows.inner_count();
  vectors_ = count / axes_.lanes;
  if (count <= kMostAlone) {
    per_row_ = 1;
  } else if (count <= kMostInWarp) {
    per_row_ = std::min<std::uint64_t>(power_of_two(vectors_), warp_);
  } else {
    const std::uint64_t most = power_of_two(target.max_threads + 1) / 2;
    per_row_ = std::clamp<std::uint64_t>(power_of_two(count / kPerThread), kWarpRowThreads, most);
    // Without a remainder, loads need no branches between them.
    for (std::uint64_t threads = per_row_; threads > per_row_ / 2 && threads >= kWarpRowThreads;
         threads -= warp_) {
      if (vectors_ % threads == 0) {
        per_row_ = threads;
        break;
      }
    }
  }
  threads_ = std::max<std::uint64_t>(per_row_, kWarpRowThreads);
  per_thread_ = (vectors_ + per_row_ - 1) / per_row_;
  const std::uint64_t in_block = threads_ / per_row_;
  if (!rows.columns.empty()) {
    const std::uint64_t blocks = threads_ >= kWideThreads ? kWideBlocks : kNarrowBlocks;
    rows_each_ = divided_up(rows.row_count(), in_block * blocks);
  }
  blocks_ = divided_up(rows.row_count(), in_block * rows_each_);
  is_partial_ = rows.row_count() % (in_block * rows_each_) != 0;
  make_phases();
  choose_caches();
  for (const std::size_t number : rows.columns) {
    const std::uint64_t bytes = program::byte_size(statement(number).accumulator_type());
    columns_.push_back({number, printer_.fresh("sums"), builder.scratch(blocks_ * count * bytes)});
  }
}

void RowPrinter::plan() {
  print_head();
  open_rows();
  print_row();
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    phases_[i].is_loop ? print_loop(i) : print_values(phases_[i]);
  }
  print_row_stores();
  close_rows();
  store_parts();
  Builder& builder = printer_.builder();
  Launch launch = printer_.launch();
  launch.kernel = builder.kernel(static_cast<std::uint32_t>(threads_), printer_.text());
  launch.grid[0] = static_cast<std::uint32_t>(blocks_);
  if (rows_.row_count() < 32 && rows_.inner_count() > 65536) {
    launch.remark = "few long rows: " + std::to_string(rows_.row_count()) + " blocks";
  }
  builder.launch(std::move(launch));
  fold_parts();
}

void RowPrinter::make_phases() {
  std::set<std::uint32_t> folded;  // tensors that reductions of the current loop write
  for (const std::size_t number : group_.statements) {
    const bool is_loop = !is_row_value(number);
    const std::vector<Touch> touches = touches_of(program_, number);
    const bool depends = std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
      return folded.contains(touch.access.tensor);
    });
    if (phases_.empty() || phases_.back().is_loop != is_loop || (is_loop && depends)) {
      phases_.push_back({is_loop, {}});
      folded.clear();
    }
    phases_.back().statements.push_back(number);
    if (statement(number).reduce) {
      folded.insert(statement(number).target.tensor);
    }
  }
}

std::size_t RowPrinter::phase_of(std::size_t number) const {
  const auto found = std::find_if(phases_.begin(), phases_.end(), [&](const Phase& phase) {
    return std::find(phase.statements.begin(), phase.statements.end(), number) != phase.statements.end();
  });
  return static_cast<std::size_t>(found - phases_.begin());
}

void RowPrinter::choose_caches() {
  const std::uint64_t elements = per_thread_ * axes_.lanes;
  std::vector<Cache> caches;
  std::vector<std::uint64_t> registers(phases_.size());  // in use between a phase and the next
  for (const Linear& one : axes_.linear) {
    const auto same = [&](const Cache& cache) { return same_element(cache.access, one); };
    if (!uses_inner_loops(one) || is_shared_by_rows(one) || std::any_of(caches.begin(), caches.end(), same)) {
      continue;
    }
    std::set<std::size_t> loops;
    for (const Linear& other : axes_.linear) {
      if (same_element(one, other) && uses_inner_loops(other)) {
        loops.insert(phase_of(other.touch->statement));
      }
    }
    // A row value that is written after it was read would make the cache wrong.
    const bool is_written_later =
        std::any_of(group_.touches.begin(), group_.touches.end(), [&](const Touch& touch) {
          return touch.is_write && touch.access.tensor == one.touch->access.tensor &&
                 (statement(touch.statement).reduce || is_row_value(touch.statement)) &&
                 phase_of(touch.statement) >= *loops.begin();
        });
    if (loops.size() > 1 && !is_written_later) {
      caches.push_back({one, {}, {}, false});
      const bool is_wide = program::byte_size(program_.tensors[one.touch->access.tensor].type) == 8;
      for (std::size_t phase = *loops.begin(); phase < *loops.rbegin(); ++phase) {
        registers[phase] += elements * (is_wide ? 2 : 1);
      }
    }
  }
  std::uint64_t most = registers.empty() ? 0 : *std::max_element(registers.begin(), registers.end());
  for (const std::size_t number : rows_.columns) {
    most += elements * divided_up(program::byte_size(statement(number).accumulator_type()), 4);
  }
  registers_ = std::min(kMostCachedAll, (rows_.columns.empty() ? 1 : 2) * kMostCachedInBlock / threads_);
  is_cached_ = elements <= kMostCached && most <= registers_;
  is_unrolled_ = is_cached_ || !rows_.columns.empty();
  if (is_cached_) {
    caches_ = std::move(caches);
    choose_loads_ahead(registers_ - most);
  }
}

RowPrinter::Cache* RowPrinter::cache_of(std::uint32_t tensor, const std::vector<program::Index>& indices) {
  const auto found = std::find_if(caches_.begin(), caches_.end(), [&](const Cache& cache) {
    return cache.access.touch->access.tensor == tensor && cache.access.touch->access.indices == indices;
  });
  return found == caches_.end() ? nullptr : &*found;
}

void RowPrinter::print_head() {
  const std::string in_block = std::to_string(threads_ / per_row_);
  const std::string per_row = std::to_string(per_row_);
  const std::string lane = per_row_ == threads_ ? "(int)threadIdx.x" : "(int)threadIdx.x % " + per_row;
  printer_.line("const int lane = " + (per_row_ == 1 ? "0" : lane) + ";");
  row_ = "(" + std::string(printer_.index_type()) + ")blockIdx.x";
  if (per_row_ != threads_) {
    row_ += " * " + in_block + " + (" + std::string(printer_.index_type()) + ")threadIdx.x / " + per_row;
  }
  row_axes_ =
      static_cast<std::size_t>(std::count_if(axes_.axes.begin(), axes_.axes.end(), [&](const Axis& axis) {
        return axis.loops.back() < rows_.rows.size();
      }));
  indices_.assign(std::max<std::size_t>(axes_.axes.size(), 1), "0");
  if (axes_.lanes > 1) {
    std::vector<Linear> vectors;
    for (const Linear& one : axes_.linear) {
      if (uses_inner_loops(one) && axes_.is_vector(one)) {
        vectors.push_back(one);
      }
    }
    print_alignment(vectors);
  }
}

// Threads without a row compute the last one, because all lanes of a warp take part in its folds.
void RowPrinter::print_row_number(const std::string& number) {
  printer_.line(std::string(printer_.index_type()) + " row = " + number + ";");
  if (is_partial_) {
    const std::uint64_t count = rows_.row_count();
    printer_.line("const bool active = row < " + std::to_string(count) + ";");
    printer_.line("if (!active) row = " + std::to_string(count - 1) + ";");
  }
  std::vector<std::uint64_t> extents;
  for (std::size_t i = 0; i < row_axes_; ++i) {
    extents.push_back(axes_.axes[i].extent);
  }
  const std::vector<std::string> names = split(printer_, "row", extents);
  std::copy(names.begin(), names.end(), indices_.begin());
}

void RowPrinter::print_row() {
  print_row_number(row_);
  for (Cache& cache : caches_) {
    cache.name = printer_.fresh("c");
    printer_.line(std::string(value_type(program_.tensors[cache.access.touch->access.tensor].type)) + " " +
                  cache.name + "[" + std::to_string(per_thread_ * axes_.lanes) + "];");
  }
  take_loaded();
}

void RowPrinter::print_values(const Phase& phase) {
  for (const std::size_t number : phase.statements) {
    select(number, "0");
    printer_.one_element();
    keep_row_values();
  }
}

void RowPrinter::keep_row_values() {
  for (Printer::Pending& one : printer_.take_pending()) {
    std::erase_if(row_values_, [&](const Printer::Pending& other) { return other.tensor == one.tensor; });
    row_values_.push_back(std::move(one));
  }
}

void RowPrinter::print_row_stores() {
  std::vector<const Printer::Pending*> stores;
  bool waits = false;
  for (const Printer::Pending& one : row_values_) {
    if (!private_.contains(one.tensor)) {
      stores.push_back(&one);
      waits = waits || std::any_of(group_.touches.begin(), group_.touches.end(), [&](const Touch& touch) {
                return !touch.is_write && touch.access.tensor == one.tensor;
              });
    }
  }
  if (stores.empty()) {
    return;
  }
  if (waits && per_row_ > 1) {
    printer_.line("YK_SYNC();");
  }
  printer_.open(is_partial_ ? "if (active && lane == 0)" : "if (lane == 0)");
  for (const Printer::Pending* one : stores) {
    printer_.line(printer_.tensor(one->tensor) + "[" + one->element +
                  "] = " + to_memory(program_.tensors[one->tensor].type, one->value) + ";");
  }
  printer_.close();
}

bool RowPrinter::is_shared_by_rows(const Linear& one) const {
  return rows_.row_count() > 1 &&
         std::all_of(one.coefficients.begin(),
                     one.coefficients.begin() + static_cast<std::ptrdiff_t>(rows_.rows.size()),
                     [](std::int64_t coefficient) { return coefficient == 0; });
}

bool RowPrinter::uses_inner_loops(const Linear& one) const {
  return !is_row_value(one.touch->statement) &&
         std::any_of(one.coefficients.begin() + static_cast<std::ptrdiff_t>(rows_.rows.size()),
                     one.coefficients.end(), [](std::int64_t coefficient) { return coefficient != 0; });
}

void plan_rows(Builder& builder, const RowGroup& rows) {
  builder.begin_step(rows.group.statements);
  RowPrinter(builder, rows).plan();
}

}  // namespace yoke::codegen
