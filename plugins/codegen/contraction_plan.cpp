// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/contraction_plan.cpp: picks the tiles of a product and adds its launches.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "contraction.h"
#include "matmul.h"

namespace yoke::codegen {
namespace {

using matmul::extent_of;
using matmul::Product;
using matmul::Tile;

struct Choice {
  Tile tile;
  double efficiency = 1;  // products per time on one multiprocessor, from the loads per product
};

constexpr Choice kTiles[] = {
    {{.rows = 128, .columns = 128, .depth = 16, .thread_rows = 8, .thread_columns = 8, .threads = 256}, 1.0},
    {{.rows = 64, .columns = 64, .depth = 16, .thread_rows = 4, .thread_columns = 4, .threads = 256}, 0.7},
    {{.rows = 128, .columns = 32, .depth = 16, .thread_rows = 4, .thread_columns = 4, .threads = 256}, 0.6},
    {{.rows = 32, .columns = 128, .depth = 16, .thread_rows = 4, .thread_columns = 4, .threads = 256}, 0.6},
    {{.rows = 32, .columns = 32, .depth = 16, .thread_rows = 4, .thread_columns = 4, .threads = 64}, 0.4},
    {{.rows = 64, .columns = 16, .depth = 16, .thread_rows = 4, .thread_columns = 4, .threads = 64}, 0.35},
    {{.rows = 16, .columns = 64, .depth = 16, .thread_rows = 4, .thread_columns = 4, .threads = 64}, 0.35},
};

// Tensor cores make about 8 times as many products in the same time.
constexpr Choice kUnitTiles[] = {
    {{.rows = 128, .columns = 128, .depth = 32, .thread_rows = 64, .thread_columns = 64, .threads = 128}, 8},
    {{.rows = 128, .columns = 64, .depth = 32, .thread_rows = 64, .thread_columns = 32, .threads = 128}, 6},
    {{.rows = 64, .columns = 64, .depth = 32, .thread_rows = 32, .thread_columns = 32, .threads = 128}, 4.5},
    {{.rows = 64, .columns = 32, .depth = 32, .thread_rows = 16, .thread_columns = 32, .threads = 128}, 3},
    {{.rows = 32, .columns = 64, .depth = 32, .thread_rows = 16, .thread_columns = 32, .threads = 128}, 3},
    {{.rows = 16, .columns = 64, .depth = 64, .thread_rows = 16, .thread_columns = 16, .threads = 128}, 1.5},
};

std::int64_t divided_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// The model counts products on a GPU of 132 multiprocessors. It must not depend on the device at hand, so that
// sums have the same parts everywhere.
void split_depth(const Product& product, Tile& tile, double efficiency, double& best, Tile& best_tile) {
  constexpr std::int64_t kProcessors = 132;
  constexpr std::int64_t kShortestPart = 128;
  constexpr std::int64_t kMostParts = 64;
  constexpr double kLaunch = 650e3;  // products in the time of a launch
  constexpr double kStart = 64;      // depth in the time in which a block starts and ends
  constexpr double kFold = 8;        // products in the time in which one element of a part moves
  const std::int64_t depth = extent_of(product.k);
  const std::int64_t results = extent_of(product.batch) * extent_of(product.m) * extent_of(product.n);
  const std::int64_t blocks = extent_of(product.batch) * divided_up(extent_of(product.m), tile.rows) *
                              divided_up(extent_of(product.n), tile.columns);
  for (std::int64_t parts = 1; parts <= kMostParts; parts *= 2) {
    tile.part_depth = divided_up(divided_up(depth, parts), tile.depth) * tile.depth;
    tile.parts = divided_up(depth, tile.part_depth);
    const double waves = static_cast<double>(divided_up(blocks * tile.parts, kProcessors));
    const double work =
        static_cast<double>(tile.rows * tile.columns) * (static_cast<double>(tile.part_depth) + kStart);
    const double fold =
        parts == 1 ? 0 : kLaunch + kFold * static_cast<double>(results * tile.parts) / kProcessors;
    const double cost = waves * work / efficiency + fold;
    if (cost < best) {
      best = cost;
      best_tile = tile;
    }
    if (tile.part_depth < 2 * kShortestPart || blocks * tile.parts >= 2 * kProcessors) {
      break;
    }
  }
}

Tile choose_tile(const Product& product, bool on_units) {
  double best = std::numeric_limits<double>::infinity();
  Tile best_tile;
  const std::span<const Choice> choices =
      on_units ? std::span<const Choice>(kUnitTiles) : std::span<const Choice>(kTiles);
  // The largest tile does not fit in shared memory in f64, nor in registers with loads of single halves.
  const bool is_limited = on_units ? !has_runs_of_8(product, true) || !has_runs_of_8(product, false)
                                   : product.sum == program::Type::kF64;
  for (const Choice& choice : choices) {
    if (!is_limited || choice.tile.rows * choice.tile.columns < 128 * 128) {
      Tile tile = choice.tile;
      tile.depth = product.sum == program::Type::kF64 ? 8 : tile.depth;  // more does not fit in registers
      split_depth(product, tile, choice.efficiency, best, best_tile);
    }
  }
  return best_tile;
}

// Why tiles do not pay, or null.
const char* too_small(const Product& product) {
  constexpr double kFewest = 4096;
  const std::int64_t m = extent_of(product.m);
  const std::int64_t n = extent_of(product.n);
  const std::int64_t k = extent_of(product.k);
  const std::int64_t batch = extent_of(product.batch);
  if (m == 1 || n == 1 || k == 1) {
    return "a factor is a vector";
  }
  if (static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(batch) <
      kFewest) {
    return "too few products";
  }
  constexpr double kMostBlocks = 1U << 30U;
  return static_cast<double>(batch) * static_cast<double>(m) / 16 * static_cast<double>(n) / 16 > kMostBlocks
             ? "too many blocks"
             : nullptr;
}

}  // namespace

bool plan_contraction(Builder& builder, const program::Statement& statement, std::string& why_not) {
  const auto product = matmul::recognize(builder.program(), statement, why_not);
  if (!product) {
    return false;
  }
  if (const char* reason = too_small(*product)) {
    why_not = reason;
    return false;
  }
  const std::int64_t m = extent_of(product->m);
  const std::int64_t n = extent_of(product->n);
  const std::int64_t batch = extent_of(product->batch);
  const bool on_units = matmul::has_matrix_units(*product, builder.target());
  const Tile tile = choose_tile(*product, on_units);
  const std::int64_t blocks = divided_up(m, tile.rows) * divided_up(n, tile.columns) * batch * tile.parts;
  if (blocks * tile.threads >= std::int64_t{1} << 32) {  // HIP allows no more threads
    why_not = "too many blocks";
    return false;
  }
  builder.function(std::string(matmul::helper_functions()));
  if (on_units) {
    builder.function(std::string(matmul::matrix_unit_functions()));
  }
  const auto add = [&](std::int64_t count, std::int64_t threads, const std::string& text,
                       std::vector<Slot> slots) {
    Launch launch;
    launch.kernel = builder.kernel(static_cast<std::uint32_t>(threads), text);
    launch.grid[0] = static_cast<std::uint32_t>(count);
    launch.slots = std::move(slots);
    launch.reads_symbols = product->uses(false);
    launch.reads_variable = product->uses(true);
    builder.launch(std::move(launch));
  };
  const std::int64_t results = batch * m * n;
  const Slot a = builder.slot(product->a.tensor);
  const Slot b = builder.slot(product->b.tensor);
  const Slot target = builder.slot(product->target);
  const Slot sums = tile.parts == 1 ? target
                                    : builder.scratch(static_cast<std::uint64_t>(tile.parts * results) *
                                                      program::byte_size(product->sum));
  add(blocks, tile.threads,
      on_units ? matmul::matrix_unit_kernel(*product, tile) : matmul::tile_kernel(*product, tile),
      {a, b, sums});
  if (tile.parts > 1) {
    add(divided_up(results, matmul::kFoldThreads), matmul::kFoldThreads, matmul::fold_kernel(*product, tile),
        {sums, target});
  }
  return true;
}

}  // namespace yoke::codegen
