// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/printer.h: prints the text of one kernel: parameters, index arithmetic, loads, expressions,
// stores. The files that plan kernels decide which threads run it.
#pragma once

#include <yoke/program/access.h>
#include <yoke/program/program.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "builder.h"

namespace yoke::codegen {

// The types of values and of elements in memory. A 16-bit float is a float that is rounded after each
// operation, and an unsigned short in memory; a bool is an int, and an unsigned char in memory.
std::string_view value_type(program::Type type);
std::string_view memory_type(program::Type type);
std::string literal(program::Type type, const program::Literal& value);
bool is_16_bit(program::Type type);
// The value of an element in memory, and the reverse.
std::string from_memory(program::Type type, const std::string& element);
std::string to_memory(program::Type type, const std::string& value);
// The value that a reduction starts with. Not for argmax and argmin.
program::Literal neutral(program::Reduce reduce, program::Type type);
program::Op fold_of(program::Reduce reduce);

std::string joined(std::initializer_list<std::string_view> texts);
// Whether all index arithmetic of the statement fits in 32 bits.
bool fits_in_int(const program::Program& program, const program::Statement& statement);

class Printer {
 public:
  // `wide`: indices are long long.
  Printer(Builder& builder, bool wide);

  Builder& builder() { return builder_; }
  const program::Program& program() const { return program_; }
  std::string_view index_type() const { return wide_ ? "long long" : "int"; }

  // Text. Values that are known in a scope are forgotten at its end.
  void line(const std::string& text);
  void open(const std::string& text);  // ends with " {"
  void close(const std::string& text = "}");
  std::string fresh(std::string_view prefix);
  std::string named(program::Type type, const std::string& text);

  // Selects the statement for everything below. Its loops have no index until they are bound.
  void select(const program::Statement& statement);
  const program::Statement& statement() const { return *statement_; }
  void bind(std::uint32_t loop, std::string text) { loops_[loop] = std::move(text); }
  void open_loop(std::uint32_t loop);

  // The element that an access refers to.
  struct Place {
    std::string element;
    std::string inside;  // the condition that it is in range; empty if it always is
  };
  Place place(const program::Access& access);
  const std::string& tensor(std::uint32_t id);  // the name of its pointer
  std::string scratch(program::Type type, const Slot& slot);
  std::string index(const program::Affine& affine);

  // Makes later reads of the element yield `value`. Forgets all other elements of the tensor.
  void wrote(std::uint32_t tensor, const std::string& element, const std::string& value);
  // The name of the element's value, loaded unless it is known.
  std::string loaded(std::uint32_t tensor, const std::string& element);
  // Like wrote(), but forgets no other element.
  void know(std::uint32_t tensor, const std::string& element, const std::string& value);

  std::string value(const program::Expr& expr);
  // The result for one element of the target; reduction loops run one after another.
  std::string reduced();
  // The new value of the target's element, in the target's type.
  std::string assigned(const Place& target, const std::string& value);
  void store(std::uint32_t tensor, const std::string& element, const std::string& value);
  // reduced(), assigned() and store(), where the target is in range.
  void one_element();

  // Applies an operation to names or literals of the type; the result is an expression.
  std::string applied(program::Op op, program::Type type, const std::vector<std::string>& args);
  std::string converted(program::Type from, program::Type to, const std::string& value);

  // From now on, store() prints nothing: take_pending() returns the last value written to each tensor, and
  // the caller stores it. Precondition: an iteration writes at most one element of a tensor, and reads no
  // other element that any iteration writes.
  void defer_stores() { defers_ = true; }
  struct Pending {
    std::uint32_t tensor = 0;
    std::string element;
    std::string value;
  };
  std::vector<Pending> take_pending() { return std::exchange(pending_, {}); }
  // What a kernel needs: its parameters are the slots, named s0, s1, ..., "symbols" and "variable".
  struct Parameter {
    std::string type;  // of an element in memory
    Slot slot;
  };
  const std::vector<Parameter>& parameters() const { return parameters_; }
  bool reads_symbols() const { return reads_symbols_; }
  bool reads_variable() const { return reads_variable_; }
  std::string body() const { return head_ + text_; }

  // The text for Builder::kernel, and a launch with the slots that it uses.
  std::string text() const;
  Launch launch() const;

 private:
  std::string read(const program::Expr& expr);
  std::string guarded(const program::Expr& expr);
  std::string operation(const program::Expr& expr, const std::vector<std::string>& args);
  std::string float_applied(program::Op op, program::Type type, const std::vector<std::string>& args);
  std::string integer_applied(program::Op op, program::Type type, const std::vector<std::string>& args);
  std::string rounded(program::Type type, const std::string& value);
  std::string arg_reduced();
  std::string symbol(std::uint32_t id);
  std::optional<std::string> known(std::uint32_t tensor, const std::string& element) const;

  using Known = std::map<std::pair<std::uint32_t, std::string>, std::string>;

  Builder& builder_;
  const program::Program& program_;
  bool wide_ = false;
  const program::Statement* statement_ = nullptr;
  std::vector<std::string> loops_;
  std::string head_;
  std::string text_;
  std::size_t depth_ = 1;
  int names_ = 0;
  std::string inside_;  // whether the reads of the innermost guard so far are in range; empty: always
  std::vector<Known> known_ = std::vector<Known>(1);
  std::map<std::uint32_t, std::string> tensors_;
  std::map<std::uint32_t, std::string> symbols_;
  std::vector<Parameter> parameters_;
  bool defers_ = false;
  std::vector<Pending> pending_;
  bool reads_symbols_ = false;
  bool reads_variable_ = false;
};

}  // namespace yoke::codegen
