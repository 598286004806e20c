// SPDX-License-Identifier: Apache-2.0
// tests/abi_gate/forged_plugin_test.cpp: today's host under plugins of older and newer minors: tables that
// end earlier, or go on behind what the host knows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/runtime/device.h>

#include <map>
#include <string>
#include <vector>

#include "../unit/abi/fake_backend.h"
#include "edge.h"

namespace yoke::test {
namespace {

using ::testing::HasSubstr;

// The fake plugin of the SDK's tests, whose tables are cut or continued on the way to the host.
struct Forgery {
  std::string id;  // of the table that is forged
  std::uint64_t struct_size = 0;
  std::uint32_t minor = YOKE_ABI_MINOR;
  const void* (*honest)(yoke_plugin*, const char*) = nullptr;
  std::vector<std::unique_ptr<Edge>> tables;  // borrowed by the host for as long as it likes
};
Forgery* forgery = nullptr;

const void* forged_table(yoke_plugin* plugin, const char* id) {
  const void* honest = forgery->honest(plugin, id);
  if (honest == nullptr || forgery->id != id) {
    return honest;
  }
  std::uint64_t honest_size = 0;
  std::memcpy(&honest_size, honest, sizeof honest_size);
  auto memory = std::make_unique<Edge>(forgery->struct_size);
  std::memcpy(memory->data(), honest, std::min(honest_size, forgery->struct_size));
  std::memcpy(memory->data(), &forgery->struct_size, sizeof(std::uint64_t));
  forgery->tables.push_back(std::move(memory));
  return forgery->tables.back()->data();
}

std::int32_t forged_entry(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  const std::int32_t code = fake_entry(args, out_plugin, error);
  if (code == YOKE_OK) {
    forgery->honest = (*out_plugin)->get_table;
    (*out_plugin)->get_table = &forged_table;
    (*out_plugin)->abi_minor = forgery->minor;
  }
  return code;
}

struct Slot {
  const char* name;
  bool required;
};

class ForgedPluginTest : public testing::Test {
 protected:
  ForgedPluginTest() {
    current_script = &script_;
    forgery = &forgery_;
    script_.provides = {.streams = true, .programs = true, .peers = true};
  }

  // What loading says: empty when it loads, and a copy then works.
  std::string verdict() {
    RuntimeOptions options;
    options.search_environment = false;
    Runtime runtime(options);
    runtime.register_backend("fake", &forged_entry);
    try {
      const auto backend = runtime.backend("fake");
      EXPECT_EQ(backend->device_info(0).unique_id, "fake:0");
      const auto device = backend->open_device(0);
      EXPECT_EQ(Buffer(device, 32).byte_count(), 32U);
      static_cast<void>(backend->option_specs());
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  }

  // Cuts one table behind each of its slots.
  void cut(const std::string& id, const std::vector<Slot>& slots) {
    forgery_.id = id;
    for (std::size_t kept = 0; kept <= slots.size(); ++kept) {
      forgery_.struct_size = sizeof(std::uint64_t) + kept * sizeof(void*);
      SCOPED_TRACE(id + " ends after " + std::to_string(kept) + " functions");
      const std::string said = verdict();
      bool complete = true;
      for (std::size_t i = kept; i < slots.size(); ++i) {
        complete = complete && !slots[i].required;
        if (slots[i].required) {
          EXPECT_THAT(said, HasSubstr(kept == 0 ? "says that it has 8 bytes" : slots[i].name));
        }
      }
      EXPECT_EQ(said.empty(), complete) << said;
    }
  }

  Script script_;
  Forgery forgery_;
};

#define YOKE_TEST_IS_R true
#define YOKE_TEST_IS_O false
#define YOKE_TEST_SLOT(table, member, need) Slot{#member, YOKE_TEST_IS_##need},

TEST_F(ForgedPluginTest, ATableMayEndEarlierAsLongAsEveryRequiredFunctionIsInIt) {
  cut(YOKE_BACKEND_TABLE, {YOKE_BACKEND_API_FUNCTIONS(YOKE_TEST_SLOT)});
  cut(YOKE_STREAM_TABLE, {YOKE_STREAM_API_FUNCTIONS(YOKE_TEST_SLOT)});
  cut(YOKE_PROGRAM_TABLE, {YOKE_PROGRAM_API_FUNCTIONS(YOKE_TEST_SLOT)});
  cut(YOKE_PEER_TABLE, {YOKE_PEER_API_FUNCTIONS(YOKE_TEST_SLOT)});
}

TEST_F(ForgedPluginTest, ATableWhoseLastSlotIsCutInTwoDoesNotHaveIt) {
  forgery_.id = YOKE_BACKEND_TABLE;
  forgery_.struct_size = offsetof(yoke_backend_api, option_specs) + 4;
  EXPECT_EQ(verdict(), "");
  forgery_.struct_size = offsetof(yoke_backend_api, live_counts) + 4;
  EXPECT_THAT(verdict(), HasSubstr("live_counts"));
}

TEST_F(ForgedPluginTest, TablesOfTheNextMinorAreUsedAsFarAsTheyAreKnown) {
  const std::map<std::string, std::uint64_t> known = {{YOKE_BACKEND_TABLE, sizeof(yoke_backend_api)},
                                                      {YOKE_STREAM_TABLE, sizeof(yoke_stream_api)},
                                                      {YOKE_PROGRAM_TABLE, sizeof(yoke_program_api)},
                                                      {YOKE_PEER_TABLE, sizeof(yoke_peer_api)}};
  for (const auto& [id, size] : known) {
    SCOPED_TRACE(id);
    forgery_.id = id;
    forgery_.struct_size = size + 5 * sizeof(void*);  // functions that nobody here may call
    EXPECT_EQ(verdict(), "");
  }
}

TEST_F(ForgedPluginTest, EveryMinorOfTheMajorLoads) {
  for (std::uint32_t minor = 0; minor <= YOKE_ABI_MINOR + 3; ++minor) {
    forgery_.minor = minor;
    EXPECT_EQ(verdict(), "") << "minor " << minor;
  }
}

}  // namespace
}  // namespace yoke::test
