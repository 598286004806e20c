// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/row_loop.cpp: prints one pass over the elements of a row.
#include <algorithm>
#include <utility>

#include "general.h"
#include "row_printer.h"

namespace yoke::codegen {

using program::Statement;
using program::Type;

std::string RowPrinter::in_cache() const {
  return axes_.lanes > 1 ? "[k * " + std::to_string(axes_.lanes) + " + l]" : "[k]";
}

// How many iterations may have their loads in registers at once: "" for all. Arrays that are kept in registers
// between loops need all.
std::string RowPrinter::unrolled(const Traffic& traffic) const {
  std::uint64_t registers = 0;  // of one iteration
  for (const Linear& one : traffic.loads) {
    registers += std::uint64_t{axes_.lanes} *
                 (program::byte_size(program_.tensors[one.touch->access.tensor].type) == 8 ? 2 : 1);
  }
  const std::uint64_t fitting =
      std::max<std::uint64_t>(registers_ / std::max<std::uint64_t>(registers, 1), 1);
  if (is_unrolled_) {
    return caches_.empty() && columns_.empty() && fitting < per_thread_ ? " " + std::to_string(fitting) : "";
  }
  return " " + std::to_string(std::min<std::uint64_t>(fitting, 4));
}

void RowPrinter::open_elements_of_row(const Traffic& traffic) {
  const std::string type(printer_.index_type());
  const std::string per_row = std::to_string(per_row_);
  const std::string end = std::to_string(vectors_);
  printer_.line("#pragma unroll" + unrolled(traffic));
  if (is_unrolled_) {
    printer_.open("for (int k = 0; k < " + std::to_string(per_thread_) + "; ++k)");
    printer_.line("const " + type + " e = k * " + per_row + " + lane;");
    if (vectors_ % per_row_ != 0) {
      printer_.open("if (e < " + end + ")");
    }
  } else {
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

void RowPrinter::close_elements_of_row() {
  if (is_unrolled_ && vectors_ % per_row_ != 0) {
    printer_.close();
  }
  printer_.close();
}

RowPrinter::Traffic RowPrinter::traffic_of(std::size_t phase) {
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

bool RowPrinter::is_stored(const Linear& one, std::size_t phase) {
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

void RowPrinter::print_loop(std::size_t number) {
  const Phase& phase = phases_[number];
  std::map<std::size_t, std::string> sums;
  for (const std::size_t of : phase.statements) {
    if (is_row_fold(of)) {
      const Type type = statement(of).accumulator_type();
      sums[of] = printer_.fresh("sum");
      printer_.line(std::string(value_type(type)) + " " + sums[of] + " = " +
                    literal(type, neutral(*statement(of).reduce, type)) + ";");
    }
  }
  const Traffic traffic = traffic_of(number);
  open_elements_of_row(traffic);
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
    if (const Column* column = column_of(of)) {
      fold_term(of, column->sums + in_cache(), is_partial_ ? "if (active) " : "");
    } else if (statement(of).reduce) {
      fold_term(of, sums[of], "");
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
  finish_folds(sums);
  keep_row_values();
}

std::vector<std::string> RowPrinter::load_vectors(const Traffic& traffic) {
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

void RowPrinter::know_elements(const Traffic& traffic, const std::vector<std::string>& arrays) {
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

void RowPrinter::fold_term(std::size_t number, const std::string& sum, const std::string& condition) {
  const Statement& of = statement(number);
  const Type type = of.accumulator_type();
  const std::string term =
      printer_.named(type, printer_.converted(of.value.type, type, printer_.value(of.value)));
  printer_.line(condition + sum + " = " + printer_.applied(fold_of(*of.reduce), type, {sum, term}) + ";");
}

void RowPrinter::keep_elements(const Traffic& traffic, const std::vector<std::string>& arrays) {
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

void RowPrinter::store_vectors(const Traffic& traffic, const std::vector<std::string>& arrays) {
  for (std::size_t i = 0; i < traffic.stores.size(); ++i) {
    if (!arrays[i].empty()) {
      printer_.line((is_partial_ ? "if (active) " : "") +
                    function("store", traffic.stores[i].touch->access.tensor) + "(" +
                    pointer(traffic.stores[i], "b") + ", " + arrays[i] + ", aligned, " +
                    std::to_string(axes_.lanes) + ");");
    }
  }
}

std::string RowPrinter::shuffled(Type type, const std::string& value, std::uint64_t mask) const {
  return type == Type::kU8 ? "(unsigned char)YK_SHUFFLE_XOR((int)" + value + ", " + std::to_string(mask) + ")"
                           : "YK_SHUFFLE_XOR(" + value + ", " + std::to_string(mask) + ")";
}

void RowPrinter::finish_folds(const std::map<std::size_t, std::string>& sums) {
  std::map<std::size_t, std::string> shared;
  for (const auto& [number, sum] : sums) {
    const Type type = statement(number).accumulator_type();
    const program::Op fold = fold_of(*statement(number).reduce);
    for (std::uint64_t mask = std::min<std::uint64_t>(per_row_, warp_) / 2; mask > 0; mask /= 2) {
      const std::string other = printer_.named(type, shuffled(type, sum, mask));
      printer_.line(sum + " = " + printer_.applied(fold, type, {sum, other}) + ";");
    }
    if (per_row_ > warp_) {
      const std::string warp = std::to_string(warp_);
      shared[number] = printer_.fresh("shared");
      printer_.line("YK_SHARED " + std::string(value_type(type)) + " " + shared[number] + "[" +
                    std::to_string(per_row_ / warp_) + "];");
      printer_.line(
          joined({"if (lane % ", warp, " == 0) ", shared[number], "[lane / ", warp, "] = ", sum, ";"}));
    }
  }
  if (!shared.empty()) {
    printer_.line("YK_SYNC();");
  }
  for (const auto& [number, sum] : sums) {
    const Statement& of = statement(number);
    const Type type = of.accumulator_type();
    if (per_row_ > warp_) {
      printer_.line(sum + " = " + shared[number] + "[0];");
      printer_.line("#pragma unroll 4");  // all at once, for several sums, do not fit in registers
      printer_.open("for (int i = 1; i < " + std::to_string(per_row_ / warp_) + "; ++i)");
      printer_.line(sum + " = " + printer_.applied(fold_of(*of.reduce), type, {sum, shared[number] + "[i]"}) +
                    ";");
      printer_.close();
    }
    select(number, "0");
    const Type to = program_.tensors[of.target.tensor].type;
    const Printer::Place place = printer_.place(of.target);
    const std::string result = printer_.named(to, printer_.converted(type, to, sum));
    printer_.store(of.target.tensor, place.element, printer_.assigned(place, result));
  }
}

}  // namespace yoke::codegen
