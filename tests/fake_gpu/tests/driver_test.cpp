// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/driver_test.cpp: memory, streams, events and graphs of the fake drivers.
#include <chrono>
#include <numeric>
#include <string>
#include <thread>

#include "gpu.h"

namespace fake_gpu_test {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr const char* kScale = R"(
extern "C" __global__ void __launch_bounds__(256) scale(float* x, float factor, long long count) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] = x[i] * factor;
}
)";

TEST_P(FakeGpu, ExportsEveryFunctionThatPluginsCall) {
  Gpu gpu(GetParam());  // checks each name
  int version = 0;
  EXPECT_EQ(gpu.driver_version(&version), 0);
  EXPECT_GT(version, 0);
}

TEST_P(FakeGpu, NewMemoryHoldsAPatternAndKeepsWhatIsCopied) {
  Gpu gpu(GetParam());
  gpu.use();
  void* stream = gpu.new_stream();
  const Address fresh = gpu.new_memory(1000);
  EXPECT_THAT(gpu.download<unsigned char>(stream, fresh, 1000), Each(0xcd));
  const std::vector<int> sent = {1, 2, 3};
  const Address kept = gpu.upload(stream, sent);
  EXPECT_EQ(gpu.download<int>(stream, kept, 3), sent);
  EXPECT_EQ(gpu.fill_halves(kept, 0x0102, 2, stream), 0);
  EXPECT_EQ(gpu.download<int>(stream, kept, 2), (std::vector<int>{0x01020102, 2}));
  EXPECT_EQ(gpu.memory_free(fresh), 0);
  EXPECT_EQ(gpu.memory_free(kept), 0);
  EXPECT_EQ(gpu.stream_destroy(stream), 0);
  EXPECT_EQ(gpu.context_release(0), 0);
}

TEST_P(FakeGpu, ReportsLiveObjectsWhenTheContextIsReleased) {
  Gpu gpu(GetParam());
  gpu.use();
  const Address memory = gpu.new_memory(16);
  EXPECT_EQ(gpu.context_release(0), 0);
  EXPECT_THAT(gpu.complaints(), HasSubstr("released with 1 live allocations"));
  gpu.use();
  EXPECT_EQ(gpu.memory_free(memory), 0);
}

TEST_P(FakeGpu, MemoryRunsOut) {
  Gpu gpu(GetParam(), {{"FAKE_GPU_MEMORY", "1000"}});
  gpu.use();
  const Address first = gpu.new_memory(600);
  Address second = 0;
  EXPECT_EQ(gpu.memory_allocate(&second, 600), 2);
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  EXPECT_EQ(gpu.memory_info(&free_bytes, &total), 0);
  EXPECT_EQ(free_bytes, 400U);
  EXPECT_EQ(gpu.memory_free(first), 0);
  EXPECT_EQ(gpu.memory_allocate(&second, 600), 0);
  EXPECT_EQ(gpu.memory_free(second), 0);
}

TEST_P(FakeGpu, CopiesOutOfRangeAreRefused) {
  Gpu gpu(GetParam());
  gpu.use();
  void* stream = gpu.new_stream();
  const Address memory = gpu.new_memory(16);
  const char bytes[17] = {};
  EXPECT_EQ(gpu.copy_from_host(memory, bytes, 17, stream), 1);
  EXPECT_THAT(gpu.complaints(), HasSubstr("is not in an allocation"));
  EXPECT_EQ(gpu.fill_bytes(memory + 8, 0, 9, stream), 1);
  EXPECT_THAT(gpu.complaints(), HasSubstr("is not in an allocation"));
  EXPECT_EQ(gpu.memory_free(memory + 8), 1);
  EXPECT_THAT(gpu.complaints(), HasSubstr("not the start"));
  EXPECT_EQ(gpu.memory_free(memory), 0);
  EXPECT_EQ(gpu.stream_destroy(stream), 0);
}

// The time at which a copy reads its source is the only difference between pageable and pinned memory.
TEST_P(FakeGpu, PinnedSourceIsReadWhenTheCopyRuns) {
  Gpu gpu(GetParam());
  gpu.use();
  void* stream = gpu.new_stream();
  int pageable = 1;
  void* pinned = nullptr;
  ASSERT_EQ(gpu.host_allocate(&pinned, sizeof(int), 1), 0);
  *static_cast<int*>(pinned) = 1;
  const Address first = gpu.new_memory(sizeof(int));
  const Address second = gpu.new_memory(sizeof(int));
  Gate gate;
  ASSERT_EQ(gpu.call_on_stream(stream, Gate::wait, &gate), 0);
  ASSERT_EQ(gpu.copy_from_host(first, &pageable, sizeof(int), stream), 0);
  ASSERT_EQ(gpu.copy_from_host(second, pinned, sizeof(int), stream), 0);
  EXPECT_EQ(gpu.stream_query(stream), 600);
  pageable = 2;
  *static_cast<int*>(pinned) = 2;
  gate.open();
  EXPECT_THAT(gpu.download<int>(stream, first, 1), Each(1));
  EXPECT_THAT(gpu.download<int>(stream, second, 1), Each(2));
  EXPECT_EQ(gpu.stream_query(stream), 0);
  EXPECT_EQ(gpu.host_free(pinned), 0);
  EXPECT_EQ(gpu.memory_free(first) + gpu.memory_free(second) + gpu.stream_destroy(stream), 0);
}

TEST_P(FakeGpu, FreeingMemoryInUseIsReported) {
  Gpu gpu(GetParam());
  gpu.use();
  void* stream = gpu.new_stream();
  const Address memory = gpu.new_memory(64);
  Gate gate;
  ASSERT_EQ(gpu.call_on_stream(stream, Gate::wait, &gate), 0);
  ASSERT_EQ(gpu.fill_bytes(memory, 0, 64, stream), 0);
  std::thread freeing([&] {  // waits for the device, as the driver does
    gpu.use();
    EXPECT_EQ(gpu.memory_free(memory), 0);
  });
  std::string complaints;
  for (int tries = 0; complaints.empty() && tries < 2000; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    complaints = gpu.complaints();
  }
  EXPECT_THAT(complaints, HasSubstr("is freed while queued work uses it"));
  gate.open();
  freeing.join();
  EXPECT_EQ(gpu.stream_destroy(stream), 0);
}

TEST_P(FakeGpu, DriverCallsInHostFunctionsAreRefused) {
  Gpu gpu(GetParam());
  gpu.use();
  void* stream = gpu.new_stream();
  ASSERT_EQ(gpu.call_on_stream(
                stream, [](void* data) { (void)static_cast<Gpu*>(data)->stream_query(nullptr); }, &gpu),
            0);
  EXPECT_EQ(gpu.stream_synchronize(stream), 0);
  EXPECT_THAT(gpu.complaints(), HasSubstr("stream_query is called in a host function"));
  EXPECT_EQ(gpu.stream_destroy(stream), 0);
}

TEST_P(FakeGpu, DestroyedHandlesAreRecognized) {
  Gpu gpu(GetParam());
  gpu.use();
  void* stream = gpu.new_stream();
  EXPECT_EQ(gpu.stream_destroy(stream), 0);
  EXPECT_EQ(gpu.stream_synchronize(stream), 400);
  EXPECT_THAT(gpu.complaints(), HasSubstr("use of a destroyed stream"));
  EXPECT_EQ(gpu.event_query(stream), 400);
  EXPECT_THAT(gpu.complaints(), HasSubstr("a handle is not of the kind event"));
}

TEST_P(FakeGpu, EventsOrderStreamsOfTwoDevices) {
  Gpu gpu(GetParam(), {{"FAKE_GPU_DEVICES", "2"}, {"FAKE_GPU_SEED", "3"}});
  gpu.use(0);
  void* first = gpu.new_stream();
  void* event = nullptr;
  ASSERT_EQ(gpu.event_create(&event, 0), 0);
  const Address source = gpu.new_memory(64);
  Gate gate;
  ASSERT_EQ(gpu.call_on_stream(first, Gate::wait, &gate), 0);
  ASSERT_EQ(gpu.fill_words(source, 7, 16, first), 0);
  ASSERT_EQ(gpu.event_record(event, first), 0);
  EXPECT_EQ(gpu.event_query(event), 600);
  gpu.use(1);
  void* second = gpu.new_stream();
  const Address target = gpu.new_memory(64);
  ASSERT_EQ(gpu.stream_wait_event(second, event, 0), 0);
  EXPECT_EQ(gpu.copy_on_device(target, source, 64, second), 1);
  EXPECT_THAT(gpu.complaints(), HasSubstr("device 1 cannot access memory of device 0"));
  void* extra = gpu.new_stream();
  EXPECT_EQ(gpu.event_record(event, second), 400);
  EXPECT_THAT(gpu.complaints(), HasSubstr("stream of another device"));
  gate.open();
  EXPECT_EQ(gpu.event_synchronize(event), 0);
  EXPECT_EQ(gpu.stream_synchronize(second), 0);
  EXPECT_EQ(gpu.memory_free(source) + gpu.memory_free(target) + gpu.event_destroy(event), 0);
  EXPECT_EQ(gpu.stream_destroy(first) + gpu.stream_destroy(second) + gpu.stream_destroy(extra), 0);
}

TEST_P(FakeGpu, ElapsedTimeNeedsTimedEvents) {
  Gpu gpu(GetParam());
  gpu.use();
  void* stream = gpu.new_stream();
  void* start = nullptr;
  void* stop = nullptr;
  void* untimed = nullptr;
  EXPECT_EQ(gpu.event_create(&start, 0) + gpu.event_create(&stop, 0) + gpu.event_create(&untimed, 2), 0);
  EXPECT_EQ(
      gpu.event_record(start, stream) + gpu.event_record(stop, stream) + gpu.event_record(untimed, stream),
      0);
  EXPECT_EQ(gpu.stream_synchronize(stream), 0);
  float milliseconds = -1;
  EXPECT_EQ(gpu.event_elapsed(&milliseconds, start, stop), 0);
  EXPECT_GE(milliseconds, 0.0F);
  EXPECT_EQ(gpu.event_elapsed(&milliseconds, start, untimed), 400);
  EXPECT_THAT(gpu.complaints(), HasSubstr("event_elapsed"));
  EXPECT_EQ(gpu.event_destroy(start) + gpu.event_destroy(stop) + gpu.event_destroy(untimed) +
                gpu.stream_destroy(stream),
            0);
}

TEST_P(FakeGpu, CapturedWorkRunsWithEachLaunch) {
  Gpu gpu(GetParam());
  gpu.use();
  void* stream = gpu.new_stream();
  void* module = gpu.load(kScale);
  void* scale = gpu.function(module, "scale");
  const Address memory = gpu.upload<float>(stream, {1, 2});
  ASSERT_EQ(gpu.capture_begin(stream, 1), 0);
  EXPECT_EQ(gpu.launch_1d(stream, scale, 1, 32, memory, 3.0F, 2LL), 0);
  void* graph = nullptr;
  ASSERT_EQ(gpu.capture_end(stream, &graph), 0);
  void* executable = nullptr;
  ASSERT_EQ(gpu.graph_instantiate(&executable, graph, 0), 0);
  EXPECT_EQ(gpu.graph_destroy(graph), 0);
  EXPECT_EQ(gpu.download<float>(stream, memory, 2), (std::vector<float>{1, 2}));
  EXPECT_EQ(gpu.graph_launch(executable, stream) + gpu.graph_launch(executable, stream), 0);
  EXPECT_EQ(gpu.download<float>(stream, memory, 2), (std::vector<float>{9, 18}));
  EXPECT_EQ(gpu.module_unload(module), 0);
  EXPECT_THAT(gpu.complaints(), HasSubstr("a module is unloaded while queued work or a graph uses it"));
  EXPECT_EQ(gpu.memory_free(memory), 0);
  EXPECT_EQ(gpu.graph_launch(executable, stream), 1);
  EXPECT_THAT(gpu.complaints(), HasSubstr("is not in an allocation"));
  EXPECT_EQ(gpu.graph_executable_destroy(executable) + gpu.stream_destroy(stream), 0);
}

TEST_P(FakeGpu, CapturesForbidCallsThatSynchronize) {
  Gpu gpu(GetParam());
  gpu.use();
  void* stream = gpu.new_stream();
  ASSERT_EQ(gpu.capture_begin(stream, 0), 0);
  Address memory = 0;
  EXPECT_EQ(gpu.memory_allocate(&memory, 16), 900);
  EXPECT_EQ(gpu.stream_synchronize(stream), 900);
  void* graph = nullptr;
  EXPECT_EQ(gpu.capture_end(stream, &graph), 901);
  EXPECT_THAT(gpu.complaints(),
              testing::AllOf(HasSubstr("memory_allocate while a capture forbids it"),
                             HasSubstr("stream_synchronize on a stream that is capturing")));
  EXPECT_EQ(gpu.capture_end(stream, &graph), 903);
  EXPECT_THAT(gpu.complaints(), HasSubstr("did not begin"));
  EXPECT_EQ(gpu.stream_destroy(stream), 0);
}

TEST_P(FakeGpu, InjectedFailuresHitOneCall) {
  Gpu gpu(GetParam(), {{"FAKE_GPU_FAIL", "stream_create:2:2"}});
  gpu.use();
  void* first = gpu.new_stream();
  void* second = nullptr;
  EXPECT_EQ(gpu.stream_create(&second, 1, 0), 2);
  second = gpu.new_stream();
  EXPECT_EQ(gpu.stream_destroy(first) + gpu.stream_destroy(second), 0);
}

TEST_P(FakeGpu, StickyErrorsLoseTheDevice) {
  Gpu gpu(GetParam(), {{"FAKE_GPU_FAIL", "fill:2:700"}});
  gpu.use();
  void* stream = gpu.new_stream();
  const Address memory = gpu.new_memory(4);
  EXPECT_EQ(gpu.fill_bytes(memory, 1, 4, stream), 0);
  EXPECT_EQ(gpu.stream_synchronize(stream), 0);
  EXPECT_EQ(gpu.fill_bytes(memory, 2, 4, stream), 0);
  EXPECT_EQ(gpu.stream_synchronize(stream), 700);
  EXPECT_EQ(gpu.fill_bytes(memory, 3, 4, stream), 700);
  EXPECT_EQ(gpu.memory_free(memory), 700);
  EXPECT_EQ(gpu.stream_destroy(stream), 700);
  EXPECT_EQ(gpu.context_release(0), 0);  // nothing is left
}

TEST_P(FakeGpu, VisibleDevicesAreSelectedAndOrdered) {
  Gpu gpu(GetParam(), {{"FAKE_GPU_DEVICES", "4"},
                       {GetParam() ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES", "2,0,9,1"}});
  ASSERT_EQ(gpu.init(0), 0);
  int count = 0;
  EXPECT_EQ(gpu.device_count(&count), 0);
  EXPECT_EQ(count, 2);
  char name[32] = {};
  EXPECT_EQ(gpu.device_name(name, sizeof(name), 0), 0);
  EXPECT_STREQ(name, "Fake GPU 2");
  int device = 0;
  EXPECT_EQ(gpu.device_get(&device, 2), 101);
}

TEST_P(FakeGpu, NoVisibleDeviceFailsAsTheDriverDoes) {
  Gpu gpu(GetParam(), {{GetParam() ? "ROCR_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES", ""}});
  EXPECT_EQ(gpu.init(0), GetParam() ? 101 : 100);
  int count = -1;
  EXPECT_EQ(gpu.device_count(&count), GetParam() ? 100 : 3);
}

INSTANTIATE_TEST_SUITE_P(Of, FakeGpu, testing::Bool(),
                         [](const auto& vendor) { return vendor.param ? "hip" : "cuda"; });

}  // namespace
}  // namespace fake_gpu_test
