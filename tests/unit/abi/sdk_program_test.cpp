// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_program_test.cpp: the SDK's checks before a backend
// compiles, links or launches, and the cost of a launch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/program/program.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "count_allocations.h"
#include "fake_backend.h"
#include "loaded_plugin.h"

namespace yoke::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

// The program library does not include the headers of the ABI; its constants must agree with them.
static_assert(program::kMaxNameBytes + 1 == YOKE_NAME_CAPACITY);
static_assert(static_cast<int>(program::Type::kF64) == YOKE_TYPE_F64 &&
              static_cast<int>(program::Type::kBool) == YOKE_TYPE_BOOL);
static_assert(static_cast<int>(program::Role::kIn) == YOKE_ACCESS_IN &&
              static_cast<int>(program::Role::kInOut) == YOKE_ACCESS_INOUT);

// The code has two programs. The first has the arguments x, w (in) and y (out) of 16 bytes each, of which y is
// aligned to 32 bytes, a workspace of 64 bytes, and two symbols.
class SdkProgramTest : public testing::Test {
 protected:
  SdkProgramTest() {
    sdk::Entry entry;
    entry.name = std::string(program::kMaxNameBytes, 'n');
    entry.arguments = {{"x", YOKE_TYPE_F32, YOKE_ACCESS_IN, {2, 2}, 16, 4},
                       {"w", YOKE_TYPE_F32, YOKE_ACCESS_IN, {4}, 16, 4},
                       {"y", YOKE_TYPE_F32, YOKE_ACCESS_OUT, {4}, 16, 32}};
    entry.symbols = {{"row", -100, 100, 50}, {"step", 0, kMax, 1}};
    entry.workspace_byte_count = 64;
    entry.fingerprint = "f";
    sdk::Entry small;
    small.name = "small";
    small.arguments = {{"flat", YOKE_TYPE_F32, YOKE_ACCESS_IN, std::vector<std::uint64_t>(8, 1), 4, 4},
                       {"deep", YOKE_TYPE_F32, YOKE_ACCESS_IN, std::vector<std::uint64_t>(9, 1), 4, 4}};
    small.symbols = {{"pair", kMin, kMax, 2}};
    small.deterministic = false;
    control_->entries = {entry, small};
    control_->provides.memory = true;
    control_->has_peers = false;
    control_->verdicts = {{0, 0, YOKE_VERDICT_NATIVE, ""},
                          {2, 1, YOKE_VERDICT_UNSUPPORTED, std::string(600, 'x')}};
    entered_ = std::make_unique<Entered>(entry_of(0, control_));
    device_ = entered_->open();
    memory_ = entered_->buffer(device_, 512);
    code_ = entered_->compile(device_, "any");
  }
  ~SdkProgramTest() override {
    unlink();
    entered_->programs->code_destroy(code_);
    entered_->backend->buffer_destroy(memory_);
    entered_->close(device_);
  }

  std::int32_t link(std::vector<yoke_binding> bindings, const yoke_binding& workspace) {
    auto args = sized<yoke_link_args>();
    args.bindings = bindings.data();
    args.binding_count = static_cast<std::uint32_t>(bindings.size());
    args.binding_stride = sizeof(yoke_binding);
    args.workspace = &workspace;
    unlink();
    return entered_->programs->routine_link(code_, &args, &routine_, &entered_->error);
  }
  std::int32_t link(std::vector<yoke_binding> bindings) {
    return link(std::move(bindings), {memory_, 256, 64, 0});
  }
  // x at 0, w at 16, y at 32, the workspace at 256.
  void link_well() { ASSERT_EQ(link({at(0), at(16), at(32)}), YOKE_STATUS_OK) << entered_->error.text; }
  yoke_binding at(std::uint64_t offset, std::uint64_t byte_count = 16) const {
    return {memory_, offset, byte_count, 0};
  }
  std::int32_t launch(const std::vector<std::int64_t>& values) {
    return entered_->programs->routine_launch(nullptr, routine_, values.data(),
                                              static_cast<std::uint32_t>(values.size()), &entered_->error);
  }
  void unlink() {
    entered_->programs->routine_destroy(routine_);
    routine_ = nullptr;
  }

  std::shared_ptr<Control> control_ = std::make_shared<Control>();
  std::unique_ptr<Entered> entered_;
  yoke_device* device_ = nullptr;
  yoke_buffer* memory_ = nullptr;
  yoke_code* code_ = nullptr;
  yoke_routine* routine_ = nullptr;
};

TEST_F(SdkProgramTest, CanCompileFillsRowsTruncatesReasonsAndCompilesNothing) {
  std::array<yoke_verdict, 2> verdicts{};
  const yoke_compile_args args = as_text("any");
  std::uint32_t count = 0;
  const int before = control_->live_code_count;
  control_->on_compile = [](std::string_view) { FAIL() << "compiled"; };

  ASSERT_EQ(entered_->programs->can_compile(device_, &args, 2, sizeof verdicts[0], verdicts.data(), &count,
                                            nullptr),
            YOKE_STATUS_OK);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(verdicts[1].program, 2U);
  EXPECT_EQ(verdicts[1].statement, 1U);
  EXPECT_EQ(verdicts[1].verdict, YOKE_VERDICT_UNSUPPORTED);
  EXPECT_EQ(std::string(verdicts[1].reason).size(), YOKE_REASON_CAPACITY - 1U);
  EXPECT_EQ(control_->live_code_count, before);
}

TEST_F(SdkProgramTest, OnlyFormatIsTheOneOfPrograms) {
  std::array<yoke_format, 2> formats{};
  formats.fill({"", 7, 7});
  std::uint32_t count = 0;

  EXPECT_EQ(
      entered_->programs->formats(entered_->plugin, 2, sizeof formats[0], formats.data(), &count, nullptr),
      YOKE_STATUS_OK);
  EXPECT_EQ(count, 1U);
  EXPECT_STREQ(formats[0].format, YOKE_PROGRAM_FORMAT);
  EXPECT_EQ(formats[0].version, YOKE_PROGRAM_VERSION);
  EXPECT_EQ(formats[0].reserved, 0U);
}

TEST_F(SdkProgramTest, OtherFormatsAndMissingTextsAreRefused) {
  const auto& programs = *entered_->programs;
  yoke_code* code = nullptr;
  std::uint32_t count = 0;
  yoke_compile_args args = as_text("any");
  const auto check = [&](std::int32_t expected, const std::string& text) {
    EXPECT_EQ(programs.code_compile(device_, &args, &code, &entered_->error), expected);
    EXPECT_EQ(entered_->error.text, text);
    EXPECT_EQ(programs.can_compile(device_, &args, 0, 0, nullptr, &count, &entered_->error), expected);
    EXPECT_EQ(entered_->error.text, text);
    args = as_text("any");
  };
  args.format = "other";
  check(YOKE_STATUS_UNIMPLEMENTED,
        "the backend does not read the format 'other' 1; it reads 'yoke.program' 1");
  args.format = nullptr;
  check(YOKE_STATUS_UNIMPLEMENTED, "the backend does not read the format '' 1; it reads 'yoke.program' 1");
  args.version = 2;
  check(YOKE_STATUS_UNIMPLEMENTED,
        "the backend does not read the format 'yoke.program' 2; it reads 'yoke.program' 1");
  args.text = nullptr;
  check(YOKE_STATUS_INVALID_ARGUMENT, "text is NULL");
  args.flags = 3;
  EXPECT_EQ(programs.code_compile(device_, &args, &code, &entered_->error), YOKE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(entered_->error.text, "code_compile: unknown flags 3; update the plugin");
}

TEST_F(SdkProgramTest, TextsReachTheBackendInFull) {
  std::vector<std::string> texts;
  control_->on_compile = [&](std::string_view text) { texts.emplace_back(text); };
  yoke_compile_args args = as_text("ab");
  for (const char* text : {"abc", static_cast<const char*>(nullptr)}) {
    args.text = text;
    args.byte_count = text == nullptr ? 0 : 2;
    yoke_code* code = nullptr;
    EXPECT_EQ(entered_->programs->code_compile(device_, &args, &code, &entered_->error), YOKE_STATUS_OK);
    entered_->programs->code_destroy(code);
  }
  EXPECT_THAT(texts, testing::ElementsAre("ab", ""));
}

TEST_F(SdkProgramTest, EntriesAndArgumentsAreDescribed) {
  const auto& programs = *entered_->programs;
  std::uint32_t count = 0;
  EXPECT_EQ(programs.code_entry_count(code_, &count, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(count, 2U);
  auto info = sized<yoke_entry_info>();
  ASSERT_EQ(programs.code_describe(code_, 0, &info, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(std::string(info.name), std::string(program::kMaxNameBytes, 'n'));
  EXPECT_EQ(info.argument_count, 3U);
  EXPECT_EQ(info.symbol_count, 2U);
  EXPECT_EQ(info.workspace_byte_count, 64U);
  EXPECT_EQ(info.deterministic, 1);
  EXPECT_STREQ(info.fingerprint, "f");
  ASSERT_EQ(programs.code_describe(code_, 1, &info, nullptr), YOKE_STATUS_OK);
  EXPECT_STREQ(info.name, "small");
  EXPECT_EQ(info.deterministic, 0);
  EXPECT_EQ(info.workspace_byte_count, 0U);
  auto argument = sized<yoke_argument_info>();
  ASSERT_EQ(programs.code_argument(code_, 0, 0, &argument, nullptr), YOKE_STATUS_OK);
  EXPECT_STREQ(argument.name, "x");
  EXPECT_EQ(argument.type, YOKE_TYPE_F32);
  EXPECT_EQ(argument.access, YOKE_ACCESS_IN);
  EXPECT_EQ(argument.rank, 2U);
  EXPECT_EQ(argument.alignment, 4U);
  EXPECT_THAT(argument.dims, testing::ElementsAre(2, 2, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(argument.byte_count, 16U);
  ASSERT_EQ(programs.code_argument(code_, 0, 2, &argument, nullptr), YOKE_STATUS_OK);
  EXPECT_STREQ(argument.name, "y");
  EXPECT_EQ(argument.access, YOKE_ACCESS_OUT);
  EXPECT_EQ(argument.alignment, 32U);
  ASSERT_EQ(programs.code_argument(code_, 1, 0, &argument, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(argument.rank, std::uint32_t{YOKE_MAX_RANK});
  EXPECT_EQ(programs.code_argument(code_, 1, 1, &argument, &entered_->error), YOKE_STATUS_INTERNAL);
  EXPECT_EQ(entered_->error.text, "argument 'deep' has too many dimensions");
  EXPECT_EQ(programs.code_argument(code_, 1, 2, &argument, &entered_->error), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(entered_->error.text, "program 'small' has no argument 2, only 2");
  EXPECT_EQ(programs.code_argument(code_, 2, 0, &argument, &entered_->error), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(programs.code_describe(code_, 2, &info, &entered_->error), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(entered_->error.text, "the code has no entry 2, only 2");
  EXPECT_EQ(programs.code_describe(code_, 0, nullptr, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(programs.code_argument(code_, 0, 0, nullptr, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(programs.code_entry_count(code_, nullptr, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
}

TEST_F(SdkProgramTest, SymbolsHaveARangeAndAStep) {
  link_well();
  std::vector<std::int64_t> seen;
  control_->on_launch = [&](std::span<const std::int64_t> values) {
    seen.assign(values.begin(), values.end());
  };
  for (const std::vector<std::int64_t>& values :
       std::vector<std::vector<std::int64_t>>{{-100, 0}, {50, 7}, {0, kMax - 1}}) {
    EXPECT_EQ(launch(values), YOKE_STATUS_OK) << entered_->error.text;
    EXPECT_EQ(seen, values);
  }
  seen.clear();
  for (const std::vector<std::int64_t>& values : std::vector<std::vector<std::int64_t>>{
           {-101, 0}, {-150, 0}, {100, 0}, {25, 0}, {49, 0}, {0, -1}, {0, kMax}}) {
    EXPECT_EQ(launch(values), YOKE_STATUS_OUT_OF_RANGE) << values[0] << " " << values[1];
  }
  EXPECT_EQ(launch({25, 0}), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(entered_->error.text, "symbol 'row' is 25; its range is -100..100 step 50");
  EXPECT_EQ(launch({0}), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(entered_->error.text, "the routine has 2 symbols; got 1 value");
  EXPECT_EQ(launch({0, 0, 0}), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(entered_->error.text, "the routine has 2 symbols; got 3 values");
  EXPECT_EQ(entered_->programs->routine_launch(nullptr, routine_, nullptr, 2, &entered_->error),
            YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(entered_->error.text, "symbol_values is NULL");
  EXPECT_TRUE(seen.empty());
}

TEST_F(SdkProgramTest, RangeOfASymbolMayCoverAllIntegers) {
  const std::array<yoke_binding, 2> bindings = {at(0), at(16)};
  auto args = sized<yoke_link_args>();
  args.bindings = bindings.data();
  args.binding_count = 2;
  args.binding_stride = sizeof(yoke_binding);
  args.entry = 1;
  ASSERT_EQ(entered_->programs->routine_link(code_, &args, &routine_, &entered_->error), YOKE_STATUS_OK);
  for (const std::int64_t value : {kMin, kMin + 2, std::int64_t{-2}, std::int64_t{0}, kMax - 1}) {
    EXPECT_EQ(launch({value}), YOKE_STATUS_OK) << value;
  }
  for (const std::int64_t value : {kMin + 1, std::int64_t{-1}, std::int64_t{1}, kMax}) {
    EXPECT_EQ(launch({value}), YOKE_STATUS_OUT_OF_RANGE) << value;
  }
  EXPECT_EQ(launch({0, 0}), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(entered_->error.text, "the routine has 1 symbol; got 2 values");
}

// Backends rely on these checks.
TEST_F(SdkProgramTest, LinkedRangesMayTouchAndBindingsMayBeLargerThanTheArgument) {
  yoke_buffer* other = entered_->buffer(device_, 512);
  EXPECT_EQ(link({at(16), at(48), at(32)}), YOKE_STATUS_OK) << entered_->error.text;
  EXPECT_EQ(link({at(0, 64), at(16, 496), at(32, 480)}), YOKE_STATUS_OK) << entered_->error.text;
  EXPECT_EQ(link({at(20), at(0), at(32)}), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(link({at(0), at(44), at(32)}), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(link({at(0), at(0), {other, 0, 16, 0}}), YOKE_STATUS_OK) << entered_->error.text;
  EXPECT_EQ(link({at(320), at(0), at(224)}), YOKE_STATUS_OK) << "next to the workspace";
  EXPECT_EQ(link({at(316), at(0), at(224)}), YOKE_STATUS_INVALID_ARGUMENT) << "the end of the workspace";
  EXPECT_EQ(link({at(0), at(16), at(32)}, {nullptr, 256, 64, 0}), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(entered_->error.text, HasSubstr("the workspace of program"));
  auto args = sized<yoke_link_args>();
  args.binding_count = 3;
  args.binding_stride = sizeof(yoke_binding);
  const auto& programs = *entered_->programs;
  EXPECT_EQ(programs.routine_link(code_, &args, &routine_, &entered_->error), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(entered_->error.text, "bindings is NULL");
  const std::array<yoke_binding, 3> bindings = {at(0), at(16), at(32)};
  args.bindings = bindings.data();
  EXPECT_EQ(programs.routine_link(code_, &args, &routine_, &entered_->error), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(entered_->error.text, "workspace is NULL");
  EXPECT_EQ(programs.routine_link(code_, &args, nullptr, &entered_->error), YOKE_STATUS_INVALID_ARGUMENT);
  args.entry = 2;
  EXPECT_EQ(programs.routine_link(code_, &args, &routine_, &entered_->error), YOKE_STATUS_OUT_OF_RANGE);
  entered_->backend->buffer_destroy(other);
}

TEST_F(SdkProgramTest, AlignmentIsThatOfTheAddressOfImportedMemory) {
  alignas(256) std::array<char, 512> memory{};
  auto args = sized<yoke_import_args>();
  args.address = reinterpret_cast<std::uintptr_t>(&memory[8]);
  args.byte_count = 128;
  args.kind = YOKE_MEMORY_HOST;
  yoke_buffer* buffer = nullptr;
  ASSERT_EQ(entered_->memory->buffer_import(device_, &args, &buffer, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(link({at(0), at(16), {buffer, 0, 16, 0}}), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(entered_->error.text, HasSubstr("not aligned to 32 bytes"));
  EXPECT_EQ(link({at(0), at(16), {buffer, 24, 16, 0}}), YOKE_STATUS_OK) << entered_->error.text;
  unlink();
  entered_->backend->buffer_destroy(buffer);
}

TEST_F(SdkProgramTest, InvalidBindingsAreRejected) {
  struct Case {
    std::vector<yoke_binding> bindings;
    yoke_binding workspace;
    std::int32_t code;
    std::string text;
  };
  const yoke_binding work = at(256, 64);
  yoke_binding flagged = at(0);
  flagged.flags = 1;
  const std::vector<Case> cases = {
      {{at(0), at(16)}, work, YOKE_STATUS_INVALID_ARGUMENT, "has 3 arguments; got 2 bindings"},
      {{at(0), at(504), at(32)}, work, YOKE_STATUS_OUT_OF_RANGE, "argument 'w' of program"},
      {{at(0), at(16, 12), at(32)}, work, YOKE_STATUS_OUT_OF_RANGE, "needs 16 bytes; its binding has 12"},
      {{at(0), at(18), at(64)}, work, YOKE_STATUS_INVALID_ARGUMENT, "not aligned to 4 bytes"},
      {{at(0), at(16), at(48)}, work, YOKE_STATUS_INVALID_ARGUMENT, "not aligned to 32 bytes"},
      {{{}, at(16), at(32)}, work, YOKE_STATUS_OUT_OF_RANGE, "argument 'x'"},
      {{{nullptr, 0, 16, 0}, at(16), at(32)}, work, YOKE_STATUS_INVALID_ARGUMENT, "has no buffer"},
      {{flagged, at(16), at(32)}, work, YOKE_STATUS_UNIMPLEMENTED, "unknown flags 1"},
      {{at(0), at(16), at(32)}, at(128, 64), YOKE_STATUS_INVALID_ARGUMENT, "not aligned to 256 bytes"},
      {{at(0), at(16), at(32)}, at(256, 63), YOKE_STATUS_OUT_OF_RANGE, "the workspace of program"},
      {{at(0), at(0), at(0)}, work, YOKE_STATUS_INVALID_ARGUMENT, "overlap, and one of them is written"},
      {{at(0), at(16), at(288)}, work, YOKE_STATUS_INVALID_ARGUMENT, "and the workspace of program"}};
  for (const Case& one : cases) {
    EXPECT_EQ(link(one.bindings, one.workspace), one.code) << one.text;
    EXPECT_THAT(entered_->error.text, HasSubstr(one.text));
  }
  EXPECT_EQ(entered_->live_counts().routines, 0U);
  EXPECT_EQ(link({at(0), at(8), at(32)}), YOKE_STATUS_OK) << "inputs may overlap";
}

TEST_F(SdkProgramTest, MemoryOfADeviceWithoutPeerAccessIsRejected) {
  yoke_device* other = entered_->open(1);
  yoke_device* same = entered_->open(0);
  yoke_buffer* far = entered_->buffer(other, 64);
  yoke_buffer* near = entered_->buffer(same, 64);
  std::int32_t allowed = 1;

  EXPECT_EQ(link({{far, 0, 16, 0}, at(16), at(32)}), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(entered_->error.text, HasSubstr("is memory of device 1, which device 0 cannot access"));
  EXPECT_EQ(link({{near, 0, 16, 0}, at(16), at(32)}), YOKE_STATUS_OK) << "another handle of the device";
  unlink();
  EXPECT_EQ(entered_->peers->peer_access(device_, other, &allowed, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(allowed, 0);
  EXPECT_EQ(entered_->peers->peer_access(device_, device_, &allowed, nullptr), YOKE_STATUS_OK);
  EXPECT_EQ(allowed, 1);

  entered_->backend->buffer_destroy(far);
  entered_->backend->buffer_destroy(near);
  entered_->close(other);
  entered_->close(same);
}

TEST_F(SdkProgramTest, CloseCountsEachKindOfObject) {
  link_well();

  EXPECT_EQ(entered_->backend->device_close(device_, &entered_->error), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_EQ(entered_->error.text,
            "device 0 cannot be closed: 1 buffer, 1 code, 1 routine alive; destroy them first");
}

TEST_F(SdkProgramTest, LaunchDoesNotAllocateAndCostsLessThan100Nanoseconds) {
  link_well();
  const std::array<std::int64_t, 2> values = {50, 7};
  constexpr int kLaunches = 10000;
  double best_ns = std::numeric_limits<double>::max();
  std::int32_t codes = 0;

  const std::uint64_t before = allocation_count();
  for (int batch = 0; batch < 20; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) {
      codes |= entered_->programs->routine_launch(nullptr, routine_, values.data(), 2, nullptr);
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best_ns = std::min(best_ns, took.count() / kLaunches);
  }

  EXPECT_EQ(allocation_count(), before);
  EXPECT_EQ(codes, YOKE_STATUS_OK);
  RecordProperty("launch_ns", std::to_string(best_ns));
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(best_ns, 100.0);
#endif
}

}  // namespace
}  // namespace yoke::test
