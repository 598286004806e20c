// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/copy_test.cpp: copies within a backend, between backends,
// and for backends without device_to_device and fill.
#include <numeric>

#include "rig.h"

namespace yoke::test {
namespace {

constexpr std::size_t kLarge = (std::size_t{9} << 20U) + 37;  // three chunks, the last one short

std::vector<std::uint8_t> pattern(std::size_t count, std::uint32_t seed) {
  std::vector<std::uint8_t> values(count);
  std::uint32_t state = seed;
  for (std::uint8_t& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<std::uint8_t>(state >> 24U);
  }
  return values;
}

// A second backend beside the rig's.
std::shared_ptr<Device> far_device(Rig& rig, Streams streams, std::shared_ptr<Control>* control = nullptr) {
  auto made = register_backend(rig.runtime, 1, Rig::make_control(streams));
  if (control != nullptr) {
    *control = made;
  }
  return rig.runtime.backend("test1")->open_device(0);
}

// The streams of the near and of the far device.
class CrossCopyTest : public testing::TestWithParam<std::tuple<Streams, Streams>> {
 protected:
  Rig rig{std::get<0>(GetParam()), delays()};
  std::shared_ptr<Control> control;
  const std::shared_ptr<Device> far = far_device(rig, std::get<1>(GetParam()), &control);
  const std::shared_ptr<Stream> stream = rig.stream("near");
  const std::shared_ptr<Stream> far_stream = Stream::create(far);

 private:
  static RuntimeOptions delays() {
    RuntimeOptions options;
    options.injected_delay_us = 100;
    options.injected_delay_seed = 7;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Streams, CrossCopyTest,
                         testing::Combine(testing::Values(Streams::kWorker, Streams::kNative),
                                          testing::Values(Streams::kWorker, Streams::kNative)),
                         JoinedNames());

TEST_P(CrossCopyTest, LargeTensorsAreCopiedInBothDirections) {
  const BufferView here = buffer_of<std::uint8_t>(rig.device, kLarge);
  const BufferView there = buffer_of<std::uint8_t>(far, kLarge);
  const BufferView back = buffer_of<std::uint8_t>(rig.device, kLarge);
  const std::vector<std::uint8_t> first = pattern(kLarge, 1);
  const std::vector<std::uint8_t> second = pattern(kLarge, 2);

  stream->from_host(here, first.data());
  stream->copy(there, here);               // this stream reads
  stream->from_host(here, second.data());  // must wait for the copy
  stream->copy(back, there);               // this stream writes

  EXPECT_EQ(read<std::uint8_t>(*far_stream, there), first);
  EXPECT_EQ(read<std::uint8_t>(*stream, back), first);
  EXPECT_EQ(read<std::uint8_t>(*stream, here), second);
}

TEST_P(CrossCopyTest, SmallCopiesKeepTheirOrder) {
  const BufferView here = buffer_of<std::int32_t>(rig.device, 4);
  const BufferView there = buffer_of<std::int32_t>(far, 4);
  std::vector<std::vector<std::int32_t>> seen(60, std::vector<std::int32_t>(4));

  for (std::int32_t i = 0; i < 60; ++i) {
    stream->fill(here, &i, 4);
    (i % 2 == 0 ? stream : far_stream)->copy(there, here);
    far_stream->to_host(seen[static_cast<std::size_t>(i)].data(), there);
  }
  far_stream->wait();
  stream->wait();

  for (std::int32_t i = 0; i < 60; ++i) {
    EXPECT_EQ(seen[static_cast<std::size_t>(i)], std::vector<std::int32_t>(4, i));
  }
}

TEST_P(CrossCopyTest, FailureOnTheOtherDeviceFailsTheStream) {
  const BufferView here = buffer_of<std::uint8_t>(rig.device, 64);
  const BufferView there = buffer_of<std::uint8_t>(far, 64);
  control->fail_code = YOKE_STATUS_DATA_LOSS;
  control->fail_after = 0;

  stream->copy(here, there);

  EXPECT_THAT(error_of([&] { stream->wait(); }), is_error(ErrorCode::kDataLoss, "'near'", "near/staging"));
}

TEST_P(CrossCopyTest, AbortedCopyIsReportedWhenTheOtherDeviceHasEnded) {
  for (const bool writes_there : {true, false}) {
    const BufferView here = buffer_of<std::uint8_t>(rig.device, 64);
    const BufferView there = buffer_of<std::uint8_t>(far, 64);
    const auto aborted = rig.stream();
    const std::uint64_t before = control->call_count;
    control->is_blocked = true;
    aborted->copy(writes_there ? there : here, writes_there ? here : there);
    EXPECT_TRUE(wait_for_calls(*control, before + 1));

    aborted->abort();

    EXPECT_THAT(error_of([&] { aborted->wait(50ms); }),
                is_error(ErrorCode::kDeadlineExceeded, "still uses its memory"));
    control->is_blocked = false;
    EXPECT_ERROR(ErrorCode::kAborted, aborted->wait());
  }
}

TEST(CopyTest, ReadingAChunkOverlapsWritingThePreviousOne) {
  Rig rig;
  std::shared_ptr<Control> control;
  const auto far = far_device(rig, Streams::kWorker, &control);
  const auto stream = rig.stream();
  constexpr std::size_t kChunk = std::size_t{4} << 20U;
  const BufferView here = buffer_of<std::uint8_t>(rig.device, 2 * kChunk);
  const BufferView there = buffer_of<std::uint8_t>(far, 2 * kChunk);
  rig.control->is_blocked = true;

  stream->copy(here, there);

  // The write of the first chunk is blocked; the second chunk is read meanwhile.
  EXPECT_TRUE(wait_for_calls(*control, 2));
  rig.control->is_blocked = false;
  stream->wait();
  EXPECT_EQ(rig.control->call_count.load(), 2U);
}

TEST(CopyTest, SourceIsNotOverwrittenBeforeItIsRead) {
  Rig rig;
  const auto far = far_device(rig, Streams::kWorker);
  const auto stream = rig.stream();
  const auto other = rig.stream();
  const BufferView here = buffer_of<std::uint8_t>(rig.device, 16);
  const BufferView there = buffer_of<std::uint8_t>(far, 8);
  fill<std::uint8_t>(*stream, here, 1);
  stream->wait();
  rig.control->is_blocked = true;

  stream->copy(there, part<std::uint8_t>(here, 8, 8));
  fill<std::uint8_t>(*other, part<std::uint8_t>(here, 8, 8), 2);

  EXPECT_TRUE(wait_for_calls(*rig.control, 2));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(rig.control->call_count, 2U) << "the second fill waits";
  rig.control->is_blocked = false;
  EXPECT_EQ(read<std::uint8_t>(*Stream::create(far), there), std::vector<std::uint8_t>(8, 1));
}

TEST(CopyTest, StreamOfAThirdBackendIsRefused) {
  Rig rig;
  const auto far = far_device(rig, Streams::kWorker);
  register_backend(rig.runtime, 2, Rig::make_control(Streams::kWorker));
  const auto third = Stream::create(rig.runtime.backend("test2")->open_device(0));
  EXPECT_THAT(error_of([&] { third->copy(rig.buffer(4), buffer_of<std::uint8_t>(far, 4)); }),
              is_error(ErrorCode::kInvalidArgument, "test1:0", "test0:0"));
}

class BareTest : public testing::TestWithParam<Streams> {};
INSTANTIATE_TEST_SUITE_P(Streams, BareTest, testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

TEST_P(BareTest, CopyAndFillAreEmulated) {
  auto control = Rig::make_control(GetParam());
  control->make_bare();
  Rig rig(control, {});
  const auto other = rig.backend->open_device(1);
  const auto stream = rig.stream();
  const auto other_stream = Stream::create(other);
  const BufferView a = buffer_of<std::uint8_t>(rig.device, kLarge);
  const BufferView b = buffer_of<std::uint8_t>(other, kLarge);
  const std::vector<std::uint8_t> data = pattern(kLarge, 3);
  const std::vector<std::uint32_t> words(50000, 0x01020304);

  stream->from_host(a, data.data());
  stream->copy(b, a);
  EXPECT_EQ(read<std::uint8_t>(*other_stream, b), data);
  other_stream->fill(part<std::uint32_t>(b, 0, words.size()), words.data(), 4);

  EXPECT_EQ(read<std::uint32_t>(*other_stream, part<std::uint32_t>(b, 0, words.size())), words);
}

TEST_P(BareTest, FailedBlockOfAFillFailsTheStream) {
  auto control = Rig::make_control(GetParam());
  control->make_bare();
  Rig rig(control, {});
  const auto stream = rig.stream();
  const BufferView view = buffer_of<std::uint8_t>(rig.device, 100000);  // two blocks
  control->fail_after = 0;
  fill<std::uint8_t>(*stream, view, 1);
  EXPECT_ERROR(ErrorCode::kInternal, stream->wait());
}

TEST_P(BareTest, AbortedCopyIsReportedWhenTheOtherDeviceHasEnded) {
  auto control = Rig::make_control(GetParam());
  control->make_bare();
  Rig rig(control, {});
  const auto stream = rig.stream();
  const BufferView here = buffer_of<std::uint8_t>(rig.device, 64);
  const BufferView there = buffer_of<std::uint8_t>(rig.backend->open_device(1), 64);
  control->is_blocked = true;
  stream->copy(here, there);
  EXPECT_TRUE(wait_for_calls(*control, 1)) << "the other device is read";

  stream->abort();

  EXPECT_THAT(error_of([&] { stream->wait(50ms); }),
              is_error(ErrorCode::kDeadlineExceeded, "still uses its memory"));
  control->is_blocked = false;
  EXPECT_ERROR(ErrorCode::kAborted, stream->wait());
}

TEST(BareNativeTest, FillReportsItsFirstError) {
  static std::int32_t write_code;
  static std::int32_t wait_code;
  auto control = Rig::make_control(Streams::kNative);
  control->make_bare();
  control->backend.from_host = [](auto...) { return write_code; };
  control->stream.stream_wait = [](auto...) { return wait_code; };
  Rig rig(control, {});
  const BufferView view = rig.buffer(4);
  struct Case {
    std::int32_t write_code;
    std::int32_t wait_code;
    ErrorCode expected;
  };
  for (const Case& one :
       {Case{YOKE_STATUS_RESOURCE_EXHAUSTED, YOKE_STATUS_OK, ErrorCode::kResourceExhausted},
        Case{YOKE_STATUS_RESOURCE_EXHAUSTED, YOKE_STATUS_DATA_LOSS, ErrorCode::kResourceExhausted},
        Case{YOKE_STATUS_OK, YOKE_STATUS_DATA_LOSS, ErrorCode::kDataLoss}}) {
    write_code = one.write_code;
    wait_code = one.wait_code;
    const auto stream = rig.stream();
    fill<std::uint8_t>(*stream, view, 1);
    EXPECT_ERROR(one.expected, stream->wait());
  }
}

}  // namespace
}  // namespace yoke::test
