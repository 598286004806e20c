// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/load.cpp: entering, negotiating, the prefix, the tables.
#include <cstddef>
#include <cstring>

#include "groups.h"

namespace yoke::conformance {
namespace {

using Version = std::pair<std::uint32_t, std::uint32_t>;

std::string version_text(const Version& version) {
  return text(version.first, ".", version.second);
}

void enters(Kit& kit) {
  const yoke_plugin* plugin = kit.plugin().get();
  kit.note(text(plugin->backend_name, " ", plugin->plugin_version, ", ABI ", plugin->abi_major, ".",
                plugin->abi_minor));
}

void prefix(Kit& kit) {
  const yoke_plugin& plugin = *kit.plugin().get();
  const auto is_text = [](const char* value, const char* what) {
    check(value != nullptr && *value != '\0', what, " is empty");
    check(is_utf8(value), what, " is not UTF-8");
  };
  is_text(plugin.backend_name, "backend_name");
  is_text(plugin.plugin_version, "plugin_version");
  is_text(plugin.vendor, "vendor");
  const std::string name = plugin.backend_name;
  const bool begins_well = name[0] >= 'a' && name[0] <= 'z';
  check(begins_well && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos,
        "backend_name is '", name, "'; due is [a-z][a-z0-9_]*");
  const std::string file = kit.settings().plugin.filename().string();
  check_equal(file, "libyoke_backend_" + name + ".so",
              "the file's name, by which hosts look for the backend '", name, "'");
  check(plugin.sanitizer <= YOKE_SANITIZER_MEMORY, "the prefix names a sanitizer ", plugin.sanitizer,
        " that is unknown");
  check_equal(plugin.reserved, 0U, "the reserved member of the prefix");
}

// One entry with forged versions. Gives back the version chosen, or nothing when it was refused as it should
// be.
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
  const std::string doing = "entering with the versions " + version_text(low) + " to " + version_text(high);
  if (!answer.ok()) {
    expect_code(answer, YOKE_FAILED_PRECONDITION, doing);
    check(plugin == &untouched, doing, ": refused, and yet *out_plugin was written");
    return std::nullopt;
  }
  check(plugin != &untouched && plugin != nullptr, doing, ": OK without a plugin");
  const Version chosen(plugin->abi_major, plugin->abi_minor);
  destroy_plugin(plugin);
  check(low <= chosen && chosen <= high, doing, ": it answers with ", version_text(chosen),
        ", which is outside");
  return chosen;
}

void newer_hosts(Kit& kit) {
  const Version ours(YOKE_ABI_MAJOR, YOKE_ABI_MINOR);
  const auto plain = negotiate(kit, {YOKE_ABI_MAJOR, 0}, ours);
  check(plain.has_value(), "the plugin refuses this kit's versions");
  for (const Version& high : {Version(YOKE_ABI_MAJOR, 40), Version(YOKE_ABI_MAJOR, UINT32_MAX),
                              Version(YOKE_ABI_MAJOR + 7, 3), Version(UINT32_MAX, UINT32_MAX)}) {
    const auto chosen = negotiate(kit, {0, 0}, high);
    check(chosen.has_value(), "the plugin refuses a host that serves 0.0 to ", version_text(high));
    check(*chosen >= *plain, "a newer host got the version ", version_text(*chosen), ", an older one ",
          version_text(*plain));
  }
}

void older_hosts(Kit& kit) {
  // Every minor before ours, as the newest that a host serves: taken, or refused with both ranges in words.
  unsigned refused = 0;
  for (std::uint32_t minor = 0; minor <= YOKE_ABI_MINOR; ++minor) {
    refused += negotiate(kit, {YOKE_ABI_MAJOR, 0}, {YOKE_ABI_MAJOR, minor}).has_value() ? 0U : 1U;
  }
  kit.note(text(refused, " of ", YOKE_ABI_MINOR + 1, " older hosts refused"));
}

void disjoint_hosts(Kit& kit) {
  for (const std::uint32_t major : {std::uint32_t{YOKE_ABI_MAJOR + 50}, UINT32_MAX}) {
    check(!negotiate(kit, {major, 0}, {major, UINT32_MAX}).has_value(), "the plugin enters a host of ABI ",
          major, ".x");
  }
  // Above the newest minor that it speaks.
  const auto newest = negotiate(kit, {YOKE_ABI_MAJOR, 0}, {YOKE_ABI_MAJOR, UINT32_MAX - 1});
  check(newest.has_value(), "the plugin refuses every minor of ABI ", YOKE_ABI_MAJOR);
  const auto next = negotiate(kit, {YOKE_ABI_MAJOR, newest->second + 1}, {YOKE_ABI_MAJOR, UINT32_MAX});
  check(!next.has_value(), "the plugin's newest version is ", version_text(*newest),
        ", but it enters a host that begins behind that");
}

void no_text_wanted(Kit& kit) {
  Host host;
  yoke_entry_args args = host.args();
  args.min_major = args.max_major = UINT32_MAX;
  yoke_plugin* plugin = nullptr;
  const std::int32_t refused = kit.library().entry()(&args, &plugin, nullptr);
  check_equal(refused, YOKE_FAILED_PRECONDITION, "the code of a refused entry whose status object is NULL");
  args = host.args();
  const std::int32_t entered = kit.library().entry()(&args, &plugin, nullptr);
  check_equal(entered, YOKE_OK, "the code of an entry whose status object is NULL");
  const auto* table = static_cast<const yoke_backend_api*>(plugin->get_table(plugin, YOKE_BACKEND_TABLE));
  yoke_device_info info = sized<yoke_device_info>();
  check_equal(table->device_describe(plugin, UINT32_MAX, &info, nullptr), YOKE_OUT_OF_RANGE,
              "the code of a refused device_describe whose status object is NULL");
  destroy_plugin(plugin);
}

void longer_args(Kit& kit) {
  // A newer host: more members behind ours, full of what this plugin must not look at.
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
  plugin.device_count();
  plugin.leave();
}

// A host of ABI 0.1: its table ends before `allocate`, and what lies behind is no function.
void shorter_host(Kit& kit) {
  if (!negotiate(kit, {YOKE_ABI_MAJOR, 0}, {YOKE_ABI_MAJOR, 1}).has_value()) {
    unsupported("the plugin does not enter hosts of ABI 0.1");
  }
  auto host = std::make_unique<Host>();
  yoke_host_api older = host->api();
  older.struct_size = offsetof(yoke_host_api, allocate);
  std::memset(reinterpret_cast<char*>(&older) + older.struct_size, 0xff, sizeof older - older.struct_size);
  yoke_entry_args args = host->args();
  args.max_minor = 1;
  args.host = &older;
  Plugin plugin(kit.library(), args, std::move(host));
  if (plugin.device_count() != 0) {
    Device device(kit, plugin, 0);
    Buffer buffer(device, 1000);
    buffer.write(0, std::vector<std::byte>(1000));
    buffer.reset();
    device.close();
  }
  plugin.leave();
}

void tables_stay(Kit& kit) {
  yoke_plugin* plugin = kit.plugin().get();
  for (const char* id :
       {YOKE_BACKEND_TABLE, YOKE_STREAM_TABLE, YOKE_PROGRAM_TABLE, YOKE_PEER_TABLE, YOKE_FAULT_TABLE}) {
    const void* first = plugin->get_table(plugin, id);
    check(first == plugin->get_table(plugin, std::string(id).c_str()), id,
          " is at another place when it is asked for again");
    if (first != nullptr) {
      std::uint64_t size = 0;
      std::memcpy(&size, first, sizeof size);
      check(size >= sizeof size && size <= 65536 && size % sizeof(void*) == 0, id,
            " says that its struct_size is ", size);
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
    check(plugin->get_table(plugin, id.c_str()) == nullptr, "get_table gave a table for the unknown id '",
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

void enters_often(Kit& kit) {
  kit.plugin();  // what is done once per process is done
  for (int i = 0; i < 100; ++i) {
    Plugin first(kit.library());
    Plugin second(kit.library());
    check(first.get() != second.get(), "two entries gave the same plugin object");
    first.leave();
    second.device_count();
    second.leave();
  }
  kit.plugin().get()->destroy(nullptr);
}

void two_instances(Kit& kit) {
  Buffer buffer(kit.device(), 4096);
  const std::vector<std::byte> sent = kit.random().bytes(4096);
  buffer.write(0, sent);
  {
    Plugin other(kit.library());
    const yoke_live_counts live = other.live_counts();
    check(live.devices == 0 && live.buffers == 0, "a fresh instance counts ", live.devices, " devices and ",
          live.buffers, " buffers that belong to another instance");
    Device device(kit, other, kit.settings().device, kit.device_options());
    Buffer of_other(device, 4096);
    of_other.write(0, std::vector<std::byte>(4096, std::byte{0xee}));
    of_other.reset();
    device.close();
    other.leave();
  }
  check(buffer.contents() == sent, "a buffer changed when another instance of the plugin came and went");
}

}  // namespace

std::vector<Test> load_tests() {
  return {
      {"enters", "the plugin is mapped, entered, and offers its required table", {2, 3}, enters},
      {"prefix", "the prefix names the backend as its file does, a version and a vendor", {3}, prefix},
      {"newer-hosts",
       "a host that also serves newer versions is served with the newest that both speak",
       {2, 4},
       newer_hosts},
      {"older-hosts",
       "an older host gets a version that it serves, or FAILED_PRECONDITION with a text",
       {2, 4},
       older_hosts},
      {"disjoint-hosts",
       "a host of other versions is refused with a text, and no plugin comes out",
       {2, 4},
       disjoint_hosts},
      {"no-text-wanted", "a NULL status object is nobody who wants text", {10}, no_text_wanted},
      {"longer-args",
       "arguments and host tables that are longer than known are read as far as known",
       {5},
       longer_args},
      {"shorter-host", "nothing behind the end of an older host's table is called", {4, 5}, shorter_host},
      {"tables-stay", "a table is always at the same place and says its size", {5, 6}, tables_stay},
      {"unknown-tables", "unknown and random table ids answer NULL", {6}, unknown_tables},
      {"required-functions",
       "every offered table has all its required functions",
       {8, 9},
       required_functions},
      {"enters-often",
       "a plugin is entered and destroyed many times, also twice at a time; destroy accepts NULL",
       {3, 14},
       enters_often},
      {"two-instances", "two instances in one process do not see each other's objects", {14}, two_instances},
  };
}

}  // namespace yoke::conformance
