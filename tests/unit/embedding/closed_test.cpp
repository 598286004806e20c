// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/closed_test.cpp: functions of aborted streams, lost devices, closed groups and committed files.
#include <yoke/yoke.h>

#include <fstream>
#include <iterator>

#include "training.h"

namespace yoke::test {
namespace {

constexpr ErrorCode kAborted = ErrorCode::kAborted;
constexpr ErrorCode kEmpty = ErrorCode::kFailedPrecondition;
constexpr ErrorCode kLost = ErrorCode::kDeviceLost;

class ClosedStream : public ::testing::TestWithParam<Streams> {};

TEST_P(ClosedStream, AnAbortedStreamThrowsUntilItIsRenewed) {
  const Rig rig(GetParam());
  const std::shared_ptr<Stream> stream = rig.stream("stream");
  const BufferView view = rig.buffer(16);
  const auto routine = link(rig.device, std::string(kDouble), {view, rig.buffer(16)});
  std::vector<float> values(4);
  const std::uint32_t zero = 0;
  const Event other = rig.stream()->record();
  const std::uint64_t id = stream->id();
  stream->abort();
  EXPECT_ERROR(kAborted, stream->from_host(view, values.data()));
  EXPECT_ERROR(kAborted, stream->to_host(values.data(), view));
  EXPECT_ERROR(kAborted, stream->copy(view, rig.buffer(16)));
  EXPECT_ERROR(kAborted, stream->fill(view, &zero, 4));
  EXPECT_ERROR(kAborted, stream->launch(*routine));
  EXPECT_ERROR(kAborted, stream->join(view));
  EXPECT_ERROR(kAborted, stream->wait_for(other));
  ErrorCode status = ErrorCode::kOk;
  stream->host_callback([&](ErrorCode code) { status = code; });
  EXPECT_ERROR(kAborted, stream->wait());
  EXPECT_ERROR(kAborted, stream->wait(1s));
  EXPECT_EQ(status, kAborted);
  EXPECT_ERROR(kAborted, (void)stream->is_idle());
  EXPECT_ERROR(kAborted, stream->record().wait());
  stream->begin_step(1);
  EXPECT_FALSE(stream->failure());
  EXPECT_ERROR(ErrorCode::kUnimplemented, (void)stream->native());
  EXPECT_EQ(stream->device(), rig.device);
  EXPECT_EQ(stream->name(), "stream");
  EXPECT_EQ(stream->id(), id);
  stream->abort();
  stream->renew();
  EXPECT_NE(stream->id(), id);
  fill(*stream, view, 2.0F);
  EXPECT_EQ(read<float>(*stream, view), (std::vector<float>{2, 2, 2, 2}));
}

TEST_P(ClosedStream, TheStreamsOfALostDeviceFail) {
  const Rig rig(GetParam());
  const std::shared_ptr<Device> device = rig.device;
  const auto stream = rig.stream("stream");
  const BufferView view = rig.buffer(16);
  device->set_lost();
  EXPECT_TRUE(device->is_lost());
  const std::uint32_t zero = 0;
  EXPECT_ERROR(kLost, stream->fill(view, &zero, 4); stream->wait());
  EXPECT_ERROR(kLost, stream->record().wait());
  EXPECT_ERROR(kLost, stream->renew());
  EXPECT_ERROR(kLost, fill(*rig.stream(), view, 1.0F); sync_device(*device));
  EXPECT_EQ(device->backend(), rig.backend);
  EXPECT_EQ(device->ordinal(), 0U);
  EXPECT_EQ(device->info().name, rig.backend->device_info(0).name);
  EXPECT_EQ(device->name(), rig.control->name + ":0");
  EXPECT_EQ(device->id(), 0U);
  EXPECT_EQ(device->streams().size(), 1U);
  EXPECT_NO_THROW((void)device->memory());
  EXPECT_NE(device->get(), nullptr);
  EXPECT_ERROR(ErrorCode::kUnimplemented, (void)device->native());
  EXPECT_TRUE(device->is_same(*device));
  EXPECT_TRUE(device->can_access(*device));
  EXPECT_EQ(device->next_stream_number(), 1U);
  device->set_lost();
}

INSTANTIATE_TEST_SUITE_P(, ClosedStream, ::testing::Values(Streams::kWorker, Streams::kNative), streams_name);

TEST(Closed, GroupThrows) {
  const Rig rig;
  DistributedGroup group({}, {Context(rig.stream())});
  group.close();
  EXPECT_ERROR(kEmpty, group.close());
  EXPECT_ERROR(kEmpty, (void)group.size());
  EXPECT_ERROR(kEmpty, group.register_sync_parameters({}));
  EXPECT_ERROR(kEmpty, (void)group.is_registered({}));
  EXPECT_ERROR(kEmpty, (void)group.distributed_params(nn::parameters(nn::batch_norm()).front()));
  EXPECT_ERROR(kEmpty, group.submit_gradient_sync(0, {}));
  EXPECT_ERROR(kEmpty, group.sync_collective());
  EXPECT_ERROR(kEmpty, (void)group.gradient(0, {}));
}

TEST(Closed, ACommittedFileDropsWhatIsWritten) {
  const auto path = std::filesystem::temp_directory_path() / ("yoke-closed-" + std::to_string(::getpid()));
  {
    OutputFile file(path);
    file.stream() << "before";
    file.commit();
    file.stream() << "after";
    EXPECT_THAT(error_of([&] { file.commit(); }), is_error(kEmpty, "output file: it is already committed"));
    EXPECT_FALSE(file.stream());
  }
  std::ifstream saved(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(saved), {}), "before");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace yoke::test
