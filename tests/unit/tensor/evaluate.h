// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/evaluate.h: evaluates expressions: lowers them, verifies the program, prints and
// parses it, and runs it on the reference executor.
#pragma once

#include <yoke/gradients.h>
#include <yoke/losses.h>
#include <yoke/lower.h>
#include <yoke/nn.h>
#include <yoke/ops.h>
#include <yoke/random.h>
#include <yoke/scan.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "../../support/error_of.h"

// Variadic, because the expression may contain commas in braces.
#define EXPECT_MESSAGE(message, ...) \
  EXPECT_STREQ(test::error_of([&] { (void)(__VA_ARGS__); }).what(), message)

namespace yoke::testing {

using Bytes = std::vector<std::byte>;
using SymbolValues = std::map<std::string, std::int64_t>;

template <class Number>
Bytes to_bytes(const std::vector<Number>& values) {
  Bytes bytes(values.size() * sizeof(Number));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class Number>
std::vector<Number> from_bytes(const Bytes& bytes) {
  std::vector<Number> values(bytes.size() / sizeof(Number));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The data of leaves. Literals and parameters use their own data unless other data is bound.
class Leaves {
 public:
  template <class Number>
  Leaves& bind(const Tensor& leaf, const std::vector<Number>& values) {
    held_.emplace_back(leaf, to_bytes(values));
    return *this;
  }
  Bytes& of(const Tensor& leaf);  // fails the test if the leaf has no data

 private:
  std::vector<std::pair<Tensor, Bytes>> held_;
};

// Runs the program and returns its outputs by name. Updates change `leaves`. Symbols that are not in
// `symbols` have their lowest value.
std::map<std::string, Bytes> run(const Lowered& lowered, Leaves& leaves, const SymbolValues& symbols = {});

// The values of an expression.
Bytes value_bytes(const Tensor& x, Leaves leaves = {}, const SymbolValues& symbols = {});
template <class Number>
std::vector<Number> values(const Tensor& x, const Leaves& leaves = {}, const SymbolValues& symbols = {}) {
  return from_bytes<Number>(value_bytes(x, leaves, symbols));
}

// The text of the program.
std::string text_of(const Lowered& lowered);
std::string text_of(const Tensor& x);

}  // namespace yoke::testing
