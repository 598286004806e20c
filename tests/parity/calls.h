// SPDX-License-Identifier: Apache-2.0
// tests/parity/calls.h: calls of functions and layers with random shapes and values.
#pragma once

#include <yoke/yoke.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <vector>

namespace yoke::parity {

using Json = nlohmann::json;

class Random {
 public:
  Random(std::uint64_t seed, Type type) : engine_(seed), type_(type) {}
  Type type() const { return type_; }
  std::uint64_t size(std::uint64_t low, std::uint64_t high) { return low + engine_() % (high - low + 1); }
  bool flag() { return engine_() % 2 == 0; }
  Tensor floats(const Dims& dims, double low = -2, double high = 2) {
    std::vector<double> values(element_count(dims));
    for (double& value : values) {
      value = low + (high - low) * static_cast<double>(engine_() >> 11U) * 0x1p-53;
    }
    return type_ == Type::kF64 ? tensor<double>(values, dims)
                               : tensor<float>(std::vector<float>(values.begin(), values.end()), dims);
  }
  Tensor integers(const Dims& dims, std::uint64_t below) {
    std::vector<std::int64_t> values(element_count(dims));
    for (std::int64_t& value : values) {
      value = static_cast<std::int64_t>(engine_() % below);
    }
    return tensor<std::int64_t>(values, dims);
  }

 private:
  std::mt19937_64 engine_;
  Type type_;
};

// One call: its inputs, the first `differentiable` of which have gradients, its options, and its result.
struct Call {
  Json options;
  std::vector<Tensor> inputs;
  std::size_t differentiable = 0;
  Tensor output;
};

struct Named {
  const char* name;
  Call (*make)(Random&);
};
std::span<const Named> functions();
std::span<const Named> layers();

}  // namespace yoke::parity
