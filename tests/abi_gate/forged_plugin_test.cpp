// SPDX-License-Identifier: Apache-2.0
// tests/abi_gate/forged_plugin_test.cpp: the current host with plugins of older and newer minors, whose
// tables are shorter or longer than the host's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/ext/memory.h>
#include <yoke/runtime/device.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "edge.h"
#include "fake_backend.h"

namespace yoke::test {
namespace {

using ::testing::HasSubstr;

struct Slot {
  const char* name;
  bool required;
};

class ForgedPluginTest : public testing::Test {
 protected:
  ForgedPluginTest() {
    control_->name = "fake";
    control_->provides = {.streams = true, .programs = true, .peers = true, .memory = true};
    control_->on_entry = [this](yoke_plugin& plugin) { plugin.abi_minor = minor_; };
    // Shortens or extends the forged table.
    control_->on_table = [this](const char* id, const void* found) -> const void* {
      if (found == nullptr || forged_id_ != id) {
        return found;
      }
      std::uint64_t size = 0;
      std::memcpy(&size, found, sizeof size);
      tables_.push_back(std::make_unique<Edge>(forged_size_));
      std::memcpy(tables_.back()->data(), found, std::min(size, forged_size_));
      std::memcpy(tables_.back()->data(), &forged_size_, sizeof forged_size_);
      return tables_.back()->data();
    };
  }

  // Loads the plugin and creates a buffer. Returns the error message, or an empty string.
  std::string verdict() {
    RuntimeOptions options;
    options.search_environment = false;
    Runtime runtime(options);
    register_backend(runtime, 0, control_);
    try {
      const auto backend = runtime.backend("fake");
      EXPECT_EQ(backend->device_info(0).unique_id, "test:0");
      const auto device = backend->open_device(0);
      EXPECT_EQ(Buffer(device, 32).byte_count(), 32U);
      static_cast<void>(backend->option_specs());
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  }

  // Cuts one table after each of its slots.
  void cut(const std::string& id, const std::vector<Slot>& slots) {
    forged_id_ = id;
    for (std::size_t kept = 0; kept <= slots.size(); ++kept) {
      forged_size_ = sizeof(std::uint64_t) + kept * sizeof(void*);
      SCOPED_TRACE(id + " ends after " + std::to_string(kept) + " functions");
      const std::string message = verdict();
      bool complete = true;
      for (std::size_t i = kept; i < slots.size(); ++i) {
        complete = complete && !slots[i].required;
        if (slots[i].required && kept != 0) {
          EXPECT_THAT(message, HasSubstr(slots[i].name));
        }
      }
      EXPECT_EQ(message.empty(), complete) << message;
    }
  }

  std::shared_ptr<Control> control_ = std::make_shared<Control>();
  std::string forged_id_;
  std::uint64_t forged_size_ = 0;
  std::uint32_t minor_ = YOKE_ABI_MINOR;
  std::vector<std::unique_ptr<Edge>> tables_;  // borrowed by the host until the plugin is destroyed
};

#define YOKE_TEST_IS_R true
#define YOKE_TEST_IS_O false
#define YOKE_TEST_SLOT(table, member, need) Slot{#member, YOKE_TEST_IS_##need},

TEST_F(ForgedPluginTest, ShorterTablesLoadIfNoRequiredFunctionIsMissing) {
  cut(YOKE_BACKEND_TABLE, {YOKE_BACKEND_API_FUNCTIONS(YOKE_TEST_SLOT)});
  cut(YOKE_STREAM_TABLE, {YOKE_STREAM_API_FUNCTIONS(YOKE_TEST_SLOT)});
  cut(YOKE_PROGRAM_TABLE, {YOKE_PROGRAM_API_FUNCTIONS(YOKE_TEST_SLOT)});
  cut(YOKE_PEER_TABLE, {YOKE_PEER_API_FUNCTIONS(YOKE_TEST_SLOT)});
  cut(YOKE_MEMORY_TABLE, {YOKE_MEMORY_API_FUNCTIONS(YOKE_TEST_SLOT)});
}

TEST_F(ForgedPluginTest, PartialFunctionSlotCountsAsMissing) {
  forged_id_ = YOKE_BACKEND_TABLE;
  forged_size_ = offsetof(yoke_backend_api, option_specs) + 4;
  EXPECT_EQ(verdict(), "");
  forged_size_ = offsetof(yoke_backend_api, live_counts) + 4;
  EXPECT_THAT(verdict(), HasSubstr("live_counts"));
}

TEST_F(ForgedPluginTest, IgnoresFunctionsOfANewerPlugin) {
  const std::map<std::string, std::uint64_t> known = {{YOKE_BACKEND_TABLE, sizeof(yoke_backend_api)},
                                                      {YOKE_STREAM_TABLE, sizeof(yoke_stream_api)},
                                                      {YOKE_PROGRAM_TABLE, sizeof(yoke_program_api)},
                                                      {YOKE_PEER_TABLE, sizeof(yoke_peer_api)},
                                                      {YOKE_MEMORY_TABLE, sizeof(yoke_memory_api)}};
  for (const auto& [id, size] : known) {
    SCOPED_TRACE(id);
    forged_id_ = id;
    forged_size_ = size + 5 * sizeof(void*);  // invalid functions, which must not be called
    EXPECT_EQ(verdict(), "");
  }
}

TEST_F(ForgedPluginTest, CompatibleMinorsLoadAndOthersAreRefusedWithBothRanges) {
  for (std::uint32_t minor = 0; minor <= YOKE_ABI_MINOR + 3; ++minor) {
    SCOPED_TRACE("the plugin answers with minor " + std::to_string(minor));
    minor_ = minor;
    const std::string message = verdict();
    if (minor >= YOKE_ABI_MIN_MINOR && minor <= YOKE_ABI_MINOR) {
      EXPECT_EQ(message, "");
    } else {
      EXPECT_THAT(message, HasSubstr("0." + std::to_string(minor)));
      EXPECT_THAT(message, HasSubstr("0.3 to 0.4"));
    }
  }
}

}  // namespace
}  // namespace yoke::test
