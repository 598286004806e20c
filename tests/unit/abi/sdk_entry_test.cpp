// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_entry_test.cpp: how the SDK handles the entry, exceptions, the plugin's options and tables.
#include <gmock/gmock.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <new>
#include <stdexcept>
#include <utility>

#include "sdk_fixture.h"

namespace yoke::test {
namespace {

// A backend with the members that the fake backend leaves at their defaults.
class OwnBackend final : public sdk::Backend {
 public:
  struct Table {
    std::uint64_t struct_size = sizeof(Table);
    std::uint32_t (*ordinal_sum)(yoke_device*, yoke_device*) = nullptr;
  };

  sdk::Provides provides() const override { return {}; }
  std::uint32_t device_count() override { return 1; }
  sdk::DeviceInfo describe(std::uint32_t) override { return {}; }
  std::vector<sdk::OptionSpec> option_specs() override {
    return {sdk::OptionSpec::integer("workers", "Threads of the plugin.", 2, 1, 9).for_plugin(),
            sdk::OptionSpec::flag("loud", "Log everything.", false).for_plugin(),
            sdk::OptionSpec::integer("limit", "Of one device.", 7, 0, 9)};
  }
  void configure(const sdk::Options& options) override {
    workers_ = options.integer("workers");
    loud_ = options.flag("loud");
    host_table_ = host().table("org.example.host/1");
  }
  std::unique_ptr<sdk::Device> open_device(std::uint32_t, const sdk::Options&) override {
    throw sdk::Failure(YOKE_STATUS_UNAVAILABLE,
                       std::to_string(workers_) + (loud_ ? " loud" : " quiet") + " workers");
  }
  const void* table(std::string_view id) override {
    if (id == "org.example.throws/1") {
      throw std::runtime_error("no such table");
    }
    return id == "org.example.own/1" ? &table_ : id == "org.example.host/1" ? host_table_ : nullptr;
  }

 private:
  std::int64_t workers_ = 0;
  bool loud_ = false;
  const void* host_table_ = nullptr;
  Table table_;
};

std::int32_t own_entry(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  return sdk::enter(args, out_plugin, error, {"own", "1", "tests"},
                    [] { return std::make_unique<OwnBackend>(); });
}

TEST_F(SdkTest, HostRangesAreNegotiated) {
  struct Case {
    std::array<std::uint32_t, 4> range;  // min_major, min_minor, max_major, max_minor
    std::string refusal;                 // empty if the plugin accepts
  };
  const std::uint32_t minor = YOKE_ABI_MINOR;
  const std::vector<Case> cases = {{{0, 0, 0, minor}, ""},
                                   {{0, minor, 0, minor + 7}, ""},
                                   {{0, 0, 7, 0}, ""},
                                   {{0, 0, 0, 2}, "0.0 to 0.2"},
                                   {{0, minor + 1, 0, minor + 9}, "0.5 to 0.13"},
                                   {{1, 0, 1, 3}, "1.0 to 1.3"}};
  TestHost host;
  for (const Case& one : cases) {
    yoke_entry_args args = host.args();
    args.min_major = one.range[0];
    args.min_minor = one.range[1];
    args.max_major = one.range[2];
    args.max_minor = one.range[3];
    yoke_plugin* plugin = nullptr;
    yoke_error error;
    const std::int32_t code = entry()(&args, &plugin, &error);
    if (one.refusal.empty()) {
      ASSERT_EQ(code, YOKE_STATUS_OK) << error.text;
      EXPECT_EQ(plugin->abi_minor, minor);
      plugin->destroy(plugin);
    } else {
      EXPECT_EQ(code, YOKE_STATUS_FAILED_PRECONDITION);
      EXPECT_EQ(plugin, nullptr) << "out parameters must stay untouched on failure";
      EXPECT_EQ(error.text, "plugin 'fake' supports ABI 0.3 to 0.4, the host " + one.refusal +
                                "; update the older of the two");
    }
  }
}

TEST_F(SdkTest, ExceptionsBecomeStatusCodes) {
  struct Case {
    std::function<void()> act;
    std::int32_t code;
    std::string text;
    std::int64_t vendor_code;
  };
  const std::vector<Case> cases = {
      {[] { throw sdk::Failure(YOKE_STATUS_UNAVAILABLE, "the card sleeps", 35); }, YOKE_STATUS_UNAVAILABLE,
       "the card sleeps", 35},
      {[] { throw sdk::Failure(YOKE_STATUS_OK, "confused"); }, YOKE_STATUS_INTERNAL, "confused", 0},
      {[] { throw std::bad_alloc(); }, YOKE_STATUS_RESOURCE_EXHAUSTED, "the plugin is out of host memory", 0},
      {[] { throw std::logic_error("off by one"); }, YOKE_STATUS_INTERNAL, "off by one", 0},
      {[] { throw 42; }, YOKE_STATUS_INTERNAL, "the plugin threw an object that is not a std::exception", 0}};
  Entered entered(entry());
  for (const Case& one : cases) {
    control_->on_open = [&](const sdk::Options&) { one.act(); };
    EXPECT_EQ(open_with(entered), one.code) << one.text;
    EXPECT_EQ(entered.error.text, one.text);
    EXPECT_EQ(entered.error.vendor_code, one.vendor_code);
  }
}

TEST_F(SdkTest, NullFromOpenDeviceIsInternal) {
  control_->opens_nothing = true;
  Entered entered(entry());

  EXPECT_EQ(open_with(entered), YOKE_STATUS_INTERNAL);
  EXPECT_EQ(entered.error.text, "the plugin's open_device returned null");
}

TEST_F(SdkTest, ExceptionInTheConstructorFailsTheEntry) {
  TestHost host;
  const yoke_entry_args args = host.args();
  yoke_plugin* plugin = nullptr;
  yoke_error error;
  const auto throws = []() -> std::unique_ptr<sdk::Backend> { throw std::runtime_error("no way"); };

  EXPECT_EQ(sdk::enter(&args, &plugin, &error, {"fake", "1", "tests"}, throws), YOKE_STATUS_INTERNAL);
  EXPECT_EQ(plugin, nullptr);
  EXPECT_EQ(error.text, "no way");
}

TEST_F(SdkTest, HostTableAndStatusObjectMayBeNull) {
  TestHost host;
  yoke_entry_args args = host.args();
  args.host = nullptr;
  yoke_plugin* plugin = nullptr;
  ASSERT_EQ(entry()(&args, &plugin, nullptr), YOKE_STATUS_OK);
  const auto* api = static_cast<const yoke_backend_api*>(plugin->get_table(plugin, YOKE_BACKEND_TABLE));
  auto open = sized<yoke_device_args>();
  open.ordinal = 99;
  yoke_device* device = nullptr;

  EXPECT_EQ(api->device_open(plugin, &open, &device, nullptr), YOKE_STATUS_OUT_OF_RANGE);
  plugin->destroy(plugin);
}

TEST_F(SdkTest, OnlyProvidedTablesAreOffered) {
  control_->provides = {};
  Entered entered(entry());

  EXPECT_NE(entered.backend, nullptr);
  for (const char* id : {YOKE_STREAM_TABLE, YOKE_PROGRAM_TABLE, YOKE_PEER_TABLE, YOKE_MEMORY_TABLE,
                         YOKE_COLLECTIVES_TABLE, "yoke.backend/2", "yoke.backend", ""}) {
    EXPECT_EQ(entered.table<void>(id), nullptr) << id;
  }
}

TEST_F(SdkTest, EachTableIsOfferedIfItIsProvided) {
  const std::vector<std::pair<bool sdk::Provides::*, const char*>> tables = {
      {&sdk::Provides::streams, YOKE_STREAM_TABLE}, {&sdk::Provides::programs, YOKE_PROGRAM_TABLE},
      {&sdk::Provides::peers, YOKE_PEER_TABLE},     {&sdk::Provides::memory, YOKE_MEMORY_TABLE},
      {&sdk::Provides::faults, YOKE_FAULT_TABLE},   {&sdk::Provides::collectives, YOKE_COLLECTIVES_TABLE},
      {&sdk::Provides::profile, YOKE_PROFILE_TABLE}};
  for (const auto& provided : tables) {
    control_->provides = {};
    control_->provides.*provided.first = true;
    Entered entered(entry());
    for (const auto& table : tables) {
      EXPECT_EQ(entered.table<void>(table.second) != nullptr, table.first == provided.first)
          << table.second << " where only " << provided.second << " is provided";
    }
  }
}

TEST_F(SdkTest, PrefixDescribesThePlugin) {
  Entered entered(&own_entry);
  const yoke_plugin& plugin = *entered.plugin;

  EXPECT_EQ(plugin.magic, YOKE_PLUGIN_MAGIC);
  EXPECT_EQ(plugin.prefix_size, sizeof(yoke_plugin));
  EXPECT_EQ(plugin.abi_major, std::uint32_t{YOKE_ABI_MAJOR});
  EXPECT_EQ(plugin.flags, 0U);
  EXPECT_EQ(plugin.sanitizer, sdk::detail::built_with_sanitizer());
  EXPECT_EQ(plugin.kind, std::uint32_t{YOKE_PLUGIN_KIND_BACKEND});
  EXPECT_STREQ(plugin.name, "own");
  EXPECT_STREQ(plugin.plugin_version, "1");
  EXPECT_STREQ(plugin.vendor, "tests");
  plugin.destroy(nullptr);
  EXPECT_EQ(plugin.get_table(nullptr, YOKE_BACKEND_TABLE), nullptr);
  EXPECT_EQ(plugin.get_table(entered.plugin, nullptr), nullptr);
}

TEST_F(SdkTest, EntryNeedsArgumentsUpToTheHostAndSomewhereToWrite) {
  TestHost host;
  yoke_entry_args args = host.args();
  yoke_plugin* plugin = nullptr;
  yoke_error error;
  constexpr std::uint64_t kLeast = offsetof(yoke_entry_args, host) + sizeof(args.host);

  EXPECT_EQ(own_entry(nullptr, &plugin, &error), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(own_entry(&args, nullptr, &error), YOKE_STATUS_INVALID_ARGUMENT);
  args.struct_size = kLeast - 1;
  EXPECT_EQ(own_entry(&args, &plugin, &error), YOKE_STATUS_INVALID_ARGUMENT);
  args.struct_size = sizeof args;
  args.option_count = 1;
  EXPECT_EQ(own_entry(&args, &plugin, &error), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(error.text, "options is NULL");
  ASSERT_EQ(plugin, nullptr);
  args.struct_size = kLeast;  // the options lie past the end
  ASSERT_EQ(own_entry(&args, &plugin, &error), YOKE_STATUS_OK);
  plugin->destroy(plugin);
  EXPECT_THAT(host.lines(), testing::IsEmpty()) << "nothing was alive";
}

TEST_F(SdkTest, BackendMayOfferItsOwnTablesAndUseTablesOfTheHost) {
  static constexpr OwnBackend::Table kOfHost;
  Entered entered(&own_entry, [](yoke_host_api& api) {
    api.get_table = [](void*, const char* id) -> const void* {
      return std::strcmp(id, "org.example.host/1") == 0 ? &kOfHost : nullptr;
    };
  });

  ASSERT_NE(entered.table<OwnBackend::Table>("org.example.own/1"), nullptr);
  EXPECT_EQ(entered.table<OwnBackend::Table>("org.example.own/1")->struct_size, sizeof(OwnBackend::Table));
  EXPECT_EQ(entered.table<void>("org.example.host/1"), &kOfHost);
  EXPECT_EQ(entered.table<void>("org.example.other/1"), nullptr);
  EXPECT_EQ(entered.table<void>("org.example.throws/1"), nullptr);
}

TEST_F(SdkTest, PluginOptionsAreConvertedFromTextAndReachConfigure) {
  Entered defaults(&own_entry);
  EXPECT_EQ(open_with(defaults), YOKE_STATUS_UNAVAILABLE);
  EXPECT_EQ(defaults.error.text, "2 quiet workers");

  Entered given(&own_entry, {}, {text_option("workers", "5"), text_option("loud", "on")});
  EXPECT_EQ(open_with(given), YOKE_STATUS_UNAVAILABLE);
  EXPECT_EQ(given.error.text, "5 loud workers");
}

TEST_F(SdkTest, OptionsOfThePluginAndOfDevicesAreSeparate) {
  Entered entered(&own_entry);
  EXPECT_EQ(open_with(entered, {integer_option("limit", 3)}), YOKE_STATUS_UNAVAILABLE);
  EXPECT_EQ(open_with(entered, {integer_option("workers", 3)}), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(entered.error.text, "unknown option 'workers'; known options: limit");

  const std::vector<yoke_option> options = {text_option("limit", "3")};
  yoke_entry_args args = entered.host.args();
  args.options = options.data();
  args.option_count = 1;
  args.option_stride = sizeof(yoke_option);
  yoke_plugin* plugin = nullptr;
  EXPECT_EQ(own_entry(&args, &plugin, &entered.error), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(entered.error.text, "unknown option 'limit'; known options: workers, loud");
  EXPECT_EQ(plugin, nullptr);
}

}  // namespace
}  // namespace yoke::test
