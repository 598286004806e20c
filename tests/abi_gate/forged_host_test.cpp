// SPDX-License-Identifier: Apache-2.0
// tests/abi_gate/forged_host_test.cpp: current plugins under hosts of older and newer minors, whose tables
// and structs are shorter or longer than the plugin's.
#include <gtest/gtest.h>

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

  // As fill_every_size, for an array of two rows with every stride.
  template <class T>
  void fill_every_stride(
      const std::function<std::int32_t(std::uint32_t, std::uint64_t, T*, std::uint32_t*)>& call) {
    std::array<T, 2> whole{};
    std::uint32_t count = 0;
    ASSERT_EQ(call(2, sizeof(T), whole.data(), &count), YOKE_STATUS_OK);
    const std::uint32_t written = std::min(count, 2U);
    ASSERT_GE(written, 1U);
    for (std::uint64_t stride = 8; stride <= sizeof(T) + kAdded; stride += 8) {
      SCOPED_TRACE("stride " + std::to_string(stride));
      const Edge memory(2 * stride);
      ASSERT_EQ(call(2, stride, memory.as<T>(), &count), YOKE_STATUS_OK);
      const std::uint64_t known = std::min<std::uint64_t>(stride, sizeof(T));
      for (std::uint64_t i = 0; i < 2 * stride; ++i) {
        const bool is_known = i / stride < written && i % stride < known;
        const auto* row = reinterpret_cast<const std::byte*>(&whole[i / stride]);
        ASSERT_EQ(memory.data()[i], is_known ? row[i % stride] : std::byte{Edge::kFilling}) << "byte " << i;
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
  for (std::uint64_t size = sizeof(std::uint64_t); size <= sizeof(yoke_host_api); size += 4) {
    SCOPED_TRACE("struct_size " + std::to_string(size));
    host_.api().struct_size = size;
    const Edge table(host_.api(), size);
    yoke_entry_args args = host_.args();
    args.host = table.as<yoke_host_api>();
    use(&args);
  }
}

TEST_P(ForgedHostTest, SurvivesHostTablesOfInvalidSizes) {
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}}) {
    SCOPED_TRACE("struct_size " + std::to_string(size));
    host_.api().struct_size = size;
    const Edge table(host_.api(), size == 0 || size == 7 ? sizeof size : sizeof(yoke_host_api));
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

TEST_P(ForgedHostTest, WritesStructsOfTier0ToTheirEnd) {
  Entered entered(entry_);
  yoke_device* device = entered.open();
  yoke_buffer* buffer = entered.buffer(device, 100);
  const auto* api = entered.backend;

  fill_every_size<yoke_device_info>(
      [&](yoke_device_info* info) { return api->device_describe(entered.plugin, 0, info, nullptr); });
  fill_every_size<yoke_memory_info>(
      [&](yoke_memory_info* info) { return api->device_memory(device, info, nullptr); });
  fill_every_size<yoke_buffer_info>(
      [&](yoke_buffer_info* info) { return api->buffer_describe(buffer, info, nullptr); });
  fill_every_size<yoke_live_counts>(
      [&](yoke_live_counts* counts) { return api->live_counts(entered.plugin, counts, nullptr); });
  fill_every_stride<yoke_option_spec>(
      [&](std::uint32_t capacity, std::uint64_t stride, yoke_option_spec* rows, std::uint32_t* count) {
        return api->option_specs(entered.plugin, capacity, stride, rows, count, nullptr);
      });

  api->buffer_destroy(buffer);
  entered.close(device);
}

constexpr std::string_view kText =
    "yoke.program 1\nprogram twice() {\n  arg x : f32[4] in\n  arg y : f32[4] out\n  y[i] = x[i] * 2.0\n"
    "  y[i] = y[i] + 1.0\n}\n";

TEST_P(ForgedHostTest, WritesStructsOfTier2ToTheirEnd) {
  Entered entered(entry_);
  ASSERT_NE(entered.programs, nullptr);
  yoke_device* device = entered.open();
  const yoke_compile_args text = as_text(kText);
  yoke_code* code = entered.compile(device, kText);
  const auto* api = entered.programs;

  fill_every_size<yoke_entry_info>(
      [&](yoke_entry_info* info) { return api->code_describe(code, 0, info, nullptr); });
  fill_every_size<yoke_argument_info>(
      [&](yoke_argument_info* info) { return api->code_argument(code, 0, 1, info, nullptr); });
  fill_every_stride<yoke_verdict>(
      [&](std::uint32_t capacity, std::uint64_t stride, yoke_verdict* rows, std::uint32_t* count) {
        return api->can_compile(device, &text, capacity, stride, rows, count, nullptr);
      });
  fill_every_stride<yoke_format>(
      [&](std::uint32_t capacity, std::uint64_t stride, yoke_format* rows, std::uint32_t* count) {
        return api->formats(entered.plugin, capacity, stride, rows, count, nullptr);
      });

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

TEST_P(ForgedHostTest, ReadsBindingsOfEveryStride) {
  Entered entered(entry_);
  ASSERT_NE(entered.programs, nullptr);
  yoke_device* device = entered.open();
  yoke_buffer* memory = entered.buffer(device, 512);
  yoke_code* code = entered.compile(device, kText);
  yoke_buffer* scratch = entered.workspace(device, code, 0);
  const std::array<yoke_binding, 2> bindings = {{{memory, 0, 16, 0}, {memory, 256, 16, 0}}};
  const yoke_binding workspace = entered.whole(scratch);
  for (std::uint32_t stride = sizeof(yoke_binding); stride <= sizeof(yoke_binding) + kAdded; stride += 8) {
    const Edge rows(2 * stride);
    std::memcpy(rows.data(), &bindings[0], sizeof bindings[0]);
    std::memcpy(rows.data() + stride, &bindings[1], sizeof bindings[1]);
    const Edge work(workspace, stride);
    auto args = sized<yoke_link_args>();
    args.bindings = rows.as<yoke_binding>();
    args.binding_count = 2;
    args.binding_stride = stride;
    args.workspace = work.as<yoke_binding>();
    yoke_routine* routine = nullptr;
    EXPECT_EQ(entered.programs->routine_link(code, &args, &routine, &entered.error), YOKE_STATUS_OK)
        << "stride " << stride << ": " << entered.error.text;
    entered.programs->routine_destroy(routine);
  }
  entered.programs->code_destroy(code);
  entered.backend->buffer_destroy(scratch);
  entered.backend->buffer_destroy(memory);
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
