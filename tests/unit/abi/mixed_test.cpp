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

TEST(MixedProgram, WithoutTemporariesNeedsNoWorkspace) {
  const program::Module module = read_program(
      "yoke.program 1\n"
      "program p() {\n  arg x : f32[2] in\n  arg y : f32[2] out\n  y[i] = x[i] * 2.0\n}\n");
  const MixedProgram mixed(module.programs[0], [](const program::Program&, std::size_t) { return Kernel(); });
  std::array<float, 2> x = {1, 2};
  std::array<float, 2> y = {};
  const std::array<void*, 2> arguments = {x.data(), y.data()};
  EXPECT_EQ(mixed.workspace_byte_count(), 0U);
  mixed.run(arguments, nullptr, {});
  EXPECT_THAT(y, testing::ElementsAre(2, 4));
}

TEST(ReadProgram, InvalidTextsHaveAReason) {
  try {
    (void)read_program("yoke.program 1\nprogram");
    FAIL() << "accepted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), YOKE_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(failure.text(), testing::StartsWith("invalid program: "));
  }
}

TEST(EntryOf, DescribesArgumentsAndSymbolsOfTheProgram) {
  const program::Module module = read_program(kText);
  const Entry entry = entry_of(module.programs[0]);
  EXPECT_EQ(entry.name, "sums");
  ASSERT_EQ(entry.arguments.size(), 2U) << "temporaries are not arguments";
  EXPECT_EQ(entry.arguments[0].name, "x");
  EXPECT_EQ(entry.arguments[0].type, YOKE_TYPE_F32);
  EXPECT_EQ(entry.arguments[0].access, YOKE_ACCESS_IN);
  EXPECT_THAT(entry.arguments[0].dims, testing::ElementsAre(2));
  EXPECT_EQ(entry.arguments[0].byte_count, 8U);
  EXPECT_EQ(entry.arguments[0].alignment, 4U);
  EXPECT_EQ(entry.arguments[1].name, "y");
  EXPECT_EQ(entry.arguments[1].access, YOKE_ACCESS_OUT);
  ASSERT_EQ(entry.symbols.size(), 1U);
  EXPECT_EQ(entry.symbols[0].name, "k");
  EXPECT_EQ(entry.symbols[0].low, 0);
  EXPECT_EQ(entry.symbols[0].high, 3);
  EXPECT_EQ(entry.symbols[0].step, 1);
  EXPECT_EQ(entry.fingerprint, program::fingerprint(module));
}

}  // namespace
}  // namespace yoke::sdk
