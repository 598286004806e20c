// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/crossed.cpp: writes a statement with the given choices.
#include "crossed.h"

#include <yoke/program/text.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "../check.h"
#include "border_programs.h"
#include "borders.h"

namespace yoke::conformance {

using program::Type;

namespace {
constexpr std::string_view kReductions[] = {"", "", "sum", "sum", "max", "min", "prod", "argmax", "argmin"};
constexpr std::string_view kBoolReductions[] = {"", "any", "all"};
constexpr std::string_view kAssigns[] = {"=", "=", "+=", "max=", "min=", "*="};
// L and R are the operands, T is the type.
constexpr std::string_view kCombinations[] = {"L * R",
                                              "L * R",
                                              "L + R",
                                              "L - R",
                                              "max(L, R)",
                                              "select(L < R, R, L)",
                                              "L",
                                              "L",
                                              "L * 3 + R",
                                              "T(f32(L) - f32(R))",
                                              "abs(L) * R - L"};
constexpr std::string_view kBoolCombinations[] = {"L && R", "L || !R", "L == R", "L"};
enum class Context : std::uint8_t {
  kAlone,
  kRepeated,         // in a repeat block
  kReadsTemporary,   // its first operand is a temporary that a statement before it writes
  kWritesTemporary,  // another statement reads its target
  kOverwritten,      // its first operand is overwritten after it
  kUpdated,          // a part of its first operand is written before it
  kGrouped,          // in a hint without loops, together with another statement
  kFused,            // in @fused[i], together with another statement
  kInPlace           // it reads the element that it writes
};
constexpr DataKind kDataKinds[] = {DataKind::kDyadic, DataKind::kUniform, DataKind::kMixed,
                                   DataKind::kUniform, DataKind::kSparse};
constexpr std::string_view kAccumulators[] = {"", ":f32", ":f64", ":i64"};
constexpr std::int64_t kExtents[] = {1, 2, 3, 5, 8, 16, 17, 31, 33, 64, 65, 130, 257, 512, 1024};
// The loops of an access. Loops that the target lacks are reduced, too.
enum class Order : std::uint8_t {
  kRowMajor,
  kColumnMajor,
  kNoRows,
  kNoLoops,
  kTermsFirst,
  kNoColumns,
  kNoTerms
};
enum class Form : std::uint8_t {
  kPlain,
  kReversed,
  kStrided,
  kShifted,
  kSymbol,
  kVariable,  // of the repeat block
  kElement,   // of an index tensor
  kOutside,   // partly out of range
  kDivided,
  kWindow,   // the sum of two loops
  kDiagonal  // a second dimension with the same index
};
constexpr std::int64_t kMostElements = 40'000;
constexpr int kContexts = 9;
constexpr int kOrders = 7;
constexpr int kTargetOrders = 4;  // the first ones
constexpr int kForms = 11;
constexpr int kTargetForms = 7;  // those before kOutside

constexpr Choices kCounts = {9,
                             std::size(kReductions),
                             std::size(kAssigns),
                             std::size(kCombinations),
                             kContexts,
                             std::size(kDataKinds),
                             std::size(kAccumulators),
                             std::size(kExtents),
                             std::size(kExtents),
                             std::size(kExtents),
                             2,
                             kTargetOrders,
                             kTargetForms,
                             kTargetForms,
                             kOrders,
                             kForms,
                             kForms,
                             kOrders,
                             kForms,
                             kForms};

// Writes the program of some choices.
class Crossed {
 public:
  Crossed(std::uint64_t seed, std::uint64_t number, const Choices& choices, const std::vector<Type>& types)
      : choices_(choices),
        type_(types[choices[kType] % types.size()]),
        is_bool_(type_ == Type::kBool),
        context_(static_cast<Context>(choices[kContext])),
        reduction_(is_bool_ ? kBoolReductions[choices[kReduction] % std::size(kBoolReductions)]
                            : kReductions[choices[kReduction]]),
        made_(seed, text("crossed", number)) {}

  std::int64_t iterations() const { return rows() * columns() * (reduction_.empty() ? 1 : terms()); }

  // Throws program::ProgramError if the statement is invalid or its tensors are large.
  Case made() {
    made_.symbol("s in -3..4 step 2");
    made_.symbol("r in 0..3");
    const std::string target = access("y", kTargetOrder, true);
    std::string value = guarded(combined());
    if (context_ == Context::kInPlace && !is_scatter_) {
      value = text(value, is_bool_ ? " != " : " + ", target);
    }
    const std::string loops = loops_of(kTargetOrder, true);
    const std::string rest = loops.empty() ? "ijk" : loops == "j" ? "ik" : "k";
    const std::string reduced =
        reduction_.empty() ? value : text(reduction_, accumulator(), extents_of(rest), " ", value);
    const bool is_argument = reduction_.starts_with("arg");
    const bool is_set = is_bool_ || is_argument;
    const std::string assign(is_scatter_ && is_set ? "max=" : is_set ? "=" : kAssigns[choices_[kAssign]]);
    const Type result = is_argument ? Type::kI32 : type_;
    const bool is_temporary = context_ == Context::kWritesTemporary;
    if (is_temporary) {
      made_.temporary("y", result, target_dims_);
      made_.statement(text("y", all(target_dims_), " = ", is_bool_ ? "true" : "2"));
    } else {
      made_.input("y", result, target_dims_, {DataKind::kDyadic, 1, -1}, "inout");
    }
    before();
    made_.statement(text(target, loops.empty() ? "" : " for" + extents_of(loops), " ", assign, " ", reduced));
    after();
    if (is_temporary) {
      made_.output(result, target_dims_, inside(all(target_dims_)), "y" + all(target_dims_));
    }
    return made_.finished();
  }

 private:
  std::int64_t rows() const { return kExtents[choices_[kRows]]; }
  std::int64_t columns() const { return kExtents[choices_[kColumns]]; }
  std::int64_t terms() const { return kExtents[choices_[kTerms]]; }
  std::int64_t extent(char loop) const { return loop == 'i' ? rows() : loop == 'j' ? columns() : terms(); }

  std::string accumulator() const {
    const std::string_view chosen = kAccumulators[choices_[kAccumulator]];
    const bool is_sum = reduction_ == "sum" || reduction_ == "prod";
    if (program::is_float(type_)) {
      return program::byte_size(type_) == 2 && !reduction_.starts_with("arg") &&
                     (chosen.empty() || chosen == ":i64")
                 ? ":f32"
             : is_sum && chosen == ":f64" ? ":f64"
                                          : "";
    }
    return is_sum && chosen == ":i64" ? ":i64" : "";
  }

  // The loops that index an access, first to last.
  std::string loops_of(Choice order, bool is_target) const {
    const bool has_terms = !is_target && !reduction_.empty();
    switch (static_cast<Order>(choices_[order])) {
      case Order::kRowMajor:
        return has_terms ? "ijk" : "ij";
      case Order::kColumnMajor:
        return has_terms ? "kji" : "ji";
      case Order::kNoRows:
        return has_terms ? "kj" : is_target && reduction_.empty() ? "ij" : "j";
      case Order::kNoLoops:
        return is_target && reduction_.empty() ? "ij" : "";
      case Order::kTermsFirst:
        return has_terms ? "kij" : "ij";
      case Order::kNoColumns:
        return has_terms ? "ik" : "i";
      default:
        return "ji";
    }
  }
  // "[i:5, j:7]" for the loops "ij".
  std::string extents_of(const std::string& loops) const {
    std::string extents;
    for (const char loop : loops) {
      extents += text(extents.empty() ? "[" : ", ", std::string(1, loop), ":", extent(loop));
    }
    return extents + "]";
  }

  // "y[i, j + 3]". The forms of the first and the last index follow the order in the list of choices. Declares index
  // tensors, and remembers the dimensions of targets.
  std::string access(const std::string& name, Choice order, bool is_target) {
    const std::string loops = loops_of(order, is_target);
    std::string indices;
    std::string dims;
    std::int64_t elements = 1;
    for (std::size_t at = 0; at < loops.size(); ++at) {
      const bool is_first = at == 0;
      const bool is_last = at + 1 == loops.size();
      const auto form = is_first  ? static_cast<Form>(choices_[order + 1])
                        : is_last ? static_cast<Form>(choices_[order + 2])
                                  : Form::kPlain;
      const auto [index, dim] = indexed(name, loops, at, form, is_target);
      indices += (indices.empty() ? "" : ", ") + index;
      dims += text(dims.empty() ? "" : ", ", dim);
      elements *= dim;
      if (form == Form::kDiagonal) {
        indices += ", " + index;
        dims += text(", ", dim);
        elements *= dim;
      }
    }
    if (elements > kMostElements) {
      throw program::ProgramError({}, "the tensor is too large");
    }
    (is_target ? target_dims_ : dims_) = dims;
    return text(name, "[", indices, "]");
  }
  struct Indexed {
    std::string index;
    std::int64_t dim;
  };
  Indexed indexed(const std::string& name, const std::string& loops, std::size_t at, Form form,
                  bool is_target) {
    const std::string loop(1, loops[at]);
    const std::int64_t count = extent(loops[at]);
    const std::int64_t pitch = choices_[kPitch] == 0 ? 0 : 3;
    switch (form) {
      case Form::kReversed:
        return {text("-", loop, " + ", count - 1), count + pitch};
      case Form::kStrided:
        return {text("2*", loop, " + 1"), 2 * count + pitch};
      case Form::kShifted:
        return {loop + " + 3", count + 3 + pitch};
      case Form::kSymbol:
        return {"s + " + loop + " + 3", count + 6 + pitch};
      case Form::kVariable:
        return {(context_ == Context::kRepeated ? "t + " : "s + r + ") + loop + " + 3", count + 8 + pitch};
      case Form::kElement: {
        const std::int64_t dim = count / 2 + 2;
        const std::string indices = text("p", name, at);
        const std::string at_indices[] = {loop, text("-", loop, " + ", count - 1),
                                          text("s + ", loop, " + 3")};
        made_.input(indices, at % 2 == 0 ? Type::kI32 : Type::kI64, std::to_string(count + 6),
                    {DataKind::kIndex, dim, -1});
        (is_target ? is_scatter_ : needs_else_) = true;
        return {text(indices, "[", at_indices[choices_[kRows] % 3], "]"), dim};
      }
      case Form::kOutside:
        needs_else_ = true;
        return {loop + " - 2",
                count > 5 && pitch == 0 ? count - 4 : count};  // at both ends, or at the first one
      case Form::kDivided:
        needs_else_ = true;
        return {"(" + loop + " + 1) / 2", count / 2 + 1};
      case Form::kWindow: {
        const char other = loops[at] != 'j' ? 'j' : reduction_.empty() ? 'i' : 'k';
        return {text(loop, " + ", std::string(1, other)), count + extent(other) - 1 + pitch};
      }
      default:
        return {loop, count + pitch};
    }
  }

  // The operands, each with an `else` of its own, or one around both.
  std::string combined() {
    const std::string left = operand("a", kLeftOrder);
    left_dims_ = dims_;
    std::string form(is_bool_ ? kBoolCombinations[choices_[kCombination] % std::size(kBoolCombinations)]
                              : kCombinations[choices_[kCombination]]);
    const std::string right = form.find('R') == std::string::npos ? "" : operand("b", kRightOrder);
    std::string value;
    for (const char character : form) {
      value += character == 'L'   ? left
               : character == 'R' ? right
               : character == 'T' ? name_of(type_)
                                  : std::string(1, character);
    }
    return value;
  }
  std::string operand(const std::string& name, Choice order) {
    const bool needed = needs_else_;
    needs_else_ = false;
    std::string read = access(name, order, false);
    if (needs_else_ && choices_[kTerms] % 2 == 0) {
      read = text("(", read, " else ", is_bool_ ? "true" : "2", ")");
      needs_else_ = false;
    }
    needs_else_ = needs_else_ || needed;
    const bool is_temporary = name == "a" && context_ == Context::kReadsTemporary;
    const bool is_written =
        name == "a" && (context_ == Context::kOverwritten || context_ == Context::kUpdated);
    made_.input(is_temporary ? "c" : name, type_, dims_, {data_kind(), 20, -1}, is_written ? "inout" : "in");
    if (is_temporary) {
      made_.temporary(name, type_, dims_);
    }
    return read;
  }
  DataKind data_kind() const {
    // Integers wrap, so that large ones show what smaller ones hide.
    const DataKind kind = kDataKinds[choices_[kData]];
    return kind == DataKind::kUniform && program::is_integer(type_) ? DataKind::kWide : kind;
  }
  std::string guarded(const std::string& value) const {
    return needs_else_ ? text("(", value, " else ", is_bool_ ? "false" : "1", ")") : value;
  }

  // "[d0, d1]" for the dimensions "5, 7".
  static std::string all(const std::string& dims) {
    if (dims.empty()) {
      return "[]";
    }
    std::string indices = "[d0";
    for (int i = 1; i <= std::count(dims.begin(), dims.end(), ','); ++i) {
      indices += text(", d", i);
    }
    return indices + "]";
  }
  static std::string inside(const std::string& indices) { return indices.substr(1, indices.size() - 2); }

  void before() {
    const std::string left = all(left_dims_);
    switch (context_) {
      case Context::kRepeated:
        made_.statement(choices_[kPitch] == 0 ? "repeat t in 0..4 {" : "repeat t in -2..5 step 3 {");
        break;
      case Context::kReadsTemporary:
        made_.statement(text("a", left, " = c", left));
        break;
      case Context::kUpdated:
        made_.statement(text("a", left, " for[d0:1] = ", is_bool_ ? "true" : "3"));
        break;
      case Context::kGrouped:
        made_.statement("@group {");
        break;
      case Context::kFused:
        made_.statement("@fused[i] {");
        break;
      default:
        break;
    }
  }
  void after() {
    const std::string left = all(left_dims_);
    if (context_ == Context::kOverwritten) {
      made_.statement(text("a", left, " = ", is_bool_ ? "false" : "5"));
    } else if (context_ == Context::kGrouped || context_ == Context::kFused) {
      made_.input("q", type_, text(rows(), ", ", columns()), {DataKind::kDyadic, 1, -1}, "out");
      made_.statement(text("q[i, j] = ", is_bool_              ? "i < j"
                                         : type_ == Type::kI64 ? "i - j"
                                                               : name_of(type_) + "(i - j)"));
    }
    if (context_ == Context::kRepeated || context_ == Context::kGrouped || context_ == Context::kFused) {
      made_.statement("}");
    }
  }

  Choices choices_;
  Type type_;
  bool is_bool_;
  Context context_;
  std::string_view reduction_;
  ProgramText made_;
  std::string dims_;  // of the last operand
  std::string left_dims_;
  std::string target_dims_;
  bool needs_else_ = false;
  bool is_scatter_ = false;
};

}  // namespace

const Choices& choice_counts() {
  return kCounts;
}

std::int64_t crossed_iterations(const Choices& choices, const std::vector<Type>& types) {
  return Crossed(0, 0, choices, types).iterations();
}

Case crossed_program(std::uint64_t seed, std::uint64_t number, const Choices& choices,
                     const std::vector<Type>& types) {
  return Crossed(seed, number, choices, types).made();
}

}  // namespace yoke::conformance
