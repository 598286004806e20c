// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/compile_test.cpp: errors of the run-time compiler.
#include "compile.h"

#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <string>

namespace yoke::gpu {
namespace {

constexpr const char* kText = R"(yoke.program 1
program two() {
  arg x: f32[4] in
  arg y: f32[4] out
  arg z: f32[4] out
  y[i] = x[i] + 1
  z[i] = x[i] * 2
}
)";

TEST(CompileErrorTest, NamesTheStatementOfTheKernelWithTheFirstError) {
  const program::Program program = program::parse_and_verify(kText).programs[0];
  codegen::Plan plan;
  plan.source =
      "// prelude\nYK_KERNEL(64) k1(float* y) {\n  y[0] = 1;\n}\nYK_KERNEL(64) k2(float* z) {\n  z[0] = "
      "w;\n}\n";
  plan.kernels = {{.name = "k1", .threads = 64, .statement = 0},
                  {.name = "k2", .threads = 64, .statement = 1}};
  const std::string second = "program 'two', statement 1 'z[i] = x[i] * 2.0'";
  EXPECT_EQ(place_of(program, plan, "yoke_kernels(6): error: identifier \"w\" is undefined"), second);
  EXPECT_EQ(place_of(program, plan, "yoke_kernels:5:3: warning: w\nyoke_kernels:6:10: error: no 'w'"),
            second);
  EXPECT_EQ(place_of(program, plan, "yoke_kernels(2): error: expected a name"),
            "program 'two', statement 0 'y[i] = x[i] + 1.0'");
  EXPECT_EQ(place_of(program, plan, "yoke_kernels(1): error: in the prelude"), "program 'two'");
  EXPECT_EQ(place_of(program, plan, "yoke_kernels(99): error: beyond the end"), "program 'two'");
  EXPECT_EQ(place_of(program, plan, ""), "program 'two'");
}

}  // namespace
}  // namespace yoke::gpu
