// SPDX-License-Identifier: Apache-2.0
// runtime/passes/region.h: statements that a backend can run tile by tile, and the bytes that this saves.
#pragma once

#include <array>

#include "order.h"

namespace yoke::passes {

using program::Use;
using Numbers = std::vector<std::uint32_t>;

// The properties of one statement that decide which regions it fits.
struct Summary {
  std::vector<Use> uses;  // the target comes first
  // For each loop that a region may name, the dimension of the target that it indexes; kNoLoop for others.
  Numbers dims;
  std::uint64_t iterations = 1;
  bool is_product = false;
};

struct Summaries {
  explicit Summaries(const Graph& graph);
  std::vector<Summary> of;        // by statement
  std::vector<Place> user_count;  // by tensor: the number of statements that use it
};

// A region that grows statement by statement. Its loops are numbered as in its first statement.
class Region {
 public:
  static constexpr std::size_t kMaxSize = 64;

  Region(const Graph& graph, const Summaries& summaries)
      : graph_(graph), summaries_(summaries), known_(graph.program().tensors.size()) {}

  // Returns false if no region starts with this statement.
  bool start(Place first);
  // Adds a statement, and gives up the loops that do not fit it. After it returns false, call start() or
  // cut().
  bool add(Place next);
  // Keeps the first `size` statements. Precondition: these loops fit them.
  void cut(std::size_t size, const Numbers& named);

  const Places& statements() const { return statements_; }
  const Numbers& named() const { return named_; }
  // The loops that correspond to named() in the statement with this number in the region.
  const Numbers& loops_of(std::size_t number) const { return loops_[number]; }
  // The bytes that the region need not load or store.
  std::uint64_t saved_bytes() const;
  // If a region does not name every loop, values stay in a cache and not in registers, which saves less time.
  std::uint64_t worth() const { return saved_bytes() * (names_all_loops_ ? 64 : 63); }

 private:
  // A tensor that the region uses. `dims` has, per named loop, the dimensions that the loop indexes by itself
  // in every use, as bits. If the region writes the tensor, the loop must index the lowest of them in every
  // use.
  struct Known {
    std::uint64_t version = 0;  // the region's version_; entries with another version are out of date
    Place seen_by = 0;
    Place user_count = 0;
    bool is_written = false;
    std::array<std::uint32_t, 8> dims = {};  // as many as a tensor can have
  };

  void reset();
  const Known* find(std::uint32_t tensor) const;
  bool enter(Place i);
  Numbers match(Place i) const;
  std::uint32_t choose(const Summary& summary, std::uint32_t named) const;
  bool target_fits(const Summary& summary, std::uint32_t named, std::uint32_t loop) const;
  void count(const Summary& summary, std::uint32_t tensor, const Known& known);

  const Graph& graph_;
  const Summaries& summaries_;
  std::vector<Known> known_;  // by tensor
  std::uint64_t version_ = 0;
  Places statements_;
  std::vector<Numbers> loops_;
  Numbers named_;  // loops of the first statement
  std::uint64_t saved_bytes_ = 0;
  bool uses_product_ = false;
  bool names_all_loops_ = true;
};

// The regions of consecutive statements that save the most, from the last region to the first.
std::vector<Span> best_regions(const Graph& graph, const Summaries& summaries);

// Moves statements up to regions that they fit, and scalar statements from within a region to before it, if the regions
// then save more and the peak of temporaries is not higher (but for these scalars), and returns the new order. No
// product moves, and arguments become final after as many products as before.
Places gathered(const Graph& graph, const Summaries& summaries, const Places& order);

}  // namespace yoke::passes
