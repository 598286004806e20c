// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/variants.cpp: changes each attribute of a program in turn.
#include "variants.h"

#include <yoke/program/text.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "edit.h"
#include "generator.h"
#include "number.h"

namespace yoke::conformance {

using program::Access;
using program::Affine;
using program::Expr;
using program::Op;
using program::Program;
using program::Statement;
using program::Type;

namespace {

class Variants {
 public:
  explicit Variants(const Program& base) : base_(base), seen_{program::print(base)} {}

  std::vector<Program> made() {
    change_names();
    change_symbols();
    change_tensors();
    change_types();
    for (std::size_t number = 0; number < base_.statements.size(); ++number) {
      change_statement(number);
      change_indices(number);
      change_values(number);
    }
    return std::move(made_);
  }

 private:
  using Change = std::function<void(Program&)>;

  void add(const Change& change) {
    Program changed = base_;
    try {
      change(changed);
      // The text infers what follows from the change.
      Program parsed = program::parse_and_verify(program::print(changed)).programs.at(0);
      if (seen_.insert(program::print(parsed)).second) {
        made_.push_back(std::move(parsed));
      }
    } catch (const std::exception&) {
      // The rest of the program excludes the change.
    }
  }

  void change_names() {
    // Another last character, so that the text has the same length.
    const auto rename = [](std::string& name) { name.back() = name.back() == 'q' ? 'z' : 'q'; };
    add([&](Program& program) { rename(program.name); });
    for (std::size_t i = 0; i < base_.symbols.size(); ++i) {
      add([&](Program& program) { rename(program.symbols[i].name); });
    }
    for (std::size_t i = 0; i < base_.tensors.size(); ++i) {
      add([&](Program& program) { program.tensors[i].name += '7'; });
    }
    for (std::size_t i = 0; i < base_.hints.size(); ++i) {
      add([&](Program& program) { rename(program.hints[i].name); });
    }
  }
  void change_symbols() {
    for (std::size_t i = 0; i < base_.symbols.size(); ++i) {
      for (const int by : {-1, 1}) {
        add([&](Program& program) { program.symbols[i].low += by; });
        add([&](Program& program) { program.symbols[i].high += by; });
        add([&](Program& program) { program.symbols[i].step += by; });
      }
    }
  }
  void change_tensors() {
    for (std::size_t i = 0; i < base_.tensors.size(); ++i) {
      for (std::size_t dim = 0; dim < base_.tensors[i].dims.size(); ++dim) {
        for (const std::uint64_t by : {std::uint64_t{1}, std::uint64_t{0} - 1}) {
          add([&](Program& program) { program.tensors[i].dims[dim] += by; });
        }
      }
      for (const program::Role role : {program::Role::kOut, program::Role::kInOut}) {
        add([&](Program& program) { program.tensors[i].role = role; });
      }
      // Two arguments in another order.
      for (std::size_t other = i + 1; other < base_.tensors.size(); ++other) {
        if (base_.tensors[i].type == base_.tensors[other].type &&
            base_.tensors[i].dims == base_.tensors[other].dims &&
            base_.tensors[i].role == base_.tensors[other].role) {
          add([&](Program& program) { std::swap(program.tensors[i].name, program.tensors[other].name); });
        }
      }
    }
  }
  // All tensors and values of one type get another.
  void change_types() {
    constexpr Type kTypes[] = {Type::kF64, Type::kF32, Type::kF16, Type::kBF16,
                               Type::kI64, Type::kI32, Type::kU32, Type::kU8};
    for (const Type from : kTypes) {
      for (const Type to : kTypes) {
        add([&](Program& program) {
          for (program::Tensor& tensor : program.tensors) {
            tensor.type = tensor.type == from ? to : tensor.type;
          }
          for (Statement& statement : program.statements) {
            visit_expressions(statement.value, [&](Expr& expr) {
              if (expr.type == from && expr.op != Op::kIndex) {
                convert_literal(expr, from, to);
                expr.type = to;
              }
            });
          }
        });
      }
    }
    for (std::size_t i = 0; i < base_.statements.size(); ++i) {
      for (const Type to : kTypes) {
        add([&](Program& program) { program.statements[i].accumulator = to; });
      }
    }
  }
  static void convert_literal(Expr& expr, Type from, Type to) {
    const auto convert = [&](program::Literal& literal) {
      const double value = program::is_float(from) ? literal.number : static_cast<double>(literal.integer);
      literal = Expr::constant(to, value).literal;
    };
    if (expr.op == Op::kConst || expr.op == Op::kGuard) {
      convert(expr.literal);
    } else if (expr.op == Op::kRead && expr.access.otherwise) {
      convert(*expr.access.otherwise);
    }
  }

  void change_statement(std::size_t number) {
    for (int assign = 0; assign <= static_cast<int>(program::Assign::kMin); ++assign) {
      add([&](Program& program) {
        program.statements[number].assign = static_cast<program::Assign>(assign);
      });
    }
    const Statement& statement = base_.statements[number];
    for (int reduce = 0; statement.reduce && reduce <= static_cast<int>(program::Reduce::kArgMin); ++reduce) {
      add([&](Program& program) {
        program.statements[number].reduce = static_cast<program::Reduce>(reduce);
      });
    }
    for (std::size_t loop = 0; loop < statement.loops.size(); ++loop) {
      for (const std::uint64_t by : {std::uint64_t{1}, std::uint64_t{0} - 1}) {
        add([&](Program& program) { program.statements[number].loops[loop].extent += by; });
      }
    }
    add([&](Program& program) { program.statements[number].accumulator.reset(); });
    add([&](Program& program) {
      program.statements[number].hint = -1;
      renumber_hints(program);
    });
    if (number + 1 < base_.statements.size()) {
      add([&](Program& program) { std::swap(program.statements[number], program.statements[number + 1]); });
    }
  }

  void change_indices(std::size_t number) {
    Statement copy = base_.statements[number];
    std::vector<std::pair<std::size_t, std::size_t>> places;  // affine index, term
    std::size_t count = 0;
    visit_affines(copy, [&](Affine& affine) {
      for (std::size_t term = 0; term < affine.terms.size(); ++term) {
        places.emplace_back(count, term);
      }
      ++count;
    });
    const auto change = [&](std::size_t which, const std::function<void(Affine&)>& edit) {
      add([&](Program& program) {
        std::size_t at = 0;
        visit_affines(program.statements[number], [&](Affine& affine) {
          if (at++ == which) {
            edit(affine);
          }
        });
      });
    };
    for (std::size_t which = 0; which < count; ++which) {
      for (const int by : {-1, 1}) {
        change(which, [&](Affine& affine) { affine.constant += by; });
      }
    }
    for (const auto& [which, term] : places) {
      change(which, [at = term](Affine& affine) { affine.terms[at].coefficient += 1; });
      for (const std::int64_t extent : {5, 9, 30, 32}) {
        change(which, [at = term, extent](Affine& affine) {
          affine.terms[at].coefficient = -affine.terms[at].coefficient;
          affine.constant += extent;
        });
      }
      for (std::uint32_t other = 0; other < copy.loops.size(); ++other) {
        change(which, [other](Affine& affine) { affine.terms = {{false, other, 1}}; });
      }
      change(which, [](Affine& affine) { affine.terms.clear(); });
    }
    change_accesses(number, copy);
  }
  void change_accesses(std::size_t number, Statement& copy) {
    std::size_t count = 0;
    visit_accesses(copy, [&](Access&) { ++count; });
    const auto change = [&](std::size_t which, const std::function<void(Access&)>& edit) {
      add([&](Program& program) {
        std::size_t at = 0;
        visit_accesses(program.statements[number], [&](Access& access) {
          if (at++ == which) {
            edit(access);
          }
        });
      });
    };
    for (std::size_t which = 0; which < count; ++which) {
      for (std::uint32_t tensor = 0; tensor < base_.tensors.size(); ++tensor) {
        change(which, [&](Access& access) { access.tensor = tensor; });
        change(which, [&](Access& access) {
          for (program::Index& index : access.indices) {
            index.element_of = index.element_of ? std::optional(tensor) : std::nullopt;
          }
        });
      }
      change(which, [](Access& access) { std::swap(access.indices.at(0), access.indices.at(1)); });
      for (const int by : {-1, 1}) {
        change(which, [&](Access& access) {
          for (program::Index& index : access.indices) {
            index.divisor += index.divisor > 1 ? by : 0;
          }
        });
      }
    }
  }

  void change_values(std::size_t number) {
    Statement copy = base_.statements[number];
    std::vector<Expr> all;
    visit_expressions(copy.value, [&](Expr& expr) { all.push_back(expr); });
    const auto change = [&](std::size_t which, const std::function<void(Expr&)>& edit) {
      add([&](Program& program) {
        std::size_t at = 0;
        Expr* found = nullptr;
        visit_expressions(program.statements[number].value,
                          [&](Expr& expr) { found = at++ == which ? &expr : found; });
        edit(*found);
      });
    };
    for (std::size_t which = 0; which < all.size(); ++which) {
      if (all[which].op == Op::kIndex) {
        const Affine::Term& term = all[which].affine.terms[0];
        const std::size_t count = term.is_symbol ? base_.symbols.size() : copy.loops.size();
        const auto other = static_cast<std::uint32_t>((term.id + 1) % count);
        change(which, [&](Expr& changed) { changed.affine.terms[0].id = other; });
      }
      change_literals(all[which], [&](const std::function<void(Expr&)>& edit) { change(which, edit); });
      change_operation(all[which], [&](const std::function<void(Expr&)>& edit) { change(which, edit); });
    }
  }
  using Edits = std::function<void(const std::function<void(Expr&)>&)>;

  static program::Literal* literal_of(Expr& expr) {
    return expr.op == Op::kConst || expr.op == Op::kGuard  ? &expr.literal
           : expr.op == Op::kRead && expr.access.otherwise ? &*expr.access.otherwise
                                                           : nullptr;
  }
  // The next number of the type, the negative one, one that differs in the last decimal only, and others.
  static void change_literals(Expr expr, const Edits& change) {
    const program::Literal* literal = literal_of(expr);
    if (literal == nullptr) {
      return;
    }
    std::vector<program::Literal> others;
    if (program::is_float(expr.type)) {
      const double value = literal->number;
      const double next = expr.type == Type::kF64
                              ? std::nextafter(value, std::numeric_limits<double>::infinity())
                              : static_cast<double>(std::nextafter(static_cast<float>(value),
                                                                   std::numeric_limits<float>::infinity()));
      for (const double number : {next, -value, value + 1, std::nan(""), value * 1e-3, 0.0, -0.0}) {
        others.push_back({program::round_to_type(expr.type, number), 0});
      }
    } else {
      const std::int64_t value = literal->integer;
      for (const std::int64_t number :
           {value + 1, value - 1, 1 - value, value + (std::int64_t{1} << 32U), value + 256, value + 65536}) {
        others.push_back({0, program::wrap_to_type(expr.type, number)});
      }
    }
    for (const program::Literal& other : others) {
      change([&](Expr& changed) { *literal_of(changed) = other; });
    }
  }
  // Every other operation with the same types, and operands in another order.
  static void change_operation(const Expr& expr, const Edits& change) {
    const program::OpInfo& info = program::op_info(expr.op);
    if (info.family == program::Family::kSpecial) {
      return;
    }
    for (std::size_t i = 0; i < program::kOpCount; ++i) {
      const auto op = static_cast<Op>(i);
      const program::OpInfo& other = program::op_info(op);
      if (other.arity == info.arity && other.result == info.result &&
          other.family != program::Family::kSpecial && other.family != program::Family::kRandom &&
          takes_type(op, expr.args.back().type) &&
          // Functions differ from each other in nothing that a key could leave out but their number.
          (other.family != program::Family::kFunction || other.family == info.family)) {
        change([&](Expr& changed) { changed.op = op; });
      }
    }
    for (std::size_t i = 1; i < expr.args.size(); ++i) {
      change([&](Expr& changed) { std::swap(changed.args[i - 1], changed.args[i]); });
    }
  }

  const Program& base_;
  std::set<std::string> seen_;
  std::vector<Program> made_;
};

}  // namespace

std::vector<Program> variants_of(const Program& base) {
  return Variants(base).made();
}

}  // namespace yoke::conformance
