// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/contraction_plan.cpp: picks the tiles of a product and adds its launches.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "contraction.h"
#include "group.h"
#include "library_product.h"
#include "matmul.h"
#include "printer.h"

namespace yoke::codegen {
namespace {

using matmul::extent_of;
using matmul::Product;
using matmul::Tile;
using matmul::Unit;

struct Choice {
  Tile tile;
  double efficiency = 1;  // relative speed of one multiprocessor, from the loads per product
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

// Matrix units compute about 8 times as many products per second. The threads are for warps of 32 lanes.
constexpr Choice kUnitTiles[] = {
    {{.rows = 128, .columns = 128, .depth = 32, .thread_rows = 64, .thread_columns = 64, .threads = 128}, 8},
    {{.rows = 128, .columns = 64, .depth = 32, .thread_rows = 64, .thread_columns = 32, .threads = 128}, 6},
    {{.rows = 64, .columns = 64, .depth = 32, .thread_rows = 32, .thread_columns = 32, .threads = 128}, 4.5},
    {{.rows = 64, .columns = 32, .depth = 32, .thread_rows = 16, .thread_columns = 32, .threads = 128}, 3},
    {{.rows = 32, .columns = 64, .depth = 32, .thread_rows = 16, .thread_columns = 32, .threads = 128}, 3},
    {{.rows = 16, .columns = 64, .depth = 64, .thread_rows = 16, .thread_columns = 16, .threads = 128}, 1.5},
};

// For wgmma, which reads fewer bytes of shared memory for each product.
constexpr Choice kWgmmaTiles[] = {
    {{.rows = 128, .columns = 256, .depth = 64, .threads = 256, .is_wgmma = true}, 12},
    {{.rows = 128, .columns = 128, .depth = 64, .threads = 256, .is_wgmma = true}, 10},
    {{.rows = 64, .columns = 128, .depth = 64, .threads = 128, .is_wgmma = true}, 6.5},
    {{.rows = 128, .columns = 64, .depth = 64, .threads = 256, .is_wgmma = true}, 6.5},
};

std::int64_t divided_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Chooses the number of parts of each sum by a model that counts products on a GPU with `processors` multiprocessors.
void split_depth(const Product& product, std::int64_t processors, Tile tile, double efficiency, double& best,
                 Tile& best_tile) {
  constexpr std::int64_t kShortestPart = 128;
  constexpr std::int64_t kMostParts = 64;
  constexpr double kLaunch = 650e3;  // products in the time that a launch takes
  constexpr double kStart = 64;      // depth in the time that a block takes to start and end
  constexpr double kFold = 8;        // products in the time that moving an element of a part takes
  const std::int64_t depth = extent_of(product.k);
  const std::int64_t results = extent_of(product.batch) * extent_of(product.m) * extent_of(product.n);
  const std::int64_t blocks = extent_of(product.batch) * divided_up(extent_of(product.m), tile.rows) *
                              divided_up(extent_of(product.n), tile.columns);
  for (std::int64_t parts = 1; parts <= kMostParts; parts *= 2) {
    tile.part_depth = divided_up(divided_up(depth, parts), tile.depth) * tile.depth;
    tile.parts = divided_up(depth, tile.part_depth);
    const double waves = static_cast<double>(divided_up(blocks * tile.parts, processors));
    const double work =
        static_cast<double>(tile.rows * tile.columns) * (static_cast<double>(tile.part_depth) + kStart);
    const double fold = parts == 1 ? 0
                                   : kLaunch + kFold * static_cast<double>(results * tile.parts) /
                                                   static_cast<double>(processors);
    const double cost = waves * work / efficiency + fold;
    if (cost < best) {
      best = cost;
      best_tile = tile;
    }
    if (tile.part_depth < 2 * kShortestPart || blocks * tile.parts >= 2 * processors) {
      break;
    }
  }
}

// The same part of the results for warps of 64 lanes, with at least 16 bytes of each factor for every thread.
Tile with_wide_warps(Tile tile) {
  tile.threads *= 2;
  while (std::min(tile.rows, tile.columns) * tile.depth < 8 * tile.threads) {
    tile.depth *= 2;
  }
  return tile;
}

Tile choose_tile(const Product& product, const Target& target, Unit unit) {
  const std::int64_t processors = target.processors;
  const bool on_units = unit != Unit::kNone;
  double best = std::numeric_limits<double>::infinity();
  Tile best_tile;
  const std::span<const Choice> choices =
      on_units ? std::span<const Choice>(kUnitTiles) : std::span<const Choice>(kTiles);
  // The largest tile does not fit in shared memory in f64, nor in registers with loads of single halves.
  const bool is_limited = on_units ? !has_runs_of_8(product, true) || !has_runs_of_8(product, false)
                                   : product.sum == program::Type::kF64;
  const std::int64_t largest = unit == Unit::kWmma ? 8192 : 16384;  // which has fewer registers
  for (const Choice& choice : choices) {
    if (!is_limited || choice.tile.rows * choice.tile.columns < largest) {
      Tile tile = unit == Unit::kMfma ? with_wide_warps(choice.tile) : choice.tile;
      tile.depth = product.sum == program::Type::kF64 ? 8 : tile.depth;  // more does not fit in registers
      split_depth(product, processors, tile, choice.efficiency, best, best_tile);
    }
  }
  if (matmul::can_use_wgmma(product, target)) {
    for (const Choice& choice : kWgmmaTiles) {
      split_depth(product, processors, choice.tile, choice.efficiency, best, best_tile);
    }
  }
  return best_tile;
}

int cost_of(const program::Expr& expr) {
  int cost = program::op_info(expr.op).cost;
  for (const program::Expr& arg : expr.args) {
    cost += cost_of(arg);
  }
  return cost;
}

// Returns why tiles are not worthwhile, or null.
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

// How many statements after the first can use each sum as soon as it is computed.
std::size_t count_followers(const program::Program& program, std::span<const std::size_t> statements,
                            const Product& product) {
  constexpr std::size_t kMost = 6;
  constexpr int kMostCost = 48;  // for each of the sums of a thread, which the compiler unrolls
  const program::Statement& first = program.statements[statements[0]];
  Group group;
  for (const Touch& touch : touches_of(program, statements[0])) {
    if (touch.access.tensor == product.target) {
      group.touches.push_back(touch);
    }
  }
  int cost = 0;
  std::size_t count = 0;
  while (count < kMost && count + 1 < statements.size()) {
    const std::size_t number = statements[count + 1];
    const program::Statement& next = program.statements[number];
    const std::vector<Touch> touches = touches_of(program, number);
    const std::uint32_t target = next.target.tensor;
    cost += cost_of(next.value);
    bool fits = is_elementwise(next) && cost <= kMostCost && target != product.a.tensor &&
                target != product.b.tensor && group.may_add(touches) &&
                next.loops.size() + first.reduce_loops.size() == first.loops.size();
    for (std::size_t i = 0; fits && i < next.loops.size(); ++i) {
      fits = next.loops[i].extent == first.loops[i].extent && !first.reduces(static_cast<std::uint32_t>(i));
    }
    if (!fits) {
      break;
    }
    group.add(program, number);
    ++count;
  }
  return count;
}

matmul::Epilogue epilogue_of(Builder& builder, std::span<const std::size_t> statements,
                             const Product& product) {
  const program::Program& program = builder.program();
  matmul::Epilogue epilogue;
  for (const std::size_t number : statements) {
    epilogue.is_wide = epilogue.is_wide || !fits_in_int(program, program.statements[number]);
  }
  Printer printer(builder, epilogue.is_wide);
  printer.defer_stores();
  for (const std::size_t number : statements) {
    const program::Statement& statement = program.statements[number];
    printer.select(statement);
    for (std::uint32_t loop = 0; loop < statement.loops.size(); ++loop) {
      printer.bind(loop, statement.loops[loop].extent == 1 ? "0" : "loop" + std::to_string(loop));
    }
    if (number != statements[0]) {
      printer.one_element();
      continue;
    }
    const program::Type type = program.tensors[product.target].type;
    const Printer::Place place = printer.place(statement.target);
    const std::string sum = printer.named(type, printer.converted(product.sum, type, "sum"));
    printer.store(product.target, place.element, printer.assigned(place, sum));
  }
  const std::set<std::uint32_t> kept =
      private_tensors(program, std::vector<std::size_t>(statements.begin(), statements.end()));
  for (const Printer::Pending& pending : printer.take_pending()) {
    if (!kept.contains(pending.tensor)) {
      printer.line(printer.tensor(pending.tensor) + "[" + pending.element +
                   "] = " + to_memory(program.tensors[pending.tensor].type, pending.value) + ";");
    }
  }
  epilogue.body = matmul::loops_text(program.statements[statements[0]], product, epilogue) + printer.body();
  for (std::size_t i = 0; i < printer.parameters().size(); ++i) {
    epilogue.parameters += ", " + printer.parameters()[i].type + "* s" + std::to_string(i);
    epilogue.slots.push_back(printer.parameters()[i].slot);
  }
  epilogue.reads_symbols = printer.reads_symbols();
  epilogue.reads_variable = printer.reads_variable();
  return epilogue;
}

std::int64_t block_count(const Product& product, const Tile& tile) {
  return divided_up(extent_of(product.m), tile.rows) * divided_up(extent_of(product.n), tile.columns) *
         extent_of(product.batch) * tile.parts;
}

struct Shape {
  std::int64_t blocks = 1;
  std::int64_t threads = 1;
  std::uint32_t shared_bytes = 0;  // dynamic
};

void add_launch(Builder& builder, const Product& product, const matmul::Epilogue& epilogue,
                const Shape& shape, const std::string& text, std::vector<Slot> slots,
                const std::string& remark) {
  Launch launch;
  launch.remark = remark;
  launch.kernel = builder.kernel(static_cast<std::uint32_t>(shape.threads), text, shape.shared_bytes);
  launch.grid[0] = static_cast<std::uint32_t>(shape.blocks);
  launch.slots = std::move(slots);
  launch.slots.insert(launch.slots.end(), epilogue.slots.begin(), epilogue.slots.end());
  launch.reads_symbols = product.uses(false) || epilogue.reads_symbols;
  launch.reads_variable = product.uses(true) || epilogue.reads_variable;
  builder.launch(std::move(launch));
}

}  // namespace

std::size_t plan_contraction(Builder& builder, std::span<const std::size_t> statements,
                             std::string& why_not) {
  const program::Program& program = builder.program();
  const auto product = matmul::recognize(program, program.statements[statements[0]], why_not);
  if (!product) {
    return 0;
  }
  const char* reason = too_small(*product);
  const Unit unit = matmul::matrix_unit(*product, builder.target());
  const Tile tile = reason == nullptr ? choose_tile(*product, builder.target(), unit) : Tile{};
  const std::int64_t blocks = block_count(*product, tile);
  if (reason == nullptr && blocks * tile.threads >= std::int64_t{1} << 32) {  // HIP allows no more threads
    reason = "too many blocks";
  }
  if (reason != nullptr) {
    why_not = reason;
    return 0;
  }
  std::string remark;
  std::size_t count = plan_library_product(builder, statements, *product, remark);
  count = count == 0 ? plan_library_convolution(builder, statements, *product, remark) : count;
  if (count != 0) {
    return count;
  }
  const std::span<const std::size_t> planned =
      statements.first(1 + count_followers(program, statements, *product));
  builder.begin_step(planned);
  builder.function(std::string(matmul::helper_functions()));
  if (unit != Unit::kNone) {
    builder.function(matmul::matrix_unit_functions(unit));
  }
  if (tile.is_wgmma) {
    builder.function(std::string(matmul::wgmma_functions()));
    builder.function(matmul::wgmma_instruction(*product, tile));
  }
  const matmul::Epilogue epilogue = epilogue_of(builder, planned, *product);
  const auto kernel = [&](const matmul::Epilogue& last) {
    return tile.is_wgmma         ? matmul::wgmma_kernel(*product, tile, last)
           : unit == Unit::kNone ? matmul::tile_kernel(*product, tile, last)
                                 : matmul::matrix_unit_kernel(*product, tile, last, unit);
  };
  const Shape shape = {blocks, tile.threads, tile.is_wgmma ? matmul::wgmma_shared_bytes(tile) : 0};
  std::vector<Slot> slots = {builder.slot(product->a.tensor), builder.slot(product->b.tensor)};
  if (tile.parts == 1) {
    add_launch(builder, *product, epilogue, shape, kernel(epilogue), slots, remark);
    return planned.size();
  }
  const std::int64_t results = extent_of(product->batch) * extent_of(product->m) * extent_of(product->n);
  const Slot sums =
      builder.scratch(static_cast<std::uint64_t>(tile.parts * results) * program::byte_size(product->sum));
  slots.push_back(sums);
  add_launch(builder, *product, {}, shape, kernel({}), slots, remark);
  add_launch(builder, *product, epilogue, {divided_up(results, matmul::kFoldThreads), matmul::kFoldThreads},
             matmul::fold_kernel(*product, tile, epilogue), {sums}, remark);
  return planned.size();
}

}  // namespace yoke::codegen
