// SPDX-License-Identifier: Apache-2.0
// runtime/loader/enter.cpp: nothing of a plugin is believed before its prefix and its required functions were
// checked.
#include "loader/enter.h"

#include <yoke/runtime/layers.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "device/call.h"
#include "device/host_api.h"
#include "loader/memory_reader.h"
#include "loader/prefix.h"
#include "loader/probe_protocol.h"

namespace yoke::loader {
namespace {

using detail::BackendState;

// [load-time] means one call at a time in the whole process, because a plugin is mapped once for all
// runtimes. This and the lock of library.cpp are the only state that two runtimes share.
constinit std::mutex load_time_mutex;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

constexpr std::size_t kMostReasonBytes = 1000;
constexpr std::uint64_t kMostTableBytes = 1U << 16U;  // more is garbage, not a table of a later minor

// Runs code of the plugin. Rule 13 forbids it to throw; an embedder is not taken down by one that does.
template <class Call>
Refusal guarded(const char* what, const Call& call) {
  std::string thrown;
  try {
    call();
    return {};
  } catch (const std::exception& exception) {
    thrown = std::string(": ") + printable(exception.what());
  } catch (...) {
    thrown = " of a type that yoke does not know";
  }
  return {std::string("its ") + what + " threw an exception" + thrown,
          "report it to the plugin's author: nothing may be thrown across the plugin's boundary"};
}

// Copies what both sides know; what the plugin's table is too short for stays zero. A table that is not
// offered is no refusal.
template <class Table>
Refusal copy_table(const MemoryReader& memory, const char* id, const void* theirs, Table& mine,
                   bool& offered) {
  mine = Table{};
  offered = theirs != nullptr;
  if (!offered) {
    return {};
  }
  const char* mend = "begin the table with its own sizeof, and let get_table answer its address";
  const auto refuse = [&](const std::string& what) {
    return Refusal{std::string("its table ") + id + " " + what, mend};
  };
  if (reinterpret_cast<std::uintptr_t>(theirs) % alignof(Table) != 0) {
    return refuse("is not aligned to " + std::to_string(alignof(Table)) + " bytes");
  }
  std::uint64_t byte_count = 0;
  if (!memory.copy(theirs, sizeof(byte_count), &byte_count)) {
    return refuse("points where no memory is");
  }
  if (byte_count <= sizeof(byte_count) || byte_count > kMostTableBytes) {
    return refuse("says that it has " + std::to_string(byte_count) + " bytes, and yoke's has " +
                  std::to_string(sizeof(Table)));
  }
  byte_count = std::min<std::uint64_t>(byte_count, sizeof(Table)) / sizeof(void*) * sizeof(void*);
  if (!memory.copy(theirs, byte_count, &mine)) {
    return refuse("ends where no memory is, before the size that it gives");
  }
  mine.struct_size = byte_count;
  return {};
}

enum class Need { R, O };  // NOLINT(readability-identifier-naming): the words of the lists in backend.h

// A slot that is empty: a stub goes in, and when it is required its name goes into `missing`.
// A slot that points where no memory is counts as missing.
template <auto Member, class Table>
void complete(const MemoryReader& memory, Table& table, Need need, std::string& missing) {
  auto& slot = table.*Member;
  if (slot != nullptr && memory.readable(reinterpret_cast<const void*>(slot))) {
    return;
  }
  if (slot != nullptr) {
    need = Need::R;  // whoever wrote it meant to offer it
  }
  slot = &detail::Stub<std::remove_reference_t<decltype(slot)>>::answer;
  if (need == Need::R) {
    missing.append(missing.empty() ? "" : ", ").append(detail::Function<Member>::kName);
  }
}

// Fills the holes with stubs. The refusal lists all missing functions at once.
Refusal complete_tables(const MemoryReader& memory, BackendState& state) {
  std::string backend;
  std::string stream;
  std::string program;
  std::string peer;
#define YOKE_DETAIL_COMPLETE_BACKEND(table, member, need) \
  complete<&table::member>(memory, state.backend, Need::need, backend);
#define YOKE_DETAIL_COMPLETE_STREAM(table, member, need) \
  complete<&table::member>(memory, state.stream, Need::need, stream);
#define YOKE_DETAIL_COMPLETE_PROGRAM(table, member, need) \
  complete<&table::member>(memory, state.program, Need::need, program);
  YOKE_BACKEND_API_FUNCTIONS(YOKE_DETAIL_COMPLETE_BACKEND)
  YOKE_STREAM_API_FUNCTIONS(YOKE_DETAIL_COMPLETE_STREAM)
  YOKE_PROGRAM_API_FUNCTIONS(YOKE_DETAIL_COMPLETE_PROGRAM)
#undef YOKE_DETAIL_COMPLETE_BACKEND
#undef YOKE_DETAIL_COMPLETE_STREAM
#undef YOKE_DETAIL_COMPLETE_PROGRAM
  complete<&yoke_peer_api::peer_access>(memory, state.peer, Need::R, peer);

  const char* mend = "fill these functions in, or do not offer the table";
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

// Every table, copied and complete.
Refusal fill_tables(const MemoryReader& memory, BackendState& state, yoke_plugin* plugin,
                    const yoke_plugin& prefix) {
  bool has_backend = false;
  const auto fetch = [&](const char* id, auto& mine, bool& offered) {
    const void* theirs = nullptr;
    auto refusal = guarded("get_table", [&] { theirs = prefix.get_table(plugin, id); });
    return refusal ? refusal : copy_table(memory, id, theirs, mine, offered);
  };
  Refusal refusal = fetch(YOKE_BACKEND_TABLE, state.backend, has_backend);
  if (!refusal) {
    refusal = fetch(YOKE_STREAM_TABLE, state.stream, state.has_streams);
  }
  if (!refusal) {
    refusal = fetch(YOKE_PROGRAM_TABLE, state.program, state.has_programs);
  }
  if (!refusal) {
    refusal = fetch(YOKE_PEER_TABLE, state.peer, state.has_peer);
  }
  if (refusal) {
    return refusal;
  }
  if (!has_backend) {
    return {"it does not offer the required table " YOKE_BACKEND_TABLE, "answer it in get_table"};
  }
  return complete_tables(memory, state);
}

Refusal destroy_plugin(yoke_plugin* plugin, void (*destroy)(yoke_plugin*)) {
  const std::lock_guard lock(load_time_mutex);
  return guarded("destroy", [&] { destroy(plugin); });
}

Refusal enter_attached(const MemoryReader& memory, BackendState& state, yoke_plugin_entry_fn entry,
                       const OnStage& on_stage) {
  const auto begin = [&](const char* stage) {
    if (on_stage) {
      on_stage(stage);
    }
  };
  yoke_entry_args args = YOKE_ENTRY_ARGS_INIT;
  args.host = state.host;
  detail::Status status;
  yoke_plugin* plugin = nullptr;
  std::int32_t code = YOKE_OK;
  Refusal refusal;
  begin(kStageEntry);
  {
    const std::lock_guard lock(load_time_mutex);
    refusal = guarded(
        "entry", [&] { code = layers::enter(state.runtime->layers, entry, &args, &plugin, status.get()); });
  }
  if (refusal) {
    return refusal;
  }
  if (code != YOKE_OK) {
    return {"its entry answered " + std::string(code_name(detail::code_of(code))) + ": " +
                (status.text().empty() ? "it gave no reason" : printable(status.text(), kMostReasonBytes)),
            "see the reason"};
  }
  Prefix prefix;
  if (refusal = read_prefix(memory, plugin, prefix.raw); refusal) {
    return refusal;
  }
  try {
    refusal = check_prefix(memory, args, state.name, prefix);
    if (!refusal) {
      begin(kStageTables);
      refusal = fill_tables(memory, state, plugin, prefix.raw);
    }
  } catch (...) {
    (void)destroy_plugin(plugin, prefix.raw.destroy);
    throw;
  }
  if (refusal) {
    begin(kStageDestroy);
    (void)destroy_plugin(plugin, prefix.raw.destroy);  // the first refusal is the one to read
    return refusal;
  }
  state.version = std::move(prefix.version);
  state.vendor = std::move(prefix.vendor);
  state.plugin = plugin;
  state.destroy = prefix.raw.destroy;
  return {};
}

}  // namespace

Refusal enter(BackendState& state, yoke_plugin_entry_fn entry, const OnStage& on_stage) {
  const MemoryReader memory;
  state.host = detail::attach_host(state);
  try {
    auto refusal = enter_attached(memory, state, entry, on_stage);
    if (refusal) {
      detail::detach_host(std::exchange(state.host, nullptr));
    }
    return refusal;
  } catch (...) {  // out of memory, or `on_stage` threw: an attached host keeps the runtime
    detail::detach_host(std::exchange(state.host, nullptr));
    throw;
  }
}

Refusal release(BackendState& state) {
  auto* const plugin = std::exchange(state.plugin, nullptr);
  auto failed = plugin == nullptr ? Refusal{} : destroy_plugin(plugin, state.destroy);
  detail::detach_host(std::exchange(state.host, nullptr));
  return failed;
}

}  // namespace yoke::loader
