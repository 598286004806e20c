// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/plugin_test.cpp: the built plugin through its tables: devices, options, verdicts, launches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
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

class CcPluginTest : public testing::Test {
 protected:
  void SetUp() override { plugin_ = std::make_unique<Entered>(entry_of_plugin("cc")); }

  yoke_code* compile(yoke_device* device, std::string_view text = kProgram) {
    const yoke_program_text program = as_text(text);
    yoke_code* code = nullptr;
    EXPECT_EQ(plugin_->programs->code_compile(device, &program, &code, &plugin_->error), YOKE_OK)
        << plugin_->error.text;
    return code;
  }

  std::vector<std::string> verdicts(yoke_device* device) {
    const yoke_program_text program = as_text(kProgram);
    std::vector<yoke_verdict> rows(8);
    for (yoke_verdict& row : rows) {
      row.struct_size = sizeof row;
    }
    std::uint32_t count = 0;
    EXPECT_EQ(plugin_->programs->can_compile(device, &program, 8, rows.data(), &count, &plugin_->error),
              YOKE_OK)
        << plugin_->error.text;
    std::vector<std::string> texts;
    for (std::uint32_t i = 0; i < count; ++i) {
      texts.push_back(std::to_string(rows[i].verdict) + " " + rows[i].reason);
    }
    return texts;
  }

  std::unique_ptr<Entered> plugin_;
};

TEST_F(CcPluginTest, OffersAtLeastTwoDevicesWhoseStreamsAddUpToTheCores) {
  std::uint32_t count = 0;
  ASSERT_EQ(plugin_->backend->device_count(plugin_->plugin, &count, &plugin_->error), YOKE_OK);
  ASSERT_GE(count, 2U);
  std::uint32_t streams = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    yoke_device_info info{};
    info.struct_size = sizeof info;
    ASSERT_EQ(plugin_->backend->device_describe(plugin_->plugin, i, &info, &plugin_->error), YOKE_OK);
    EXPECT_EQ(info.kind, YOKE_DEVICE_CPU);
    EXPECT_EQ(info.host_visible, 1);
    EXPECT_STRNE(info.name, "");
    EXPECT_GT(info.memory_bytes, 0U);
    streams += info.suggested_stream_count;
  }
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(streams, std::max(2U, static_cast<unsigned>(CPU_COUNT(&set))));
}

TEST_F(CcPluginTest, SaysPerStatementWhatRunsIt) {
  yoke_device* device = plugin_->open();
  const std::vector<std::string> texts = verdicts(device);
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_THAT(texts[0], testing::StartsWith("1 oneDNN matmul ("));
  EXPECT_EQ(texts[1], "1 tile kernel, right behind the matmul that it reads");
  EXPECT_EQ(texts[2], "2 tile kernel, some accesses one element at a time");
  plugin_->close(device);
}

TEST_F(CcPluginTest, RefusesOptionsOutsideOfTheirSchema) {
  yoke_device* device = nullptr;
  const auto open = [&](const yoke_option& option) {
    return plugin_->backend->device_open(plugin_->plugin, 0, &option, 1, &device, &plugin_->error);
  };
  EXPECT_EQ(open(integer_option("threads", 0)), YOKE_INVALID_ARGUMENT);
  EXPECT_THAT(plugin_->error.text, testing::HasSubstr("'threads' is 0, allowed are 1 to 1024"));
  EXPECT_EQ(open(integer_option("thread", 1)), YOKE_INVALID_ARGUMENT);
  EXPECT_THAT(plugin_->error.text, testing::HasSubstr("unknown option 'thread'"));
  yoke_option kernels{sizeof(yoke_option), "kernels", YOKE_OPTION_TEXT, 0, 0, 0, "sse9"};
  EXPECT_EQ(open(kernels), YOKE_INVALID_ARGUMENT);
  EXPECT_THAT(plugin_->error.text, testing::HasSubstr("best|plain|avx2|avx512"));
}

TEST_F(CcPluginTest, MemoryLimitIsKept) {
  yoke_device* device = plugin_->open(0, {integer_option("memory_limit", 4096)});
  yoke_buffer* buffer = nullptr;
  EXPECT_EQ(plugin_->backend->buffer_create(device, 5000, YOKE_MEMORY_DEVICE, &buffer, &plugin_->error),
            YOKE_OUT_OF_DEVICE_MEMORY);
  plugin_->close(device);
}

// Everything one launch needs, on one device, with buffers of another.
struct Launch {
  Launch(Entered& entered, yoke_device* device, yoke_device* memory, yoke_code* linked)
      : plugin(entered), code(linked) {
    const std::uint64_t sizes[] = {600 * 78 * 4, 64 * 78 * 4, 64 * 4, 50 * 64 * 4};
    for (const std::uint64_t size : sizes) {
      buffers.push_back(plugin.buffer(memory, size));
      std::vector<float> values(size / 4);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] =
            static_cast<float>(static_cast<int>(i * 2654435761U % 17) - 8);  // whole numbers: exact products
      }
      host.push_back(values);
      EXPECT_EQ(
          plugin.backend->from_host(nullptr, buffers.back(), 0, values.data(), size, nullptr, &plugin.error),
          YOKE_OK);
    }
    yoke_entry_info info{};
    info.struct_size = sizeof info;
    EXPECT_EQ(plugin.programs->code_describe(code, 0, &info, &plugin.error), YOKE_OK);
    workspace = plugin.buffer(device, info.workspace_byte_count);
    std::vector<yoke_binding> bindings;
    for (yoke_buffer* buffer : buffers) {
      bindings.push_back({buffer, 0});
    }
    EXPECT_EQ(
        plugin.programs->routine_link(code, 0, bindings.data(), 4, workspace, 0, &routine, &plugin.error),
        YOKE_OK)
        << plugin.error.text;
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

  std::int32_t run(std::int64_t row) {
    yoke_error error;  // launches of several threads do not share one
    return plugin.programs->routine_launch(nullptr, routine, &row, 1, &error);
  }
  std::vector<float> result() {
    std::vector<float> z(50 * 64);
    EXPECT_EQ(plugin.backend->to_host(nullptr, buffers[3], 0, z.data(), z.size() * 4, &plugin.error),
              YOKE_OK);
    return z;
  }
  std::vector<float> expected(std::size_t row) const {
    std::vector<float> z;
    for (std::size_t n = 0; n < 50; ++n) {
      for (std::size_t o = 0; o < 64; ++o) {
        float sum = 0;
        for (std::size_t i = 0; i < 78; ++i) {
          sum += host[0][(row + n) * 78 + i] * host[1][o * 78 + i];
        }
        z.push_back(std::max(sum + host[2][o], 0.0F));
      }
    }
    return z;
  }

  Entered& plugin;
  yoke_code* code;
  std::vector<yoke_buffer*> buffers;
  std::vector<std::vector<float>> host;
  yoke_buffer* workspace = nullptr;
  yoke_routine* routine = nullptr;
};

TEST_F(CcPluginTest, LaunchesWithASymbolOnBuffersOfItsPeer) {
  yoke_device* device = plugin_->open(0);
  yoke_device* other = plugin_->open(1);
  std::int32_t allowed = 0;
  ASSERT_EQ(plugin_->peers->peer_access(device, other, &allowed, &plugin_->error), YOKE_OK);
  EXPECT_EQ(allowed, 1);
  yoke_code* code = compile(device);
  {
    Launch launch(*plugin_, device, other, code);
    for (const std::int64_t row : {0, 550, 100}) {
      ASSERT_EQ(launch.run(row), YOKE_OK);
      EXPECT_EQ(launch.result(), launch.expected(static_cast<std::size_t>(row))) << row;
    }
    EXPECT_EQ(launch.run(25), YOKE_OUT_OF_RANGE);
    EXPECT_EQ(launch.run(600), YOKE_OUT_OF_RANGE);
  }
  plugin_->programs->code_destroy(code);
  plugin_->close(other);
  plugin_->close(device);
}

// One code, a routine per thread: primitives are shared, scratch is not.
TEST_F(CcPluginTest, RoutinesOfOneCodeRunAtTheSameTime) {
  yoke_device* device = plugin_->open();
  yoke_code* code = compile(device);
  {
    std::vector<std::unique_ptr<Launch>> launches;
    for (int i = 0; i < 4; ++i) {
      launches.push_back(std::make_unique<Launch>(*plugin_, device, device, code));
    }
    std::vector<int> failures(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const std::vector<float> wanted = launches[i]->expected(50 * i);
        for (int round = 0; round < 50; ++round) {
          std::vector<float> z(50 * 64);
          yoke_error error;
          failures[i] += launches[i]->run(static_cast<std::int64_t>(50 * i)) != YOKE_OK;
          failures[i] += plugin_->backend->to_host(nullptr, launches[i]->buffers[3], 0, z.data(),
                                                   z.size() * 4, &error) != YOKE_OK;
          failures[i] += z != wanted;
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_THAT(failures, testing::Each(0));
  }
  plugin_->programs->code_destroy(code);
  plugin_->close(device);
}

// GCC 12's leak checker dies looking into OpenMP's waiting threads where OpenMP came with a plugin (not where
// it is linked).
#if defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kThreadCounts[] = {1};
#else
constexpr std::int64_t kThreadCounts[] = {1, 2, 3};
#endif

TEST_F(CcPluginTest, EveryInstructionSetAndThreadCountGivesTheSameResult) {
  for (const char* kernels : {"plain", "best"}) {
    for (const std::int64_t threads : kThreadCounts) {
      const yoke_option choice{sizeof(yoke_option), "kernels", YOKE_OPTION_TEXT, 0, 0, 0, kernels};
      yoke_device* device = plugin_->open(0, {choice, integer_option("threads", threads)});
      yoke_code* code = compile(device);
      {
        Launch launch(*plugin_, device, device, code);
        ASSERT_EQ(launch.run(100), YOKE_OK);
        EXPECT_EQ(launch.result(), launch.expected(100));
      }
      plugin_->programs->code_destroy(code);
      plugin_->close(device);
    }
  }
}

}  // namespace
}  // namespace yoke::test
