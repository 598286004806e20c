// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_parts.cpp: gradient programs in parts, so that buckets merge while later parts run.
#include <yoke/program/text.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "all_reduce.h"
#include "node.h"
#include "trainer_impl.h"

namespace yoke {

using detail::fail;
using detail::GradientPart;
using detail::kCarried;
using detail::NamedProgram;
using detail::Variant;

namespace {

std::string carried_name(const std::string& argument) {
  return std::string(kCarried) + "/" + argument;
}

GradientPart part_of(const NamedProgram& whole, const passes::Cut& cut, const program::Program& part) {
  GradientPart result;
  if (part.statements.empty()) {
    return result;
  }
  NamedProgram& named = result.program;
  named.name = part.name;
  named.text = program::print(part);
  std::set<std::string> tensors;
  for (const std::uint32_t argument : part.arguments()) {
    const std::string& name = part.tensors[argument].name;
    const auto found = whole.rename.find(name);
    named.rename[name] = found != whole.rename.end() ? found->second : carried_name(name);
    tensors.insert(named.rename[name]);
  }
  for (const passes::Cut::Carried& carried : cut.carried) {
    if (tensors.contains(carried_name(carried.tensor.name))) {
      result.carried.push_back(carried);
    }
  }
  std::copy_if(whole.literals.begin(), whole.literals.end(), std::back_inserter(named.literals),
               [&](const auto& literal) { return tensors.contains(literal.first); });
  std::copy_if(whole.scalars.begin(), whole.scalars.end(), std::back_inserter(named.scalars),
               [&](const Tensor& scalar) { return tensors.contains(detail::scalar_name(scalar)); });
  return result;
}

}  // namespace

// The optimized program, and its arguments by the order of the parameters in the plan.
GradientProgram Trainer::Impl::describe_gradients(const NamedProgram& program) const {
  GradientProgram result;
  result.program = passes::optimize(program::parse_and_verify(program.text).programs.at(0)).program;
  std::map<std::string, std::string> arguments;  // by the name of the tensor
  for (const auto& [argument, tensor] : program.rename) {
    arguments[tensor] = argument;
  }
  for (const std::size_t i : parameter_order) {
    result.gradients.push_back(arguments["gradient/" + parameters[i].name()]);
    result.parameters.push_back(arguments[parameters[i].name()]);
  }
  return result;
}

// Orders the parameters for the step plan as their gradients become final. The order does not depend on the overlap,
// because the bits of a ring depend on it.
void Trainer::Impl::order_parameters() {
  parameter_order.resize(parameters.size());
  std::iota(parameter_order.begin(), parameter_order.end(), std::size_t{0});
  if (is_single()) {
    return;
  }
  const GradientProgram described = describe_gradients(variants[0].programs[0]);
  const std::vector<std::uint32_t> arguments = described.program.arguments();
  const std::vector<std::uint32_t> used = passes::used_until(described.program);
  std::map<std::string, std::uint32_t> final_after;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    final_after[described.program.tensors[arguments[i]].name] = used[i];
  }
  std::stable_sort(parameter_order.begin(), parameter_order.end(), [&](std::size_t a, std::size_t b) {
    return final_after[described.gradients[a]] < final_after[described.gradients[b]];
  });
}

// Cuts the programs after each all_reduce of the loss. Precondition: a shard's program computes all of its rows.
void Trainer::Impl::cut_at_reductions() {
  std::map<std::string, std::pair<passes::Cut, std::vector<Variant::Reduced>>> made;  // by text
  for (Variant& variant : variants) {
    for (std::uint32_t k = 0; k < active_shards(variant); ++k) {
      const NamedProgram& program = variant.programs[k];
      const auto [found, is_new] = made.try_emplace(program.text);
      auto& [cut, reduced] = found->second;
      if (is_new) {
        std::tie(cut, reduced) = cut_at_reductions(program);
      }
      const std::vector<Variant::Reduced>& first = made.at(variants[0].programs[0].text).second;
      if (!std::equal(reduced.begin(), reduced.end(), first.begin(), first.end(),
                      [](const auto& a, const auto& b) { return a.spec == b.spec; })) {
        fail(
            "data_parallel: loss_of returned losses with different all_reduces; use the same ones, of the "
            "same shapes, for every number of rows");
      }
      after_part.resize(reduced.size() + 1);
      auto& parts = variant.parts.emplace_back();
      for (const program::Program& part : cut.parts) {
        parts.push_back(part_of(program, cut, part));
      }
      variant.reduced.push_back(reduced);
      carried_byte_count = std::max(carried_byte_count, cut.carried_byte_count);
    }
  }
}

std::pair<passes::Cut, std::vector<Variant::Reduced>> Trainer::Impl::cut_at_reductions(
    const NamedProgram& program) {
  const program::Program whole = program::parse_and_verify(program.text).programs.at(0);
  const std::vector<detail::ReducePoint> points = detail::reduce_points(whole);
  std::vector<std::uint32_t> after;
  after.reserve(points.size());
  for (const detail::ReducePoint& point : points) {
    after.push_back(point.after);
  }
  passes::Cut cut = passes::cut(whole, after);
  std::vector<Variant::Reduced> reduced;
  for (const detail::ReducePoint& point : points) {
    const auto tensor = std::find_if(whole.tensors.begin(), whole.tensors.end(),
                                     [&](const auto& one) { return one.name == point.tensor; });
    const auto carried = std::find_if(cut.carried.begin(), cut.carried.end(),
                                      [&](const auto& one) { return one.tensor.name == point.tensor; });
    Variant::Reduced& one = reduced.emplace_back();
    one.spec = {static_cast<std::int32_t>(tensor->type), tensor->dims};
    if (carried != cut.carried.end()) {
      one.offset = carried->offset;
    } else {
      one.argument = program.rename.at(point.tensor);
    }
    reduced_byte_count = std::max(reduced_byte_count, one.spec.byte_count());
  }
  return {std::move(cut), std::move(reduced)};
}

void Trainer::Impl::cut_gradients() {
  const auto reduces = [](const NamedProgram& program) {
    return detail::has_all_reduce(program::parse_and_verify(program.text).programs.at(0));
  };
  if (!is_single() && std::any_of(variants.begin(), variants.end(), [&](const Variant& variant) {
        return std::any_of(variant.programs.begin(), variant.programs.end(), reduces);
      })) {
    cut_at_reductions();
    return;
  }
  if (!step_plan.overlaps() || is_reproducible() || is_varying() || step_plan.bucket_count() < 2) {
    return;
  }
  // Of micro-batches, only a shard's last one runs in parts: the others are added to it.
  const auto last_program = [&](const Variant& variant, std::uint32_t k) -> const NamedProgram& {
    return variant.programs[last_micro(variant, k)];
  };
  std::vector<GradientProgram> described;
  std::map<std::string, std::size_t> numbers;  // by text, which many shards share
  for (const Variant& variant : variants) {
    for (std::uint32_t k = 0; k < active_shards(variant); ++k) {
      const NamedProgram& program = last_program(variant, k);
      if (numbers.try_emplace(program.text, described.size()).second) {
        described.push_back(describe_gradients(program));
      }
    }
  }
  GradientParts cut = cut_at_buckets(step_plan, described);
  if (cut.after.size() < 2) {
    return;
  }
  after_part = std::move(cut.after);
  for (Variant& variant : variants) {
    for (std::uint32_t k = 0; k < active_shards(variant); ++k) {
      const NamedProgram& program = last_program(variant, k);
      const passes::Cut& made = cut.programs[numbers.at(program.text)];
      auto& parts = variant.parts.emplace_back();
      for (const program::Program& part : made.parts) {
        parts.push_back(part_of(program, made, part));
      }
      carried_byte_count = std::max(carried_byte_count, made.carried_byte_count);
    }
  }
}

// Calls `visit` for each gradient program that shard k launches.
void Trainer::Impl::each_gradient_program(
    std::size_t k, const std::function<void(const NamedProgram& program)>& visit) const {
  for (const detail::PieceSize& size : piece_sizes) {
    visit(size.program);
  }
  if (is_varying()) {
    return;
  }
  for (const Variant& variant : variants) {
    for (std::size_t s = first_micro[k]; s < std::min(variant.active, first_micro[k] + per_shard); ++s) {
      if (!is_cut() || s != last_micro(variant, static_cast<std::uint32_t>(k))) {
        visit(variant.gradient_program(s));
        continue;
      }
      for (const GradientPart& part : variant.parts[k]) {
        if (!part.program.text.empty()) {
          visit(part.program);
        }
      }
    }
  }
}

void Trainer::Impl::link_gradient_parts(const std::vector<std::shared_ptr<Buffer>>& workspaces) {
  for (std::uint32_t k = 0; carried_byte_count != 0 && k < active_shards(variants[0]); ++k) {
    contexts[k].allocate(kCarried, {YOKE_TYPE_U8, {carried_byte_count}});
  }
  const std::size_t part_count = after_part.size();
  for (Variant& variant : variants) {
    variant.launches.assign(std::size_t{set_count()} * slot_count() * part_count, {});
    for (std::size_t i = 0; i < variant.launches.size(); ++i) {
      for (std::uint32_t k = 0; k < active_shards(variant); ++k) {
        const GradientPart& part = variant.parts[k][i % part_count];
        if (part.program.text.empty()) {
          continue;
        }
        const std::size_t routine_slot = i / part_count;
        Context own = micro_batches[last_micro(variant, k)].slots[routine_slot % slot_count()].child();
        for (const passes::Cut::Carried& carried : part.carried) {
          const program::Tensor& tensor = carried.tensor;
          own.adopt(carried_name(tensor.name), {static_cast<std::int32_t>(tensor.type), tensor.dims},
                    {contexts[k].tensor(kCarried).view.buffer, carried.offset, tensor.byte_count()});
        }
        prepare(contexts[k], part.program);  // all parts share the shard's literals
        variant.launches[i].push_back({k, link(own, part.program, (*symbols)[k], workspaces[k],
                                               static_cast<std::uint32_t>(routine_slot / slot_count()))});
      }
    }
    if (has_reductions()) {
      link_reductions(variant);
    }
  }
}

void Trainer::Impl::link_reductions(Variant& variant) {
  variant.reductions.clear();
  const std::string variant_name = "all_reduce/" + std::to_string(&variant - variants.data()) + "/";
  std::vector<Context> members;
  for (std::uint32_t k = 0; k < active_shards(variant); ++k) {
    Context member = contexts[k].child();
    for (std::size_t i = 0; i < variant.reduced[k].size(); ++i) {
      const Variant::Reduced& reduced = variant.reduced[k][i];
      const BufferView view = reduced.argument.empty() ? BufferView{contexts[k].tensor(kCarried).view.buffer,
                                                                    reduced.offset, reduced.spec.byte_count()}
                                                       : contexts[k].tensor(reduced.argument).view;
      member.adopt(variant_name + std::to_string(i), reduced.spec, view);
    }
    members.push_back(std::move(member));
  }
  const auto group = Collectives::create(step_plan.strategy(), members, options.merge_use, codes);
  for (std::size_t i = 0; i < variant.reduced[0].size(); ++i) {
    variant.reductions.push_back(group->all_reduce(variant_name + std::to_string(i)));
  }
}

// Shard::gradient is the whole program, so that a hand-written loop can launch it.
void Trainer::Impl::link_whole_gradients() {
  if (!is_cut() || has_reductions() || is_fed() || has_whole_gradients) {
    return;
  }
  Variant& full = variants[0];
  full.gradients.resize(full.active);
  for (std::uint32_t k = 0; k < active_shards(full); ++k) {
    StepRoutine& whole = full.gradients[first_micro[k]];
    if (first_micro[k] == last_micro(full, k)) {
      whole = link(contexts[k], full.programs[first_micro[k]], (*symbols)[k]);
    }
    shards[k].gradient = whole.routine();
  }
  has_whole_gradients = true;
}

}  // namespace yoke
