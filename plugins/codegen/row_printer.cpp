// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/row_printer.cpp: kernels for rows. Some lanes of a warp, or a block, share a row. Folds run in
// a fixed order: each thread over its elements, then lanes in a tree, then warps one after another.
#include <algorithm>
#include <map>
#include <utility>

#include "general.h"
#include "rows.h"
#include "vectors.h"

namespace yoke::codegen {

using program::Program;
using program::Reduce;
using program::Statement;
using program::Type;

namespace {

constexpr std::uint64_t kMostInWarp = 1024;  // elements of a row that lanes of a warp share
constexpr std::uint64_t kMostAlone = 16;     // elements of a row that a thread computes alone
constexpr std::uint64_t kMostCached = 32;    // elements of a row that a thread keeps in registers, per tensor
constexpr std::uint64_t kMostCachedAll = 96;  // and of all tensors
constexpr std::uint32_t kWarpRowThreads = 128;

std::uint64_t power_of_two(std::uint64_t least) {
  std::uint64_t power = 1;
  while (power < least) {
    power *= 2;
  }
  return power;
}

class RowPrinter : private VectorPrinter {
 public:
  RowPrinter(Builder& builder, const RowGroup& rows)
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
      per_row_ = std::clamp<std::uint64_t>(power_of_two((vectors_ + 3) / 4), kWarpRowThreads, most);
    }
    threads_ = std::max<std::uint64_t>(per_row_, kWarpRowThreads);
    per_thread_ = (vectors_ + per_row_ - 1) / per_row_;
    make_phases();
    choose_caches();
  }

  void plan() {
    print_head();
    for (std::size_t i = 0; i < phases_.size(); ++i) {
      phases_[i].is_loop ? print_loop(i) : print_values(phases_[i]);
    }
    print_row_stores();
    Builder& builder = printer_.builder();
    Launch launch = printer_.launch();
    const std::uint64_t in_block = threads_ / per_row_;
    launch.kernel = builder.kernel(static_cast<std::uint32_t>(threads_), printer_.text());
    launch.grid[0] = static_cast<std::uint32_t>((rows_.row_count() + in_block - 1) / in_block);
    if (rows_.row_count() < 32 && rows_.inner_count() > 65536) {
      launch.remark = "few long rows: " + std::to_string(rows_.row_count()) + " blocks";
    }
    builder.launch(std::move(launch));
  }

 private:
  // Statements that run in one pass over the elements of a row, or once for the row.
  struct Phase {
    bool is_loop = false;
    std::vector<std::size_t> statements;
  };
  struct Cache {
    Linear access;
    std::string name;
    bool is_filled = false;
  };

  const Statement& statement(std::size_t number) const { return program_.statements[number]; }

  // Whether the statement computes one value per row.
  bool is_row_value(std::size_t number) const {
    return !statement(number).reduce && statement(number).loops.size() == rows_.rows.size();
  }

  bool uses_inner_loops(const Linear& one) const {
    return statement(one.touch->statement).loops.size() > rows_.rows.size() &&
           !(one.touch->is_write && statement(one.touch->statement).reduce);
  }

  void make_phases() {
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

  std::size_t phase_of(std::size_t number) const {
    const auto found = std::find_if(phases_.begin(), phases_.end(), [&](const Phase& phase) {
      return std::find(phase.statements.begin(), phase.statements.end(), number) != phase.statements.end();
    });
    return static_cast<std::size_t>(found - phases_.begin());
  }

  // Elements that several loops use stay in registers if all of them fit.
  void choose_caches() {
    std::vector<Cache> caches;
    for (const Linear& one : axes_.linear) {
      const auto same = [&](const Cache& cache) { return same_element(cache.access, one); };
      if (!uses_inner_loops(one) || std::any_of(caches.begin(), caches.end(), same)) {
        continue;
      }
      std::set<std::size_t> loops;
      for (const Linear& other : axes_.linear) {
        if (same_element(one, other) && uses_inner_loops(other)) {
          loops.insert(phase_of(other.touch->statement));
        }
      }
      if (loops.size() > 1) {
        caches.push_back({one, {}, false});
      }
    }
    const std::uint64_t elements = per_thread_ * axes_.lanes;
    is_cached_ = elements <= kMostCached && elements * caches.size() <= kMostCachedAll;
    if (is_cached_) {
      caches_ = std::move(caches);
    }
  }

  Cache* cache_of(std::uint32_t tensor, const std::vector<program::Index>& indices) {
    const auto found = std::find_if(caches_.begin(), caches_.end(), [&](const Cache& cache) {
      return cache.access.touch->access.tensor == tensor && cache.access.touch->access.indices == indices;
    });
    return found == caches_.end() ? nullptr : &*found;
  }

  void print_head() {
    const std::string type(printer_.index_type());
    const std::string per_row = std::to_string(per_row_);
    const std::uint64_t in_block = threads_ / per_row_;
    const std::uint64_t count = rows_.row_count();
    std::string row = "(" + type + ")blockIdx.x";
    std::string lane = "(int)threadIdx.x";
    if (in_block > 1) {
      row += " * " + std::to_string(in_block) + " + (" + type + ")threadIdx.x / " + per_row;
      lane += " % " + per_row;
    }
    printer_.line("const int lane = " + (per_row_ == 1 ? "0" : lane) + ";");
    printer_.line(type + " row = " + row + ";");
    // Threads without a row compute the last one, because all lanes of a warp take part in its folds.
    is_partial_ = count % in_block != 0;
    if (is_partial_) {
      printer_.line("const bool active = row < " + std::to_string(count) + ";");
      printer_.line("if (!active) row = " + std::to_string(count - 1) + ";");
    }
    std::size_t row_axes = 0;
    std::vector<std::uint64_t> extents;
    for (const Axis& axis : axes_.axes) {
      if (axis.loops.back() < rows_.rows.size()) {
        extents.push_back(axis.extent);
        ++row_axes;
      }
    }
    indices_ = split(printer_, "row", extents);
    indices_.resize(std::max<std::size_t>(axes_.axes.size(), 1), "0");
    row_axes_ = row_axes;
    if (axes_.lanes > 1) {
      std::vector<Linear> vectors;
      for (const Linear& one : axes_.linear) {
        if (uses_inner_loops(one) && axes_.is_vector(one)) {
          vectors.push_back(one);
        }
      }
      print_alignment(vectors);
    }
    for (Cache& cache : caches_) {
      cache.name = printer_.fresh("c");
      printer_.line(std::string(value_type(program_.tensors[cache.access.touch->access.tensor].type)) + " " +
                    cache.name + "[" + std::to_string(per_thread_ * axes_.lanes) + "];");
    }
  }

  // The index of the last axis in the current lane, and of its first lane.
  std::string last() const { return axes_.lanes > 1 ? "(b + l)" : "b"; }
  std::string in_cache() const {
    return axes_.lanes > 1 ? "[k * " + std::to_string(axes_.lanes) + " + l]" : "[k]";
  }

  void print_values(const Phase& phase) {
    for (const std::size_t number : phase.statements) {
      select(number, "0");
      printer_.one_element();
      keep_row_values();
    }
  }

  void keep_row_values() {
    for (Printer::Pending& one : printer_.take_pending()) {
      std::erase_if(row_values_, [&](const Printer::Pending& other) { return other.tensor == one.tensor; });
      row_values_.push_back(std::move(one));
    }
  }

  void open_elements_of_row() {
    const std::string type(printer_.index_type());
    const std::string per_row = std::to_string(per_row_);
    const std::string end = std::to_string(vectors_);
    if (is_cached_) {
      printer_.line("#pragma unroll");
      printer_.open("for (int k = 0; k < " + std::to_string(per_thread_) + "; ++k)");
      printer_.line("const " + type + " e = k * " + per_row + " + lane;");
      if (vectors_ % per_row_ != 0) {
        printer_.open("if (e < " + end + ")");
      }
    } else {
      printer_.line("#pragma unroll 4");
      printer_.open("for (" + type + " e = lane; e < " + end + "; e += " + per_row + ")");
    }
    std::vector<std::uint64_t> extents;
    for (std::size_t i = row_axes_; i < axes_.axes.size(); ++i) {
      extents.push_back(axes_.axes[i].extent);
    }
    if (!extents.empty()) {
      extents.back() /= axes_.lanes;
    }
    const std::vector<std::string> names = split(printer_, "e", extents);
    std::copy(names.begin(), names.end(), indices_.begin() + static_cast<std::ptrdiff_t>(row_axes_));
    const std::string first = names.empty() ? "0" : names.back();
    printer_.line("const " + type + " b = " + first +
                  (axes_.lanes > 1 ? " * " + std::to_string(axes_.lanes) : "") + ";");
  }

  void close_elements_of_row() {
    if (is_cached_ && vectors_ % per_row_ != 0) {
      printer_.close();
    }
    printer_.close();
  }

  // What a loop loads and stores, without what is in registers already or stays there.
  struct Traffic {
    std::vector<Linear> loads;
    std::vector<Linear> stores;
  };
  Traffic traffic_of(std::size_t phase) {
    Traffic traffic;
    std::vector<Linear> written;
    for (const Linear& one : axes_.linear) {
      if (phase_of(one.touch->statement) != phase || !uses_inner_loops(one)) {
        continue;
      }
      const Cache* cache = cache_of(one.touch->access.tensor, one.touch->access.indices);
      if (one.touch->is_write) {
        written.push_back(one);
        if (is_stored(one, phase) && !contains(traffic.stores, one)) {
          traffic.stores.push_back(one);
        }
      } else if (!contains(written, one) && !contains(traffic.loads, one) &&
                 (cache == nullptr || !cache->is_filled)) {
        traffic.loads.push_back(one);
      }
    }
    return traffic;
  }

  // Whether the loop must store what it writes: not if only registers are read, or a later loop overwrites it.
  bool is_stored(const Linear& one, std::size_t phase) {
    bool is_read_later = false;
    bool is_written_later = false;
    for (const Linear& other : axes_.linear) {
      if (same_element(one, other) && phase_of(other.touch->statement) > phase) {
        is_read_later = is_read_later || !other.touch->is_write;
        is_written_later = is_written_later || other.touch->is_write;
      }
    }
    if (is_read_later && !is_cached_) {
      return true;
    }
    return !is_written_later && !private_.contains(one.touch->access.tensor);
  }

  void print_loop(std::size_t number) {
    const Phase& phase = phases_[number];
    std::map<std::size_t, std::string> sums;
    for (const std::size_t of : phase.statements) {
      if (statement(of).reduce) {
        const Type type = statement(of).accumulator_type();
        sums[of] = printer_.fresh("sum");
        printer_.line(std::string(value_type(type)) + " " + sums[of] + " = " +
                      literal(type, neutral(*statement(of).reduce, type)) + ";");
      }
    }
    const Traffic traffic = traffic_of(number);
    open_elements_of_row();
    const std::vector<std::string> loaded = load_vectors(traffic);
    std::vector<std::string> stored;
    if (axes_.lanes > 1) {
      for (const Linear& one : traffic.stores) {
        stored.push_back(axes_.is_vector(one) ? array("w", one.touch->access.tensor) : "");
      }
      printer_.line("#pragma unroll");
      printer_.open("for (int l = 0; l < " + std::to_string(axes_.lanes) + "; ++l)");
    }
    know_elements(traffic, loaded);
    for (const std::size_t of : phase.statements) {
      select(of, last());
      if (statement(of).reduce) {
        fold_term(of, sums[of]);
      } else {
        printer_.one_element();
      }
    }
    keep_elements(traffic, stored);
    if (axes_.lanes > 1) {
      printer_.close();
      store_vectors(traffic, stored);
    }
    close_elements_of_row();
    for (const std::size_t of : phase.statements) {
      if (statement(of).reduce) {
        finish_fold(of, sums[of]);
      }
    }
    keep_row_values();
  }

  std::vector<std::string> load_vectors(const Traffic& traffic) {
    std::vector<std::string> arrays;
    for (const Linear& one : traffic.loads) {
      const bool is_vector = axes_.lanes > 1 && axes_.is_vector(one);
      arrays.push_back(is_vector ? array("a", one.touch->access.tensor) : "");
      if (is_vector) {
        printer_.line(function("load", one.touch->access.tensor) + "(" + arrays.back() + ", " +
                      pointer(one, "b") + ", aligned, " + std::to_string(axes_.lanes) + ");");
      }
    }
    return arrays;
  }

  // Names the elements that were loaded or that earlier loops left in registers.
  void know_elements(const Traffic& traffic, const std::vector<std::string>& arrays) {
    for (std::size_t i = 0; i < traffic.loads.size(); ++i) {
      const program::Access& access = traffic.loads[i].touch->access;
      const Type type = program_.tensors[access.tensor].type;
      const std::string at = element(traffic.loads[i], last());
      Cache* cache = cache_of(access.tensor, access.indices);
      std::string value;
      if (!arrays[i].empty()) {
        value = printer_.named(type, from_memory(type, arrays[i] + "[l]"));
        printer_.know(access.tensor, at, value);
      } else if (cache != nullptr) {
        value = printer_.loaded(access.tensor, at);
      }
      if (cache != nullptr) {
        printer_.line(cache->name + in_cache() + " = " + value + ";");
      }
    }
    for (const Cache& cache : caches_) {
      if (cache.is_filled) {
        printer_.know(cache.access.touch->access.tensor, element(cache.access, last()),
                      cache.name + in_cache());
      }
    }
    for (const Linear& one : traffic.loads) {
      if (Cache* cache = cache_of(one.touch->access.tensor, one.touch->access.indices)) {
        cache->is_filled = true;
      }
    }
  }

  void fold_term(std::size_t number, const std::string& sum) {
    const Statement& of = statement(number);
    const Type type = of.accumulator_type();
    const std::string term =
        printer_.named(type, printer_.converted(of.value.type, type, printer_.value(of.value)));
    printer_.line(sum + " = " + printer_.applied(fold_of(*of.reduce), type, {sum, term}) + ";");
  }

  // Puts what the statements wrote where it belongs: registers, the vector to store, or memory.
  void keep_elements(const Traffic& traffic, const std::vector<std::string>& arrays) {
    for (const Printer::Pending& one : printer_.take_pending()) {
      const Type type = program_.tensors[one.tensor].type;
      const program::Access* access = nullptr;
      for (const Touch& touch : group_.touches) {
        access = touch.is_write && touch.access.tensor == one.tensor ? &touch.access : access;
      }
      if (Cache* cache = cache_of(one.tensor, access->indices)) {
        printer_.line(cache->name + in_cache() + " = " + one.value + ";");
        cache->is_filled = true;
      }
      for (std::size_t i = 0; i < traffic.stores.size(); ++i) {
        if (traffic.stores[i].touch->access.tensor != one.tensor) {
          continue;
        }
        const bool is_vector = !arrays.empty() && !arrays[i].empty();
        const std::string to =
            is_vector ? arrays[i] + "[l]" : printer_.tensor(one.tensor) + "[" + one.element + "]";
        printer_.line((is_partial_ && !is_vector ? "if (active) " : "") + to + " = " +
                      to_memory(type, one.value) + ";");
      }
    }
  }

  void store_vectors(const Traffic& traffic, const std::vector<std::string>& arrays) {
    for (std::size_t i = 0; i < traffic.stores.size(); ++i) {
      if (!arrays[i].empty()) {
        printer_.line((is_partial_ ? "if (active) " : "") +
                      function("store", traffic.stores[i].touch->access.tensor) + "(" +
                      pointer(traffic.stores[i], "b") + ", " + arrays[i] + ", aligned, " +
                      std::to_string(axes_.lanes) + ");");
      }
    }
  }

  std::string shuffled(Type type, const std::string& value, std::uint64_t mask) const {
    return type == Type::kU8
               ? "(unsigned char)YK_SHUFFLE_XOR((int)" + value + ", " + std::to_string(mask) + ")"
               : "YK_SHUFFLE_XOR(" + value + ", " + std::to_string(mask) + ")";
  }

  // Folds the threads' sums: all threads of the row get the result.
  void finish_fold(std::size_t number, const std::string& sum) {
    const Statement& of = statement(number);
    const Type type = of.accumulator_type();
    const program::Op fold = fold_of(*of.reduce);
    const std::string type_text(value_type(type));
    for (std::uint64_t mask = std::min<std::uint64_t>(per_row_, warp_) / 2; mask > 0; mask /= 2) {
      const std::string other = printer_.named(type, shuffled(type, sum, mask));
      printer_.line(sum + " = " + printer_.applied(fold, type, {sum, other}) + ";");
    }
    if (per_row_ > warp_) {
      const std::string shared = printer_.fresh("shared");
      const std::string warp = std::to_string(warp_);
      const std::uint64_t warps = per_row_ / warp_;
      printer_.line("YK_SHARED " + type_text + " " + shared + "[" + std::to_string(warps) + "];");
      printer_.line("if (lane % " + warp + " == 0) " + shared + "[lane / " + warp + "] = " + sum + ";");
      printer_.line("YK_SYNC();");
      printer_.line(sum + " = " + shared + "[0];");
      printer_.open("for (int i = 1; i < " + std::to_string(warps) + "; ++i)");
      printer_.line(sum + " = " + printer_.applied(fold, type, {sum, shared + "[i]"}) + ";");
      printer_.close();
    }
    select(number, "0");
    const Type to = program_.tensors[of.target.tensor].type;
    const Printer::Place place = printer_.place(of.target);
    const std::string result = printer_.named(to, printer_.converted(type, to, sum));
    printer_.store(of.target.tensor, place.element, printer_.assigned(place, result));
  }

  // Values of the row are stored last, so that all threads have read the old ones.
  void print_row_stores() {
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

  const RowGroup& rows_;
  std::uint64_t warp_ = 32;
  std::uint64_t vectors_ = 1;     // of a row
  std::uint64_t per_row_ = 1;     // threads that share a row
  std::uint64_t threads_ = 1;     // of a block
  std::uint64_t per_thread_ = 1;  // vectors of a row
  std::size_t row_axes_ = 0;
  bool is_partial_ = false;  // whether some threads have no row
  bool is_cached_ = false;
  std::vector<Phase> phases_;
  std::vector<Cache> caches_;
  std::vector<Printer::Pending> row_values_;
};

}  // namespace

void plan_rows(Builder& builder, const RowGroup& rows) {
  builder.begin_step(rows.group.statements);
  RowPrinter(builder, rows).plan();
}

}  // namespace yoke::codegen
