// SPDX-License-Identifier: Apache-2.0
// tests/abi_gate/forged_host_test.cpp: today's plugins under hosts of older and newer minors: tables and
// structs that are shorter, or go on behind what the plugin knows.
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

constexpr std::uint64_t kBehind = 64;  // bytes of a newer minor

void unknown_function() {
  ADD_FAILURE() << "the plugin called a function of a minor that it cannot know";
}

class ForgedHostTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    entry_ = entry_of_plugin(GetParam());
    ASSERT_NE(entry_, nullptr);
  }

  // What an application does at least, under the host table and the args that are given.
  void use(const yoke_entry_args* args) {
    yoke_plugin* plugin = nullptr;
    yoke_error error;
    ASSERT_EQ(entry_(args, &plugin, &error), YOKE_OK) << error.text;
    EXPECT_LE(plugin->abi_minor, args->max_minor);
    const auto* api = static_cast<const yoke_backend_api*>(plugin->get_table(plugin, YOKE_BACKEND_TABLE));
    yoke_device* device = nullptr;
    EXPECT_EQ(api->device_open(plugin, 4000000000U, nullptr, 0, &device, &error), YOKE_OUT_OF_RANGE);
    ASSERT_EQ(api->device_open(plugin, 0, nullptr, 0, &device, &error), YOKE_OK);
    yoke_buffer* buffer = nullptr;
    ASSERT_EQ(api->buffer_create(device, 100, YOKE_MEMORY_DEVICE, &buffer, &error), YOKE_OK);
    std::array<char, 5> got{};
    EXPECT_EQ(api->from_host(nullptr, buffer, 95, "minor", 5, nullptr, &error), YOKE_OK);
    EXPECT_EQ(api->to_host(nullptr, buffer, 95, got.data(), 5, &error), YOKE_OK);
    EXPECT_EQ(std::string(got.data(), 5), "minor");
    api->buffer_destroy(buffer);
    EXPECT_EQ(api->device_close(device, &error), YOKE_OK);
    plugin->destroy(plugin);
  }

  // Calls with out structs of every size that a host of some minor could have. `call` fills one.
  template <class T>
  void fill_every_size(const std::function<std::int32_t(T*)>& call) {
    T whole{};
    whole.struct_size = sizeof(T);
    ASSERT_EQ(call(&whole), YOKE_OK);
    for (std::uint64_t size = sizeof(std::uint64_t); size <= sizeof(T) + kBehind;
         size += sizeof(std::uint64_t)) {
      const Edge memory(size);
      std::memcpy(memory.data(), &size, sizeof size);
      ASSERT_EQ(call(memory.as<T>()), YOKE_OK) << "struct_size " << size;
      whole.struct_size = size;
      const std::uint64_t known = std::min<std::uint64_t>(size, sizeof(T));
      EXPECT_EQ(std::memcmp(memory.data(), &whole, known), 0) << "struct_size " << size;
      for (std::uint64_t i = known; i < size; ++i) {
        ASSERT_EQ(memory.data()[i], std::byte{Edge::kFilling})
            << "byte " << i << " is none that the plugin knows";
      }
    }
  }

  // Two rows of every length.
  template <class T>
  void fill_rows_of_every_size(const std::function<std::int32_t(std::uint32_t, T*, std::uint32_t*)>& call) {
    std::array<T, 2> whole{};
    whole[0].struct_size = whole[1].struct_size = sizeof(T);
    std::uint32_t count = 0;
    ASSERT_EQ(call(2, whole.data(), &count), YOKE_OK);
    const std::uint32_t written = std::min(count, 2U);
    ASSERT_GE(written, 1U);
    for (std::uint64_t size = sizeof(std::uint64_t); size <= sizeof(T) + kBehind;
         size += sizeof(std::uint64_t)) {
      const Edge memory(2 * size);
      for (std::uint32_t row = 0; row < 2; ++row) {
        std::memcpy(memory.data() + row * size, &size, sizeof size);
      }
      ASSERT_EQ(call(2, memory.as<T>(), &count), YOKE_OK) << "struct_size " << size;
      for (std::uint32_t row = 0; row < written; ++row) {
        whole[row].struct_size = size;
        const std::uint64_t known = std::min<std::uint64_t>(size, sizeof(T));
        EXPECT_EQ(std::memcmp(memory.data() + row * size, &whole[row], known), 0) << "struct_size " << size;
      }
    }
  }

  yoke_plugin_entry_fn entry_ = nullptr;
  TestHost host_;
};

TEST_P(ForgedHostTest, HostTablesOfEveryLengthAreReadToTheirEndAndNoFurther) {
  for (std::uint64_t size = sizeof(std::uint64_t); size <= sizeof(yoke_host_api); size += 4) {
    SCOPED_TRACE("struct_size " + std::to_string(size));
    host_.api().struct_size = size;
    const Edge table(host_.api(), size);
    yoke_entry_args args = host_.args();
    args.host = table.as<yoke_host_api>();
    use(&args);
  }
}

TEST_P(ForgedHostTest, AHostTableOfTheNextMinorIsUsedAsFarAsItIsKnown) {
  struct Newer {
    yoke_host_api known;
    std::array<void (*)(), 16> added;
  } newer{host_.api(), {}};
  newer.added.fill(&unknown_function);
  newer.known.struct_size = sizeof newer;
  yoke_entry_args args = host_.args();
  args.max_minor = YOKE_ABI_MINOR + 1;
  args.host = &newer.known;

  use(&args);

  EXPECT_EQ(args.host->struct_size, sizeof newer);
}

TEST_P(ForgedHostTest, HostTablesOfAbsurdLengthsDoNoHarm) {
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}}) {
    SCOPED_TRACE("struct_size " + std::to_string(size));
    host_.api().struct_size = size;
    const Edge table(host_.api(), size == 0 || size == 7 ? sizeof size : sizeof(yoke_host_api));
    yoke_entry_args args = host_.args();
    args.host = table.as<yoke_host_api>();
    use(&args);
  }
}

TEST_P(ForgedHostTest, EveryMinorThatIsServedIsAnswered) {
  for (std::uint32_t minor = 0; minor <= YOKE_ABI_MINOR + 2; ++minor) {
    SCOPED_TRACE("the host serves up to minor " + std::to_string(minor));
    yoke_entry_args args = host_.args();
    args.max_minor = minor;
    use(&args);
  }
}

TEST_P(ForgedHostTest, ArgsOfEveryLengthAreReadToTheirEndAndNoFurther) {
  for (std::uint64_t size = sizeof(std::uint64_t); size <= sizeof(yoke_entry_args) + kBehind; size += 8) {
    SCOPED_TRACE("struct_size " + std::to_string(size));
    yoke_entry_args args = host_.args();
    args.struct_size = size;
    const Edge memory(args, size);
    if (size >= sizeof(yoke_entry_args)) {
      use(memory.as<yoke_entry_args>());
    } else {
      yoke_plugin* plugin = nullptr;
      EXPECT_EQ(entry_(memory.as<yoke_entry_args>(), &plugin, nullptr), YOKE_INVALID_ARGUMENT);
      EXPECT_EQ(plugin, nullptr);
    }
  }
}

TEST_P(ForgedHostTest, OutStructsOfTier0AreWrittenToTheirEndAndNoFurther) {
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
  fill_rows_of_every_size<yoke_option_spec>(
      [&](std::uint32_t capacity, yoke_option_spec* rows, std::uint32_t* count) {
        return api->option_specs(entered.plugin, capacity, rows, count, nullptr);
      });

  api->buffer_destroy(buffer);
  entered.close(device);
}

constexpr std::string_view kText =
    "yoke.program 1\nprogram twice() {\n  arg x : f32[4] in\n  arg y : f32[4] out\n  y[i] = x[i] * 2.0\n"
    "  y[i] = y[i] + 1.0\n}\n";

TEST_P(ForgedHostTest, OutStructsOfTier2AreWrittenToTheirEndAndNoFurther) {
  Entered entered(entry_);
  ASSERT_NE(entered.programs, nullptr);
  yoke_device* device = entered.open();
  const yoke_program_text text = as_text(kText);
  yoke_code* code = nullptr;
  const auto* api = entered.programs;
  ASSERT_EQ(api->code_compile(device, &text, &code, &entered.error), YOKE_OK) << entered.error.text;

  fill_every_size<yoke_entry_info>(
      [&](yoke_entry_info* info) { return api->code_describe(code, 0, info, nullptr); });
  fill_every_size<yoke_argument_info>(
      [&](yoke_argument_info* info) { return api->code_argument(code, 0, 1, info, nullptr); });
  fill_rows_of_every_size<yoke_verdict>(
      [&](std::uint32_t capacity, yoke_verdict* rows, std::uint32_t* count) {
        return api->can_compile(device, &text, capacity, rows, count, nullptr);
      });
  fill_rows_of_every_size<yoke_format>([&](std::uint32_t capacity, yoke_format* rows, std::uint32_t* count) {
    return api->formats(entered.plugin, capacity, rows, count, nullptr);
  });

  api->code_destroy(code);
  entered.close(device);
}

TEST_P(ForgedHostTest, ProgramTextsOfEveryLengthAreReadToTheirEndAndNoFurther) {
  Entered entered(entry_);
  ASSERT_NE(entered.programs, nullptr);
  yoke_device* device = entered.open();
  for (std::uint64_t size = sizeof(std::uint64_t); size <= sizeof(yoke_program_text) + kBehind; size += 8) {
    yoke_program_text text = as_text(kText);
    text.struct_size = size;
    const Edge memory(text, size);
    yoke_code* code = nullptr;
    const std::int32_t answer =
        entered.programs->code_compile(device, memory.as<yoke_program_text>(), &code, &entered.error);
    EXPECT_EQ(answer == YOKE_OK, size >= sizeof(yoke_program_text)) << "struct_size " << size;
    EXPECT_EQ(code != nullptr, answer == YOKE_OK);
    entered.programs->code_destroy(code);
  }
  entered.close(device);
}

TEST_P(ForgedHostTest, OptionsOfTheNextMinorAreStrippedToWhatIsKnown) {
  Entered entered(entry_);
  struct Newer {
    yoke_option known;
    std::array<std::uint64_t, 3> added;
  };
  Newer rows[2] = {{integer_option("memory_limit", 1000), {1, 2, 3}},
                   {integer_option("second_row", 1), {4, 5, 6}}};
  rows[0].known.struct_size = rows[1].known.struct_size = sizeof(Newer);
  yoke_device* device = nullptr;

  // The second row is only found by the first one's struct_size.
  EXPECT_EQ(entered.backend->device_open(entered.plugin, 0, &rows[0].known, 2, &device, &entered.error),
            YOKE_INVALID_ARGUMENT);
  EXPECT_NE(entered.error.text.find("second_row"), std::string::npos) << entered.error.text;
  ASSERT_EQ(entered.backend->device_open(entered.plugin, 0, &rows[0].known, 1, &device, &entered.error),
            YOKE_OK)
      << entered.error.text;
  yoke_memory_info memory{};
  memory.struct_size = sizeof memory;
  ASSERT_EQ(entered.backend->device_memory(device, &memory, nullptr), YOKE_OK);
  EXPECT_EQ(memory.limit_bytes, 1000U);
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
