// SPDX-License-Identifier: Apache-2.0
// tests/bench/cc_convolution_bench.cpp: convolutions and their gradients on cc, compared with direct calls
// of oneDNN.
#include <benchmark/benchmark.h>

#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>

#include "cc_bench.h"
#include "pool.h"

namespace yoke::bench {
namespace {

struct ConvolutionSize {
  std::int64_t batch, in, out, image, stride;  // 3 x 3, padding 1
};
constexpr ConvolutionSize kConvolutions[] = {{8, 64, 64, 56, 1}, {8, 64, 128, 56, 2}, {8, 256, 256, 14, 1}};
enum class Pass { kForward, kInputGradient, kWeightGradient };

// A convolution by direct calls of oneDNN, with operands that are in its preferred layouts already.
class BareConvolution {
 public:
  using Desc = dnnl::memory::desc;
  BareConvolution(const ConvolutionSize& size, Pass pass, Values& x, Values& w, Values& y)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const cc::OneOpenMpThread one;
    const auto f32 = dnnl::memory::data_type::f32;
    const auto direct = dnnl::algorithm::convolution_direct;
    const std::int64_t small = (size.image - 1) / size.stride + 1;
    const dnnl::memory::dims xs = {size.batch, size.in, size.image, size.image},
                             ws = {size.out, size.in, 3, 3}, ys = {size.batch, size.out, small, small};
    const auto any = [&](const dnnl::memory::dims& dims) {
      return Desc(dims, f32, dnnl::memory::format_tag::any);
    };
    const dnnl::memory::dims strides = {size.stride, size.stride}, padding = {1, 1};
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, direct, any(xs), any(ws), any(ys), strides, padding, padding},
        engine_);
    Desc dx = forward.src_desc(), dw = forward.weights_desc(), dy = forward.dst_desc();
    if (pass == Pass::kForward) {
      primitive_ = dnnl::convolution_forward(forward);
    } else if (pass == Pass::kInputGradient) {
      const dnnl::convolution_backward_data::primitive_desc desc(
          {direct, any(xs), any(ws), any(ys), strides, padding, padding}, engine_, forward);
      dx = desc.diff_src_desc(), dw = desc.weights_desc(), dy = desc.diff_dst_desc();
      primitive_ = dnnl::convolution_backward_data(desc);
    } else {
      const dnnl::convolution_backward_weights::primitive_desc desc(
          {direct, any(xs), any(ws), any(ys), strides, padding, padding}, engine_, forward);
      dx = desc.src_desc(), dw = desc.diff_weights_desc(), dy = desc.diff_dst_desc();
      primitive_ = dnnl::convolution_backward_weights(desc);
    }
    const auto copied = [&](const dnnl::memory::dims& dims, Values& from, const Desc& to) {
      dnnl::memory plain(Desc(dims, f32, dnnl::memory::format_tag::abcd), engine_, from.data());
      dnnl::memory made(to, engine_);
      dnnl::reorder(plain, made).execute(stream_, plain, made);
      return made;
    };
    using Roles = std::array<int, 3>;
    const Roles roles = pass == Pass::kForward ? Roles{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}
                        : pass == Pass::kInputGradient
                            ? Roles{DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST}
                            : Roles{DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST};
    arguments_ = {
        {roles[0], copied(xs, x, dx)}, {roles[1], copied(ws, w, dw)}, {roles[2], copied(ys, y, dy)}};
    const auto role = roles[pass == Pass::kForward ? 2 : pass == Pass::kInputGradient ? 0 : 1];
    result_ = arguments_.at(role);
    plain_ = Desc(pass == Pass::kForward         ? ys
                  : pass == Pass::kInputGradient ? xs
                                                 : ws,
                  f32, dnnl::memory::format_tag::abcd);
  }
  void run() {
    const cc::OneOpenMpThread one;
    primitive_.execute(stream_, arguments_);
  }
  Values result() {
    Values values(plain_.get_size() / sizeof(float));
    dnnl::memory plain(plain_, engine_, values.data());
    dnnl::reorder(result_, plain).execute(stream_, result_, plain);
    return values;
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
  dnnl::memory result_;
  Desc plain_;
};

// A convolution of plain tensors on cc, with all copies to the layouts of oneDNN, compared with the call
// alone.
void convolution(benchmark::State& state, Pass pass) {
  const ConvolutionSize& size = kConvolutions[state.range(0)];
  const std::int64_t small = (size.image - 1) / size.stride + 1;
  const auto count = [](std::int64_t a, std::int64_t b, std::int64_t c) {
    return static_cast<std::size_t>(a * b * c * c);
  };
  Values x = values(count(size.batch, size.in, size.image), 1), w = values(count(size.out, size.in, 3), 2),
         y = values(count(size.batch, size.out, small), 3);
  const auto tensor = [](const char* name, std::int64_t a, std::int64_t b, std::int64_t c, bool out) {
    const std::string extent = std::to_string(c);
    return std::string("  arg ") + name + " : f32[" + std::to_string(a) + ", " + std::to_string(b) + ", " +
           extent + ", " + extent + (out ? "] out\n" : "] in\n");
  };
  const std::string s = size.stride == 1 ? "" : std::to_string(size.stride) + "*";
  const auto inverse = [&](const std::string& dividend) {
    return size.stride == 1 ? dividend : "(" + dividend + ") / " + std::to_string(size.stride);
  };
  const std::string image = "x[n, c, " + s + "h + i - 1, " + s + "v + j - 1]";
  const std::string statement =
      pass == Pass::kForward         ? "y[n, o, h, v] = sum[c, i, j] (" + image + " * w[o, c, i, j] else 0)"
      : pass == Pass::kInputGradient ? "x[n, c, h, v] = sum[o, i, j] (y[n, o, " + inverse("h - i + 1") +
                                           ", " + inverse("v - j + 1") + "] * w[o, c, i, j] else 0)"
                                     : "w[o, c, i, j] = sum[n, h, v] (y[n, o, h, v] * " + image + " else 0)";
  BareConvolution bare(size, pass, x, w, y);
  OnCc cc(tensor("x", size.batch, size.in, size.image, pass == Pass::kInputGradient) +
              tensor("w", size.out, size.in, 3, pass == Pass::kWeightGradient) +
              tensor("y", size.batch, size.out, small, pass == Pass::kForward) + "  " + statement + "\n",
          {&x, &w, &y});
  const Values& result = pass == Pass::kForward ? y : pass == Pass::kInputGradient ? x : w;
  compare(
      state, [&] { cc.run(); }, [&] { bare.run(); }, [&] { return close(result, bare.result(), 0.05F); });
}
BENCHMARK_CAPTURE(convolution, forward, Pass::kForward)->DenseRange(0, 2)->UseRealTime();
BENCHMARK_CAPTURE(convolution, input_gradient, Pass::kInputGradient)->DenseRange(0, 2)->UseRealTime();
BENCHMARK_CAPTURE(convolution, weight_gradient, Pass::kWeightGradient)->DenseRange(0, 2)->UseRealTime();

}  // namespace
}  // namespace yoke::bench
