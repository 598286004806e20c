// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/column_printer.cpp: prints what folds the columns of a RowGroup.
#include <algorithm>
#include <utility>

#include "general.h"
#include "row_printer.h"

namespace yoke::codegen {

using program::Statement;
using program::Type;

namespace {

constexpr std::uint64_t kColumns = 32;  // of a block of the second kernel
constexpr std::uint64_t kMostSlices = 32;
constexpr std::uint64_t kMostLoadedBytes = 128;  // of rows that a thread loads at once, per tensor

}  // namespace

const RowPrinter::Column* RowPrinter::column_of(std::size_t number) const {
  const auto found = std::find_if(columns_.begin(), columns_.end(),
                                  [&](const Column& column) { return column.statement == number; });
  return found == columns_.end() ? nullptr : &*found;
}

bool RowPrinter::has_row_folds() const {
  return std::any_of(group_.statements.begin(), group_.statements.end(),
                     [&](std::size_t number) { return is_row_fold(number); });
}

void RowPrinter::open_rows() {
  if (columns_.empty()) {
    return;
  }
  const std::string count = std::to_string(per_thread_ * axes_.lanes);
  for (const Column& column : columns_) {
    const Statement& of = statement(column.statement);
    const Type type = of.accumulator_type();
    printer_.line(std::string(value_type(type)) + " " + column.sums + "[" + count + "];");
    printer_.line("#pragma unroll");
    printer_.line("for (int i = 0; i < " + count + "; ++i) " + column.sums +
                  "[i] = " + literal(type, neutral(*of.reduce, type)) + ";");
  }
  const std::string each = std::to_string(rows_each_);
  row_ = "(" + row_ + ") * " + each;
  for (const Cache& cache : caches_) {
    if (!cache.next.empty()) {
      printer_.line("__attribute__((aligned(16))) " +
                    std::string(memory_type(program_.tensors[cache.access.touch->access.tensor].type)) + " " +
                    cache.next + "[" + count + "];");
    }
  }
  if (loads_ahead_) {
    load_ahead(row_);
  }
  printer_.line("#pragma unroll " + std::to_string(rows_at_once()));
  printer_.open("for (int t = 0; t < " + each + "; ++t)");
  row_ += " + t";
}

// How many rows may have their loads in registers at once. Folds of rows need the registers themselves.
std::uint64_t RowPrinter::rows_at_once() const {
  std::uint64_t bytes = 1;  // of the largest element
  for (const Linear& one : axes_.linear) {
    bytes = std::max(bytes, program::byte_size(program_.tensors[one.touch->access.tensor].type));
  }
  return has_row_folds()
             ? 1
             : std::clamp<std::uint64_t>(kMostLoadedBytes / (per_thread_ * axes_.lanes * bytes), 1, 4);
}

// The threads of a block wait for each other, so that its rows do not hide each other's loads.
void RowPrinter::choose_loads_ahead(std::uint64_t registers) {
  if (rows_.columns.empty() || per_row_ <= warp_) {
    return;
  }
  for (Cache& cache : caches_) {
    const std::uint32_t tensor = cache.access.touch->access.tensor;
    const auto first = std::find_if(group_.touches.begin(), group_.touches.end(),
                                    [&](const Touch& touch) { return touch.access.tensor == tensor; });
    const std::uint64_t bytes = per_thread_ * axes_.lanes * program::byte_size(program_.tensors[tensor].type);
    if (!first->is_write && (axes_.lanes == 1 || axes_.is_vector(cache.access)) && bytes <= 4 * registers) {
      registers -= bytes / 4;
      cache.next = printer_.fresh("n");
      loads_ahead_ = true;
    }
  }
}

void RowPrinter::load_ahead(const std::string& row) {
  const std::vector<std::string> indices = indices_;
  printer_.open("");
  print_row_number(row);
  open_elements_of_row({});
  for (const Cache& cache : caches_) {
    const std::uint32_t tensor = cache.access.touch->access.tensor;
    if (cache.next.empty()) {
      continue;
    }
    if (axes_.lanes > 1) {
      const std::string lanes = std::to_string(axes_.lanes);
      printer_.line(joined({function("load", tensor), "(", cache.next, " + k * ", lanes, ", ",
                            pointer(cache.access, "b"), ", aligned, ", lanes, ");"}));
    } else {
      printer_.line(cache.next + "[k] = " + printer_.tensor(tensor) + "[" + element(cache.access, "b") +
                    "];");
    }
  }
  close_elements_of_row();
  printer_.close();
  indices_ = indices;
}

void RowPrinter::take_loaded() {
  for (Cache& cache : caches_) {
    if (!cache.next.empty()) {
      const Type type = program_.tensors[cache.access.touch->access.tensor].type;
      printer_.line("#pragma unroll");
      printer_.line("for (int i = 0; i < " + std::to_string(per_thread_ * axes_.lanes) + "; ++i) " +
                    cache.name + "[i] = " + from_memory(type, cache.next + "[i]") + ";");
      cache.is_filled = true;
    }
  }
  if (loads_ahead_) {
    printer_.open("if (t + 1 < " + std::to_string(rows_each_) + ")");
    load_ahead(row_ + " + 1");
    printer_.close();
  }
}

void RowPrinter::close_rows() {
  if (columns_.empty()) {
    return;
  }
  if (per_row_ > warp_ && has_row_folds()) {
    printer_.line("YK_SYNC();");  // the next row writes shared memory that this one reads
  }
  printer_.close();
  std::fill(indices_.begin(), indices_.end(), "0");
}

// Leaves the sums of the block in its first threads.
void RowPrinter::fold_in_block(const Column& column) {
  const Statement& of = statement(column.statement);
  const Type type = of.accumulator_type();
  const std::string per_row = std::to_string(per_row_);
  const std::string shared = printer_.fresh("shared");
  const std::string sum = column.sums + "[i]";
  printer_.line("YK_SHARED " + std::string(value_type(type)) + " " + shared + "[" + std::to_string(threads_) +
                "];");
  printer_.line("#pragma unroll");
  printer_.open("for (int i = 0; i < " + std::to_string(per_thread_ * axes_.lanes) + "; ++i)");
  printer_.line("YK_SYNC();");
  printer_.line(shared + "[threadIdx.x] = " + sum + ";");
  printer_.line("YK_SYNC();");
  printer_.line("#pragma unroll 4");  // all at once do not fit in registers
  printer_.open("for (int g = 1; g < " + std::to_string(threads_ / per_row_) + "; ++g)");
  printer_.line(sum + " = " +
                printer_.applied(fold_of(*of.reduce), type, {sum, shared + "[g * " + per_row + " + lane]"}) +
                ";");
  printer_.close();
  printer_.close();
}

void RowPrinter::store_parts() {
  for (const Column& column : columns_) {
    const Type type = statement(column.statement).accumulator_type();
    if (per_row_ < threads_) {
      fold_in_block(column);
    }
    const std::string parts = printer_.scratch(type, column.parts);
    const std::string lanes = std::to_string(axes_.lanes);
    printer_.line("#pragma unroll");
    printer_.open("for (int k = 0; k < " + std::to_string(per_thread_) + "; ++k)");
    printer_.line("const int e = k * " + std::to_string(per_row_) + " + lane;");
    printer_.open("if (e < " + std::to_string(vectors_) + " && (int)threadIdx.x < " +
                  std::to_string(per_row_) + ")");
    printer_.line("#pragma unroll");
    printer_.line(joined({"for (int l = 0; l < ", lanes, "; ++l) ", parts, "[(long long)blockIdx.x * ",
                          std::to_string(rows_.inner_count()), " + e * ", lanes,
                          " + l] = ", to_memory(type, joined({column.sums, "[k * ", lanes, " + l]"})), ";"}));
    printer_.close();
    printer_.close();
  }
}

// Each block folds the parts of some columns: each thread a slice of one column's parts, then one thread per column
// the slices.
void RowPrinter::fold_parts() {
  if (columns_.empty()) {
    return;
  }
  Builder& builder = printer_.builder();
  Printer printer(builder, printer_.index_type() != "int");
  const std::uint64_t slices = std::min(kMostSlices, builder.target().max_threads / kColumns);
  const std::string count = std::to_string(rows_.inner_count());
  const std::string step = std::to_string(slices);
  const std::string width = std::to_string(kColumns);
  printer.line("const int slice = (int)threadIdx.x / " + width + ";");
  printer.line("const " + std::string(printer.index_type()) + " column = (int)blockIdx.x * " + width +
               " + (int)threadIdx.x % " + width + ";");
  for (const Column& column : columns_) {
    const Statement& of = statement(column.statement);
    const Type type = of.accumulator_type();
    const program::Op fold = fold_of(*of.reduce);
    const std::string type_text(value_type(type));
    const std::string sum = printer.fresh("sum");
    const std::string shared = printer.fresh("shared");
    const std::string part = printer.scratch(type, column.parts) + "[(long long)p * " + count + " + column]";
    printer.line(joined({type_text, " ", sum, " = ", literal(type, neutral(*of.reduce, type)), ";"}));
    printer.open("if (column < " + count + ")");
    printer.line("#pragma unroll 8");
    printer.line(joined({"for (int p = slice; p < ", std::to_string(blocks_), "; p += ", step, ") ", sum,
                         " = ", printer.applied(fold, type, {sum, from_memory(type, part)}), ";"}));
    printer.close();
    printer.line(
        joined({"YK_SHARED ", type_text, " ", shared, "[", std::to_string(slices * kColumns), "];"}));
    printer.line(joined({shared, "[threadIdx.x] = ", sum, ";"}));
    printer.line("YK_SYNC();");
    printer.open("if (slice == 0 && column < " + count + ")");
    const std::string slice_sum = joined({shared, "[i * ", width, " + threadIdx.x]"});
    printer.line(joined({"for (int i = 1; i < ", step, "; ++i) ", sum, " = ",
                         printer.applied(fold, type, {sum, slice_sum}), ";"}));
    printer.select(of);
    const std::vector<std::string> names = codegen::split(printer, "column", rows_.inner);
    for (std::size_t i = 0; i < names.size(); ++i) {
      printer.bind(static_cast<std::uint32_t>(rows_.rows.size() + i), names[i]);
    }
    const Type to = program_.tensors[of.target.tensor].type;
    const Printer::Place place = printer.place(of.target);
    const std::string result = printer.named(to, printer.converted(type, to, sum));
    printer.store(of.target.tensor, place.element, printer.assigned(place, result));
    printer.close();
  }
  Launch launch = printer.launch();
  launch.kernel = builder.kernel(static_cast<std::uint32_t>(slices * kColumns), printer.text());
  launch.grid[0] = static_cast<std::uint32_t>((rows_.inner_count() + kColumns - 1) / kColumns);
  builder.launch(std::move(launch));
}

}  // namespace yoke::codegen
