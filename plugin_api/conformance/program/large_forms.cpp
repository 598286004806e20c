// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/large_forms.cpp: texts in which N, R and C stand for sizes.
#include "large_forms.h"

#include <iterator>
#include <string>
#include <string_view>

#include "corpus.h"

namespace yoke::conformance {
namespace {

struct Form {
  std::string_view body;  // {n}, {r}, {c} and sums like {n-1} and {n+n} stand for sizes
  DataKind kind = DataKind::kDyadic;
  std::string_view symbols = {};
};

constexpr Form kForms[] = {
    // One operation per element.
    {"arg x : f32[{n}] in\n arg z : f32[{n}] in\n arg y : f32[{n}] out\n y[i] = x[i] * 2 + z[i]\n"},
    {"arg x : f32[{n}] in\n arg y : f32[{n}] out\n y[i] = exp(x[i]) * tanh(x[i]) / (1 + abs(x[i]))\n",
     DataKind::kUniform},
    {"arg x : f32[{n}] in\n arg z : f32[{n}] in\n arg y : f32[{n}] out\n y[i] = max(min(x[i], z[i]), 0.5)\n",
     DataKind::kSpecial},
    {"arg x : f64[{n}] in\n arg y : f64[{n}] out\n y[i] = x[i] * x[i] - 1\n"},
    {"arg x : bf16[{n}] in\n arg w : f16[{n}] in\n arg y : bf16[{n}] out\n y[i] = x[i] + bf16(w[i])\n",
     DataKind::kUniform},
    {"arg x : f32[{n}] in\n arg y : bf16[{n}] out\n arg z : f16[{n}] out\n y[i] = bf16(x[i])\n z[i] = "
     "f16(x[i])\n",
     DataKind::kSpecial},
    {"arg x : i32[{n}] in\n arg z : i32[{n}] in\n arg y : i32[{n}] out\n y[i] = x[i] / z[i] + x[i] % 7\n",
     DataKind::kWide},
    {"arg x : u8[{n}] in\n arg y : i64[{n}] out\n y[i] = i64(x[i]) * 3000000000 - i\n", DataKind::kWide},
    {"arg x : f32[{n}] in\n arg y : bool[{n}] out\n arg z : i32[{n}] out\n y[i] = x[i] > 1\n z[i] = "
     "select(y[i], "
     "i32(x[i]), -1)\n"},
    {"arg y : f32[{n}] out\n arg z : u32[{n}] out\n y[i] = f32(i) * 0.5\n z[i] = random_bits(7, 1, i)\n"},
    // Order and position.
    {"arg x : f32[{r}, {c}] in\n arg y : f32[{c}, {r}] out\n y[i, j] = x[j, i]\n"},
    {"arg x : f32[{n}] in\n arg y : f32[{n}] out\n y[i] = x[-i + {n-1}]\n"},
    {"arg x : f32[{n+n}] in\n arg y : f32[{n}] out\n y[i] = x[2*i + 1] - x[2*i]\n"},
    {"arg x : f32[{n}] in\n arg s : f32[{n+9}] inout\n s[i + 5] for[i:{n}] = x[i]\n"},
    {"arg x : f32[{r}, {c}] in\n arg b : f32[{c}] in\n arg d : f32[{r}] in\n arg y : f32[{r}, {c}] out\n "
     "y[i, j] = x[i, j] "
     "+ b[j] * d[i]\n"},
    {"arg x : f32[{n}] in\n arg y : f32[{n+n}] out\n y[i] = (x[(i - 1) / 2] else 7)\n"},
    {"arg x : f32[17, 13, 19, 18] in\n arg y : f32[18, 17, 19, 13] out\n y[l, i, k, j] = x[i, j, k, l] * "
     "2\n"},
    // Reductions.
    {"arg x : f32[{n}] in\n arg y : f32[] out\n arg z : f64[] out\n y[] = sum[i] x[i]\n z[] = sum:f64[i] "
     "x[i]\n",
     DataKind::kUnit},
    {"arg x : f32[{r}, {c}] in\n arg y : f32[{r}] out\n arg z : f32[{c}] out\n y[i] = sum[j] x[i, j]\n z[j] "
     "= sum[i] x[i, "
     "j]\n",
     DataKind::kUnit},
    {"arg x : i32[{r}, {c}] in\n arg y : i64[{c}] out\n arg z : i32[{r}] inout\n y[j] = sum:i64[i] x[i, j]\n "
     "z[i] += sum[j] "
     "x[i, j]\n",
     DataKind::kWide},
    {"arg x : f32[{r}, {c}] in\n arg y : f32[{r}] out\n arg z : f32[{c}] out\n y[i] = max[j] x[i, j]\n z[j] "
     "= min[i] x[i, "
     "j]\n",
     DataKind::kUniform},
    {"arg x : f32[{n}] in\n arg y : i32[] out\n arg z : i64[] out\n y[] = argmax[i] x[i]\n z[] = argmin[i] "
     "x[i]\n",
     DataKind::kUniform},
    {"arg x : i32[{r}, {c}] in\n arg y : i32[{r}] out\n arg z : i64[{c}] out\n y[i] = argmax[j] x[i, j]\n "
     "z[j] = argmin[i] "
     "x[i, j]\n"},
    {"arg y : bool[] out\n arg z : bool[] out\n arg x : i32[{n}] in\n y[] = any[i:{n}] i == {n-1}\n z[] = "
     "all[i] "
     "x[i] < 100\n"},
    {"arg x : f32[{r}, {c}] in\n arg y : f32[{r}, {c}] out\n temp m : f32[{r}]\n temp e : f32[{r}, {c}]\n "
     "temp t : "
     "f32[{r}]\n m[i] = max[j] x[i, j]\n e[i, j] = exp(x[i, j] - m[i])\n t[i] = sum[j] e[i, j]\n y[i, j] = "
     "e[i, j] / t[i]\n",
     DataKind::kUniform},
    {"arg x : f32[{r}, {c}] in\n arg y : f32[{r}, {c}] out\n temp m : f32[{r}]\n temp v : f32[{r}]\n m[i] = "
     "sum[j] x[i, j]\n "
     "m[i] = m[i] * 0.125\n v[i] = sum[j] (x[i, j] - m[i]) * (x[i, j] - m[i])\n y[i, j] = (x[i, j] - m[i]) * "
     "rsqrt(v[i] + "
     "1)\n"},
    // Gathers, scatters, neighbors.
    {"arg x : f32[{n}, 2] in\n arg idx : i32[{n}] in  # below {n}\n arg y : f32[{n}, 2] out\n y[i, j] = "
     "(x[idx[i], j] else "
     "0)\n"},
    {"arg x : i32[{n}] in\n arg idx : i32[{n}] in  # below 1000\n arg y : i32[1000] inout\n y[idx[i]] += "
     "x[i]\n"},
    {"arg x : f32[{n}] in\n arg idx : i64[{n}] in  # below {n}\n arg y : f32[{n}] inout\n y[idx[i]] max= "
     "x[i]\n"},
    {"arg x : f32[{n}] in\n arg w : f32[5] in\n arg y : f32[{n}] out\n y[i] = sum[k] (x[i + k - 2] * w[k] "
     "else 0)\n"},
    {"arg x : f32[{n+n}] in\n arg y : f32[{n}] out\n y[i] = max[k:3] (x[2*i + k] else -inf)\n"},
    // Several statements.
    {"arg x : i32[{n}] in\n arg y : i32[{n}] out\n temp a : i32[{n}]\n temp b : i32[{n}]\n a[i] = x[i] * 2\n "
     "b[i] = a[-i + "
     "{n-1}] + 1\n y[i] = b[-i + {n-1}] + a[i]\n"},
    {"arg x : f32[{n}] in\n arg s : f32[{n}] inout\n s[i] = s[i] * 0.5 + x[i]\n s[i] += x[i]\n s[i] max= "
     "x[i]\n"},
    {"arg x : f32[8, {n}] in\n arg h : f32[9, {n}] out\n h[0, i] = x[0, i]\n repeat t in 0..8 {\n h[t + 1, "
     "i] = h[t, i] * 0.5 "
     "+ x[t, i]\n }\n"},
    // More than 65,535 groups of 32 elements; parts of transposed tensors; an operand that all terms share; a hint
    // whose second statement reads the first one's results in another order.
    {"arg x : u8[2100001] in\n arg y : u8[2100001] out\n y[i] = x[i] + 3\n", DataKind::kWide},
    {"arg x : f32[{c}, {r+9}] in\n arg y : f32[{r}, {c}] out\n y[i, j] = x[j, i]\n"},
    {"arg x : i32[{c}, {r}] in\n arg y : i32[{r}, {c+9}] inout\n y[i, j + 4] for[j:{c}] = x[j, i]\n"},
    {"arg x : f32[257, 300] in\n arg w : f32[90] in\n arg y : f32[257, 90] out\n y[i, j] = sum[k] x[i, k] * "
     "w[j]\n",
     DataKind::kUnit},
    {"arg x : f32[{r}, {c}] in\n arg y : f32[{r}, {c}] out\n temp t : f32[{r}, {c}]\n @fused[i] {\n t[i, j] "
     "= "
     "x[i, j] * 2\n y[i, j] = t[i, -j + {c-1}] + x[i, j]\n }\n"},
    // Ties, which argmax and argmin decide by position; duplicates in a scatter.
    {"arg x : f32[{n}] in\n arg y : i32[] out\n arg z : i32[] out\n y[] = argmax[i] x[i]\n z[] = argmin[i] "
     "x[i]\n"},
    {"arg x : f32[{n}] in\n arg idx : i32[{n}] in  # below 77\n arg y : f32[77] inout\n y[idx[i]] += x[i]\n",
     DataKind::kUnit},
    // A product with bias and activation; a convolution; many rounds; large offsets.
    {"arg x : f32[{r}, 9] in\n arg w : f32[9, {c}] in\n arg b : f32[{c}] in\n arg y : f32[{r}, {c}] out\n "
     "y[i, j] = "
     "sum[k] x[i, k] * w[k, j]\n y[i, j] = max(y[i, j] + b[j], 0)\n"},
    {"arg x : f32[2, 3, 30, 27] in\n arg w : f32[5, 3, 3, 3] in\n arg y : f32[2, 5, 30, 27] out\n y[n, o, h, "
     "l] = "
     "sum[c, p, q] (x[n, c, h + p - 1, l + q - 1] * w[o, c, p, q] else 0)\n"},
    {"arg x : f32[300, 40] in\n arg h : f32[301, 40] out\n h[0, i] = 0\n repeat t in 0..300 {\n h[t + 1, i] "
     "= h[t, i] * "
     "0.5 + x[t, i]\n }\n"},
    {"arg x : f32[{n+n}, 2] in\n arg y : f32[100, 2] out\n y[i, j] = x[base + i, j]\n", DataKind::kDyadic,
     "symbol base in 1..{n} step 29"}};

constexpr std::uint64_t kSizes[] = {65537, 70001, 1025, 65536, 98311, 4097, 65535, 131073, 300};
struct Shape {
  std::uint64_t rows, columns;
};
constexpr Shape kShapes[] = {{257, 300}, {3, 35001}, {35001, 3}, {33, 1025}, {1, 65537},
                             {65537, 1}, {1025, 65}, {2, 65536}, {301, 256}};

// Replaces {n}, {n-1} and so on.
std::string filled(std::string_view body, std::uint64_t n, const Shape& shape) {
  std::string text;
  for (std::size_t at = 0; at < body.size(); ++at) {
    const std::size_t end = body.find('}', at);
    // A brace of a repeat block is followed by a line end.
    if (body[at] != '{' || body[at + 1] == '\n') {
      text += body[at];
      continue;
    }
    const std::string_view inside = body.substr(at + 1, end - at - 1);
    const std::uint64_t value = inside[0] == 'n' ? n : inside[0] == 'r' ? shape.rows : shape.columns;
    const std::string_view rest = inside.substr(1);
    text += std::to_string(rest == "-1"   ? value - 1
                           : rest == "+9" ? value + 9
                           : rest == "+n" ? 2 * value
                                          : value);
    at = end;
  }
  return text;
}

std::string numbered(const char* name, int number) {
  return name + std::to_string(number);
}

}  // namespace

Case wide_program(std::uint64_t seed, int inputs, int statements, int symbols) {
  std::string text = "yoke.program 1\nprogram wide(";
  for (int i = 0; i < symbols; ++i) {
    text += (i == 0 ? "symbol " : ", symbol ") + numbered("s", i) + " in 0..3";
  }
  text += ") {\n";
  for (int i = 0; i < inputs; ++i) {
    text += "  arg " + numbered("x", i) + " : f32[12] in\n";
  }
  for (int i = 0; i < statements; ++i) {
    text += std::string(i % 5 == 4 ? "  arg " : "  temp ") + numbered("y", i) + " : f32[10]" +
            (i % 5 == 4 ? " out\n" : "\n");
  }
  for (int i = 0; i < statements; ++i) {
    text += "  " + numbered("y", i) + "[i] = " + numbered("x", i % inputs) + "[" +
            numbered("s", i % symbols) + " + i] * 0.5 + " + (i == 0 ? "1.0" : numbered("y", i - 1) + "[i]") +
            "\n";
  }
  return corpus_case(text + "}\n", seed);
}

std::uint64_t large_form_count() {
  return std::size(kForms);
}

Case large_form(std::uint64_t seed, std::uint64_t index) {
  const Form& form = kForms[index % std::size(kForms)];
  const std::uint64_t draw = index / std::size(kForms) + index + seed;
  const std::uint64_t size = kSizes[draw % std::size(kSizes)];
  const Shape& shape = kShapes[draw % std::size(kShapes)];
  const std::string text = "yoke.program 1\nprogram form" + std::to_string(index) + "(" +
                           filled(form.symbols, size, shape) + ") {\n" + filled(form.body, size, shape) +
                           "}\n";
  Case one = corpus_case(text, seed);
  one.index = index;
  for (Data& data : one.data) {
    data.kind = data.kind == DataKind::kDyadic ? form.kind : data.kind;
  }
  return one;
}

}  // namespace yoke::conformance
