// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/kernel_test.cpp: kernels on the fakes: barriers, shuffles, shared memory, limits,
// wrong kernels.
#include <numeric>

#include "gpu.h"

namespace fake_gpu_test {
namespace {

using testing::Each;
using testing::HasSubstr;

// Sums by shuffles inside a warp, then through shared memory and barriers.
constexpr const char* kSum = R"(
#define YK_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
#ifdef __HIPCC_RTC__
#define XOR(value, mask) __shfl_xor(value, mask)
#else
#define XOR(value, mask) __shfl_xor_sync(0xffffffffu, value, mask)
#endif
static __device__ __forceinline__ int warp_sum(int x) {
  for (int mask = warpSize / 2; mask > 0; mask /= 2) x += XOR(x, mask);
  return x;
}
YK_KERNEL(128) sum_blocks(const int* x, int* result) {
  __shared__ int parts[128];
  parts[threadIdx.x] = warp_sum(x[blockIdx.x * blockDim.x + threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int i = 0; i < 128; i += warpSize) sum += parts[i];
    result[blockIdx.x] = sum;
  }
}
YK_KERNEL(128) count(unsigned* counter) { atomicAdd(counter, 1); }
)";

class Kernel : public FakeGpu {
 protected:
  // Runs a kernel on 128 threads that writes ints; returns the error of the stream.
  int run(Gpu& gpu, const std::string& body, std::vector<int>* result = nullptr) {
    gpu.use();
    void* stream = gpu.new_stream();
    void* module = gpu.load("extern \"C\" __global__ void test(int* out) {\n" + body + "\n}");
    const Address memory = gpu.new_memory(512);
    EXPECT_EQ(gpu.launch_1d(stream, gpu.function(module, "test"), 1, 128, memory), 0);
    const int code = gpu.stream_synchronize(stream);
    if (result != nullptr) {
      *result = gpu.download<int>(stream, memory, 128);
    }
    (void)gpu.memory_free(memory);
    (void)gpu.module_unload(module);
    (void)gpu.stream_destroy(stream);
    return code;
  }
};

TEST_P(Kernel, BarriersShufflesAndAtomicsGiveTheirResults) {
  for (const char* seed : {"0", "1", "2", "3"}) {
    Gpu gpu(GetParam(), {{"FAKE_GPU_SEED", seed}});
    gpu.use();
    void* stream = gpu.new_stream();
    void* module = gpu.load(kSum);
    std::vector<int> values(10 * 128);
    std::iota(values.begin(), values.end(), 0);
    const Address input = gpu.upload(stream, values);
    const Address sums = gpu.new_memory(10 * sizeof(int));
    const Address counter = gpu.upload<unsigned>(stream, {5});
    EXPECT_EQ(gpu.launch_1d(stream, gpu.function(module, "sum_blocks"), 10, 128, input, sums), 0);
    EXPECT_EQ(gpu.launch_1d(stream, gpu.function(module, "count"), 10, 128, counter), 0);
    const auto got = gpu.download<int>(stream, sums, 10);
    for (int block = 0; block < 10; ++block) {
      EXPECT_EQ(got[static_cast<std::size_t>(block)], 128 * (128 * block) + 127 * 64) << "block " << block;
    }
    EXPECT_THAT(gpu.download<unsigned>(stream, counter, 1), Each(5 + 1280));
    EXPECT_EQ(gpu.memory_free(input) + gpu.memory_free(sums) + gpu.memory_free(counter), 0);
    EXPECT_EQ(gpu.module_unload(module) + gpu.stream_destroy(stream) + gpu.context_release(0), 0);
  }
}

TEST_P(Kernel, SharedMemoryStartsWithGarbage) {
  Gpu gpu(GetParam());
  std::vector<int> result;
  EXPECT_EQ(run(gpu, "__shared__ int x[128]; if (out[0] == 1) x[0] = 1; out[threadIdx.x] = x[threadIdx.x];",
                &result),
            0);
  EXPECT_THAT(result, Each(static_cast<int>(0xcdcdcdcd)));
}

TEST_P(Kernel, BarrierThatSomeThreadsDoNotReachFails) {
  Gpu gpu(GetParam());
  EXPECT_EQ(run(gpu, "if (threadIdx.x < 100) __syncthreads();\nout[0] = 1;"), 719);
  EXPECT_THAT(gpu.complaints(),
              HasSubstr("kernel test, block (0, 0, 0): 100 threads wait at a barrier (line 2), "
                        "0 wait for other lanes of their warp and 28 of 128 have returned"));
}

TEST_P(Kernel, DifferentBarriersInOneBlockFail) {
  Gpu gpu(GetParam());
  EXPECT_EQ(run(gpu, "if (threadIdx.x < 64)\n__syncthreads();\nelse\n__syncthreads();"), 719);
  EXPECT_THAT(gpu.complaints(), HasSubstr("threads of one block wait at different barriers, of lines"));
}

TEST_P(Kernel, ShuffleFromALaneThatReturnedFails) {
  Gpu gpu(GetParam());
  const std::string shuffle = GetParam() ? "__shfl_down(1, 1)" : "__shfl_down_sync(0xffffffffu, 1, 1)";
  EXPECT_EQ(run(gpu, "if (threadIdx.x == 5) return;\nout[threadIdx.x] = " + shuffle + ";"), 719);
  EXPECT_THAT(gpu.complaints(), HasSubstr("reads from a lane of its warp that has returned"));
}

TEST_P(Kernel, ShuffleThatWaitsForLanesAtABarrierFails) {
  Gpu gpu(GetParam());
  const std::string shuffle = GetParam() ? "__shfl_xor(1, 1)" : "__shfl_xor_sync(0xffffffffu, 1, 1)";
  EXPECT_EQ(run(gpu, "if (threadIdx.x == 5) __syncthreads();\nout[threadIdx.x] = " + shuffle + ";"), 719);
  EXPECT_THAT(gpu.complaints(), HasSubstr("wait for other lanes of their warp"));
}

TEST_P(Kernel, MissingBarrierShows) {
  Gpu gpu(GetParam());
  const std::string store = "__shared__ int x[128]; x[threadIdx.x] = (int)threadIdx.x; ";
  const std::string read = "out[threadIdx.x] = x[threadIdx.x ^ 1];";
  std::vector<int> right(128);
  for (int i = 0; i < 128; ++i) {
    right[static_cast<std::size_t>(i)] = i ^ 1;
  }
  std::vector<int> result;
  EXPECT_EQ(run(gpu, store + "__syncthreads(); " + read, &result), 0);
  EXPECT_EQ(result, right);
  EXPECT_EQ(run(gpu, store + read, &result), 0);
  EXPECT_NE(result, right);
}

// The lanes that a vote finds are those of one warp.
void expect_ballots(bool is_hip, const std::string& architecture, unsigned long long expected) {
  Gpu gpu(is_hip, {{"FAKE_GPU_ARCHITECTURE", architecture}});
  gpu.use();
  const auto options = is_hip
                           ? std::vector<std::string>{"--offload-arch=" + architecture, "-ffp-contract=off"}
                           : gpu.options();
  const std::string vote =
      is_hip ? "__ballot(threadIdx.x % 2)" : "__ballot_sync(0xffffffffu, threadIdx.x % 2)";
  const std::string kernel =
      "extern \"C\" __global__ void test(unsigned long long* out) { out[threadIdx.x] = " + vote + "; }";
  std::string image;
  std::string log;
  ASSERT_EQ(gpu.compile(kernel, options, image, log), 0) << log;
  void* module = nullptr;
  ASSERT_EQ(gpu.module_load(&module, image.data()), 0);
  void* stream = gpu.new_stream();
  const Address memory = gpu.new_memory(1024);
  EXPECT_EQ(gpu.launch_1d(stream, gpu.function(module, "test"), 1, 128, memory), 0);
  EXPECT_THAT(gpu.download<unsigned long long>(stream, memory, 128), Each(expected));
  EXPECT_EQ(gpu.memory_free(memory) + gpu.module_unload(module) + gpu.stream_destroy(stream), 0);
}

TEST_P(Kernel, WarpsOfGfx9Have64Lanes) {
  expect_ballots(GetParam(), "gfx90a", GetParam() ? 0xaaaaaaaaaaaaaaaaULL : 0xaaaaaaaaULL);
}

TEST_P(Kernel, WarpsOfGfx10Have32Lanes) {
  expect_ballots(GetParam(), "gfx1030", 0xaaaaaaaaULL);
}

TEST_P(Kernel, DynamicSharedMemoryHasTheSizeOfTheLaunch) {
  Gpu gpu(GetParam());
  gpu.use();
  void* stream = gpu.new_stream();
  void* module = gpu.load(R"(
extern "C" __global__ void reverse(int* x) {
  extern __shared__ int kept[];
  kept[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
})");
  const Address memory = gpu.upload<int>(stream, {1, 2, 3, 4});
  void* arguments[] = {const_cast<Address*>(&memory)};
  EXPECT_EQ(gpu.launch(gpu.function(module, "reverse"), 1, 1, 1, 4, 1, 1, 16, stream, arguments, nullptr), 0);
  EXPECT_EQ(gpu.download<int>(stream, memory, 4), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(gpu.memory_free(memory) + gpu.module_unload(module) + gpu.stream_destroy(stream), 0);
}

TEST_P(Kernel, LimitsOfLaunchesAreChecked) {
  Gpu gpu(GetParam());
  gpu.use();
  void* stream = gpu.new_stream();
  void* module = gpu.load(kSum);
  void* count = gpu.function(module, "count");
  const Address memory = gpu.new_memory(4);
  const auto launch = [&](std::vector<unsigned> s, unsigned shared) {
    void* arguments[] = {const_cast<Address*>(&memory)};
    return gpu.launch(count, s[0], s[1], s[2], s[3], s[4], s[5], shared, stream, arguments, nullptr);
  };
  EXPECT_EQ(launch({0, 1, 1, 32, 1, 1}, 0), 1);
  EXPECT_THAT(gpu.complaints(), HasSubstr("is 0"));
  if (gpu.hip) {  // counts threads in 32 bits
    EXPECT_EQ(launch({1U << 25U, 1, 1, 128, 1, 1}, 0), 1);
    EXPECT_THAT(gpu.complaints(), HasSubstr("33554432 blocks along axis 0"));
  } else {
    EXPECT_EQ(launch({1, 65536, 1, 32, 1, 1}, 0), 1);
    EXPECT_THAT(gpu.complaints(), HasSubstr("65536 blocks along axis 1"));
  }
  EXPECT_EQ(launch({1, 1, 1, 1025, 1, 1}, 0), 1);
  EXPECT_THAT(gpu.complaints(), HasSubstr("a block of 1025 threads is too large"));
  EXPECT_EQ(launch({1, 1, 1, 256, 1, 1}, 0), 701);
  EXPECT_THAT(gpu.complaints(), HasSubstr("256 threads a block, but its launch bounds allow 128"));
  EXPECT_EQ(launch({1, 1, 1, 32, 1, 1}, 65537), 1);
  EXPECT_THAT(gpu.complaints(), HasSubstr("65537 bytes of shared memory"));
  int on_host = 0;
  EXPECT_EQ(gpu.launch_1d(stream, count, 1, 32, &on_host), 1);
  EXPECT_THAT(gpu.complaints(), HasSubstr("is not in an allocation"));
  EXPECT_EQ(gpu.memory_free(memory) + gpu.module_unload(module) + gpu.stream_destroy(stream), 0);
  EXPECT_EQ(launch({1, 1, 1, 32, 1, 1}, 0), 400);
  EXPECT_THAT(gpu.complaints(), HasSubstr("use of a destroyed function"));
}

TEST_P(Kernel, StorePastAnAllocationIsFoundWhenItIsFreed) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer ends the process at the store";
#endif
  Gpu gpu(GetParam());
  EXPECT_EQ(run(gpu, "if (threadIdx.x == 0) out[128] = 1;"), 0);
  EXPECT_THAT(gpu.complaints(), HasSubstr("bytes after the end of the allocation"));
}

INSTANTIATE_TEST_SUITE_P(Of, Kernel, testing::Bool(),
                         [](const auto& vendor) { return vendor.param ? "hip" : "cuda"; });

}  // namespace
}  // namespace fake_gpu_test
