// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/contraction.cpp: recognizes sums of products.
#include "contraction.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "matmul.h"

namespace yoke::codegen::matmul {

using program::Expr;
using program::Op;
using program::Program;
using program::Statement;
using program::Type;

std::int64_t extent_of(const std::vector<Axis>& axes) {
  std::int64_t extent = 1;
  for (const Axis& axis : axes) {
    extent *= axis.extent;
  }
  return extent;
}

bool Product::uses(bool variable) const {
  return std::any_of(forms.begin(), forms.end(), [&](const Form& form) {
    for (std::size_t i = 0; i < form.symbols.size(); ++i) {
      if (form.symbols[i] != 0 && (i >= launch_symbols) == variable) {
        return true;
      }
    }
    return false;
  });
}

namespace {

class Recognizer {
 public:
  Recognizer(const Program& program, const Statement& statement) : program_(program), statement_(statement) {}

  // Returns null, or why the statement is not a product.
  const char* run(Product& product);

 private:
  const char* factor(const Expr& expr, bool is_guarded, Factor& out);
  const char* axes();
  std::size_t address(const program::Access& access, std::vector<Check>* checks);
  bool steps(const Factor& factor, std::size_t loop) const;
  bool reads_target(const Factor& factor) const;
  void add(Form& form, const program::Affine& affine, std::int64_t scale) const;
  std::vector<Axis> merged(std::vector<Axis> axes, bool by_target) const;
  bool is_wide() const;

  const Program& program_;
  const Statement& statement_;
  Product product_;
};

void Recognizer::add(Form& form, const program::Affine& affine, std::int64_t scale) const {
  form.constant += scale * affine.constant;
  for (const program::Affine::Term& term : affine.terms) {
    (term.is_symbol ? form.symbols : form.loops)[term.id] += scale * term.coefficient;
  }
}

// Appends the form of the access' address and, if `checks` is not null, the forms of indices that may be out
// of range.
std::size_t Recognizer::address(const program::Access& access, std::vector<Check>* checks) {
  const program::Tensor& tensor = program_.tensors[access.tensor];
  const std::vector<std::uint64_t> strides = strides_of(tensor);
  const Form empty = {0, std::vector<std::int64_t>(statement_.loops.size()),
                      std::vector<std::int64_t>(program_.symbols.size())};
  Form sum = empty;
  std::vector<Form> checked;
  for (std::size_t i = 0; i < access.indices.size(); ++i) {
    program::Index index = access.indices[i];
    if (const auto quotient = exact_quotient(index)) {
      index = {*quotient, {}, {}, 1};
    }
    const auto stride = static_cast<std::int64_t>(strides[i]);
    if (index.divisor == 1) {
      add(sum, index.affine, stride);
    }
    if (checks != nullptr && may_be_out_of_range(program_, statement_, index, tensor.dims[i])) {
      checks->push_back({product_.forms.size() + 1 + checked.size(), index.divisor,
                         static_cast<std::int64_t>(tensor.dims[i]), stride});
      add(checked.emplace_back(empty), index.affine, 1);
    }
  }
  product_.forms.push_back(std::move(sum));
  product_.forms.insert(product_.forms.end(), checked.begin(), checked.end());
  return product_.forms.size() - 1 - checked.size();
}

const char* Recognizer::factor(const Expr& expr, bool is_guarded, Factor& out) {
  const Expr& read = expr.op == Op::kCast ? expr.args[0] : expr;
  if (read.op != Op::kRead || !program::is_float(read.type) || !program::holds_all(expr.type, read.type)) {
    return "a factor is not a read of floats";
  }
  if (has_element_index(read.access)) {
    return "a factor is a gather";
  }
  out.tensor = read.access.tensor;
  out.access = &read.access;
  out.type = read.type;
  out.address = address(read.access, &out.checks);
  out.is_skipped = is_guarded && !read.access.otherwise && !out.checks.empty();
  out.fill = read.access.otherwise && !out.checks.empty() ? read.access.otherwise->number : 0;
  return nullptr;
}

bool Recognizer::steps(const Factor& factor, std::size_t loop) const {
  return product_.forms[factor.address].loops[loop] != 0 ||
         std::any_of(factor.checks.begin(), factor.checks.end(),
                     [&](const Check& check) { return product_.forms[check.form].loops[loop] != 0; });
}

// An iteration may read the element that it writes. In tiles, a block could overwrite an element that another
// block has yet to read.
bool Recognizer::reads_target(const Factor& factor) const {
  if (factor.tensor != product_.target) {
    return false;
  }
  Form read = product_.forms[factor.address];
  Form write = product_.forms[kTarget];
  for (std::size_t i = 0; i < statement_.loops.size(); ++i) {
    if (statement_.loops[i].extent == 1) {
      read.loops[i] = write.loops[i] = 0;
    }
  }
  return !factor.checks.empty() || read == write;
}

// Sorts by stride in the target, and merges an outer axis with the next inner one if every form steps over
// both with a single stride.
std::vector<Axis> Recognizer::merged(std::vector<Axis> axes, bool by_target) const {
  if (by_target) {
    std::stable_sort(axes.begin(), axes.end(), [](const Axis& one, const Axis& other) {
      return std::abs(one.steps[kTarget]) > std::abs(other.steps[kTarget]);
    });
  }
  std::vector<Axis> result;
  for (const Axis& inner : axes) {
    bool fits = !result.empty();
    for (std::size_t form = 0; fits && form < inner.steps.size(); ++form) {
      fits = result.back().steps[form] == inner.steps[form] * inner.extent;
    }
    if (fits) {
      Axis& outer = result.back();
      outer.extent *= inner.extent;
      outer.steps = inner.steps;
      outer.loops.insert(outer.loops.end(), inner.loops.begin(), inner.loops.end());
    } else {
      result.push_back(inner);
    }
  }
  return result;
}

const char* Recognizer::axes() {
  for (std::size_t loop = 0; loop < statement_.loops.size(); ++loop) {
    Axis axis = {
        static_cast<std::int64_t>(statement_.loops[loop].extent), {}, {static_cast<std::uint32_t>(loop)}};
    if (axis.extent == 1) {
      continue;
    }
    for (const Form& form : product_.forms) {
      axis.steps.push_back(form.loops[loop]);
    }
    const bool in_a = steps(product_.a, loop);
    const bool in_b = steps(product_.b, loop);
    if (statement_.reduces(static_cast<std::uint32_t>(loop))) {
      product_.k.push_back(std::move(axis));
    } else {
      (in_a && in_b ? product_.batch : in_b ? product_.n : product_.m).push_back(std::move(axis));
    }
  }
  const auto is_contiguous = [](const Axis& axis) { return axis.steps[kTarget] == 1; };
  if (std::any_of(product_.m.begin(), product_.m.end(), is_contiguous)) {
    std::swap(product_.a, product_.b);
    std::swap(product_.m, product_.n);
  }
  for (std::vector<Axis>* axes : {&product_.batch, &product_.m, &product_.n, &product_.k}) {
    *axes = merged(std::move(*axes), axes != &product_.k);
  }
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max() - 1024;
  for (const std::vector<Axis>* axes : {&product_.batch, &product_.m, &product_.n, &product_.k}) {
    std::int64_t extent = 1;
    for (const Axis& axis : *axes) {
      if (axis.extent > kLargest / extent) {
        return "too many iterations";
      }
      extent *= axis.extent;
    }
  }
  return nullptr;
}

// Whether some partial sum of an index or address may exceed 31 bits.
bool Recognizer::is_wide() const {
  constexpr std::int64_t kLargest = std::int64_t{1} << 30;
  for (const Form& form : product_.forms) {
    std::int64_t sum = 0;
    const auto grow = [&](std::int64_t step, std::int64_t reach) {
      const bool fits = step == 0 || std::abs(reach) <= (kLargest - sum) / std::abs(step);
      sum = fits ? sum + std::abs(step) * std::abs(reach) : kLargest + 1;
      return fits;
    };
    bool fits = grow(1, form.constant);
    for (std::size_t i = 0; fits && i < form.loops.size(); ++i) {
      fits = grow(form.loops[i], static_cast<std::int64_t>(statement_.loops[i].extent));
    }
    for (std::size_t i = 0; fits && i < form.symbols.size(); ++i) {
      const program::Symbol& symbol = program_.symbols[i];
      fits = grow(form.symbols[i], symbol.low) && grow(form.symbols[i], symbol.high);
    }
    if (!fits) {
      return true;
    }
  }
  return program_.tensors[product_.a.tensor].element_count() > kLargest ||
         program_.tensors[product_.b.tensor].element_count() > kLargest;
}

const char* Recognizer::run(Product& product) {
  const bool is_guarded = statement_.value.op == Op::kGuard;
  const Expr& value = is_guarded ? statement_.value.args[0] : statement_.value;
  if (statement_.reduce != program::Reduce::kSum || value.op != Op::kMul ||
      (is_guarded && statement_.value.literal.number != 0)) {
    return "not a sum of products";
  }
  if ((value.type != Type::kF32 && value.type != Type::kF64) || statement_.accumulator_type() != value.type) {
    return "products or sums are neither f32 nor f64";
  }
  if (has_element_index(statement_.target)) {
    return "the target is a scatter";
  }
  product_.sum = value.type;
  product_.target = statement_.target.tensor;
  product_.launch_symbols = program_.launch_symbol_count();
  address(statement_.target, nullptr);
  for (const bool first : {true, false}) {
    const char* reason = factor(value.args[first ? 0 : 1], is_guarded, first ? product_.a : product_.b);
    if (reason != nullptr) {
      return reason;
    }
  }
  if (reads_target(product_.a) || reads_target(product_.b)) {
    return "a factor is the target";
  }
  const char* reason = axes();
  product_.is_wide = is_wide();
  product = std::move(product_);
  return reason;
}

}  // namespace

std::optional<Product> recognize(const Program& program, const Statement& statement, std::string& why_not) {
  Product product;
  if (const char* reason = Recognizer(program, statement).run(product)) {
    why_not = reason;
    return std::nullopt;
  }
  return product;
}

}  // namespace yoke::codegen::matmul
