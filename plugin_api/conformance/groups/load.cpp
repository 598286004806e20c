// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/load.cpp: the entry, version negotiation, yoke_plugin and the tables.
#include <cstddef>
#include <cstring>

#include "groups.h"
#include "scenario.h"

namespace yoke::conformance {
namespace {

using Version = std::pair<std::uint32_t, std::uint32_t>;

std::string version_text(const Version& version) {
  return text(version.first, ".", version.second);
}

void enters(Kit& kit) {
  const yoke_plugin* plugin = kit.plugin().get();
  kit.note(
      text(plugin->name, " ", plugin->plugin_version, ", ABI ", plugin->abi_major, ".", plugin->abi_minor));
}

void prefix(Kit& kit) {
  const yoke_plugin& plugin = *kit.plugin().get();
  const auto is_text = [](const char* value, const char* what) {
    check(value != nullptr && *value != '\0', what, " of yoke_plugin is NULL or empty");
    check(is_utf8(value), what, " of yoke_plugin is not UTF-8");
  };
  is_text(plugin.name, "name");
  is_text(plugin.plugin_version, "plugin_version");
  is_text(plugin.vendor, "vendor");
  const std::string name = plugin.name;
  const bool begins_well = name[0] >= 'a' && name[0] <= 'z';
  check(begins_well && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos,
        "name of yoke_plugin is '", name, "'; it must match [a-z][a-z0-9_]*");
  const std::string file = kit.settings().plugin.filename().string();
  check_equal(file, "libyoke_backend_" + name + ".so",
              "the name of the file in which hosts look for the backend '", name, "'");
  check(plugin.sanitizer <= YOKE_SANITIZER_MEMORY, "sanitizer of yoke_plugin has the unknown value ",
        plugin.sanitizer);
  check_equal(plugin.kind, std::uint32_t{YOKE_PLUGIN_KIND_BACKEND}, "kind of yoke_plugin");
  check_equal(plugin.flags, 0U, "flags of yoke_plugin");
}

// Enters as a host that serves the versions `low` to `high`. Returns the version that the plugin chose,
// or nothing if it rejected the host in the required way.
std::optional<Version> negotiate(Kit& kit, const Version& low, const Version& high) {
  Host host;
  yoke_entry_args args = host.args();
  args.min_major = low.first;
  args.min_minor = low.second;
  args.max_major = high.first;
  args.max_minor = high.second;
  yoke_plugin untouched{};
  yoke_plugin* plugin = &untouched;
  const Answer answer = call_entry(kit.library(), &args, &plugin);
  const std::string doing = "entering as a host of ABI " + version_text(low) + " to " + version_text(high);
  if (!answer.ok()) {
    expect_code(answer, YOKE_STATUS_FAILED_PRECONDITION, doing);
    check(plugin == &untouched, doing, ": the entry failed but wrote *out_plugin");
    return std::nullopt;
  }
  check(plugin != &untouched && plugin != nullptr, doing,
        ": the entry returned OK but did not set *out_plugin");
  const Version chosen(plugin->abi_major, plugin->abi_minor);
  destroy_plugin(plugin);
  check(low <= chosen && chosen <= high, doing, ": the plugin chose ABI ", version_text(chosen),
        ", which is outside that range");
  return chosen;
}

void newer_hosts(Kit& kit) {
  const Version ours(YOKE_ABI_MAJOR, YOKE_ABI_MINOR);
  const auto plain = negotiate(kit, {YOKE_ABI_MAJOR, 0}, ours);
  check(plain.has_value(), "the plugin rejects a host of ABI ", version_text({YOKE_ABI_MAJOR, 0}), " to ",
        version_text(ours));
  for (const Version& high : {Version(YOKE_ABI_MAJOR, 40), Version(YOKE_ABI_MAJOR, UINT32_MAX),
                              Version(YOKE_ABI_MAJOR + 7, 3), Version(UINT32_MAX, UINT32_MAX)}) {
    const auto chosen = negotiate(kit, {0, 0}, high);
    check(chosen.has_value(), "the plugin rejects a host of ABI 0.0 to ", version_text(high));
    check(*chosen >= *plain, "the plugin chose ABI ", version_text(*chosen), " for a newer host, but ",
          version_text(*plain), " for an older one");
  }
}

void older_hosts(Kit& kit) {
  // Hosts whose newest minor version is 0, 1, ... up to this kit's.
  unsigned refused = 0;
  for (std::uint32_t minor = 0; minor <= YOKE_ABI_MINOR; ++minor) {
    refused += negotiate(kit, {YOKE_ABI_MAJOR, 0}, {YOKE_ABI_MAJOR, minor}).has_value() ? 0U : 1U;
  }
  kit.note(text(refused, " of ", YOKE_ABI_MINOR + 1, " older hosts rejected"));
}

void unsupported_hosts(Kit& kit) {
  for (const std::uint32_t major : {std::uint32_t{YOKE_ABI_MAJOR + 50}, UINT32_MAX}) {
    check(!negotiate(kit, {major, 0}, {major, UINT32_MAX}).has_value(), "the plugin accepts a host of ABI ",
          major, ".x");
  }
  // Minor versions above the plugin's newest one.
  const auto newest = negotiate(kit, {YOKE_ABI_MAJOR, 0}, {YOKE_ABI_MAJOR, UINT32_MAX - 1});
  check(newest.has_value(), "the plugin rejects every minor version of ABI ", YOKE_ABI_MAJOR);
  const auto next = negotiate(kit, {YOKE_ABI_MAJOR, newest->second + 1}, {YOKE_ABI_MAJOR, UINT32_MAX});
  check(!next.has_value(), "the plugin's newest version is ", version_text(*newest),
        ", but it accepts a host whose oldest version is newer");
}

void null_error(Kit& kit) {
  Host host;
  yoke_entry_args args = host.args();
  args.min_major = args.max_major = UINT32_MAX;
  yoke_plugin* plugin = nullptr;
  const std::int32_t refused = kit.library().entry()(&args, &plugin, nullptr);
  check_equal(refused, YOKE_STATUS_FAILED_PRECONDITION,
              "the code of a failed entry with a NULL error object");
  args = host.args();
  const std::int32_t entered = kit.library().entry()(&args, &plugin, nullptr);
  check_equal(entered, YOKE_STATUS_OK, "the code of an entry with a NULL error object");
  const auto* table = static_cast<const yoke_backend_api*>(plugin->get_table(plugin, YOKE_BACKEND_TABLE));
  yoke_device_info info = sized<yoke_device_info>();
  check_equal(table->device_describe(plugin, UINT32_MAX, &info, nullptr), YOKE_STATUS_OUT_OF_RANGE,
              "the code of a failed device_describe with a NULL error object");
  destroy_plugin(plugin);
}

void longer_args(Kit& kit) {
  // A newer host: unknown members, filled with invalid values, follow the known ones.
  struct {
    yoke_entry_args args;
    unsigned char more[256];
  } newer{};
  struct {
    yoke_host_api api;
    unsigned char more[256];
  } newer_host{};
  std::memset(&newer.more, 0xff, sizeof newer.more);
  std::memset(&newer_host.more, 0xff, sizeof newer_host.more);
  auto host = std::make_unique<Host>();
  newer_host.api = host->api();
  newer_host.api.struct_size = sizeof newer_host;
  newer.args = host->args();
  newer.args.struct_size = sizeof newer;
  newer.args.host = &newer_host.api;
  Plugin plugin(kit.library(), newer.args, std::move(host));
  use_and_leave(kit, plugin);
}

// A host whose table ends before `allocate`. The bytes after its end are not valid functions.
void shorter_host(Kit& kit) {
  auto host = std::make_unique<Host>();
  yoke_host_api older = host->api();
  older.struct_size = offsetof(yoke_host_api, allocate);
  std::memset(reinterpret_cast<char*>(&older) + older.struct_size, 0xff, sizeof older - older.struct_size);
  yoke_entry_args args = host->args();
  args.host = &older;
  Plugin plugin(kit.library(), args, std::move(host));
  use_and_leave(kit, plugin);
}

void stable_tables(Kit& kit) {
  yoke_plugin* plugin = kit.plugin().get();
  for (const char* id : {YOKE_BACKEND_TABLE, YOKE_STREAM_TABLE, YOKE_PROGRAM_TABLE, YOKE_PEER_TABLE,
                         YOKE_MEMORY_TABLE, YOKE_FAULT_TABLE}) {
    const void* first = plugin->get_table(plugin, id);
    check(first == plugin->get_table(plugin, std::string(id).c_str()), id,
          ": get_table returned another address in a second call");
    if (first != nullptr) {
      std::uint64_t size = 0;
      std::memcpy(&size, first, sizeof size);
      check(size >= sizeof size && size <= 65536 && size % sizeof(void*) == 0, id,
            " has the invalid struct_size ", size);
    }
  }
}

void unknown_tables(Kit& kit) {
  yoke_plugin* plugin = kit.plugin().get();
  std::vector<std::string> ids = {"",
                                  "/",
                                  "yoke",
                                  "yoke.backend",
                                  "yoke.backend/",
                                  "yoke.backend/0",
                                  "yoke.backend/2",
                                  "yoke.backend/10",
                                  "yoke.backend/1 ",
                                  " yoke.backend/1",
                                  "YOKE.BACKEND/1",
                                  "yoke.backen/1",
                                  "yoke.backend/1/1",
                                  "org.example.nothing/1",
                                  std::string(10000, 'y'),
                                  "\xff\xfe/1"};
  Random random = kit.random();
  for (int i = 0; i < 500; ++i) {
    std::string id = random.chance(2) ? "yoke." : "";
    const std::uint64_t length = random.below(40);
    for (std::uint64_t c = 0; c < length; ++c) {
      id += static_cast<char>(random.between(1, 255));
    }
    ids.push_back(id + "/" + std::to_string(random.below(5)));
  }
  for (const std::string& id : ids) {
    check(plugin->get_table(plugin, id.c_str()) == nullptr, "get_table returned a table for the unknown id '",
          id.substr(0, 80), "'");
  }
}

void required_functions(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  std::string missing;
  const auto look = [&](bool offered, bool there, const char* table, const char* name) {
    if (offered && !there) {
      missing += text(missing.empty() ? "" : ", ", name, " of ", table);
    }
  };
#define YOKE_CONFORMANCE_R(table, member) \
  look(plugin.has_table<table>(), plugin.has<&table::member>(), kTableId<table>, #member);
#define YOKE_CONFORMANCE_O(table, member)
#define YOKE_CONFORMANCE_LOOK(table, member, need) YOKE_CONFORMANCE_##need(table, member)
  YOKE_CONFORMANCE_FUNCTIONS(YOKE_CONFORMANCE_LOOK)
#undef YOKE_CONFORMANCE_LOOK
#undef YOKE_CONFORMANCE_O
#undef YOKE_CONFORMANCE_R
  check(missing.empty(), "required functions are NULL: ", missing);
}

void repeated_entry(Kit& kit) {
  kit.plugin();  // runs the plugin's one-time initialization
  for (int i = 0; i < 100; ++i) {
    Plugin first(kit.library());
    Plugin second(kit.library());
    check(first.get() != second.get(), "two calls of the entry returned the same plugin object");
    first.leave();
    second.device_count();
    second.leave();
  }
}

void two_instances(Kit& kit) {
  Buffer buffer(kit.device(), 4096);
  const std::vector<std::byte> sent = kit.random().bytes(4096);
  buffer.write(0, sent);
  {
    Plugin other(kit.library());
    const yoke_live_counts live = other.live_counts();
    check(live.devices == 0 && live.buffers == 0, "a new instance counts ", live.devices, " devices and ",
          live.buffers, " buffers of another instance");
    Device device(kit, other, kit.settings().device, kit.device_options());
    Buffer of_other(device, 4096);
    of_other.write(0, Bytes(4096, std::byte{0xee}));
    of_other.reset();
    device.close();
    other.leave();
  }
  check(buffer.contents() == sent,
        "a buffer changed while another instance of the plugin was used and destroyed");
}

// Without this test, a table that a plugin no longer has would only be reported as unsupported.
void required_tables(Kit& kit) {
  if (kit.settings().required_tables.empty()) {
    unsupported("no table is required; --require names one");
  }
  yoke_plugin* const plugin = kit.plugin().get();
  for (const std::string& id : kit.settings().required_tables) {
    check(plugin->get_table(plugin, id.c_str()) != nullptr, "the plugin does not have the table ", id,
          ", which --require names");
  }
}

}  // namespace

std::vector<Test> load_tests() {
  return {
      {"enters", "the plugin can be loaded and entered, and has the required table", {2, 3}, enters},
      {"prefix",
       "yoke_plugin has a backend name that matches the file, a kind, a version and a vendor",
       {3, 51},
       prefix},
      {"newer-hosts",
       "the plugin chooses the newest version that it shares with a newer host",
       {2, 4},
       newer_hosts},
      {"older-hosts",
       "the plugin chooses a version that an older host supports, or fails with FAILED_PRECONDITION and a "
       "text",
       {2, 4},
       older_hosts},
      {"unsupported-hosts",
       "a host without a common version is rejected with a text",
       {2, 4},
       unsupported_hosts},
      {"null-error", "every error object may be NULL", {10}, null_error},
      {"longer-args", "members of longer argument structs and host tables are ignored", {5}, longer_args},
      {"shorter-host", "functions past the end of the host's table are not called", {4, 5}, shorter_host},
      {"stable-tables",
       "get_table always returns the same address, and the table has a valid size",
       {5, 6},
       stable_tables},
      {"unknown-tables", "get_table returns NULL for unknown and random ids", {6}, unknown_tables},
      {"required-functions", "no required function of a table is NULL", {8, 9}, required_functions},
      {"required-tables", "the plugin has every table that --require names", {6}, required_tables},
      {"repeated-entry",
       "the plugin can be entered and destroyed many times, and twice at a time",
       {3, 14},
       repeated_entry},
      {"two-instances", "two instances in one process do not share objects", {14}, two_instances},
  };
}

}  // namespace yoke::conformance
