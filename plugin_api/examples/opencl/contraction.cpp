// SPDX-License-Identifier: Apache-2.0
// contraction.cpp: sums of products as tiles of elements in vector registers, for CPUs.
//
// A work-item computes `rows` x `columns` vectors at once, so that each loaded value is used in several
// products. The last tile of a loop is shifted back to end with the loop, and stores only elements that the
// tile before it did not.
//
// Order of summation: if the lanes of a vector are neighbors in the target, loop order, as everywhere. If
// they are neighbors in the reduction, lane l sums the terms l, l + width, ...; then the lanes are added in
// halves (l and l + width / 2, and so on), and then the remaining terms, in order.
#include <algorithm>
#include <cstdint>

#include "printer.h"

namespace ocl {
namespace {

using yoke::program::Access;
using yoke::program::Assign;
using yoke::program::Op;
using yoke::program::Program;
using yoke::program::Statement;
using yoke::program::Type;

// 8 accumulators, which leaves half of 16 vector registers for operands.
constexpr std::uint64_t kRows = 4;
constexpr std::uint64_t kColumns = 2;
constexpr std::uint64_t kNarrowest = 4;  // lanes

// Distance in elements between consecutive iterations of the loop.
std::int64_t stride(const Program& program, const Access& access, std::uint32_t loop) {
  const std::vector<std::uint64_t> strides = yoke::program::strides_of(program.tensors[access.tensor]);
  std::int64_t sum = 0;
  for (std::size_t dim = 0; dim < strides.size(); ++dim) {
    for (const yoke::program::Affine::Term& term : access.indices[dim].affine.terms) {
      if (!term.is_symbol && term.id == loop) {
        sum += term.coefficient * static_cast<std::int64_t>(strides[dim]);
      }
    }
  }
  return sum;
}

// Whether the statement is `target = sum read * read` or `+=`, in one float type, with all reads in range.
bool is_contraction(const Program& program, const Statement& statement) {
  const Type type = program.tensors[statement.target.tensor].type;
  const auto is_read = [&](const yoke::program::Expr& expr) {
    return expr.op == Op::kRead && !yoke::program::may_be_out_of_range(program, statement, expr.access);
  };
  return statement.reduce == yoke::program::Reduce::kSum && (type == Type::kF32 || type == Type::kF64) &&
         (statement.assign == Assign::kSet || statement.assign == Assign::kAdd) &&
         statement.accumulator_type() == type && statement.value.type == type &&
         statement.value.op == Op::kMul && is_read(statement.value.args[0]) &&
         is_read(statement.value.args[1]) && !yoke::program::has_element_index(statement.target);
}

}  // namespace

// Picks a loop along which each read is either contiguous or constant. Prefers loops of the target, which
// keep the order of summation, then wider vectors.
std::optional<Printer::Tile> Printer::tile() const {
  if (!is_contraction(program_, statement_)) {
    return std::nullopt;
  }
  const Access& left = statement_.value.args[0].access;
  const Access& right = statement_.value.args[1].access;
  const auto along = [&](const Access& access, std::uint32_t loop) { return stride(program_, access, loop); };
  const auto is_vector = [&](std::uint32_t loop) {
    const std::int64_t x = along(left, loop);
    const std::int64_t y = along(right, loop);
    return (x == 1 && y == 1) || (x == 1 && y == 0) || (x == 0 && y == 1);
  };
  // The longest loop of the target that the indices of `fixed` do not contain.
  const auto repeated = [&](const Access& fixed, std::optional<std::uint32_t> taken) {
    std::optional<std::uint32_t> best;
    for (std::uint32_t loop = 0; loop < statement_.loops.size(); ++loop) {
      const bool free = !statement_.reduces(loop) && loop != taken && along(fixed, loop) == 0;
      if (free && (!best || statement_.loops[loop].extent > statement_.loops[*best].extent)) {
        best = loop;
      }
    }
    return best;
  };
  const std::uint64_t widest = form_.vector_bytes / yoke::program::byte_size(statement_.value.type);
  for (const bool folds : {false, true}) {
    for (std::uint64_t width = widest; width >= kNarrowest; width /= 2) {
      for (std::uint32_t loop = static_cast<std::uint32_t>(statement_.loops.size()); loop-- > 0;) {
        const std::uint64_t extent = statement_.loops[loop].extent;
        if (statement_.reduces(loop) != folds || extent < width || !is_vector(loop)) {
          continue;
        }
        Tile tile{loop, folds, width, {}, {}};
        if (folds) {
          tile.row = side(repeated(right, std::nullopt), kRows, 1);
          tile.column = side(repeated(left, tile.row.loop), kColumns, 1);
        } else {
          tile.row = side(repeated(along(left, loop) == 1 ? left : right, loop), kRows, 1);
          tile.column = side(loop, kColumns, width);
        }
        return tile;
      }
    }
  }
  return std::nullopt;
}

Printer::Side Printer::side(std::optional<std::uint32_t> loop, std::uint64_t most, std::uint64_t step) const {
  return loop ? Side{loop, std::min(most, statement_.loops[*loop].extent / step), step} : Side{};
}

void Printer::print_tiles(const Tile& tile) {
  const Type type = statement_.value.type;
  const std::string vector = std::string(value_type(type)) + std::to_string(tile.width);
  tile_loop(tile);
  const std::uint64_t count = tile.row.count * tile.column.count * tile.column.step;
  line(std::string(value_type(type)) + " sums[" + std::to_string(count) + "];");
  line("{");
  ++depth_;
  for (const Side* side : {&tile.row, &tile.column}) {
    if (side->loop) {
      const std::string number = std::to_string(*side->loop);
      line("const " + integer_ + " i" + number + " = start" + number + ";");
    }
  }
  for (std::uint64_t a = 0; a < tile.row.count * tile.column.count; ++a) {
    line(vector + " a" + std::to_string(a) + " = 0;");
  }
  products(tile, tile.width);
  for (std::uint64_t a = 0; a < tile.row.count * tile.column.count; ++a) {
    const std::string name = "a" + std::to_string(a);
    if (!tile.folds) {
      line("vstore" + std::to_string(tile.width) + "(" + name + ", " + std::to_string(a) + ", sums);");
      continue;
    }
    std::string folded = name;
    for (std::uint64_t lanes = tile.width / 2; lanes >= 1; lanes /= 2) {
      const std::string half = name + "_" + std::to_string(lanes);
      line("const " + std::string(value_type(type)) + (lanes == 1 ? "" : std::to_string(lanes)) + " " + half +
           " = " + folded + ".lo + " + folded + ".hi;");
      folded = half;
    }
    line("sums[" + std::to_string(a) + "] = " + folded + ";");
  }
  if (tile.folds && statement_.loops[tile.vector].extent % tile.width != 0) {
    products(tile, 1);
  }
  close();
  store(tile);
  close();
}

// As element_loop, for tiles instead of elements.
void Printer::tile_loop(const Tile& tile) {
  std::vector<std::uint32_t> loops;
  std::vector<std::uint64_t> extents;
  body_.element_count = 1;
  body_.work_per_element = tile.row.count * tile.column.count * tile.column.step;
  for (std::uint32_t loop = 0; loop < statement_.loops.size(); ++loop) {
    const std::uint64_t extent = statement_.loops[loop].extent;
    if (statement_.reduces(loop)) {
      body_.work_per_element *= extent;
      continue;
    }
    const std::uint64_t covered = tile.row.loop == loop      ? tile.row.count
                                  : tile.column.loop == loop ? tile.column.count * tile.column.step
                                                             : 1;
    loops.push_back(loop);
    extents.push_back((extent + covered - 1) / covered);
    body_.element_count *= extents.back();
  }
  element_loop(loops, extents);
  for (const Side* side : {&tile.row, &tile.column}) {
    if (side->loop) {
      const std::string number = std::to_string(*side->loop);
      const std::string covered = std::to_string(side->count * side->step);
      line("const " + integer_ + " first" + number + " = i" + number + " * " + covered + ";");
      line("const " + integer_ + " start" + number + " = min(first" + number + ", (" + integer_ + ")" +
           std::to_string(statement_.loops[*side->loop].extent) + " - " + covered + ");");
    }
  }
}

// Prints the reduction's loops around one product per accumulator, of `width` lanes each. If the lanes
// fold, a width of 1 prints the remaining terms that do not fill a vector.
void Printer::products(const Tile& tile, std::uint64_t width) {
  for (const std::uint32_t loop : statement_.reduce_loops) {
    const std::string name = "i" + std::to_string(loop);
    const std::uint64_t extent = statement_.loops[loop].extent;
    const bool in_vectors = tile.folds && loop == tile.vector;
    const std::uint64_t whole = in_vectors ? extent / tile.width * tile.width : extent;
    const std::uint64_t from = in_vectors && width == 1 ? whole : 0;
    line("for (" + integer_ + " " + name + " = " + std::to_string(from) + "; " + name + " < " +
         std::to_string(width == 1 ? extent : whole) + "; " + name +
         " += " + std::to_string(in_vectors ? width : 1) + ") {");
    ++depth_;
  }
  const std::vector<std::string> left = factors(tile, statement_.value.args[0].access, width);
  const std::vector<std::string> right = factors(tile, statement_.value.args[1].access, width);
  for (std::size_t a = 0; a < left.size(); ++a) {
    const std::string number = std::to_string(a);
    const std::string sum = width == 1 ? "sums[" + number + "]" : "a" + number;
    line(sum + " = " + sum + " + " + left[a] + " * " + right[a] + ";");
  }
  for (std::size_t i = 0; i < statement_.reduce_loops.size(); ++i) {
    close();
  }
}

// The factor of each accumulator. A value that several accumulators use is loaded once.
std::vector<std::string> Printer::factors(const Tile& tile, const Access& access, std::uint64_t width) {
  const auto along = [&](std::optional<std::uint32_t> loop) {
    return loop ? stride(program_, access, *loop) : 0;
  };
  const std::string element = place(access).element;
  const std::string base = "p" + std::to_string(++names_);
  line("const " + integer_ + " " + base + " = " + element + ";");
  const std::string type(value_type(statement_.value.type));
  const std::string vector = type + (width == 1 ? "" : std::to_string(width));
  std::map<std::int64_t, std::string> known;
  std::vector<std::string> result;
  for (std::uint64_t row = 0; row < tile.row.count; ++row) {
    for (std::uint64_t column = 0; column < tile.column.count; ++column) {
      const std::int64_t offset =
          static_cast<std::int64_t>(row) * along(tile.row.loop) +
          static_cast<std::int64_t>(column * tile.column.step) * along(tile.column.loop);
      std::string& name = known[offset];
      if (name.empty()) {
        name = "f" + std::to_string(++names_);
        const std::string at = tensor(access.tensor) + " + (" + base + " + " + std::to_string(offset) + ")";
        line("const " + vector + " " + name + " = " +
             (width != 1 && along(tile.vector) == 1 ? "vload" + std::to_string(width) + "(0, " + at + ")"
                                                    : "(" + vector + ")(*(" + at + "))") +
             ";");
      }
      result.push_back(name);
    }
  }
  return result;
}

void Printer::store(const Tile& tile) {
  std::string at = "0";
  int open = 0;
  for (const Side* side : {&tile.row, &tile.column}) {
    if (!side->loop) {
      continue;
    }
    const std::string number = std::to_string(*side->loop);
    const std::string covered = std::to_string(side->count * side->step);
    line("for (" + integer_ + " r" + number + " = first" + number + " - start" + number + "; r" + number +
         " < " + covered + "; ++r" + number + ") {");
    ++depth_;
    ++open;
    line("const " + integer_ + " i" + number + " = start" + number + " + r" + number + ";");
    at = "(" + at + ") * " + covered + " + r" + number;
  }
  const Place target = place(statement_.target);
  assign(target, "sums[" + at + "]");
  for (; open > 0; --open) {
    close();
  }
}

}  // namespace ocl
