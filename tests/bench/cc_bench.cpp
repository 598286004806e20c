// SPDX-License-Identifier: Apache-2.0
// tests/bench/cc_bench.cpp: the parts of a training step of an MLP (784-500-10, 50 rows per shard) on cc,
// compared with direct calls of oneDNN and with plain loops.
//
// Counters: "cc_us" and "peer_us" are the best times of both in microseconds, and "ratio" is their quotient.
#include "cc_bench.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "pool.h"

namespace yoke::bench {
namespace {

// A matrix product by direct calls of oneDNN. `ta` and `tb`: whether the operand is transposed in memory.
class BareMatmul {
 public:
  BareMatmul(dnnl::memory::dims a, bool ta, dnnl::memory::dims b, bool tb, Values& x, Values& y, Values& z)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const cc::OneOpenMpThread one;
    const auto strides = [](const dnnl::memory::dims& d, bool t) {
      return t ? dnnl::memory::dims{1, d[0]} : dnnl::memory::dims{d[1], 1};
    };
    const auto f32 = dnnl::memory::data_type::f32;
    const dnnl::memory::desc da(a, f32, strides(a, ta));
    const dnnl::memory::desc db(b, f32, strides(b, tb));
    const dnnl::memory::dims c = {a[0], b[1]};
    const dnnl::memory::desc dc(c, f32, strides(c, false));
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(da, db, dc), attributes, engine_);
    matmul_ = dnnl::matmul(desc);
    scratch_.resize(desc.scratchpad_desc().get_size() + 64);
    arguments_ = {{DNNL_ARG_SRC, dnnl::memory(da, engine_, x.data())},
                  {DNNL_ARG_WEIGHTS, dnnl::memory(db, engine_, y.data())},
                  {DNNL_ARG_DST, dnnl::memory(dc, engine_, z.data())},
                  {DNNL_ARG_SCRATCHPAD, dnnl::memory(desc.scratchpad_desc(), engine_, scratch_.data())}};
  }
  void run() {
    const cc::OneOpenMpThread one;
    matmul_.execute(stream_, arguments_);
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul matmul_;
  std::vector<char> scratch_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

void gemm(benchmark::State& state, const std::string& statement, dnnl::memory::dims a, bool ta,
          dnnl::memory::dims b, bool tb) {
  const auto dims = [](const dnnl::memory::dims& d, bool t) {
    return "f32[" + std::to_string(d[t ? 1 : 0]) + ", " + std::to_string(d[t ? 0 : 1]) + "]";
  };
  Values x = values(static_cast<std::size_t>(a[0] * a[1]), 1);
  Values y = values(static_cast<std::size_t>(b[0] * b[1]), 2);
  Values z(static_cast<std::size_t>(a[0] * b[1]));
  Values wanted = z;
  OnCc cc("  arg a : " + dims(a, ta) + " in\n  arg b : " + dims(b, tb) + " in\n  arg z : f32[" +
              std::to_string(a[0]) + ", " + std::to_string(b[1]) + "] out\n  " + statement + "\n",
          {&x, &y, &z});
  BareMatmul bare(a, ta, b, tb, x, y, wanted);
  compare(
      state, [&] { cc.run(); }, [&] { bare.run(); }, [&] { return close(z, wanted, 1e-3F); });
}

void forward(benchmark::State& state) {
  gemm(state, "z[n, o] = sum[i] a[n, i] * b[o, i]", {50, 784}, false, {784, 500}, true);
}
void weight_gradient(benchmark::State& state) {
  gemm(state, "z[o, i] = sum[n] a[n, o] * b[n, i]", {500, 50}, true, {50, 784}, false);
}
void data_gradient(benchmark::State& state) {
  gemm(state, "z[n, i] = sum[o] a[n, o] * b[o, i]", {50, 10}, false, {10, 500}, false);
}
void forward_last(benchmark::State& state) {
  gemm(state, "z[n, o] = sum[i] a[n, i] * b[o, i]", {50, 500}, false, {500, 10}, true);
}
BENCHMARK(forward)->UseRealTime();
BENCHMARK(weight_gradient)->UseRealTime();
BENCHMARK(data_gradient)->UseRealTime();
BENCHMARK(forward_last)->UseRealTime();

constexpr std::size_t kParameters = 400000;

// An SGD update with the mean of two gradients, weight decay and momentum.
void sgd_update(benchmark::State& state) {
  Values w = values(kParameters, 1), v = values(kParameters, 2), g = values(kParameters, 3),
         h = values(kParameters, 4);
  Values w2 = w, v2 = v;
  OnCc cc(
      R"(
  arg w : f32[400000] inout
  arg v : f32[400000] inout
  arg g : f32[400000] in
  arg h : f32[400000] in
  temp s : f32[400000]
  s[i] = (g[i] + h[i]) * 0.5
  v[i] = 0.9 * v[i] + (s[i] + 0.0005 * w[i])
  w[i] = w[i] - 0.1 * v[i]
)",
      {&w, &v, &g, &h});
  const auto plain = [&] {
    float* __restrict pw = w2.data();
    float* __restrict pv = v2.data();
    const float* __restrict pg = g.data();
    const float* __restrict ph = h.data();
    for (std::size_t i = 0; i < kParameters; ++i) {
      const float s = (pg[i] + ph[i]) * 0.5F;
      pv[i] = 0.9F * pv[i] + (s + 0.0005F * pw[i]);
      pw[i] = pw[i] - 0.1F * pv[i];
    }
    benchmark::ClobberMemory();
  };
  compare(
      state, [&] { cc.run(); }, plain, [&] { return close(w, w2, 0) && close(v, v2, 0); });
}
BENCHMARK(sgd_update)->UseRealTime();

void sgd_plain(benchmark::State& state) {
  Values w = values(kParameters, 1), g = values(kParameters, 3);
  Values w2 = w;
  OnCc cc("  arg w : f32[400000] inout\n  arg g : f32[400000] in\n  w[i] = w[i] - 0.1 * g[i]\n", {&w, &g});
  const auto plain = [&] {
    for (std::size_t i = 0; i < kParameters; ++i) {
      w2[i] = w2[i] - 0.1F * g[i];
    }
    benchmark::ClobberMemory();
  };
  compare(
      state, [&] { cc.run(); }, plain, [&] { return close(w, w2, 0); });
}
BENCHMARK(sgd_plain)->UseRealTime();

// Softmax cross entropy of 50 rows and 10 classes, forward and backward, compared with plain loops.
void softmax_cross_entropy(benchmark::State& state) {
  Values z = values(500, 1), labels(50), dz(500), loss(1), dz2(500), loss2(1);
  std::vector<std::uint8_t> classes(50);
  for (std::size_t i = 0; i < 50; ++i) {
    classes[i] = static_cast<std::uint8_t>(i * 7 % 10);
  }
  labels.resize(13);
  std::memcpy(labels.data(), classes.data(), 50);
  OnCc cc(
      R"(
  arg z : f32[50, 10] in
  arg y : u8[50] in
  arg dz : f32[50, 10] out
  arg loss : f32[] out
  temp m : f32[50]
  temp e : f32[50, 10]
  temp s : f32[50]
  temp l : f32[50]
  m[n] = max[o] z[n, o]
  e[n, o] = exp(z[n, o] - m[n])
  s[n] = sum[o] e[n, o]
  l[n] = log(s[n]) - ((z[n, y[n]] else 0) - m[n])
  loss[] = sum[n] l[n] * 0.02
  dz[n, o] = (e[n, o] / s[n] - f32(i64(y[n]) == o)) * 0.02
)",
      {&z, &labels, &dz, &loss});
  const auto plain = [&] {
    float total = 0;
    for (std::size_t n = 0; n < 50; ++n) {
      const float* row = z.data() + n * 10;
      const float m = *std::max_element(row, row + 10);
      float s = 0;
      for (std::size_t o = 0; o < 10; ++o) {
        dz2[n * 10 + o] = std::exp(row[o] - m);
        s += dz2[n * 10 + o];
      }
      total += (std::log(s) - (row[classes[n]] - m)) * 0.02F;
      for (std::size_t o = 0; o < 10; ++o) {
        dz2[n * 10 + o] = (dz2[n * 10 + o] / s - (o == classes[n] ? 1.0F : 0.0F)) * 0.02F;
      }
    }
    loss2[0] = total;
    benchmark::ClobberMemory();
  };
  compare(
      state, [&] { cc.run(); }, plain, [&] { return close(dz, dz2, 1e-6F) && close(loss, loss2, 1e-5F); });
}
BENCHMARK(softmax_cross_entropy)->UseRealTime();

// The whole gradient of one shard, compared with only its five matrix products in oneDNN.
void mlp_gradient(benchmark::State& state) {
  Values x = values(50 * 784, 1), w1 = values(500 * 784, 2), b1 = values(500, 3), w2 = values(5000, 4),
         b2 = values(10, 5), labels(13);
  Values dw1(500 * 784), db1(500), dw2(5000), db2(10), loss(1), h(50 * 500), z(500), dh(50 * 500);
  for (float& value : w1) {
    value *= 0.05F;
  }
  std::vector<std::uint8_t> classes(52, 3);
  std::memcpy(labels.data(), classes.data(), 52);
  OnCc cc(
      R"(
  arg x : f32[50, 784] in
  arg y : u8[50] in
  arg w1 : f32[500, 784] in
  arg b1 : f32[500] in
  arg w2 : f32[10, 500] in
  arg b2 : f32[10] in
  arg dw1 : f32[500, 784] out
  arg db1 : f32[500] out
  arg dw2 : f32[10, 500] out
  arg db2 : f32[10] out
  arg loss : f32[] out
  temp z1 : f32[50, 500]
  temp h : f32[50, 500]
  temp z : f32[50, 10]
  temp m : f32[50]
  temp e : f32[50, 10]
  temp s : f32[50]
  temp l : f32[50]
  temp dz : f32[50, 10]
  temp dh : f32[50, 500]
  temp dz1 : f32[50, 500]
  z1[n, o] = sum[i] x[n, i] * w1[o, i]
  h[n, o] = max(z1[n, o] + b1[o], 0)
  z[n, o] = sum[i] h[n, i] * w2[o, i]
  z[n, o] = z[n, o] + b2[o]
  m[n] = max[o] z[n, o]
  e[n, o] = exp(z[n, o] - m[n])
  s[n] = sum[o] e[n, o]
  l[n] = log(s[n]) - ((z[n, y[n]] else 0) - m[n])
  loss[] = sum[n] l[n] * 0.02
  dz[n, o] = (e[n, o] / s[n] - f32(i64(y[n]) == o)) * 0.02
  dw2[o, i] = sum[n] dz[n, o] * h[n, i]
  db2[o] = sum[n] dz[n, o]
  dh[n, i] = sum[o] dz[n, o] * w2[o, i]
  dz1[n, i] = dh[n, i] * f32(h[n, i] > 0)
  dw1[o, i] = sum[n] dz1[n, o] * x[n, i]
  db1[o] = sum[n] dz1[n, o]
)",
      {&x, &labels, &w1, &b1, &w2, &b2, &dw1, &db1, &dw2, &db2, &loss});
  BareMatmul one({50, 784}, false, {784, 500}, true, x, w1, h);
  BareMatmul two({50, 500}, false, {500, 10}, true, h, w2, z);
  BareMatmul three({10, 50}, true, {50, 500}, false, z, h, dw2);
  BareMatmul four({50, 10}, false, {10, 500}, false, z, w2, dh);
  BareMatmul five({500, 50}, true, {50, 784}, false, dh, x, dw1);
  compare(
      state, [&] { cc.run(); },
      [&] {
        one.run();
        two.run();
        three.run();
        four.run();
        five.run();
      });
}
BENCHMARK(mlp_gradient)->UseRealTime();

// Softmax, then layer norm, over 4096 rows of 1024 with all gradients, on two threads. peers.py times PyTorch
// and JAX beside it; the plain loops here check the result.
void softmax_layer_norm(benchmark::State& state) {
  constexpr std::size_t kRows = 4096;
  constexpr std::size_t kColumns = 1024;
  Values x = values(kRows * kColumns, 1), gamma = values(kColumns, 2), beta = values(kColumns, 3),
         dy = values(kRows * kColumns, 4);
  Values y(kRows * kColumns), dx(kRows * kColumns), dgamma(kColumns), dbeta(kColumns);
  OnCc cc(
      R"(
  arg x : f32[4096, 1024] in
  arg gamma : f32[1024] in
  arg beta : f32[1024] in
  arg dy : f32[4096, 1024] in
  arg y : f32[4096, 1024] out
  arg dx : f32[4096, 1024] out
  arg dgamma : f32[1024] out
  arg dbeta : f32[1024] out
  temp top : f32[4096]
  temp e : f32[4096, 1024]
  temp s : f32[4096]
  temp p : f32[4096, 1024]
  temp mean : f32[4096]
  temp c : f32[4096, 1024]
  temp r : f32[4096]
  temp h : f32[4096, 1024]
  temp u : f32[4096, 1024]
  temp mu : f32[4096]
  temp mh : f32[4096]
  temp dp : f32[4096, 1024]
  temp dot : f32[4096]
  @fused[n] {
    top[n] = max[d] x[n, d]
    e[n, d] = exp(x[n, d] - top[n])
    s[n] = sum[d] e[n, d]
    p[n, d] = e[n, d] / s[n]
    mean[n] = sum[d] p[n, d]
    mean[n] = mean[n] * 0.0009765625
    c[n, d] = p[n, d] - mean[n]
    r[n] = sum[d] c[n, d] * c[n, d]
    r[n] = rsqrt(r[n] * 0.0009765625 + 1e-05)
    h[n, d] = c[n, d] * r[n]
    y[n, d] = h[n, d] * gamma[d] + beta[d]
    u[n, d] = dy[n, d] * gamma[d]
    mu[n] = sum[d] u[n, d]
    mh[n] = sum[d] u[n, d] * h[n, d]
    dp[n, d] = r[n] * (u[n, d] - 0.0009765625 * (mu[n] + h[n, d] * mh[n]))
    dot[n] = sum[d] dp[n, d] * p[n, d]
    dx[n, d] = p[n, d] * (dp[n, d] - dot[n])
  }
  dbeta[d] = sum[n] dy[n, d]
  dgamma[d] = sum[n] dy[n, d] * h[n, d]
)",
      {&x, &gamma, &beta, &dy, &y, &dx, &dgamma, &dbeta}, 2);
  cc.run();
  // One row of dx in f64.
  const std::size_t row = 77 * kColumns;
  std::vector<double> p(kColumns), h(kColumns), dp(kColumns);
  double top = -1e30, s = 0, variance = 0, mu = 0, mh = 0, dot = 0;
  for (std::size_t d = 0; d < kColumns; ++d) {
    top = std::max(top, static_cast<double>(x[row + d]));
  }
  for (std::size_t d = 0; d < kColumns; ++d) {
    s += p[d] = std::exp(x[row + d] - top);
  }
  for (std::size_t d = 0; d < kColumns; ++d) {
    p[d] /= s;
    variance += (p[d] - 1.0 / kColumns) * (p[d] - 1.0 / kColumns) / kColumns;
  }
  const double r = 1 / std::sqrt(variance + 1e-5);
  for (std::size_t d = 0; d < kColumns; ++d) {
    h[d] = (p[d] - 1.0 / kColumns) * r;
    mu += dy[row + d] * gamma[d] / kColumns;
    mh += dy[row + d] * gamma[d] * h[d] / kColumns;
  }
  for (std::size_t d = 0; d < kColumns; ++d) {
    dp[d] = r * (dy[row + d] * gamma[d] - mu - h[d] * mh);
    dot += dp[d] * p[d];
  }
  for (std::size_t d = 0; d < kColumns; ++d) {
    if (std::fabs(dx[row + d] - p[d] * (dp[d] - dot)) > 1e-5) {
      state.SkipWithError("the gradient is wrong");
      return;
    }
  }
  for (auto _ : state) {
    cc.run();
  }
}
BENCHMARK(softmax_layer_norm)->UseRealTime()->Unit(benchmark::kMillisecond);

// The cost of a launch that computes almost nothing.
void launch_overhead(benchmark::State& state) {
  Values x(1);
  OnCc cc("  arg x : f32[] inout\n  x[] = x[] + 1\n", {&x});
  for (auto _ : state) {
    cc.run();
  }
}
BENCHMARK(launch_overhead)->UseRealTime();

}  // namespace
}  // namespace yoke::bench
