// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/execute.cpp: the reference executor, which computes
// one element after another in loop order.
#include <yoke/program/access.h>
#include <yoke/program/execute.h>
#include <yoke/program/execute_statement.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "scalar.h"
#include "type_rules.h"

namespace yoke::program {
namespace {

// An affine index whose symbols have been replaced by their values.
struct Position {
  std::int64_t constant = 0;
  std::vector<std::pair<std::uint32_t, std::int64_t>> loops;

  std::int64_t at(const std::vector<std::int64_t>& counters) const {
    std::int64_t value = constant;
    for (const auto& [loop, coefficient] : loops) {
      value += coefficient * counters[loop];
    }
    return value;
  }
};

// A tensor with the indices of one access.
struct Place {
  Type type = Type::kF32;
  void* data = nullptr;
  std::vector<std::int64_t> dims;
  struct Dim {
    Position position;
    std::int64_t divisor = 1;
    std::vector<Place> element;  // empty for an affine index, else the one place that holds the index
  };
  std::vector<Dim> indices;

  // The row-major number of the element, or -1 if an index is out of range.
  std::int64_t element(const std::vector<std::int64_t>& counters) const {
    std::int64_t number = 0;
    for (std::size_t dim = 0; dim < indices.size(); ++dim) {
      const Dim& index = indices[dim];
      std::int64_t i =
          index.element.empty() ? index.position.at(counters) : index.element[0].value(counters).integer;
      if (index.divisor != 1) {
        if (i % index.divisor != 0) {
          return -1;
        }
        i /= index.divisor;
      }
      if (i < 0 || i >= dims[dim]) {
        return -1;
      }
      number = number * dims[dim] + i;
    }
    return number;
  }
  Scalar value(const std::vector<std::int64_t>& counters) const {
    return load(type, data, element(counters));
  }
};

// An expression with all lookups done that are the same for every element.
struct Code {
  Op op = Op::kConst;
  Type type = Type::kF32;  // of the result
  Type over = Type::kF32;  // of the arguments
  Scalar literal;          // the constant, or the value of a read or guard out of range
  bool open = false;       // a read without an else
  Place place;
  Position position;
  std::vector<Code> args;

  // Sets `outside` if a read is out of range that only the guard around this expression covers.
  Scalar value(const std::vector<std::int64_t>& counters, bool& outside) const {
    switch (op) {
      case Op::kConst:
        return literal;
      case Op::kRead: {
        const std::int64_t element = place.element(counters);
        outside = outside || (open && element < 0);
        return element < 0 ? literal : load(type, place.data, element);
      }
      case Op::kGuard: {
        bool applies = false;
        const Scalar value = args[0].value(counters, applies);
        return applies ? literal : value;
      }
      case Op::kIndex:
        return {0, position.at(counters)};
      case Op::kCast:
        return convert(over, type, args[0].value(counters, outside));
      default: {
        std::array<Scalar, 3> values;
        for (std::size_t i = 0; i < args.size(); ++i) {
          values[i] = args[i].value(counters, outside);
        }
        return apply(op, over, values.data());
      }
    }
  }
  Scalar value(const std::vector<std::int64_t>& counters) const {
    bool outside = false;  // stays false: the verifier rejects an open read that may be out of range
    return value(counters, outside);
  }
};

class Executor {
 public:
  Executor(const Program& program, std::span<void* const> arguments,
           std::span<const std::int64_t> symbol_values)
      : program_(program), symbols_(symbol_values.begin(), symbol_values.end()) {
    symbols_.resize(program.symbols.size());
    std::size_t next = 0;
    for (const Tensor& tensor : program.tensors) {
      if (tensor.role != Role::kTemp) {
        data_.push_back(arguments[next++]);
        continue;
      }
      temporaries_.emplace_back(static_cast<std::size_t>((tensor.byte_count() + 7) / 8));
      data_.push_back(temporaries_.back().data());
    }
  }

  // One statement, with one pointer per tensor and one value per symbol.
  Executor(const Program& program, std::span<void* const> tensors, std::span<const std::int64_t> symbols,
           std::size_t number)
      : program_(program), symbols_(symbols.begin(), symbols.end()), data_(tensors.begin(), tensors.end()) {
    statement(program.statements[number]);
  }

  void run() {
    run_in_order(program_, symbols_, [this](std::size_t i) { statement(program_.statements[i]); });
  }

  Code code(const Expr& expr) const {
    Code result;
    result.op = expr.op;
    result.type = expr.type;
    result.literal = expr.literal;
    if (expr.op == Op::kRead) {
      result.place = place(expr.access);
      result.literal = expr.access.otherwise.value_or(Literal{});
      result.open = !expr.access.otherwise;
    } else if (expr.op == Op::kIndex) {
      result.position = position(expr.affine);
    }
    for (const Expr& arg : expr.args) {
      result.args.push_back(code(arg));
    }
    if (!expr.args.empty()) {
      result.over = expr.args[expr.op == Op::kSelect ? 1 : 0].type;
    }
    return result;
  }

 private:
  Position position(const Affine& affine) const {
    Position result;
    result.constant = affine.constant;
    for (const Affine::Term& term : affine.terms) {
      if (term.is_symbol) {
        result.constant += term.coefficient * symbols_[term.id];
      } else {
        result.loops.emplace_back(term.id, term.coefficient);
      }
    }
    return result;
  }

  Place tensor_place(std::uint32_t number) const {
    Place place;
    const Tensor& tensor = program_.tensors[number];
    place.type = tensor.type;
    place.data = data_[number];
    place.dims.assign(tensor.dims.begin(), tensor.dims.end());
    return place;
  }

  Place place(const Access& access) const {
    Place result = tensor_place(access.tensor);
    for (const Index& index : access.indices) {
      Place::Dim dim;
      if (!index.element_of) {
        dim.position = position(index.affine);
        dim.divisor = index.divisor;
      } else {
        dim.element.push_back(tensor_place(*index.element_of));
        for (const Affine& affine : index.element_indices) {
          dim.element[0].indices.push_back({position(affine), 1, {}});
        }
      }
      result.indices.push_back(std::move(dim));
    }
    return result;
  }

  // Advances the counters [first, last), the last one fastest. Returns false after the last combination,
  // with all counters back at 0.
  static bool advance(const Statement& statement, std::size_t first, std::size_t last,
                      std::vector<std::int64_t>& counters) {
    for (std::size_t i = last; i-- > first;) {
      if (++counters[i] < static_cast<std::int64_t>(statement.loops[i].extent)) {
        return true;
      }
      counters[i] = 0;
    }
    return false;
  }

  void statement(const Statement& statement) {
    const Place target = place(statement.target);
    const Code value = code(statement.value);
    const std::size_t outer = statement.loops.size() - statement.reduce_loops.size();
    std::vector<std::int64_t> counters(statement.loops.size());
    do {
      const std::int64_t element = target.element(counters);
      if (element >= 0) {
        const Scalar result = reduced(statement, value, target.type, outer, counters);
        assign(statement.assign, target, element, result);
      }
    } while (advance(statement, 0, outer, counters));
  }

  static Scalar reduced(const Statement& statement, const Code& value, Type target, std::size_t outer,
                        std::vector<std::int64_t>& counters) {
    if (!statement.reduce) {
      return value.value(counters);
    }
    const std::size_t count = statement.loops.size();
    if (*statement.reduce == Reduce::kArgMax || *statement.reduce == Reduce::kArgMin) {
      Scalar best = value.value(counters);
      std::int64_t place = 0;
      while (advance(statement, outer, count, counters)) {
        const Scalar other = value.value(counters);
        if (beats(*statement.reduce, value.type, other, best)) {
          best = other;
          place = counters[outer];
        }
      }
      return {0, place};
    }
    const Type type = statement.accumulator_type();
    const Op fold = fold_of(*statement.reduce);
    std::array<Scalar, 2> pair = {neutral(*statement.reduce, type), {}};
    do {
      pair[1] = convert(value.type, type, value.value(counters));
      pair[0] = apply(fold, type, pair.data());
    } while (advance(statement, outer, count, counters));
    return convert(type, target, pair[0]);
  }

  static void assign(Assign assign, const Place& target, std::int64_t element, const Scalar& value) {
    if (assign == Assign::kSet) {
      store(target.type, target.data, element, value);
      return;
    }
    const std::array<Scalar, 2> pair = {load(target.type, target.data, element), value};
    const Op op = assign == Assign::kAdd   ? Op::kAdd
                  : assign == Assign::kMul ? Op::kMul
                  : assign == Assign::kMax ? Op::kMax
                                           : Op::kMin;
    store(target.type, target.data, element, apply(op, target.type, pair.data()));
  }

  const Program& program_;
  std::vector<std::int64_t> symbols_;             // the variables of repeat blocks included
  std::vector<std::vector<double>> temporaries_;  // of doubles, to be aligned for every element type
  std::vector<void*> data_;                       // per tensor
};

[[noreturn]] void refuse(const Program& program, const std::string& reason) {
  throw std::invalid_argument("program '" + program.name + "': " + reason);
}

void check_count(const Program& program, std::size_t count, std::size_t expected, const char* noun) {
  if (count != expected) {
    refuse(program, "expects " + counted(expected, noun) + ", got " + std::to_string(count));
  }
}

void check_symbol(const Program& program, std::size_t number, std::int64_t value) {
  const Symbol& symbol = program.symbols[number];
  const auto beyond = static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(symbol.low);
  if (value < symbol.low || value >= symbol.high || beyond % static_cast<std::uint64_t>(symbol.step) != 0) {
    refuse(program, "symbol '" + symbol.name + "' is " + std::to_string(value) + "; its declared range is " +
                        std::to_string(symbol.low) + ".." + std::to_string(symbol.high) + " step " +
                        std::to_string(symbol.step));
  }
}

void check_call(const Program& program, std::span<void* const> arguments,
                std::span<const std::int64_t> symbol_values) {
  const std::vector<std::uint32_t> declared = program.arguments();
  check_count(program, arguments.size(), declared.size(), "argument");
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (arguments[i] == nullptr) {
      refuse(program, "argument '" + program.tensors[declared[i]].name + "' is null");
    }
  }
  check_count(program, symbol_values.size(), program.launch_symbol_count(), "symbol value");
  for (std::size_t i = 0; i < symbol_values.size(); ++i) {
    check_symbol(program, i, symbol_values[i]);
  }
}

bool is_constant(const Expr& expr) {
  return expr.op != Op::kRead && expr.op != Op::kIndex &&
         std::all_of(expr.args.begin(), expr.args.end(), is_constant);
}

}  // namespace

Literal evaluate(const Expr& expr) {
  if (!is_constant(expr)) {
    throw std::invalid_argument("the expression is not constant: it reads a tensor, a loop or a symbol");
  }
  return Executor({}, {}, {}).code(expr).value({});
}

void execute(const Program& program, std::span<void* const> arguments,
             std::span<const std::int64_t> symbol_values) {
  check_call(program, arguments, symbol_values);
  Executor(program, arguments, symbol_values).run();
}

void execute(const Program& program, std::size_t statement, std::span<void* const> tensors,
             std::span<const std::int64_t> symbols) {
  if (statement >= program.statements.size()) {
    refuse(program, "statement " + std::to_string(statement) + " does not exist; there are " +
                        counted(program.statements.size(), "statement"));
  }
  check_count(program, tensors.size(), program.tensors.size(), "tensor");
  check_count(program, symbols.size(), program.symbols.size(), "symbol value");
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    // A repeat variable has a value only in its block.
    if (i < program.launch_symbol_count() ||
        static_cast<std::int32_t>(i) == program.statements[statement].repeat) {
      check_symbol(program, i, symbols[i]);
    }
  }
  const auto check_tensor = [&](std::uint32_t number) {
    if (tensors[number] == nullptr) {
      refuse(program, "tensor '" + program.tensors[number].name + "' is null");
    }
  };
  check_tensor(program.statements[statement].target.tensor);
  visit_index_tensors(program.statements[statement].target, check_tensor);
  visit_read_tensors(program.statements[statement].value, check_tensor);
  Executor(program, tensors, symbols, statement);
}

}  // namespace yoke::program
