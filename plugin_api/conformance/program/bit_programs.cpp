// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/bit_programs.cpp: border_programs.h, numbers with any bits.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "border_programs.h"
#include "borders.h"
#include "generator.h"

namespace yoke::conformance {

using program::Op;
using program::OpInfo;
using program::Type;

namespace {

constexpr Data kAnyBits{DataKind::kBits, 1, -1};

// Statements over inputs a, b and c of one type.
class Statements {
 public:
  Statements(std::uint64_t seed, const std::string& name, Type type, std::uint64_t count,
             Data data = kAnyBits)
      : count_(std::to_string(count)),
        batches_(seed, name + "_" + name_of(type), [type, data, extent = count_](ProgramText& text) {
          for (const char* input : {"a", "b", "c"}) {
            text.input(input, type, extent, data);
          }
        }) {}

  void add(Type result, const std::string& value) { batches_.next().output(result, count_, "i", value); }
  std::vector<Case> made() { return batches_.made(); }

 private:
  std::string count_;
  Batches batches_;
};

// "a[i] + b[i]", "min(a[i], b[i])", "-a[i]"
std::string applied(const OpInfo& info) {
  const std::string name(info.name);
  if (info.is_operator()) {
    return info.arity == 1 ? name + "a[i]" : "a[i] " + name + " b[i]";
  }
  return name + (info.arity == 1 ? "(a[i])" : info.arity == 2 ? "(a[i], b[i])" : "(a[i], b[i], c[i])");
}

// Every operation of the arity that takes the type and returns it, except pow: pow(1, x) may be 1 or NaN if x is a
// signaling NaN, as in C.
std::vector<std::string> operations(Type type, int arity) {
  std::vector<std::string> all;
  for (std::size_t number = 0; number < program::kOpCount; ++number) {
    const Op op = static_cast<Op>(number);
    const OpInfo& info = program::op_info(op);
    if (info.arity == arity && op != Op::kCast && op != Op::kGuard && op != Op::kRandomBits &&
        op != Op::kSelect && op != Op::kPow && info.result != program::Result::kBool &&
        takes_type(op, type)) {
      all.push_back(applied(info));
    }
  }
  return all;
}

std::uint64_t bit_count(Type type) {
  return program::byte_size(type) == 2 ? 32768 : program::byte_size(type) == 1 ? 256 : 6000;
}

// Products of equal factors are less exact than the operation.
constexpr const char* kExponents[] = {"3", "5", "7", "10", "17", "31", "63", "100", "-7", "-31"};

// Divisors whose reciprocals need all digits, powers of two and their neighbors.
constexpr std::int64_t kConstants[] = {3,
                                       5,
                                       6,
                                       7,
                                       9,
                                       10,
                                       11,
                                       13,
                                       25,
                                       27,
                                       100,
                                       125,
                                       127,
                                       128,
                                       129,
                                       255,
                                       256,
                                       641,
                                       1000,
                                       65535,
                                       65536,
                                       65537,
                                       274177,
                                       1000000007,
                                       2147483647,
                                       2147483648,
                                       4294967295,
                                       4294967296,
                                       4294967297,
                                       6700417,
                                       1000000000000,
                                       4611686018427387904,
                                       9223372036854775807};

}  // namespace

std::vector<Case> bit_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Case> all;
  const std::vector<Type> types = types_of(type_mask);
  for (const Type type : types) {
    if (type == Type::kBool) {
      continue;
    }
    Statements casts(seed, "bit_casts", type, bit_count(type));
    for (const Type to : types) {
      casts.add(to, name_of(to) + "(a[i])");
    }
    if (program::is_float(type)) {
      casts.add(type, "max(a[i], b[i])");
      casts.add(type, "min(a[i], b[i])");
    }
    append(all, casts.made());
    if (program::is_float(type)) {
      Statements functions(seed, "bit_functions", type, bit_count(type));
      for (const std::string& value : operations(type, 1)) {
        functions.add(type, value);
      }
      append(all, functions.made());
      Statements pairs(seed, "bit_pairs", type, 6000);
      for (const int arity : {2, 3}) {
        for (const std::string& value : operations(type, arity)) {
          pairs.add(type, value);
        }
      }
      append(all, pairs.made());
      Statements powers(seed, "bit_powers", type, 1000, {DataKind::kUniform, 1, -1});
      for (const char* exponent : kExponents) {
        powers.add(type, std::string("pow(a[i], ") + exponent + ")");
      }
      append(all, powers.made());
    }
  }
  return all;
}

std::vector<Case> integer_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Case> all;
  for (const Type type : types_of(type_mask)) {
    if (program::is_float(type) || type == Type::kBool) {
      continue;
    }
    Statements statements(seed, "integers", type, 1500);
    for (const int arity : {1, 2}) {
      for (const std::string& value : operations(type, arity)) {
        statements.add(type, value);
      }
    }
    for (const std::int64_t constant : kConstants) {
      if (constant > program::highest_integer(type)) {
        break;
      }
      const std::string number = std::to_string(constant);
      for (const char* op : {" / ", " % "}) {
        statements.add(type, "a[i]" + std::string(op) + number);
        if (program::lowest_integer(type) < 0) {
          statements.add(type, "a[i]" + std::string(op) + "-" + number);
        }
      }
      statements.add(type, "a[i] * " + number + " - b[i]");
    }
    for (const int shift : {1, 5, 8, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65}) {
      statements.add(type,
                     "(a[i] << " + std::to_string(shift) + ") + (b[i] >> " + std::to_string(shift) + ")");
    }
    append(all, statements.made());
  }
  return all;
}

std::vector<Case> random_bits_programs(std::uint64_t seed, std::uint64_t type_mask) {
  const std::vector<Type> types = types_of(type_mask);
  const auto has = [&](Type type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  if (!has(Type::kI64) || !has(Type::kU32)) {
    return {};
  }
  std::vector<Case> all;
  for (const Data data : {Data{DataKind::kEdges, 0, -1}, kAnyBits, Data{DataKind::kWide, 1, -1}}) {
    ProgramText text(seed, "random_bits" + std::to_string(all.size()));
    for (const char* input : {"a", "b", "c"}) {
      text.input(input, Type::kI64, "500", data);
    }
    for (const char* value :
         {"random_bits(a[i], b[i], c[i])", "random_bits(a[i], 1, i)", "random_bits(7, b[i], i)",
          "random_bits(7, 1, c[i])", "random_bits(7, 1, c[0] + i)", "random_bits(-1, -2, i - 250)",
          "random_bits(7, 1, 4294967290 + i)", "random_bits(7, 1, 17179869170 + i)",
          "random_bits(4294967296, 4294967297, 3 * i)", "random_bits(a[0], b[0], 9223372036854775300 + i)"}) {
      text.output(Type::kU32, "500", "i", value);
    }
    append(all, {text.finished()});
  }
  return all;
}

}  // namespace yoke::conformance
