// SPDX-License-Identifier: Apache-2.0
// tests/unit/conformance_programs/corpus_test.cpp: the corpus is canonical, its gradients match differences, and its
// results match plain loops.
#include "corpus.h"

#include <gtest/gtest.h>
#include <yoke/program/execute.h>
#include <yoke/program/text.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "evaluate.h"

namespace yoke::conformance {
namespace {

using program::Program;
using program::Role;
using program::Tensor;
using program::Type;

std::string without_comments(std::string_view text) {
  const std::string lines = std::regex_replace("\n" + std::string(text), std::regex("\n *#[^\n]*"), "");
  return std::regex_replace(lines, std::regex(" *#[^\n]*"), "").substr(1);
}

class Corpus : public testing::TestWithParam<CorpusText> {};

TEST_P(Corpus, IsCanonicalExceptForComments) {
  EXPECT_EQ(program::print(program::parse_and_verify(GetParam().text)), without_comments(GetParam().text));
}

TEST_P(Corpus, HasResultsThatBoundsCanCheck) {
  const Case one = corpus_case(GetParam().text, 1);
  for (const std::vector<std::int64_t>& symbols : one.launches) {
    const Contents start = initial_arguments(one);
    EXPECT_EQ(compare_results(one, symbols, reference_results(one, symbols)), "");
    const std::vector<Bounds> bounds = evaluate_bounds(
        one.program, std::vector<std::span<const std::byte>>(start.begin(), start.end()), symbols);
    for (const std::uint32_t tensor : one.program.arguments()) {
      for (const Bound& bound : bounds[tensor]) {
        EXPECT_FALSE(bound.unknown) << one.program.tensors[tensor].name;
        EXPECT_LT(bound.high - bound.low, 1e-3) << one.program.tensors[tensor].name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Corpus, testing::ValuesIn(corpus().begin(), corpus().end()),
                         [](const auto& named) { return std::string(named.param.name); });

// The program in f64, with the values of its arguments by name.
class InF64 {
 public:
  explicit InF64(std::string_view name, unsigned seed = 1)
      : text_(std::regex_replace(std::string(corpus_text(name)), std::regex("f32"), "f64")),
        program_(program::parse_and_verify(text_).programs.at(0)) {
    std::mt19937_64 random(seed);
    const Case drawn = corpus_case(text_, seed);
    for (std::uint32_t i = 0; i < program_.tensors.size(); ++i) {
      const Tensor& tensor = program_.tensors[i];
      if (tensor.role == Role::kTemp) {
        continue;
      }
      std::vector<double>& values = values_[tensor.name];
      values.resize(tensor.element_count());
      if (!program::is_float(tensor.type)) {
        std::uniform_int_distribution<int> below(-1, static_cast<int>(drawn.data[i].limit));
        std::generate(values.begin(), values.end(), [&] { return below(random); });
        continue;
      }
      const bool positive = drawn.data[i].kind == DataKind::kPositive;
      std::uniform_real_distribution<double> real(positive ? 0.5 : -1, positive ? 2 : 1);
      std::generate(values.begin(), values.end(), [&] { return real(random); });
    }
  }

  const Program& program() const { return program_; }
  std::vector<double>& operator[](const std::string& name) { return values_.at(name); }

  void run(const std::vector<std::int64_t>& symbols = {}) {
    std::vector<void*> arguments;
    std::map<std::string, std::vector<std::int64_t>> integers;  // also holds i32, which is smaller
    for (const std::uint32_t number : program_.arguments()) {
      const Tensor& tensor = program_.tensors[number];
      std::vector<double>& values = values_.at(tensor.name);
      if (program::is_float(tensor.type)) {
        arguments.push_back(values.data());
        continue;
      }
      std::vector<std::int64_t>& memory = integers[tensor.name];
      memory.resize(values.size());
      arguments.push_back(memory.data());
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (tensor.type == Type::kI64) {
          memory[i] = static_cast<std::int64_t>(values[i]);
        } else {
          reinterpret_cast<std::int32_t*>(memory.data())[i] = static_cast<std::int32_t>(values[i]);
        }
      }
    }
    program::execute(program_, arguments, symbols);
    for (const auto& [name, memory] : integers) {
      if (program_.tensors[*program_.find_tensor(name)].type == Type::kI64) {
        values_[name].assign(memory.begin(), memory.end());
      }
    }
  }

  // The sum of y * dy over the outputs for which dy is given.
  double loss() {
    run();
    double sum = 0;
    for (const Tensor& tensor : program_.tensors) {
      const auto gradient = values_.find("d" + tensor.name);
      if (tensor.role == Role::kOut && gradient != values_.end()) {
        const std::vector<double>& y = values_.at(tensor.name);
        sum = std::inner_product(y.begin(), y.end(), gradient->second.begin(), sum);
      }
    }
    return sum;
  }

 private:
  std::string text_;
  Program program_;
  std::map<std::string, std::vector<double>> values_;
};

// Each output dx, for an input x, is the derivative of the loss: checked in random directions.
void expect_gradients(std::string_view name, std::size_t expected) {
  SCOPED_TRACE(name);
  InF64 one(name);
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  std::size_t checked = 0;
  for (const Tensor& tensor : one.program().tensors) {
    if (tensor.role != Role::kIn || !one.program().find_tensor("d" + tensor.name) ||
        one.program().tensors[*one.program().find_tensor("d" + tensor.name)].role != Role::kOut) {
      continue;
    }
    ++checked;
    one.run();
    const std::vector<double> gradient = one["d" + tensor.name];
    const std::vector<double> x = one[tensor.name];
    for (int round = 0; round < 6; ++round) {
      std::vector<double> direction(x.size());
      std::generate(direction.begin(), direction.end(), [&] { return normal(random); });
      constexpr double kStep = 1e-5;
      const auto loss_at = [&](double step) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          one[tensor.name][i] = x[i] + step * direction[i];
        }
        return one.loss();
      };
      const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
      const double derivative = std::inner_product(gradient.begin(), gradient.end(), direction.begin(), 0.0);
      // Central differences: kStep^2 times third derivatives, and rounding of the loss over kStep.
      EXPECT_NEAR(difference, derivative, 1e-6 * (1 + std::abs(derivative))) << tensor.name;
      one[tensor.name] = x;
    }
  }
  EXPECT_EQ(checked, expected);
}

TEST(CorpusGradients, MatchFiniteDifferences) {
  expect_gradients("convolution", 2);
  expect_gradients("convolution_strided", 2);
  expect_gradients("convolution_groups", 2);
  expect_gradients("max_pooling", 1);
  expect_gradients("average_pooling", 1);
  expect_gradients("batch_norm", 3);
  expect_gradients("layer_norm", 3);
  expect_gradients("attention", 3);
  expect_gradients("embedding", 1);
  expect_gradients("cumulative_sum", 1);
  expect_gradients("lstm", 4);
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], 1e-12) << what << "[" << i << "]";
  }
}

struct Convolution {
  const char* name;
  int groups, inputs, outputs;       // channels per group
  int height, width, rows, columns;  // of x and w
  int stride[2], dilation[2], padding[2];
};

// The sums of products over all windows, in both directions, as loops over x, w and y.
void expect_convolution(const Convolution& c) {
  InF64 one(c.name);
  one.run();
  const auto size = [](int in, int taps, int stride, int dilation, int padding) {
    return (in + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
  };
  const int oh = size(c.height, c.rows, c.stride[0], c.dilation[0], c.padding[0]);
  const int ow = size(c.width, c.columns, c.stride[1], c.dilation[1], c.padding[1]);
  const std::vector<double>& x = one["x"];
  const std::vector<double>& w = one["w"];
  const std::vector<double>& dy = one["dy"];
  std::vector<double> y(dy.size());
  std::vector<double> dx(x.size());
  std::vector<double> dw(w.size());
  for (int n = 0; n < 2; ++n) {
    for (int channel = 0; channel < c.groups * c.outputs * c.inputs; ++channel) {
      const int i = channel % c.inputs;
      const int o = channel / c.inputs % c.outputs;
      const int g = channel / c.inputs / c.outputs;
      for (int at = 0; at < oh * ow * c.rows * c.columns; ++at) {
        const int column = at % c.columns;
        const int row = at / c.columns % c.rows;
        const int v = at / c.columns / c.rows % ow;
        const int h = at / c.columns / c.rows / ow;
        const int xh = h * c.stride[0] + row * c.dilation[0] - c.padding[0];
        const int xv = v * c.stride[1] + column * c.dilation[1] - c.padding[1];
        if (xh < 0 || xh >= c.height || xv < 0 || xv >= c.width) {
          continue;
        }
        const auto of_x =
            static_cast<std::size_t>((((n * c.groups + g) * c.inputs + i) * c.height + xh) * c.width + xv);
        const auto of_y = static_cast<std::size_t>((((n * c.groups + g) * c.outputs + o) * oh + h) * ow + v);
        const auto of_w = static_cast<std::size_t>(
            (((g * c.outputs + o) * c.inputs + i) * c.rows + row) * c.columns + column);
        y.at(of_y) += x.at(of_x) * w.at(of_w);
        dx.at(of_x) += dy.at(of_y) * w.at(of_w);
        dw.at(of_w) += dy.at(of_y) * x.at(of_x);
      }
    }
  }
  expect_near(one["y"], y, std::string(c.name) + " y");
  expect_near(one["dx"], dx, std::string(c.name) + " dx");
  expect_near(one["dw"], dw, std::string(c.name) + " dw");
}

TEST(CorpusResults, ConvolutionsMatchLoops) {
  expect_convolution({"convolution", 1, 3, 4, 6, 5, 3, 3, {1, 1}, {1, 1}, {1, 1}});
  expect_convolution({"convolution_strided", 1, 3, 4, 9, 9, 3, 2, {2, 3}, {2, 1}, {2, 0}});
  expect_convolution({"convolution_groups", 2, 3, 2, 7, 5, 3, 3, {2, 2}, {1, 1}, {1, 1}});
}

TEST(CorpusResults, PoolingMatchesLoops) {
  for (const bool highest : {true, false}) {
    InF64 one(highest ? "max_pooling" : "average_pooling");
    one.run();
    std::vector<double> y;
    for (int n = 0; n < 6; ++n) {
      for (int h = 0; h < 4; ++h) {
        for (int v = 0; v < 3; ++v) {
          std::vector<double> window;
          for (int i = std::max(2 * h - 1, 0); i < std::min(2 * h + 2, 7); ++i) {
            for (int j = std::max(2 * v - 1, 0); j < std::min(2 * v + 2, 6); ++j) {
              window.push_back(one["x"][static_cast<std::size_t>((n * 7 + i) * 6 + j)]);
            }
          }
          y.push_back(highest ? *std::max_element(window.begin(), window.end())
                              : std::accumulate(window.begin(), window.end(), 0.0) /
                                    static_cast<double>(window.size()));
        }
      }
    }
    expect_near(one["y"], y, highest ? "max" : "average");
  }
}

TEST(CorpusResults, TopKMatchesAStableSort) {
  InF64 one("top_k");
  std::vector<double>& x = one["x"];
  std::generate(x.begin(), x.end(), [i = 0]() mutable { return (i++ * 7) % 5; });  // with equal elements
  one.run();
  for (std::size_t row = 0; row < 4; ++row) {
    std::vector<std::size_t> order(8);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return x[row * 8 + a] > x[row * 8 + b]; });
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(one["places"][row * 3 + k], static_cast<double>(order[k]));
      EXPECT_EQ(one["values"][row * 3 + k], x[row * 8 + order[k]]);
    }
  }
}

TEST(CorpusResults, AdamWMatchesLoops) {
  for (const std::int64_t step : {1, 7}) {
    InF64 one("adamw");
    InF64 start("adamw");
    one.run({step});
    double norm = 0;
    for (const char* const gradient : {"dw", "db"}) {
      for (const double g : start[gradient]) {
        norm += g * g;
      }
    }
    const double scale = std::min(1.0, 1 / (std::sqrt(norm) + 1e-6));
    ASSERT_LT(scale, 1);
    for (const std::string parameter : {"w", "b"}) {
      for (std::size_t i = 0; i < start[parameter].size(); ++i) {
        const double w = start[parameter][i];
        const double g = start["d" + parameter][i] * scale;
        const double m = 0.9 * start[parameter + "1"][i] + 0.1 * g;
        const double v = 0.999 * start[parameter + "2"][i] + 0.001 * g * g;
        const auto t = static_cast<double>(step);
        const double decay = parameter == "w" ? 0.01 * w : 0;
        const double update = m / (1 - std::pow(0.9, t)) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
        EXPECT_NEAR(one[parameter][i], w - start["rate"][0] * (update + decay), 1e-12);
        EXPECT_NEAR(one[parameter + "1"][i], m, 1e-12);
        EXPECT_NEAR(one[parameter + "2"][i], v, 1e-12);
      }
    }
  }
}

TEST(CorpusResults, MomentumMatchesALoop) {
  InF64 one("momentum");
  InF64 start("momentum");
  one.run();
  for (std::size_t i = 0; i < 37; ++i) {
    const double velocity = 0.9 * start["velocity"][i] + start["dw"][i];
    const double w = start["w"][i] - start["rate"][i] * velocity;
    EXPECT_NEAR(one["velocity"][i], velocity, 1e-12);
    EXPECT_NEAR(one["w"][i], w, 1e-12);
    EXPECT_NEAR(one["average"][i], 0.9 * start["average"][i] + 0.1 * w, 1e-12);
  }
}

TEST(CorpusResults, TagiLinearMatchesLoops) {
  InF64 one("tagi_linear");
  InF64 start("tagi_linear");
  one.run();
  std::vector<double> zm(12), zv(12), adm(20), adv(20);
  std::vector<double> wm = start["wm"], wv = start["wv"], bm = start["bm"], bv = start["bv"];
  for (std::size_t b = 0; b < 4; ++b) {
    for (std::size_t o = 0; o < 3; ++o) {
      const double dm = start["zdm"][b * 3 + o];
      const double dv = start["zdv"][b * 3 + o];
      zm[b * 3 + o] = start["bm"][o];
      zv[b * 3 + o] = start["bv"][o];
      bm[o] += start["bv"][o] * dm;
      bv[o] += std::pow(start["bv"][o], 2) * dv;
      for (std::size_t i = 0; i < 5; ++i) {
        const double w = start["wm"][o * 5 + i];
        const double w_variance = start["wv"][o * 5 + i];
        const double a = start["am"][b * 5 + i];
        const double j = start["j"][b * 5 + i];
        zm[b * 3 + o] += w * a;
        zv[b * 3 + o] += (w * w + w_variance) * start["av"][b * 5 + i] + w_variance * a * a;
        adm[b * 5 + i] += j * w * dm;
        adv[b * 5 + i] += j * j * w * w * dv;
        wm[o * 5 + i] += w_variance * dm * a;
        wv[o * 5 + i] += w_variance * w_variance * dv * a * a;
      }
    }
  }
  expect_near(one["zm"], zm, "zm");
  expect_near(one["zv"], zv, "zv");
  expect_near(one["adm"], adm, "adm");
  expect_near(one["adv"], adv, "adv");
  expect_near(one["wm"], wm, "wm");
  expect_near(one["wv"], wv, "wv");
  expect_near(one["bm"], bm, "bm");
  expect_near(one["bv"], bv, "bv");
}

}  // namespace
}  // namespace yoke::conformance
