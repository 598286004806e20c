// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/fallback_failure_test.cpp: what fails in a fallback arrives like any other failure, and
// strict allows none.
#include "fallback_rig.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace yoke::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Ints = std::vector<std::int32_t>;

class FallbackFailureTest : public testing::TestWithParam<Streams> {
 protected:
  void set_up(RuntimeOptions options = {}) {
    rig_ = std::make_unique<FallbackRig>(FallbackRig::without_programs(GetParam()),
                                         std::make_shared<Control>(), std::move(options));
    stream_ = Stream::create(rig_->device, "one");
    for (int i = 0; i < 3; ++i) {
      buffers_.push_back(buffer_of<std::int32_t>(rig_->device, 256));
      stream_->from_host(buffers_.back(), ones_.data());
    }
    stream_->wait(30s);
    routine_ = link(rig_->device, kAddTo, buffers_);
  }
  ~FallbackFailureTest() override {
    if (rig_ != nullptr) {
      rig_->fallback_control->is_blocked = false;
    }
  }
  void launch(Stream& stream) {
    const std::int64_t factor = 1;
    stream.launch(*routine_, {&factor, 1});
  }

  const Ints ones_ = Ints(256, 1);
  std::unique_ptr<FallbackRig> rig_;
  std::shared_ptr<Stream> stream_;
  std::vector<BufferView> buffers_;
  std::shared_ptr<const Routine> routine_;
};

INSTANTIATE_TEST_SUITE_P(Devices, FallbackFailureTest, testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(FallbackFailureTest, ALaunchThatFailsThereFailsTheStreamHereWithItsText) {
  set_up();
  rig_->fallback_control->fail_after = 0;

  launch(*stream_);

  const Error error = error_of([&] { stream_->wait(); });
  EXPECT_EQ(error.code(), ErrorCode::kInternal);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("stream 'one"), HasSubstr("launch of 'add_to' failed"),
                                  HasSubstr("the test asked for this failure")));
  EXPECT_EQ(rig_->runtime.fallbacks().at(0).launch_count, 0U) << "only what succeeded counts";
}

TEST_P(FallbackFailureTest, ACopyThatFailsHereFailsTheStream) {
  set_up();
  rig_->device_control->fail_after = 3;  // the three copies there succeed, the first one back does not
  rig_->device_control->fail_code = YOKE_UNAVAILABLE;

  launch(*stream_);

  EXPECT_EQ(error_of([&] { stream_->wait(); }).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(rig_->fallback_control->launch_count, 1U);
}

TEST_P(FallbackFailureTest, TheFallbackDeviceMayBeLostAndThisOneIsNot) {
  set_up();
  rig_->fallback_control->fail_after = 0;
  rig_->fallback_control->fail_code = YOKE_DEVICE_LOST;

  launch(*stream_);

  const Error error = error_of([&] { stream_->wait(); });
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error.what(), HasSubstr("the fallback device was lost"));
  EXPECT_FALSE(rig_->device->is_lost());
}

TEST_P(FallbackFailureTest, AfterAFailureAnotherStreamGetsFreshCopies) {
  set_up();
  launch(*stream_);
  stream_->wait();
  const auto other = Stream::create(rig_->device, "two");
  const Ints twos(256, 2);
  other->from_host(buffers_[0], twos.data());
  other->wait();
  rig_->device_control->fail_after = 0;

  launch(*stream_);
  EXPECT_EQ(error_of([&] { stream_->wait(); }).code(), ErrorCode::kInternal);
  other->from_host(buffers_[2], ones_.data());
  launch(*other);

  EXPECT_EQ(read<std::int32_t>(*other, buffers_[2]), Ints(256, 4)) << "1 + 2 * 1 + 1";
}

TEST_P(FallbackFailureTest, ALaunchIsBehindEverythingThatItsStreamWaitsFor) {
  set_up();
  const auto other = Stream::create(rig_->device, "two");
  rig_->device_control->fail_after = 0;
  other->from_host(buffer_of<std::int32_t>(rig_->device, 256), ones_.data());
  error_of([&] { other->wait(); });

  stream_->wait_for(other->record());
  launch(*stream_);

  EXPECT_THAT(error_of([&] { stream_->wait(); }).what(), HasSubstr("the test asked for this failure"));
  EXPECT_EQ(rig_->fallback_control->launch_count, 0U);
}

TEST_P(FallbackFailureTest, AWaitEndsAtItsDeadlineAndTheWorkGoesOn) {
  set_up();
  rig_->fallback_control->is_blocked = true;

  launch(*stream_);

  EXPECT_EQ(error_of([&] { stream_->wait(20ms); }).code(), ErrorCode::kDeadlineExceeded);
  rig_->fallback_control->is_blocked = false;
  stream_->wait();
  EXPECT_EQ(read<std::int32_t>(*stream_, buffers_[2]), Ints(256, 3));
}

TEST_P(FallbackFailureTest, AnAbortedLaunchLeavesTheRoutineGoodForOthers) {
  if (GetParam() == Streams::kNative) {
    GTEST_SKIP() << "abort of a backend with streams aborts its whole device";
  }
  set_up();
  const auto other = Stream::create(rig_->device, "two");
  rig_->fallback_control->is_blocked = true;
  launch(*stream_);
  EXPECT_TRUE(wait_for_calls(*rig_->fallback_control, 1));

  stream_->abort();
  other->from_host(buffers_[2], ones_.data());  // what the aborted launch was to write
  launch(*other);
  rig_->fallback_control->is_blocked = false;

  EXPECT_EQ(error_of([&] { stream_->wait(); }).code(), ErrorCode::kAborted);
  EXPECT_EQ(read<std::int32_t>(*other, buffers_[2]), Ints(256, 3));
}

TEST_P(FallbackFailureTest, ARoutineThatIsLetGoBeforeItsLaunchesEndIsKeptForThem) {
  if (GetParam() == Streams::kNative) {
    GTEST_SKIP() << "the stream gives up its wait for the fallback at the same deadline";
  }
#ifdef __SANITIZE_ADDRESS__
  const __lsan::ScopedDisabler leaks;  // the routine is leaked on purpose
#endif
  RuntimeOptions options;
  options.wait_timeout = 500ms;
  set_up(options);
  rig_->fallback_control->is_blocked = true;
  launch(*stream_);
  launch(*stream_);  // its turn comes when the routine is gone from here

  routine_.reset();
  rig_->fallback_control->is_blocked = false;
  stream_->wait(30s);

  EXPECT_EQ(read<std::int32_t>(*stream_, buffers_[2]), Ints(256, 5)) << "1 + 2 * (1 + 1)";
  EXPECT_THAT(rig_->lines, testing::Contains(HasSubstr("routine.leak device=test0:0 program=add_to")));
}

TEST(Strict, RefusesAFallbackWhenItIsCompiledAndSaysWhatHelps) {
  RuntimeOptions options;
  options.strict = true;
  FallbackRig rig(FallbackRig::without_programs(), std::make_shared<Control>(), options);

  const Error error = error_of([&] { compile(rig.device, kAddTo); });

  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(
      error.what(),
      AllOf(HasSubstr("test0:0: the backend 'test0' does not run programs (it offers no yoke.program/1)"),
            HasSubstr("strict refuses the fallback to 'test1'"),
            HasSubstr("use a backend that runs programs")));
  EXPECT_EQ(rig.runtime.fallbacks().size(), 0U);
  EXPECT_EQ(rig.lines.size(), 0U);
}

TEST(Strict, AllowsABackendThatRunsEverything) {
  RuntimeOptions options;
  options.strict = true;
  FallbackRig rig(std::make_shared<Control>(), std::make_shared<Control>(), options);
  EXPECT_EQ(compile(rig.device, kAddTo)->fallback(), nullptr);
}

TEST(FallbackBackend, ThatIsNotThereIsNamedInTheError) {
  RuntimeOptions options;
  options.fallback_backend = "nowhere";
  FallbackRig rig(FallbackRig::without_programs(), std::make_shared<Control>(), options);

  const Error error = error_of([&] { compile(rig.device, kAddTo); });

  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("the fallback to 'nowhere' is not to be had"),
                                  HasSubstr("does not run programs")));
}

TEST(FallbackBackend, ThatDoesNotRunTheProgramEitherSaysWhichStatement) {
  auto incapable = std::make_shared<Control>();
  incapable->unsupported = "factor";
  FallbackRig rig(FallbackRig::without_programs(), incapable);

  const Error error = error_of([&] { compile(rig.device, kAddTo); });

  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("test1:0: the backend does not run program 'add_to'"),
                                  HasSubstr("there is no unit for factor")));
}

TEST(FallbackBackend, CanBeNone) {
  RuntimeOptions options;
  options.fallback_backend = "";
  FallbackRig rig(FallbackRig::without_programs(), std::make_shared<Control>(), options);
  const Error error = error_of([&] { compile(rig.device, kAddTo); });
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_THAT(error.what(), Not(HasSubstr("fallback")));
}

}  // namespace
}  // namespace yoke::test
