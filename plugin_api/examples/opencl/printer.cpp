// SPDX-License-Identifier: Apache-2.0
// printer.cpp: prints the loops and memory accesses of a statement.
#include "printer.h"

#include <yoke/program/text.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace ocl {

using yoke::program::Assign;
using yoke::program::Reduce;
using yoke::program::Statement;
using yoke::program::Tensor;

Printer::Printer(const yoke::program::Program& program, const Statement& statement, Offsets offsets,
                 const Form& form, std::set<std::string>& helpers)
    : program_(program), statement_(statement), offsets_(offsets), form_(form), helpers_(helpers) {
  if (fits_in_int()) {
    integer_ = "int";
  }
}

// Whether all index arithmetic fits in 32 bits, where division by an extent is several times faster.
bool Printer::fits_in_int() const {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  bool fits = true;
  const auto tensor_fits = [&](std::uint32_t id) {
    fits = fits && program_.tensors[id].element_count() <= kMost;
  };
  const auto affine_fits = [&](const Affine& affine) {
    fits = fits && yoke::program::largest_partial_sum(program_, statement_, affine) <= kMost;
  };
  tensor_fits(statement_.target.tensor);
  yoke::program::visit_index_tensors(statement_.target, tensor_fits);
  yoke::program::visit_read_tensors(statement_.value, tensor_fits);
  yoke::program::visit_affines(statement_.target, affine_fits);
  yoke::program::visit_affines(statement_.value, affine_fits);
  std::uint64_t iterations = 1;
  for (const yoke::program::Loop& loop : statement_.loops) {
    fits = fits && loop.extent <= kMost / 2;  // leaves room for a loop counter past the end
    iterations = fits ? iterations * loop.extent : 0;
    fits = fits && iterations <= kMost;
  }
  return fits;
}

Body Printer::print() {
  if (const std::optional<Tile> found = tile()) {
    print_tiles(*found);
    return finished();
  }
  const std::vector<bool> independent = yoke::program::independent_loops(statement_);
  std::vector<std::uint32_t> parallel;
  std::vector<std::uint64_t> extents;
  std::vector<std::uint32_t> serial;
  for (std::uint32_t i = 0; i < statement_.loops.size(); ++i) {
    const std::uint64_t extent = statement_.loops[i].extent;
    if (statement_.reduces(i)) {
      body_.work_per_element *= extent;
    } else if (independent[i]) {
      parallel.push_back(i);
      extents.push_back(extent);
      body_.element_count *= extent;
    } else {
      serial.push_back(i);
      body_.work_per_element *= extent;
    }
  }
  element_loop(parallel, extents);
  for (const std::uint32_t loop : serial) {
    open_loop(loop);
    body_.remark +=
        (body_.remark.empty() ? "serial because of the scatter: " : ", ") + statement_.loops[loop].name;
  }
  one_element();
  for (std::size_t i = 0; i < serial.size(); ++i) {
    close();
  }
  close();
  return finished();
}

// Opens the loop over the elements of a work-item and computes the indices of the independent loops.
void Printer::element_loop(const std::vector<std::uint32_t>& loops,
                           const std::vector<std::uint64_t>& extents) {
  const std::string count = std::to_string(body_.element_count);
  // On a CPU, a work-item computes consecutive elements; on a GPU, consecutive work-items do.
  if (form_.in_chunks) {
    line("const long first = (long)get_global_id(0) * chunk;");
    line("const long last = min(first + chunk, (long)" + count + ");");
    line("for (long e = first; e < last; ++e) {");
  } else {
    line("for (long e = (long)get_global_id(0); e < " + count + "; e += (long)get_global_size(0)) {");
  }
  ++depth_;
  if (loops.empty()) {
    return;
  }
  line(integer_ + " rest = (" + integer_ + ")e;");
  for (std::size_t i = loops.size(); i-- > 0;) {
    const std::string name = "i" + std::to_string(loops[i]);
    const std::string extent = std::to_string(extents[i]);
    if (i == 0) {
      line("const " + integer_ + " " + name + " = rest;");
    } else {
      line("const " + integer_ + " " + name + " = rest % " + extent + ";");
      line("rest /= " + extent + ";");
    }
  }
}

void Printer::open_loop(std::uint32_t loop) {
  const std::string name = "i" + std::to_string(loop);
  line("for (" + integer_ + " " + name + " = 0; " + name + " < " +
       std::to_string(statement_.loops[loop].extent) + "; ++" + name + ") {");
  ++depth_;
}

void Printer::close() {
  --depth_;
  line("}");
}

void Printer::one_element() {
  const Place target = place(statement_.target);
  if (!target.inside.empty()) {
    line("if (" + target.inside + ") {");
    ++depth_;
  }
  assign(target, reduced());
  if (!target.inside.empty()) {
    close();
  }
}

std::string Printer::reduced() {
  if (!statement_.reduce) {
    return value(statement_.value);
  }
  const Reduce reduce = *statement_.reduce;
  if (reduce == Reduce::kArgMax || reduce == Reduce::kArgMin) {
    return arg_reduced();
  }
  const Type type = statement_.accumulator_type();
  const bool is_min = reduce == Reduce::kMin;
  const std::string sum = "sum" + std::to_string(++names_);
  yoke::program::Literal start;
  start.number = reduce == Reduce::kProd  ? 1
                 : is_min                 ? std::numeric_limits<double>::infinity()
                 : reduce == Reduce::kMax ? -std::numeric_limits<double>::infinity()
                                          : 0;
  start.integer = reduce == Reduce::kProd || reduce == Reduce::kAll ? 1
                  : is_min                                          ? yoke::program::highest_integer(type)
                  : reduce == Reduce::kMax                          ? yoke::program::lowest_integer(type)
                                                                    : 0;
  line(std::string(value_type(type)) + " " + sum + " = " + literal(type, start) + ";");
  for (const std::uint32_t loop : statement_.reduce_loops) {
    open_loop(loop);
  }
  const std::string term = converted(statement_.value.type, type, value(statement_.value));
  const Op fold = reduce == Reduce::kProd  ? Op::kMul
                  : is_min                 ? Op::kMin
                  : reduce == Reduce::kMax ? Op::kMax
                  : reduce == Reduce::kAny ? Op::kOr
                  : reduce == Reduce::kAll ? Op::kAnd
                                           : Op::kAdd;
  line(sum + " = " + applied(fold, type, {sum, named(type, term)}) + ";");
  for (std::size_t i = 0; i < statement_.reduce_loops.size(); ++i) {
    close();
  }
  return converted(type, program_.tensors[statement_.target.tensor].type, sum);
}

// The lowest index wins ties, and NaN beats every number.
std::string Printer::arg_reduced() {
  const Type type = statement_.value.type;
  const std::uint32_t loop = statement_.reduce_loops[0];
  const std::string number = std::to_string(++names_);
  const std::string best = "best" + number;
  const std::string at = "at" + number;
  line(std::string(value_type(type)) + " " + best + " = 0;");
  line(integer_ + " " + at + " = 0;");
  open_loop(loop);
  const std::string other = named(type, value(statement_.value));
  const std::string beyond = other + (*statement_.reduce == Reduce::kArgMax ? " > " : " < ") + best;
  const std::string beats = yoke::program::is_float(type) ? "(" + best + " == " + best + " && (" + other +
                                                                " != " + other + " || " + beyond + "))"
                                                          : "(" + beyond + ")";
  line("if (i" + std::to_string(loop) + " == 0 || " + beats + ") {");
  line("  " + best + " = " + other + ";");
  line("  " + at + " = i" + std::to_string(loop) + ";");
  line("}");
  close();
  return "(" + std::string(value_type(program_.tensors[statement_.target.tensor].type)) + ")" + at;
}

void Printer::assign(const Place& target, const std::string& value) {
  const Type type = program_.tensors[statement_.target.tensor].type;
  const std::string element = tensor(statement_.target.tensor) + "[" + target.element + "]";
  std::string result = value;
  if (statement_.assign != Assign::kSet) {
    const Op op = statement_.assign == Assign::kAdd   ? Op::kAdd
                  : statement_.assign == Assign::kMul ? Op::kMul
                  : statement_.assign == Assign::kMax ? Op::kMax
                                                      : Op::kMin;
    const std::string old = named(type, loaded(type, statement_.target.tensor, target.element));
    result = applied(op, type, {old, named(type, value)});
  }
  if (type == Type::kF16 || type == Type::kBF16) {
    result = helper(type == Type::kF16 ? "to_f16" : "to_bf16") + "(" + result + ")";
  } else if (type == Type::kBool) {
    result = "(uchar)" + result;
  }
  line(element + " = " + result + ";");
}

Body Printer::finished() {
  std::string comment = yoke::program::print(program_, statement_);
  std::replace(comment.begin(), comment.end(), '\n', ' ');
  body_.text = "    // " + comment + "\n" + head_ + text_;
  return std::move(body_);
}

std::string Printer::tensor(std::uint32_t id) {
  if (const auto known = tensors_.find(id); known != tensors_.end()) {
    return known->second;
  }
  const Tensor& tensor = program_.tensors[id];
  Slot slot{tensor.role == yoke::program::Role::kTemp, 0};
  if (!slot.is_workspace) {
    const std::vector<std::uint32_t> arguments = program_.arguments();
    slot.argument =
        static_cast<std::uint32_t>(std::find(arguments.begin(), arguments.end(), id) - arguments.begin());
  }
  const auto same = std::find_if(body_.slots.begin(), body_.slots.end(), [&](const Slot& other) {
    return other.is_workspace == slot.is_workspace && other.argument == slot.argument;
  });
  const std::string number = std::to_string(same - body_.slots.begin());
  if (same == body_.slots.end()) {
    body_.slots.push_back(slot);
  }
  const std::string name = "t" + std::to_string(id);
  const std::string type = "__global " + std::string(memory_type(tensor.type)) + "*";
  head_ += "    " + type + " " + name + " = (" + type + ")(s" + number + " + o" + number +
           (slot.is_workspace ? " + " + std::to_string(offsets_[id]) : "") + ");\n";
  return tensors_[id] = name;
}

std::string Printer::index(const Affine& affine) {
  std::string text;
  for (const Affine::Term& term : affine.terms) {
    std::string name = "i" + std::to_string(term.id);
    if (term.is_symbol) {
      std::string& known = symbols_[term.id];
      if (known.empty()) {
        known = "(" + integer_ + ")y" + std::to_string(body_.symbols.size());
        body_.symbols.push_back(term.id);
      }
      name = known;
    }
    text += (text.empty() ? "" : " + ") +
            (term.coefficient == 1 ? name
                                   : "(" + integer_ + ")" + std::to_string(term.coefficient) + " * " + name);
  }
  if (text.empty() || affine.constant != 0) {
    text += (text.empty() ? "" : " + ") + std::string("(") + integer_ + ")" + std::to_string(affine.constant);
  }
  return text;
}

Printer::Place Printer::place(const Access& access) {
  Place result;
  const Tensor& to = program_.tensors[access.tensor];
  const std::vector<std::uint64_t> strides = yoke::program::strides_of(to);
  for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
    const yoke::program::Index& one = access.indices[dim];
    std::string at = "x" + std::to_string(++names_);
    const std::string extent = std::to_string(to.dims[dim]);
    if (one.element_of) {
      Access element;
      element.tensor = *one.element_of;
      for (const Affine& affine : one.element_indices) {
        element.indices.push_back({affine, std::nullopt, {}});
      }
      const Type type = program_.tensors[element.tensor].type;
      const Place where = place(element);
      // In 64 bits, because the element may have any value.
      line("const long " + at + " = (long)" + loaded(type, element.tensor, where.element) + ";");
      result.inside += (result.inside.empty() ? "" : " && ") + at + " >= 0 && " + at + " < " + extent;
      at = "(" + integer_ + ")" + at;
    } else {
      line("const " + integer_ + " " + at + " = " + index(one.affine) + ";");
      if (yoke::program::may_be_out_of_range(program_, statement_, one, to.dims[dim])) {
        const std::uint64_t end = to.dims[dim] * static_cast<std::uint64_t>(one.divisor);
        result.inside +=
            (result.inside.empty() ? "" : " && ") + at + " >= 0 && " + at + " < " + std::to_string(end);
      }
      if (one.divisor != 1) {
        const std::string divisor = std::to_string(one.divisor);
        result.inside += " && " + at + " % " + divisor + " == 0";
        at = "(" + at + " / " + divisor + ")";
      }
    }
    result.element +=
        (dim == 0 ? "" : " + ") + at + (strides[dim] == 1 ? "" : " * " + std::to_string(strides[dim]));
  }
  if (access.indices.empty()) {
    result.element = "0";
  }
  return result;
}

std::string Printer::loaded(Type type, std::uint32_t tensor_id, const std::string& element) {
  const std::string text = tensor(tensor_id) + "[" + element + "]";
  switch (type) {
    case Type::kF16:
      return helper("from_f16") + "(" + text + ")";
    case Type::kBF16:
      return helper("from_bf16") + "(" + text + ")";
    case Type::kBool:
      return "(" + text + " != 0)";
    default:
      return text;
  }
}

std::string Printer::named(Type type, const std::string& text) {
  const std::string name = "v" + std::to_string(++names_);
  line("const " + std::string(value_type(type)) + " " + name + " = " + text + ";");
  return name;
}

const std::string& Printer::helper(const std::string& name) {
  return *helpers_.insert(name).first;
}

void Printer::line(const std::string& text) {
  text_.append(static_cast<std::size_t>(2 * depth_), ' ').append(text).append("\n");
}

Body print_body(const yoke::program::Program& program, const Statement& statement, Offsets offsets,
                const Form& form, std::set<std::string>& helpers) {
  return Printer(program, statement, offsets, form, helpers).print();
}

}  // namespace ocl
