// SPDX-License-Identifier: Apache-2.0
// tests/unit/conformance_programs/products_test.cpp: products and large forms are valid, cover what they claim, and
// their fast bounds agree with the reference executor.
#include "products.h"

#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <set>

#include "evaluate.h"
#include "large_forms.h"

namespace yoke::conformance {
namespace {

using program::Type;

constexpr ProductFamily kFamilies[] = {ProductFamily::kLayouts,  ProductFamily::kBorders,
                                       ProductFamily::kBeyond16, ProductFamily::kTypes,
                                       ProductFamily::kSpecial,  ProductFamily::kOperands};

TEST(Products, AreValidForEveryMaskAndDiffer) {
  for (const std::uint64_t mask : {0x3FEU, 0x4U, 0x44U, 0x2U, 0x1CU, 0x40U, 0x160U}) {
    for (const ProductFamily family : kFamilies) {
      std::set<std::string> texts;
      for (std::uint64_t index = 0; index < 60; ++index) {
        const Case one = product_case(family, 3, index, mask);
        texts.insert(program::print(one.program));
        for (const program::Tensor& tensor : one.program.tensors) {
          ASSERT_NE(mask >> static_cast<unsigned>(tensor.type) & 1U, 0U) << program::print(one.program);
        }
      }
      EXPECT_GE(texts.size(), family == ProductFamily::kBeyond16 ? 24U : 50U) << static_cast<int>(family);
    }
  }
}

// The reference executor's results are allowed, and those with one changed element are not.
TEST(Products, HaveTightBounds) {
  for (const ProductFamily family : kFamilies) {
    std::uint64_t elements = 0;
    std::uint64_t noticed = 0;
    for (std::uint64_t index = 0; index < (family == ProductFamily::kBeyond16 ? 2U : 24U); ++index) {
      const Case one = product_case(family, 11, index, 0x3FE);
      std::uint64_t iterations = 1;
      for (const program::Loop& loop : one.program.statements[0].loops) {
        iterations *= loop.extent;
      }
      if (iterations > 300'000 && family != ProductFamily::kBeyond16) {
        continue;
      }
      Contents results = reference_results(one, one.launches[0], 1);
      const AllowedResults allowed(one, one.launches[0], 1);
      ASSERT_EQ(allowed.compare(results), "") << program::print(one.program);
      std::vector<std::byte>& target = results.back();
      const Type type = one.program.tensors.back().type;
      const std::uint64_t size = program::byte_size(type);
      const std::uint64_t count = target.size() / size;
      for (std::uint64_t at = 0; at < count; at += 1 + count / 5) {
        const double number = element_number(type, target.data() + at * size, 0);
        if (number != number) {
          continue;
        }
        std::byte& high = target[at * size + size - (program::is_float(type) && size > 1 ? 2 : 1)];
        high ^= std::byte{0x08};  // about one part in sixteen of a float
        ++elements;
        noticed += allowed.compare(results).empty() ? 0U : 1U;
        high ^= std::byte{0x08};
      }
    }
    EXPECT_GE(noticed * 100, elements * 90) << static_cast<int>(family);
    EXPECT_GE(elements, 4U);
  }
}

TEST(LargeForms, AreValidAndCrossTheBorderOf16Bits) {
  std::uint64_t large = 0;
  for (std::uint64_t index = 0; index < 2 * large_form_count(); ++index) {
    const Case one = large_form(5, index);
    EXPECT_EQ(one.program.name, "form" + std::to_string(index));
    large += std::any_of(one.program.tensors.begin(), one.program.tensors.end(),
                         [](const program::Tensor& tensor) { return tensor.element_count() > 65535; });
  }
  EXPECT_GE(large, large_form_count());
}

}  // namespace
}  // namespace yoke::conformance
