// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/border_programs.h: programs that apply every operation on every type to the borders of
// the type, and programs whose extents, symbols or accumulators are at borders. The generator reaches these values by
// chance only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "case.h"

namespace yoke::conformance {

// Each function returns valid programs that use only types of the mask; compare GeneratorOptions.

// Every operation on every pair of borders, comparisons also inside select, and values that compilers simplify.
std::vector<Case> operator_programs(std::uint64_t seed, std::uint64_t type_mask);
// Every conversion.
std::vector<Case> cast_programs(std::uint64_t seed, std::uint64_t type_mask);
// Every reduction over rows, columns and all elements; every assignment.
std::vector<Case> reduction_programs(std::uint64_t seed, std::uint64_t type_mask);
// Sums and products in each accumulator that is wider than the elements, of data that need it.
std::vector<Case> accumulator_programs(std::uint64_t seed, std::uint64_t type_mask);
// Symbols as values, offsets and parts of larger offsets, with ranges beyond 32 and 53 bits.
std::vector<Case> symbol_programs(std::uint64_t seed, std::uint64_t type_mask);
// Loops with extents of 1 to 33, around powers of two, and of whole blocks, over elements of 1 to 8 bytes.
std::vector<Case> tail_programs(std::uint64_t seed, std::uint64_t type_mask);
// Reductions of tensors of 4 dimensions over every set of dimensions, copies in every order of dimensions, and
// broadcasts along every set of dimensions. Extents are 1, small, or around the sizes of vectors and tiles.
std::vector<Case> axis_programs(std::uint64_t seed, std::uint64_t type_mask);
// Sums of products with several loops for the batch, the rows, the columns and the reduction, in any order.
std::vector<Case> loop_programs(std::uint64_t seed, std::uint64_t type_mask);

// Every conversion and every unary float operation, on every pattern of 16 bits and on bits of wider types that are
// hard to round (DataKind::kBits).
std::vector<Case> bit_programs(std::uint64_t seed, std::uint64_t type_mask);
// Integers of any length: every operation on two of them, and divisions, remainders, products and shifts by constants.
std::vector<Case> integer_programs(std::uint64_t seed, std::uint64_t type_mask);
// random_bits at every seed, stream and counter of 64 bits.
std::vector<Case> random_bits_programs(std::uint64_t seed, std::uint64_t type_mask);
// Gathers and scatters with every type of index and element, and indices at and beyond both ends.
std::vector<Case> index_programs(std::uint64_t seed, std::uint64_t type_mask);
// Reads with `else` around both ends of a dimension, with every offset, stride and divisor, alone, nested and in sums.
std::vector<Case> guard_programs(std::uint64_t seed, std::uint64_t type_mask);
// Deep and wide expressions, 8 dimensions, long repeat blocks, three dimensions beyond 2^16; names that are words of
// programming languages or that generators of code use.
std::vector<Case> limit_programs(std::uint64_t seed, std::uint64_t type_mask);
// Many temporaries that live before, in and after repeat blocks, from one round to the next and to the end.
std::vector<Case> lifetime_programs(std::uint64_t seed, std::uint64_t type_mask);

// Every border of every type as a literal, at every place of a statement: operand, branch, `else` value, whole value.
std::vector<Case> literal_programs(std::uint64_t seed, std::uint64_t type_mask);
// Every operation inside every other one, at each place, with operands that are different, equal, constant or out of
// range.
std::vector<Case> nested_programs(std::uint64_t seed, std::uint64_t type_mask);
// Statements with every pair of choices of types, reductions, assignments, indices, extents, contexts and data.
std::vector<Case> crossed_programs(std::uint64_t seed, std::uint64_t type_mask);
// Every operation on every type, with operands and targets that are contiguous, strided, reversed, transposed,
// broadcast, shifted, gathered or partly out of range, and with literals, loops and symbols as operands.
std::vector<Case> access_programs(std::uint64_t seed, std::uint64_t type_mask);
// Statements that read and overwrite each other's tensors, whole or in part, also in repeat blocks.
std::vector<Case> rewrite_programs(std::uint64_t seed, std::uint64_t type_mask);
// Softmax and other groups of statements over rows of every length, with and without hints, with rows of infinities
// and NaN.
std::vector<Case> hint_programs(std::uint64_t seed, std::uint64_t type_mask);
// Reductions of every kind in which one element decides the result, at every place of rows of every length.
std::vector<Case> place_programs(std::uint64_t seed, std::uint64_t type_mask);
// Dozens of statements in one program that differ in one literal, operation, offset, order, extent or symbol.
std::vector<Case> sibling_programs(std::uint64_t seed, std::uint64_t type_mask);
// Products with more factors and terms, with statements before and after them, in every order of indices.
std::vector<Case> epilogue_programs(std::uint64_t seed, std::uint64_t type_mask);
// Repeat blocks with many rounds, steps and large tensors, and with symbols.
std::vector<Case> round_programs(std::uint64_t seed, std::uint64_t type_mask);

// Products, reductions, gathers and scatters in repeat blocks, whose operands move with the variable or change in the
// block.
std::vector<Case> repeat_product_programs(std::uint64_t seed, std::uint64_t type_mask);

// The types of a mask, in the order of their numbers.
std::vector<program::Type> types_of(std::uint64_t type_mask);
// Adds cases and numbers them.
void append(std::vector<Case>& all, std::vector<Case> more);

// A program of the given declarations and statements.
class ProgramText {
 public:
  explicit ProgramText(std::uint64_t seed, std::string name) : seed_(seed), name_(std::move(name)) {}

  void symbol(const std::string& declaration);  // "s in 0..4"
  void input(const std::string& name, program::Type type, const std::string& dims, Data data,
             const char* role = "in");
  void temporary(const std::string& name, program::Type type, const std::string& dims);
  // Declares an output y0, y1 ... and writes `value` to its element [indices].
  void output(program::Type type, const std::string& dims, const std::string& indices,
              const std::string& value, const std::string& assign = "=");
  void statement(const std::string& line);
  int outputs() const { return outputs_; }
  bool is_empty() const { return body_.empty(); }
  // Throws program::ProgramError if the text is invalid.
  Case finished() const;

 private:
  std::uint64_t seed_;
  std::string name_;
  std::string symbols_;
  std::string arguments_;
  std::string body_;
  std::vector<Data> data_;
  int outputs_ = 0;
};

// Distributes outputs over programs with a few outputs each, so that a backend that lacks one operation runs the rest.
class Batches {
 public:
  // Programs are called `name` and a number and have up to `most` outputs; `declare` adds their inputs.
  Batches(std::uint64_t seed, std::string name, std::function<void(ProgramText&)> declare, int most = 8)
      : seed_(seed), name_(std::move(name)), declare_(std::move(declare)), most_(most) {}

  // The program for the next output.
  ProgramText& next() {
    if (!program_ || program_->outputs() == most_) {
      finish();
      program_.emplace(seed_, name_ + "_" + std::to_string(made_.size()));
      declare_(*program_);
    }
    return *program_;
  }
  std::vector<Case> made() {
    finish();
    return std::move(made_);
  }

 private:
  void finish() {
    if (program_) {
      made_.push_back(program_->finished());
    }
  }

  std::uint64_t seed_;
  std::string name_;
  std::function<void(ProgramText&)> declare_;
  int most_;
  std::optional<ProgramText> program_;
  std::vector<Case> made_;
};

}  // namespace yoke::conformance
