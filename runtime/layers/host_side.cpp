// SPDX-License-Identifier: Apache-2.0
// runtime/layers/host_side.cpp: what a plugin calls: it goes through the layer's hooks to the host.
#include <algorithm>
#include <cstring>
#include <deque>

#include "layers/error_slots.h"

namespace yoke::layers {
namespace {

struct Pool {
  std::mutex mutex;
  std::deque<ErrorSlot*> free;  // the oldest is taken, so that a late write meets a closed slot
};
constexpr std::size_t kRest = 64;

Pool& pool() {
  static Pool* const only = new Pool;  // never destroyed: plugins may hold on to slots
  return *only;
}

ErrorSlot* take_slot(Layer& layer, yoke_error* outer, const char* call) {
  ErrorSlot* slot = nullptr;
  {
    Pool& all = pool();
    const std::lock_guard lock(all.mutex);
    if (all.free.size() > kRest) {
      slot = all.free.front();
      all.free.pop_front();
    }
  }
  if (slot == nullptr) {
    slot = new ErrorSlot;
  }
  slot->layer = &layer;
  slot->thread = std::this_thread::get_id();
  slot->call = call;
  slot->outer = outer;
  slot->set_count = 0;
  slot->code = YOKE_OK;
  slot->vendor_code = 0;
  slot->text.clear();
  slot->is_open.store(true, std::memory_order_release);
  return slot;
}

thread_local const Layer* calling_back = nullptr;

// While a host function runs for a plugin on this thread.
class CallingBack {
 public:
  explicit CallingBack(const Layer* layer) : before_(calling_back) { calling_back = layer; }
  ~CallingBack() { calling_back = before_; }
  CallingBack(const CallingBack&) = delete;
  CallingBack& operator=(const CallingBack&) = delete;

 private:
  const Layer* before_;
};

Layer& layer_of(void* host) noexcept {
  return *static_cast<Layer*>(host);
}

void log(void* host, std::int32_t level, const char* text, std::uint64_t length) {
  layer_of(host).host_log(level, text, length);
}
void trace_begin(void* host, const char* name) {
  layer_of(host).host_trace_begin(name);
}
void trace_end(void* host) {
  layer_of(host).host_trace_end();
}
void* allocate(void* host, std::uint64_t byte_count, std::uint64_t alignment) {
  return layer_of(host).host_allocate(byte_count, alignment);
}
void deallocate(void* host, void* memory) {
  layer_of(host).host_deallocate(memory);
}

}  // namespace

const Layer* layer_calling_back() noexcept {
  return calling_back;
}

OpenSlot::OpenSlot(Layer& layer, Call& call)
    : OpenSlot(layer, call.has_result() ? call.pointer<yoke_error>(call.row.argument_count - 1U) : nullptr,
               call.row.name) {
  call.status = slot_;
}

OpenSlot::OpenSlot(Layer& layer, yoke_error* outer, const char* call)
    : slot_(take_slot(layer, outer, call)) {}

OpenSlot::~OpenSlot() {
  slot_->is_open.store(false, std::memory_order_release);
  Pool& all = pool();
  const std::lock_guard lock(all.mutex);
  all.free.push_back(slot_);
}

void fill_host(Layer& layer, yoke_host_api& host, const yoke_host_api& outer, std::uint64_t known) {
  // A function that is new in yoke_host_api needs its wrapper here.
  static_assert(sizeof(yoke_host_api) == 8 * sizeof(void*));
  host = {};
  host.struct_size = known;
  host.host = &layer;
  host.log = outer.log == nullptr ? nullptr : &log;
  host.error_set = &Layer::host_error_set;
  host.trace_begin = &trace_begin;
  host.trace_end = &trace_end;
  host.allocate = outer.allocate == nullptr ? nullptr : &allocate;
  host.deallocate = outer.deallocate == nullptr ? nullptr : &deallocate;
}

void Layer::host_log(std::int32_t level, const char* text, std::uint64_t length) noexcept {
  if (is_destroyed()) {
    late_callback("log");
    return;
  }
  if (logging(level, text, length)) {
    const CallingBack mark(this);
    outer_.log(outer_.host, level, text, length);
  }
}

void Layer::host_trace_begin(const char* name) noexcept {
  if (is_destroyed()) {
    late_callback("trace_begin");
    return;
  }
  span_begin(name);
  if (outer_.trace_begin != nullptr) {
    outer_.trace_begin(outer_.host, name);
  }
}

void Layer::host_trace_end() noexcept {
  if (is_destroyed()) {
    late_callback("trace_end");
    return;
  }
  span_end();
  if (outer_.trace_end != nullptr) {
    outer_.trace_end(outer_.host);
  }
}

void* Layer::host_allocate(std::uint64_t byte_count, std::uint64_t alignment) noexcept {
  if (is_destroyed()) {
    late_callback("allocate");
    return nullptr;
  }
  const CallingBack mark(this);
  void* const memory = outer_.allocate(outer_.host, byte_count, alignment);
  allocated(memory, byte_count, alignment);
  return memory;
}

void Layer::host_deallocate(void* memory) noexcept {
  if (is_destroyed()) {
    late_callback("deallocate");
    return;
  }
  if (deallocating(memory)) {
    const CallingBack mark(this);
    outer_.deallocate(outer_.host, memory);
  }
}

void Layer::host_error_set(yoke_error* error, std::int32_t code, std::int64_t vendor_code, const char* text,
                           std::uint64_t length) noexcept {
  if (error == nullptr) {
    return;
  }
  auto& slot = *reinterpret_cast<ErrorSlot*>(error);
  const bool in_time =
      slot.is_open.load(std::memory_order_acquire) && slot.thread == std::this_thread::get_id();
  Layer& layer = *slot.layer;
  layer.error_setting(slot, text, length, in_time);
  if (!in_time) {
    return;
  }
  constexpr std::uint64_t kMostText = 4000;
  ++slot.set_count;
  slot.code = code;
  slot.vendor_code = vendor_code;
  try {
    slot.text.assign(text == nullptr ? "" : text, text == nullptr ? 0 : std::min(length, kMostText));
  } catch (...) {  // out of memory: the code is there
  }
  if (layer.outer_.error_set != nullptr) {
    layer.outer_.error_set(slot.outer, code, vendor_code, text, length);
  }
}

}  // namespace yoke::layers
