// SPDX-License-Identifier: Apache-2.0
// runtime/loader/enter.cpp: the prefix and the required functions are checked before anything else is used.
#include "loader/enter.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "loader/memory_reader.h"
#include "loader/prefix.h"
#include "loader/probe_protocol.h"
#include "loader/status.h"
#include "loader/tables.h"

namespace yoke::loader {
namespace {

// [load-time] means one call at a time in the whole process, because all runtimes share one mapping of a
// plugin. This lock and the one in library.cpp are the only state that two runtimes share.
constinit std::mutex load_time_mutex;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

constexpr std::size_t kMaxReasonBytes = 1000;
constexpr std::uint64_t kMaxTableBytes = 1U << 16U;  // a larger size is garbage, not a later minor's table

// Runs code of the plugin. Rule 13 forbids exceptions; a plugin that throws one is refused.
template <class Call>
Refusal guarded(const char* what, const Call& call) {
  std::string thrown;
  try {
    call();
    return {};
  } catch (const std::exception& exception) {
    thrown = std::string(": ") + printable(exception.what());
  } catch (...) {
    thrown = " of an unknown type";
  }
  return {std::string("its ") + what + " threw an exception" + thrown,
          "report it to the plugin's author: exceptions must not leave a plugin"};
}

// Copies the part of a table that both sides know; the rest stays zero. A
// null table is valid: `offered` is then false.
template <class Table>
Refusal copy_table(const MemoryReader& memory, const char* id, const void* theirs, Table& mine,
                   bool& offered) {
  mine = Table{};
  offered = theirs != nullptr;
  if (!offered) {
    return {};
  }
  const auto refuse = [&](const std::string& what) {
    return Refusal{std::string("its table ") + id + " " + what,
                   "set struct_size to the table's sizeof, and return its address from get_table"};
  };
  if (reinterpret_cast<std::uintptr_t>(theirs) % alignof(Table) != 0) {
    return refuse("is not aligned to " + std::to_string(alignof(Table)) + " bytes");
  }
  std::uint64_t byte_count = 0;
  if (!memory.copy(theirs, sizeof(byte_count), &byte_count)) {
    return refuse("is at the unreadable address " + address_text(theirs));
  }
  if (byte_count <= sizeof(byte_count) || byte_count > kMaxTableBytes) {
    return refuse("has struct_size " + std::to_string(byte_count) + "; this libyoke's has " +
                  std::to_string(sizeof(Table)));
  }
  byte_count = std::min<std::uint64_t>(byte_count, sizeof(Table)) / sizeof(void*) * sizeof(void*);
  if (!memory.copy(theirs, byte_count, &mine)) {
    return refuse("has unreadable memory within its struct_size");
  }
  mine.struct_size = byte_count;
  return {};
}

enum class Need { R, O };  // NOLINT(readability-identifier-naming): the words of the lists in backend.h

// Puts a stub into an empty slot, and appends the function's name to `missing` if it is required. A slot with
// an unreadable address counts as a missing required function.
template <auto Member, class Table>
void complete(const MemoryReader& memory, Table& table, Need need, std::string& missing) {
  auto& slot = table.*Member;
  if (slot != nullptr && memory.readable(reinterpret_cast<const void*>(slot))) {
    return;
  }
  const bool is_required = need == Need::R || slot != nullptr;
  slot = &detail::Stub<std::remove_reference_t<decltype(slot)>>::answer;
  if (is_required) {
    missing.append(missing.empty() ? "" : ", ").append(detail::Function<Member>::kName);
  }
}

// Fills empty slots with stubs. The refusal lists every missing function.
Refusal complete_tables(const MemoryReader& memory, EnteredPlugin& plugin) {
  std::string backend;
  std::string stream;
  std::string program;
  std::string peer;
  std::string memory_table;
  std::string collectives;
#define YOKE_DETAIL_COMPLETE_BACKEND(table, member, need) \
  complete<&table::member>(memory, plugin.backend, Need::need, backend);
#define YOKE_DETAIL_COMPLETE_STREAM(table, member, need) \
  complete<&table::member>(memory, plugin.stream, Need::need, stream);
#define YOKE_DETAIL_COMPLETE_PROGRAM(table, member, need) \
  complete<&table::member>(memory, plugin.program, Need::need, program);
#define YOKE_DETAIL_COMPLETE_MEMORY(table, member, need) \
  complete<&table::member>(memory, plugin.memory, Need::need, memory_table);
#define YOKE_DETAIL_COMPLETE_COLLECTIVES(table, member, need) \
  complete<&table::member>(memory, plugin.collectives, Need::need, collectives);
  YOKE_BACKEND_API_FUNCTIONS(YOKE_DETAIL_COMPLETE_BACKEND)
  YOKE_STREAM_API_FUNCTIONS(YOKE_DETAIL_COMPLETE_STREAM)
  YOKE_PROGRAM_API_FUNCTIONS(YOKE_DETAIL_COMPLETE_PROGRAM)
  YOKE_MEMORY_API_FUNCTIONS(YOKE_DETAIL_COMPLETE_MEMORY)
  YOKE_COLLECTIVES_API_FUNCTIONS(YOKE_DETAIL_COMPLETE_COLLECTIVES)
#undef YOKE_DETAIL_COMPLETE_COLLECTIVES
#undef YOKE_DETAIL_COMPLETE_MEMORY
#undef YOKE_DETAIL_COMPLETE_BACKEND
#undef YOKE_DETAIL_COMPLETE_STREAM
#undef YOKE_DETAIL_COMPLETE_PROGRAM
  complete<&yoke_peer_api::peer_access>(memory, plugin.peer, Need::R, peer);

  std::string missing;
  const auto add = [&](bool offered, const char* id, const std::string& names) {
    if (offered && !names.empty()) {
      missing.append(missing.empty() ? "" : "; ").append(id).append(" lacks ").append(names);
    }
  };
  add(true, YOKE_BACKEND_TABLE, backend);
  add(plugin.has_streams, YOKE_STREAM_TABLE, stream);
  add(plugin.has_programs, YOKE_PROGRAM_TABLE, program);
  add(plugin.has_peer, YOKE_PEER_TABLE, peer);
  add(plugin.has_memory, YOKE_MEMORY_TABLE, memory_table);
  add(plugin.has_collectives, YOKE_COLLECTIVES_TABLE, collectives);
  return missing.empty() ? Refusal{}
                         : Refusal{"required functions are missing: " + missing,
                                   "implement these functions, or do not return the table"};
}

Refusal fill_tables(const MemoryReader& memory, EnteredPlugin& plugin, const yoke_plugin& prefix) {
  bool has_backend = false;
  const auto fetch = [&](const char* id, auto& mine, bool& offered) {
    const void* theirs = nullptr;
    auto refusal = guarded("get_table", [&] { theirs = prefix.get_table(plugin.plugin.get(), id); });
    return refusal ? refusal : copy_table(memory, id, theirs, mine, offered);
  };
  Refusal refusal = fetch(YOKE_BACKEND_TABLE, plugin.backend, has_backend);
  if (!refusal) {
    refusal = fetch(YOKE_STREAM_TABLE, plugin.stream, plugin.has_streams);
  }
  if (!refusal) {
    refusal = fetch(YOKE_PROGRAM_TABLE, plugin.program, plugin.has_programs);
  }
  if (!refusal) {
    refusal = fetch(YOKE_PEER_TABLE, plugin.peer, plugin.has_peer);
  }
  if (!refusal) {
    refusal = fetch(YOKE_MEMORY_TABLE, plugin.memory, plugin.has_memory);
  }
  if (!refusal) {
    refusal = fetch(YOKE_COLLECTIVES_TABLE, plugin.collectives, plugin.has_collectives);
  }
  if (refusal) {
    return refusal;
  }
  if (!has_backend) {
    return {"it does not offer the required table " YOKE_BACKEND_TABLE, "return it from get_table"};
  }
  return complete_tables(memory, plugin);
}

Refusal call_entry(const Host& host, yoke_plugin_entry_fn entry, const yoke_entry_args& args,
                   yoke_plugin** out_plugin) {
  detail::Status status;
  std::int32_t code = YOKE_STATUS_OK;
  const std::lock_guard lock(load_time_mutex);
  if (auto refusal =
          guarded("entry", [&] { code = host.call_entry(entry, &args, out_plugin, status.get()); })) {
    return refusal;
  }
  if (code == YOKE_STATUS_OK) {
    return {};
  }
  const bool has_text = !status.text().empty();
  return {"its entry failed with " + std::string(code_name(detail::code_of(code))) + ": " +
              (has_text ? printable(status.text(), kMaxReasonBytes) : "it gave no reason"),
          has_text ? "resolve the problem that the plugin reports" : "report it to the plugin's author"};
}

Refusal enter_attached(const Host& host, yoke_plugin_entry_fn entry, const PluginOptions& options,
                       EnteredPlugin& plugin, const OnStage& on_stage) {
  const MemoryReader memory;
  const auto begin = [&](const char* stage) {
    if (on_stage) {
      on_stage(stage);
    }
  };
  yoke_entry_args args = YOKE_ENTRY_ARGS_INIT;
  args.host = plugin.host.get();
  const auto rows = rows_of(options);
  args.options = rows.data();
  args.option_count = static_cast<std::uint32_t>(rows.size());
  args.option_stride = sizeof(yoke_option);
  yoke_plugin* entered = nullptr;
  begin(kStageEntry);
  if (auto refusal = call_entry(host, entry, args, &entered)) {
    return refusal;
  }
  Prefix prefix;
  if (auto refusal = read_prefix(memory, entered, prefix.raw)) {
    return refusal;
  }
  plugin.plugin = {entered, DestroyPlugin{prefix.raw.destroy}};
  auto refusal = check_prefix(memory, args, plugin.name, !plugin.path.empty(), prefix);
  if (!refusal) {
    begin(kStageTables);
    refusal = fill_tables(memory, plugin, prefix.raw);
  }
  if (refusal) {
    begin(kStageDestroy);
    return refusal;
  }
  plugin.version = std::move(prefix.version);
  plugin.vendor = std::move(prefix.vendor);
  return {};
}

}  // namespace

void DestroyPlugin::operator()(yoke_plugin* plugin) const noexcept {
  const std::lock_guard lock(load_time_mutex);
  try {
    destroy(plugin);
  } catch (...) {  // NOLINT(bugprone-empty-catch): release() reports it
  }
}

Refusal enter(const std::shared_ptr<const Host>& host, yoke_plugin_entry_fn entry,
              const PluginOptions& options, EnteredPlugin& plugin, const OnStage& on_stage) {
  const auto undo = [&] {
    plugin.plugin.reset();
    plugin.host.reset();
  };
  plugin.host = attach_host(host, plugin.name);
  try {
    auto refusal = enter_attached(*host, entry, options, plugin, on_stage);
    if (refusal) {
      undo();
    }
    return refusal;
  } catch (...) {  // out of memory, or `on_stage` threw
    undo();
    throw;
  }
}

Refusal release(EnteredPlugin& plugin) {
  Refusal failed;
  if (plugin.plugin != nullptr) {
    const auto destroy = plugin.plugin.get_deleter().destroy;
    const std::lock_guard lock(load_time_mutex);
    failed = guarded("destroy", [&] { destroy(plugin.plugin.release()); });
  }
  plugin.host.reset();
  return failed;
}

}  // namespace yoke::loader
