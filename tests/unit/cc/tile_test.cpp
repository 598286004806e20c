// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/tile_test.cpp: tile kernels: accesses, reductions, scatters and fused statements.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "harness.h"

namespace yoke::cc::test {
namespace {

// 2^59 rows of 1000 elements overflow 64 bits; the undefined behavior sanitizer checks that this is handled.
TEST(AccessTest, SymbolRangesMayStartFarFromZero) {
  const std::int64_t far = std::int64_t{1} << 59U;
  const std::string begin = std::to_string(far);
  const std::string text = text_of(
      "  arg x : f32[10, 1000] in\n  arg y : f32[1000] out\n  arg z : f32[1000] out\n"
      "  y[j] = x[row - " +
          begin + ", j]\n  z[j] = sum[i:3] x[row - " + begin + " + i, j]\n",
      "symbol row in " + begin + ".." + std::to_string(far + 8));
  for (const std::int64_t row : {far, far + 7}) {
    expect_like_reference(text, 3, {.symbols = {row}});
  }
}

TEST(ReductionTest, EveryReductionAndShapeMatchesTheReference) {
  struct Shape {
    const char* dims;
    const char* target;
    const char* statement;
  };
  const Shape shapes[] = {
      {"50, 10", "50", "r[i] = R[j] x[i, j]"},    {"50, 10", "10", "r[j] = R[i] x[i, j]"},
      {"70, 500", "70", "r[i] = R[j] x[i, j]"},   {"70, 500", "500", "r[j] = R[i] x[i, j]"},
      {"3, 2000", "3", "r[i] = R[j] x[i, j]"},    {"2000, 3", "3", "r[j] = R[i] x[i, j]"},
      {"2000, 3", "2000", "r[i] = R[j] x[i, j]"}, {"1, 1", "1", "r[i] = R[j] x[i, j]"},
      {"9, 1", "9", "r[i] = R[j] x[i, j]"},       {"1, 700", "1", "r[i] = R[j] x[i, j]"},
  };
  std::uint64_t seed = 10;
  for (const Shape& shape : shapes) {
    for (const char* type : {"f32", "f64", "i32", "i64", "u8", "bool"}) {
      for (const char* reduce : {"sum", "prod", "min", "max", "argmax", "argmin", "any", "all"}) {
        const bool logic = std::string(reduce) == "any" || std::string(reduce) == "all";
        if (logic != (std::string(type) == "bool")) {
          continue;
        }
        const bool arg = std::string(reduce).rfind("arg", 0) == 0;
        std::string statement = shape.statement;
        statement.replace(statement.find('R'), 1, reduce);
        const std::string name = reduce;
        const auto kind = name == "sum"    ? conformance::DataKind::kUniform
                          : name == "prod" ? conformance::DataKind::kUnit
                                           : conformance::DataKind::kSpecial;
        expect_like_reference(text_of(std::string("  arg x : ") + type + "[" + shape.dims +
                                      "] in\n  arg r : " + (arg ? "i32" : type) + "[" + shape.target +
                                      "] out\n  " + statement + "\n"),
                              ++seed, {.kind = kind});
        if (HasFailure()) {
          return;
        }
      }
    }
  }
}

TEST(ReductionTest, SumsOfAMillionF32TermsAreAccurate) {
  const program::Program inner =
      read(text_of("  arg x : f32[1000000] in\n  arg s : f32[] out\n  s[] = sum[i] x[i]\n"));
  const program::Program outer =
      read(text_of("  arg x : f32[1000000, 1] in\n  arg s : f32[1] out\n  s[j] = sum[i] x[i, j]\n"));
  const program::Program rows =
      read(text_of("  arg x : f32[62500, 16] in\n  arg s : f32[16] out\n  s[j] = sum[i] x[i, j]\n"));
  std::vector<float> x(1000000);
  std::mt19937_64 random(7);
  for (float& value : x) {
    value = std::uniform_real_distribution<float>(0, 1)(random);
  }
  const auto check = [&](const program::Program& p, std::size_t stride, std::size_t count) {
    std::vector<float> sums(count);
    run_on_cc(p, {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(sums.data())}, {});
    for (std::size_t j = 0; j < count; ++j) {
      double exact = 0;
      for (std::size_t i = j; i < x.size(); i += stride) {
        exact += static_cast<double>(x[i]);
      }
      // Only blocks of at most 64 terms are added in f32; the blocks are added in f64.
      EXPECT_LE(ulp_distance(program::Type::kF32, static_cast<double>(sums[j]), exact), 4.0);
    }
  };
  check(inner, 1, 1);
  check(outer, 1, 1);
  check(rows, 16, 16);
}

// Pooling of images with few channels, and its gradient: tiles of short rows.
TEST(PoolingTest, FewChannelsMatchTheReference) {
  std::mt19937_64 random(5);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (std::uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    const int h = pick(1, 3);
    const int w = pick(1, 40);
    const int size = pick(1, 3);
    const std::string channels = std::to_string(pick(1, 70));
    const char* types[] = {"f32", "f64", "i64", "i32", "u8"};
    const std::string type = types[pick(0, 4)];
    const std::string in =
        "[2, " + std::to_string(h * size) + ", " + std::to_string(w * size) + ", " + channels + "]";
    const std::string out = "[2, " + std::to_string(h) + ", " + std::to_string(w) + ", " + channels + "]";
    const std::string s = std::to_string(size);
    const std::string extents =
        "[2, " + std::to_string(h) + ", " + std::to_string(w) + ", " + s + ", " + s + ", " + channels + "]";
    const std::string window = "[i, " + s + "*j + m, " + s + "*k + n, c]";
    const std::string zero = type + "(0)";
    expect_like_reference(
        text_of("  arg x : " + type + in + " in\n  arg d : " + type + out + " in\n  arg y : " + type + out +
                " out\n  arg b : bool" + extents + " out\n  arg e : " + type + in + " out\n  arg f : i32" +
                out + " out\n  y[i, j, k, c] = max[m:" + s + ", n:" + s + "] x" + window +
                "\n  b[i, j, k, m, n, c] = x" + window + " == y[i, j, k, c]\n" +
                "  f[i, j, k, c] = sum[m, n] i32(b[i, j, k, m, n, c])\n  e" + window +
                " = select(b[i, j, k, m, n, c], d[i, j, k, c], " + zero + ")\n"),
        seed);
  }
}

// Rows of a table, some of them out of range or more than once, in order and as whole rows; and columns, which are not
// contiguous.
TEST(ScatterTest, RowsOfATableMatchTheReference) {
  std::uint64_t seed = 1;
  for (const char* type : {"f32", "f64", "i32", "u8", "f16", "bf16"}) {
    for (const char* width : {"1", "3", "17", "300", "1500"}) {
      const std::string row = std::string("[40, ") + width + "]";
      const std::string column = std::string("[") + width + ", 40]";
      const auto text = [&](const char* op) {
        return text_of(std::string("  arg ids : i32[90] in\n  arg x : ") + type + "[90, " + width +
                       "] in\n  arg t : " + type + row + " inout\n  arg u : " + type + column +
                       " inout\n  t[ids[i], j] " + op + " x[i, j]\n  u[j, ids[i]] " + op + " x[i, j]\n");
      };
      for (const char* op : {"+=", "max=", "*="}) {
        expect_like_reference(text(op), ++seed, {.kind = conformance::DataKind::kUnit});
      }
    }
  }
}

TEST(TileTest, IntegersOtherThan0AreTrue) {
  for (const char* const type : {"u8", "i32", "u32", "i64", "f16", "f32", "f64"}) {
    expect_like_reference(text_of(std::string("  arg x : ") + type +
                                  "[90] in\n  arg y : bool[90] out\n  arg z : i32[90] out\n"
                                  "  y[i] = bool(x[i])\n  z[i] = i32(bool(x[i])) + 1\n"),
                          1, {.kind = conformance::DataKind::kDyadic});
  }
}

TEST(ReductionTest, OnlySumsOfProductsOfTheSameTypeUseMultiplyAdd) {
  for (const std::string reduction : {"max", "min", "prod", "sum", "sum:f64"}) {
    const std::string type = reduction == "sum:f64" ? "f64" : "f32";
    for (const conformance::DataKind kind : {conformance::DataKind::kUnit, conformance::DataKind::kSpread}) {
      expect_like_reference(text_of("  arg x : f32[40, 30] in\n  arg z : f32[30] in\n  arg m : " + type +
                                    "[40] out\n  arg y : f64[40, 30] out\n  @dense {\n  m[i] = " + reduction +
                                    "[j] x[i, j] * z[j]\n  y[i, j] = f64(x[i, j]) - f64(m[i])\n  }\n"),
                            1, {.kind = kind});
    }
  }
}

// Threads would lose sums, or add them in another order.
TEST(ScatterTest, OneThreadAddsAllTermsOfAnElement) {
  for (const char* const term : {"x[i]", "(x[g[i]] else 1)"}) {
    conformance::Case one =
        case_of(text_of("  arg e : i32[50000] in\n  arg x : f32[50000] in\n  arg g : i32[50000] in\n  arg t "
                        ": f32[3] inout\n  t[e[i]] += " +
                        std::string(term) + "\n"));
    one.data[0] = {conformance::DataKind::kIndex, 3, -1};
    one.data[2] = {conformance::DataKind::kIndex, 50000, -1};
    const std::vector<Guarded> start = start_of(one);
    const std::vector<Guarded> expected = run_guarded(compile(one.program, 1), start, {});
    for (int launch = 0; launch < 20; ++launch) {
      EXPECT_TRUE(same_bytes(expected, run_guarded(compile(one.program, 4), start, {})));
    }
  }
}

// The first use after the block overwrites the values that the next round reads.
TEST(StoreTest, ValuesForTheNextRoundAreStored) {
  expect_like_reference(text_of(R"(
  arg x : f32[20] in
  arg y : f32[5, 20] out
  arg z : f32[20] out
  temp h : f32[20]
  h[n] = x[n]
  repeat t in 0..5 {
    y[t, n] = h[n]
    h[n] = x[n] * f32(t)
  }
  h[n] = 3
  z[n] = h[n]
)"),
                        1);
}

// Rows of 501 elements start at any byte of a cache line.
TEST(StoreTest, ResultsWrittenPastTheCachesHaveTheSameBits) {
  const conformance::Case one = case_of(text_of(
      "  arg x : f32[37, 501] in\n  arg y : f32[37, 501] out\n  arg h : f16[37, 501] out\n"
      "  arg b : bool[37, 501] out\n  arg s : f32[37] out\n  arg z : f32[501, 37] out\n  @fused[i] {\n"
      "  y[i, j] = exp(x[i, j]) * 2\n  h[i, j] = f16(y[i, j])\n  b[i, j] = x[i, j] > 0\n"
      "  s[i] = sum[j] y[i, j] * x[i, j]\n  z[j, i] = y[i, j] + s[i]\n  }\n"));
  const std::vector<Guarded> start = start_of(one);
  const std::vector<Guarded> expected =
      run_guarded(compile(one.program, 1, nullptr, 0, ~std::uint64_t{0}), start, {});
  for (const KernelTable* table : all_tables()) {
    for (const std::int64_t tile_bytes : {0, 9000}) {
      const auto compiled = compile(one.program, 1, table, tile_bytes, 1);
      EXPECT_TRUE(same_bytes(expected, run_guarded(compiled, start, {}))) << table->name;
    }
  }
}

TEST(StoreTest, OnlyLargeResultsThatAreNotReadAgainBypassTheCaches) {
  const program::Program p =
      read(text_of("  arg x : f32[64, 512] in\n  arg y : f32[64, 512] out\n  arg z : f32[64, 512] out\n"
                   "  y[i, j] = x[i, j] * 2\n  z[i, j] = y[i, j] + 1\n"));
  const auto caches = [&](std::uint64_t large_result_bytes) {
    const auto compiled = compile(p, 1, nullptr, 0, large_result_bytes);
    std::vector<bool> list;
    for (const std::uint32_t tensor : {1U, 2U}) {
      list.push_back(caches_tensor(std::get<TileKernel>(compiled->steps[tensor - 1].work), tensor));
    }
    return list;
  };
  EXPECT_EQ(caches(64 * 512 * 4), (std::vector<bool>{true, false}));
  EXPECT_EQ(caches(64 * 512 * 4 + 1), (std::vector<bool>{true, true}));
}

TEST(StoreTest, OverwrittenOperandsKeepTheirValuesForLaterStatements) {
  expect_like_reference(
      text_of("  arg a : f32[40, 30] inout\n  arg b : f32[40, 30] out\n  arg c : f32[40, 30] out\n"
              "  arg r : f32[40] out\n  @fused[i] {\n  b[i, j] = a[i, j]\n"
              "  a[i, j] = a[i, j] * 2\n  r[i] = sum[j] a[i, j] * b[i, j]\n"
              "  a[i, j] = a[i, j] + r[i]\n  c[i, j] = b[i, j] - a[i, j]\n  }\n"),
      31);
}

// Pieces with an argument beyond +-87 take another path, which must read the operand that it overwrites.
TEST(MapTest, ExpOverwritesLargeArguments) {
  const std::string text = text_of(
      "  arg x : f32[2000] inout\n  arg y : f32[2000] inout\n  x[i] = exp(x[i] * 60)\n  y[i] = exp(y[i] - "
      "0.5)\n");
  expect_like_reference(text, 32, {.kind = conformance::DataKind::kSpecial});
  expect_like_reference(text, 33, {.kind = conformance::DataKind::kUniform});
}

TEST(GroupTest, ElementwiseStatementsOfARegionBecomeOneKernel) {
  const std::string text = text_of(
      "  arg w : f32[400, 100] inout\n  arg v : f32[400, 100] inout\n  arg g : f32[400, 100] in\n  arg h : "
      "f32[400, 100] in\n"
      "  temp s : f32[400, 100]\n  temp d : f32[400, 100]\n  @fused[i, j] {\n"
      "  s[i, j] = (g[i, j] + h[i, j]) * 0.5\n  d[i, j] = s[i, j] + 0.0005 * w[i, j]\n"
      "  v[i, j] = 0.9 * v[i, j] + d[i, j]\n  w[i, j] = w[i, j] - 0.1 * v[i, j]\n  }\n");
  const std::vector<std::string> notes = notes_of(text);
  EXPECT_EQ(notes[0], "tile kernel, one of 4 fused statements, result stays in registers");
  EXPECT_EQ(notes[1], "tile kernel, one of 4 fused statements, result stays in registers");
  EXPECT_EQ(notes[3], "tile kernel, one of 4 fused statements");
  expect_like_reference(text, 30);
}

TEST(GroupTest, StatementsThatAccessOtherElementsAreNotFused) {
  for (const char* body :
       {"  t[i, j] = x[i, j] + 1\n  y[i, j] = t[j, i]\n",
        "  t[i, j] = x[i, j] + 1\n  y[i, j] = (t[i, j - 1] else 0)\n",
        "  y[i, j] = x[i, j]\n  t[i, j] = (y[i, j + 1] else 3) * 2\n  y[i, j] = t[i, j] + y[i, j]\n",
        "  t[i, j] = x[i, j]\n  y[i, j] = t[i, j] + 1\n  t[i, j] = y[i, j] * 2\n  y[i, j] = x[i, j] + 1\n  "
        "y[i, j] = t[i, j] + y[i, j]\n",
        "  y[i, j] = x[i, j] + 1\n  y[i, j] = y[i, j] * 2\n  t[i, j] = x[i, j] + 1\n  y[i, j] = y[i, j] - "
        "t[i, j] * (x[i, j] + 1)\n",
        "  t[i, j] = x[i, j]\n  t[i, 3] = x[3, i]\n  y[i, j] = t[i, j]\n"}) {
    expect_like_reference(
        text_of(
            std::string(
                "  arg x : f32[30, 30] in\n  arg y : f32[30, 30] out\n  temp t : f32[30, 30]\n  @group {\n") +
            body + "  }\n"),
        31);
  }
}

TEST(GroupTest, ResultsHaveTheSameBitsForAnyThreadCount) {
  const program::Program p =
      read(text_of("  arg x : f32[300, 700] in\n  arg y : f32[300, 700] out\n  arg r : f32[300] out\n  arg c "
                   ": f32[700] out\n"
                   "  y[i, j] = exp(x[i, j]) * 2\n  r[i] = sum[j] y[i, j]\n  c[j] = sum[i] y[i, j]\n"));
  std::vector<float> x(300 * 700);
  std::mt19937_64 random(5);
  for (float& value : x) {
    value = std::uniform_real_distribution<float>(-3, 3)(random);
  }
  std::vector<std::vector<float>> first;
  for (const int threads : {1, 2, 3}) {
    std::vector<std::vector<float>> out = {std::vector<float>(x.size()), std::vector<float>(300),
                                           std::vector<float>(700)};
    std::vector<std::byte*> arguments = {reinterpret_cast<std::byte*>(x.data())};
    for (std::vector<float>& values : out) {
      arguments.push_back(reinterpret_cast<std::byte*>(values.data()));
    }
    run_on_cc(compile(p, threads), arguments, {});
    if (first.empty()) {
      first = out;
    }
    EXPECT_EQ(out, first) << threads << " threads";
  }
}

TEST(GroupTest, TwoOperationsInOnePassRoundTheirResultsSeparately) {
  struct Pair {
    const char* inner;
    const char* whole;
    const char* outer;  // like `whole`, but reads t for `inner`
  };
  for (const std::string type : {"f32", "f64"}) {
    for (const Pair& pair : {Pair{"x[i] * y[i]", "x[i] * y[i] + z[i]", "t[i] + z[i]"},
                             {"x[i] * y[i]", "z[i] - x[i] * y[i]", "z[i] - t[i]"},
                             {"x[i] * y[i]", "z[i] * (x[i] * y[i])", "z[i] * t[i]"},
                             {"x[i] - y[i]", "(x[i] - y[i]) * z[i]", "t[i] * z[i]"},
                             {"x[i] - y[i]", "exp(x[i] - y[i])", "exp(t[i])"},
                             {"x[i] - y[0]", "(x[i] - y[0]) * (x[i] - y[0])", "t[i] * t[i]"}}) {
      std::string text;
      for (const char* name : {"x", "y", "z"}) {
        text += std::string("  arg ") + name + " : " + type + "[3000] in\n";
      }
      for (const char* name : {"t", "u", "v"}) {
        text += std::string("  arg ") + name + " : " + type + "[3000] out\n";
      }
      conformance::Case one;
      one.seed = 3;
      one.program = read(text_of(text + "  t[i] = " + pair.inner + "\n  u[i] = " + pair.outer +
                                 "\n  v[i] = " + pair.whole + "\n"));
      one.data.assign(6, {conformance::DataKind::kUniform, 1, -1});
      for (const KernelTable* table : all_tables()) {
        const std::vector<Guarded> got = run_guarded(compile(one.program, 1, table), start_of(one), {});
        EXPECT_EQ(std::memcmp(got[4].data(), got[5].data(), got[4].byte_count()), 0)
            << pair.whole << " " << table->name;
      }
    }
  }
}

}  // namespace
}  // namespace yoke::cc::test
