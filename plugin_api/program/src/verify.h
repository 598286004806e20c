// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/verify.h: checks the rules that make a program safe to run without run-time checks.
#pragma once

#include <yoke/program/text.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "region.h"

namespace yoke::program {

// The index as text, for messages. Defined in printer.cpp.
std::string index_text(const Program& program, const Statement& statement, const Index& index);

struct MovingWriter {
  const Statement* statement = nullptr;
  std::vector<Interval> reach;  // per dimension, a superset of the indices in all rounds
};

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}
  void run();

 private:
  // verify.cpp: declarations, types, reductions.
  void names();
  void symbol(const Symbol& symbol) const;
  void tensor(const Tensor& tensor) const;
  void repeats() const;
  void statement();
  void loops() const;
  void order_of_loops() const;
  void assignment() const;
  void reduction() const;
  void accumulator() const;
  // `guarded`: a guard covers reads out of range.
  void expr(const Expr& expr, int depth, bool guarded) const;
  void leaf(const Expr& expr, bool guarded) const;
  void literal(const Expr& expr, Type type, const Literal& literal) const;
  [[noreturn]] void fail(Location at, const std::string& reason) const;
  // Fails unless `fault` is empty.
  void fail_if(Location at, const std::string& fault) const {
    if (!fault.empty()) {
      fail(at, fault);
    }
  }

  // verify_access.cpp: bounds, overlapping writes, uninitialized reads.
  void shape_of(const Access& access, Location at) const;
  void shape_of(const Affine& affine, Location at) const;
  void read(const Expr& expr, bool guarded) const;
  void target() const;
  void bounds(const Access& access, bool may_be_out_of_range, Location at) const;
  void bounds(const Index& index, const Tensor& tensor, std::size_t dim, bool may_be_out_of_range,
              const std::string& fix, Location at) const;
  void reads_are_written(const Expr& expr);
  void access_is_written(const Access& access, Location at);
  void elements_are_written(const Access& access, Location at);
  void own_target(const Expr& expr) const;
  bool is_apart(const Access& access) const;
  bool scatters() const;
  void write();
  void outputs_are_written() const;

  // verify_hint.cpp: hints that name loops.
  void hints() const;
  void hints_with_loops();
  void shared_loop(const Hint& hint, const std::string& name, const std::vector<const Statement*>& group);

  // verify_repeat.cpp: what earlier rounds of a repeat block have written.
  void block(const Block& block);
  bool is_written(const Access& access) const;
  bool target_moves() const;
  const Symbol& variable_of(const Statement& statement) const {
    return program_.symbols[static_cast<std::size_t>(statement.repeat)];
  }

  const Tensor& tensor_of(const Access& access) const { return program_.tensors[access.tensor]; }

  const Program& program_;
  std::set<std::string_view> tensor_names_;
  std::vector<Coverage> written_;  // per tensor
  const Statement* statement_ = nullptr;
  Block block_;  // of the statement
  // Per tensor, the statements of the repeat block whose targets move from round to round.
  std::map<std::uint32_t, std::vector<MovingWriter>> moving_writers_;
  mutable Program fixed_;  // symbols only; for looking at single rounds
};

}  // namespace yoke::program
