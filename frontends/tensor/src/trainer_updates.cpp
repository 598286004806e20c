// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_updates.cpp: the programs of a trainer's optimizer.
#include <yoke/ops.h>

#include <algorithm>

#include "node.h"
#include "trainer_impl.h"

namespace yoke {

using detail::NamedProgram;

namespace {

// The merged gradient: the sum of the terms.
Tensor sum_of_terms(const UpdateShape& shape) {
  Tensor gradient;
  for (std::uint32_t k = 0; k < shape.terms; ++k) {
    const Tensor term =
        placeholder("gradient_" + std::to_string(k), static_cast<Type>(shape.type), {shape.count});
    gradient = k == 0 ? term : gradient + term;
  }
  return gradient;
}

template <class Programs, class Make>
const NamedProgram& kept(Programs& programs, const UpdateShape& shape, const Make& make) {
  const std::tuple key(shape.type, shape.count, shape.terms, shape.group);
  auto found = programs.find(key);
  if (found == programs.end()) {
    NamedProgram program = make();
    found = programs.emplace(key, std::move(program)).first;  // not earlier: an Error leaves no entry
  }
  return found->second;
}

}  // namespace

void Trainer::Impl::check_number() const {
  const OptimizerRule& rule = options.optimizer.rule();
  if (!rule.term) {
    return;
  }
  const Tensor gradient = placeholder("gradient", Type::kF32, {1});
  const Tensor number = rule.number(sum(cast(rule.term(gradient), Type::kF64)));
  if (!lower("number", {{"number", number}}).program.symbols.empty()) {
    detail::fail("optimizer '" + rule.name +
                 "': the number over all gradients uses a symbol; use it in the update instead");
  }
}

void Trainer::Impl::check_groups() const {
  const std::vector<std::string>& patterns = options.optimizer.rule().patterns;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    constexpr std::size_t kMostNames = 12;
    std::string names;
    std::size_t count = 0;
    bool is_used = false;
    for (const Parameter& parameter : parameters) {
      if (!parameter.is_state()) {
        is_used = is_used || options.optimizer.group_of(parameter.name()) == i + 1;
        if (++count <= kMostNames) {
          names += (names.empty() ? "" : ", ") + parameter.name();
        }
      }
    }
    if (!is_used) {
      detail::fail("optimizer: no parameter is in the group '" + patterns[i] +
                   "': its pattern matches none, or earlier patterns match them first; the parameters are " +
                   names +
                   (count > kMostNames ? " and " + std::to_string(count - kMostNames) + " more" : ""));
    }
  }
}

// The optimizer's updates of a parameter, or of a slice of an arena. `suffix` follows the names of the states.
std::vector<Update> Trainer::Impl::update_of(const Tensor& value, const Tensor& gradient,
                                             const std::string& suffix, std::uint32_t group,
                                             const Tensor& number) {
  std::vector<Tensor> states;
  for (const std::string& state : options.optimizer.states()) {
    states.push_back(placeholder(state + suffix, value.type(), value.dims()));
  }
  const UpdateOperands operands{value, gradient, states, options.learning_rate, number, group};
  return is_scaled() ? detail::scaled_update(options.optimizer, operands)
                     : options.optimizer.update(operands);
}

// The term of a gradient in the number over all gradients, in f64. `vector` is the leaf with the loss scale.
Tensor Trainer::Impl::term_of(const Tensor& gradient, const Tensor& vector) const {
  const OptimizerRule& rule = options.optimizer.rule();
  return is_scaled() ? detail::scaled_term(rule, gradient, vector) : cast(rule.term(gradient), Type::kF64);
}

Tensor Trainer::Impl::number_of_total(const Tensor& total, const Tensor& vector) const {
  const OptimizerRule& rule = options.optimizer.rule();
  return is_scaled() ? detail::next_scale(rule, total, vector) : rule.number(total);
}

// The number over all gradients, for one program that has them all. Empty if there is none.
Tensor Trainer::Impl::number_of(const std::vector<Tensor>& gradients) const {
  Tensor total;
  for (std::size_t i = 0; has_number() && i < gradients.size(); ++i) {
    if (!parameters[i].is_state()) {
      const Tensor part = sum(term_of(gradients[i], scale));
      total = total ? total + part : part;
    }
  }
  return has_number() ? number_of_total(total, scale) : Tensor();
}

// Sums `terms` gradients of `count` elements, and updates the parameters with the sum.
const NamedProgram& Trainer::Impl::update_program(const UpdateShape& shape) {
  return kept(update_programs, shape, [&] {
    const Tensor value = placeholder("value", static_cast<Type>(shape.type), {shape.count});
    const Tensor number = is_scaled()    ? detail::scale_leaf("number")
                          : has_number() ? placeholder("number", Type::kF64, {})
                                         : Tensor();
    std::vector<Update> updates = update_of(value, sum_of_terms(shape), "", shape.group, number);
    std::vector<Output> outputs;
    if (set_count() == 2) {  // keeps the old values
      for (const Update& update : updates) {
        outputs.push_back({"next_" + update.leaf.name(), update.value});
      }
      updates.clear();
    }
    const std::string group = shape.group == 0 ? "" : "group" + std::to_string(shape.group) + "/";
    return detail::name_program(lower("update", outputs, updates), {}, "literal/update/" + group);
  });
}

// Sums the terms of the number over all gradients in pieces; see StepNumber.
const NamedProgram& Trainer::Impl::measure_program(const UpdateShape& shape) {
  return kept(measure_programs, shape, [&] {
    const std::uint64_t size = YOKE_BUFFER_ALIGNMENT / program::byte_size(static_cast<Type>(shape.type));
    const Tensor terms = term_of(sum_of_terms(shape), detail::scale_leaf("number"));
    const Tensor summed = sum(reshape(terms, {shape.count / size, size}), {1});
    return detail::name_program(lower("measure", {{"pieces", summed}}), {}, "literal/measure/");
  });
}

NamedProgram Trainer::Impl::combine_program() const {
  const Tensor vector = detail::scale_leaf("number");
  Tensor total;
  for (std::size_t a = 0; a < step_plan.arenas().size(); ++a) {
    const Arena& arena = step_plan.arenas()[a];
    if (!arena.is_running_state) {
      const std::uint64_t count = arena.element_count * arena.element_byte_count() / YOKE_BUFFER_ALIGNMENT;
      const Tensor part = sum(placeholder("pieces_" + std::to_string(a), Type::kF64, {count}));
      total = total ? total + part : part;
      std::uint64_t padding = arena.element_count;
      for (const std::size_t member : arena.members) {
        padding -= parameters[parameter_order[member]].tensor().element_count();
      }
      if (padding != 0) {  // its gradients are zero, but the term of zero may be another number
        const Tensor zero = zeros(static_cast<Type>(arena.type), {1});
        const Tensor term = sum(term_of(zero, vector));
        total = total - static_cast<double>(padding) * term;
      }
    }
  }
  const Tensor number = number_of_total(total, vector);
  return detail::name_program(
      is_scaled() ? lower("combine", {}, {{vector, number}}) : lower("combine", {{"number", number}}), {},
      "literal/combine/");
}

void Trainer::Impl::link_updates() {
  const auto linked = [&](std::uint32_t k, const NamedProgram& program) {
    prepare(contexts[k], program);
    return StepProgram{program.text, program.name, program.rename};
  };
  StepNumber number;
  if (has_number()) {
    number.measure = [&](const UpdateShape& shape) { return linked(shape.shard, measure_program(shape)); };
    number.combine = [&] { return linked(0, combine_program()); };
  }
  step_plan.link([&](const UpdateShape& shape) { return linked(shape.shard, update_program(shape)); },
                 *symbols, number);
}

}  // namespace yoke
