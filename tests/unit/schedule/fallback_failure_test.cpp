// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/fallback_failure_test.cpp: failures in a fallback are reported like any other
// failure, and strict mode forbids fallbacks.
#include "expected_leak.h"
#include "fallback_rig.h"

namespace yoke::test {
namespace {

using testing::HasSubstr;

using Ints = std::vector<std::int32_t>;

class FallbackFailureTest : public testing::TestWithParam<Streams> {
 protected:
  void set_up(RuntimeOptions options = {}, std::shared_ptr<Control> fallback = nullptr) {
    rig_ = std::make_unique<FallbackRig>(FallbackRig::without_programs(GetParam()), std::move(fallback),
                                         std::move(options));
    stream_ = Stream::create(rig_->device, "one");
    buffers_ = ones(*stream_);
    routine_ = link(rig_->device, kAddTo, buffers_);
  }
  ~FallbackFailureTest() override {
    if (rig_ != nullptr) {
      rig_->fallback_control->is_blocked = false;
    }
  }
  void launch(Stream& stream) { test::launch(stream, *routine_); }

  const Ints ones_ = Ints(256, 1);
  std::unique_ptr<FallbackRig> rig_;
  std::shared_ptr<Stream> stream_;
  std::vector<BufferView> buffers_;
  std::shared_ptr<const Routine> routine_;
};

INSTANTIATE_TEST_SUITE_P(Devices, FallbackFailureTest, testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(FallbackFailureTest, FailedLaunchFailsTheStreamWithItsText) {
  set_up();
  rig_->fallback_control->fail_after = 0;

  launch(*stream_);

  EXPECT_THAT(error_of([&] { stream_->wait(); }),
              is_error(ErrorCode::kInternal, "stream 'one", "launch of 'add_to' failed",
                       "the test injected this failure"));
  EXPECT_EQ(rig_->runtime.fallbacks().at(0).launch_count, 0U) << "only successful launches count";
}

TEST_P(FallbackFailureTest, FailedCopyFailsTheStream) {
  set_up();
  rig_->control->fail_after = 3;  // the three argument copies succeed, the copy of the result fails
  rig_->control->fail_code = YOKE_STATUS_UNAVAILABLE;

  launch(*stream_);

  EXPECT_ERROR(ErrorCode::kUnavailable, stream_->wait());
  EXPECT_EQ(rig_->fallback_control->launch_count, 1U);
}

TEST_P(FallbackFailureTest, FailedCopyThroughHostMemoryFailsTheStream) {
  auto staged = std::make_shared<Control>();
  staged->make_bare();
  set_up({}, staged);
  struct Case {
    Control& control;
    int calls;  // that succeed
  };
  // An argument is read from the device or written to the fallback; the result is read from the fallback.
  for (const Case& one : {Case{*rig_->control, 0}, Case{*staged, 0}, Case{*staged, 4}}) {
    const auto stream = Stream::create(rig_->device);
    const auto routine = link(rig_->device, kAddTo, ones(*stream));
    one.control.fail_after = one.calls;
    test::launch(*stream, *routine);
    EXPECT_ERROR(ErrorCode::kInternal, stream->wait()) << one.calls;
  }
}

TEST_P(FallbackFailureTest, LossOfTheFallbackDeviceDoesNotAffectTheDevice) {
  set_up();
  rig_->fallback_control->fail_after = 0;
  rig_->fallback_control->fail_code = YOKE_STATUS_DEVICE_LOST;

  launch(*stream_);

  EXPECT_THAT(error_of([&] { stream_->wait(); }),
              is_error(ErrorCode::kUnavailable, "the fallback device was lost"));
  EXPECT_FALSE(rig_->device->is_lost());
}

TEST_P(FallbackFailureTest, OtherStreamCopiesAgainAfterAFailure) {
  set_up();
  launch(*stream_);
  stream_->wait();
  const auto other = Stream::create(rig_->device, "two");
  const Ints twos(256, 2);
  other->from_host(buffers_[0], twos.data());
  other->wait();
  rig_->control->fail_after = 0;

  launch(*stream_);
  EXPECT_ERROR(ErrorCode::kInternal, stream_->wait());
  other->from_host(buffers_[2], ones_.data());
  launch(*other);

  EXPECT_EQ(read<std::int32_t>(*other, buffers_[2]), Ints(256, 4)) << "1 + 2 * 1 + 1";
}

TEST_P(FallbackFailureTest, LaunchRunsAfterEverythingItsStreamWaitsFor) {
  set_up();
  const auto other = Stream::create(rig_->device, "two");
  rig_->control->fail_after = 0;
  other->from_host(buffer_of<std::int32_t>(rig_->device, 256), ones_.data());
  error_of([&] { other->wait(); });

  EXPECT_THAT(error_of([&] {
                stream_->wait_for(other->record());
                launch(*stream_);
                stream_->wait();
              }).what(),
              HasSubstr("the test injected this failure"));
  EXPECT_EQ(rig_->fallback_control->launch_count, 0U);
}

TEST_P(FallbackFailureTest, WaitEndsAtItsDeadlineAndTheWorkContinues) {
  set_up();
  rig_->fallback_control->is_blocked = true;

  launch(*stream_);

  EXPECT_ERROR(ErrorCode::kDeadlineExceeded, stream_->wait(20ms));
  rig_->fallback_control->is_blocked = false;
  stream_->wait();
  EXPECT_EQ(read<std::int32_t>(*stream_, buffers_[2]), Ints(256, 3));
}

TEST_P(FallbackFailureTest, RoutineIsUsableAfterAnAbortedLaunch) {
  set_up();
  const auto other = Stream::create(rig_->device, "two");
  rig_->fallback_control->is_blocked = true;
  launch(*stream_);
  EXPECT_TRUE(wait_for_calls(*rig_->fallback_control, 1));

  stream_->abort();
  other->from_host(buffers_[2], ones_.data());  // the argument that the aborted launch writes
  launch(*other);
  EXPECT_ERROR(ErrorCode::kDeadlineExceeded, stream_->wait(20ms)) << "the launch still runs";
  rig_->fallback_control->is_blocked = false;

  EXPECT_ERROR(ErrorCode::kAborted, stream_->wait());
  EXPECT_EQ(read<std::int32_t>(*other, buffers_[2]), Ints(256, 3));
}

TEST_P(FallbackFailureTest, RoutineIsKeptForItsPendingLaunches) {
  if (GetParam() == Streams::kNative) {
    GTEST_SKIP() << "the stream gives up its wait for the fallback at the same deadline";
  }
  const ExpectedLeak leak;  // of the routine
  RuntimeOptions options;
  options.wait_timeout = 500ms;
  set_up(options);
  rig_->fallback_control->is_blocked = true;
  launch(*stream_);
  launch(*stream_);  // starts after routine_ is reset

  routine_.reset();
  rig_->fallback_control->is_blocked = false;
  stream_->wait(30s);

  EXPECT_EQ(read<std::int32_t>(*stream_, buffers_[2]), Ints(256, 5)) << "1 + 2 * (1 + 1)";
  EXPECT_THAT(rig_->log.all(), testing::Contains(HasSubstr("routine.leak device=test0:0 program=add_to")));
}

TEST(Strict, RefusesAFallbackAtCompileTime) {
  RuntimeOptions options;
  options.strict = true;
  FallbackRig rig(FallbackRig::without_programs(), nullptr, options);

  EXPECT_THAT(error_of([&] { compile(rig.device, kAddTo); }),
              is_error(ErrorCode::kUnimplemented,
                       "test0:0: backend 'test0' does not run programs (it does not provide yoke.program/1)",
                       "strict mode forbids the fallback to 'test1'", "use a backend that runs programs"));
  EXPECT_EQ(rig.runtime.fallbacks().size(), 0U);
  EXPECT_EQ(rig.log.all().size(), 0U);
}

TEST(FallbackBackend, UnsupportedStatementOfTheFallbackIsNamed) {
  auto incapable = std::make_shared<Control>();
  incapable->unsupported = "factor";
  FallbackRig rig(FallbackRig::without_programs(), incapable);

  EXPECT_THAT(error_of([&] { compile(rig.device, kAddTo); }),
              is_error(ErrorCode::kUnimplemented, "test1:0: the backend does not run program 'add_to'",
                       "there is no unit for factor"));
}

TEST(FallbackBackend, ErrorWithoutAFallbackDoesNotNameOne) {
  for (const std::string name : {"", "test0"}) {
    RuntimeOptions options;
    options.fallback_backend = name;
    FallbackRig rig(FallbackRig::without_programs(), nullptr, options);
    const Error error = error_of([&] { compile(rig.device, kAddTo); });
    EXPECT_THAT(error, is_error(ErrorCode::kUnimplemented, "does not run programs"));
    EXPECT_EQ(std::string_view(error.what()).find("fallback"), std::string_view::npos) << error.what();
  }
}

TEST(FallbackBackend, MissingBackendIsNamedInTheError) {
  RuntimeOptions options;
  options.fallback_backend = "nowhere";
  FallbackRig rig(FallbackRig::without_programs(), nullptr, options);
  EXPECT_THAT(error_of([&] { compile(rig.device, kAddTo); }),
              is_error(ErrorCode::kNotFound, "RuntimeOptions::fallback_backend: no backend 'nowhere'"));
}

}  // namespace
}  // namespace yoke::test
