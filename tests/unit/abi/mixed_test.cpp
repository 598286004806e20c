// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/mixed_test.cpp: programs in which the plugin's own kernels run some statements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/program/text.h>
#include <yoke/sdk/mixed.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace yoke::sdk {
namespace {

// Has temporaries before, between and after its arguments.
constexpr std::string_view kText =
    "yoke.program 1\n"
    "program sums(symbol k in 0..3) {\n"
    "  temp t : f32[2]\n"
    "  arg x : f32[2] in\n"
    "  temp u : f32[2]\n"
    "  arg y : f32[2] out\n"
    "  t[i] = x[i] + f32(k)\n"
    "  u[i] = t[i] * 10.0\n"
    "  y[i] = u[i] + t[i]\n"
    "}\n";

// A kernel for one statement; it multiplies by 100 where the text says 10.
KernelFor kernel_of(std::size_t native) {
  return [native](const program::Program& program, std::size_t statement) -> Kernel {
    if (statement != native) {
      return {};
    }
    const std::uint32_t target = program.statements[statement].target.tensor;
    return [target](std::span<void* const> tensors, std::span<const std::int64_t> symbols) {
      EXPECT_THAT(symbols, testing::ElementsAre(2));
      for (int i = 0; i < 2; ++i) {
        static_cast<float*>(tensors[target])[i] = 100 * static_cast<const float*>(tensors[target - 2])[i];
      }
    };
  };
}

TEST(MixedProgram, RunsKernelsAndTheExecutorOnTheSameTensors) {
  const program::Module module = read_program(kText);
  const MixedProgram mixed(module.programs[0], kernel_of(1));
  std::array<float, 2> x = {1, 2};
  std::array<float, 2> y = {};
  std::vector<float> workspace(mixed.workspace_byte_count() / sizeof(float));
  ASSERT_GE(workspace.size(), 4U);
  const std::array<void*, 2> arguments = {x.data(), y.data()};
  const std::array<std::int64_t, 1> symbols = {2};

  mixed.run(arguments, workspace.data(), symbols);

  EXPECT_THAT(y, testing::ElementsAre(303, 404));
  EXPECT_THAT(x, testing::ElementsAre(1, 2));
}

TEST(MixedProgram, VerdictsNameTheStatementsThatHaveAKernel) {
  const std::vector<Verdict> verdicts = mixed_verdicts(read_program(kText), kernel_of(1));

  ASSERT_EQ(verdicts.size(), 3U);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(verdicts[i].program, 0U);
    EXPECT_EQ(verdicts[i].statement, i);
    EXPECT_EQ(verdicts[i].verdict, i == 1 ? YOKE_VERDICT_NATIVE : YOKE_VERDICT_DECOMPOSED);
    EXPECT_EQ(verdicts[i].reason.empty(), i == 1);
  }
}

}  // namespace
}  // namespace yoke::sdk
