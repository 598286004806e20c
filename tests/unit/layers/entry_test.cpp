// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/entry_test.cpp: the layers serve hosts and plugins with shorter and longer structs and tables,
// and leave malformed ones to the host.
#include <cstddef>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>

#include "layers_test.h"
#include "recorded.h"

namespace yoke::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Entries : public LayersTest {
 protected:
  // What the plugin receives.
  struct Seen {
    yoke_entry_args args;
    yoke_host_api host;
  };
  static inline Seen seen;
  static inline yoke_plugin_entry_fn real = nullptr;

  std::int32_t enter_with(const yoke_entry_args& args, yoke_plugin_entry_fn entry) {
    LayerOptions options;
    options.names = "validate";
    options.use_environment = false;
    session =
        layers::open_session(options, [this](LogLevel, std::string_view line) { lines.emplace_back(line); });
    plugin = nullptr;
    return layers::enter(session, entry, &args, &plugin, error());
  }
  // Enters the fake backend and destroys it.
  Seen seen_with(const yoke_entry_args& args) {
    real = entry_of(0, control);
    const std::int32_t code = enter_with(args, [](auto* passed, auto** out, auto* error) {
      seen = {*passed, *passed->host};
      return real(passed, out, error);
    });
    EXPECT_EQ(code, YOKE_STATUS_OK) << status.text;
    if (plugin != nullptr) {
      plugin->destroy(plugin);
    }
    return seen;
  }
};

TEST_F(Entries, FieldsThatTheHostDoesNotKnowAreEmpty) {
  yoke_entry_args args = host.args();
  const yoke_option option{"x", YOKE_OPTION_TEXT, 0, 0, 0, "y"};
  args.options = &option;
  args.option_stride = 7;
  args.struct_size = offsetof(yoke_entry_args, options);
  host.api().struct_size = offsetof(yoke_host_api, allocate);
  const Seen older = seen_with(args);
  EXPECT_EQ(older.args.struct_size, offsetof(yoke_entry_args, options));
  EXPECT_EQ(older.args.options, nullptr);
  EXPECT_EQ(older.args.option_stride, 0U);
  EXPECT_EQ(older.args.max_minor, args.max_minor);
  EXPECT_EQ(older.host.struct_size, offsetof(yoke_host_api, allocate));
  EXPECT_EQ(older.host.allocate, nullptr);
  EXPECT_EQ(older.host.deallocate, nullptr);
  EXPECT_NE(older.host.log, nullptr);
  EXPECT_NE(older.host.error_set, nullptr);
}

TEST_F(Entries, FieldsOfNewerHostsAreLeftOut) {
  yoke_entry_args args = host.args();
  args.struct_size = sizeof(args) + 8;
  host.api().struct_size = sizeof(yoke_host_api) + 8;
  const Seen newer = seen_with(args);
  EXPECT_EQ(newer.args.struct_size, sizeof(yoke_entry_args));
  EXPECT_EQ(newer.host.struct_size, sizeof(yoke_host_api));
  EXPECT_NE(newer.host.allocate, nullptr);
  EXPECT_NE(newer.args.host, &host.api());
}

TEST_F(Entries, FailedEntryLeavesNoPluginAndItsLaterCallsAreReported) {
  const yoke_entry_args args = host.args();
  static const yoke_host_api* kept = nullptr;
  const auto fails = [](const yoke_entry_args* passed, yoke_plugin**, yoke_error* error) -> std::int32_t {
    kept = passed->host;
    kept->error_set(error, YOKE_STATUS_UNAVAILABLE, 3, "no driver", 9);
    return YOKE_STATUS_UNAVAILABLE;
  };
  EXPECT_EQ(enter_with(args, fails), YOKE_STATUS_UNAVAILABLE);
  EXPECT_EQ(plugin, nullptr);
  EXPECT_EQ(status.text, "no driver");
  EXPECT_EQ(status.vendor_code, 3);
  EXPECT_THAT(found(), IsEmpty());
  kept->log(kept->host, YOKE_LOG_INFO, "late", 4);
  kept->trace_begin(kept->host, "late");
  kept->trace_end(kept->host);
  EXPECT_EQ(kept->allocate(kept->host, 16, 8), nullptr);
  EXPECT_THAT(found(), ElementsAre("35 plugin log", "35 plugin trace_begin", "35 plugin trace_end",
                                   "35 plugin allocate"));
  EXPECT_THAT(host.lines(), IsEmpty());
  const auto says_nothing = [](auto...) -> std::int32_t { return YOKE_STATUS_UNAVAILABLE; };
  EXPECT_EQ(enter_with(args, says_nothing), YOKE_STATUS_UNAVAILABLE);
  EXPECT_THAT(found(), ElementsAre("10 plugin yoke_plugin_entry"));
}

TEST_F(Entries, PluginWithAMalformedPrefixIsReturnedAsItIs) {
  static yoke_plugin malformed{};
  malformed.magic = 1;
  const yoke_entry_args args = host.args();
  const auto entry = [](auto, yoke_plugin** out, auto) -> std::int32_t {
    *out = &malformed;
    return YOKE_STATUS_OK;
  };
  EXPECT_EQ(enter_with(args, entry), YOKE_STATUS_OK);
  EXPECT_EQ(plugin, &malformed);
}

TEST_F(Entries, PrefixHasTheTextsOfThePlugin) {
  control->on_entry = [](yoke_plugin& prefix) { prefix.plugin_version = nullptr; };
  enter();
  EXPECT_STREQ(plugin->name, "fake");
  EXPECT_EQ(plugin->plugin_version, nullptr);
  EXPECT_EQ(plugin->prefix_size, sizeof(yoke_plugin));
  EXPECT_EQ(plugin->get_table(plugin, nullptr), nullptr);
  EXPECT_EQ(plugin->get_table(nullptr, YOKE_BACKEND_TABLE), nullptr);
  plugin->destroy(nullptr);
  EXPECT_THAT(found(), IsEmpty());
}

class EntryTables : public Entries {
 protected:
  EntryTables() {
    control->on_table = [this](const char* id, const void* table) {
      return replaced != nullptr && std::string_view(id) == YOKE_PEER_TABLE ? replaced : table;
    };
  }
  // What the host receives for this table.
  const void* received(const void* table) {
    replaced = table;
    enter();
    return plugin->get_table(plugin, YOKE_PEER_TABLE);
  }
  static std::uint64_t size_of(const void* table) {
    std::uint64_t size = 0;
    std::memcpy(&size, table, sizeof(size));
    return size;
  }
  const void* replaced = nullptr;
};

TEST_F(EntryTables, LongerTablesAreCut) {
  struct Longer {
    yoke_peer_api known;
    void* more;
  };
  const Longer longer{{sizeof(Longer), control->peer.peer_access}, nullptr};
  const auto* const table = static_cast<const yoke_peer_api*>(received(&longer));
  ASSERT_NE(table, nullptr);
  EXPECT_NE(table, &longer.known);
  EXPECT_EQ(table->struct_size, sizeof(yoke_peer_api));
  EXPECT_NE(table->peer_access, control->peer.peer_access);
  EXPECT_EQ(plugin->get_table(plugin, YOKE_PEER_TABLE), table);
}

TEST_F(EntryTables, ShorterTablesStayShort) {
  struct {
    std::uint64_t size;
    void* slots[16];
  } shorter{};
  std::memcpy(&shorter, &control->backend, sizeof(yoke_backend_api));
  shorter.size = offsetof(yoke_backend_api, live_counts) + 3;  // ends inside of a function
  control->on_table = [&](const char* id, const void* table) {
    return std::string_view(id) == YOKE_BACKEND_TABLE ? &shorter : table;
  };
  enter();
  EXPECT_EQ(backend->struct_size, offsetof(yoke_backend_api, live_counts));
  EXPECT_NE(backend->fill, nullptr);
  EXPECT_EQ(count_devices(), YOKE_STATUS_OK);
}

TEST_F(EntryTables, MalformedTablesAreLeftToTheHost) {
  alignas(8) std::byte bytes[64] = {};
  const auto with_size = [&](std::uint64_t size, std::size_t at) {
    std::memcpy(&bytes[at], &size, sizeof(size));
    return static_cast<const void*>(&bytes[at]);
  };
  for (const std::uint64_t size : {0U, 8U, (1U << 16U) + 1}) {
    const void* const table = with_size(size, 0);
    EXPECT_EQ(received(table), table) << size;
  }
  const void* const odd = with_size(16, 4);
  EXPECT_EQ(received(odd), odd);
  const auto* const unmapped = reinterpret_cast<const void*>(8);
  EXPECT_EQ(received(unmapped), unmapped);
}

TEST_F(EntryTables, FunctionsAtUnmappedAddressesAreLeftToTheHost) {
  yoke_peer_api odd{};
  odd.struct_size = sizeof(odd);
  odd.peer_access = reinterpret_cast<decltype(odd.peer_access)>(8);
  const auto* const table = static_cast<const yoke_peer_api*>(received(&odd));
  EXPECT_EQ(table->peer_access, odd.peer_access);
}

TEST_F(Entries, ShortArgumentStructsHaveZerosAtTheirEnd) {
  const TemporaryFolder folder;
  trace_file = folder / "run.yoketrace";
  control->stream.stream_create = [](auto on, auto, auto out, auto e) {
    const yoke_stream_args known{sizeof(known), 0, 0, 0};
    return sdk::detail::stream_create(on, &known, out, e);
  };
  enter("trace");
  const auto created_with = [&](std::uint64_t size) {
    const yoke_stream_args args{size, 0, -2, 0};
    yoke_stream* stream = nullptr;
    EXPECT_EQ(streams->stream_create(device, &args, &stream, error()), YOKE_STATUS_OK);
    streams->stream_destroy(stream);
    std::ostringstream text;
    replay::print(read_bytes(trace_file), text);
    return text.str();
  };
  const std::size_t priority = offsetof(yoke_stream_args, priority);
  EXPECT_THAT(created_with(priority + 3), HasSubstr("flags=0, priority=0, out_stream=stream 2"));
  EXPECT_THAT(created_with(priority + 4), HasSubstr("flags=0, priority=-2, out_stream=stream 3"));
}

}  // namespace
}  // namespace yoke::test
