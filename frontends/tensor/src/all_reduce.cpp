// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/all_reduce.cpp: all-reduce in expressions: a copy inside a hint, after which programs are split.
#include "all_reduce.h"

#include <yoke/composite.h>
#include <yoke/ops.h>
#include <yoke/program/text.h>
#include <yoke/runtime/passes.h>
#include <yoke/train_helpers.h>

#include <algorithm>
#include <optional>
#include <string>

#include "node.h"

namespace yoke {

using detail::fail;
using detail::reduce_points;
using detail::ReducePoint;

namespace {

constexpr std::string_view kSum = "all_reduce_sum";
constexpr std::string_view kMean = "all_reduce_mean";

// The reduction that a hint names, for the operation or its gradient.
std::optional<Reduction> reduction_of(const program::Hint& hint) {
  std::string_view name = hint.name;
  for (constexpr std::string_view kEnd = "_gradient"; name.ends_with(kEnd);) {
    name.remove_suffix(kEnd.size());
  }
  return name == kSum    ? std::optional(Reduction::kSum)
         : name == kMean ? std::optional(Reduction::kMean)
                         : std::nullopt;
}

}  // namespace

std::vector<detail::ReducePoint> detail::reduce_points(const program::Program& program) {
  std::vector<ReducePoint> points;
  for (std::size_t i = 0; i < program.statements.size(); ++i) {
    const program::Statement& statement = program.statements[i];
    if (statement.hint < 0) {
      continue;
    }
    if (const auto reduction = reduction_of(program.hints[static_cast<std::size_t>(statement.hint)])) {
      if (statement.repeat >= 0) {
        fail(
            "all_reduce cannot be used in a loop, such as a recurrent layer; use it before or after the "
            "loop");
      }
      points.push_back(
          {static_cast<std::uint32_t>(i) + 1, program.tensors[statement.target.tensor].name, *reduction});
    }
  }
  return points;
}

bool detail::has_all_reduce(const program::Program& program) {
  return std::any_of(program.hints.begin(), program.hints.end(),
                     [](const program::Hint& hint) { return reduction_of(hint).has_value(); });
}

Tensor all_reduce(const Tensor& x, Reduction reduction) {
  detail::require(x, "all_reduce");
  if (!program::is_float(x.type())) {
    fail("all_reduce: " + detail::describe(x) + " is not of floating-point type; cast it first");
  }
  if (detail::current_composite() != nullptr) {
    fail("all_reduce: it cannot be used in a composite operation; use it before or after");
  }
  if (program::byte_size(x.type()) < 4) {  // sums are computed, and sent, in f32
    return cast(all_reduce(cast(x, Type::kF32), reduction), x.type());
  }
  // The product with a scalar that is 1 keeps constants from being folded, which would remove the statement. All calls
  // share the scalars, because two must not have the same name.
  static const Tensor one_f32 = scalar("yoke/one", 1);
  static const Tensor one_f64 = scalar("yoke/one_f64", 1, Type::kF64);
  const CompositeOptions options{
      .name = std::string(reduction == Reduction::kMean ? kMean : kSum),
      .forward = [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * in[1]}; },
      .backward =
          [](const std::vector<Tensor>& in, const std::vector<Tensor>&, const std::vector<Tensor>& slopes) {
            return std::vector<Tensor>{slopes[0] * in[1], Tensor()};
          }};
  return composite(options, {x, x.type() == Type::kF64 ? one_f64 : one_f32})[0];
}

struct DistributedProgram::Impl {
  struct Stage {
    std::vector<LinkedRoutine> parts;  // per member; empty if the members have nothing to run
    LinkedCollective reduce;
    std::vector<LinkedRoutine> scale;  // per member, for a mean
  };
  void add_member(Context member, const Lowered& lowered, const std::vector<ReducePoint>& points);
  void link_reductions(MergeStrategy merge, const std::vector<ReducePoint>& points);

  CodeCache codes;
  std::vector<Context> members;  // children, with carried tensors and those to be reduced
  std::vector<Stage> stages;
};

namespace {

std::string reduced_name(std::size_t stage) {
  return "all_reduce/" + std::to_string(stage);
}

}  // namespace

void DistributedProgram::Impl::add_member(Context member, const Lowered& lowered,
                                          const std::vector<ReducePoint>& points) {
  std::vector<std::uint32_t> after;
  after.reserve(points.size());
  for (const ReducePoint& point : points) {
    after.push_back(point.after);
  }
  const passes::Cut cut = passes::cut(lowered.program, after);
  std::map<std::string, std::string> names = context_names(lowered);
  if (cut.carried_byte_count > 0) {
    member.allocate("carried", {YOKE_TYPE_U8, {cut.carried_byte_count}});
  }
  for (const passes::Cut::Carried& carried : cut.carried) {
    const program::Tensor& tensor = carried.tensor;
    names[tensor.name] = "carried/" + tensor.name;
    member.adopt(names[tensor.name], {static_cast<std::int32_t>(tensor.type), tensor.dims},
                 {member.tensor("carried").view.buffer, carried.offset, tensor.byte_count()});
  }
  stages.resize(cut.parts.size());
  for (std::size_t i = 0; i < cut.parts.size(); ++i) {
    const program::Program& part = cut.parts[i];
    if (part.statements.empty()) {
      continue;
    }
    std::map<std::string, std::string> used;
    for (const std::uint32_t argument : part.arguments()) {
      used[part.tensors[argument].name] = names.at(part.tensors[argument].name);
    }
    const auto code = codes.get(member.stream()->device(), program::print(part));
    stages[i].parts.push_back(member.link(code, part.name, used));
    if (i < points.size()) {
      const ContextTensor& target = member.tensor(names.at(points[i].tensor));
      member.adopt(reduced_name(i), target.spec, target.view);
    }
  }
  members.push_back(std::move(member));
}

void DistributedProgram::Impl::link_reductions(MergeStrategy merge, const std::vector<ReducePoint>& points) {
  const auto group = Collectives::create(merge, members);
  for (std::size_t i = 0; i < points.size(); ++i) {
    stages[i].reduce = group->all_reduce(reduced_name(i));
    if (points[i].reduction == Reduction::kSum || members.size() == 1) {
      continue;
    }
    const TensorSpec spec = members[0].tensor(reduced_name(i)).spec;
    const Tensor total = placeholder("total", static_cast<Type>(spec.type), spec.dims);
    const Lowered lowered =
        lower("scale", {}, {{total, total * (1.0 / static_cast<double>(members.size()))}});
    for (const Context& member : members) {
      const auto code = codes.get(member.stream()->device(), program::print(lowered.program));
      stages[i].scale.push_back(member.link(code, "scale", {{"total", reduced_name(i)}}));
    }
  }
}

DistributedProgram::DistributedProgram(std::span<const Context> members, std::span<const Lowered> programs,
                                       MergeStrategy merge)
    : impl_(std::make_unique<Impl>()) {
  if (members.empty() || members.size() != programs.size()) {
    fail("DistributedProgram: expected at least one member, and one program per member, but got " +
         detail::counted(members.size(), "member") + " and " + detail::counted(programs.size(), "program"));
  }
  const std::vector<ReducePoint> first = reduce_points(programs[0].program);
  for (std::size_t k = 1; k < members.size(); ++k) {
    const std::vector<ReducePoint> points = reduce_points(programs[k].program);
    const bool same = std::equal(points.begin(), points.end(), first.begin(), first.end(),
                                 [](const auto& a, const auto& b) { return a.reduction == b.reduction; });
    if (!same) {
      fail(
          "DistributedProgram: the program of member " + std::to_string(k) +
          " has other all-reduces than that of member 0; all programs must have the same, in the same order");
    }
  }
  for (std::size_t k = 0; k < members.size(); ++k) {
    impl_->add_member(members[k].child(), programs[k], reduce_points(programs[k].program));
  }
  impl_->link_reductions(merge, first);
}

DistributedProgram::~DistributedProgram() = default;

void DistributedProgram::run(std::span<const std::int64_t> symbol_values) const {
  for (const Impl::Stage& stage : impl_->stages) {
    for (const LinkedRoutine& part : stage.parts) {
      part.run(symbol_values);
    }
    stage.reduce.run();
    for (const LinkedRoutine& scale : stage.scale) {
      scale.run();
    }
  }
}

}  // namespace yoke
