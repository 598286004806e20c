// SPDX-License-Identifier: Apache-2.0
// plugins/cc/region.cpp: cuts a region, the statements of a hint that names loops, into tiles that fit in the cache.
#include "region.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "contraction.h"
#include "tile/kernel.h"

namespace yoke::cc {

using program::Access;
using program::Affine;
using program::Expr;
using program::Index;
using program::Op;
using program::Program;
using program::Statement;

namespace {

// With fewer rows, packing the other operand of a product again for every tile costs more than the cache saves.
constexpr std::int64_t kProductRows = 64;

// Where the loops of a region are cut: those before `loop` have one value per tile.
struct Cut {
  std::size_t loop = 0;
  std::int64_t chunk = 1;
};

// The bytes of a tensor that an access touches in a tile with one value of the cut loop.
struct Touched {
  std::uint32_t tensor = 0;
  std::int64_t bytes = 0;
  std::uint64_t all = 0;  // of the tensor
  bool scales = false;    // with the number of values

  std::int64_t at_most(std::int64_t count) const {
    return static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(count), all));
  }
};

class Cutter {
 public:
  Cutter(const Program& program, std::uint32_t first, std::uint32_t last,
         std::span<const program::Lifetime> lives)
      : program_(program),
        first_(first),
        last_(last),
        lives_(lives),
        names_(program.hints[static_cast<std::size_t>(program.statements[first].hint)].loops) {
    for (const std::string& name : names_) {
      for (const program::Loop& loop : program.statements[first].loops) {
        if (loop.name == name) {
          extents_.push_back(static_cast<std::int64_t>(loop.extent));
        }
      }
    }
  }

  std::optional<Region> cut(const RegionOptions& options) const;

 private:
  std::span<const Statement> statements() const {
    return std::span(program_.statements).subspan(first_, last_ - first_);
  }

  // The place of a loop among the region's loops; the number of these if it is another loop.
  std::size_t place_of(const Statement& statement, std::uint32_t loop) const {
    const auto found = std::find(names_.begin(), names_.end(), statement.loops[loop].name);
    return static_cast<std::size_t>(found - names_.begin());
  }
  bool is_cut(const Cut& cut, const Statement& statement, std::uint32_t loop) const {
    return place_of(statement, loop) <= cut.loop && !statement.reduces(loop);
  }
  std::int64_t extent_in(const Cut& cut, const Statement& statement, std::uint32_t loop) const {
    if (!is_cut(cut, statement, loop)) {
      return static_cast<std::int64_t>(statement.loops[loop].extent);
    }
    return place_of(statement, loop) < cut.loop ? 1 : cut.chunk;
  }

  // Choosing tiles.
  std::vector<Touched> touched(std::size_t loop) const;
  std::int64_t iterations() const;
  std::int64_t fewest(std::size_t loop) const;
  std::optional<Cut> choose(const RegionOptions& options) const;

  // Rewriting statements.
  Program tile(const Cut& cut, std::int64_t low, std::int64_t high,
               std::vector<std::uint32_t>& tensors) const;

  const Program& program_;
  std::uint32_t first_;
  std::uint32_t last_;
  std::span<const program::Lifetime> lives_;
  const std::vector<std::string>& names_;
  std::vector<std::int64_t> extents_;
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

// The fewest values of the loop in a tile, so that products have enough rows for each packing of an operand that
// does not depend on the loop.
std::int64_t Cutter::fewest(std::size_t loop) const {
  std::int64_t fewest = 1;
  for (const Statement& statement : statements()) {
    std::string why_not;
    const auto product = recognize(program_, statement, why_not);
    if (!product || product->multiplications() < kSmallProduct) {
      continue;
    }
    for (const Operand* packed : {&product->a, &product->b}) {
      std::int64_t rows = 1;
      bool is_packed_again = true;
      for (std::uint32_t i = 0; i < statement.loops.size(); ++i) {
        if (statement.reduces(i) || packed->form.loops[i] != 0) {
          is_packed_again = is_packed_again && place_of(statement, i) != loop;
        } else {
          rows *= extent_in({loop, 1}, statement, i);
        }
      }
      const std::int64_t needed = std::max(kProductRows, extent_of(product->k) / 4);
      fewest = is_packed_again ? std::max(fewest, (needed + rows - 1) / rows) : fewest;
    }
  }
  return fewest;
}

std::optional<Cut> Cutter::choose(const RegionOptions& options) const {
  std::int64_t outer = 1;
  for (std::size_t loop = 0; loop < extents_.size(); outer *= extents_[loop++]) {
    const std::int64_t extent = extents_[loop];
    const std::vector<Touched> bytes = touched(loop);
    if (loop + 1 < extents_.size() && bytes_of(bytes, 1) > options.tile_bytes) {
      continue;
    }
    std::int64_t low = 1;  // fits, or there is no smaller tile
    for (std::int64_t high = extent + 1; high - low > 1;) {
      const std::int64_t middle = low + (high - low) / 2;
      (bytes_of(bytes, middle) <= options.tile_bytes ? low : high) = middle;
    }
    const std::int64_t least = std::min(fewest(loop), extent);
    const bool is_parallel = options.threads > 1 && iterations() >= kParallelElements;
    const std::int64_t pieces = is_parallel ? (options.threads + outer - 1) / outer : 1;
    std::int64_t chunk = std::max(std::min(low, (extent + pieces - 1) / pieces), least);
    for (std::int64_t divisor = chunk; divisor > chunk / 2 && divisor >= least; --divisor) {
      if (extent % divisor == 0) {
        chunk = divisor;
        break;
      }
    }
    const std::int64_t tiles = outer * ((extent + chunk - 1) / chunk);
    const bool is_too_large = chunk > low && chunk > 1 && bytes_of(bytes, chunk) > 2 * options.tile_bytes;
    if (tiles < 2 || is_too_large || (is_parallel && tiles < options.threads)) {
      return std::nullopt;
    }
    return Cut{loop, chunk};
  }
  return std::nullopt;
}

// Rewrites accesses and loop values of one program to those of a tile.
class Rewriter {
 public:
  Rewriter(Statement& statement, std::vector<std::int32_t> symbol_of,
           const std::map<std::uint32_t, std::uint32_t>& numbers,
           const std::map<std::uint32_t, std::vector<std::size_t>>& kept)
      : statement_(statement), symbol_of_(std::move(symbol_of)), numbers_(numbers), kept_(kept) {}

  void run() {
    rewrite(statement_.target);
    rewrite(statement_.value);
  }

 private:
  Affine shifted(Affine affine) const {
    const std::size_t count = affine.terms.size();
    for (std::size_t i = 0; i < count; ++i) {
      const Affine::Term term = affine.terms[i];
      if (!term.is_symbol && symbol_of_[term.id] >= 0) {
        affine.terms.push_back({true, static_cast<std::uint32_t>(symbol_of_[term.id]), term.coefficient});
      }
    }
    std::sort(affine.terms.begin(), affine.terms.end(), [](const Affine::Term& a, const Affine::Term& b) {
      return std::pair(a.is_symbol, a.id) < std::pair(b.is_symbol, b.id);
    });
    return affine;
  }

  bool keeps(std::uint32_t tensor, std::size_t dim) const {
    const auto dims = kept_.find(tensor);
    return dims != kept_.end() && std::count(dims->second.begin(), dims->second.end(), dim) != 0;
  }

  void rewrite(Access& access) const {
    for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
      Index& index = access.indices[dim];
      if (index.element_of) {
        for (std::size_t i = 0; i < index.element_indices.size(); ++i) {
          if (!keeps(*index.element_of, i)) {
            index.element_indices[i] = shifted(index.element_indices[i]);
          }
        }
        index.element_of = numbers_.at(*index.element_of);
      } else if (!keeps(access.tensor, dim)) {
        index.affine = shifted(index.affine);
      }
    }
    access.tensor = numbers_.at(access.tensor);
  }

  void rewrite(Expr& expr) const {
    if (expr.op == Op::kRead) {
      rewrite(expr.access);
    } else if (expr.op == Op::kIndex) {
      const Affine affine = shifted(expr.affine);
      expr = affine.terms.size() == 1 ? std::move(expr) : program::value_of(affine);
      return;
    }
    for (Expr& arg : expr.args) {
      rewrite(arg);
    }
  }

  Statement& statement_;
  std::vector<std::int32_t> symbol_of_;  // per loop: the symbol that gives its first value, or -1
  const std::map<std::uint32_t, std::uint32_t>& numbers_;
  const std::map<std::uint32_t, std::vector<std::size_t>>& kept_;
};

Program Cutter::tile(const Cut& cut, std::int64_t low, std::int64_t high,
                     std::vector<std::uint32_t>& tensors) const {
  Program result;
  result.name = program_.name;
  result.symbols = program_.symbols;
  for (std::size_t i = 0; i <= cut.loop; ++i) {
    const bool is_outer = i < cut.loop;
    result.symbols.push_back(
        {names_[i], is_outer ? 0 : low, is_outer ? extents_[i] : high, is_outer ? 1 : cut.chunk, {}, false});
  }
  std::map<std::uint32_t, std::uint32_t> numbers;
  tensors.clear();
  const auto use = [&](std::uint32_t tensor) {
    if (numbers.emplace(tensor, static_cast<std::uint32_t>(tensors.size())).second) {
      tensors.push_back(tensor);
      result.tensors.push_back(program_.tensors[tensor]);
      const bool is_local =
          lives_[tensor].byte_count != 0 && lives_[tensor].first >= first_ && lives_[tensor].last < last_;
      program::Tensor& copy = result.tensors.back();
      copy.role = is_local ? program::Role::kTemp : program::Role::kInOut;
    }
  };
  std::map<std::uint32_t, std::vector<std::size_t>>
      kept;  // local temporaries: the dimensions of the tile's size
  for (const Statement& statement : statements()) {
    visit_target_and_reads(statement, [&](const Access& access) {
      use(access.tensor);
      visit_index_tensors(access, use);
    });
    const std::uint32_t tensor = statement.target.tensor;
    program::Tensor& target = result.tensors[numbers.at(tensor)];
    if (target.role != program::Role::kTemp || kept.contains(tensor)) {
      continue;
    }
    for (std::size_t i = 0; i <= cut.loop; ++i) {
      const auto& indices = statement.target.indices;
      const auto found = std::find_if(indices.begin(), indices.end(), [&](const Index& index) {
        const auto loop = index.element_of ? std::nullopt : index.affine.single_loop();
        return loop && place_of(statement, *loop) == i;
      });
      const auto dim = static_cast<std::size_t>(found - indices.begin());
      kept[tensor].push_back(dim);
      target.dims[dim] = i < cut.loop ? 1 : static_cast<std::uint64_t>(cut.chunk);
    }
  }
  for (Statement statement : statements()) {
    std::vector<std::int32_t> symbol_of(statement.loops.size(), -1);
    for (std::uint32_t i = 0; i < statement.loops.size(); ++i) {
      if (is_cut(cut, statement, i)) {
        symbol_of[i] = static_cast<std::int32_t>(program_.symbols.size() + place_of(statement, i));
        statement.loops[i].extent = static_cast<std::uint64_t>(extent_in(cut, statement, i));
      }
    }
    statement.hint = statement.repeat = -1;
    Rewriter(statement, std::move(symbol_of), numbers, kept).run();
    result.statements.push_back(std::move(statement));
  }
  return result;
}

// The dense parts of arguments that the statements of a tile access.
std::vector<Region::Slice> slices_of(const Program& tile, std::size_t first_symbol) {
  std::map<std::uint32_t, Region::Slice> slices;
  for (const Statement& statement : tile.statements) {
    visit_target_and_reads(statement, [&](const Access& access) {
      const program::Tensor& tensor = tile.tensors[access.tensor];
      Form form = linear_form(tile, statement, access);
      const auto moves = [](std::int64_t c) { return c != 0; };
      if (tensor.role == program::Role::kTemp || may_be_out_of_range(tile, statement, access) ||
          std::none_of(form.symbols.begin() + static_cast<std::ptrdiff_t>(first_symbol), form.symbols.end(),
                       moves)) {
        return;
      }
      std::int64_t span = 1;
      std::int64_t count = 1;
      for (std::size_t i = 0; i < statement.loops.size(); ++i) {
        const auto extent = static_cast<std::int64_t>(statement.loops[i].extent);
        count *= form.loops[i] != 0 ? extent : 1;
        span += std::abs(form.loops[i]) * (extent - 1);
        form.constant += std::min<std::int64_t>(form.loops[i], 0) * (extent - 1);
      }
      Region::Slice& slice = slices[access.tensor];
      const auto bytes = span * static_cast<std::int64_t>(byte_size(tensor.type));
      if (span <= 2 * count && bytes > slice.byte_count) {
        slice = {access.tensor, std::move(form), bytes};
      }
    });
  }
  std::vector<Region::Slice> result;
  for (auto& [tensor, slice] : slices) {
    if (slice.byte_count != 0) {
      result.push_back(std::move(slice));
    }
  }
  return result;
}

std::optional<Region> Cutter::cut(const RegionOptions& options) const {
  const std::optional<Cut> where = choose(options);
  if (!where) {
    return std::nullopt;
  }
  Region region;
  region.outer.assign(extents_.begin(), extents_.begin() + static_cast<std::ptrdiff_t>(where->loop));
  region.extent = extents_[where->loop];
  region.chunk = where->chunk;
  region.parallel = iterations() >= kParallelElements;
  const std::int64_t rest = region.extent % region.chunk;
  region.tile = tile(*where, 0, region.extent - rest, region.tensors);
  if (rest != 0) {
    region.tail = tile({where->loop, rest}, region.extent - rest, region.extent, region.tensors);
  }
  region.slices = slices_of(region.tile, program_.symbols.size());
  return region;
}

}  // namespace

std::int64_t Region::tile_count() const {
  std::int64_t count = chunk_count();
  for (const std::int64_t one : outer) {
    count *= one;
  }
  return count;
}

std::optional<Region> cut_region(const Program& program, std::uint32_t first, std::uint32_t last,
                                 std::span<const program::Lifetime> lives, const RegionOptions& options) {
  return Cutter(program, first, last, lives).cut(options);
}

}  // namespace yoke::cc
