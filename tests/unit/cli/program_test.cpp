// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/program_test.cpp: yoke program verifies, prints and runs a file.
#include <gmock/gmock.h>

#include "command.h"

namespace yoke {
namespace {

using test::run;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kText = R"(yoke.program 1
program scaled(symbol row in 0..8 step 4) {  # a comment
  arg x : f32[8, 3] in
  arg y : f32[4, 3] out
  temp t : f32[4, 3]
  t[i,j] = x[row + i, j]*2.0
  y[i, j] = t[i, j] + 1.0
}
)";

class YokeProgram : public ::testing::Test {
 protected:
  YokeProgram() { test::write_file(file(), kText); }
  std::string file() const { return folder_ / "a.program"; }
  test::TemporaryFolder folder_;
};

TEST_F(YokeProgram, CanonicalTextIsAFixedPoint) {
  const auto first = run({"program", file()});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("t[i, j] = x[row + i, j] * 2.0"), Not(HasSubstr("comment"))));
  test::write_file(file(), first.out);
  EXPECT_EQ(run({"program", file()}).out, first.out);
}

TEST_F(YokeProgram, OptimizedRemovesTheTemporary) {
  const auto outcome = run({"program", file(), "--optimized"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, Not(HasSubstr("temp")));
}

TEST_F(YokeProgram, OptionReachesTheDevice) {
  const auto plain = run({"program", file(), "--run", "--backend", "cc", "--option", "kernels=plain"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  const auto wrong = run({"program", file(), "--run", "--backend", "cc", "--option", "kernels=plane"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("yoke: --option: "), HasSubstr("kernels"), HasSubstr("plane")));
  EXPECT_EQ(run({"program", file(), "--option", "threads=1"}).err, "yoke: --option needs --run\n");
  EXPECT_EQ(run({"program", file(), "--run", "--option", "threads=1"}).err,
            "yoke: --option needs a --backend other than reference, which has no options\n");
}

TEST_F(YokeProgram, RunPrintsAsManyElementsAsAsked) {
  test::write_file(file(), "yoke.program 1\nprogram ramp() {\n  arg y : f32[8] out\n  y[i] = f32(i)\n}\n");
  EXPECT_THAT(run({"program", file(), "--run"}).out, HasSubstr("; first 0 1 2 3 4 5 ...\n"));
  EXPECT_THAT(run({"program", file(), "--run", "--elements", "8"}).out,
              HasSubstr("; first 0 1 2 3 4 5 6 7\n"));
  EXPECT_EQ(run({"program", file(), "--elements", "8"}).err, "yoke: --elements needs --run\n");
}

TEST_F(YokeProgram, RunNamesTheMemoryThatIsMissing) {
  test::write_file(file(),
                   "yoke.program 1\nprogram big() {\n  arg x : f32[1000000000000] in\n"
                   "  arg y : f32[1000000000000] out\n  y[i] = x[i]\n}\n");
  for (const char* backend : {"reference", "cc"}) {
    const auto outcome = run({"program", file(), "--run", "--backend", backend});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("yoke: program 'big': out of memory: "),
                                   HasSubstr("TiB needed for its tensors, "), HasSubstr(" available; ")));
  }
}

TEST_F(YokeProgram, ExplainSaysWhatHappensToEachStatement) {
  test::write_file(file(),
                   "yoke.program 1\nprogram p() {\n  arg x : f32[8, 4] in\n  arg y : f32[8] out\n"
                   "  temp a : f32[8, 4]\n  temp b : f32[8, 4]\n  temp c : f32[8, 4]\n  temp s : f32[8]\n"
                   "  a[i, j] = exp(x[i, j])\n  b[i, j] = exp(x[i, j]) * 1.0\n  c[i, j] = tanh(x[i, j])\n"
                   "  s[i] = sum[j] a[i, j] + b[i, j]\n  y[i] = s[i]\n}\n");
  const auto outcome = run({"program", file(), "--explain"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("program p: 5 statements, temporaries of 384 bytes"));
  EXPECT_THAT(outcome.out, HasSubstr("line 10: b[i, j] = exp(x[i, j]) * 1.0\n"
                                     "      simplified: b[i, j] = exp(x[i, j])\n"
                                     "      removed: line 9 computes the same value\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("line 11: c[i, j] = tanh(x[i, j])\n      removed: its result is not read\n"));
  EXPECT_THAT(outcome.out, HasSubstr("      removed: s is computed in y\n"));
  EXPECT_THAT(outcome.out, HasSubstr("y[i] = sum[j] a[i, j] + a[i, j]  # line 12\n"));
  EXPECT_THAT(outcome.out, HasSubstr("  @fused[i]\n    1: a[i, j] = exp(x[i, j])  # line 9\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("regions: 1, with 2 statements; bytes that need not go through memory: 256\n"));
  EXPECT_THAT(outcome.out, HasSubstr("y is final after statement 2\n"));
}

TEST_F(YokeProgram, RunOnCcMatchesTheReferenceExecutor) {
  const auto reference = run({"program", file(), "--run", "--seed", "3", "--symbol", "row=4"});
  const auto cc = run({"program", file(), "--run", "--seed", "3", "--symbol", "row=4", "--backend", "cc"});
  ASSERT_EQ(reference.code, 0) << reference.err;
  ASSERT_EQ(cc.code, 0) << cc.err;
  const auto values = [](const std::string& out) {
    return out.substr(out.find("  y :"), out.find('\n', out.find("  y :")) - out.find("  y :"));
  };
  EXPECT_EQ(values(cc.out), values(reference.out));  // one product and one sum of f32: exact
  EXPECT_THAT(cc.out, HasSubstr("largest difference from the reference executor: 0\n"));
  EXPECT_NE(values(run({"program", file(), "--run", "--seed", "3"}).out), values(reference.out));
}

TEST_F(YokeProgram, DifferenceBeyondTheToleranceFails) {
  const auto far = run({"program", file(), "--run", "--backend", "null"});  // null computes nothing
  EXPECT_EQ(far.code, 1);
  EXPECT_THAT(far.err, HasSubstr("program 'scaled': null:0 differs from the reference executor by "));
  EXPECT_THAT(far.err, HasSubstr(", more than the tolerance 0.001; --tolerance sets another one"));
  const auto near = run({"program", file(), "--run", "--backend", "null", "--tolerance", "1e9"});
  EXPECT_EQ(near.code, 0) << near.err;
}

TEST_F(YokeProgram, ErrorNamesFileLineAndColumn) {
  test::write_file(file(), "yoke.program 1\nprogram bad() {\n  arg y : f32[4] out\n  y[i] = z[i]\n}\n");
  const auto outcome = run({"program", file()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("yoke: " + file() + ": line 4, column 10"), HasSubstr("z")));
  EXPECT_EQ(outcome.out, "");
}

TEST_F(YokeProgram, InvalidSymbolsAreWrongUsage) {
  EXPECT_THAT(run({"program", file(), "--run", "--symbol", "row=3"}).err,
              HasSubstr("--symbol row=3 is out of range; the range of 'row' is 0..8 step 4"));
  EXPECT_THAT(run({"program", file(), "--run", "--symbol", "line=3"}).err,
              HasSubstr("no program in the file has a symbol 'line'"));
  EXPECT_EQ(run({"program", file(), "--run", "--symbol", "row"}).code, 2);
}

TEST_F(YokeProgram, OptionsWithoutEffectAreWrongUsage) {
  for (const auto& [words, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--symbol", "row=4"}, "--symbol needs --run"},
           {{"--backend", "cc"}, "--backend needs --run"},
           {{"--seed", "1"}, "--seed needs --run"},
           {{"--run", "--explain"},
            "--run, --explain and --optimized print different things; use one of them"},
           {{"--run", "--symbol", "row=0", "--symbol", "row=4"}, "--symbol gives 'row' two values"}}) {
    std::vector<std::string> all = {"program", file()};
    all.insert(all.end(), words.begin(), words.end());
    const auto outcome = run(all);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_EQ(outcome.err, "yoke: " + message + "\n");
  }
}

TEST_F(YokeProgram, BackendWithoutProgramsIsRefusedWithoutMentioningStrict) {
  const test::UserFolder folder;
  folder.place("good");
  const auto outcome = run({"--probe", "none", "program", file(), "--run", "--backend", "good"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("yoke: good:0: "), Not(HasSubstr("strict"))));
}

TEST_F(YokeProgram, MissingFileIsReported) {
  EXPECT_EQ(run({"program"}).code, 2);
  const auto outcome = run({"program", folder_ / "none"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("cannot read " + (folder_ / "none").string() +
                                     ": No such file or directory; give a file"));
}

TEST_F(YokeProgram, FoldersAndEndlessFilesAreRefused) {
  EXPECT_THAT(run({"program", folder_.path()}).err, HasSubstr(": it is a folder; give a file"));
  EXPECT_THAT(run({"program", "/dev/zero"}).err,
              HasSubstr("/dev/zero: it is larger than 64 MiB; give a file"));
}

}  // namespace
}  // namespace yoke
