// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/gradient_sum_test.cpp: sums of micro-batches, in sequence, in a tree, in pieces, and by buckets.
#include <yoke/runtime/gradient_sum.h>

#include <numeric>
#include <set>

#include "rig.h"

namespace yoke::test {
namespace {

constexpr ErrorCode kEmpty = ErrorCode::kFailedPrecondition;
constexpr ErrorCode kRange = ErrorCode::kOutOfRange;

const std::vector<StepParameter> kParameters = {{"w", {YOKE_TYPE_F32, {100}}},
                                                {"mean", {YOKE_TYPE_F32, {10}}, true},
                                                {"d", {YOKE_TYPE_F64, {5}}},
                                                {"v", {YOKE_TYPE_F32, {3}}},
                                                {"late", {YOKE_TYPE_F32, {7}}, false, 1}};

struct OneShard {
  OneShard() : plan(contexts, 1, kParameters, {}, {.bucket_byte_count = 256}, nullptr) {
    plan.allocate();
    plan.allocate_gradients();
  }
  GradientSum sum(std::uint32_t count, SumOrder order, bool in_pieces = false) {
    return {contexts[0], plan.arenas(), kParameters, count, order, codes, in_pieces};
  }
  // What a program of a micro-batch does: it stores a value in all its gradients.
  void store(const Context& micro, double value) const {
    for (const StepParameter& parameter : kParameters) {
      const BufferView& view = micro.tensor("gradient/" + parameter.name).view;
      if (parameter.spec.type == YOKE_TYPE_F64) {
        fill(*micro.stream(), view, value);
      } else {
        fill(*micro.stream(), view, static_cast<float>(value));
      }
    }
  }
  void expect_gradients(double value, const std::string& where) const {
    for (const StepParameter& parameter : kParameters) {
      const BufferView& view = contexts[0].tensor("gradient/" + parameter.name).view;
      const std::uint64_t count = parameter.spec.dims[0];
      if (parameter.spec.type == YOKE_TYPE_F64) {
        EXPECT_EQ(read<double>(*contexts[0].stream(), view), std::vector<double>(count, value)) << where;
      } else {
        EXPECT_EQ(read<float>(*contexts[0].stream(), view),
                  std::vector<float>(count, static_cast<float>(value)))
            << parameter.name << ", " << where;
      }
    }
    const auto all = get(contexts[0], "gradients/f32");  // with the padding, which stays zero
    EXPECT_EQ(std::accumulate(all.begin(), all.end(), 0.0), 103 * value) << where;
  }

  Rig rig;
  std::vector<Context> contexts = {Context(rig.stream())};
  StepPlan plan;
  CodeCache codes;
};

TEST(GradientSums, AddUpEveryMicroBatchOnce) {
  for (const SumOrder order : {SumOrder::kSequence, SumOrder::kTree}) {
    for (const bool in_pieces : {false, true}) {
      for (const std::uint32_t count : {1U, 2U, 3U, 8U}) {
        if (order == SumOrder::kTree && count == 3) {
          continue;
        }
        OneShard shard;
        const GradientSum sum = shard.sum(count, order, in_pieces);
        for (int step = 1; step <= 2; ++step) {
          double total = 0;
          for (std::uint32_t number = 0; number < count; ++number) {
            Context micro = shard.contexts[0].child();
            sum.adopt_gradients(micro, number);
            if (number == 2) {
              sum.clear(number);  // it had no rows
            } else {
              shard.store(micro, step * (number + 1.0));
              total += step * (number + 1.0);
            }
            for (int piece = 1; in_pieces && piece <= 2; ++piece) {
              Context later = shard.contexts[0].child();
              sum.adopt_gradients(later, number, true);
              shard.store(later, 100.0 * piece);
              sum.add_piece(number);
              total += 100.0 * piece;
            }
            sum.add(number);
          }
          shard.expect_gradients(total, std::to_string(count) +
                                            (order == SumOrder::kTree ? " in a tree" : "") +
                                            (in_pieces ? " in pieces" : ""));
        }
      }
    }
  }
}

TEST(GradientSums, MayBeAddedBucketByBucket) {
  OneShard shard;
  GradientSum sum = shard.sum(3, SumOrder::kSequence);
  EXPECT_ERROR(kEmpty, sum.add_bucket(0, 0));
  sum.link_buckets(shard.plan, shard.codes);
  for (std::uint32_t number = 0; number < 3; ++number) {
    Context micro = shard.contexts[0].child();
    sum.adopt_gradients(micro, number);
    shard.store(micro, number + 1.0);
    for (std::size_t bucket = 0; bucket < shard.plan.bucket_count(); ++bucket) {
      sum.add_bucket(number, bucket);
    }
  }
  shard.expect_gradients(6, "by buckets");
  EXPECT_ERROR(kRange, sum.add_bucket(1, shard.plan.bucket_count()));
  EXPECT_ERROR(kRange, sum.add_bucket(3, 0));
}

TEST(GradientSums, NumbersOfMicroBatchesAreLessThanTheirCount) {
  OneShard shard;
  for (const SumOrder order : {SumOrder::kSequence, SumOrder::kTree}) {
    const GradientSum sum = shard.sum(2, order, true);
    Context micro = shard.contexts[0].child();
    for (const std::uint32_t number : {2U, 3U, 99U}) {
      EXPECT_ERROR(kRange, sum.adopt_gradients(micro, number));
      EXPECT_ERROR(kRange, sum.adopt_gradients(micro, number, true));
      EXPECT_ERROR(kRange, sum.clear(number));
      EXPECT_ERROR(kRange, sum.add(number));
      EXPECT_ERROR(kRange, sum.add_piece(number));
    }
  }
  GradientSum whole = shard.sum(2, SumOrder::kTree);
  Context micro = shard.contexts[0].child();
  EXPECT_ERROR(kEmpty, whole.adopt_gradients(micro, 1, true));
  EXPECT_ERROR(kEmpty, whole.add_piece(1));
  EXPECT_ERROR(kEmpty, whole.link_buckets(shard.plan, shard.codes));
}

TEST(GradientSums, NeedTheArenasOfAllParameters) {
  OneShard shard;
  const std::span<const Arena> arenas = shard.plan.arenas();
  ASSERT_EQ(arenas.size(), 4U);
  for (std::size_t count = 0; count < arenas.size(); ++count) {
    EXPECT_ERROR(ErrorCode::kInvalidArgument, GradientSum(shard.contexts[0], arenas.first(count), kParameters,
                                                          2, SumOrder::kSequence, shard.codes));
  }
}

TEST(GradientSums, StateTheProgramsThatTheyLink) {
  for (const SumOrder order : {SumOrder::kSequence, SumOrder::kTree}) {
    for (const bool in_pieces : {false, true}) {
      OneShard shard;
      const std::uint32_t levels = GradientSum::extra_levels(8, order, in_pieces);
      std::set<std::string> stated;
      std::uint64_t routines = 0;
      shard.rig.control->on_compile = [&](std::string_view text) { stated.emplace(text); };
      GradientSum::each_sum(shard.plan.arenas(), levels, [&](const StepProgram& program) {
        (void)compile(shard.rig.device, program.text)->entry(program.entry);
        routines += 1;
      });
      std::set<std::string> needed;
      shard.rig.control->on_compile = [&](std::string_view text) { needed.emplace(text); };
      const std::uint64_t before = shard.rig.control->link_count;
      const GradientSum sum = shard.sum(8, order, in_pieces);
      shard.rig.control->on_compile = {};
      EXPECT_EQ(stated, needed);
      EXPECT_EQ(routines, shard.rig.control->link_count - before);
    }
  }
}

}  // namespace
}  // namespace yoke::test
