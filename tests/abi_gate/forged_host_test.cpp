// SPDX-License-Identifier: Apache-2.0
// tests/abi_gate/forged_host_test.cpp: current plugins under hosts of older and newer minors, whose tables
// and structs are shorter or longer than the plugin's.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "../unit/abi/loaded_plugin.h"
#include "edge.h"

namespace yoke::test {
namespace {

constexpr std::uint64_t kAdded = 64;  // bytes that a newer minor appends

class ForgedHostTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    entry_ = entry_of_plugin(GetParam());
    ASSERT_NE(entry_, nullptr);
  }

  // Enters the plugin, copies to and from a device, and destroys the plugin.
  void use(const yoke_entry_args* args) {
    yoke_plugin* plugin = nullptr;
    yoke_error error;
    ASSERT_EQ(entry_(args, &plugin, &error), YOKE_STATUS_OK) << error.text;
    EXPECT_LE(plugin->abi_minor, args->max_minor);
    const auto* api = static_cast<const yoke_backend_api*>(plugin->get_table(plugin, YOKE_BACKEND_TABLE));
    auto device_args = sized<yoke_device_args>();
    yoke_device* device = nullptr;
    device_args.ordinal = 4000000000U;
    EXPECT_EQ(api->device_open(plugin, &device_args, &device, &error), YOKE_STATUS_OUT_OF_RANGE);
    device_args.ordinal = 0;
    ASSERT_EQ(api->device_open(plugin, &device_args, &device, &error), YOKE_STATUS_OK);
    auto buffer_args = sized<yoke_buffer_args>();
    buffer_args.byte_count = 100;
    buffer_args.kind = YOKE_MEMORY_DEVICE;
    yoke_buffer* buffer = nullptr;
    ASSERT_EQ(api->buffer_create(device, &buffer_args, &buffer, &error), YOKE_STATUS_OK);
    std::array<char, 5> got{};
    EXPECT_EQ(api->from_host(nullptr, buffer, 95, "minor", 5, nullptr, &error), YOKE_STATUS_OK);
    EXPECT_EQ(api->to_host(nullptr, buffer, 95, got.data(), 5, &error), YOKE_STATUS_OK);
    EXPECT_EQ(std::string(got.data(), 5), "minor");
    api->buffer_destroy(buffer);
    EXPECT_EQ(api->device_close(device, &error), YOKE_STATUS_OK);
    plugin->destroy(plugin);
  }

  // Calls `call`, which fills a struct, with every struct_size up to kAdded bytes more than the plugin has.
  template <class T>
  void fill_every_size(const std::function<std::int32_t(T*)>& call) {
    T whole{};
    whole.struct_size = sizeof(T);
    ASSERT_EQ(call(&whole), YOKE_STATUS_OK);
    for (std::uint64_t size = sizeof(std::uint64_t); size <= sizeof(T) + kAdded;
         size += sizeof(std::uint64_t)) {
      const Edge memory(size);
      std::memcpy(memory.data(), &size, sizeof size);
      ASSERT_EQ(call(memory.as<T>()), YOKE_STATUS_OK) << "struct_size " << size;
      whole.struct_size = size;
      const std::uint64_t known = std::min<std::uint64_t>(size, sizeof(T));
      EXPECT_EQ(std::memcmp(memory.data(), &whole, known), 0) << "struct_size " << size;
      for (std::uint64_t i = known; i < size; ++i) {
        ASSERT_EQ(memory.data()[i], std::byte{Edge::kFilling})
            << "the plugin wrote byte " << i << ", past its own struct";
      }
    }
  }

  // Calls `create` with arguments of every size. The plugin must accept all that are long enough, regardless
  // of the bytes that follow. `create` returns the code and destroys the object that it created.
  template <class Args>
  void pass_every_size(const Args& whole, std::uint64_t needed,
                       const std::function<std::int32_t(const Args*)>& create) {
    for (std::uint64_t size = 8; size <= sizeof(Args) + kAdded; size += 8) {
      Args args = whole;
      args.struct_size = size;
      const Edge memory(args, size);
      const std::int32_t code = create(memory.as<Args>());
      if (size >= needed) {
        EXPECT_EQ(code, YOKE_STATUS_OK) << "struct_size " << size;
      }
    }
  }

  yoke_plugin_entry_fn entry_ = nullptr;
  TestHost host_;
};

TEST_P(ForgedHostTest, ReadsHostTablesOfEverySizeToTheirEnd) {
  std::vector<std::uint64_t> sizes = {0, 7, ~std::uint64_t{0}};  // invalid ones, which it survives
  for (std::uint64_t size = sizeof(std::uint64_t); size <= sizeof(yoke_host_api); size += 4) {
    sizes.push_back(size);
  }
  for (const std::uint64_t size : sizes) {
    SCOPED_TRACE("struct_size " + std::to_string(size));
    host_.api().struct_size = size;
    const Edge table(host_.api(), std::clamp(size, sizeof size, sizeof(yoke_host_api)));
    yoke_entry_args args = host_.args();
    args.host = table.as<yoke_host_api>();
    use(&args);
  }
}

TEST_P(ForgedHostTest, ReadsEntryArgsOfEverySizeToTheirEnd) {
  constexpr std::uint64_t kNeeded = offsetof(yoke_entry_args, options);
  for (std::uint64_t size = sizeof(std::uint64_t); size <= sizeof(yoke_entry_args) + kAdded; size += 8) {
    SCOPED_TRACE("struct_size " + std::to_string(size));
    yoke_entry_args args = host_.args();
    args.struct_size = size;
    const Edge memory(args, size);
    if (size >= kNeeded) {
      use(memory.as<yoke_entry_args>());
    } else {
      yoke_plugin* plugin = nullptr;
      EXPECT_EQ(entry_(memory.as<yoke_entry_args>(), &plugin, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
      EXPECT_EQ(plugin, nullptr);
    }
  }
}

constexpr std::string_view kText =
    "yoke.program 1\nprogram twice() {\n  arg x : f32[4] in\n  arg y : f32[4] out\n  y[i] = x[i] * 2.0\n"
    "  y[i] = y[i] + 1.0\n}\n";

TEST_P(ForgedHostTest, WritesDescriptionsOfProgramsToTheirEnd) {
  Entered entered(entry_);
  ASSERT_NE(entered.programs, nullptr);
  yoke_device* device = entered.open();
  yoke_code* code = entered.compile(device, kText);
  const auto* api = entered.programs;

  fill_every_size<yoke_entry_info>(
      [&](yoke_entry_info* info) { return api->code_describe(code, 0, info, nullptr); });
  fill_every_size<yoke_argument_info>(
      [&](yoke_argument_info* info) { return api->code_argument(code, 0, 1, info, nullptr); });

  api->code_destroy(code);
  entered.close(device);
}

TEST_P(ForgedHostTest, ReadsArgumentStructsOfEverySizeToTheirEnd) {
  Entered entered(entry_);
  ASSERT_NE(entered.programs, nullptr);
  const auto* api = entered.backend;
  yoke_device* device = entered.open();
  auto buffer_args = sized<yoke_buffer_args>();
  buffer_args.byte_count = 100;
  buffer_args.kind = YOKE_MEMORY_DEVICE;

  pass_every_size<yoke_device_args>(sized<yoke_device_args>(), 8, [&](const yoke_device_args* args) {
    yoke_device* made = nullptr;
    const std::int32_t code = api->device_open(entered.plugin, args, &made, nullptr);
    entered.close(made);
    return code;
  });
  pass_every_size<yoke_buffer_args>(buffer_args, sizeof(yoke_buffer_args), [&](const yoke_buffer_args* args) {
    yoke_buffer* made = nullptr;
    const std::int32_t code = api->buffer_create(device, args, &made, nullptr);
    api->buffer_destroy(made);
    return code;
  });
  pass_every_size<yoke_compile_args>(
      as_text(kText), sizeof(yoke_compile_args), [&](const yoke_compile_args* args) {
        yoke_code* made = nullptr;
        const std::int32_t code = entered.programs->code_compile(device, args, &made, nullptr);
        entered.programs->code_destroy(made);
        return code;
      });
  if (entered.streams != nullptr) {  // cc has none
    pass_every_size<yoke_stream_args>(sized<yoke_stream_args>(), 8, [&](const yoke_stream_args* args) {
      yoke_stream* made = nullptr;
      const std::int32_t code = entered.streams->stream_create(device, args, &made, nullptr);
      entered.streams->stream_destroy(made);
      return code;
    });
  }
  entered.close(device);
}

INSTANTIATE_TEST_SUITE_P(Built, ForgedHostTest, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           std::istringstream list(YOKE_TEST_BACKENDS);
                           for (std::string name; std::getline(list, name, ',');) {
                             names.push_back(name);
                           }
                           return names;
                         }()),
                         [](const auto& suite) { return suite.param; });

}  // namespace
}  // namespace yoke::test
