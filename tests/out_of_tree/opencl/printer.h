// SPDX-License-Identifier: Apache-2.0
// printer.h: prints one statement; kernel.h is what others see of it.
#pragma once

#include <yoke/program/access.h>
#include <yoke/program/program.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernel.h"

namespace ocl {

// Type names in OpenCL C. A value of a 16-bit float is a float that is rounded after each operation; bool is
// an int.
std::string_view value_type(yoke::program::Type type);
std::string_view unsigned_type(yoke::program::Type type);  // of integers
std::string_view memory_type(yoke::program::Type type);
std::string literal(yoke::program::Type type, const yoke::program::Literal& value);

class Printer {
 public:
  Printer(const yoke::program::Program& program, const yoke::program::Statement& statement, Offsets offsets,
          bool for_cpu, std::set<std::string>& helpers);
  Body print();

 private:
  using Access = yoke::program::Access;
  using Affine = yoke::program::Affine;
  using Expr = yoke::program::Expr;
  using Op = yoke::program::Op;
  using Type = yoke::program::Type;

  // Where an access goes: how to find the element, and when it is inside of the tensor.
  struct Place {
    std::string element;
    std::string inside;  // empty: always
  };

  // Statements (printer.cpp).
  void element_loop(const std::vector<std::uint32_t>& loops);
  void open_loop(std::uint32_t loop);
  void close();
  void one_element();
  std::string reduced();
  std::string arg_reduced();
  void assign(const Place& target, const std::string& value);
  std::string combined(yoke::program::Assign assign, Type type, const std::string& old,
                       const std::string& value);
  Body finished();

  // Memory (printer.cpp).
  bool fits_in_int() const;
  std::string tensor(std::uint32_t id);  // its pointer; a slot is made at the first call
  std::string index(const Affine& affine);
  Place place(const Access& access);
  std::string loaded(Type type, std::uint32_t tensor_id, const std::string& element);

  // Expressions (expression.cpp): each gives a name or a literal, and writes lines before it.
  std::string value(const Expr& expr);
  std::string read(const Expr& expr);
  std::string operation(const Expr& expr, const std::vector<std::string>& args);
  std::string applied(Op op, Type type, const std::vector<std::string>& args);
  std::string float_applied(Op op, Type type, const std::vector<std::string>& args);
  std::string integer_applied(Op op, Type type, const std::vector<std::string>& args);
  std::string converted(Type from, Type to, const std::string& value);
  std::string rounded(Type type, const std::string& value);  // a float to a 16-bit one

  std::string named(Type type, const std::string& text);
  const std::string& helper(const std::string& name);
  void line(const std::string& text);

  const yoke::program::Program& program_;
  const yoke::program::Statement& statement_;
  Offsets offsets_;
  bool for_cpu_;
  std::set<std::string>& helpers_;
  std::string integer_ = "long";  // that indices are computed in
  std::string head_;
  std::string text_;
  int depth_ = 2;
  int names_ = 0;
  Body body_;
  std::map<std::uint32_t, std::string> tensors_;
  std::map<std::uint32_t, std::string> symbols_;
};

}  // namespace ocl
