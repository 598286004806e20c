// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/case.cpp: draws initial data from counter-based random numbers.
#include "case.h"

#include <yoke/program/execute.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "../random.h"
#include "borders.h"
#include "error_units.h"
#include "number.h"
#include "scalar.h"

namespace yoke::conformance {

using program::Scalar;
using program::Tensor;
using program::Type;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double smallest_subnormal(Type type) {
  return std::ldexp(smallest_normal(type), 1 - digits(type));
}

// Products of two have all their bits in `type`; a sum of a few hundred of them fits a wider type.
double spread_of(Type type, Random& random) {
  const int bits = digits(type) / 2;
  const int step = type == Type::kF32 ? 5 : 3;
  const auto steps = static_cast<std::int64_t>(type == Type::kF32 ? 2 : 1);
  const std::int64_t odd = random.between(0, (std::int64_t{1} << (bits - 1)) - 1) * 2 + 1;
  const double value =
      std::ldexp(static_cast<double>(odd), step * static_cast<int>(random.between(-steps, 0)));
  return random.chance(2) ? value : -value;
}

double float_of(const Data& data, Type type, Random& random) {
  switch (data.kind) {
    case DataKind::kUniform:
      return random.unit() * 4 - 2;
    case DataKind::kPositive:
      return static_cast<double>(random.between(1, 32)) / 8;
    case DataKind::kUnit: {
      constexpr double kUnits[] = {1, -1, 2, 0.5, 1, -0.5, 1, 1};
      return kUnits[random.below(8)];
    }
    case DataKind::kWide: {
      const int reach = type == Type::kF64 ? 300 : type == Type::kF16 ? 6 : 55;
      return std::ldexp(random.unit() * 2 - 1, static_cast<int>(random.between(-reach, reach)));
    }
    case DataKind::kSpecial: {
      const double specials[] = {0.0,
                                 -0.0,
                                 0.0,
                                 -0.0,
                                 kInf,
                                 -kInf,
                                 std::numeric_limits<double>::quiet_NaN(),
                                 largest(type),
                                 -largest(type),
                                 smallest_subnormal(type),
                                 -3 * smallest_subnormal(type),
                                 1.0,
                                 -1.0,
                                 0.5};
      return random.chance(2) ? specials[random.below(std::size(specials))]
                              : static_cast<double>(random.between(-32, 32)) / 8;
    }
    case DataKind::kSparse: {
      constexpr double kValues[] = {kInf, -kInf, std::numeric_limits<double>::quiet_NaN()};
      if (random.below(static_cast<std::uint64_t>(data.limit)) == 0) {
        return kValues[random.below(3)];
      }
      return random.chance(3) ? 0.0 : static_cast<double>(random.between(-32, 32)) / 8;
    }
    case DataKind::kSpread:
      return spread_of(type, random);
    default:
      return static_cast<double>(random.between(-32, 32)) / 8;
  }
}

// The number of the border that element `i` has.
std::size_t border_of(const Data& data, std::uint64_t i, std::uint64_t round, std::size_t count,
                      Random& random) {
  if (data.limit == 0 || data.limit == -2) {
    return random.below(data.limit == 0 ? count : 2);
  }
  const std::uint64_t crossed = data.limit < 0 ? count : static_cast<std::uint64_t>(kCrossedBorders);
  return (i / static_cast<std::uint64_t>(std::max<std::int64_t>(data.limit, 1)) + round) %
         std::min<std::uint64_t>(crossed, count);
}

// kSpread: mostly true. kSparse: mostly false. kEdges: runs of `limit` equal values.
bool bool_of(const Data& data, std::uint64_t i, std::uint64_t round, Random& random) {
  if (data.kind == DataKind::kSpread) {
    return !random.chance(40);
  }
  if (data.kind == DataKind::kSparse) {
    return random.chance(static_cast<std::uint64_t>(data.limit));
  }
  if (data.kind == DataKind::kEdges && data.limit > 0) {
    return (i / static_cast<std::uint64_t>(data.limit) + round) % 2 != 0;
  }
  return random.chance(2);
}

std::int64_t index_of(const Data& data, Random& random) {
  const std::uint64_t kind = random.below(16);
  if (kind == 0) {
    constexpr std::int64_t kFar[] = {std::numeric_limits<std::int64_t>::max(),
                                     std::numeric_limits<std::int64_t>::min(), 1'000'000'007, -1};
    return kFar[random.below(4)];
  }
  return kind == 1 ? random.between(-2, data.limit + 1) : random.between(0, data.limit - 1);
}

std::int64_t integer_of(const Data& data, Type type, Random& random) {
  switch (data.kind) {
    case DataKind::kUniform:
      return random.between(-100, 100);
    case DataKind::kPositive:
      return random.between(1, 9);
    case DataKind::kUnit: {
      constexpr std::int64_t kUnits[] = {1, -1, 2, 1};
      return kUnits[random.below(4)];
    }
    case DataKind::kWide:
    case DataKind::kSpread:
      return static_cast<std::int64_t>(random.next());
    case DataKind::kSpecial: {
      const std::int64_t edges[] = {program::lowest_integer(type),
                                    program::highest_integer(type),
                                    program::lowest_integer(type) + 1,
                                    program::highest_integer(type) - 1,
                                    0,
                                    1,
                                    -1,
                                    2,
                                    33,
                                    -64};
      return edges[random.below(std::size(edges))];
    }
    case DataKind::kIndex:
      return index_of(data, random);
    default:
      return random.between(-3, 9);
  }
}

}  // namespace

std::vector<std::byte> initial_bytes(const Case& one, std::uint32_t number, std::uint64_t round) {
  const Tensor& tensor = one.program.tensors[number];
  const Data& data = one.data[number];
  if (data.shared >= 0) {
    return initial_bytes(one, static_cast<std::uint32_t>(data.shared), round);
  }
  std::vector<std::byte> bytes(tensor.byte_count());
  Random random(one.seed, tensor.name, one.index + (round << 40U));
  const bool has_borders = data.kind == DataKind::kEdges;
  const std::vector<double> floats = has_borders ? float_borders(tensor.type) : std::vector<double>();
  const std::vector<std::int64_t> integers =
      has_borders ? integer_borders(tensor.type) : std::vector<std::int64_t>();
  for (std::uint64_t i = 0; i < tensor.element_count(); ++i) {
    Scalar value;
    if (data.kind == DataKind::kEdges && tensor.type != Type::kBool) {
      value = program::is_float(tensor.type)
                  ? Scalar{floats[border_of(data, i, round, floats.size(), random)], 0}
                  : Scalar{0, integers[border_of(data, i, round, integers.size(), random)]};
    } else if (program::is_float(tensor.type)) {
      value.number = program::round_to_type(tensor.type, float_of(data, tensor.type, random));
    } else if (tensor.type == Type::kBool) {
      value.integer = bool_of(data, i, round, random) ? 1 : 0;
    } else {
      value.integer = program::wrap_to_type(tensor.type, integer_of(data, tensor.type, random));
    }
    program::store(tensor.type, bytes.data(), static_cast<std::int64_t>(i), value);
  }
  return bytes;
}

Contents initial_arguments(const Case& one, std::uint64_t round) {
  Contents arguments;
  for (const std::uint32_t number : one.program.arguments()) {
    const Tensor& tensor = one.program.tensors[number];
    arguments.push_back(tensor.role == program::Role::kOut
                            ? std::vector<std::byte>(tensor.byte_count(), kPoisonByte)
                            : initial_bytes(one, number, round));
  }
  return arguments;
}

Contents reference_results(const Case& one, std::span<const std::int64_t> symbols, std::uint64_t round) {
  Contents results = initial_arguments(one, round);
  std::vector<void*> pointers;
  for (auto& bytes : results) {
    pointers.push_back(bytes.data());
  }
  program::execute(one.program, pointers, symbols);
  return results;
}

std::string element_text(Type type, std::span<const std::byte> bytes, std::uint64_t element) {
  const Scalar value = program::load(type, bytes.data(), static_cast<std::int64_t>(element));
  if (!program::is_float(type)) {
    return type == Type::kBool ? (value.integer != 0 ? "true" : "false") : std::to_string(value.integer);
  }
  char text[64];
  const auto written = type == Type::kF64
                           ? std::to_chars(text, text + sizeof text, value.number)
                           : std::to_chars(text, text + sizeof text, static_cast<float>(value.number));
  return {text, written.ptr};
}

double element_number(Type type, const std::byte* bytes, std::uint64_t element) {
  const Scalar value = program::load(type, bytes, static_cast<std::int64_t>(element));
  return program::is_float(type) ? value.number : static_cast<double>(value.integer);
}

}  // namespace yoke::conformance
