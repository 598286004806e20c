// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/printer.cpp: prints parameters, index arithmetic, loads and stores.
#include "printer.h"

#include <limits>

namespace yoke::codegen {

using program::Access;
using program::Affine;
using program::Assign;
using program::Op;
using program::Reduce;
using program::Statement;
using program::Type;

std::string joined(std::initializer_list<std::string_view> texts) {
  std::string result;
  for (const std::string_view text : texts) {
    result.append(text);
  }
  return result;
}

bool fits_in_int(const program::Program& program, const Statement& statement) {
  // Leaves room for a stride of the grid beyond the last element.
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max() - (1U << 25U);
  bool fits = true;
  const auto tensor_fits = [&](std::uint32_t id) {
    fits = fits && program.tensors[id].element_count() <= kMost;
  };
  const auto affine_fits = [&](const Affine& affine) {
    fits = fits && program::largest_partial_sum(program, statement, affine) <= kMost;
  };
  tensor_fits(statement.target.tensor);
  program::visit_index_tensors(statement.target, tensor_fits);
  program::visit_read_tensors(statement.value, tensor_fits);
  program::visit_affines(statement.target, affine_fits);
  program::visit_affines(statement.value, affine_fits);
  program::visit_target_and_reads(statement, [&](const Access& access) {
    if (fits) {
      const std::optional<Affine> element = program::flat_element(program, access);
      fits = element.has_value() || program::has_element_index(access);
      if (element) {
        affine_fits(*element);
      }
      for (const program::Index& index : access.indices) {
        fits = fits && index.divisor <= static_cast<std::int64_t>(kMost);
      }
    }
  });
  std::uint64_t iterations = 1;
  for (const program::Loop& loop : statement.loops) {
    fits = fits && loop.extent <= kMost / iterations;
    iterations = fits ? iterations * loop.extent : 1;
  }
  return fits;
}

Printer::Printer(Builder& builder, bool wide) : builder_(builder), program_(builder.program()), wide_(wide) {}

void Printer::line(const std::string& text) {
  text_.append(2 * depth_, ' ').append(text).append("\n");
}

void Printer::open(const std::string& text) {
  line(text.empty() ? "{" : text + " {");
  ++depth_;
  known_.emplace_back();
}

void Printer::close(const std::string& text) {
  --depth_;
  known_.pop_back();
  line(text);
}

std::string Printer::fresh(std::string_view prefix) {
  return std::string(prefix) + std::to_string(++names_);
}

std::string Printer::named(Type type, const std::string& text) {
  std::string name = fresh("v");
  line("const " + std::string(value_type(type)) + " " + name + " = " + text + ";");
  return name;
}

void Printer::select(const Statement& statement) {
  statement_ = &statement;
  loops_.assign(statement.loops.size(), {});
}

void Printer::open_loop(std::uint32_t loop) {
  const std::string name = fresh("r");
  open("for (" + std::string(index_type()) + " " + name + " = 0; " + name + " < " +
       std::to_string(statement_->loops[loop].extent) + "; ++" + name + ")");
  bind(loop, name);
}

const std::string& Printer::tensor(std::uint32_t id) {
  std::string& name = tensors_[id];
  if (name.empty()) {
    name = "s" + std::to_string(parameters_.size());
    parameters_.push_back({std::string(memory_type(program_.tensors[id].type)), builder_.slot(id)});
  }
  return name;
}

std::string Printer::scratch(Type type, const Slot& slot) {
  parameters_.push_back({std::string(memory_type(type)), slot});
  return "s" + std::to_string(parameters_.size() - 1);
}

std::string Printer::symbol(std::uint32_t id) {
  std::string& name = symbols_[id];
  if (name.empty()) {
    name = "variable";
    if (program_.symbols[id].is_variable) {
      reads_variable_ = true;
    } else {
      name = "y" + std::to_string(id);
      head_ += "  const long long " + name + " = symbols[" + std::to_string(id) + "];\n";
      reads_symbols_ = true;
    }
  }
  return name;
}

std::string Printer::index(const Affine& affine) {
  std::string text;
  for (const Affine::Term& term : affine.terms) {
    std::string name = term.is_symbol ? symbol(term.id) : loops_[term.id];
    if (name == "0") {
      continue;
    }
    if (term.is_symbol && !wide_) {
      name.insert(0, "(int)");
    }
    text.append(text.empty() ? "" : " + ");
    if (term.coefficient != 1) {
      text.append(std::to_string(term.coefficient)).append(wide_ ? "ll * " : " * ");
    }
    text.append(name);
  }
  if (text.empty() || affine.constant != 0) {
    text += (text.empty() ? "" : " + ") + std::to_string(affine.constant) + (wide_ ? "ll" : "");
  }
  return text;
}

Printer::Place Printer::place(const Access& access) {
  Place result;
  const program::Tensor& to = program_.tensors[access.tensor];
  const std::vector<std::uint64_t> strides = program::strides_of(to);
  const auto require = [&](const std::string& condition) {
    result.inside += (result.inside.empty() ? "" : " && ") + condition;
  };
  const std::string unsigned_type = wide_ ? "(unsigned long long)" : "(unsigned)";
  const std::optional<Affine> element = program::flat_element(program_, access);
  for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
    const program::Index& one = access.indices[dim];
    std::string at;
    if (one.element_of) {
      Access at_element;
      at_element.tensor = *one.element_of;
      for (const Affine& affine : one.element_indices) {
        at_element.indices.push_back({affine, std::nullopt, {}});
      }
      at = fresh("x");
      // In 64 bits, because the element may have any value.
      const std::string number = loaded(at_element.tensor, place(at_element).element);
      line(joined({"const long long ", at, " = (long long)", number, ";"}));
      require(joined({"(unsigned long long)", at, " < ", std::to_string(to.dims[dim]), "ull"}));
      at.insert(0, wide_ ? "" : "(int)");
    } else {
      const bool checked = program::may_be_out_of_range(program_, *statement_, one, to.dims[dim]);
      at = joined({"(", index(one.affine), ")"});
      if (checked && one.affine.terms.size() + (one.affine.constant != 0 ? 1 : 0) > 1) {
        const std::string name = fresh("x");
        line(joined({"const ", index_type(), " ", name, " = ", index(one.affine), ";"}));
        at = name;
      }
      if (checked) {
        const std::uint64_t end = to.dims[dim] * static_cast<std::uint64_t>(one.divisor);
        require(joined({unsigned_type, at, " < ", std::to_string(end), wide_ ? "ull" : "u"}));
      }
      if (one.divisor != 1) {
        const std::string divisor = std::to_string(one.divisor);
        require(joined({at, " % ", divisor, " == 0"}));
        at = joined({"(", at, " / ", divisor, ")"});
      }
    }
    if (!element) {
      result.element += (dim == 0 ? "" : " + ") + at +
                        (strides[dim] == 1 ? "" : " * " + std::to_string(strides[dim]) + (wide_ ? "ll" : ""));
    }
  }
  if (element) {
    result.element = index(*element);
  }
  return result;
}

std::optional<std::string> Printer::known(std::uint32_t tensor, const std::string& element) const {
  for (std::size_t i = known_.size(); i-- > 0;) {
    if (const auto found = known_[i].find({tensor, element}); found != known_[i].end()) {
      return found->second;
    }
  }
  return std::nullopt;
}

void Printer::know(std::uint32_t tensor, const std::string& element, const std::string& value) {
  known_.back()[{tensor, element}] = value;
}

void Printer::wrote(std::uint32_t tensor, const std::string& element, const std::string& value) {
  for (Known& scope : known_) {
    std::erase_if(scope, [&](const auto& entry) { return entry.first.first == tensor; });
  }
  know(tensor, element, value);
}

std::string Printer::loaded(std::uint32_t tensor_id, const std::string& element) {
  if (const auto value = known(tensor_id, element)) {
    return *value;
  }
  const Type type = program_.tensors[tensor_id].type;
  std::string name = named(type, from_memory(type, tensor(tensor_id) + "[" + element + "]"));
  know(tensor_id, element, name);
  return name;
}

std::string from_memory(Type type, const std::string& element) {
  return type == Type::kF16    ? "yk_from_f16(" + element + ")"
         : type == Type::kBF16 ? "yk_from_bf16(" + element + ")"
         : type == Type::kBool ? "(" + element + " != 0)"
                               : element;
}

std::string to_memory(Type type, const std::string& value) {
  return type == Type::kF16    ? "yk_to_f16(" + value + ")"
         : type == Type::kBF16 ? "yk_to_bf16(" + value + ")"
         : type == Type::kBool ? "(unsigned char)" + value
                               : value;
}

std::string Printer::assigned(const Place& target, const std::string& value) {
  if (statement_->assign == Assign::kSet) {
    return value;
  }
  const Type type = program_.tensors[statement_->target.tensor].type;
  const Op op = statement_->assign == Assign::kAdd   ? Op::kAdd
                : statement_->assign == Assign::kMul ? Op::kMul
                : statement_->assign == Assign::kMax ? Op::kMax
                                                     : Op::kMin;
  const std::string old = loaded(statement_->target.tensor, target.element);
  return applied(op, type, {old, named(type, value)});
}

void Printer::store(std::uint32_t tensor_id, const std::string& element, const std::string& value) {
  const Type type = program_.tensors[tensor_id].type;
  const std::string name = named(type, value);
  wrote(tensor_id, element, name);
  if (!defers_) {
    line(tensor(tensor_id) + "[" + element + "] = " + to_memory(type, name) + ";");
    return;
  }
  std::erase_if(pending_, [&](const Pending& one) { return one.tensor == tensor_id; });
  pending_.push_back({tensor_id, element, name});
}

void Printer::one_element() {
  const Place target = place(statement_->target);
  if (!target.inside.empty()) {
    open("if (" + target.inside + ")");
  }
  store(statement_->target.tensor, target.element, assigned(target, reduced()));
  if (!target.inside.empty()) {
    close();
  }
}

std::string Printer::reduced() {
  if (!statement_->reduce) {
    return value(statement_->value);
  }
  const Reduce reduce = *statement_->reduce;
  if (reduce == Reduce::kArgMax || reduce == Reduce::kArgMin) {
    return arg_reduced();
  }
  const Type type = statement_->accumulator_type();
  const std::string sum = fresh("sum");
  line(std::string(value_type(type)) + " " + sum + " = " + literal(type, neutral(reduce, type)) + ";");
  for (const std::uint32_t loop : statement_->reduce_loops) {
    open_loop(loop);
  }
  const std::string term = converted(statement_->value.type, type, value(statement_->value));
  line(sum + " = " + applied(fold_of(reduce), type, {sum, named(type, term)}) + ";");
  for (std::size_t i = 0; i < statement_->reduce_loops.size(); ++i) {
    close();
  }
  return converted(type, program_.tensors[statement_->target.tensor].type, sum);
}

// The lowest index wins ties, and NaN beats every number.
std::string Printer::arg_reduced() {
  const Type type = statement_->value.type;
  const std::uint32_t loop = statement_->reduce_loops[0];
  const std::string best = fresh("best");
  const std::string at = fresh("at");
  line(std::string(value_type(type)) + " " + best + " = 0;");
  line(std::string(index_type()) + " " + at + " = 0;");
  open_loop(loop);
  const std::string& counter = loops_[loop];
  const std::string other = named(type, value(statement_->value));
  const std::string beyond = other + (*statement_->reduce == Reduce::kArgMax ? " > " : " < ") + best;
  const std::string beats = program::is_float(type) ? "(" + best + " == " + best + " && (" + other +
                                                          " != " + other + " || " + beyond + "))"
                                                    : "(" + beyond + ")";
  open("if (" + counter + " == 0 || " + beats + ")");
  line(best + " = " + other + ";");
  line(at + " = " + counter + ";");
  close();
  close();
  return "(" + std::string(value_type(program_.tensors[statement_->target.tensor].type)) + ")" + at;
}

std::string Printer::text() const {
  std::string parameters;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters += (i == 0 ? "" : ", ") + parameters_[i].type + "* __restrict__ s" + std::to_string(i);
  }
  for (const auto& [is_used, name] : {std::pair(reads_symbols_, "const long long* __restrict__ symbols"),
                                      std::pair(reads_variable_, "const long long variable")}) {
    if (is_used) {
      parameters.append(parameters.empty() ? "" : ", ").append(name);
    }
  }
  return "(" + parameters + ") {\n" + head_ + text_ + "}\n";
}

Launch Printer::launch() const {
  Launch launch;
  for (const Parameter& parameter : parameters_) {
    launch.slots.push_back(parameter.slot);
  }
  launch.reads_symbols = reads_symbols_;
  launch.reads_variable = reads_variable_;
  return launch;
}

}  // namespace yoke::codegen
