// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/scale_test.cpp: the work of the passes grows with the size of the program, not faster.
#include <yoke/program/memory.h>

#include <chrono>
#include <functional>

#include "../../support/count_allocations.h"
#include "pass_text.h"

namespace yoke::passes {
namespace {

#if defined(NDEBUG)
constexpr int kSmall = 2000;
#else
constexpr int kSmall = 300;  // sanitizers make it ten times slower
#endif
constexpr int kFactor = 10;
constexpr double kLargestRatio = 12;  // of the work for kFactor times the statements

std::string n(const char* name, int i) {
  return name + std::to_string(i);
}

// Programs of `count` statements, as text without the header.
struct Shape {
  const char* name;
  std::function<std::string(int)> text;
};

std::string elementwise_chain(int count) {
  std::string tensors = "arg x : f32[4] in\narg y : f32[4] out\n";
  std::string statements = "t0[i] = exp(x[i])\n";
  for (int i = 1; i < count; ++i) {
    statements += n("t", i) + "[i] = " + n("t", i - 1) + "[i] * x[i] + " + n("t", i / 2) + "[i]\n";
  }
  for (int i = 0; i < count; ++i) {
    tensors += "temp " + n("t", i) + " : f32[4]\n";
  }
  return tensors + statements + "y[i] = " + n("t", count - 1) + "[i]\n";
}

// Forward and backward pass: every activation is read again at the other end of the program.
std::string layers(int count) {
  std::string tensors =
      "arg x : f32[2, 2] in\narg w : f32[2, 2] in\narg b : f32[2] in\narg d : f32[2, 2] out\n";
  std::string forward = "temp h0 : f32[2, 2]\nh0[i, j] = x[i, j]\n";
  std::string backward;
  const int depth = count / 5;
  for (int i = 1; i <= depth; ++i) {
    tensors += "temp " + n("z", i) + " : f32[2, 2]\ntemp " + n("a", i) + " : f32[2, 2]\ntemp " + n("h", i) +
               " : f32[2, 2]\ntemp " + n("g", i) + " : f32[2, 2]\n";
    forward += n("z", i) + "[i, j] = sum[k] " + n("h", i - 1) + "[i, k] * w[k, j]\n";
    forward += n("a", i) + "[i, j] = " + n("z", i) + "[i, j] + b[j]\n";
    forward += n("h", i) + "[i, j] = max(" + n("a", i) + "[i, j], 0)\n";
    const std::string above = i == 1 ? n("h", depth) : n("g", i - 1);
    const std::string own = n("h", depth + 1 - i);
    tensors += "temp " + n("m", i) + " : f32[2, 2]\n";
    backward += n("m", i) + "[i, j] = select(" + own + "[i, j] > 0, " + above + "[i, j], 0)\n";
    backward += n("g", i) + "[i, j] = sum[k] " + n("m", i) + "[i, k] * w[j, k]\n";
  }
  return tensors + forward + backward + "d[i, j] = " + n("g", depth) + "[i, j]\n";
}

std::string equal_statements(int count) {
  std::string tensors = "arg x : f32[4] in\narg y : f32[4] out\n";
  std::string statements = "y[i] = 0\n";
  for (int i = 0; i < count / 2; ++i) {
    tensors += "temp " + n("t", i) + " : f32[4]\n";
    statements += n("t", i) + "[i] = sum[j:3] exp(x[i] * f32(j + " + std::to_string(i / 3) + "))\n";
    statements += "y[i] = y[i] * " + n("t", i) + "[i]\n";
  }
  return tensors + statements;
}

std::string updates_in_place(int count) {
  std::string statements;
  for (int i = 0; i < count / 2; ++i) {
    statements += "y[i] += sum[j] x[j] * z[i]\nz[i] = z[i] * x[i]\n";
  }
  return "arg x : f32[4] in\narg y : f32[4] inout\narg z : f32[4] inout\n" + statements;
}

std::string one_value_for_all(int count) {
  std::string tensors = "arg x : f32[4] in\narg y : f32[4] out\ntemp t : f32[4]\n";
  std::string statements = "t[i] = exp(x[i])\ny[i] = 0\n";
  for (int i = 0; i < count; ++i) {
    statements += "y[i] = sin(y[i]) + t[i] * " + std::to_string(i) + "\n";
  }
  return tensors + statements;
}

const Shape kShapes[] = {{"elementwise_chain", elementwise_chain},
                         {"layers", layers},
                         {"equal_statements", equal_statements},
                         {"updates_in_place", updates_in_place},
                         {"one_value_for_all", one_value_for_all}};

class Scale : public testing::TestWithParam<Shape> {};

struct Work {
  std::uint64_t visits = 0;
  std::uint64_t allocations = 0;  // includes verification and the memory plan
};

Work work_for(const Shape& shape, int count, const char* size) {
  program::Program program = program_of("yoke.program 1\nprogram p() {\n" + shape.text(count) + "}\n");
  const std::size_t before = program.statements.size();
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t allocations = test::allocation_count();
  const Optimized result = optimize(std::move(program));
  program::plan_memory(program::lifetimes(result.program));
  const Work work = {result.report.visits, test::allocation_count() - allocations};
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
  std::cout << shape.name << ", " << size << ": " << before << " -> " << result.program.statements.size()
            << " statements, " << result.report.sweeps << " sweeps, " << result.report.visits << " visits, "
            << work.allocations << " allocations, " << spent.count() << " ms\n";
  return work;
}

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.name;
}

TEST_P(Scale, WorkIsNearlyLinear) {
  const Work small = work_for(GetParam(), kSmall, "small");
  const Work large = work_for(GetParam(), kSmall * kFactor, "large");
  EXPECT_LE(static_cast<double>(large.visits), kLargestRatio * static_cast<double>(small.visits));
  EXPECT_LE(static_cast<double>(large.allocations), kLargestRatio * static_cast<double>(small.allocations));
  EXPECT_GE(small.visits, static_cast<std::uint64_t>(kSmall));
  EXPECT_GE(small.allocations, static_cast<std::uint64_t>(kSmall));
}

INSTANTIATE_TEST_SUITE_P(Passes, Scale, testing::ValuesIn(kShapes),
                         [](const auto& shape) { return std::string(shape.param.name); });

}  // namespace
}  // namespace yoke::passes
