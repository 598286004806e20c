// SPDX-License-Identifier: Apache-2.0
// runtime/loader/enter.cpp: nothing of a plugin is believed before its prefix and its required functions were
// checked.
#include "loader/enter.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>

#include "device/call.h"
#include "device/host_api.h"

namespace yoke::loader {
namespace {

using detail::BackendState;

// [load-time] means one call at a time in the whole process, because a plugin is mapped once for all
// runtimes. This is the only state that two runtimes share.
constinit std::mutex load_time_mutex;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

std::string version(std::uint32_t major, std::uint32_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

const char* sanitizer_name(std::uint32_t kind) {
  switch (kind) {
    case YOKE_SANITIZER_NONE:
      return "no";
    case YOKE_SANITIZER_ADDRESS:
      return "the address";
    case YOKE_SANITIZER_THREAD:
      return "the thread";
    case YOKE_SANITIZER_MEMORY:
      return "the memory";
    default:
      return "an unknown";
  }
}

constexpr std::uint32_t own_sanitizer() {
#if defined(__SANITIZE_ADDRESS__)
  return YOKE_SANITIZER_ADDRESS;
#elif defined(__SANITIZE_THREAD__)
  return YOKE_SANITIZER_THREAD;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  return YOKE_SANITIZER_ADDRESS;
#elif __has_feature(thread_sanitizer)
  return YOKE_SANITIZER_THREAD;
#else
  return YOKE_SANITIZER_NONE;
#endif
#else
  return YOKE_SANITIZER_NONE;
#endif
}

// Is the prefix one that we understand? Only then may anything else of the plugin be read, `destroy`
// included.
Refusal check_prefix(const yoke_plugin& plugin) {
  const char* mend = "build the plugin against yoke's plugin.h (the SDK fills the prefix)";
  if (plugin.magic != YOKE_PLUGIN_MAGIC) {
    return {"what its entry gave back does not begin with yoke's magic number", mend};
  }
  if (plugin.prefix_size < sizeof(yoke_plugin)) {
    return {"its prefix has " + std::to_string(plugin.prefix_size) + " bytes, and yoke's has " +
                std::to_string(sizeof(yoke_plugin)),
            mend};
  }
  if (plugin.destroy == nullptr || plugin.get_table == nullptr) {
    return {std::string("its prefix lacks ") + (plugin.destroy == nullptr ? "destroy" : "get_table"), mend};
  }
  return {};
}

Refusal check_version(const yoke_plugin& plugin, const yoke_entry_args& served) {
  const bool older = plugin.abi_major < served.min_major ||
                     (plugin.abi_major == served.min_major && plugin.abi_minor < served.min_minor);
  const bool newer = plugin.abi_major > served.max_major ||
                     (plugin.abi_major == served.max_major && plugin.abi_minor > served.max_minor);
  if (older || newer) {
    return {"it speaks plugin ABI " + version(plugin.abi_major, plugin.abi_minor) +
                ", and this libyoke serves " + version(served.min_major, served.min_minor) + " to " +
                version(served.max_major, served.max_minor),
            newer ? "update yoke, or install a build of the plugin for this version"
                  : "install a newer build of the plugin"};
  }
  return {};
}

Refusal check_identity(const yoke_plugin& plugin, const std::string& asked) {
  if (plugin.sanitizer != YOKE_SANITIZER_NONE && plugin.sanitizer != own_sanitizer()) {
    return {std::string("it was built with ") + sanitizer_name(plugin.sanitizer) +
                " sanitizer, and yoke with " + sanitizer_name(own_sanitizer()) + " sanitizer",
            "install a build of the plugin without it"};
  }
  if (plugin.backend_name == nullptr) {
    return {"it has no backend name", "set backend_name in its prefix"};
  }
  if (asked != plugin.backend_name) {
    return {"it calls itself '" + std::string(plugin.backend_name) + "', not '" + asked + "'",
            "give the file the name that the plugin has"};
  }
  return {};
}

// Copies what both sides know; what the plugin's table is too short for stays zero.
template <class Table>
bool copy_table(const void* theirs, Table& mine) {
  mine = Table{};
  if (theirs == nullptr) {
    return false;
  }
  std::uint64_t byte_count = 0;
  std::memcpy(&byte_count, theirs, sizeof(byte_count));
  byte_count = std::min<std::uint64_t>(byte_count, sizeof(Table)) / sizeof(void*) * sizeof(void*);
  std::memcpy(&mine, theirs, byte_count);
  mine.struct_size = byte_count;
  return true;
}

enum class Need { R, O };

// A slot that is empty: a stub goes in, and when it is required its name goes into `missing`.
template <auto Member, class Table>
void complete(Table& table, Need need, std::string& missing) {
  auto& slot = table.*Member;
  if (slot != nullptr) {
    return;
  }
  slot = &detail::Stub<std::remove_reference_t<decltype(slot)>>::answer;
  if (need == Need::R) {
    missing.append(missing.empty() ? "" : ", ").append(detail::Function<Member>::kName);
  }
}

// Every table, copied and complete. The refusal lists all missing functions at once.
Refusal fill_tables(BackendState& state, yoke_plugin& plugin) {
  const auto get = [&](const char* id) { return plugin.get_table(&plugin, id); };
  const bool has_backend = copy_table(get(YOKE_BACKEND_TABLE), state.backend);
  state.has_streams = copy_table(get(YOKE_STREAM_TABLE), state.stream);
  state.has_programs = copy_table(get(YOKE_PROGRAM_TABLE), state.program);
  state.has_peer = copy_table(get(YOKE_PEER_TABLE), state.peer);

  std::string backend;
  std::string stream;
  std::string program;
  std::string peer;
#define YOKE_DETAIL_COMPLETE_BACKEND(table, member, need) \
  complete<&table::member>(state.backend, Need::need, backend);
#define YOKE_DETAIL_COMPLETE_STREAM(table, member, need) \
  complete<&table::member>(state.stream, Need::need, stream);
#define YOKE_DETAIL_COMPLETE_PROGRAM(table, member, need) \
  complete<&table::member>(state.program, Need::need, program);
  YOKE_BACKEND_API_FUNCTIONS(YOKE_DETAIL_COMPLETE_BACKEND)
  YOKE_STREAM_API_FUNCTIONS(YOKE_DETAIL_COMPLETE_STREAM)
  YOKE_PROGRAM_API_FUNCTIONS(YOKE_DETAIL_COMPLETE_PROGRAM)
#undef YOKE_DETAIL_COMPLETE_BACKEND
#undef YOKE_DETAIL_COMPLETE_STREAM
#undef YOKE_DETAIL_COMPLETE_PROGRAM
  complete<&yoke_peer_api::peer_access>(state.peer, Need::R, peer);

  const char* mend = "fill these functions in, or do not offer the table";
  if (!has_backend) {
    return {"it does not offer the required table " YOKE_BACKEND_TABLE, "answer it in get_table"};
  }
  std::string missing;
  const auto add = [&](bool offered, const char* id, const std::string& names) {
    if (offered && !names.empty()) {
      missing.append(missing.empty() ? "" : "; ").append(id).append(" lacks ").append(names);
    }
  };
  add(true, YOKE_BACKEND_TABLE, backend);
  add(state.has_streams, YOKE_STREAM_TABLE, stream);
  add(state.has_programs, YOKE_PROGRAM_TABLE, program);
  add(state.has_peer, YOKE_PEER_TABLE, peer);
  return missing.empty() ? Refusal{} : Refusal{"its required functions are incomplete: " + missing, mend};
}

void destroy_plugin(yoke_plugin* plugin) {
  const std::lock_guard lock(load_time_mutex);
  plugin->destroy(plugin);
}

}  // namespace

Refusal enter(BackendState& state, yoke_plugin_entry_fn entry) {
  state.host = detail::make_host_api(state);
  yoke_entry_args args = YOKE_ENTRY_ARGS_INIT;
  args.host = &state.host;
  detail::Status status;
  yoke_plugin* plugin = nullptr;
  std::int32_t code = YOKE_OK;
  {
    const std::lock_guard lock(load_time_mutex);
    code = entry(&args, &plugin, status.get());
  }
  if (code != YOKE_OK) {
    return {"its entry answered " + std::string(code_name(detail::code_of(code))) + ": " +
                (status.text().empty() ? "it gave no reason" : std::string(status.text())),
            "see the reason"};
  }
  if (plugin == nullptr) {
    return {"its entry answered OK without a plugin", "report it to the plugin's author"};
  }
  if (auto refusal = check_prefix(*plugin)) {
    return refusal;
  }
  Refusal refusal = check_version(*plugin, args);
  if (!refusal) {
    refusal = check_identity(*plugin, state.name);
  }
  if (!refusal) {
    refusal = fill_tables(state, *plugin);
  }
  if (refusal) {
    destroy_plugin(plugin);
    return refusal;
  }
  state.version = plugin->plugin_version == nullptr ? "" : plugin->plugin_version;
  state.vendor = plugin->vendor == nullptr ? "" : plugin->vendor;
  state.plugin = plugin;
  return {};
}

void release(BackendState& state) noexcept {
  if (state.plugin != nullptr) {
    destroy_plugin(state.plugin);
    state.plugin = nullptr;
  }
}

}  // namespace yoke::loader
