// SPDX-License-Identifier: Apache-2.0
// tests/unit/program/execute_test.cpp: compares the reference executor with values
// computed by hand or by the standard library.
#include <gtest/gtest.h>
#include <yoke/program/execute.h>
#include <yoke/program/text.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace yoke::program {
namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

void run(const std::string& lines, std::initializer_list<void*> arguments, const std::string& symbols = "",
         std::vector<std::int64_t> values = {}) {
  const Module module = parse_and_verify("yoke.program 1\nprogram p(" + symbols + ") {\n" + lines + "\n}\n");
  const std::vector<void*> pointers = arguments;
  execute(module.programs.at(0), pointers, values);
}

// One value in, one value out.
template <typename To, typename From>
To one(const std::string& to, const std::string& value, const std::string& from, From x) {
  To y = {};
  run("arg x : " + from + "[] in\narg y : " + to + "[] out\ny[] = " + value, {&x, &y});
  return y;
}

float f32(const std::string& value, float x) {
  return one<float>("f32", value, "f32", x);
}
std::int32_t i32(const std::string& value, std::int32_t x) {
  return one<std::int32_t>("i32", value, "i32", x);
}

TEST(Executor, MultipliesMatrices) {
  std::vector<float> a = {1, 2, 3, 4, 5, 6};
  std::vector<float> b = {1, 0, 2, 1, 0, 3};
  std::vector<float> c(4);
  run("arg a : f32[2, 3] in\narg b : f32[3, 2] in\narg c : f32[2, 2] out\nc[i, j] = sum[k] a[i, k] * b[k, j]",
      {a.data(), b.data(), c.data()});
  EXPECT_EQ(c, (std::vector<float>{5, 11, 14, 23}));
}

TEST(Executor, SymbolOffsetsTheRows) {
  std::vector<std::int32_t> x = {1, 2, 3, 4, 5, 6};
  std::vector<std::int32_t> y(2);
  for (const std::int64_t row : {0, 2, 4}) {
    run("arg x : i32[6] in\narg y : i32[2] out\ny[i] = x[row + i] * 10 + i32(row)", {x.data(), y.data()},
        "symbol row in 0..6 step 2", {row});
    EXPECT_EQ(y,
              (std::vector<std::int32_t>{static_cast<int>(11 * row + 10), static_cast<int>(11 * row + 20)}));
  }
}

TEST(Executor, ConvolvesWithPadding) {
  std::vector<float> x = {1, 2, 3, 4};
  std::vector<float> w = {10, 100, 1000};
  std::vector<float> y(4);
  std::vector<float> strided(2);
  run("arg x : f32[4] in\narg w : f32[3] in\narg y : f32[4] out\narg s : f32[2] out\n"
      "y[i] = sum[k] (x[i + k - 1] else 0) * w[k]\ns[i] = sum[k] (x[2*i + k - 1] else -1) * w[k]",
      {x.data(), w.data(), y.data(), strided.data()});
  EXPECT_EQ(y, (std::vector<float>{2100, 3210, 4320, 430}));
  EXPECT_EQ(strided, (std::vector<float>{2090, 4320}));
}

TEST(Executor, GuardYieldsItsLiteralIfAReadInItIsOutOfRange) {
  std::vector<float> x = {1, 2, 3};
  std::vector<float> w = {kInf, 5, kNan};
  std::vector<float> y(3);
  const auto values = [&](const std::string& value) {
    run("arg x : f32[3] in\narg w : f32[3] in\narg y : f32[3] out\ny[i] = " + value,
        {x.data(), w.data(), y.data()});
    return y;
  };
  EXPECT_EQ(values("(x[i + 1] + w[i - 1] else 7)"), (std::vector<float>{7, kInf, 7}));
  // Reads with an else of their own do not count, and a branch that is not taken does.
  EXPECT_EQ(values("((x[i + 1] else 10) + x[i] else 7)"), (std::vector<float>{3, 5, 13}));
  EXPECT_EQ(values("(x[i] + (x[i + 1] * 2 else 10) else 7)"), (std::vector<float>{5, 8, 13}));
  EXPECT_EQ(values("(select(i < 1, x[i], x[i - 1]) else 7)"), (std::vector<float>{7, 1, 2}));
  // The sum of the outside products is 0 although a factor is infinite or NaN.
  EXPECT_EQ(values("sum[k:2] (x[(i + 5 - 2*k) / 2] * w[k] else 0)")[1], 15);
  EXPECT_EQ(values("sum[k:1] (x[i + 3*k + 3] * w[k] else 0)"), (std::vector<float>{0, 0, 0}));
}

TEST(Executor, DividedIndexYieldsElseUnlessTheDivisionIsExact) {
  std::vector<std::int32_t> x = {1, 2, 3};
  std::vector<std::int32_t> y(8);
  run("arg x : i32[3] in\narg y : i32[8] out\ny[i] = (x[(i - 1) / 2] else -1)", {x.data(), y.data()});
  EXPECT_EQ(y, (std::vector<std::int32_t>{-1, 1, -1, 2, -1, 3, -1, -1}));
  // -2 / 3 and -1 / 3 are not 0.
  run("arg x : i32[3] in\narg y : i32[8] out\ny[i] = (x[(2*i - 2) / 3] else -1)", {x.data(), y.data()});
  EXPECT_EQ(y, (std::vector<std::int32_t>{-1, 1, -1, -1, 3, -1, -1, -1}));
}

TEST(Executor, GatherYieldsElseAndScatterDropsWritesOutOfRange) {
  std::vector<float> table = {1, 2, 3};
  std::vector<std::int64_t> index = {2, 0, -1, 3, 2, std::numeric_limits<std::int64_t>::min()};
  std::vector<float> got(6);
  std::vector<float> sums = {0, 0, 0};
  run("arg table : f32[3] in\narg index : i64[6] in\narg got : f32[6] out\narg sums : f32[3] inout\n"
      "got[i] = (table[index[i]] else -7)\nsums[index[i]] += f32(i) + 1",
      {table.data(), index.data(), got.data(), sums.data()});
  EXPECT_EQ(got, (std::vector<float>{3, 1, -7, -7, 3, -7}));
  EXPECT_EQ(sums, (std::vector<float>{2, 0, 6}));
}

TEST(Executor, ArgMaxReturnsTheLowestIndexAndNaNWins) {
  std::vector<float> x = {1,     3,     3,     -2,    -2,  // ties
                          1,     kNan,  9,     kNan,  -9,  // NaN beats every number
                          -kInf, -kInf, -kInf, -kInf, -kInf};
  std::vector<std::int32_t> high(3);
  std::vector<std::int64_t> low(3);
  run("arg x : f32[3, 5] in\narg high : i32[3] out\narg low : i64[3] out\n"
      "high[i] = argmax[j] x[i, j]\nlow[i] = argmin[j] x[i, j]",
      {x.data(), high.data(), low.data()});
  EXPECT_EQ(high, (std::vector<std::int32_t>{1, 1, 0}));
  EXPECT_EQ(low, (std::vector<std::int64_t>{3, 1, 0}));
}

TEST(Executor, ComputesEveryReduction) {
  std::vector<std::int32_t> x = {3, -4, 5};
  std::vector<std::int32_t> y(4);
  std::vector<std::uint8_t> b(2);
  run("arg x : i32[3] in\narg y : i32[4] out\narg b : bool[2] out\ny[0] = sum[i] x[i]\ny[1] = prod[i] x[i]\n"
      "y[2] = min[i] x[i]\ny[3] = max[i] x[i]\nb[0] = any[i] x[i] > 4\nb[1] = all[i] x[i] > 4",
      {x.data(), y.data(), b.data()});
  EXPECT_EQ(y, (std::vector<std::int32_t>{4, -60, -4, 5}));
  EXPECT_EQ(b, (std::vector<std::uint8_t>{1, 0}));
  std::vector<float> f = {1, kNan, 3};
  std::vector<float> g(2);
  run("arg f : f32[3] in\narg g : f32[2] out\ng[0] = max[i] f[i]\ng[1] = min[i:3] -inf",
      {f.data(), g.data()});
  EXPECT_TRUE(std::isnan(g[0]));
  EXPECT_EQ(g[1], -kInf);
}

TEST(Executor, CompoundAssignmentCombinesWithTheOldElement) {
  std::vector<std::int32_t> y = {10, 10, 10, 10};
  run("arg y : i32[4] inout\ny[0] += 3\ny[1] *= 3\ny[2] max= 11\ny[3] min= sum[k:3] 3", {y.data()});
  EXPECT_EQ(y, (std::vector<std::int32_t>{13, 30, 11, 9}));
}

TEST(Executor, SumsInTheAccumulatorAndRoundsOnce) {
  // 2049 is not representable in f16; the f32 accumulator counts all 4096 ones.
  std::vector<std::uint16_t> ones(4096, f32_to_f16(1));
  std::uint16_t sum = 0;
  run("arg x : f16[4096] in\narg y : f16[] out\ny[] = sum:f32[i] x[i]", {ones.data(), &sum});
  EXPECT_EQ(f16_to_f32(sum), 4096.0F);
  // A scatter has no accumulator, so each addition rounds to f16.
  run("arg x : f16[4096] in\narg y : f16[] inout\ntemp z : i32[4096]\ntemp s : f16[1]\nz[i] = 0\ns[0] = 0\n"
      "s[z[i]] += x[i]\ny[] = s[0]",
      {ones.data(), &sum});
  EXPECT_EQ(f16_to_f32(sum), 2048.0F);
  // 2^24 + 1 is not representable in f32; an f64 accumulator holds it.
  std::vector<float> x = {16777216, 1, -16777216};
  std::vector<float> y(2);
  run("arg x : f32[3] in\narg y : f32[2] out\ny[0] = sum[i] x[i]\ny[1] = sum:f64[i] x[i]",
      {x.data(), y.data()});
  EXPECT_EQ(y, (std::vector<float>{0, 1}));
}

TEST(Executor, WrapsIntegers) {
  const std::int32_t lowest = std::numeric_limits<std::int32_t>::min();
  const std::int64_t lowest64 = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(i32("x[] + 1", std::numeric_limits<std::int32_t>::max()), lowest);
  EXPECT_EQ(i32("-x[]", lowest), lowest);
  EXPECT_EQ(i32("abs(x[])", lowest), lowest);
  EXPECT_EQ(i32("x[] * x[]", 65537), 131073);
  EXPECT_EQ(i32("x[] / -1", lowest), lowest);
  EXPECT_EQ(i32("x[] % -1", lowest), 0);
  EXPECT_EQ(one<std::int64_t>("i64", "x[] / -1", "i64", lowest64), lowest64);
  EXPECT_EQ(one<std::int64_t>("i64", "x[] * 3 + x[]", "i64", std::int64_t{1} << 62), 0);
  EXPECT_EQ(one<std::int64_t>("i64", "x[] - 1", "i64", lowest64), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(one<std::uint8_t>("u8", "x[] + 7", "u8", std::uint8_t{250}), 1);
  EXPECT_EQ(one<std::uint8_t>("u8", "-x[]", "u8", std::uint8_t{1}), 255);
  EXPECT_EQ(one<std::uint32_t>("u32", "x[] - 4", "u32", 3U), 0xffffffffU);
}

TEST(Executor, DivisionTruncatesAndDivisionByZeroIsZero) {
  EXPECT_EQ(i32("x[] / 2", -7), -3);
  EXPECT_EQ(i32("x[] % 2", -7), -1);
  EXPECT_EQ(i32("x[] / 0", 5), 0);
  EXPECT_EQ(i32("x[] % 0", 5), 0);
  EXPECT_EQ(one<std::uint32_t>("u32", "x[] / 2", "u32", 0xffffffffU), 0x7fffffffU);
}

TEST(Executor, ShiftsModuloTheWidth) {
  EXPECT_EQ(i32("x[] << 33", 3), 6);
  EXPECT_EQ(i32("x[] >> 1", -8), -4);
  EXPECT_EQ(i32("x[] >> -1", -8), -1);
  EXPECT_EQ(i32("x[] << 31", 1), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(one<std::uint32_t>("u32", "x[] >> 31", "u32", 0x80000000U), 1U);
  EXPECT_EQ(one<std::uint8_t>("u8", "x[] << 9", "u8", std::uint8_t{0x81}), 2);
  EXPECT_EQ(one<std::int64_t>("i64", "x[] >> 63", "i64", std::int64_t{-1}), -1);
  EXPECT_EQ(i32("~x[] & 12 | x[] ^ 1", 5), (~5 & 12) | (5 ^ 1));
}

TEST(Executor, SaturatesCastsToIntegers) {
  const auto cast = [](const char* to, float x) {
    return one<std::int64_t>("i64", "i64(" + std::string(to) + "(x[]))", "f32", x);
  };
  EXPECT_EQ(cast("i32", -3.9F), -3);
  EXPECT_EQ(cast("i32", 3e9F), 2147483647);
  EXPECT_EQ(cast("i32", -kInf), -2147483648LL);
  EXPECT_EQ(cast("i32", kNan), 0);
  EXPECT_EQ(cast("u32", 3e9F), 3000000000LL);
  EXPECT_EQ(cast("u32", -1.0F), 0);
  EXPECT_EQ(cast("u8", 255.9F), 255);
  EXPECT_EQ(cast("u8", 256.0F), 255);
  EXPECT_EQ(cast("i64", 1e19F), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(cast("i64", -1e19F), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(cast("bool", 0.5F), 1);
  EXPECT_EQ(cast("bool", -0.0F), 0);
  EXPECT_EQ(cast("bool", kNan), 1);
}

TEST(Executor, IntegerCastsKeepTheLowBits) {
  EXPECT_EQ(one<std::uint8_t>("u8", "u8(x[])", "i32", -1), 255);
  EXPECT_EQ(one<std::int32_t>("i32", "i32(x[])", "u32", 0xffffffffU), -1);
  EXPECT_EQ(one<std::int32_t>("i32", "i32(x[])", "i64", std::int64_t{0x100000002}), 2);
  EXPECT_EQ(one<std::uint8_t>("bool", "bool(x[])", "i32", 256), 1);
  EXPECT_EQ(one<float>("f32", "f32(x[])", "bool", std::uint8_t{1}), 1.0F);
}

TEST(Executor, RoundsIntegersToFloatsOnce) {
  // 2^60 + 2^36 + 1 is just above the midpoint of two f32 values. Rounding to f64 first
  // would give the midpoint, which rounds down.
  const std::int64_t value = (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1;
  EXPECT_EQ(one<float>("f32", "f32(x[])", "i64", value), 0x1p60F + 0x1p37F);
  EXPECT_EQ(one<double>("f64", "f64(x[])", "u32", 0xffffffffU), 4294967295.0);
}

TEST(Executor, RoundsEachOperationOf16BitFloats) {
  const auto f16 = [](const std::string& value, float x) {
    return f16_to_f32(one<std::uint16_t>("f16", value, "f16", f32_to_f16(x)));
  };
  const auto bf16 = [](const std::string& value, float x) {
    return bf16_to_f32(one<std::uint16_t>("bf16", value, "bf16", f32_to_bf16(x)));
  };
  EXPECT_EQ(f16("x[] + 1", 2048), 2048.0F);
  EXPECT_EQ(f16("x[] + 1 + 1", 2048), 2048.0F);
  EXPECT_EQ(f16("x[] + (f16(1) + 1)", 2048), 2050.0F);
  EXPECT_EQ(f16("x[] * x[] / x[]", 1000), kInf);
  EXPECT_EQ(f16("fma(x[], x[], -(x[] * x[]))", 1000), -kInf);
  EXPECT_EQ(bf16("x[] + 1", 256), 256.0F);
  EXPECT_EQ(bf16("x[] + 3", 256), 260.0F);
  EXPECT_EQ(bf16("x[] * x[] / x[]", 1000), 1000.0F);
}

TEST(Executor, FloatEdgeCasesFollowTheFormat) {
  EXPECT_TRUE(std::isnan(f32("max(x[], 1)", kNan)));
  EXPECT_TRUE(std::isnan(f32("max(1, x[])", kNan)));
  EXPECT_TRUE(std::isnan(f32("min(x[], 1)", kNan)));
  EXPECT_TRUE(std::isnan(f32("min(1, x[])", kNan)));
  EXPECT_EQ(f32("round(x[])", 2.5F), 2.0F);
  EXPECT_EQ(f32("round(x[])", -3.5F), -4.0F);
  EXPECT_EQ(f32("trunc(x[])", -3.5F), -3.0F);
  EXPECT_EQ(f32("floor(x[]) * 100 + ceil(x[])", 3.5F), 304.0F);
  EXPECT_EQ(f32("sign(x[])", -3.5F), -1.0F);
  EXPECT_TRUE(std::signbit(f32("sign(x[])", -0.0F)));
  EXPECT_TRUE(std::isnan(f32("sign(x[])", kNan)));
  EXPECT_EQ(f32("x[] / 0", 1), kInf);
  EXPECT_EQ(f32("select(x[] == x[], 1, 2)", kNan), 2.0F);
  EXPECT_EQ(f32("select(x[] != x[] || !(x[] < 1), 1, 2)", kNan), 1.0F);
  EXPECT_EQ(f32("x[] + 1 - x[]", 16777216.0F), 0.0F);  // each operation rounds to f32
}

TEST(Executor, FunctionsAreCorrectlyRoundedToF32) {
  struct Case {
    const char* name;
    double (*function)(double);
  };
  const Case cases[] = {{"exp", std::exp},
                        {"exp2", std::exp2},
                        {"expm1", std::expm1},
                        {"log", std::log},
                        {"log2", std::log2},
                        {"log1p", std::log1p},
                        {"sqrt", std::sqrt},
                        {"sin", std::sin},
                        {"cos", std::cos},
                        {"tanh", std::tanh},
                        {"erf", std::erf},
                        {"erfc", std::erfc},
                        {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
                        {"recip", [](double x) { return 1 / x; }},
                        {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }}};
  for (const Case& function : cases) {
    for (const float x : {0.1F, 0.7F, 1.0F, 3.3F, 20.0F}) {
      const std::string value = std::string(function.name) + "(x[])";
      EXPECT_EQ(f32(value, x), static_cast<float>(function.function(static_cast<double>(x))))
          << value << " of " << x;
    }
  }
  EXPECT_EQ(f32("pow(x[], 3)", 2), 8.0F);
  EXPECT_EQ(f32("fma(x[], x[], -1)", 1 + 0x1p-23F), 0x1p-22F + 0x1p-46F);
}

TEST(Executor, Every16BitPatternRoundTrips) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float half = f16_to_f32(pattern);
    const float brain = bf16_to_f32(pattern);
    if (std::isnan(half)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(half))));
    } else {
      EXPECT_EQ(f32_to_f16(half), pattern);
    }
    if (std::isnan(brain)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(brain))));
    } else {
      EXPECT_EQ(f32_to_bf16(brain), pattern);
    }
  }
}

TEST(Executor, ConversionTo16BitsRoundsToNearestEven) {
  EXPECT_EQ(f32_to_f16(65519.99F), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7c00);
  EXPECT_EQ(f32_to_f16(0x1p-25F), 0x0000);  // midpoint of 0 and the smallest subnormal
  EXPECT_EQ(f32_to_f16(0x1.000002p-25F), 0x0001);
  EXPECT_EQ(f32_to_f16(0x1.8p-24F), 0x0002);  // midpoint of the two smallest subnormals
  EXPECT_EQ(f32_to_f16(-0x1p-149F), 0x8000);
  EXPECT_EQ(f32_to_f16(0x1.ffcp-15F), 0x0400);  // rounds up from the largest subnormal
  EXPECT_EQ(f32_to_f16(1 + 0x1p-11F), 0x3c00);
  EXPECT_EQ(f32_to_f16(1 + 0x1.8p-10F), 0x3c02);
  EXPECT_EQ(f32_to_bf16(1 + 0x1p-8F), 0x3f80);
  EXPECT_EQ(f32_to_bf16(1 + 0x1.8p-7F), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(Executor, ThreefryMatchesPublishedVectors) {
  // Known answers published with Random123 (threefry4x32, 20 rounds).
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(threefry4x32({0, 0, 0, 0}, {0, 0, 0, 0}),
            (Words{0x9c6ca96a, 0xe17eae66, 0xfc10ecd4, 0x5256a7d8}));
  const std::uint32_t ones = 0xffffffffU;
  EXPECT_EQ(threefry4x32({ones, ones, ones, ones}, {ones, ones, ones, ones}),
            (Words{0x2a881696, 0x57012287, 0xf6c7446e, 0xa16a6732}));
  EXPECT_EQ(threefry4x32({0xa4093822, 0x299f31d0, 0x082efa98, 0xec4e6c89},
                         {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0x59cd1dbb, 0xb8879579, 0x86b5d00c, 0xac8b6d84}));
}

TEST(Executor, RandomBitsDependOnSeedStreamAndCounterOnly) {
  std::vector<std::uint32_t> y(6);
  run("arg y : u32[6] out\ny[i] = random_bits(0, 0, i)", {y.data()});
  EXPECT_EQ(std::vector(y.begin(), y.begin() + 4),
            (std::vector<std::uint32_t>{0x9c6ca96a, 0xe17eae66, 0xfc10ecd4, 0x5256a7d8}));
  EXPECT_EQ(y[5], threefry4x32({0, 0, 0, 0}, {1, 0, 0, 0})[1]);
  EXPECT_EQ(random_bits(0x100000002, 0x300000004, 0x1400000015), threefry4x32({2, 1, 4, 3}, {5, 5, 0, 0})[1]);
}

TEST(Executor, StatementsRunInOrder) {
  std::vector<float> y = {1, 2, 3};
  run("arg y : f32[3] inout\ntemp s : f32[]\ns[] = sum[i] y[i]\ny[i] = y[i] / s[] * 6\ny[i] = y[i] + y[i]",
      {y.data()});
  EXPECT_EQ(y, (std::vector<float>{2, 4, 6}));
}

TEST(Executor, RejectsWrongArgumentsAndSymbolValues) {
  float x = 0;
  const auto message = [&](std::initializer_list<void*> arguments, std::vector<std::int64_t> values) {
    try {
      run("arg x : f32[] inout", arguments, "symbol row in 0..6 step 2", values);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message({&x}, {4}), "accepted");
  EXPECT_EQ(message({}, {4}), "program 'p': expects 1 argument, got 0");
  EXPECT_EQ(message({nullptr}, {4}), "program 'p': argument 'x' is null");
  EXPECT_EQ(message({&x}, {}), "program 'p': expects 1 symbol value, got 0");
  for (const std::int64_t value : {-2, 3, 6}) {
    EXPECT_EQ(message({&x}, {value}), "program 'p': symbol 'row' is " + std::to_string(value) +
                                          "; its declared range is 0..6 step 2");
  }
}

}  // namespace
}  // namespace yoke::program
