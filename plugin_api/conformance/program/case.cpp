// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/case.cpp: draws initial data from counter-based random numbers.
#include "case.h"

#include <yoke/program/execute.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
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
    const std::int64_t inside = random.between(0, data.limit - 1);
    const std::int64_t far[] = {std::numeric_limits<std::int64_t>::max(),
                                std::numeric_limits<std::int64_t>::min(),
                                1'000'000'007,
                                -1,
                                -data.limit,
                                inside + (std::int64_t{1} << 32U),
                                inside - (std::int64_t{1} << 32U),
                                inside + (std::int64_t{1} << 31U),
                                inside + (std::int64_t{1} << 16U)};
    return far[random.below(std::size(far))];
  }
  return kind == 1 ? random.between(-2, data.limit + 1) : random.between(0, data.limit - 1);
}

// A float of 32 or 64 bits.
template <class Float, class Word>
Word float_bits(Random& random) {
  constexpr int kMantissa = std::numeric_limits<Float>::digits - 1;
  constexpr Word kFraction = (Word{1} << kMantissa) - 1;
  const Word any = static_cast<Word>(random.next());
  const auto infinity = std::bit_cast<Word>(std::numeric_limits<Float>::infinity());
  const auto sign = static_cast<Word>(Word{random.chance(2) ? 1U : 0U} << (sizeof(Word) * 8 - 1));
  switch (random.below(8)) {
    case 0:
      return any;
    case 1: {  // NaN; the payload is not 0
      const Word payloads[] = {kFraction,
                               1,
                               static_cast<Word>(any & kFraction),
                               (kFraction >> 1U) + 1,
                               kFraction >> 1U,
                               static_cast<Word>(Word{1} << random.below(kMantissa))};
      const Word payload = payloads[random.below(std::size(payloads))];
      return sign | infinity | (payload == 0 ? 1 : payload);
    }
    case 2:  // subnormals, and the smallest normal numbers
      return sign | (any & kFraction & ((Word{1} << random.below(kMantissa + 1)) - 1)) |
             (random.chance(4) ? Word{1} << kMantissa : 0);
    case 3: {  // an integer, or half of one, and its neighbors
      const Float whole =
          std::floor(std::ldexp(static_cast<Float>(random.unit()), static_cast<int>(random.below(66))));
      const auto bits = std::bit_cast<Word>(whole + (random.chance(2) ? Float{0.5} : Float{0}));
      return sign | (bits + (bits > 1 ? static_cast<Word>(random.between(-1, 1)) : 0));
    }
    default: {  // beside a number of a narrower type, or half-way between two
      const int narrow[] = {7, 10, 23, 23 - 7, 4};
      const int kept = std::min(narrow[random.below(std::size(narrow))], kMantissa - 1);
      const Word half = Word{1} << (kMantissa - kept - 1);
      const Word rest[] = {half, half - 1, half + 1, 0, 1, 2 * half - 1};
      const auto bias = static_cast<Word>(std::numeric_limits<Float>::max_exponent - 1);
      // Every exponent of f16; now and then one of bf16 and f32.
      const auto exponent =
          static_cast<Word>(static_cast<std::int64_t>(bias) +
                            (random.chance(4) ? random.between(-126, 127) : random.between(-26, 16)));
      return sign | exponent << kMantissa |
             ((any & kFraction & ~(2 * half - 1)) | rest[random.below(std::size(rest))]);
    }
  }
}

// An integer of any number of bits, often next to a number that a float type cannot hold.
std::int64_t integer_bits(Random& random) {
  const auto any = static_cast<std::int64_t>(random.next()) >> random.below(64);
  if (random.chance(2)) {
    return any;
  }
  const std::uint64_t digits[] = {8, 11, 24, 53};
  const std::uint64_t kept = digits[random.below(std::size(digits))];
  const std::uint64_t low = random.below(63 - kept);
  const std::uint64_t value = ((random.next() >> (64 - kept)) | std::uint64_t{1} << (kept - 1)) << low;
  const std::uint64_t half = low == 0 ? 0 : std::uint64_t{1} << (low - 1);
  const auto near = static_cast<std::int64_t>(value + half) + random.between(-1, 1);
  return random.chance(2) ? near : -near;
}

// kBits
void store_bits(const Tensor& tensor, std::uint64_t i, std::uint64_t round, Random& random,
                std::byte* bytes) {
  const std::uint64_t size = program::byte_size(tensor.type);
  std::uint64_t word =
      i * 40503 + round * 32768;  // two rounds of 32768 elements have every pattern of 16 bits
  if (tensor.type == Type::kF32) {
    word = float_bits<float, std::uint32_t>(random);
  } else if (tensor.type == Type::kF64) {
    word = float_bits<double, std::uint64_t>(random);
  } else if (size >= 4) {
    word = static_cast<std::uint64_t>(integer_bits(random));
  }
  std::memcpy(bytes + i * size, &word, size);
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
  Data data = one.data[number];
  const bool is_mixed = data.kind == DataKind::kMixed;
  if (data.shared >= 0) {
    return initial_bytes(one, static_cast<std::uint32_t>(data.shared), round);
  }
  const std::uint64_t count = tensor.element_count();
  std::vector<std::byte> bytes(tensor.byte_count());
  Random random(one.seed, tensor.name, one.index + (round << 40U));
  const bool has_borders = is_mixed || data.kind == DataKind::kEdges;
  const std::vector<double> floats = has_borders ? float_borders(tensor.type) : std::vector<double>();
  const std::vector<std::int64_t> integers =
      has_borders ? integer_borders(tensor.type) : std::vector<std::int64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    Scalar value;
    if (is_mixed) {
      data = i % 2 == 0 ? Data{DataKind::kUniform, 1, -1} : Data{DataKind::kEdges, 0, -1};
    }
    if (data.kind == DataKind::kBits && tensor.type != Type::kBool) {
      store_bits(tensor, i, round, random, bytes.data());
      continue;
    }
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
