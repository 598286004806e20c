// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/plugin_test.cpp: what every built plugin must answer at its entry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "loaded_plugin.h"

namespace yoke::test {
namespace {

std::vector<std::string> built_plugins() {
  std::vector<std::string> names;
  std::string list = YOKE_TEST_BACKENDS;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    names.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

std::string version(int major, int minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

class PluginTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    entry_ = entry_of_plugin(GetParam());
    ASSERT_NE(entry_, nullptr);
  }

  // Enters with the range that `args` says, and gives back the code.
  std::int32_t enter(const yoke_entry_args& args) {
    const std::int32_t code = entry_(&args, &plugin_, &error_);
    return code;
  }
  void TearDown() override {
    if (plugin_ != nullptr) {
      plugin_->destroy(plugin_);
    }
  }

  yoke_plugin_entry_fn entry_ = nullptr;
  TestHost host_;
  yoke_error error_;
  yoke_plugin* plugin_ = nullptr;
};

TEST_P(PluginTest, ExportsTheEntryAndNothingElse) {
  const std::string command = std::string(YOKE_TEST_NM) + " -D --defined-only " + plugin_path(GetParam());
  FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::vector<std::string> symbols;
  std::array<char, 512> line{};
  while (std::fgets(line.data(), static_cast<int>(line.size()), pipe) != nullptr) {
    const std::string text(line.data());
    symbols.push_back(text.substr(text.rfind(' ') + 1, text.find('\n') - text.rfind(' ') - 1));
  }
  ASSERT_EQ(::pclose(pipe), 0) << command;

  EXPECT_THAT(symbols, testing::ElementsAre(YOKE_PLUGIN_ENTRY_SYMBOL));
}

TEST_P(PluginTest, PrefixNamesThePlugin) {
  ASSERT_EQ(enter(host_.args()), YOKE_OK) << error_.text;

  EXPECT_EQ(plugin_->magic, YOKE_PLUGIN_MAGIC);
  EXPECT_EQ(std::memcmp(&plugin_->magic, "yoke", 4), 0);
  EXPECT_EQ(plugin_->prefix_size, sizeof(yoke_plugin));
  EXPECT_EQ(plugin_->abi_major, static_cast<std::uint32_t>(YOKE_ABI_MAJOR));
  EXPECT_EQ(plugin_->abi_minor, static_cast<std::uint32_t>(YOKE_ABI_MINOR));
  EXPECT_EQ(plugin_->reserved, 0U);
  EXPECT_EQ(plugin_->backend_name, GetParam());
  EXPECT_STRNE(plugin_->plugin_version, "");
  EXPECT_STRNE(plugin_->vendor, "");
}

TEST_P(PluginTest, NewerHostOfTheSameMajorGetsTheMinorThatThePluginKnows) {
  yoke_entry_args args = host_.args();
  args.max_minor = YOKE_ABI_MINOR + 7;

  ASSERT_EQ(enter(args), YOKE_OK) << error_.text;
  EXPECT_EQ(plugin_->abi_minor, static_cast<std::uint32_t>(YOKE_ABI_MINOR));
}

TEST_P(PluginTest, HostOfTwoMajorsGetsTheOneThatThePluginKnows) {
  yoke_entry_args args = host_.args();
  args.max_major = YOKE_ABI_MAJOR + 1;
  args.max_minor = 0;

  ASSERT_EQ(enter(args), YOKE_OK) << error_.text;
  EXPECT_EQ(plugin_->abi_major, static_cast<std::uint32_t>(YOKE_ABI_MAJOR));
  EXPECT_EQ(plugin_->abi_minor, static_cast<std::uint32_t>(YOKE_ABI_MINOR));
}

TEST_P(PluginTest, OlderHostOfTheSameMajorGetsItsOwnMinor) {
  yoke_entry_args args = host_.args();
  args.max_minor = 0;

  ASSERT_EQ(enter(args), YOKE_OK) << error_.text;
  EXPECT_EQ(plugin_->abi_minor, 0U);
}

TEST_P(PluginTest, HostOfTheNextMajorIsRefusedWithBothRanges) {
  yoke_entry_args args = host_.args();
  args.min_major = args.max_major = YOKE_ABI_MAJOR + 1;
  args.max_minor = 3;

  EXPECT_EQ(enter(args), YOKE_FAILED_PRECONDITION);
  EXPECT_EQ(plugin_, nullptr) << "out-parameters stay untouched on failure";
  EXPECT_EQ(error_.code, YOKE_FAILED_PRECONDITION);
  EXPECT_EQ(error_.text, "plugin '" + GetParam() + "' speaks ABI " + version(YOKE_ABI_MAJOR, 0) + " to " +
                             version(YOKE_ABI_MAJOR, YOKE_ABI_MINOR) + ", the host " +
                             version(YOKE_ABI_MAJOR + 1, 0) + " to " + version(YOKE_ABI_MAJOR + 1, 3) +
                             "; update the older of the two");
}

TEST_P(PluginTest, LongerArgsOfANewerHostAreRead) {
  struct {
    yoke_entry_args known;
    std::uint64_t added[4];
  } args = {host_.args(), {1, 2, 3, 4}};
  args.known.struct_size = sizeof args;

  ASSERT_EQ(enter(args.known), YOKE_OK) << error_.text;
}

TEST_P(PluginTest, ArgsThatAreCutOffAreRefused) {
  yoke_entry_args args = host_.args();
  args.struct_size = 16;

  EXPECT_EQ(enter(args), YOKE_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_, nullptr);
}

TEST_P(PluginTest, ShorterHostTableIsReadNoFurtherThanItGoes) {
  host_.api().struct_size = 16;  // says: no log, no error_set; what lies behind must not be called
  host_.api().error_set = [](yoke_error*, std::int32_t, std::int64_t, const char*, std::uint64_t) {
    FAIL() << "called behind struct_size";
  };
  host_.api().log = [](void*, std::int32_t, const char*, std::uint64_t) {
    FAIL() << "called behind struct_size";
  };
  ASSERT_EQ(enter(host_.args()), YOKE_OK);

  const auto* api = static_cast<const yoke_backend_api*>(plugin_->get_table(plugin_, YOKE_BACKEND_TABLE));
  EXPECT_EQ(api->device_open(plugin_, 99, nullptr, 0, nullptr, &error_), YOKE_INVALID_ARGUMENT);
}

TEST_P(PluginTest, NoHostAtAllIsAccepted) {
  yoke_entry_args args = host_.args();
  args.host = nullptr;

  ASSERT_EQ(enter(args), YOKE_OK);
  const auto* api = static_cast<const yoke_backend_api*>(plugin_->get_table(plugin_, YOKE_BACKEND_TABLE));
  yoke_device* device = nullptr;
  EXPECT_EQ(api->device_open(plugin_, 99, nullptr, 0, &device, nullptr), YOKE_OUT_OF_RANGE);
}

TEST_P(PluginTest, UnknownTablesAreNull) {
  ASSERT_EQ(enter(host_.args()), YOKE_OK) << error_.text;

  EXPECT_EQ(plugin_->get_table(plugin_, "yoke.backend/2"), nullptr);
  EXPECT_EQ(plugin_->get_table(plugin_, "yoke.backend"), nullptr);
  EXPECT_EQ(plugin_->get_table(plugin_, ""), nullptr);
  EXPECT_EQ(plugin_->get_table(plugin_, "org.example.anything/1"), nullptr);
}

TEST_P(PluginTest, TablesHaveEveryRequiredFunction) {
  ASSERT_EQ(enter(host_.args()), YOKE_OK) << error_.text;
  const auto* yoke_backend_api_table =
      static_cast<const yoke_backend_api*>(plugin_->get_table(plugin_, YOKE_BACKEND_TABLE));
  const auto* yoke_stream_api_table =
      static_cast<const yoke_stream_api*>(plugin_->get_table(plugin_, YOKE_STREAM_TABLE));
  const auto* yoke_program_api_table =
      static_cast<const yoke_program_api*>(plugin_->get_table(plugin_, YOKE_PROGRAM_TABLE));
  ASSERT_NE(yoke_backend_api_table, nullptr);

#define YOKE_EXPECT_R(table, member)                      \
  if (table##_table != nullptr) {                         \
    EXPECT_GE(table##_table->struct_size, sizeof(table)); \
    EXPECT_NE(table##_table->member, nullptr) << #member; \
  }
#define YOKE_EXPECT_O(table, member)
#define YOKE_EXPECT_SLOT(table, member, need) YOKE_EXPECT_##need(table, member)
  YOKE_BACKEND_API_FUNCTIONS(YOKE_EXPECT_SLOT)
  YOKE_STREAM_API_FUNCTIONS(YOKE_EXPECT_SLOT)
  YOKE_PROGRAM_API_FUNCTIONS(YOKE_EXPECT_SLOT)
}

TEST_P(PluginTest, TwoPluginObjectsOfOneFileLiveSideBySide) {
  Entered first(entry_);
  Entered second(entry_);
  ASSERT_NE(first.plugin, second.plugin);

  yoke_device* device = first.open();
  EXPECT_EQ(first.live_counts().devices, 1U);
  EXPECT_EQ(second.live_counts().devices, 0U);
  first.close(device);
}

TEST_P(PluginTest, BytesGoInAndComeBack) {
  Entered entered(entry_);
  yoke_device* device = entered.open();
  yoke_buffer* buffer = entered.buffer(device, 100);
  const std::string sent = "thirty-two bytes of plain text..";
  std::string received(sent.size(), '\0');

  EXPECT_EQ(entered.backend->from_host(nullptr, buffer, 7, sent.data(), sent.size(), nullptr, nullptr),
            YOKE_OK);
  EXPECT_EQ(entered.backend->to_host(nullptr, buffer, 7, received.data(), received.size(), nullptr), YOKE_OK);

  EXPECT_EQ(received, sent);
  entered.backend->buffer_destroy(buffer);
  entered.close(device);
}

INSTANTIATE_TEST_SUITE_P(Built, PluginTest, testing::ValuesIn(built_plugins()),
                         [](const auto& suite) { return suite.param; });

}  // namespace
}  // namespace yoke::test
