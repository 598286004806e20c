// SPDX-License-Identifier: Apache-2.0
// printer.h: generates the code of one statement. The public interface is in kernel.h.
#pragma once

#include <yoke/program/access.h>
#include <yoke/program/program.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernel.h"

namespace ocl {

// Type names in OpenCL C. A 16-bit float value is a float that is rounded
// after each operation; a bool is an int.
std::string_view value_type(yoke::program::Type type);
std::string_view unsigned_type(yoke::program::Type type);  // of integers
std::string_view memory_type(yoke::program::Type type);
std::string literal(yoke::program::Type type, const yoke::program::Literal& value);

class Printer {
 public:
  Printer(const yoke::program::Program& program, const yoke::program::Statement& statement, Offsets offsets,
          const Form& form, std::set<std::string>& helpers);
  Body print();

 private:
  using Access = yoke::program::Access;
  using Affine = yoke::program::Affine;
  using Expr = yoke::program::Expr;
  using Op = yoke::program::Op;
  using Type = yoke::program::Type;

  // An element of a tensor: its index, and the condition that it is in range.
  struct Place {
    std::string element;
    std::string inside;  // empty if it is always in range
  };

  // One side of a tile: consecutive iterations of a loop. Without a loop, a single one.
  struct Side {
    std::optional<std::uint32_t> loop;
    std::uint64_t count = 1;
    std::uint64_t step = 1;  // the vector width, if vectors are along this loop
  };
  struct Tile {
    std::uint32_t vector = 0;  // the loop whose iterations are the lanes of a vector
    bool folds = false;        // that loop belongs to the reduction; its lanes are added at the end
    std::uint64_t width = 1;   // lanes
    Side row;
    Side column;
  };

  // Statements (printer.cpp).
  void element_loop(const std::vector<std::uint32_t>& loops, const std::vector<std::uint64_t>& extents);
  void open_loop(std::uint32_t loop);
  void close();
  void one_element();
  std::string reduced();
  std::string arg_reduced();
  void assign(const Place& target, const std::string& value);
  Body finished();

  // Sums of products (contraction.cpp).
  std::optional<Tile> tile() const;  // empty if the statement is not a sum of products
  Side side(std::optional<std::uint32_t> loop, std::uint64_t most, std::uint64_t step) const;
  void print_tiles(const Tile& tile);
  void tile_loop(const Tile& tile);
  void products(const Tile& tile, std::uint64_t width);
  std::vector<std::string> factors(const Tile& tile, const Access& access, std::uint64_t width);
  void store(const Tile& tile);

  // Memory (printer.cpp).
  bool fits_in_int() const;
  std::string tensor(std::uint32_t id);  // the name of its pointer; declares it at the first call
  std::string index(const Affine& affine);
  Place place(const Access& access);
  std::string loaded(Type type, std::uint32_t tensor_id, const std::string& element);

  // The constant as a value that PoCL does not fold; see helpers.cpp.
  std::string hidden(Type type, const std::string& constant);

  // Expressions (expression.cpp): each prints lines and returns a name or a literal.
  std::string value(const Expr& expr);
  std::string read(const Expr& expr);
  std::string guarded(const Expr& expr);
  std::string operation(const Expr& expr, const std::vector<std::string>& args);
  std::string applied(Op op, Type type, const std::vector<std::string>& args);
  std::string float_applied(Op op, Type type, const std::vector<std::string>& args);
  std::string integer_applied(Op op, Type type, const std::vector<std::string>& args);
  std::string converted(Type from, Type to, const std::string& value);
  std::string rounded(Type type, const std::string& value);  // rounds to a 16-bit type

  std::string named(Type type, const std::string& text);
  const std::string& helper(const std::string& name);
  void line(const std::string& text);

  const yoke::program::Program& program_;
  const yoke::program::Statement& statement_;
  Offsets offsets_;
  Form form_;
  std::set<std::string>& helpers_;
  std::string integer_ = "long";  // the type of indices
  std::string head_;
  std::string text_;
  int depth_ = 2;
  int names_ = 0;
  Body body_;
  std::string inside_;  // whether the reads of the innermost guard so far are in range; empty: always
  std::map<std::uint32_t, std::string> tensors_;
  std::map<std::uint32_t, std::string> symbols_;
};

}  // namespace ocl
