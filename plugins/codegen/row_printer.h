// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/row_printer.h: prints the kernels of a RowGroup. Some lanes of a warp, or a block, share a
// row. Folds run in a fixed order: each thread over its elements, then lanes in a tree, then warps one after
// another. With column reductions, they compute several rows one after another and keep the sums of their columns in
// registers; a second kernel folds the sums of the blocks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rows.h"
#include "vectors.h"

namespace yoke::codegen {

class RowPrinter : private VectorPrinter {
 public:
  RowPrinter(Builder& builder, const RowGroup& rows);
  // Adds the kernel and its launch to the current step.
  void plan();

 private:
  // Statements that run in one pass over the elements of a row, or once for the row.
  struct Phase {
    bool is_loop = false;
    std::vector<std::size_t> statements;
  };
  struct Cache {
    Linear access;
    std::string name;
    std::string next;  // the same elements of the next row, as in memory; empty: not loaded ahead
    bool is_filled = false;
  };

  const program::Statement& statement(std::size_t number) const { return program_.statements[number]; }

  // Whether the statement computes one value per row.
  bool is_row_value(std::size_t number) const {
    return codegen::is_row_value(statement(number), rows_.rows.size());
  }
  // Whether each iteration of the inner loops accesses an element of its own.
  bool uses_inner_loops(const Linear& one) const;
  // Whether all rows access the same elements, so that they stay in the GPU's L1 cache.
  bool is_shared_by_rows(const Linear& one) const;

  void make_phases();
  std::size_t phase_of(std::size_t number) const;

  // Elements that several loops use stay in registers if all of them fit.
  void choose_caches();
  Cache* cache_of(std::uint32_t tensor, const std::vector<program::Index>& indices);

  void print_head();
  void print_row();
  void print_row_number(const std::string& number);

  // The index of the last axis in the current lane, and of its first lane.
  std::string last() const { return axes_.lanes > 1 ? "(b + l)" : "b"; }
  std::string in_cache() const;  // the element of a cache

  void print_values(const Phase& phase);
  void keep_row_values();

  void close_elements_of_row();

  // What a loop loads and stores, except what is in registers already or stays there.
  struct Traffic {
    std::vector<Linear> loads;
    std::vector<Linear> stores;
  };
  Traffic traffic_of(std::size_t phase);
  std::string unrolled(const Traffic& traffic) const;
  void open_elements_of_row(const Traffic& traffic);

  // Whether the loop must store what it writes: not if only registers are read or a later
  // loop overwrites it.
  bool is_stored(const Linear& one, std::size_t phase);

  void print_loop(std::size_t number);
  std::vector<std::string> load_vectors(const Traffic& traffic);

  // Names the elements that were loaded or that earlier loops left in registers.
  void know_elements(const Traffic& traffic, const std::vector<std::string>& arrays);
  bool is_row_fold(std::size_t number) const {
    return statement(number).reduce && column_of(number) == nullptr;
  }
  void fold_term(std::size_t number, const std::string& sum, const std::string& condition);

  // Moves what the statements wrote to where it belongs: registers, the vector to store, or memory.
  void keep_elements(const Traffic& traffic, const std::vector<std::string>& arrays);
  void store_vectors(const Traffic& traffic, const std::vector<std::string>& arrays);
  std::string shuffled(program::Type type, const std::string& value, std::uint64_t mask) const;

  // Folds the threads' sums, by statement: all threads of the row get the results.
  void finish_folds(const std::map<std::size_t, std::string>& sums);

  // Values of the row are stored last, so that all threads have read the old ones.
  void print_row_stores();

  // The sums of columns (column_printer.cpp).
  struct Column {
    std::size_t statement = 0;
    std::string sums;  // an array like a cache
    Slot parts;        // by block and inner loops
  };
  const Column* column_of(std::size_t number) const;
  void open_rows();  // the loop over the rows of a thread
  void close_rows();
  bool has_row_folds() const;
  std::uint64_t rows_at_once() const;
  void choose_loads_ahead(std::uint64_t registers);
  void load_ahead(const std::string& row);
  void take_loaded();
  void fold_in_block(const Column& column);
  void store_parts();
  void fold_parts();  // adds the second kernel

  const RowGroup& rows_;
  std::uint64_t warp_ = 32;
  std::uint64_t vectors_ = 1;     // of a row
  std::uint64_t per_row_ = 1;     // threads that share a row
  std::uint64_t threads_ = 1;     // of a block
  std::uint64_t per_thread_ = 1;  // vectors of a row
  std::uint64_t rows_each_ = 1;   // rows that the threads of a row compute one after another
  std::uint64_t registers_ = 1;   // of a thread, for elements
  std::size_t row_axes_ = 0;
  bool is_partial_ = false;  // whether some threads have no row
  bool is_cached_ = false;
  bool loads_ahead_ = false;
  bool is_unrolled_ = false;  // whether loops over the elements have a fixed count, for arrays in registers
  std::uint64_t blocks_ = 1;
  std::string row_;  // of the thread, or of its first row divided by rows_each_
  std::vector<Phase> phases_;
  std::vector<Cache> caches_;
  std::vector<Column> columns_;
  std::vector<Printer::Pending> row_values_;
};

}  // namespace yoke::codegen
