// SPDX-License-Identifier: Apache-2.0
// tests/support/exact_attention.cpp: attention and its gradient in f64.
#include "exact_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace yoke::test {
namespace {

std::string with(std::string text, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [name, value] : values) {
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size())) {
      text.replace(at, name.size(), value);
    }
  }
  return text;
}

}  // namespace

std::string body_of(const AttentionShape& shape) {
  const auto number = [](int value) { return std::to_string(value); };
  const std::string forward = R"( arg q : TYPE[B, Q, H, D] in
 arg k : TYPE[B, K, H, D] in
 arg v : TYPE[B, K, H, V] in
 arg o : TYPE[B, Q, H, V] out
 temp s : TYPE[B, H, Q, K]
 temp e : f32[B, H, Q, K]
 temp top : f32[B, H, Q]
 temp total : f32[B, H, Q]
 temp w : TYPE[B, H, Q, K]
)";
  const std::string gradient_arguments = R"( arg g : TYPE[B, Q, H, V] in
 arg dq : TYPE[B, Q, H, D] out
 arg dk : TYPE[B, K, H, D] out
 arg dv : TYPE[B, K, H, V] out
 temp dw : TYPE[B, H, Q, K]
 temp rows : f32[B, H, Q]
 temp ds : TYPE[B, H, Q, K]
)";
  const std::string statements = R"( s[b, h, i, j] = sum:f32[d] f32(q[b, i, h, d]) * f32(k[b, j, h, d])
 e[b, h, i, j] = SCORE
 top[b, h, i] = max[j] e[b, h, i, j]
 e[b, h, i, j] = exp(e[b, h, i, j] - top[b, h, i])
 total[b, h, i] = sum[j] e[b, h, i, j]
 w[b, h, i, j] = TYPE(e[b, h, i, j] / total[b, h, i])
 o[b, i, h, d] = sum:f32[j] f32(w[b, h, i, j]) * f32(v[b, j, h, d])
)";
  const std::string gradients = R"( dv[b, j, h, d] = sum:f32[i] f32(g[b, i, h, d]) * f32(w[b, h, i, j])
 dw[b, h, i, j] = sum:f32[d] f32(g[b, i, h, d]) * f32(v[b, j, h, d])
 rows[b, h, i] = sum[j] f32(dw[b, h, i, j]) * (e[b, h, i, j] / total[b, h, i])
 ds[b, h, i, j] = TYPE((f32(dw[b, h, i, j]) - rows[b, h, i]) / total[b, h, i] * e[b, h, i, j] * 0.25)
 dk[b, j, h, d] = sum:f32[i] f32(ds[b, h, i, j]) * f32(q[b, i, h, d])
 dq[b, i, h, d] = sum:f32[j] f32(ds[b, h, i, j]) * f32(k[b, j, h, d])
)";
  const std::string text =
      shape.has_gradient ? gradient_arguments + forward + statements + gradients : forward + statements;
  return with(text, {{"SCORE", shape.is_causal ? "select(j <= i, 0.25 * f32(s[b, h, i, j]), -1.7e+38)"
                                               : "0.25 * f32(s[b, h, i, j])"},
                     {"TYPE", shape.type},
                     {"[B, Q,", "[" + number(shape.batch) + ", " + number(shape.queries) + ","},
                     {"[B, K,", "[" + number(shape.batch) + ", " + number(shape.keys) + ","},
                     {"[B, H,", "[" + number(shape.batch) + ", " + number(shape.heads) + ","},
                     {" Q, K]", " " + number(shape.queries) + ", " + number(shape.keys) + "]"},
                     {" Q]", " " + number(shape.queries) + "]"},
                     {" H, D]", " " + number(shape.heads) + ", " + number(shape.size) + "]"},
                     {" H, V]", " " + number(shape.heads) + ", " + number(shape.value_size) + "]"}});
}

namespace {

// Attention in f64, and bounds of errors. Tensors are [batch, length, heads, size].
class Exact {
 public:
  Exact(const AttentionShape& shape, const conformance::Contents& contents);

  // Empty, or the first element that is too far from the exact value.
  std::string compare(const conformance::Contents& contents) const;

 private:
  struct Result {
    std::vector<double> values;
    std::vector<double> slack;  // sums of what is rounded
  };
  std::size_t at(int batch, int row, int head, int element, int length, int size) const {
    const auto rows = std::int64_t{batch} * length + row;
    return static_cast<std::size_t>((rows * shape_.heads + head) * size + element);
  }
  std::vector<double> numbers(const conformance::Contents& contents, std::size_t argument) const;
  void head(int batch, int head);

  AttentionShape shape_;
  std::vector<double> q_, k_, v_, g_;
  Result o_, dq_, dk_, dv_;
};

std::vector<double> Exact::numbers(const conformance::Contents& contents, std::size_t argument) const {
  std::vector<double> all;
  const auto& bytes = contents[argument];
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i, 2);
    if (std::string(shape_.type) == "bf16") {
      all.push_back(std::bit_cast<float>(std::uint32_t{bits} << 16U));
    } else {
      const int exponent = bits >> 10 & 31;
      const double fraction = bits & 1023;
      const double size =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      all.push_back((bits & 0x8000U) != 0 ? -size : size);
    }
  }
  return all;
}

Exact::Exact(const AttentionShape& shape, const conformance::Contents& contents) : shape_(shape) {
  const std::size_t first = shape.has_gradient ? 4 : 0;
  q_ = numbers(contents, first);
  k_ = numbers(contents, first + 1);
  v_ = numbers(contents, first + 2);
  if (shape.has_gradient) {
    g_ = numbers(contents, 0);
  }
  const auto size = [&](Result& result, int length, int element_size) {
    result.values.resize(at(shape.batch, 0, 0, 0, length, element_size));
    result.slack.resize(result.values.size());
  };
  size(o_, shape.queries, shape.value_size);
  size(dq_, shape.queries, shape.size);
  size(dk_, shape.keys, shape.size);
  size(dv_, shape.keys, shape.value_size);
  for (int b = 0; b < shape.batch; ++b) {
    for (int h = 0; h < shape.heads; ++h) {
      head(b, h);
    }
  }
}

void Exact::head(int b, int h) {
  const AttentionShape& s = shape_;
  const auto add = [](Result& result, std::size_t to, double value, double slack) {
    result.values[to] += value;
    result.slack[to] += slack;
  };
  for (int i = 0; i < s.queries; ++i) {
    const int seen = s.is_causal ? std::min(i + 1, s.keys) : s.keys;
    std::vector<double> weights;
    double total = 0;
    for (int j = 0; j < seen; ++j) {
      double score = 0;
      for (int d = 0; d < s.size; ++d) {
        score += q_[at(b, i, h, d, s.queries, s.size)] * k_[at(b, j, h, d, s.keys, s.size)];
      }
      weights.push_back(std::exp(score / 4));
      total += weights.back();
    }
    double rows = 0;
    double row_slack = 0;
    for (int d = 0; d < s.value_size; ++d) {
      const std::size_t to = at(b, i, h, d, s.queries, s.value_size);
      for (int j = 0; j < seen; ++j) {
        const double term =
            weights[static_cast<std::size_t>(j)] / total * v_[at(b, j, h, d, s.keys, s.value_size)];
        add(o_, to, term, std::abs(term));
      }
      rows += s.has_gradient ? o_.values[to] * g_[to] : 0;
      row_slack += s.has_gradient ? (std::abs(o_.values[to]) + o_.slack[to]) * std::abs(g_[to]) : 0;
    }
    for (int j = 0; s.has_gradient && j < seen; ++j) {
      const double weight = weights[static_cast<std::size_t>(j)] / total;
      double gradient = -rows;
      for (int d = 0; d < s.value_size; ++d) {
        const double g = g_[at(b, i, h, d, s.queries, s.value_size)];
        const std::size_t from = at(b, j, h, d, s.keys, s.value_size);
        gradient += g * v_[from];
        add(dv_, from, weight * g, weight * std::abs(g));
      }
      const double of_score = weight * gradient / 4;
      const double slack = std::abs(of_score) + weight * row_slack / 4;
      for (int d = 0; d < s.size; ++d) {
        const std::size_t query = at(b, i, h, d, s.queries, s.size);
        const std::size_t key = at(b, j, h, d, s.keys, s.size);
        add(dk_, key, of_score * q_[query], slack * std::abs(q_[query]));
        add(dq_, query, of_score * k_[key], slack * std::abs(k_[key]));
      }
    }
  }
}

std::string Exact::compare(const conformance::Contents& contents) const {
  const double unit = std::string(shape_.type) == "bf16" ? 0x1p-8 : 0x1p-11;
  std::vector<const Result*> results = {&o_};
  std::vector<std::size_t> arguments = {3};
  if (shape_.has_gradient) {
    results = {&dq_, &dk_, &dv_, &o_};
    arguments = {1, 2, 3, 7};
  }
  for (std::size_t r = 0; r < results.size(); ++r) {
    const std::vector<double> found = numbers(contents, arguments[r]);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double value = results[r]->values[i];
      const double slack = results[r]->slack[i];
      const double bound = unit * (slack + std::abs(value)) * 1.05 + 1e-5 * slack + 1e-6;  // f32 sums
      if (!(std::abs(found[i] - value) <= bound)) {
        return "argument " + std::to_string(arguments[r]) + ", element " + std::to_string(i) + " is " +
               std::to_string(found[i]) + " instead of " + std::to_string(value) + " +- " +
               std::to_string(bound);
      }
    }
  }
  return {};
}

}  // namespace

std::string compare_attention(const AttentionShape& shape, const conformance::Contents& arguments,
                              const conformance::Contents& results) {
  return Exact(shape, arguments).compare(results);
}

}  // namespace yoke::test
