// SPDX-License-Identifier: Apache-2.0
// tests/bench/gpu/cases.cpp: what is measured, with the bars of the README.
#include <yoke/ext/memory.h>

#include <sstream>
#include <stdexcept>

#include "../../support/attention_text.h"
#include "gpu_bench.h"

namespace yoke::bench {
namespace {

std::string number(std::uint64_t value) {
  return std::to_string(value);
}

std::string text_of(double value, double peer, double scale, const char* unit) {
  std::ostringstream text;
  text.precision(3);
  text << value / scale << " of " << peer / scale << " " << unit;
  return text.str();
}

Row share(double percent, double bar, const std::string& detail) {
  Row row;
  row.value = percent;
  row.unit = "%";
  row.bar = bar;
  row.at_least = true;
  row.detail = detail;
  return row;
}

Row microseconds(double seconds, double bar) {
  Row row;
  row.value = seconds * 1e6;
  row.unit = "us";
  row.bar = bar;
  return row;
}

Row not_measured(const std::string& why) {
  Row row;
  row.missing = why;
  return row;
}

// The time and rate of a program with this number of floating-point operations. Without a bar: rows are compared
// with each other.
Row without_bar(double seconds, double operations) {
  Row row;
  row.value = seconds * 1e6;
  row.unit = "us";
  std::ostringstream detail;
  detail.precision(3);
  detail << operations / seconds / 1e12 << " TFLOP/s";
  row.detail = detail.str();
  return row;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// The share of the bandwidth of a copy that a program reaches if it moves `bytes`.
Row bandwidth_row(Bench& bench, const std::string& program, double bytes, double bar) {
  const Linked linked = bench.link(program);
  const double seconds = bench.seconds_of([&] { bench.stream().launch(*linked.routine); });
  const double copy = bench.copy_bandwidth();
  return share(100 * bytes / seconds / copy, bar, text_of(bytes / seconds, copy, 1e12, "TB/s"));
}

Row launch_one(Bench& bench) {
  const Linked linked = bench.link("program p() {\n arg x : f32[256] inout\n x[i] = x[i] * 0.5\n}\n");
  const double seconds = bench.host_seconds_of([&] { bench.stream().launch(*linked.routine); });
  return microseconds(seconds, 3);
}

// Each statement reads all of the vector before it, so that no two share a kernel.
Row launch_graph(Bench& bench) {
  std::string text = "program p() {\n arg w : f32[64, 64] in\n arg x : f32[64] inout\n";
  std::string body;
  std::string before = "x";
  for (int k = 0; k < 20; ++k) {
    const std::string next = k == 19 ? "x" : "t" + std::to_string(k);
    text += k == 19 ? "" : " temp " + next + " : f32[64]\n";
    body += " " + next + "[i] = sum[j] w[i, j] * " + before + "[j]\n";
    before = next;
  }
  const Linked linked = bench.link(text + body + "}\n");
  const double seconds = bench.host_seconds_of([&] { bench.stream().launch(*linked.routine); });
  return microseconds(seconds, 5);
}

// A copy between pinned memory and the device, beside the driver's own copy.
Row pinned_copy(Bench& bench, bool to_device) {
  if (bench.driver() == nullptr) {
    return not_measured("no driver to compare with");
  }
  const DriverCalls& driver = *bench.driver();
  const std::uint64_t bytes = bench.size(std::uint64_t{256} << 20, 1 << 16);
  const BufferView view{std::make_shared<Buffer>(bench.stream().device(), bytes), 0, bytes};
  const Address address = view.buffer->device_address();
  yoke_device* handle = bench.device().get();
  const auto* memory = bench.device().backend()->extension<yoke_memory_api>(YOKE_MEMORY_TABLE);
  const yoke_pinned_args pinned = {sizeof pinned, 0, bytes};
  void* host = nullptr;
  if (memory == nullptr || memory->pinned_allocate(handle, &pinned, &host, nullptr) != YOKE_STATUS_OK) {
    return not_measured("the backend cannot pin memory");
  }
  const double yoke = bench.seconds_of(
      [&] { to_device ? bench.stream().from_host(view, host) : bench.stream().to_host(host, view); });
  const double peer = bench.seconds_of([&] {
    (void)(to_device ? driver.copy_from_host(address, host, bytes, bench.native_stream())
                     : driver.copy_to_host(host, address, bytes, bench.native_stream()));
  });
  memory->pinned_free(handle, host);
  const auto size = static_cast<double>(bytes);
  return share(100 * peer / yoke, 90, text_of(size / yoke, size / peer, 1e9, "GB/s"));
}

Row adamw(Bench& bench) {
  const std::uint64_t count = bench.size(500'000'000, 1000);
  const std::string dims = " : f32[" + number(count) + "]";
  return bandwidth_row(bench,
                       "program p() {\n arg rate : f32[] in\n arg g" + dims + " in\n arg w" + dims +
                           " inout\n arg m" + dims + " inout\n arg v" + dims +
                           " inout\n"
                           " m[i] = 0.9 * m[i] + 0.1 * g[i]\n"
                           " v[i] = 0.999 * v[i] + 0.001 * (g[i] * g[i])\n"
                           " w[i] = w[i] - rate[] * (m[i] / (sqrt(v[i]) + 1e-08) + 0.01 * w[i])\n}\n",
                       28 * static_cast<double>(count), 85);
}

std::string product(std::uint64_t n) {
  const std::string dims = number(n) + ", " + number(n);
  return "program p() {\n arg a : bf16[" + dims + "] in\n arg b : bf16[" + dims + "] in\n arg c : bf16[" +
         dims + "] out\n c[i, j] = sum:f32[k] f32(a[i, k]) * f32(b[k, j])\n}\n";
}

Row bf16_product(Bench& bench, double bar) {
  const std::uint64_t n = bench.size(8192, 64);
  const Linked linked = bench.link(product(n));
  const double yoke = bench.seconds_of([&] { bench.stream().launch(*linked.routine); });
  const double operations = 2.0 * static_cast<double>(n * n * n);
  double peer = 0;
  try {
    peer = cublas_seconds(bench, n);
  } catch (const Error&) {
    throw;  // yoke's own
  } catch (const std::runtime_error& error) {
    return not_measured(error.what() + ("; yoke reaches " + without_bar(yoke, operations).detail));
  }
  return share(100 * peer / yoke, bar, text_of(operations / yoke, operations / peer, 1e12, "TFLOP/s"));
}

// A convolution as in the middle of a ResNet, with 3 x 3 windows, and the gradient of its filters.
Row bf16_convolution(Bench& bench, bool is_gradient) {
  const std::uint64_t images = bench.size(64, 2);
  const std::uint64_t size = bench.size(28, 6);
  const std::uint64_t channels = bench.size(256, 8);
  const std::string image =
      ": bf16[" + number(images) + ", " + number(size) + ", " + number(size) + ", " + number(channels) + "] ";
  const std::string filters = ": bf16[" + number(channels) + ", 3, 3, " + number(channels) + "] ";
  const std::string x = "f32(x[n, h + k - 1, v + l - 1, c])";
  const Linked linked = bench.link(
      "program p() {\n arg x " + image + "in\n arg w " + filters + (is_gradient ? "out" : "in") +
      "\n arg y " + image + (is_gradient ? "in" : "out") + "\n" +
      (is_gradient ? " w[o, k, l, c] = sum:f32[n, h, v] (f32(y[n, h, v, o]) * " + x + " else 0)\n}\n"
                   : " y[n, h, v, o] = sum:f32[k, l, c] (" + x + " * f32(w[o, k, l, c]) else 0)\n}\n"));
  const double seconds = bench.seconds_of([&] { bench.stream().launch(*linked.routine); });
  return without_bar(seconds, 18.0 * static_cast<double>(images * size * size * channels * channels));
}

// Causal attention of heads of 64, as training in bf16 writes it.
Row bf16_attention(Bench& bench, bool has_gradient) {
  const std::uint64_t batch = bench.size(8, 2);
  const std::uint64_t heads = bench.size(12, 2);
  const std::uint64_t positions = bench.size(1024, 16);
  std::string text = "program p() {\n" + std::string(test::kAttentionArguments);
  if (!has_gradient) {
    replace(text, std::string(test::kAttentionGradients), "");
  }
  text.append(test::kAttentionForward).append(has_gradient ? test::kAttentionBackward : "").append("}\n");
  const std::string rows = number(batch) + ", " + number(heads) + ", " + number(positions);
  replace(text, "3, 32, 2, 16", number(batch) + ", " + number(positions) + ", " + number(heads) + ", 64");
  replace(text, "3, 2, 32", rows);
  replace(text, ", 32]", ", " + number(positions) + "]");
  replace(text, "bool[32", "bool[" + number(positions));
  replace(text, "0.25", "0.125");
  const Linked linked = bench.link(text);
  const double seconds = bench.seconds_of([&] { bench.stream().launch(*linked.routine); });
  // Two products, and four for the gradient; half of the scores are masked.
  const auto product = static_cast<double>(batch * heads * positions * positions * 64);
  return without_bar(seconds, (has_gradient ? 6 : 2) * product);
}

// Rows of 8192 values. `matrices`: how many times the bytes of one matrix must move.
Row rows(Bench& bench, const std::string& arguments, const std::string& statements, double matrices) {
  const std::uint64_t n = bench.size(8192, 64);
  std::string text = "program p() {\n" + arguments + statements + "}\n";
  replace(text, "MATRIX", "f32[" + number(n) + ", " + number(n) + "]");
  replace(text, "VECTOR", "f32[" + number(n) + "]");
  replace(text, "LABELS", "i32[" + number(n) + "]");
  replace(text, "ONE_BY_N", n == 8192 ? "0.0001220703125" : "0.015625");
  return bandwidth_row(bench, text, matrices * 4 * static_cast<double>(n * n), 80);
}

Row softmax(Bench& bench) {
  return rows(
      bench, " arg x : MATRIX in\n arg y : MATRIX out\n temp m : VECTOR\n temp s : VECTOR\n",
      " m[i] = max[j] x[i, j]\n s[i] = sum[j] exp(x[i, j] - m[i])\n y[i, j] = exp(x[i, j] - m[i]) / s[i]\n",
      2);
}

Row softmax_backward(Bench& bench) {
  return rows(bench, " arg y : MATRIX in\n arg dy : MATRIX in\n arg dx : MATRIX out\n temp d : VECTOR\n",
              " d[i] = sum[j] dy[i, j] * y[i, j]\n dx[i, j] = y[i, j] * (dy[i, j] - d[i])\n", 3);
}

constexpr const char* kNormalized =
    " mean[i] = sum[j] x[i, j] * ONE_BY_N\n"
    " r[i] = sum[j] (x[i, j] - mean[i]) * (x[i, j] - mean[i])\n"
    " s[i] = rsqrt(r[i] * ONE_BY_N + 1e-05)\n";

Row layer_norm(Bench& bench) {
  return rows(bench,
              " arg x : MATRIX in\n arg g : VECTOR in\n arg b : VECTOR in\n arg y : MATRIX out\n temp mean : "
              "VECTOR\n temp r : "
              "VECTOR\n temp s : VECTOR\n",
              std::string(kNormalized) + " y[i, j] = (x[i, j] - mean[i]) * s[i] * g[j] + b[j]\n", 2);
}

Row layer_norm_backward(Bench& bench) {
  return rows(bench,
              " arg x : MATRIX in\n arg dy : MATRIX in\n arg g : VECTOR in\n arg dx : MATRIX out\n arg dg : "
              "VECTOR out\n arg db : "
              "VECTOR out\n temp mean : VECTOR\n temp r : VECTOR\n temp s : VECTOR\n temp u : VECTOR\n temp "
              "uh : VECTOR\n",
              std::string(kNormalized) +
                  " u[i] = sum[j] dy[i, j] * g[j] * ONE_BY_N\n"
                  " uh[i] = sum[j] dy[i, j] * g[j] * ((x[i, j] - mean[i]) * s[i]) * ONE_BY_N\n"
                  " dx[i, j] = s[i] * (dy[i, j] * g[j] - u[i] - (x[i, j] - mean[i]) * s[i] * uh[i])\n"
                  " db[j] = sum[i] dy[i, j]\n"
                  " dg[j] = sum[i] dy[i, j] * ((x[i, j] - mean[i]) * s[i])\n",
              3);
}

Row cross_entropy(Bench& bench) {
  return rows(bench,
              " arg x : MATRIX in\n arg label : LABELS in\n arg loss : VECTOR out\n temp m : VECTOR\n temp s "
              ": VECTOR\n",
              " m[i] = max[j] x[i, j]\n s[i] = sum[j] exp(x[i, j] - m[i])\n"
              " loss[i] = log(s[i]) + m[i] - (x[i, label[i]] else 0)\n",
              1);
}

Row cross_entropy_backward(Bench& bench) {
  return rows(
      bench,
      " arg x : MATRIX in\n arg label : LABELS in\n arg dx : MATRIX out\n temp m : VECTOR\n temp s : "
      "VECTOR\n",
      " m[i] = max[j] x[i, j]\n s[i] = sum[j] exp(x[i, j] - m[i])\n"
      " dx[i, j] = (exp(x[i, j] - m[i]) / s[i] - select(j == i64(label[i]), f32(1), f32(0))) * ONE_BY_N\n",
      2);
}

}  // namespace

std::vector<Case> cases() {
  return {
      {"host time to launch a routine of one kernel", launch_one},
      {"host time to launch 20 kernels as a graph", launch_graph},
      {"from_host, pinned, of the driver's copy", [](Bench& bench) { return pinned_copy(bench, true); }},
      {"to_host, pinned, of the driver's copy", [](Bench& bench) { return pinned_copy(bench, false); }},
      {"AdamW, 500 million parameters, of a copy", adamw},
      {"softmax 8192 x 8192, of a copy", softmax},
      {"softmax gradient, of a copy", softmax_backward},
      {"layer norm 8192 x 8192, of a copy", layer_norm},
      {"layer norm gradient, of a copy", layer_norm_backward},
      {"cross entropy 8192 x 8192, of a copy", cross_entropy},
      {"cross entropy gradient, of a copy", cross_entropy_backward},
      {"bf16 product 8192 cubed, of cublasLt", [](Bench& bench) { return bf16_product(bench, 95); }},
      {"bf16 product 8192 cubed by yoke's kernels, of cublasLt",
       [](Bench& bench) { return bf16_product(bench, 50); },
       {"vendor=off"}},
      {"bf16 product 8192 cubed by yoke's kernels with wgmma, of cublasLt",
       [](Bench& bench) { return bf16_product(bench, 50); },
       {"vendor=off", "wgmma=on"}},
      {"bf16 convolution 64 x 28 x 28 x 256",
       [](Bench& bench) { return bf16_convolution(bench, false); },
       {"vendor_convolution=off"}},
      {"bf16 convolution 64 x 28 x 28 x 256 by cuDNN or MIOpen",
       [](Bench& bench) { return bf16_convolution(bench, false); },
       {"vendor_convolution=on"}},
      {"bf16 convolution, gradient of the filters",
       [](Bench& bench) { return bf16_convolution(bench, true); },
       {"vendor_convolution=off"}},
      {"bf16 convolution, gradient of the filters by cuDNN or MIOpen",
       [](Bench& bench) { return bf16_convolution(bench, true); },
       {"vendor_convolution=on"}},
      {"bf16 attention 8 x 12 x 1024 x 64",
       [](Bench& bench) { return bf16_attention(bench, false); },
       {"vendor_attention=off"}},
      {"bf16 attention 8 x 12 x 1024 x 64 by fused kernels",
       [](Bench& bench) { return bf16_attention(bench, false); },
       {"vendor_attention=off", "fused_attention=on"}},
      {"bf16 attention 8 x 12 x 1024 x 64 by cuDNN",
       [](Bench& bench) { return bf16_attention(bench, false); },
       {"vendor_attention=on"}},
      {"bf16 attention with its gradient",
       [](Bench& bench) { return bf16_attention(bench, true); },
       {"vendor_attention=off"}},
      {"bf16 attention with its gradient by fused kernels",
       [](Bench& bench) { return bf16_attention(bench, true); },
       {"vendor_attention=off", "fused_attention=on"}},
      {"bf16 attention with its gradient by cuDNN",
       [](Bench& bench) { return bf16_attention(bench, true); },
       {"vendor_attention=on"}},
  };
}

}  // namespace yoke::bench
