// SPDX-License-Identifier: Apache-2.0
// runtime/layers/layer.cpp: a layer from entry to destroy, and the tables that it gives out; call.cpp is the
// way of a call.
#include "layers/layer.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "layers/error_slots.h"
#include "layers/registry.h"
#include "loader/memory_reader.h"
#include "loader/prefix.h"

namespace yoke::layers {
namespace {

// What the plugin throws (rule 13) goes on to whoever called: the loader knows what to do with it.
void destroy_plugin(yoke_plugin* plugin) {
  if (is_forked_child()) {
    return;
  }
  if (const auto layer = layer_of(plugin)) {
    layer->destroy();
  }
}

const void* plugin_table(yoke_plugin* plugin, const char* id) {
  if (is_forked_child()) {
    return nullptr;
  }
  const auto layer = layer_of(plugin);
  return layer == nullptr || id == nullptr ? nullptr : layer->get_table(id);
}

}  // namespace

// The tables as given out, each as long as the plugin's.
struct Layer::Tables {
#define YOKE_LAYERS_MEMBER(table, id, list) \
  table given_##table{};                    \
  bool has_##table = false;
  YOKE_LAYERS_TABLES(YOKE_LAYERS_MEMBER)
#undef YOKE_LAYERS_MEMBER
};

Layer::Layer() : tables_(std::make_unique<Tables>()) {}
Layer::~Layer() = default;

std::shared_ptr<Object> Layer::make_object(Kind kind) {
  return std::make_shared<Object>(kind, shared_from_this());
}

// Null for a prefix that cannot be trusted: whoever asked for the plugin says what is wrong with it.
yoke_plugin* Layer::adopt(yoke_plugin* inner) {
  const loader::MemoryReader memory;
  yoke_plugin raw{};
  if (loader::read_prefix(memory, inner, raw)) {
    return nullptr;
  }
  inner_ = inner;
  prefix_ = raw;
  prefix_.prefix_size = sizeof(yoke_plugin);
  prefix_.destroy = &destroy_plugin;
  prefix_.get_table = &plugin_table;
  if (raw.backend_name != nullptr) {
    backend_ = loader::printable(memory.text(raw.backend_name, YOKE_NAME_CAPACITY).value_or("?"));
  }
  if (raw.plugin_version != nullptr) {
    version_ = loader::printable(memory.text(raw.plugin_version, YOKE_NAME_CAPACITY).value_or(""));
  }
  register_layer(&prefix_, shared_from_this());
  return &prefix_;
}

std::int32_t Layer::enter(const std::shared_ptr<Layer>& layer, const Chain& below,
                          const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  Layer& self = *layer;
  if (args == nullptr || args->host == nullptr) {
    return below.enter(args, out_plugin, error);
  }
  if (is_forked_child()) {
    args->host->error_set(error, YOKE_FAILED_PRECONDITION, 0, kForked, std::strlen(kForked));
    return YOKE_FAILED_PRECONDITION;
  }
  const std::uint64_t known = std::min<std::uint64_t>(args->host->struct_size, sizeof(yoke_host_api));
  std::memcpy(&self.outer_, args->host, known);
  fill_host(self, self.host_, self.outer_, known);
  yoke_entry_args passed = YOKE_ENTRY_ARGS_INIT;
  const std::uint64_t args_known = std::min<std::uint64_t>(args->struct_size, sizeof(passed));
  std::memcpy(&passed, args, args_known);
  passed.struct_size = args_known;
  passed.host = &self.host_;
  register_layer(&self.prefix_, layer);  // found by the plugin's late callbacks, also when the entry fails
  yoke_plugin* inner = nullptr;
  std::int32_t code = YOKE_OK;
  {
    const OpenSlot slot(self, error, YOKE_PLUGIN_ENTRY_SYMBOL);
    self.entering();
    try {
      code = below.enter(&passed, &inner, slot.get()->get());
    } catch (...) {
      self.note_thrown(YOKE_PLUGIN_ENTRY_SYMBOL);
      self.retire();
      throw;
    }
    if (code == YOKE_OK && out_plugin != nullptr) {
      yoke_plugin* const mine = self.adopt(inner);
      *out_plugin = mine == nullptr ? inner : mine;
    }
    self.entered(code, *slot.get());
  }
  if (self.inner_ == nullptr) {
    self.retire();
  }
  return code;
}

namespace {

constexpr std::uint64_t kMostTableBytes = 1U << 16U;  // as the loader takes

// The bytes of a plugin's table, at most as many as `most`; none: it is broken in a way that the loader
// refuses.
std::vector<std::byte> read_table(const loader::MemoryReader& memory, const void* theirs, std::size_t most) {
  std::uint64_t size = 0;
  if (reinterpret_cast<std::uintptr_t>(theirs) % alignof(std::uint64_t) != 0 ||
      !memory.copy(theirs, sizeof(size), &size) || size <= sizeof(size) || size > kMostTableBytes) {
    return {};
  }
  std::vector<std::byte> bytes(std::min<std::uint64_t>(size, most) / sizeof(Slot) * sizeof(Slot));
  if (!memory.copy(theirs, bytes.size(), bytes.data())) {
    return {};
  }
  return bytes;
}

// Fills a layer's table from the plugin's: the slots that it knows and has get a wrapper. A slot that points
// nowhere stays as it is, for the loader to see.
template <class Table>
void wrap_table(const loader::MemoryReader& memory, const std::vector<std::byte>& theirs, Table& given,
                std::array<Slot, kFunctionCount>& slots, std::size_t first, std::size_t count) {
  const auto all = wrappers();
  given = Table{};
  given.struct_size = theirs.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = sizeof(std::uint64_t) + i * sizeof(Slot);
    if (at + sizeof(Slot) > theirs.size()) {
      break;
    }
    Slot slot = nullptr;
    std::memcpy(&slot, theirs.data() + at, sizeof(slot));
    slots[first + i] = slot;
    const bool is_good = slot != nullptr && memory.readable(reinterpret_cast<const void*>(slot));
    std::memcpy(reinterpret_cast<std::byte*>(&given) + at, is_good ? &all[first + i] : &slot, sizeof(slot));
  }
}

}  // namespace

const void* Layer::get_table(const char* id) {
  const std::string_view asked(id);
  const std::lock_guard lock(tables_mutex_);
  if (is_destroyed()) {
    late_callback("get_table");
    return nullptr;
  }
#define YOKE_LAYERS_FIRST(table, member, need) Function::member,
#define YOKE_LAYERS_GIVE(table, table_id, list)                                                        \
  if (asked == (table_id)) {                                                                           \
    constexpr Function kMembers[] = {list(YOKE_LAYERS_FIRST)};                                         \
    table_asked(id);                                                                                   \
    const void* theirs = nullptr;                                                                      \
    try {                                                                                              \
      theirs = inner_->get_table(inner_, id);                                                          \
    } catch (...) {                                                                                    \
      note_thrown("get_table");                                                                        \
      throw;                                                                                           \
    }                                                                                                  \
    const loader::MemoryReader memory;                                                                 \
    const auto bytes = read_table(memory, theirs, sizeof(table));                                      \
    table_given(id, theirs, bytes);                                                                    \
    if (bytes.empty()) {                                                                               \
      return theirs;                                                                                   \
    }                                                                                                  \
    if (!tables_->has_##table) {                                                                       \
      wrap_table(memory, bytes, tables_->given_##table, slots_, static_cast<std::size_t>(kMembers[0]), \
                 std::size(kMembers));                                                                 \
      tables_->has_##table = true;                                                                     \
    }                                                                                                  \
    return &tables_->given_##table;                                                                    \
  }
  YOKE_LAYERS_TABLES(YOKE_LAYERS_GIVE)
#undef YOKE_LAYERS_GIVE
#undef YOKE_LAYERS_FIRST
  return nullptr;  // handles of this layer would get into a table that it does not know
}

// Of the exception that is being handled.
void Layer::note_thrown(const char* call) noexcept {
  try {
    try {
      throw;
    } catch (const std::exception& exception) {
      threw(call, exception.what());
    } catch (...) {
      threw(call, "something that is no std::exception");
    }
  } catch (...) {  // out of memory, in the layer: the exception itself goes on
  }
}

void Layer::destroy() {
  {
    const std::lock_guard lock(tables_mutex_);
    if (destroyed_.load()) {
      late_callback("destroy");
      return;
    }
  }
  // Whatever is thrown, the plugin is not to be called again.
  struct Retire {
    explicit Retire(Layer& of) : layer(of) {}
    ~Retire() { layer.retire(); }
    Retire(const Retire&) = delete;
    Retire& operator=(const Retire&) = delete;
    Layer& layer;
  };
  const Retire at_end(*this);
  std::exception_ptr thrown;
  destroying();
  try {
    inner_->destroy(inner_);
  } catch (...) {
    thrown = std::current_exception();
    note_thrown("destroy");
  }
  destroyed();
  if (thrown != nullptr) {
    std::rethrow_exception(thrown);
  }
}

// Answers only from now on, and goes when many others were destroyed after it.
void Layer::retire() noexcept {
  destroyed_.store(true);
  count_devices(-device_count_.load());
  retire_layer(&prefix_);
}

}  // namespace yoke::layers
