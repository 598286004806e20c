// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/compile_test.cpp: from text to code: checked, optimized, compiled once.
#include "lab.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using CompileTest = LabTest;

TEST_F(CompileTest, EntriesSayWhatTheProgramsDeclare) {
  lab_.workspace_byte_count = 640;
  const auto code = compile(device(), kTwoPrograms);

  ASSERT_EQ(code->entries().size(), 2U);
  const auto& first = code->entry("first");
  ASSERT_EQ(first.arguments.size(), 2U);
  EXPECT_EQ(first.arguments[0].name, "x");
  EXPECT_EQ(first.arguments[0].type, YOKE_F32);
  EXPECT_EQ(first.arguments[0].access, YOKE_ACCESS_IN);
  EXPECT_EQ(first.arguments[0].dims, (std::vector<std::uint64_t>{100, 4}));
  EXPECT_EQ(first.arguments[0].byte_count, 1600U);
  ASSERT_EQ(first.symbols.size(), 1U);
  EXPECT_EQ(first.symbols[0].name, "row");
  EXPECT_EQ(first.symbols[0].low, 0);
  EXPECT_EQ(first.symbols[0].high, 100);
  EXPECT_EQ(first.symbols[0].step, 10);
  EXPECT_EQ(first.workspace_byte_count, 640U);
  EXPECT_EQ(first.fingerprint, "lab");
  EXPECT_EQ(code->entry_number("second"), 1U);
  EXPECT_EQ(code->entry("second").arguments[1].access, YOKE_ACCESS_INOUT);
}

TEST_F(CompileTest, AnUnknownEntrysErrorListsTheEntries) {
  const auto code = compile(device(), kTwoPrograms);
  const auto error = error_of([&] { (void)code->entry("third"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_STREQ(error.what(), "lab:0: the code has no program 'third': it has first, second");
}

TEST_F(CompileTest, EqualTextsAreCompiledOnceWhileTheCodeLives) {
  auto code = compile(device(), kTwoPrograms);
  const std::string same = "# a comment\n" + std::string(kTwoPrograms) + "\n\n";
  EXPECT_EQ(compile(device(), same), code) << "the canonical text counts";
  EXPECT_EQ(compile_count(*runtime_), 1U);
  EXPECT_EQ(lab_.compiles, 1);

  code.reset();
  code = compile(device(), kTwoPrograms);
  EXPECT_EQ(compile_count(*runtime_), 2U);
}

TEST_F(CompileTest, EachDeviceGetsCodeOfItsOwn) {
  const auto other = backend()->open_device(0);
  const auto code = compile(device(), kTwoPrograms);
  const auto code_of_other = compile(other, kTwoPrograms);
  EXPECT_NE(code, code_of_other);
  EXPECT_EQ(code_of_other->device(), other);
  EXPECT_EQ(compile_count(*runtime_), 2U);
}

TEST_F(CompileTest, ManyThreadsThatWantOneProgramCompileItOnce) {
  lab_.compile_ms = 20;
  (void)device();
  std::vector<std::shared_ptr<const Code>> got(8);
  std::vector<std::thread> threads;
  for (auto& slot : got) {
    threads.emplace_back([&] { slot = compile(device_, kTwoPrograms); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(got, ::testing::Each(got[0]));
  EXPECT_EQ(lab_.compiles, 1);
}

TEST_F(CompileTest, ManyThreadsThatMakeAndDropCodeDoNotDisturbEachOther) {
  (void)device();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string name = "p" + std::to_string((i + t) % 3);
        const auto code = compile(
            device_, "yoke.program 1\nprogram " + name + "() {\n arg a : f32[2] out\n a[i] = 1.0\n}\n");
        EXPECT_EQ(code->entries().at(0).name, name);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

TEST_F(CompileTest, AFailureIsNotRemembered) {
  lab_.failures_left = 1;
  const auto error = error_of([&] { compile(device(), kTwoPrograms); });
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_STREQ(error.what(), "lab:0: code_compile: the compiler is out for lunch (UNAVAILABLE)");
  EXPECT_EQ(compile(device(), kTwoPrograms)->entries().size(), 2U);
}

TEST_F(CompileTest, ATextThatIsNoProgramIsRefusedWithLineAndColumn) {
  const auto error =
      error_of([&] { compile(device(), "yoke.program 1\nprogram p() {\n  arg a : f33[2] in\n}\n"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("lab:0: compile: line 3, column 11: "), HasSubstr("f33")));
  EXPECT_EQ(lab_.compiles, 0) << "the backend never sees it";
}

TEST_F(CompileTest, AProgramThatTheVerifierRejectsIsRefusedWithLineAndColumn) {
  const auto error = error_of([&] {
    compile(device(),
            "yoke.program 1\nprogram p() {\n  arg a : f32[2] in\n  arg b : f32[3] out\n  b[i] = a[i]\n}\n");
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("lab:0: compile: line 5, column "));
}

TEST_F(CompileTest, AStatementThatTheBackendDoesNotRunIsNamedWithTheReason) {
  options_.strict = true;
  lab_.unsupported_op = "exp(";
  const auto error = error_of([&] { compile(device(), kTwoPrograms); });
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(
      error.what(),
      AllOf(HasSubstr(
                "lab:0: the backend does not run program 'second', statement 1 `b[i] = b[i] + exp(a[i])`: "
                "there is no unit for exp("),
            Not(HasSubstr("'first'"))));
}

TEST_F(CompileTest, ADescriptionThatContradictsTheProgramIsThePluginsFault) {
  for (const char* wrong : {"name", "bytes", "symbols", "entries"}) {
    SCOPED_TRACE(wrong);
    lab_.wrong = wrong;
    const auto error = error_of([&] { compile(device(), kTwoPrograms); });
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("lab:0: code_"), HasSubstr("the plugin 'lab'")));
  }
  EXPECT_EQ(backend()->live_counts().codes, 0U);
}

TEST_F(CompileTest, ABackendWithoutProgramsSaysSoAndNamesTheMend) {
  options_.strict = true;
  lab_.programs = false;
  const auto error = error_of([&] { compile(device(), kTwoPrograms); });
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("the backend 'lab' does not run programs"), HasSubstr("such as cc")));
}

TEST_F(CompileTest, ProgramsAreOptimizedBeforeTheBackendSeesThem) {
  const auto code = compile(device(), R"(yoke.program 1
program p() {
  arg a : f32[4] in
  arg b : f32[4] out
  temp unused : f32[4]
  unused[i] = exp(a[i])
  b[i] = a[i] * 1.0
}
)");
  EXPECT_EQ(lab_.last_text, code->text());
  EXPECT_THAT(code->text(), AllOf(Not(HasSubstr("unused")), HasSubstr("b[i] = a[i]\n")));
}

TEST_F(CompileTest, CodeOutlivesEverythingItWasMadeFrom) {
  const auto code = compile(device(), kTwoPrograms);
  device_.reset();
  runtime_.reset();
  EXPECT_EQ(code->device()->backend()->live_counts().codes, 1U);
}

}  // namespace
}  // namespace yoke::test
