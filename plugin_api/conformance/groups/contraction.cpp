// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/contraction.cpp: plain products of two tensors, which backends write by hand.
#include <algorithm>
#include <iterator>

#include "groups.h"
#include "program/products.h"
#include "program/run/at_once.h"
#include "program/run/batch.h"
#include "program/run/random_programs.h"
#include "program/shrink.h"

namespace yoke::conformance {
namespace {

// The type mask of the device, if it can state a sum of products.
std::uint64_t mask_for_sums(Kit& kit) {
  kit.device().plugin().table<yoke_program_api>();
  const std::uint64_t mask = generator_options(kit.device()).type_mask;
  constexpr std::uint64_t kWide = 1U << YOKE_TYPE_F64 | 1U << YOKE_TYPE_F32 | 1U << YOKE_TYPE_I64 |
                                  1U << YOKE_TYPE_I32 | 1U << YOKE_TYPE_U32 | 1U << YOKE_TYPE_U8;
  if ((mask & kWide) == 0) {
    unsupported("the device has no type that can accumulate a sum");
  }
  return mask;
}

template <ProductFamily family, std::uint64_t one_in, std::uint64_t least>
void products(Kit& kit) {
  const std::uint64_t mask = mask_for_sums(kit);
  run_cases(kit, share_of_programs(kit, one_in, least),
            [&](std::uint64_t index) { return product_case(family, kit.settings().seed, index, mask); });
}

// The most programs of one text for launches at the same time: each has four sets of buffers.
constexpr std::uint64_t kTogether = 24;

std::vector<Case> mixed(Kit& kit, std::uint64_t first, std::uint64_t count) {
  constexpr ProductFamily kMixed[] = {ProductFamily::kLayouts, ProductFamily::kBorders, ProductFamily::kTypes,
                                      ProductFamily::kOperands};
  const std::uint64_t mask = mask_for_sums(kit);
  std::vector<Case> cases;
  for (std::uint64_t i = first; i < first + count; ++i) {
    cases.push_back(product_case(kMixed[i % std::size(kMixed)], kit.settings().seed + 1, i, mask));
  }
  return cases;
}

void at_once(Kit& kit) {
  const std::uint64_t count = share_of_programs(kit, 100, 8);
  for (std::uint64_t first = 0; first < count; first += kTogether) {
    run_at_once(kit, mixed(kit, first, std::min(kTogether, count - first)), 4);
  }
}

void queued(Kit& kit) {
  const std::uint64_t count = share_of_programs(kit, 60, 8);
  for (std::uint64_t first = 0; first < count; first += kTogether) {
    run_queued(kit, mixed(kit, first, std::min(kTogether, count - first)));
  }
}

// Data that use all bits of their type, so that the result depends on the order of summation.
void same_bits(Kit& kit) {
  constexpr double kShrinkSeconds = 10;
  std::vector<Case> cases = mixed(kit, 0, share_of_programs(kit, 40, 8));
  const std::uint64_t mask = mask_for_sums(kit);
  cases.push_back(product_case(ProductFamily::kBeyond16, kit.settings().seed, 2, mask));
  BatchRunner runner(kit.device());
  Tally tally;
  for (Case& one : cases) {
    kit.progress(one.program.name);
    for (Data& data : one.data) {
      data.kind = DataKind::kUniform;
    }
    const std::string difference = runner.difference(one, tally);
    if (!difference.empty()) {
      const auto differs = [&](const Case& small) {
        Tally unused;
        return !runner.difference(small, unused).empty();
      };
      fail(failure_text(shrink(one, differs, {kShrinkSeconds, 2000}), one,
                        "a deterministic entry gives different bits: " + difference));
    }
  }
  if (tally.programs == 0) {
    unsupported("no product is deterministic and supported: " + tally.words());
  }
  kit.note(text(tally.programs, " products"));
}

}  // namespace

std::vector<Test> contraction_tests() {
  return {
      {"layouts",
       "products are right in every order of indices, with batches, padded and shifted tensors, = and +=",
       {25, 26},
       products<ProductFamily::kLayouts, 16, 8>,
       3},
      {"borders",
       "products are right when an extent is at a border of tiles or a power of two",
       {25, 26},
       products<ProductFamily::kBorders, 8, 16>,
       3},
      {"beyond-16-bits",
       "products are right when an extent or a number of elements exceeds 2^16",
       {25, 26},
       products<ProductFamily::kBeyond16, 80, 4>,
       3},
      {"types",
       "products are right for every type, accumulator and conversion of operands and targets",
       {25, 26},
       products<ProductFamily::kTypes, 12, 12>,
       3},
      {"special-values",
       "infinities and NaN reach the results of products, also when the other factor is zero",
       {25, 26},
       products<ProductFamily::kSpecial, 30, 8>,
       3},
      {"operands",
       "products are right when factors are one tensor or share memory, or when the target is a factor",
       {25, 26},
       products<ProductFamily::kOperands, 40, 10>,
       3},
      {"at-once",
       "products of one code that run at the same time give the results that each gives alone",
       {20, 26},
       at_once,
       3},
      {"queued",
       "products queued between copies use the inputs of the copies before them, not those of later copies",
       {16, 18, 26},
       queued,
       3},
      {"same-bits",
       "a deterministic product gives the same bits in every launch, link, memory layout and stream",
       {26},
       same_bits,
       3}};
}

}  // namespace yoke::conformance
