// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/convolution_test.cpp: cc recognizes convolutions and their gradients, runs them in oneDNN,
// and computes correct results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/program/execute.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "../../support/count_allocations.h"
#include "../../support/rounds.h"
#include "corpus.h"
#include "harness.h"

namespace yoke::cc::test {
namespace {

using ::testing::Each;
using ::testing::StartsWith;

constexpr char kOneDnn[] = "oneDNN convolution (";

// Without AVX-512, oneDNN lacks some of these shapes, which then run as tile kernels.
bool library_has_all() {
  return best_kernels().name == std::string_view("avx512");
}

TEST(ConvolutionTest, TheCorpusRunsInOneDnn) {
  for (const char* name : {"convolution", "convolution_strided", "convolution_groups"}) {
    const std::string_view text = conformance::corpus_text(name);
    std::vector<std::string> notes = notes_of(text);
    if (std::string_view(name) == "convolution_strided") {
      EXPECT_EQ(notes.back(), "tile kernel: oneDNN has no fast convolution of this shape");
      notes.pop_back();
    }
    if (library_has_all()) {
      EXPECT_THAT(notes, Each(StartsWith(kOneDnn))) << name;
    }
    for (const int threads : {1, 3}) {
      for (const std::uint64_t seed : {1U, 2U, 3U}) {
        check_launch(conformance::corpus_case(text, seed), {}, threads, best_kernels());
      }
    }
  }
}

// The geometry of one spatial dimension.
struct Dimension {
  int in, out, kernel, stride, dilation, before;
};

struct Shape {
  std::vector<Dimension> dimensions;
  int batch = 1;
  int groups = 0;  // 0: there is no loop over groups
  int in = 1;
  int out = 1;
  bool channels_last = false;
  std::string types[3] = {"f32", "f32", "f32"};  // of the factors and the target
  std::string assign = "=";
};

using Names = std::vector<std::string>;

std::string joined(const Names& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return "[" + text + "]";
}

// The indices of one tensor: the batch or the output channel, the group, the channel, and the place in the image.
std::string list(const Shape& shape, const std::string& first, const std::string& group,
                 const std::string& channel, const Names& image, bool weights) {
  Names names;
  if (weights && shape.groups != 0) {
    names.push_back(group);
  }
  names.push_back(first);
  const bool last = shape.channels_last && !weights;
  if (last) {
    names.insert(names.end(), image.begin(), image.end());
  }
  if (!weights && shape.groups != 0) {
    names.push_back(group);
  }
  names.push_back(channel);
  if (!last) {
    names.insert(names.end(), image.begin(), image.end());
  }
  return joined(names);
}

std::string term(int coefficient, const std::string& loop) {
  return coefficient == 1 ? loop : std::to_string(coefficient) + "*" + loop;
}
std::string shifted(const std::string& index, int constant) {
  return constant == 0  ? index
         : constant > 0 ? index + " + " + std::to_string(constant)
                        : index + " - " + std::to_string(-constant);
}

enum class Kind { kForward, kInputGradient, kWeightGradient };

// A program with one convolution.
std::string text_of(const Shape& shape, Kind kind, const std::string& otherwise = "0") {
  Names in, out, kernel, h, i, direct, inverse;
  for (std::size_t at = 0; at < shape.dimensions.size(); ++at) {
    const Dimension& one = shape.dimensions[at];
    in.push_back(std::to_string(one.in));
    out.push_back(std::to_string(one.out));
    kernel.push_back(std::to_string(one.kernel));
    h.push_back("h" + std::to_string(at));
    i.push_back("i" + std::to_string(at));
    direct.push_back(shifted(term(one.stride, h[at]) + " + " + term(one.dilation, i[at]), -one.before));
    const std::string dividend = shifted(h[at] + " - " + term(one.dilation, i[at]), one.before);
    inverse.push_back(one.stride == 1 ? dividend : "(" + dividend + ") / " + std::to_string(one.stride));
  }
  const std::string number[] = {std::to_string(shape.batch), std::to_string(shape.groups),
                                std::to_string(shape.in), std::to_string(shape.out)};
  const std::string dims[] = {list(shape, number[0], number[1], number[2], in, false),
                              list(shape, number[3], number[1], number[2], kernel, true),
                              list(shape, number[0], number[1], number[3], out, false)};
  const std::string plain[] = {list(shape, "n", "g", "c", h, false), list(shape, "o", "g", "c", i, true),
                               list(shape, "n", "g", "o", h, false)};
  const std::string x = "x" + list(shape, "n", "g", "c", direct, false);
  const std::string y = "y" + list(shape, "n", "g", "o", inverse, false);
  const auto declared = [&](const char* name, int which, int tensor) {
    return std::string("  arg ") + name + " : " + shape.types[which] + dims[tensor] +
           (which != 2            ? " in\n"
            : shape.assign == "=" ? " out\n"
                                  : " inout\n");
  };
  const auto cast = [&](int which, const std::string& read) {
    return shape.types[which] == "f32" ? read : "f32(" + read + ")";
  };
  const auto body = [&](const std::string& target, const Names& summed, const std::string& a,
                        const std::string& b) {
    const std::string names = joined(summed);
    return "  " + target + " " + shape.assign + " sum:f32" + names + " (" + cast(0, a) + " * " + cast(1, b) +
           " else " + otherwise + ")\n";
  };
  const auto with = [](Names names, const Names& more) {
    names.insert(names.end(), more.begin(), more.end());
    return names;
  };
  switch (kind) {
    case Kind::kForward:
      return test::text_of(declared("x", 0, 0) + declared("w", 1, 1) + declared("y", 2, 2) +
                           body("y" + plain[2], with({"c"}, i), x, "w" + plain[1]));
    case Kind::kInputGradient:
      return test::text_of(declared("y", 0, 2) + declared("w", 1, 1) + declared("x", 2, 0) +
                           body("x" + plain[0], with({"o"}, i), y, "w" + plain[1]));
    default:
      return test::text_of(declared("x", 1, 0) + declared("y", 0, 2) + declared("w", 2, 1) +
                           body("w" + plain[1], with({"n"}, h), "y" + plain[2], x));
  }
}

std::uint64_t seed() {
  const char* text = std::getenv("YOKE_TEST_SEED");
  return text == nullptr ? 11 : std::strtoull(text, nullptr, 10);
}

Shape random_shape(std::mt19937_64& random) {
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  Shape shape;
  const int rank = pick(1, 3);
  for (int i = 0; i < rank; ++i) {
    Dimension one{};
    one.kernel = pick(rank == 1 ? 2 : 1, 4);
    one.stride = pick(1, 3);
    one.dilation = pick(1, 2);
    one.out = pick(2, rank == 1 ? 20 : 6);
    const int reach = (one.kernel - 1) * one.dilation;
    one.before = pick(0, reach);
    const int after = pick(0, reach);
    one.in = std::max((one.out - 1) * one.stride + reach + 1 - one.before - after, 1);
    shape.dimensions.push_back(one);
  }
  shape.batch = pick(1, 4);
  shape.groups = pick(0, 3);
  constexpr int kChannels[] = {1, 2, 3, 7, 16, 17};
  shape.in = kChannels[pick(0, 5)];
  shape.out = kChannels[pick(0, 5)];
  shape.channels_last = pick(0, 2) == 0;
  shape.assign = pick(0, 3) == 0 ? "+=" : "=";
  return shape;
}

// The number of multiplications. Small ones keep the reference executor's time to milliseconds.
double work_of(const Shape& shape) {
  double work = shape.batch * std::max(shape.groups, 1) * shape.in * shape.out;
  for (const Dimension& one : shape.dimensions) {
    work *= one.out * one.kernel;
  }
  return work;
}

TEST(ConvolutionTest, RandomShapesMatchTheReference) {
  constexpr int kCount = static_cast<int>(yoke::test::rounds(80));
  const std::uint64_t first = seed();
  std::mt19937_64 random(first);
  int by_library = 0;
  for (int count = 0; count < kCount && !HasFailure(); ++count) {
    Shape shape = random_shape(random);
    while (work_of(shape) > 100000) {
      shape = random_shape(random);
    }
    for (const Kind kind : {Kind::kForward, Kind::kInputGradient, Kind::kWeightGradient}) {
      const std::string text = text_of(shape, kind);
      SCOPED_TRACE("YOKE_TEST_SEED=" + std::to_string(first) + ", shape " + std::to_string(count) + "\n" +
                   text);
      const std::vector<std::string> notes = notes_of(text);
      by_library += static_cast<int>(notes[0].starts_with("oneDNN"));
      conformance::Case one;
      one.seed = first + static_cast<std::uint64_t>(count);
      one.program = read(text);
      one.data.assign(one.program.tensors.size(), {conformance::DataKind::kUniform, 1, -1});
      for (const int threads : {1, 3}) {
        check_launch(one, {}, threads, best_kernels());
      }
    }
  }
  // The others are too small, or oneDNN does not support the shape.
  EXPECT_GT(by_library, library_has_all() ? kCount * 3 / 2 : 0);
}

TEST(ConvolutionTest, ThreadsDivideBatchesGroupsAndChannels) {
  const DnnlEngine engine;
  const auto shape_of = [](int batch, int groups, int in, int out, int image) {
    Shape shape;
    shape.dimensions = {{image, image, 3, 1, 1, 1}, {image, image, 3, 1, 1, 1}};
    shape.batch = batch;
    shape.groups = groups;
    shape.in = in;
    shape.out = out;
    return shape;
  };
  struct {
    Shape shape;
    std::size_t pieces[3];  // forward pass, input gradient, weight gradient
  } const cases[] = {{shape_of(4, 0, 16, 16, 7), {3, 3, 1}},
                     {shape_of(1, 0, 8, 50, 9), {3, 1, 3}},
                     {shape_of(1, 0, 50, 8, 9), {1, 3, 3}},
                     {shape_of(2, 4, 8, 8, 9), {3, 3, 3}}};
  for (const auto& [shape, pieces] : cases) {
    for (const Kind kind : {Kind::kForward, Kind::kInputGradient, Kind::kWeightGradient}) {
      const std::string text = text_of(shape, kind);
      const CompiledProgram compiled = compile_program(read(text), {&engine, &best_kernels(), 3});
      if (library_has_all()) {
        EXPECT_EQ(std::get<LibraryStep>(compiled.steps.at(0).work).calls.pieces.size(),
                  pieces[static_cast<int>(kind)])
            << text;
      }
      expect_like_reference(text, 9, {.threads = 3});
    }
  }
}

// The result if all elements of the first factor are `a`, and all elements of the second one are `b`.
std::vector<float> result_of(const program::Program& p, float a, float b, bool on_cc) {
  std::vector<std::vector<float>> values;
  std::vector<std::byte*> bytes;
  std::vector<void*> arguments;
  for (const program::Tensor& tensor : p.tensors) {
    const bool is_target = tensor.role != program::Role::kIn;
    values.emplace_back(tensor.element_count(), is_target ? 0 : values.empty() ? a : b);
  }
  for (std::vector<float>& each : values) {
    bytes.push_back(reinterpret_cast<std::byte*>(each.data()));
    arguments.push_back(each.data());
  }
  if (on_cc) {
    run_on_cc(p, bytes, {});
  } else {
    program::execute(p, arguments, {});
  }
  return values.back();
}

// 0 times infinity is NaN, so a library must not multiply the padding, nor the padding of its own layouts.
TEST(ConvolutionTest, PaddingIsLeftOutOfSumsWithInfinity) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr int kCount = static_cast<int>(yoke::test::rounds(100));
  std::mt19937_64 random(seed());
  int by_library = 0;
  for (int count = 0; count < kCount && !HasFailure(); ++count) {
    Shape shape = random_shape(random);
    while (work_of(shape) > 50000) {
      shape = random_shape(random);
    }
    for (const Kind kind : {Kind::kForward, Kind::kInputGradient, Kind::kWeightGradient}) {
      const std::string text = text_of(shape, kind);
      SCOPED_TRACE("YOKE_TEST_SEED=" + std::to_string(seed()) + "\n" + text + notes_of(text)[0]);
      by_library += static_cast<int>(notes_of(text)[0].starts_with("oneDNN"));
      const program::Program p = read(text);
      EXPECT_EQ(result_of(p, kInfinity, 1, true), result_of(p, kInfinity, 1, false));
      EXPECT_EQ(result_of(p, 1, kInfinity, true), result_of(p, 1, kInfinity, false));
    }
  }
  EXPECT_GT(by_library, library_has_all() ? kCount : 0);
}

TEST(ConvolutionTest, HalfPrecisionMatchesTheReference) {
  Shape shape;
  shape.dimensions = {{9, 5, 3, 2, 1, 1}, {8, 8, 3, 1, 1, 1}};
  shape.batch = 2;
  shape.in = 18;
  shape.out = 5;
  for (const std::string type : {"bf16", "f16"}) {
    for (const std::string target : {"f32", "bf16", "f16"}) {
      for (const Kind kind : {Kind::kForward, Kind::kInputGradient, Kind::kWeightGradient}) {
        shape.types[0] = shape.types[1] = type;
        shape.types[2] = target;
        const std::string text = text_of(shape, kind);
        if (library_has_all()) {
          EXPECT_THAT(notes_of(text)[0], StartsWith(kOneDnn)) << text;
        }
        expect_like_reference(text, 5, {.threads = 2});
      }
    }
  }
}

TEST(ConvolutionTest, SimilarStatementsAreNotConvolutions) {
  const char* statements[] = {
      "y[n, o, h, v] = sum[c, i, j] (x[n, c, h + i - 1, v + j - 1] * w[o, c, i, j] else 1)",
      "y[n, o, h, v] = sum[c, i, j] (x[n, c, h + i - 1, v + j - 1] else 0) * w[o, c, i, j]",
      "y[n, o, h, v] = sum[c, i, j] ((x[n, c, h + i - 1, v + j - 1] else 2) * w[o, c, i, j] else 0)",
      "y[n, o, h, v] = max[c, i, j] (x[n, c, h + i - 1, v + j - 1] * w[o, c, i, j] else 0)",
      "y[n, o, h, v] = sum[c, i, j] (x[n, c, h + i - 1, v + j - 1] + w[o, c, i, j] else 0)",
      "y[n, o, h, v] = sum[c, i, j] (2 * x[n, c, h + i - 1, v + j - 1] * w[o, c, i, j] else 0)",
      // One dimension of a forward pass and one dimension of an input gradient.
      "y[n, o, h, v] = sum[c, i, j] (x[n, c, 2*h + i - 1, v - j + 1] * w[o, c, i, j] else 0)",
      // A division with the sign of a forward pass; a step that is not the divisor; a negative step.
      "y[n, o, h, v] = sum[c, i, j] (x[n, c, (h + i - 1) / 2, v - j + 1] * w[o, c, i, j] else 0)",
      "y[n, o, h, v] = sum[c, i, j] (x[n, c, (2*h - i + 1) / 3, v - j + 1] * w[o, c, i, j] else 0)",
      "y[n, o, h, v] = sum[c, i, j] (x[n, c, 5 - h - i, v + j - 1] * w[o, c, i, j] else 0)",
      // A loop that indexes two dimensions, or both factors outside of a window.
      "y[n, o, h, v] = sum[c, i, j] (x[n, c, h + i - 1, h + j - 1] * w[o, c, i, j] else 0)",
      "y[n, o, h, v] = sum[c, i, j] (x[n, c, h + i - 1, v + i - 1] * w[o, c, i, j] else 0)",
      "y[n, o, h, v] = sum[c, i] (x[n, c, h + i - 1, v] * w[o, c, i, n] else 0)",
      "y[n, o, h, v] = sum[c, i] (x[n, c, h + i + v - 2, v] * w[o, c, i, 1] else 0)",
      // Both factors are padded; the padding depends on a symbol; no factor has the reduced loop k.
      "y[n, o, h, v] = sum[c, i:3, j] (x[n, c, h + i - 1, v + j - 1] * w[o, c, i - 1, j] else 0)",
      "y[n, o, h, v] = sum[c, i, j] (x[n, c, h + i - row, v + j - 1] * w[o, c, i, j] else 0)",
      "y[n, o, h, v] = sum[c, i, j, k:2] (x[n, c, h + i - 1, v + j - 1] * w[o, c, i, j] else 0)",
  };
  std::uint64_t count = 0;
  for (const char* statement : statements) {
    const std::string text = test::text_of(
        "  arg x : f32[3, 8, 6, 5] in\n  arg w : f32[4, 8, 3, 3] in\n  arg y : f32[3, 4, 6, 5] out\n  " +
            std::string(statement) + "\n",
        "symbol row in 1..3");
    EXPECT_THAT(notes_of(text)[0], ::testing::Not(StartsWith("oneDNN"))) << statement;
    expect_like_reference(text, ++count, {.symbols = {2}});
  }
}

TEST(ConvolutionTest, OffsetsAndOtherOrdersOfLoopsRunInOneDnn) {
  const char* statements[] = {
      // All in range, at an offset with a symbol; loops in another order; padding on one side; one padded
      // dimension; kernels of one element; an input gradient.
      "y[n, o, h, v] = sum[c, i, j] x[n, c, h + i + row, v + j] * w[o, c, i, j]",
      "y[n, o, h, v] = sum[j, i, c] (w[o, c, i, j] * x[n, c, h + i - 2, v + j] else 0)",
      "y[n, o, h, v] = sum[i, c, j] (x[n, c, h + i + 1, v + j + 3] * w[o, c, i, j] else 0)",
      "y[n, o, h, v] = sum[c, j] (x[n, c, h, v + j - 1] * w[o, c, 1, j] else 0)",
      "y[n, o, h, v] = sum[c] (x[n, c, 2*h - 1, 2*v - 1] * w[o, c, 1, 0] else 0)",
      "y[n, o, h, v] = sum[c, i, j] (x[n, c, (h + 2 - i) / 2, (v - j) / 2] * w[o, c, i, j] else 0)",
  };
  std::uint64_t count = 20;
  for (const char* statement : statements) {
    const std::string text = test::text_of(
        "  arg x : f32[3, 8, 12, 10] in\n  arg w : f32[4, 8, 3, 3] in\n  arg y : f32[3, 4, 6, 5] out\n  " +
            std::string(statement) + "\n",
        "symbol row in 0..4");
    if (library_has_all()) {
      EXPECT_THAT(notes_of(text)[0], StartsWith(kOneDnn)) << statement;
    }
    expect_like_reference(text, ++count, {.symbols = {3}, .threads = 2});
  }
}

TEST(ConvolutionTest, LaunchAllocatesOnlyInsideOneDnn) {
  Launchable launchable(read(conformance::corpus_text("convolution")));
  launchable.launch();
  const std::uint64_t before = yoke::test::allocation_count();
  launchable.launch();
  EXPECT_LE(yoke::test::allocation_count() - before, 3U * 4U * 16U);  // four primitives for each convolution
}

}  // namespace
}  // namespace yoke::cc::test
