// SPDX-License-Identifier: Apache-2.0
// runtime/layers/host_side.cpp: the host table for a plugin, which calls the hooks of the layers.
#include <algorithm>
#include <deque>
#include <utility>

#include "layers/interposer.h"

namespace yoke::layers {
namespace {

struct Pool {
  std::mutex mutex;
  // Oldest first: closed slots are reused as late as possible, to detect late writes.
  std::deque<ErrorSlot*> free;
};
constexpr std::size_t kRest = 64;

Pool& pool() {
  static Pool* const only = new Pool;  // never destroyed: plugins may keep pointers to slots
  return *only;
}

thread_local const Interposer* current_callback = nullptr;

// A call of a host function by the plugin on this thread. If the plugin is destroyed, the call is reported
// and the object converts to false.
class Callback {
 public:
  Callback(void* host, const char* name) : plugin_(*static_cast<Interposer*>(host)) {
    if (plugin_.is_destroyed()) {
      plugin_.each(&Layer::called_late, name);
    }
  }
  explicit operator bool() const { return !plugin_.is_destroyed(); }
  Interposer& plugin() const { return plugin_; }
  // Calls the host's own function.
  template <class Function, class... Arguments>
  auto pass(Function function, Arguments... arguments) const {
    const Mark mark{std::exchange(current_callback, &plugin_)};
    return function(plugin_.outer_host().host, arguments...);
  }

 private:
  class Mark {
   public:
    explicit Mark(const Interposer* before) : before_(before) {}
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;
    ~Mark() { current_callback = before_; }

   private:
    const Interposer* before_;
  };
  Interposer& plugin_;
};

void log(void* host, std::int32_t level, const char* text, std::uint64_t length) {
  const Callback call(host, "log");
  if (call && call.plugin().all(&Layer::logging, level, text, length)) {
    call.pass(call.plugin().outer_host().log, level, text, length);
  }
}

void trace_begin(void* host, const char* name) {
  if (const Callback call(host, "trace_begin"); call) {
    call.plugin().each(&Layer::span_begin, name);
    if (const auto outer = call.plugin().outer_host().trace_begin; outer != nullptr) {
      call.pass(outer, name);
    }
  }
}

void trace_end(void* host) {
  if (const Callback call(host, "trace_end"); call) {
    call.plugin().each(&Layer::span_end);
    if (const auto outer = call.plugin().outer_host().trace_end; outer != nullptr) {
      call.pass(outer);
    }
  }
}

void* allocate(void* host, std::uint64_t byte_count, std::uint64_t alignment) {
  const Callback call(host, "allocate");
  void* const memory = call ? call.pass(call.plugin().outer_host().allocate, byte_count, alignment) : nullptr;
  if (call) {
    call.plugin().each(&Layer::allocated, memory);
  }
  return memory;
}

void deallocate(void* host, void* memory) {
  const Callback call(host, "deallocate");
  if (call && call.plugin().all(&Layer::deallocating, memory)) {
    call.pass(call.plugin().outer_host().deallocate, memory);
  }
}

const void* get_table(void* host, const char* id) {
  const Callback call(host, "get_table of the host");
  const void* const table = call ? call.pass(call.plugin().outer_host().get_table, id) : nullptr;
  try {
    return table == nullptr ? nullptr : call.plugin().pass_through(id, table);
  } catch (const std::exception&) {  // out of memory; no exception may reach the plugin
    return nullptr;
  }
}

void error_set(yoke_error* error, std::int32_t code, std::int64_t vendor_code, const char* text,
               std::uint64_t length) {
  if (error == nullptr) {
    return;
  }
  auto& slot = *reinterpret_cast<ErrorSlot*>(error);
  const bool is_valid =
      slot.is_open.load(std::memory_order_acquire) && slot.thread == std::this_thread::get_id();
  Interposer& plugin = *slot.owner;
  plugin.each(&Layer::error_setting, slot, is_valid);
  if (!is_valid) {
    return;
  }
  constexpr std::uint64_t kMostText = 4000;
  ++slot.set_count;
  slot.code = code;
  slot.vendor_code = vendor_code;
  try {
    slot.text.assign(text == nullptr ? "" : text, text == nullptr ? 0 : std::min(length, kMostText));
  } catch (const std::exception&) {  // out of memory: the code alone is kept
  }
  if (plugin.outer_host().error_set != nullptr) {
    plugin.outer_host().error_set(slot.outer, code, vendor_code, text, length);
  }
}

}  // namespace

const Interposer* calling_back() noexcept {
  return current_callback;
}

yoke_host_api make_host(Interposer& plugin, const yoke_host_api& outer, std::uint64_t known) {
  static_assert(sizeof(yoke_host_api) == 9 * sizeof(void*), "a new function needs a wrapper here");
  yoke_host_api host{};
  host.struct_size = known;
  host.host = &plugin;
  host.log = outer.log == nullptr ? nullptr : &log;
  host.error_set = &error_set;
  host.trace_begin = &trace_begin;
  host.trace_end = &trace_end;
  host.allocate = outer.allocate == nullptr ? nullptr : &allocate;
  host.deallocate = outer.deallocate == nullptr ? nullptr : &deallocate;
  host.get_table = outer.get_table == nullptr ? nullptr : &get_table;
  return host;
}

OpenSlot::OpenSlot(Interposer& owner, yoke_error* outer, const char* call) {
  {
    const std::lock_guard lock(pool().mutex);
    if (pool().free.size() > kRest) {
      slot_ = pool().free.front();
      pool().free.pop_front();
    } else {
      slot_ = new ErrorSlot;
    }
  }
  slot_->owner = &owner;
  slot_->thread = std::this_thread::get_id();
  slot_->call = call;
  slot_->outer = outer;
  slot_->set_count = 0;
  slot_->code = YOKE_STATUS_OK;
  slot_->vendor_code = 0;
  slot_->text.clear();
  slot_->is_open.store(true, std::memory_order_release);
}

OpenSlot::~OpenSlot() {
  slot_->is_open.store(false, std::memory_order_release);
  const std::lock_guard lock(pool().mutex);
  pool().free.push_back(slot_);
}

}  // namespace yoke::layers
