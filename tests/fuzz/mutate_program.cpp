// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/mutate_program.cpp: mutates parsed programs, so that most inputs pass the parser and many
// reach the last rules of the verifier. Only libFuzzer programs contain it.
#include <yoke/program/text.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed);

namespace yoke::fuzz {
namespace {

using namespace yoke::program;  // NOLINT(google-build-using-namespace)

class Mutator {
 public:
  Mutator(Program& program, unsigned seed) : program_(program), random_(seed) {}

  void change() {
    switch (below(12)) {
      case 0:
        return change_tensor();
      case 1:
        return change_symbol();
      case 2:
      case 3:
        return change_order();
      default:
        return change_statement();
    }
  }

 private:
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }
  bool maybe(std::size_t one_in) { return below(one_in) == 0; }
  template <class T>
  T& any(std::vector<T>& all) {
    return all[below(all.size())];
  }
  std::int64_t small() { return static_cast<std::int64_t>(below(7)) - 3; }
  std::int64_t integer() {
    constexpr std::int64_t kEdges[] = {std::numeric_limits<std::int64_t>::min(),
                                       std::numeric_limits<std::int64_t>::max(),
                                       std::int64_t{1} << 61,
                                       -(std::int64_t{1} << 61),
                                       1 << 30,
                                       255,
                                       65536};
    return maybe(8) ? kEdges[below(std::size(kEdges))] : small();
  }

  static std::int64_t sum(std::int64_t a, std::int64_t b) {  // wraps
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }

  void change_tensor() {
    if (program_.tensors.empty()) {
      return;
    }
    Tensor& tensor = any(program_.tensors);
    if (maybe(4)) {
      tensor.role = static_cast<Role>(below(4) + 1);
    } else if (maybe(6)) {
      tensor.type = static_cast<Type>(below(9) + 1);
    } else if (!tensor.dims.empty()) {
      any(tensor.dims) = maybe(8) ? static_cast<std::uint64_t>(integer()) : below(6) + 1;
    }
  }

  void change_symbol() {
    if (program_.symbols.empty()) {
      return;
    }
    Symbol& symbol = any(program_.symbols);
    symbol.low = integer();
    symbol.high = maybe(4) ? integer() : sum(symbol.low, static_cast<std::int64_t>(below(9)));
    symbol.step = maybe(3) ? integer() : 1;
  }

  void change_order() {
    auto& all = program_.statements;
    if (all.empty()) {
      return;
    }
    const auto first = static_cast<std::ptrdiff_t>(below(all.size()));
    const auto second = static_cast<std::ptrdiff_t>(below(all.size()));
    if (maybe(3)) {
      const Statement copy = all[static_cast<std::size_t>(first)];
      all.insert(all.begin() + second, copy);
    } else if (maybe(2)) {
      std::swap(all[static_cast<std::size_t>(first)], all[static_cast<std::size_t>(second)]);
    } else if (all.size() > 1) {
      all.erase(all.begin() + first);
    }
  }

  void change_statement() {
    if (program_.statements.empty()) {
      return;
    }
    Statement& statement = any(program_.statements);
    switch (below(8)) {
      case 0:
        if (!statement.loops.empty()) {
          any(statement.loops).extent = below(6) + 1;
        }
        return;
      case 1:
        return change_access(statement, statement.target, false);
      case 2:
        statement.assign = static_cast<Assign>(below(5));
        return;
      case 3:
        if (statement.reduce) {
          statement.reduce = static_cast<Reduce>(below(8));
          statement.accumulator = maybe(2) ? std::nullopt : std::optional(static_cast<Type>(below(9) + 1));
        }
        return;
      default:
        return change_expr(statement, statement.value);
    }
  }

  void change_affine(const Statement& statement, Affine& affine) {
    if (maybe(3)) {
      affine.constant = sum(affine.constant, small());
    } else if (!affine.terms.empty() && maybe(2)) {
      auto& term = any(affine.terms);
      term.coefficient = maybe(10) ? integer() : small();
      if (term.coefficient == 0) {
        affine.terms.erase(affine.terms.begin() + (&term - affine.terms.data()));
      }
    } else if (!statement.loops.empty()) {
      affine = Affine::loop(static_cast<std::uint32_t>(below(statement.loops.size())));
    } else {
      affine = Affine::number(integer());
    }
  }

  void change_access(const Statement& statement, Access& access, bool is_read) {
    if (access.indices.empty()) {
      return;
    }
    Index& index = any(access.indices);
    if (index.element_of && !index.element_indices.empty() && maybe(2)) {
      change_affine(statement, any(index.element_indices));
    } else if (maybe(6)) {
      become_gather(statement, index);
    } else {
      index.element_of.reset();
      index.element_indices.clear();
      change_affine(statement, index.affine);
    }
    if (is_read && maybe(3)) {
      access.otherwise = maybe(2) ? std::optional<Literal>() : Literal{0, 0};
    }
  }

  void become_gather(const Statement& statement, Index& index) {
    std::vector<std::uint32_t> integers;
    for (std::uint32_t i = 0; i < program_.tensors.size(); ++i) {
      if (is_integer(program_.tensors[i].type)) {
        integers.push_back(i);
      }
    }
    if (integers.empty() || statement.loops.empty()) {
      return;
    }
    index.element_of = any(integers);
    index.affine = {};
    index.element_indices.clear();
    for (std::size_t i = 0; i < program_.tensors[*index.element_of].dims.size(); ++i) {
      index.element_indices.push_back(
          Affine::loop(static_cast<std::uint32_t>(below(statement.loops.size()))));
    }
  }

  void change_expr(const Statement& statement, Expr& expr) {
    if (!expr.args.empty() && !maybe(3)) {
      return change_expr(statement, any(expr.args));
    }
    if (expr.op == Op::kRead && !maybe(4)) {
      return change_access(statement, expr.access, true);
    }
    if (expr.op == Op::kConst) {
      constexpr double kNumbers[] = {0,
                                     -0.0,
                                     1e300,
                                     1e-310,
                                     65504,
                                     65520,
                                     2147483648.0,
                                     9.3e18,
                                     -1,
                                     0.5,
                                     std::numeric_limits<double>::infinity(),
                                     std::numeric_limits<double>::quiet_NaN()};
      expr.literal =
          is_float(expr.type) ? Literal{kNumbers[below(std::size(kNumbers))], 0} : Literal{0, integer()};
    } else if (expr.args.size() == 2 && maybe(2)) {
      std::swap(expr.args[0], expr.args[1]);
    } else if (!expr.args.empty()) {
      change_op(expr);
    } else {
      expr = Expr::constant(expr.type, static_cast<double>(small()));
    }
  }

  // Picks another operation with the same number of arguments. The verifier checks the types.
  void change_op(Expr& expr) {
    for (int attempt = 0; attempt < 8; ++attempt) {
      const auto op = static_cast<Op>(below(static_cast<std::size_t>(Op::kRandomBits) + 1));
      if (op_info(op).arity == static_cast<int>(expr.args.size()) && op != Op::kCast) {
        std::vector<Expr> args = std::move(expr.args);
        expr =
            maybe(4) ? Expr::cast(static_cast<Type>(below(9) + 1), args[0]) : Expr::make(op, std::move(args));
        return;
      }
    }
  }

  Program& program_;
  std::mt19937 random_;
};

// Returns the changed text, or an empty string if the input is not a program.
std::string mutated(std::string_view text, unsigned seed) {
  try {
    Module module = parse(text);
    if (module.programs.empty()) {
      return {};
    }
    for (unsigned i = 0; i <= seed % 4; ++i) {
      Mutator(module.programs[seed % module.programs.size()], seed * 31 + i).change();
    }
    return print(module);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace
}  // namespace yoke::fuzz

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                    unsigned seed) {
  if (seed % 8 != 0) {
    const std::string text = yoke::fuzz::mutated({reinterpret_cast<const char*>(data), size}, seed / 8);
    if (!text.empty() && text.size() <= max_size) {
      std::memcpy(data, text.data(), text.size());
      return text.size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
