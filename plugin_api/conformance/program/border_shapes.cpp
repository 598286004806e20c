// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/border_shapes.cpp: border_programs.h, symbols and extents.
#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "../random.h"
#include "border_programs.h"
#include "corpus.h"
#include "products.h"

namespace yoke::conformance {

using program::Type;

namespace {

// Arguments and statements for one symbol s. The types are f32, f64, i64, i32, u8 and bool.
struct SymbolForm {
  std::string_view range;
  std::string_view body;
};

constexpr SymbolForm kSymbolForms[] = {
    {"-9007199254740993..9007199254740996",
     "arg x : i64[40] in\n arg y : i64[40] out\n arg z : i64[40] out\n y[i] = x[i] + s\n z[i] = s - i\n"},
    {"-5000000000..4611686018427387904 step 4294967297", "arg y : i64[] out\n y[] = s\n"},
    {"-9007199254740993..9007199254740996",
     "arg y : f64[3] out\n arg z : f32[3] out\n y[i] = f64(s)\n z[i] = f32(s)\n"},
    {"-4294967299..4294967300",
     "arg y : i32[40] out\n arg z : u8[40] out\n y[i] = i32(s + i)\n z[i] = u8(s * 3)\n"},
    {"-3..9007199254740996",
     "arg x : i64[9] in\n arg y : bool[9] out\n arg z : i64[9] out\n y[i] = x[i] < s\n z[i] = select(s > "
     "4294967295, x[i], "
     "s / 7)\n"},
    {"4294967290..4294967301", "arg x : f32[50] in\n arg y : f32[40] out\n y[i] = x[s + i - 4294967290]\n"},
    {"2147483640..2147483646", "arg x : f32[50] in\n arg y : f32[40] out\n y[i] = x[2*s + i - 4294967280]\n"},
    {"-9007199254740999..-9007199254740990",
     "arg x : i32[4, 50] in\n arg y : i32[4, 40] out\n y[i, j] = x[i, j - s - 9007199254740990]\n"},
    {"-4294967296..4294967297", "arg x : f32[50] in\n arg y : f32[50] out\n y[i] = (x[i + s] else 7)\n"},
    {"0..9007199254740996 step 3",
     "arg x : f32[50] in\n arg y : f32[50] out\n y[i] = (x[(i + s) / 3] else 7)\n"},
    {"0..4294967299",
     "arg y : u32[64] out\n arg z : u32[64] out\n y[i] = random_bits(7, s, i)\n z[i] = random_bits(s, 2, 4 * "
     "i "
     "+ s)\n"},
    {"0..4294967299",
     "arg y : i64[] out\n arg z : i64[20] out\n y[] = sum[k:7] (k * 4294967296 + s)\n z[i] = i * 3000000000 "
     "+ "
     "s * s\n"},
    {"0..5000000001 step 5", "arg y : i64[6] inout\n repeat t in 0..4 {\n y[i] = y[i] * 3 + t + s\n }\n"},
    {"0..4294967297 step 2147483648",
     "arg x : f32[30] in\n arg y : f32[30] inout\n repeat t in 4294967296..4294967300 {\n y[i] += x[i] * "
     "f32(t - s)\n }\n"},
    {"0..30", "arg x : f32[30] in\n arg y : f32[30] inout\n y[s] = x[s] * 2\n"},
    {"-30..1",
     "arg x : f32[30, 31] in\n arg y : f32[] out\n arg z : f32[30] out\n y[] = sum[k:1] x[k, -s]\n z[i] = "
     "x[i, "
     "-s]\n"}};

// The first, the last and other values of the symbol's range, also at 32 bits.
std::vector<std::vector<std::int64_t>> launches_of(const program::Symbol& symbol) {
  const std::int64_t last = symbol.low + (symbol.high - 1 - symbol.low) / symbol.step * symbol.step;
  std::vector<std::vector<std::int64_t>> launches = {{symbol.low}, {last}};
  for (const std::int64_t about :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, std::int64_t{2147483648},
        std::int64_t{4294967295}, std::int64_t{4294967296}, std::int64_t{9007199254740993},
        symbol.low / 2 + last / 2}) {
    if (about < symbol.low || about > last) {
      continue;
    }
    const std::int64_t value = symbol.low + (about - symbol.low) / symbol.step * symbol.step;
    if (std::find(launches.begin(), launches.end(), std::vector{value}) == launches.end()) {
      launches.push_back({value});
    }
  }
  return launches;
}

std::uint64_t mask_of(std::initializer_list<Type> types) {
  std::uint64_t mask = 0;
  for (const Type type : types) {
    mask |= std::uint64_t{1} << static_cast<unsigned>(type);
  }
  return mask;
}

bool uses_only_types(const program::Program& program, std::uint64_t mask) {
  return std::all_of(program.tensors.begin(), program.tensors.end(), [&](const program::Tensor& tensor) {
    return (mask >> static_cast<unsigned>(tensor.type) & 1U) != 0;
  });
}

}  // namespace

std::vector<Case> symbol_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Case> all;
  for (const SymbolForm& form : kSymbolForms) {
    Case one = corpus_case("yoke.program 1\nprogram symbol" + std::to_string(all.size()) + "(symbol s in " +
                               std::string(form.range) + ") {\n " + std::string(form.body) + "}\n",
                           seed);
    one.index = all.size();
    one.launches = launches_of(one.program.symbols[0]);
    for (std::size_t i = 0; i < one.data.size(); ++i) {
      const bool is_integer = !program::is_float(one.program.tensors[i].type);
      one.data[i].kind = is_integer ? DataKind::kEdges : DataKind::kDyadic;
    }
    if (uses_only_types(one.program, type_mask)) {
      all.push_back(std::move(one));
    }
  }
  return all;
}

namespace {

constexpr std::uint64_t kTails[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                    22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 47, 48, 49, 63, 64, 65,
                                    95, 96, 97, 127, 128, 129, 191, 192, 193, 255, 256, 257, 511, 1023, 1025,
                                    // Whole blocks, after which nothing remains.
                                    384, 512, 768, 1000, 1024, 1536, 2048, 3072, 4096, 8192};

// Statements over `type` whose last loop has extent n.
Case tail_program(std::uint64_t seed, Type type, std::uint64_t n, std::uint64_t number) {
  const std::string count = std::to_string(n);
  const std::string reversed = "-i + " + std::to_string(n - 1);
  ProgramText text(seed, "tails" + std::to_string(number));
  const Data plain{DataKind::kDyadic, 1, -1};
  const Data any{DataKind::kUniform, 1, -1};
  text.input("a", type, count, plain);
  text.input("b", type, "3, " + count, any);
  text.input("c", type, count + ", 3", plain);
  text.input("d", type, std::to_string(2 * n + 2), plain);
  text.input("e", type, count, plain, "inout");
  text.input("f", type, std::to_string(n + 2), any, "inout");
  text.output(type, count, "i", "a[i] * 3 + d[i]");
  text.output(type, count, "i", "a[" + reversed + "] - d[2*i + 1]");
  text.output(type, count, "i", "d[i + 1] + d[i + 2]");
  text.output(type, "3, " + count, "j, i", "b[j, i] * 2 + a[i] + c[0, j]");
  text.output(type, "3, " + count, "j, i", "c[i, j]");
  text.output(type, count + ", 3", "i, j", "c[i, j] * a[i]");
  text.statement("e[i] += a[i] * d[i]");
  text.statement("f[i + 1] for[i:" + count + "] = a[i] * 2");
  const bool is_narrow = program::byte_size(type) == 2;
  if (!is_narrow) {
    text.output(type, "3", "j", "sum[i] c[i, j]");
    text.output(type, "3", "j", "sum[i] b[j, i] * a[i]", "+=");
    text.output(type, "3", "j", "max[i] b[j, i]");
  }
  Case one = text.finished();
  one.index = number;
  return one;
}

}  // namespace

std::vector<Case> tail_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Type> types;
  for (const Type type :
       {Type::kF32, Type::kU8, Type::kF64, Type::kBF16, Type::kI32, Type::kI64, Type::kF16}) {
    if ((mask_of({type}) & type_mask) != 0) {
      types.push_back(type);
    }
  }
  std::vector<Case> all;
  for (std::size_t i = 0; i < std::size(kTails) && !types.empty(); ++i) {
    // f32, and another type in turn.
    all.push_back(tail_program(seed, types[0], kTails[i], all.size()));
    if (types.size() > 1) {
      all.push_back(tail_program(seed, types[1 + (i + seed) % (types.size() - 1)], kTails[i], all.size()));
    }
  }
  return all;
}

namespace {

constexpr std::string_view kLetters = "ijkl";

// "i, k" for the letters whose bit is set, or their extents, in the order of `order`.
std::string list_of(unsigned set, std::string_view order,
                    const std::array<std::uint64_t, 4>* extents = nullptr) {
  std::string text;
  for (const char letter : order) {
    const std::size_t number = kLetters.find(letter);
    if ((set >> number & 1U) != 0) {
      text += (text.empty() ? "" : ", ") +
              (extents == nullptr ? std::string(1, letter) : std::to_string((*extents)[number]));
    }
  }
  return text;
}

// The statements of one kind: 0 sums, 1 extremes, 2 orders of dimensions and broadcasts.
Case axis_program(std::uint64_t seed, std::uint64_t number, Type type) {
  constexpr std::uint64_t kExtents[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33};
  constexpr unsigned kAll = 15;
  Random random(seed, "axes", number);
  std::array<std::uint64_t, 4> extents{};
  do {
    for (std::uint64_t& extent : extents) {
      extent = kExtents[random.below(std::size(kExtents))];
    }
  } while (extents[0] * extents[1] * extents[2] * extents[3] > 9000);
  const std::uint64_t kind = number % 3;
  ProgramText text(seed, "axes" + std::to_string(number));
  text.input("x", type, list_of(kAll, kLetters, &extents),
             {kind == 1 ? DataKind::kUniform : DataKind::kDyadic, 1, -1});
  const bool is_narrow = program::byte_size(type) == 2;
  const std::string accumulator = is_narrow ? ":f32[" : "[";
  for (unsigned set = 0; set < kAll; ++set) {  // the dimensions that stay
    const std::string dims = list_of(set, kLetters, &extents);
    const std::string loops = list_of(kAll & ~set, random.chance(2) ? kLetters : std::string_view("ljki"));
    const std::string kept = list_of(set, kLetters);
    if (kind == 0) {
      text.output(type, dims, kept,
                  std::string("sum").append(accumulator).append(loops).append("] x[i, j, k, l]"),
                  random.chance(3) ? "+=" : "=");
    } else if (kind == 1) {
      const std::string reduce = random.chance(2) ? "max" : "min";
      text.output(type, dims, kept,
                  std::string(reduce).append(accumulator).append(loops).append("] x[i, j, k, l]"),
                  random.chance(4) ? reduce + "=" : "=");
    } else {
      std::string order(kLetters);
      for (std::size_t i = order.size(); i > 1; --i) {
        std::swap(order[i - 1], order[random.below(i)]);
      }
      const std::string name = "b" + std::to_string(set);
      text.input(name, type, dims, {DataKind::kDyadic, 1, -1});
      text.output(type, list_of(kAll, order, &extents), list_of(kAll, order),
                  std::string("x[i, j, k, l] + ").append(name).append("[").append(kept).append("]"));
    }
  }
  Case one = text.finished();
  one.index = number;
  return one;
}

// The types whose sums a program can state.
std::vector<Type> summed_types(std::uint64_t type_mask) {
  std::vector<Type> types;
  for (const Type type :
       {Type::kF32, Type::kI32, Type::kF64, Type::kU8, Type::kBF16, Type::kI64, Type::kU32}) {
    const bool sums = program::byte_size(type) != 2 || (mask_of({Type::kF32}) & type_mask) != 0;
    if (sums && (mask_of({type}) & type_mask) != 0) {
      types.push_back(type);
    }
  }
  return types;
}

}  // namespace

std::vector<Case> axis_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Case> all;
  const std::vector<Type> types = summed_types(type_mask);
  for (std::uint64_t number = 0; number < 60 && !types.empty(); ++number) {
    all.push_back(axis_program(seed, number, number % 2 == 0 ? types[0] : types[number / 2 % types.size()]));
  }
  return all;
}

namespace {

// Which operands have a loop, and whether it is reduced.
struct LoopRole {
  bool in_x, in_w, is_kept;
};

Case loop_program(std::uint64_t seed, std::uint64_t number, Type type) {
  constexpr LoopRole kRoles[] = {{true, true, false}, {true, false, true},  {false, true, true},
                                 {true, true, true},  {true, true, false},  {true, false, true},
                                 {false, true, true}, {true, false, false}, {false, true, false}};
  constexpr std::uint64_t kExtents[] = {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 33};
  Random random(seed, "loops", number);
  std::array<std::string, 4> letters;  // of x, w, y and the reduction
  std::array<std::uint64_t, 26> extents{};
  std::uint64_t size = 1;
  const std::uint64_t count = 3 + random.below(5);
  for (std::uint64_t loop = 0; loop < count; ++loop) {
    const LoopRole& role = kRoles[loop < 3 ? loop : random.below(std::size(kRoles))];
    do {
      extents[loop] = kExtents[random.below(std::size(kExtents))];
    } while (size * extents[loop] > 60'000);
    size *= extents[loop];
    const char letter = static_cast<char>('a' + loop);
    for (std::size_t i = 0; i < letters.size(); ++i) {
      const bool has = i == 0 ? role.in_x : i == 1 ? role.in_w : (i == 2) == role.is_kept;
      letters[i].insert(random.below(letters[i].size() + 1), has ? 1 : 0, letter);
    }
  }
  const auto listed = [&](const std::string& of, bool as_extents) {
    std::string list;
    for (const char letter : of) {
      list += (list.empty() ? "" : ", ") +
              (as_extents ? std::to_string(extents[static_cast<std::size_t>(letter - 'a')])
                          : std::string(1, letter));
    }
    return list;
  };
  ProgramText text(seed, "loops" + std::to_string(number));
  text.input("x", type, listed(letters[0], true), {DataKind::kDyadic, 1, -1});
  text.input("w", type, listed(letters[1], true), {DataKind::kDyadic, 1, -1});
  text.output(type, listed(letters[2], true), listed(letters[2], false),
              (program::byte_size(type) == 2 ? "sum:f32[" : "sum[") + listed(letters[3], false) + "] x[" +
                  listed(letters[0], false) + "] * w[" + listed(letters[1], false) + "]",
              random.chance(3) ? "+=" : "=");
  Case one = text.finished();
  one.index = number;
  for (Data& data : one.data) {
    data = {DataKind::kDyadic, 1, -1};
  }
  return one;
}

}  // namespace

std::vector<Case> loop_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Case> all;
  const std::vector<Type> types = summed_types(type_mask);
  for (std::uint64_t number = 0; number < 120 && !types.empty(); ++number) {
    all.push_back(loop_program(seed, number, number % 3 != 0 ? types[0] : types[number / 3 % types.size()]));
  }
  return all;
}

}  // namespace yoke::conformance
