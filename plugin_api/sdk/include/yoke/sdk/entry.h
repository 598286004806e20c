// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/entry.h: makes a plugin from a Backend
// class. Include it in one file that contains:
//   YOKE_SDK_PLUGIN(my::Backend, "mine", "1.0.0", "Me")
#pragma once

#include <yoke/sdk/detail/backend_table.h>
#include <yoke/sdk/detail/collectives_table.h>
#include <yoke/sdk/detail/fault_table.h>
#include <yoke/sdk/detail/memory_table.h>
#include <yoke/sdk/detail/profile_table.h>
#include <yoke/sdk/detail/program_table.h>
#include <yoke/sdk/detail/stream_table.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#if defined(__has_feature)
#define YOKE_SDK_HAS_FEATURE(x) __has_feature(x)
#else
#define YOKE_SDK_HAS_FEATURE(x) 0
#endif

namespace yoke::sdk {

// String literals: the host borrows them for as long as the plugin is loaded.
struct PluginName {
  const char* name;
  const char* plugin_version;
  const char* vendor;
};

namespace detail {

inline constexpr std::uint32_t built_with_sanitizer() {
#if defined(__SANITIZE_ADDRESS__) || YOKE_SDK_HAS_FEATURE(address_sanitizer)
  return YOKE_SANITIZER_ADDRESS;
#elif defined(__SANITIZE_THREAD__) || YOKE_SDK_HAS_FEATURE(thread_sanitizer)
  return YOKE_SANITIZER_THREAD;
#elif YOKE_SDK_HAS_FEATURE(memory_sanitizer)
  return YOKE_SANITIZER_MEMORY;
#else
  return YOKE_SANITIZER_NONE;
#endif
}

inline void plugin_destroy(yoke_plugin* plugin) noexcept {
  if (plugin == nullptr) {
    return;
  }
  PluginState* state = &state_of(plugin);
  if (state->fork_guard.forked()) {
    return;
  }
  bool alive = false;
  for (const auto& count : state->live) {
    alive = alive || count.load(std::memory_order_acquire) != 0;
  }
  if (alive) {
    // Live handles point to the state, so it must not be freed.
    state->host.log(YOKE_LOG_ERROR, "plugin.destroy kept=1 reason=\"objects of the plugin are alive\"");
    return;
  }
  delete state;
}

inline const void* plugin_table(yoke_plugin* plugin, const char* id) noexcept {
  if (plugin == nullptr || id == nullptr) {
    return nullptr;
  }
  const Provides& provides = state_of(plugin).provides;
  const auto is = [&](const char* name) { return std::strcmp(id, name) == 0; };
  if (is(YOKE_BACKEND_TABLE)) {
    return &kBackendTable;
  }
  if (provides.streams && is(YOKE_STREAM_TABLE)) {
    return &kStreamTable;
  }
  if (provides.programs && is(YOKE_PROGRAM_TABLE)) {
    return &kProgramTable;
  }
  if (provides.peers && is(YOKE_PEER_TABLE)) {
    return &kPeerTable;
  }
  if (provides.memory && is(YOKE_MEMORY_TABLE)) {
    return &kMemoryTable;
  }
  if (provides.faults && is(YOKE_FAULT_TABLE)) {
    return &kFaultTable;
  }
  if (provides.collectives && is(YOKE_COLLECTIVES_TABLE)) {
    return &kCollectivesTable;
  }
  if (provides.profile && is(YOKE_PROFILE_TABLE)) {
    return &kProfileTable;
  }
  try {
    return state_of(plugin).backend->table(id);
  } catch (...) {
    return nullptr;
  }
}

// Chooses the highest minor version that both sides support.
inline std::uint32_t negotiated_minor(const yoke_entry_args& args, const char* name) {
  using Version = std::pair<std::uint32_t, std::uint32_t>;
  constexpr Version kOldest(YOKE_ABI_MAJOR, YOKE_ABI_MIN_MINOR);
  constexpr Version kNewest(YOKE_ABI_MAJOR, YOKE_ABI_MINOR);
  const Version oldest_of_host(args.min_major, args.min_minor);
  const Version newest_of_host(args.max_major, args.max_minor);
  if (std::max(oldest_of_host, kOldest) > std::min(newest_of_host, kNewest)) {
    const auto range = [](Version low, Version high) {
      return std::to_string(low.first) + "." + std::to_string(low.second) + " to " +
             std::to_string(high.first) + "." + std::to_string(high.second);
    };
    throw Failure(YOKE_STATUS_FAILED_PRECONDITION, std::string("plugin '") + name + "' supports ABI " +
                                                       range(kOldest, kNewest) + ", the host " +
                                                       range(oldest_of_host, newest_of_host) +
                                                       "; update the older of the two");
  }
  return std::min(newest_of_host, kNewest).second;
}

}  // namespace detail

// The body of yoke_plugin_entry. `make_backend` returns a std::unique_ptr<Backend>.
template <class MakeBackend>
std::int32_t enter(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error,
                   const PluginName& name, const MakeBackend& make_backend) noexcept {
  if (args == nullptr || out_plugin == nullptr ||
      args->struct_size < offsetof(yoke_entry_args, host) + sizeof(args->host)) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  yoke_entry_args known{};
  read_sized(known, args);
  const Host host(known.host);
  try {
    const std::uint32_t minor = detail::negotiated_minor(known, name.name);
    auto state = std::make_unique<detail::PluginState>();
    state->magic = YOKE_PLUGIN_MAGIC;
    state->prefix_size = sizeof(yoke_plugin);
    state->abi_major = YOKE_ABI_MAJOR;
    state->abi_minor = minor;
    state->sanitizer = detail::built_with_sanitizer();
    state->kind = YOKE_PLUGIN_KIND_BACKEND;
    state->name = name.name;
    state->plugin_version = name.plugin_version;
    state->vendor = name.vendor;
    state->destroy = detail::plugin_destroy;
    state->get_table = detail::plugin_table;
    state->host = host;
    state->backend = make_backend();
    state->backend->set_host(host);
    state->provides = state->backend->provides();
    state->option_specs = state->backend->option_specs();
    if (known.option_count != 0) {
      detail::present(known.options, "options");
    }
    state->backend->configure(Options(state->option_specs, YOKE_OPTION_SCOPE_PLUGIN, known.options,
                                      known.option_count, known.option_stride));
    *out_plugin = state.release();
    return YOKE_STATUS_OK;
  } catch (...) {
    return detail::caught(host, error);
  }
}

}  // namespace yoke::sdk

// Defines the one symbol that a plugin exports.
#define YOKE_SDK_PLUGIN(BACKEND, NAME, VERSION, VENDOR)                                    \
  extern "C" YOKE_EXPORT std::int32_t yoke_plugin_entry(                                   \
      const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) noexcept { \
    return ::yoke::sdk::enter(args, out_plugin, error, {NAME, VERSION, VENDOR},            \
                              [] { return std::make_unique<BACKEND>(); });                 \
  }
