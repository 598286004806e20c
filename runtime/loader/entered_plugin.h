// SPDX-License-Identifier: Apache-2.0
// runtime/loader/entered_plugin.h: a plugin that was entered: the texts of its prefix and its tables.
#pragma once

#include <yoke/backend.h>
#include <yoke/ext/collectives.h>
#include <yoke/ext/memory.h>
#include <yoke/ext/peer.h>

#include <filesystem>
#include <memory>
#include <string>
#include <type_traits>

#include "loader/host_api.h"

namespace yoke::loader {

// Calls the `destroy` that the prefix held when it was checked, and ignores what it throws.
struct DestroyPlugin {
  void (*destroy)(yoke_plugin* plugin) = nullptr;
  void operator()(yoke_plugin* plugin) const noexcept;
};

// Movable. The destructor releases the plugin; release() in enter.h also reports a failure.
struct EnteredPlugin {
  std::string name;  // as requested
  std::string version;
  std::string vendor;
  std::filesystem::path path;  // empty: registered in the process

  AttachedHost host;  // declared before `plugin`: it is detached after the plugin is destroyed
  std::unique_ptr<yoke_plugin, DestroyPlugin> plugin;

  // Copies, up to the size that this host was built with. Every slot is callable: one that the plugin left
  // empty holds a stub that fails with YOKE_STATUS_UNIMPLEMENTED. A missing table consists of stubs.
  yoke_backend_api backend{};
  yoke_stream_api stream{};
  yoke_program_api program{};
  yoke_peer_api peer{};
  yoke_memory_api memory{};
  yoke_collectives_api collectives{};
  bool has_streams = false;
  bool has_programs = false;
  bool has_peer = false;
  bool has_memory = false;
  bool has_collectives = false;

  template <class Table>
  const Table& table() const noexcept {
    if constexpr (std::is_same_v<Table, yoke_backend_api>) {
      return backend;
    } else if constexpr (std::is_same_v<Table, yoke_stream_api>) {
      return stream;
    } else if constexpr (std::is_same_v<Table, yoke_program_api>) {
      return program;
    } else if constexpr (std::is_same_v<Table, yoke_peer_api>) {
      return peer;
    } else if constexpr (std::is_same_v<Table, yoke_memory_api>) {
      return memory;
    } else {
      static_assert(std::is_same_v<Table, yoke_collectives_api>, "unknown table");
      return collectives;
    }
  }
};

}  // namespace yoke::loader
