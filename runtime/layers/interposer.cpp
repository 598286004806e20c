// SPDX-License-Identifier: Apache-2.0
// runtime/layers/interposer.cpp: wraps a plugin from its entry to its destroy, and the tables for the host.
#include "layers/interposer.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "layers/memory.h"
#include "layers/session.h"
#include "loader/memory_reader.h"
#include "loader/prefix.h"

namespace yoke::layers {

namespace {

constexpr std::uint64_t kMostBytes = 1U << 16U;  // of a table or prefix, as in the loader

std::atomic<Interposer*> last_entered{nullptr};  // head of a list linked by next_

void destroy_plugin(yoke_plugin* shown) {
  Interposer* const plugin = Interposer::find(shown);
  if (plugin != nullptr && !plugin->is_forked_child()) {
    plugin->destroy();
  }
}

const void* get_plugin_table(yoke_plugin* shown, const char* id) {
  Interposer* const plugin = Interposer::find(shown);
  return plugin == nullptr || plugin->is_forked_child() || id == nullptr ? nullptr : plugin->get_table(id);
}

struct Known {
  const char* id;
  std::size_t byte_count;
  std::size_t first;  // the Function of its first slot
};
constexpr Known kTables[] = {
#define YOKE_LAYERS_FIRST(table, member, need) static_cast<std::size_t>(Function::member),
#define YOKE_LAYERS_KNOWN(table, id, list) {id, sizeof(table), std::array{list(YOKE_LAYERS_FIRST)}[0]},
    YOKE_ABI_TABLES(YOKE_LAYERS_KNOWN)
#undef YOKE_LAYERS_KNOWN
#undef YOKE_LAYERS_FIRST
};

// A copy of the plugin's table, at most `most` bytes; empty when it is missing or malformed.
std::vector<std::byte> read_table(const void* theirs, std::size_t most) {
  std::uint64_t size = 0;
  if (reinterpret_cast<std::uintptr_t>(theirs) % alignof(std::uint64_t) != 0 ||
      !copy_mapped(theirs, sizeof(size), &size) || size <= sizeof(size) || size > kMostBytes) {
    return {};
  }
  std::vector<std::byte> bytes(std::min<std::uint64_t>(size, most) / sizeof(Slot) * sizeof(Slot));
  return copy_mapped(theirs, bytes.size(), bytes.data()) ? bytes : std::vector<std::byte>();
}

// Replaces the functions of a table by wrappers. The loader refuses slots that point to unmapped memory.
void wrap_table(std::vector<std::byte>& table, Slot* slots, std::size_t first) {
  static const auto all = wrappers();
  const std::uint64_t size = table.size();
  std::memcpy(table.data(), &size, sizeof(size));
  for (std::size_t at = sizeof(size); at < table.size(); at += sizeof(Slot), ++first) {
    Slot& slot = slots[first];
    char byte = 0;
    std::memcpy(&slot, &table[at], sizeof(slot));
    if (slot != nullptr && copy_mapped(reinterpret_cast<const void*>(slot), 1, &byte)) {
      std::memcpy(&table[at], &all[first], sizeof(slot));
    }
  }
}

}  // namespace

std::int32_t Interposer::enter(const Session& session, yoke_plugin_entry_fn entry,
                               const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  if (args == nullptr || args->host == nullptr || out_plugin == nullptr) {
    return entry(args, out_plugin, error);
  }
  auto& self = *new Interposer;
  self.sink_ = session.sink;
  self.strict_ = session.strict;
  self.layers_ = session.make_layers(self);
  self.next_ = last_entered.load();
  while (!last_entered.compare_exchange_weak(self.next_, &self)) {
  }
  const std::uint64_t known = std::min<std::uint64_t>(args->host->struct_size, sizeof(yoke_host_api));
  std::memcpy(&self.outer_, args->host, known);
  self.host_ = make_host(self, self.outer_, known);
  yoke_entry_args passed = YOKE_ENTRY_ARGS_INIT;
  const std::uint64_t args_known = std::min<std::uint64_t>(args->struct_size, sizeof(passed));
  std::memcpy(&passed, args, args_known);
  passed.struct_size = args_known;
  passed.host = &self.host_;
  yoke_plugin* inner = nullptr;
  std::int32_t code = YOKE_STATUS_OK;
  const OpenSlot slot(self, error, YOKE_PLUGIN_ENTRY_SYMBOL);
  self.each(&Layer::calling, YOKE_PLUGIN_ENTRY_SYMBOL, nullptr);
  try {
    code = entry(&passed, &inner, slot->get());
  } catch (...) {
    self.report_exception(YOKE_PLUGIN_ENTRY_SYMBOL);
    self.destroyed_ = true;
    self.each(&Layer::ended);
    throw;
  }
  if (code == YOKE_STATUS_OK) {
    *out_plugin = self.adopt(inner);
  }
  self.each(&Layer::entered, code, *slot.get());
  if (self.inner_ == nullptr) {
    self.destroyed_ = true;
    self.each(&Layer::ended);
  }
  return code;
}

yoke_plugin* Interposer::adopt(yoke_plugin* inner) {
  const loader::MemoryReader memory;
  yoke_plugin raw{};
  if (loader::read_prefix(memory, inner, raw)) {
    return inner;  // the host refuses it, too
  }
  inner_ = inner;
  prefix_ = raw;
  prefix_.prefix_size = sizeof(yoke_plugin);
  prefix_.destroy = &destroy_plugin;
  prefix_.get_table = &get_plugin_table;
  const auto text_at = [&](const char* from) {
    return from == nullptr ? "" : loader::printable(memory.text(from, YOKE_NAME_CAPACITY).value_or("?"));
  };
  backend_ = text_at(raw.name);
  version_ = text_at(raw.plugin_version);
  return &prefix_;
}

const void* Interposer::get_table(const char* id) {
  const std::lock_guard lock(tables_mutex_);
  if (is_destroyed()) {
    each(&Layer::called_late, "get_table");
    return nullptr;
  }
  const void* theirs = nullptr;
  each(&Layer::calling, "get_table", id);
  try {
    theirs = inner_->get_table(inner_, id);
  } catch (...) {
    report_exception("get_table");
    throw;
  }
  each(&Layer::table_returned);
  const auto known = std::find_if(std::begin(kTables), std::end(kTables),
                                  [&](const Known& one) { return std::strcmp(one.id, id) == 0; });
  if (known == std::end(kTables)) {
    return theirs == nullptr ? nullptr : pass_through(id, theirs);
  }
  auto bytes = read_table(theirs, known->byte_count);
  if (bytes.empty()) {
    return theirs;  // missing, or malformed: the loader refuses it
  }
  const auto [given, is_new] = tables_.try_emplace(known->id, std::move(bytes));
  if (is_new) {
    wrap_table(given->second, slots_.data(), known->first);
  }
  return given->second.data();
}

const void* Interposer::pass_through(const char* id, const void* table) {
  const std::lock_guard lock(pass_through_mutex_);
  if (passed_through_.insert(id).second && sink_) {
    sink_(LogLevel::kWarn, concat("layers.pass_through table=", id, " backend=", backend_,
                                  strict_ ? " refused=1 reason=\"strict\"" : ""));
  }
  return strict_ ? nullptr : table;
}

void Interposer::destroy() {
  if (is_destroyed()) {
    return each(&Layer::called_late, "destroy");
  }
  std::exception_ptr thrown;
  each(&Layer::calling, "destroy", nullptr);
  try {
    inner_->destroy(inner_);
  } catch (...) {
    thrown = std::current_exception();
    report_exception("destroy");
  }
  destroyed_ = true;
  each(&Layer::ended);
  if (thrown != nullptr) {
    std::rethrow_exception(thrown);
  }
}

Interposer* Interposer::find(const yoke_plugin* shown) noexcept {
  Interposer* one = last_entered.load();
  while (one != nullptr && &one->prefix_ != shown) {
    one = one->next_;
  }
  return one;
}

// Reports the exception that is being handled.
void Interposer::report_exception(const char* call) const noexcept {
  try {
    try {
      throw;
    } catch (const std::exception& exception) {
      each(&Layer::threw, call, exception.what());
    } catch (...) {
      each(&Layer::threw, call, "an object that is not a std::exception");
    }
  } catch (...) {  // out of memory in a layer; the caller rethrows the plugin's exception
  }
}

}  // namespace yoke::layers
