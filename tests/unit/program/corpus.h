// SPDX-License-Identifier: Apache-2.0
// tests/unit/program/corpus.h: valid programs in canonical form that together use the whole language.
#pragma once

#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <string>
#include <vector>

namespace yoke::program {

inline const std::vector<std::string>& corpus() {
  static const std::vector<std::string> texts = {
      // A dense layer.
      R"(yoke.program 1
program dense(symbol row in 0..60000 step 500) {
  arg x : f32[60000, 784] in
  arg w : f32[500, 784] in
  arg b : f32[500] in
  arg labels : u8[60000] in
  arg z : f32[500, 500] out
  temp m : f32[500]
  z[n, o] = sum[i] x[row + n, i] * w[o, i]
  z[n, o] = max(z[n, o] + b[o], 0)
  m[n] = max[o] z[n, o]
}
)",
      R"(yoke.program 1
program dense_grad(symbol row in 0..60000 step 500) {
  arg x : f32[60000, 784] in
  arg w : f32[500, 784] in
  arg dz : f32[500, 500] in
  arg dw : f32[500, 784] out
  temp z : f32[500, 500]
  z[b, o] = sum[i] x[row + b, i] * w[o, i]
  z[b, o] = max(z[b, o], 0)
  dw[o, i] = sum[b] dz[b, o] * x[row + b, i]
}
)",
      // A convolution with padding, pooling, and extents that must be stated.
      R"(yoke.program 1
program convolution() {
  arg x : f32[2, 3, 8, 8] in
  arg w : f32[4, 3, 3, 3] in
  arg y : f32[2, 4, 4, 4] out
  arg p : f32[2, 4, 2, 2] out
  y[n, o, oh, ow] = sum[c, kh, kw] (x[n, c, 2*oh + kh - 1, 2*ow + kw - 1] else 0) * w[o, c, kh, kw]
  p[n, o, ph, pw] = max[i:2, j:2] y[n, o, 2*ph + i, 2*pw + j]
}
)",
      // The gradient of a convolution with stride 2; a divided index says nothing about a loop's extent.
      R"(yoke.program 1
program convolution_gradient(symbol row in 0..4 step 2) {
  arg g : f32[8, 4, 4, 4] in
  arg w : f32[4, 3, 3, 3] in
  arg dx : f32[2, 3, 8, 8] out
  arg z : f32[8] out
  dx[n, c, i, j] = sum[o, kh, kw] (g[row + n, o, (i - kh + 1) / 2, (j - kw + 1) / 2] else 0) * w[o, c, kh, kw]
  z[i] = sum[k:3] (g[0, 0, 0, (i - 2*k) / 3] else -1.0)
  z[i] += sum[k:3] (g[0, 0, 0, (i - 2*k) / 3] * abs(w[0, 0, 0, k - 1]) else -1.0)
}
)",
      // Gather, scatter-add, softmax as a hint, 16-bit accumulators.
      R"(yoke.program 1
program attention_like(symbol step in -5..10, symbol seed in 0..1000000) {
  arg table : bf16[100, 8] in
  arg words : i32[16] in
  arg dtable : f32[100, 8] inout
  arg out_ : bf16[16, 8] out
  temp e : bf16[16, 8]
  temp s : f32[16]
  temp top : f32[16]
  e[t, d] = (table[words[t], d] else -0.5)
  @softmax[t] {
    top[t] = max:f32[d] e[t, d]
    s[t] = sum[d] exp(f32(e[t, d]) - top[t])
    out_[t, d] = bf16(exp(f32(e[t, d]) - top[t]) / s[t])
  }
  dtable[words[t], d] += f32(out_[t, d]) * f32(step)
  @layer_norm {
    s[t] = sum:f32[d] e[t, d] * 0.125
    s[t] *= recip(s[t]) + 1e-05
  }
  @layer_norm {
    s[t] max= f32(random_bits(seed, 7, t)) * 2.3283064e-10
  }
}
)",
      // Integers, bool and every infix operation with its parentheses.
      R"(yoke.program 1
program bits() {
  arg a : i32[10] in
  arg u : u32[10] in
  arg m : bool[10] in
  arg y : i32[10] out
  arg v : u32[10] out
  arg q : bool[10] out
  arg any_ : bool[] out
  arg where : i64[] out
  arg t : u8[20] out
  y[i] = (a[i] + 3) * -2 - a[i] / (a[i] % 7) - (a[i] - (5 - a[i]))
  v[i] = ~u[i] & 255 | u[i] ^ u[i] << (u[i] >> 3 + u[i]) | (u[i] | 4) & 1
  q[i] = !m[i] || a[i] < 3 && a[i] != -2147483648 || m[i] != (a[i] <= y[i] == true)
  any_[] = any[i] q[i] && (i > 3 || i64(a[i]) >= i)
  where[] = argmax[i] abs(a[i])
  t[i + 10] = u8(select(m[i], a[i], -(1)))
  t[2*i + j] for[i:5, j:2] = u8(i)
}
)",
      // Float functions, typed literals, infinities, scalars.
      R"(yoke.program 1
program functions() {
  arg x : f64[4] in
  arg h : f16[4] in
  arg y : f64[4] out
  arg g : f16[4] out
  arg s : f64[] out
  y[i] = fma(sin(x[i]), cos(x[i]), tanh(x[i])) + pow(sigmoid(x[i]), erf(x[i]) - erfc(x[i]))
  y[i] += min(floor(x[i]), ceil(x[i])) + round(x[i]) * trunc(x[i]) - sign(x[i]) * abs(-x[i])
  y[i] min= exp(x[i]) + exp2(x[i]) + expm1(x[i]) + log(x[i]) + log2(x[i]) + log1p(x[i])
  y[i] = select(f32(1.0) < f32(inf), y[i], -inf) + sqrt(x[i]) + rsqrt(x[i]) + recip(x[i])
  g[i] = h[i] * 0.0999755859375 + f16(f64(0.1)) - f16(f32(x[i]))
  g[-i + 3] = h[i]
  s[] = prod[i] x[i] - nan
  s[] = select(s[] == s[], s[], -(1.0))
  s[] = -0.0
}
)",
      // Two programs in one text, with extreme dimensions and symbols.
      R"(yoke.program 1
program first() {
  arg y : f32[1, 1, 1, 1, 1, 1, 1, 9223372036854775] out
  y[a, b, c, d, e, f, g, h] = 0
}
program second(symbol only in 3..4, symbol low in -9223372036854775808..9223372036854775807 step 9223372036854775807) {
  arg y : i64[4] inout
  temp t : i64[2]
  y[only] = low
  t[only - 2] = 1
  t[0] = 2
  y[i] = sum[j] t[j] + i
}
)"};
  return texts;
}

// The error message of the text, or "accepted".
inline std::string error_of(const std::string& text) {
  try {
    parse_and_verify(text);
  } catch (const ProgramError& error) {
    return error.what();
  }
  return "accepted";
}

// Compares everything but locations and declarations, which the text shows anyway.
inline void expect_same(const Program& a, const Program& b) {
  EXPECT_EQ(a.hints, b.hints);
  ASSERT_EQ(a.statements.size(), b.statements.size());
  for (std::size_t i = 0; i < a.statements.size(); ++i) {
    const Statement& x = a.statements[i];
    const Statement& y = b.statements[i];
    EXPECT_TRUE(x.loops == y.loops && x.target == y.target && x.assign == y.assign && x.reduce == y.reduce &&
                x.reduce_loops == y.reduce_loops && x.accumulator == y.accumulator && x.hint == y.hint &&
                same(x.value, y.value))
        << print(a, x) << "\nbecame\n"
        << print(b, y);
  }
}

}  // namespace yoke::program
