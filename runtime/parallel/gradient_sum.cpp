// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/gradient_sum.cpp: adds up micro-batches like a binary counter: the levels that hold partial sums
// are its digits.
#include <yoke/runtime/gradient_sum.h>

#include <algorithm>
#include <bit>

#include "parallel/require_function.h"
#include "parallel/sum_program.h"
#include "schedule/range.h"

namespace yoke {

std::uint32_t GradientSum::extra_levels(std::uint32_t count, SumOrder order, bool in_pieces) {
  if (count == 0 || (order == SumOrder::kTree && !std::has_single_bit(count))) {
    throw Error(ErrorCode::kInvalidArgument,
                "gradient sum: " + detail::counted(count, "micro-batch", "micro-batches") + "; " +
                    (count == 0 ? "use at least 1" : "a tree needs a power of two"));
  }
  return (order == SumOrder::kTree ? static_cast<std::uint32_t>(std::countr_zero(count))
                                   : std::min(1U, count - 1)) +
         (in_pieces ? 1 : 0);
}

void GradientSum::each_sum(std::span<const Arena> arenas, std::uint32_t extra_levels,
                           const std::function<void(const StepProgram& program)>& visit) {
  detail::require_function(visit, "gradient sum: each_sum");
  for (std::uint32_t level = 0; level < extra_levels; ++level) {
    for (const Arena& arena : arenas) {
      visit({detail::sum_text(detail::type_of(arena.spec()), arena.element_count, 2), detail::kSumEntry});
    }
  }
}

GradientSum::GradientSum(const Context& shard, std::span<const Arena> arenas,
                         std::span<const StepParameter> parameters, std::uint32_t count, SumOrder order,
                         CodeCache& codes, bool in_pieces)
    : count_(count),
      in_pieces_(in_pieces),
      order_(order),
      parameters_(parameters.begin(), parameters.end()),
      levels_{shard} {
  for (const Arena& arena : arenas) {
    arena_names_.push_back(arena.name("gradients"));
  }
  for (std::uint32_t level = 1; level <= extra_levels(count, order, in_pieces); ++level) {
    Context own = shard.child();
    LinkedCollective add;
    for (std::size_t a = 0; a < arenas.size(); ++a) {
      const TensorSpec spec = arenas[a].spec();
      const std::string& name = arena_names_[a];
      own.allocate(name, spec);
      const std::uint64_t zero = 0;  // the padding between parameters stays zero
      own.stream()->fill(own.tensor(name).view, &zero, 1);
      Context pair = shard.child();
      pair.adopt("own", spec, levels_.back().tensor(name).view);
      pair.adopt("incoming1", spec, own.tensor(name).view);
      const auto code = codes.get(shard.stream()->device(),
                                  detail::sum_text(detail::type_of(spec), arenas[a].element_count, 2));
      add.add(pair.link(code, detail::kSumEntry));
    }
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::string name = "gradient/" + parameters_[i].name;
      const ContextTensor& first = shard.tensor(name);
      const auto arena = std::find_if(arenas.begin(), arenas.end(), [&](const Arena& a) {
        return a.type == first.spec.type && a.is_running_state == parameters_[i].is_running_state &&
               a.group == parameters_[i].group;
      });
      if (arena == arenas.end()) {
        throw Error(ErrorCode::kInvalidArgument, "gradient sum: no arena has the element type of '" + name +
                                                     "'; pass all arenas of the step plan");
      }
      const BufferView& base = shard.tensor(arena->name("gradients")).view;
      const BufferView& here = own.tensor(arena->name("gradients")).view;
      own.adopt(name, first.spec,
                {here.buffer, here.offset + first.view.offset - base.offset,
                 first.view.byte_count + first.view.padding});
    }
    levels_.push_back(std::move(own));
    adds_.push_back(std::move(add));
  }
}

// Before micro-batch 6 of a tree, levels 0 and 1 hold the sums of 0 to 3 and of 4 and 5.
std::uint32_t GradientSum::level_of(std::uint32_t number) const {
  if (number >= count_) {
    throw Error(ErrorCode::kOutOfRange,
                "gradient sum: " + detail::outside_text("micro-batch", number, count_));
  }
  require_levels();
  return order_ == SumOrder::kTree ? static_cast<std::uint32_t>(std::popcount(number)) : std::min(1U, number);
}

void GradientSum::require_levels() const {
  if (levels_.empty()) {
    throw Error(ErrorCode::kFailedPrecondition, "gradient sum: it is empty");
  }
}

void GradientSum::require_pieces() const {
  if (!in_pieces_) {
    throw Error(ErrorCode::kFailedPrecondition,
                "gradient sum: it was not made for micro-batches in pieces; set in_pieces");
  }
}

void GradientSum::adopt_gradients(Context& context, std::uint32_t number, bool is_later_piece) const {
  std::uint32_t level = level_of(number);
  if (is_later_piece) {
    require_pieces();
    ++level;
  }
  for (std::size_t i = 0; level != 0 && i < parameters_.size(); ++i) {
    const std::string name = "gradient/" + parameters_[i].name;
    const auto& [spec, view] = levels_[level].tensor(name);
    context.adopt(name, spec, {view.buffer, view.offset, view.byte_count + view.padding});
  }
}

void GradientSum::clear(std::uint32_t number) const {
  const Context& level = levels_[level_of(number)];
  const std::uint64_t zero = 0;
  for (const std::string& name : arena_names_) {
    level.stream()->fill(level.tensor(name).view, &zero, 1);
  }
}

void GradientSum::link_buckets(const StepPlan& plan, CodeCache& codes) {
  require_levels();
  if (order_ != SumOrder::kSequence) {
    throw Error(ErrorCode::kFailedPrecondition,
                "gradient sum: only a sum in sequence can be added bucket by bucket");
  }
  bucket_adds_.resize(plan.bucket_count());
  for (std::size_t b = 0; levels_.size() > 1 && b < plan.bucket_count(); ++b) {
    const auto [arena, range] = plan.range_of(b);
    const std::uint64_t element = plan.arenas()[arena].element_byte_count();
    const TensorSpec spec{plan.arenas()[arena].type, {range.count()}};
    Context pair = levels_[0].child();
    for (const auto& [name, level] : {std::pair("own", 0U), std::pair("incoming1", 1U)}) {
      const BufferView& all = levels_[level].tensor(arena_names_[arena]).view;
      pair.adopt(name, spec, {all.buffer, all.offset + range.begin * element, range.count() * element});
    }
    const auto code =
        codes.get(levels_[0].stream()->device(), detail::sum_text(detail::type_of(spec), range.count(), 2));
    bucket_adds_[b] = {};
    bucket_adds_[b].add(pair.link(code, detail::kSumEntry));
  }
}

void GradientSum::add_bucket(std::uint32_t number, std::size_t bucket) const {
  if (bucket_adds_.empty()) {
    throw Error(ErrorCode::kFailedPrecondition, "gradient sum: add_bucket: call link_buckets() first");
  }
  if (bucket >= bucket_adds_.size()) {
    throw Error(ErrorCode::kOutOfRange,
                "gradient sum: add_bucket: " + detail::outside_text("bucket", bucket, bucket_adds_.size()));
  }
  if (level_of(number) > 0) {
    bucket_adds_[bucket].run();
  }
}

void GradientSum::add_piece(std::uint32_t number) const {
  require_pieces();
  adds_[level_of(number)].run();
}

void GradientSum::add(std::uint32_t number) const {
  std::uint32_t level = level_of(number);
  std::uint32_t sums =
      order_ == SumOrder::kTree ? static_cast<std::uint32_t>(std::countr_one(number)) : level;
  for (; sums > 0; --sums) {
    adds_[--level].run();
  }
}

}  // namespace yoke
