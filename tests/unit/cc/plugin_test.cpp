// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/plugin_test.cpp: calls the built plugin through its tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "../abi/loaded_plugin.h"

namespace yoke::test {
namespace {

constexpr std::string_view kProgram =
    "yoke.program 1\n"
    "program dense(symbol row in 0..600 step 50) {\n"
    "  arg x : f32[600, 78] in\n"
    "  arg w : f32[64, 78] in\n"
    "  arg b : f32[64] in\n"
    "  arg z : f32[50, 64] out\n"
    "  temp y : f32[50, 64]\n"
    "  y[n, o] = sum[i] x[row + n, i] * w[o, i]\n"
    "  z[n, o] = max(y[n, o] + b[o], 0)\n"
    "}\n"
    "program pick() {\n"
    "  arg t : f32[10] in\n"
    "  arg id : i32[4] in\n"
    "  arg o : f32[4] out\n"
    "  o[i] = (t[id[i]] else 0)\n"
    "}\n";

std::uint32_t device_count(Entered& plugin) {
  std::uint32_t count = 0;
  EXPECT_EQ(plugin.backend->device_count(plugin.plugin, &count, nullptr, 0, &plugin.error), YOKE_STATUS_OK);
  return count;
}

std::uint32_t core_count() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  return static_cast<std::uint32_t>(CPU_COUNT(&set));
}

class CcPluginTest : public testing::Test {
 protected:
  Entered plugin_{entry_of_plugin("cc")};
};

TEST_F(CcPluginTest, DevicesDivideTheCoresAndThereAreAtLeastTwo) {
  const std::uint32_t count = device_count(plugin_);
  ASSERT_GE(count, 2U);
  std::uint32_t streams = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    auto info = sized<yoke_device_info>();
    ASSERT_EQ(plugin_.backend->device_describe(plugin_.plugin, i, &info, &plugin_.error), YOKE_STATUS_OK);
    EXPECT_EQ(info.kind, YOKE_DEVICE_CPU);
    EXPECT_EQ(info.host_visible, 1);
    EXPECT_STRNE(info.name, "");
    EXPECT_GT(info.memory_bytes, 0U);
    streams += info.suggested_stream_count;
  }
  EXPECT_EQ(streams, std::max(2U, core_count()));
}

TEST(CcPluginOptionTest, DevicesOptionSetsTheNumberOfDevices) {
  Entered plugin(entry_of_plugin("cc"), {}, {text_option("devices", "5")});
  EXPECT_EQ(device_count(plugin), 5U);
  auto info = sized<yoke_device_info>();
  ASSERT_EQ(plugin.backend->device_describe(plugin.plugin, 4, &info, &plugin.error), YOKE_STATUS_OK);
  EXPECT_GE(info.compute_unit_count, 1U);
}

TEST(CcPluginOptionTest, DeviceIdNamesTheCores) {
  const auto id_of_first = [](const char* devices) {
    Entered plugin(entry_of_plugin("cc"), {}, {text_option("devices", devices)});
    auto info = sized<yoke_device_info>();
    EXPECT_EQ(plugin.backend->device_describe(plugin.plugin, 0, &info, &plugin.error), YOKE_STATUS_OK);
    return std::pair(std::string(info.unique_id), info.compute_unit_count);
  };
  const auto [one, core_count] = id_of_first("1");
  const auto [of_many, cores_of_many] = id_of_first("1024");
  EXPECT_EQ(one == of_many, core_count == cores_of_many) << one << " " << of_many;
  EXPECT_EQ(id_of_first("1023").first, of_many);  // both devices are the first core
}

// The kit tests these too, but reports them as unsupported if the plugin lacks them.
TEST_F(CcPluginTest, SharesMemoryWithOtherDevicesAndLibraries) {
  ASSERT_NE(plugin_.peers, nullptr);
  ASSERT_NE(plugin_.memory, nullptr);
  yoke_device* device = plugin_.open(0);
  yoke_device* other = plugin_.open(1);
  std::int32_t allowed = 0;
  EXPECT_EQ(plugin_.peers->peer_access(device, other, &allowed, &plugin_.error), YOKE_STATUS_OK);
  EXPECT_EQ(allowed, 1);
  float foreign = 1;
  auto args = sized<yoke_import_args>();
  args.address = reinterpret_cast<std::uintptr_t>(&foreign);
  args.byte_count = sizeof foreign;
  args.kind = YOKE_MEMORY_HOST;
  yoke_buffer* buffer = nullptr;
  EXPECT_EQ(plugin_.memory->buffer_import(device, &args, &buffer, &plugin_.error), YOKE_STATUS_OK);
  auto native = sized<yoke_native_info>();
  EXPECT_EQ(plugin_.memory->device_native(device, &native, &plugin_.error), YOKE_STATUS_OK);
  EXPECT_STREQ(native.api, "host");
  plugin_.backend->buffer_destroy(buffer);
  plugin_.close(other);
  plugin_.close(device);
}

TEST_F(CcPluginTest, CanCompileReportsHowEachStatementRuns) {
  yoke_device* device = plugin_.open();
  const yoke_compile_args program = as_text(kProgram);
  std::vector<yoke_verdict> rows(3);
  std::uint32_t count = 0;
  ASSERT_EQ(plugin_.programs->can_compile(device, &program, 3, sizeof(yoke_verdict), rows.data(), &count,
                                          &plugin_.error),
            YOKE_STATUS_OK)
      << plugin_.error.text;
  ASSERT_EQ(count, 3U);
  EXPECT_EQ(rows[0].verdict, YOKE_VERDICT_NATIVE);
  EXPECT_THAT(rows[0].reason, testing::AnyOf(testing::StartsWith("oneDNN matmul ("),
                                             testing::StartsWith("cc product in panels")));
  EXPECT_EQ(rows[1].verdict, YOKE_VERDICT_NATIVE);
  EXPECT_STREQ(rows[1].reason, "tile kernel, right after the product that it reads");
  EXPECT_EQ(rows[2].verdict, YOKE_VERDICT_DECOMPOSED);
  EXPECT_STREQ(rows[2].reason, "tile kernel, some accesses are done one element at a time");
  plugin_.close(device);
}

// A linked routine of `device` with its buffers, which belong to the device `memory`.
struct Launch {
  Launch(Entered& entered, yoke_device* device, yoke_device* memory, yoke_code* code) : plugin(entered) {
    constexpr std::uint64_t kSizes[] = {600 * 78 * 4, 64 * 78 * 4, 64 * 4, 50 * 64 * 4};
    for (const std::uint64_t size : kSizes) {
      buffers.push_back(plugin.buffer(memory, size));
      std::vector<float> values(size / 4);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(static_cast<int>(i * 2654435761U % 17) - 8);  // integers: exact sums
      }
      EXPECT_EQ(
          plugin.backend->from_host(nullptr, buffers.back(), 0, values.data(), size, nullptr, &plugin.error),
          YOKE_STATUS_OK);
      host.push_back(std::move(values));
    }
    workspace = plugin.workspace(device, code, 0);
    routine = plugin.link(code, 0, buffers, workspace);
  }
  ~Launch() {
    plugin.programs->routine_destroy(routine);
    plugin.backend->buffer_destroy(workspace);
    for (yoke_buffer* buffer : buffers) {
      plugin.backend->buffer_destroy(buffer);
    }
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  std::int32_t run(std::int64_t row) const {
    yoke_error error;  // launches on several threads must not share one
    return plugin.programs->routine_launch(nullptr, routine, &row, 1, &error);
  }
  std::vector<float> result() const {
    std::vector<float> z(50 * 64);
    yoke_error error;
    EXPECT_EQ(plugin.backend->to_host(nullptr, buffers[3], 0, z.data(), z.size() * 4, &error),
              YOKE_STATUS_OK);
    return z;
  }
  std::vector<float> expected(std::int64_t row) const {
    std::vector<float> z;
    for (std::size_t n = 0; n < 50; ++n) {
      for (std::size_t o = 0; o < 64; ++o) {
        const float* x = &host[0][(static_cast<std::size_t>(row) + n) * 78];
        z.push_back(std::max(std::inner_product(x, x + 78, &host[1][o * 78], host[2][o]), 0.0F));
      }
    }
    return z;
  }

  Entered& plugin;
  std::vector<yoke_buffer*> buffers;
  std::vector<std::vector<float>> host;
  yoke_buffer* workspace = nullptr;
  yoke_routine* routine = nullptr;
};

// The routines share oneDNN primitives, but not scratch memory.
TEST_F(CcPluginTest, RoutinesOfOneCodeRunConcurrently) {
  yoke_device* device = plugin_.open();
  yoke_code* code = plugin_.compile(device, kProgram);
  {
    std::vector<std::unique_ptr<Launch>> launches;
    for (int i = 0; i < 4; ++i) {
      launches.push_back(std::make_unique<Launch>(plugin_, device, device, code));
    }
    std::vector<int> failures(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const auto row = static_cast<std::int64_t>(50 * i);
        const std::vector<float> expected = launches[i]->expected(row);
        for (int round = 0; round < 50; ++round) {
          failures[i] += launches[i]->run(row) != YOKE_STATUS_OK || launches[i]->result() != expected;
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_THAT(failures, testing::Each(0));
  }
  plugin_.programs->code_destroy(code);
  plugin_.close(device);
}

TEST_F(CcPluginTest, ResultIsTheSameForEveryInstructionSetAndThreadCount) {
  for (const char* kernels : {"plain", "best"}) {
    for (const std::int64_t threads : {1, 2, 3}) {
      yoke_device* device =
          plugin_.open(0, {text_option("kernels", kernels), integer_option("threads", threads)});
      yoke_code* code = plugin_.compile(device, kProgram);
      {
        const Launch launch(plugin_, device, device, code);
        ASSERT_EQ(launch.run(100), YOKE_STATUS_OK);
        EXPECT_EQ(launch.result(), launch.expected(100));
      }
      plugin_.programs->code_destroy(code);
      plugin_.close(device);
    }
  }
}

}  // namespace
}  // namespace yoke::test
