// SPDX-License-Identifier: Apache-2.0
// plugins/cc/region.cpp: cuts a region (the statements of a hint that names loops) into tiles that fit in the
// cache.
#include "region.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "contraction.h"
#include "convolution.h"
#include "library.h"
#include "region_tile.h"
#include "tile/kernel.h"

namespace yoke::cc {

using program::Access;
using program::Affine;
using program::Program;
using program::Statement;

namespace {

// Packing an operand of a product again for every tile is cheap if a tile touches this many times the
// packed bytes.
constexpr std::int64_t kBytesPerPacked = 8;
// Otherwise a tile needs at least this many rows of the product, and at least a quarter of the summed extent.
constexpr std::int64_t kRowsPerPacked = 64;

// How the loops of a region are cut: a tile has one value of each loop before `loop`, and `chunk` values of
// `loop`.
struct Cut {
  std::size_t loop = 0;
  std::int64_t chunk = 1;
};

// The bytes of a tensor that an access touches in a tile with one value of the cut loop.
struct Touched {
  std::uint32_t tensor = 0;
  std::int64_t bytes = 0;
  std::uint64_t all = 0;  // bytes of the whole tensor
  bool scales = false;    // `bytes` grows with the number of values of the cut loop

  std::int64_t at_most(std::int64_t count) const {
    return static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(count), all));
  }
};

struct Packing {
  std::int64_t bytes = 0;
  std::int64_t least = 1;  // the fewest values of the cut loop in a tile
};

class Cutter {
 public:
  Cutter(const Program& program, std::uint32_t first, const RegionRun& run,
         std::span<const program::Lifetime> lives)
      : program_(program), first_(first), run_(run), lives_(lives), extents_(run.loop_count) {
    for (std::uint32_t i = 0; i < run.places[0].size(); ++i) {
      if (run.places[0][i] < run.loop_count) {
        extents_[run.places[0][i]] = static_cast<std::int64_t>(statements()[0].loops[i].extent);
      }
    }
    for (const Statement& statement : statements()) {
      std::string why_not;
      if (auto product = recognize(program, statement, why_not)) {
        products_.emplace_back(&statement, std::move(*product));
      }
    }
  }

  std::optional<Region> cut(const RegionOptions& options) const;

 private:
  std::span<const Statement> statements() const {
    return std::span(program_.statements).subspan(first_, run_.places.size());
  }
  bool is_local(std::uint32_t tensor) const;
  bool has_sums_of_rows() const { return std::count(run_.carried.begin(), run_.carried.end(), true) != 0; }

  std::size_t place_of(const Statement& statement, std::uint32_t loop) const {
    return run_.places[static_cast<std::size_t>(&statement - statements().data())][loop];
  }
  bool is_cut(const Cut& cut, const Statement& statement, std::uint32_t loop) const {
    return place_of(statement, loop) <= cut.loop;
  }
  std::int64_t extent_in(const Cut& cut, const Statement& statement, std::uint32_t loop) const {
    if (!is_cut(cut, statement, loop)) {
      return static_cast<std::int64_t>(statement.loops[loop].extent);
    }
    return place_of(statement, loop) < cut.loop ? 1 : cut.chunk;
  }

  // These choose the tiles.
  std::vector<Touched> touched(std::size_t loop) const;
  std::int64_t iterations() const;
  std::optional<Packing> packing(std::size_t loop) const;
  bool is_divided_along(std::size_t loop, int threads) const;
  bool fit_parts(std::int64_t& chunk) const;
  std::optional<Cut> choose(const RegionOptions& options) const;

  // Rewrites the statements.
  Program tile(const Cut& cut, std::int64_t low, std::int64_t high,
               std::vector<std::uint32_t>& tensors) const;

  const Program& program_;
  std::uint32_t first_;
  const RegionRun& run_;
  std::span<const program::Lifetime> lives_;
  std::vector<std::int64_t> extents_;
  std::vector<std::pair<const Statement*, Contraction>> products_;
};

std::vector<Touched> Cutter::touched(std::size_t loop) const {
  std::vector<Touched> result;
  for (const Statement& statement : statements()) {
    visit_target_and_reads(statement, [&](const Access& access) {
      const program::Tensor& tensor = program_.tensors[access.tensor];
      Touched one{access.tensor, static_cast<std::int64_t>(byte_size(tensor.type)), tensor.byte_count(),
                  false};
      std::vector<bool> seen(statement.loops.size(), false);
      visit_affines(access, [&](const Affine& affine) {
        for (const Affine::Term& term : affine.terms) {
          if (!term.is_symbol && !seen[term.id]) {
            seen[term.id] = true;
            one.scales = one.scales || place_of(statement, term.id) == loop;
            one.bytes = one.at_most(one.bytes * extent_in({loop, 1}, statement, term.id));
          }
        }
      });
      result.push_back(one);
    });
  }
  std::sort(result.begin(), result.end(),
            [](const Touched& a, const Touched& b) { return a.tensor < b.tensor; });
  return result;
}

std::int64_t bytes_of(std::span<const Touched> touched, std::int64_t chunk) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < touched.size();) {
    std::int64_t most = 0;
    for (const std::uint32_t tensor = touched[i].tensor; i < touched.size() && touched[i].tensor == tensor;
         ++i) {
      most = std::max(most, touched[i].at_most(touched[i].bytes * (touched[i].scales ? chunk : 1)));
    }
    bytes += most;
  }
  return bytes;
}

std::int64_t Cutter::iterations() const {
  std::int64_t most = 1;
  for (const Statement& statement : statements()) {
    std::int64_t count = 1;
    for (const program::Loop& loop : statement.loops) {
      count *= static_cast<std::int64_t>(loop.extent);
    }
    most = std::max(most, count);
  }
  return most;
}

// What products pack again for every tile: operands that do not depend on the loop. Returns nothing if the
// loop must not be cut, because a product would have a vector as an operand.
std::optional<Packing> Cutter::packing(std::size_t loop) const {
  Packing packing;
  for (const auto& [statement, product] : products_) {
    if (product.multiplications() < kSmallProduct) {
      continue;
    }
    for (const Operand* packed : {&product.a, &product.b}) {
      auto bytes = static_cast<std::int64_t>(byte_size(packed->type));
      std::int64_t rows = 1;  // of the other operand, for each value of the loop
      bool is_packed_again = true;
      bool has_rows = false;
      for (std::uint32_t i = 0; i < statement->loops.size(); ++i) {
        if (packed->form.loops[i] == 0) {
          rows *= extent_in({loop, 1}, *statement, i);
          has_rows = has_rows || place_of(*statement, i) >= loop;
        } else {
          bytes *= extent_in({loop, 1}, *statement, i);
          is_packed_again = is_packed_again && place_of(*statement, i) != loop;
        }
      }
      if (!has_rows) {
        return std::nullopt;
      }
      if (is_packed_again) {
        packing.bytes += bytes;
        const std::int64_t needed = std::max(kRowsPerPacked, extent_of(product.k) / 4);
        packing.least = std::max(packing.least, (needed + rows - 1) / rows);
      }
    }
  }
  return packing;
}

// Whether threads divide the products of the region along this loop, also without a region.
bool Cutter::is_divided_along(std::size_t loop, int threads) const {
  return std::all_of(products_.begin(), products_.end(), [&](const auto& entry) {
    auto [statement, product] = entry;
    const Axis& axis = divided_axis(product, threads);
    for (std::uint32_t i = 0; i < statement->loops.size(); ++i) {
      if (place_of(*statement, i) == loop) {
        return (axis.a != 0) == (product.a.form.loops[i] != 0) &&
               (axis.b != 0) == (product.b.form.loops[i] != 0);
      }
    }
    return false;
  });
}

// Makes the chunk smaller until each part of a sum of rows consists of whole tiles. Returns false if the
// chunk gets too small.
bool Cutter::fit_parts(std::int64_t& chunk) const {
  if (!has_sums_of_rows()) {
    return true;
  }
  const std::int64_t least = (chunk + 3) / 4;
  while (extents_[0] % chunk != 0 || rows_per_part(extents_[0]) % chunk != 0) {
    --chunk;
  }
  return chunk >= least;
}

std::optional<Cut> Cutter::choose(const RegionOptions& options) const {
  std::int64_t outer = 1;
  for (std::size_t loop = 0; loop < extents_.size(); outer *= extents_[loop++]) {
    const std::int64_t extent = extents_[loop];
    const std::vector<Touched> bytes = touched(loop);
    const std::optional<Packing> packing = this->packing(loop);
    if (!packing) {
      return std::nullopt;
    }
    if (loop + 1 < extents_.size() && bytes_of(bytes, 1) > options.tile_bytes && packing->bytes == 0) {
      continue;
    }
    std::int64_t low = 1;  // the largest chunk known to fit, or 1
    for (std::int64_t high = extent + 1; high - low > 1;) {
      const std::int64_t middle = low + (high - low) / 2;
      (bytes_of(bytes, middle) <= options.tile_bytes ? low : high) = middle;
    }
    const bool is_parallel = options.threads > 1 && iterations() >= kParallelElements;
    const std::int64_t pieces = is_parallel ? (options.threads + outer - 1) / outer : 1;
    const std::int64_t share = (extent + pieces - 1) / pieces;
    std::int64_t chunk = std::min(low, share);
    std::int64_t least = 1;
    if (packing->bytes * kBytesPerPacked > bytes_of(bytes, chunk)) {
      if (is_parallel && outer == 1 && is_divided_along(loop, options.threads)) {
        chunk = share;  // packs nothing again
      } else {
        least = packing->least;
        chunk = std::max(chunk, least);
        if (chunk > extent || (chunk > low && chunk > 1 && bytes_of(bytes, chunk) > 2 * options.tile_bytes)) {
          return std::nullopt;
        }
      }
    }
    for (std::int64_t divisor = chunk; divisor > chunk / 2 && divisor >= least && chunk < share; --divisor) {
      if (extent % divisor == 0) {
        chunk = divisor;
        break;
      }
    }
    const std::int64_t tiles = outer * ((extent + chunk - 1) / chunk);
    if (tiles < 2 || (is_parallel && tiles < options.threads) || !fit_parts(chunk)) {
      return std::nullopt;
    }
    return Cut{loop, chunk};
  }
  return std::nullopt;
}

// Whether only statements of the region use the tensor, and each value only in one tile. In a repeat block,
// the next round must not read the values, so the first use must overwrite the whole tensor.
bool Cutter::is_local(std::uint32_t tensor) const {
  const program::Lifetime& life = lives_[tensor];
  if (life.byte_count == 0 || life.first < first_ || life.last >= first_ + run_.places.size()) {
    return false;
  }
  for (const Statement& statement : statements()) {
    const std::vector<program::Use> uses = uses_of(statement);
    const bool reads = std::any_of(uses.begin() + 1, uses.end(),
                                   [&](const program::Use& use) { return use.tensor == tensor; });
    if (reads || uses[0].tensor == tensor) {
      return statement.repeat < 0 || (!reads && overwrites_target(program_, statement));
    }
  }
  return false;
}

Program Cutter::tile(const Cut& cut, std::int64_t low, std::int64_t high,
                     std::vector<std::uint32_t>& tensors) const {
  Program result;
  result.name = program_.name;
  result.symbols = program_.symbols;
  for (std::size_t i = 0; i <= cut.loop; ++i) {
    const bool is_outer = i < cut.loop;
    result.symbols.push_back(
        {"tile", is_outer ? 0 : low, is_outer ? extents_[i] : high, is_outer ? 1 : cut.chunk, {}, false});
  }
  std::map<std::uint32_t, std::uint32_t> numbers;
  tensors.clear();
  // For each temporary that only the region uses: the dimensions that have the tile's size.
  std::map<std::uint32_t, std::vector<std::size_t>> kept;
  for (std::size_t number = 0; number < run_.places.size(); ++number) {
    const Statement& statement = statements()[number];
    const std::vector<program::Use> uses = uses_of(statement);
    for (const program::Use& use : uses) {
      if (numbers.emplace(use.tensor, static_cast<std::uint32_t>(tensors.size())).second) {
        tensors.push_back(use.tensor);
        result.tensors.push_back(program_.tensors[use.tensor]);
        result.tensors.back().role = is_local(use.tensor) ? program::Role::kTemp : program::Role::kInOut;
      }
    }
    const std::uint32_t tensor = statement.target.tensor;
    program::Tensor& target = result.tensors[numbers.at(tensor)];
    if (run_.carried[number]) {
      target.role = program::Role::kInOut;  // written after the last tile
    }
    if (target.role != program::Role::kTemp || kept.contains(tensor)) {
      continue;
    }
    for (std::size_t i = 0; i <= cut.loop; ++i) {
      const std::vector<std::uint32_t>& loops = uses[0].loops;
      const auto found = std::find_if(loops.begin(), loops.end(), [&](std::uint32_t loop) {
        return loop != program::kNoLoop && place_of(statement, loop) == i;
      });
      const auto dim = static_cast<std::size_t>(found - loops.begin());
      kept[tensor].push_back(dim);
      target.dims[dim] = i < cut.loop ? 1 : static_cast<std::uint64_t>(cut.chunk);
    }
  }
  for (const Statement& source : statements()) {
    Statement statement = source;
    const bool rows_first = run_.carried[result.statements.size()];
    std::vector<std::int32_t> symbol_of(statement.loops.size(), -1);
    for (std::uint32_t i = 0; i < statement.loops.size(); ++i) {
      if (is_cut(cut, source, i)) {
        symbol_of[i] = static_cast<std::int32_t>(program_.symbols.size() + place_of(source, i));
        statement.loops[i].extent = static_cast<std::uint64_t>(extent_in(cut, source, i));
      }
    }
    statement.hint = statement.repeat = -1;
    rewrite_for_tile(statement, {symbol_of, loops_in_tile(source, rows_first), numbers, kept});
    result.statements.push_back(std::move(statement));
  }
  return result;
}

std::optional<Region> Cutter::cut(const RegionOptions& options) const {
  const bool has_convolution =
      std::any_of(statements().begin(), statements().end(), [&](const Statement& one) {
        std::string why_not;
        return recognize_convolution(program_, one, why_not);
      });
  const std::optional<Cut> where = has_convolution ? std::nullopt : choose(options);
  if (!where) {
    return std::nullopt;
  }
  Region region;
  region.outer.assign(extents_.begin(), extents_.begin() + static_cast<std::ptrdiff_t>(where->loop));
  region.extent = extents_[where->loop];
  region.chunk = where->chunk;
  region.parallel = iterations() >= kParallelElements;
  if (has_sums_of_rows()) {
    region.part_tiles = rows_per_part(region.extent) / region.chunk;
    if (region.parallel && region.piece_count() < options.threads) {
      return std::nullopt;
    }
  }
  const std::int64_t rest = region.extent % region.chunk;
  region.tile = tile(*where, 0, region.extent - rest, region.tensors);
  if (rest != 0) {
    region.tail = tile({where->loop, rest}, region.extent - rest, region.extent, region.tensors);
  }
  region.slices = slices_of(region.tile, program_.symbols.size());
  return region;
}

}  // namespace

std::optional<Region> cut_run(const Program& program, std::uint32_t first, const RegionRun& run,
                              std::span<const program::Lifetime> lives, const RegionOptions& options) {
  return Cutter(program, first, run, lives).cut(options);
}

}  // namespace yoke::cc
