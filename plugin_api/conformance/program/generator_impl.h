// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/generator_impl.h: the generator's class, implemented in three files.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "../random.h"
#include "generator.h"

namespace yoke::conformance {

inline program::Index at(std::uint32_t loop) {
  return {program::Affine::loop(loop), {}, {}};
}

inline bool is_number(program::Type type) {
  return type != program::Type::kBool;
}

class Generator {
 public:
  Generator(std::uint64_t seed, std::uint64_t index, const GeneratorOptions& options,
            std::uint64_t attempt = 0);
  Case make();

 private:
  using Type = program::Type;
  using Op = program::Op;
  using Expr = program::Expr;
  using Affine = program::Affine;
  using Dims = std::vector<std::uint64_t>;

  // The generator's information about a tensor besides its declaration.
  struct Known {
    bool whole = false;  // every element has been written; set by the first statement, see split_form
    bool exact = true;   // its values are the same on every correct backend
  };
  // The range of an affine index.
  struct Range {
    std::int64_t low = 0;
    std::int64_t high = 0;
  };

  // generator.cpp: choices, sizes and tensors.
  bool chance(std::uint64_t percent) { return random_.below(100) < percent; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[random_.below(values.size())];
  }
  bool has(Type type) const { return (options_.type_mask >> static_cast<unsigned>(type) & 1U) != 0; }
  std::optional<Type> type_where(bool (*fits)(Type));
  Type number_type();
  void choose_sizes();
  void choose_symbols();
  void show_results();
  void choose_launches();
  void group_by_hints();

  // generator_repeat.cpp: repeat blocks.
  bool verifies() const;
  void repeat_statements();
  std::uint32_t add_variable(std::uint64_t rounds);
  void move_with(std::uint32_t variable, std::size_t first, std::size_t last);
  void scan();
  void share_arguments();
  std::uint64_t extent(std::uint64_t limit);
  std::uint64_t scaled(std::uint64_t limit) const;
  Dims dims(std::size_t rank, std::uint64_t limit);
  std::size_t rank();
  std::uint32_t add_tensor(Type type, Dims dims, program::Role role, DataKind kind, std::int64_t limit = 1);
  std::uint32_t add_result(Type type, Dims dims);
  bool may_add_tensor() const { return case_.program.tensors.size() < (options_.chains ? 30 : 14); }
  void feature(std::uint64_t number);
  void any_form();

  // generator_statements.cpp: one function per form of statement.
  void map_form(std::optional<Op> op, Type over);
  void in_place_form();
  void split_form();
  void partial_form();
  void reduce_form(program::Reduce reduce);
  void accumulate_form();
  void arg_form(program::Reduce reduce);
  void bool_reduce_form(program::Reduce reduce);
  void contraction_form();
  std::vector<std::uint64_t> loop_kinds();
  void convolution_form();
  void gather_form();
  void scatter_form();
  void random_form();
  void softmax_form();
  void radix_form();
  void repeat_form();
  void copy_form();
  Expr guarded(Type type, int depth, bool exact);
  void begin(std::uint32_t target);
  void whole_target(std::uint32_t target);
  void plain_target(std::uint32_t target);
  // Adds the statement. `exact`: the value is the same on every correct backend; by default that of is_exact().
  void finish(Expr value, std::optional<bool> exact = std::nullopt);
  std::uint32_t add_loop(std::uint64_t extent);
  std::uint32_t add_reduce_loop(std::uint64_t extent);
  void add_reduce_loops(std::uint64_t limit);
  std::uint64_t iterations() const;
  std::optional<std::uint32_t> writable(bool number);
  struct Accumulation {
    Type target;
    std::optional<Type> accumulator;
    Type value;
  };
  std::optional<Accumulation> accumulation(std::optional<Type> target);
  program::Assign random_assign();
  DataKind kind_for(program::Reduce reduce);
  void epilogue(std::uint32_t from);

  // generator_values.cpp: indices, reads, expressions.
  Range range(const Affine& affine) const;
  static void add_term(Affine& affine, bool is_symbol, std::uint32_t id, std::int64_t coefficient);
  std::optional<Affine> inside(std::uint64_t dim);
  program::Index anywhere();
  program::Index gather_index(std::uint64_t dim);
  program::Literal literal(Type type);
  Expr constant(Type type);
  Expr read(Type type, bool exact);
  std::optional<std::uint32_t> readable(Type type, bool exact);
  Expr read_of(std::uint32_t tensor);
  Expr read_new(Type type, DataKind kind);
  Expr leaf(Type type, bool exact);
  Expr value(Type type, int depth, bool exact);
  Expr apply(Op op, Type over, int depth, bool exact);
  Expr in_domain(Op op, Expr argument);
  Op op_in(std::initializer_list<program::Family> families, Type type);
  Op op_giving(Type type);
  DataKind any_kind();
  bool is_exact(const Expr& expr) const;

  GeneratorOptions options_;
  Random random_;
  Case case_;
  std::vector<Known> known_;
  std::vector<std::uint64_t> pool_;  // extents for the dimensions of this program
  std::uint64_t iteration_limit_ = 20000;
  program::Statement statement_;  // under construction
  bool in_guard_ = false;         // reads need no `else` to be out of range
  int names_ = 0;
};

}  // namespace yoke::conformance
