// SPDX-License-Identifier: Apache-2.0
// tests/unit/device/compile_test.cpp: programs are verified, optimized and compiled once.
#include <thread>

#include "device_test.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CompileTest : public DeviceTest {
 protected:
  CompileTest() {
    control_->on_compile = [this](std::string_view text) {
      const std::lock_guard lock(mutex_);
      texts_.emplace_back(text);
    };
  }
  std::size_t compilation_count() const {
    const std::lock_guard lock(mutex_);
    return texts_.size();
  }

  mutable std::mutex mutex_;
  std::vector<std::string> texts_;  // that the backend compiled
};

TEST_F(CompileTest, EntriesDescribeThePrograms) {
  control_->on_describe = [](std::vector<sdk::Entry>& entries) {
    entries[0].workspace_byte_count = 640;
    entries[0].fingerprint = "print";
    entries[1].deterministic = false;
  };
  const auto code = compile(device(), kTwoPrograms);

  ASSERT_EQ(code->entries().size(), 2U);
  const auto& first = code->entry("first");
  ASSERT_EQ(first.arguments.size(), 2U);
  EXPECT_EQ(first.arguments[0].name, "x");
  EXPECT_EQ(first.arguments[0].type, YOKE_TYPE_F32);
  EXPECT_EQ(first.arguments[0].access, YOKE_ACCESS_IN);
  EXPECT_EQ(first.arguments[0].dims, (std::vector<std::uint64_t>{100, 4}));
  EXPECT_EQ(first.arguments[0].byte_count, 1600U);
  ASSERT_EQ(first.symbols.size(), 1U);
  EXPECT_EQ(first.symbols[0].name, "row");
  EXPECT_EQ(first.symbols[0].low, 0);
  EXPECT_EQ(first.symbols[0].high, 100);
  EXPECT_EQ(first.symbols[0].step, 10);
  EXPECT_EQ(first.workspace_byte_count, 640U);
  EXPECT_EQ(first.fingerprint, "print");
  EXPECT_TRUE(first.deterministic);
  EXPECT_FALSE(code->entry("second").deterministic);
  EXPECT_EQ(code->entry_number("second"), 1U);
  EXPECT_EQ(code->entry("second").arguments[1].access, YOKE_ACCESS_INOUT);
}

TEST_F(CompileTest, UnknownEntryErrorListsTheEntries) {
  const auto code = compile(device(), kTwoPrograms);
  const auto error = error_of([&] { (void)code->entry("third"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_STREQ(error.what(), "test0:0: the code has no program 'third'; its programs are first, second");
  EXPECT_ERROR(ErrorCode::kNotFound, (void)code->entry("absent"));
  EXPECT_ERROR(ErrorCode::kNotFound, (void)code->entry_number("gone"));
  EXPECT_ERROR(ErrorCode::kNotFound, (void)code->entry_number(""));
}

TEST_F(CompileTest, EqualTextsAreCompiledOnceWhileTheCodeLives) {
  auto code = compile(device(), kTwoPrograms);
  const std::string same = "# a comment\n" + std::string(kTwoPrograms) + "\n\n";
  EXPECT_EQ(compile(device(), same), code) << "the canonical text counts";
  EXPECT_EQ(compile_count(rig().runtime), 1U);
  EXPECT_EQ(compilation_count(), 1U);

  code.reset();
  code = compile(device(), kTwoPrograms);
  EXPECT_EQ(compile_count(rig().runtime), 2U);
}

TEST_F(CompileTest, EachDeviceHandleHasItsOwnCode) {
  const auto other = backend()->open_device(0);
  const auto code = compile(device(), kTwoPrograms);
  const auto code_of_other = compile(other, kTwoPrograms);
  EXPECT_NE(code, code_of_other);
  EXPECT_EQ(code_of_other->device(), other);
  EXPECT_EQ(compile_count(rig().runtime), 2U);
}

TEST_F(CompileTest, ThreadsThatNeedOneProgramCompileItOnce) {
  const auto record = control_->on_compile;
  control_->on_compile = [record](std::string_view text) {
    record(text);
    std::this_thread::sleep_for(20ms);
  };
  (void)device();
  std::vector<std::shared_ptr<const Code>> codes(8);
  std::vector<std::thread> threads;
  for (auto& code : codes) {
    threads.emplace_back([&] { code = compile(device(), kTwoPrograms); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(codes, ::testing::Each(codes[0]));
  EXPECT_EQ(compilation_count(), 1U);
}

TEST_F(CompileTest, ThreadsMayCompileAndDropCodeConcurrently) {
  (void)device();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string name = "p" + std::to_string((i + t) % 3);
        const auto code = compile(
            device(), "yoke.program 1\nprogram " + name + "() {\n arg a : f32[2] out\n a[i] = 1.0\n}\n");
        EXPECT_EQ(code->entries().at(0).name, name);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

TEST_F(CompileTest, FailureIsNotCached) {
  control_->on_compile = [failures = 1](std::string_view) mutable {
    if (failures-- > 0) {
      throw sdk::Failure(YOKE_STATUS_UNAVAILABLE, "the compiler is not installed");
    }
  };
  const auto error = error_of([&] { compile(device(), kTwoPrograms); });
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_STREQ(error.what(), "test0:0: code_compile: the compiler is not installed (UNAVAILABLE)");
  EXPECT_EQ(compile(device(), kTwoPrograms)->entries().size(), 2U);
}

TEST_F(CompileTest, InvalidTextsAreRefusedWithLineAndColumn) {
  const struct {
    const char* body;
    const char* text;
  } kCases[] = {
      {"  arg a : f33[2] in\n", "test0:0: compile: line 3, column 11: "},  // does not parse
      {"  arg a : f32[2] in\n  arg b : f32[3] out\n  b[i] = a[i]\n",       // does not verify
       "test0:0: compile: line 5, column "},
  };
  for (const auto& one : kCases) {
    SCOPED_TRACE(one.body);
    EXPECT_THAT(error_of([&] {
                  compile(device(), "yoke.program 1\nprogram p() {\n" + std::string(one.body) + "}\n");
                }),
                is_error(ErrorCode::kInvalidArgument, one.text));
  }
  EXPECT_EQ(compilation_count(), 0U) << "invalid texts must not reach the backend";
}

TEST_F(CompileTest, UnsupportedStatementIsNamedWithTheReason) {
  options_.strict = true;
  control_->unsupported = "exp(";
  const auto error = error_of([&] { compile(device(), kTwoPrograms); });
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("test0:0: the backend does not run program 'second', statement 1 "
                                            "`b[i] = b[i] + exp(a[i])`: there is no unit for exp("),
                                  Not(HasSubstr("'first'"))));
}

TEST_F(CompileTest, FirstUnsupportedStatementsAreNamedAndTheOthersCounted) {
  options_.strict = true;
  control_->unsupported = "a[i]";
  const auto text_of = [&](int statement_count) {
    std::string text = "yoke.program 1\nprogram p() {\n  arg a : f32[2] in\n";
    std::string statements;
    for (int i = 0; i < statement_count; ++i) {
      const std::string name = "b" + std::to_string(i);
      text += "  arg " + name + " : f32[2] out\n";
      statements += "  " + name + "[i] = a[i] * " + std::to_string(i + 2) + ".0\n";
    }
    return text + statements + "}\n";
  };
  const auto error_for = [&](int statement_count) {
    return std::string(error_of([&] { compile(device(), text_of(statement_count)); }).what());
  };
  EXPECT_THAT(error_for(1), AllOf(HasSubstr("statement 1 "), Not(HasSubstr("more statement"))));
  EXPECT_THAT(error_for(2), AllOf(HasSubstr("; and 1 more statement,"), Not(HasSubstr("statement 2 "))));
  EXPECT_THAT(error_for(5), HasSubstr("; and 4 more statements,"));
}

TEST_F(CompileTest, LongStatementIsShortenedInTheErrorAndPrintedWholeAtLevelDebug) {
  options_.strict = true;
  options_.log_level = LogLevel::kDebug;
  std::string logged;
  options_.log_sink = [&](LogLevel, std::string_view line) { logged.append(line).append("\n"); };
  control_->unsupported = "tanh";
  std::string value = "a[i]";
  for (int i = 0; i < 40; ++i) {
    value = "tanh(" + value + ")";
  }
  const auto error = error_of([&] {
    compile(device(), "yoke.program 1\nprogram p() {\n  arg a : f32[2] in\n  arg b : f32[2] out\n  b[i] = " +
                          value + "\n}\n");
  });
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("statement 1 `b[i] = tanh(tanh("), HasSubstr("...`: there is no unit")));
  EXPECT_THAT(logged, HasSubstr("`b[i] = " + value + "`: there is no unit"));
}

TEST_F(CompileTest, VerdictsAreRequestedOnceWithRoomForEveryStatement) {
  static std::vector<std::uint32_t> capacities;
  capacities.clear();
  control_->program.can_compile = [](yoke_device* on, const yoke_compile_args* args, std::uint32_t capacity,
                                     std::uint64_t stride, yoke_verdict* rows, std::uint32_t* out_count,
                                     yoke_error* error) {
    capacities.push_back(capacity);
    return sdk::detail::can_compile(on, args, capacity, stride, rows, out_count, error);
  };
  options_.strict = true;
  control_->unsupported = "exp(";
  EXPECT_ERROR(ErrorCode::kUnimplemented, compile(device(), kTwoPrograms));
  EXPECT_THAT(capacities, testing::ElementsAre(2U)) << "the text has two statements";
  EXPECT_EQ(compilation_count(), 1U) << "can_compile compiles nothing";
}

TEST_F(CompileTest, VerdictsOnMissingProgramsOrStatementsAreTolerated) {
  options_.strict = true;
  control_->on_compile = [](std::string_view) { throw sdk::Failure(YOKE_STATUS_UNIMPLEMENTED, "no unit"); };
  const auto error_for = [&](const sdk::Verdict& verdict) {
    control_->verdicts = {verdict};
    return error_of([&] { compile(device(), kTwoPrograms); });
  };
  EXPECT_THAT(error_for({1000, 0, YOKE_VERDICT_UNSUPPORTED, "too far"}),
              is_error(ErrorCode::kUnimplemented, "the backend does not run program 'first': no unit"));
  EXPECT_THAT(error_for({1, 1000, YOKE_VERDICT_UNSUPPORTED, "too far"}),
              is_error(ErrorCode::kUnimplemented, "program 'second', statement 1001: too far"));
}

TEST_F(CompileTest, DescriptionThatContradictsTheProgramIsAPluginError) {
  const std::function<void(std::vector<sdk::Entry>&)> mistakes[] = {
      [](auto& entries) { entries[0].name += "x"; },
      [](auto& entries) { entries[0].arguments.push_back(entries[0].arguments[0]); },
      [](auto& entries) { entries[0].arguments[0].name = "y"; },
      [](auto& entries) { entries[0].arguments[0].type = YOKE_TYPE_I32; },
      [](auto& entries) { entries[0].arguments[0].access = YOKE_ACCESS_INOUT; },
      [](auto& entries) {
        entries[0].arguments[0].dims = {4, 100};
      },
      [](auto& entries) {
        entries[0].arguments[0].dims = {100, 4, 1};
      },
      [](auto& entries) { entries[0].arguments[0].byte_count += 4; },
      [](auto& entries) {
        entries[0].symbols.push_back({"ghost", 0, 1, 1});
      },
      [](auto& entries) { entries.pop_back(); },
      [](auto& entries) { entries[1].arguments[0].alignment = 2; },    // below the element's size
      [](auto& entries) { entries[1].arguments[0].alignment = 512; },  // above that of buffers
      [](auto& entries) { entries[1].arguments[0].alignment = 12; },   // not a power of two
  };
  for (const auto& mistake : mistakes) {
    control_->on_describe = mistake;
    EXPECT_THAT(error_of([&] { compile(device(), kTwoPrograms); }),
                is_error(ErrorCode::kInternal, "test0:0: code_", "the plugin 'test0'"));
  }
  EXPECT_EQ(backend()->live_counts().codes, 0U);
}

TEST_F(CompileTest, BackendWithoutProgramsIsNamedWithAnAlternative) {
  options_.strict = true;
  control_->provides.programs = false;
  EXPECT_THAT(error_of([&] { compile(device(), kTwoPrograms); }),
              is_error(ErrorCode::kUnimplemented, "backend 'test0' does not run programs", "such as cc"));
}

TEST_F(CompileTest, ProgramsAreOptimizedBeforeTheBackendCompilesThem) {
  const auto code = compile(device(), R"(yoke.program 1
program p() {
  arg a : f32[4] in
  arg b : f32[4] out
  temp unused : f32[4]
  unused[i] = exp(a[i])
  b[i] = a[i] * 1.0
}
)");
  EXPECT_THAT(texts_, testing::ElementsAre(code->text()));
  EXPECT_THAT(code->text(), AllOf(Not(HasSubstr("unused")), HasSubstr("b[i] = a[i]\n")));
}

TEST_F(CompileTest, CodeOutlivesTheRuntime) {
  const auto code = compile(device(), kTwoPrograms);
  rig_.reset();
  EXPECT_EQ(code->device()->backend()->live_counts().codes, 1U);
}

}  // namespace
}  // namespace yoke::test
