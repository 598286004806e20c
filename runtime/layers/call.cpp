// SPDX-License-Identifier: Apache-2.0
// runtime/layers/call.cpp: a call through a layer: handles looked up, shadows laid under what the plugin
// writes, results handed on.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>

#include "layers/error_slots.h"
#include "layers/registry.h"

namespace yoke::layers {
namespace {

constexpr std::size_t kMostShadowBytes = std::size_t{16} << 20U;  // more goes straight to the host's memory

bool is_list(Kind kind) {
  return kind == Kind::kOutRows;
}

// The host's struct_size at the front of an info struct or of the first row.
std::uint64_t size_at(const void* memory) {
  std::uint64_t size = 0;
  std::memcpy(&size, memory, sizeof(size));
  return size;
}

// The layer that the arguments of a call belong to.
std::shared_ptr<Layer> layer_among(const Row& row, const std::uint64_t* words, bool may_wait) {
  std::shared_ptr<Layer> layer;
  for (std::size_t i = 0; i < row.argument_count && layer == nullptr; ++i) {
    if (row.arguments[i].kind == Kind::kPlugin) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      layer = layer_of(reinterpret_cast<const yoke_plugin*>(words[i]), may_wait);
    } else if (is_handle(row.arguments[i].kind)) {
      const auto object = find_object(words[i], may_wait);
      layer = object == nullptr ? nullptr : object->layer;
    }
  }
  return layer;
}

}  // namespace

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

std::uint64_t Call::out(std::size_t i) const {
  return row.arguments[i].kind == Kind::kOutNumber && row.arguments[i].byte_count == 4 ? outs[i] & 0xffffffffU
                                                                                       : outs[i];
}

bool Call::wrote(std::size_t i) const {
  const std::uint64_t unwritten =
      row.arguments[i].kind == Kind::kOutNumber && row.arguments[i].byte_count == 4 ? kUnwritten & 0xffffffffU
                                                                                    : kUnwritten;
  return out(i) != unwritten;
}
// The text where it can be handed over without waiting.
std::int32_t Layer::answer_child(const Row& row, const std::uint64_t* words) {
  const auto layer = layer_among(row, words, false);
  if (layer == nullptr) {
    return YOKE_FAILED_PRECONDITION;
  }
  layer->refused_child(row.name, kForked);
  const std::size_t last = row.argument_count - 1U;
  if (row.arguments[last].kind == Kind::kStatus && layer->outer_.error_set != nullptr) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    layer->outer_.error_set(reinterpret_cast<yoke_error*>(words[last]), YOKE_FAILED_PRECONDITION, 0, kForked,
                            std::strlen(kForked));
  }
  return YOKE_FAILED_PRECONDITION;
}

std::int32_t Layer::run(Function function, const std::uint64_t* words, Issue issue) noexcept {
  const Row& row = row_of(function);
  try {
    if (is_forked_child()) {
      return answer_child(row, words);
    }
    const auto layer = layer_among(row, words, true);
    if (layer == nullptr) {  // nothing says whose call it is: destroy of NULL, or garbage alone
      return row.arguments[0].ownership == Ownership::kEnded && words[0] == 0 ? YOKE_OK
                                                                              : YOKE_INVALID_ARGUMENT;
    }
    Call call(*layer, row, words);
    return layer->run_on(call, issue);
  } catch (const std::exception&) {  // out of memory, in the layer itself
    return YOKE_RESOURCE_EXHAUSTED;
  }
}

void Layer::answer(Call& call, std::int32_t code, const std::string& text) {
  call.code = code;
  if (call.status != nullptr) {
    call.status->code = code;
    call.status->text = text;
  }
  const auto& outer = call.layer.outer_host();
  if (call.has_result() && outer.error_set != nullptr) {
    outer.error_set(call.pointer<yoke_error>(call.row.argument_count - 1U), code, 0, text.data(),
                    text.size());
  }
}

bool Layer::find_object_of(Call& call, std::size_t i, std::uint64_t word, std::shared_ptr<Object>& out) {
  const Argument& argument = call.row.arguments[i];
  const Kind wanted = argument.kind == Kind::kBindings ? Kind::kBuffer : argument.kind;
  std::string what;
  if (word == 0) {
    if (argument.nullable) {
      return true;
    }
    what = std::string(argument.name) + " is NULL";
  } else {
    auto object = find_object(word);
    const std::string described =
        object == nullptr ? "" : argument.name + std::string(" is ") + object->name();
    if (object == nullptr) {
      what = std::string(argument.name) + " is no handle of any plugin, or one that ended long ago";
    } else if (object->layer.get() != this) {
      what = described + " of another plugin, '" + object->layer->backend() + "'";
    } else if (object->kind != wanted) {
      what = described + ", and the call takes a " + kind_name(wanted);
    } else if (!object->is_alive()) {
      what = described + ", which was " + (wanted == Kind::kDevice ? "closed" : "destroyed") + " before";
    } else {
      out = std::move(object);
      return true;
    }
  }
  refused_handle(call, i, what);
  answer(call, word == 0 ? YOKE_INVALID_ARGUMENT : YOKE_FAILED_PRECONDITION, what);
  return false;
}

// Every handle among the arguments; false: one is none, and the call was answered.
bool Layer::find_objects(Call& call) {
  for (std::size_t i = 0; i < call.row.argument_count; ++i) {
    const Argument& argument = call.row.arguments[i];
    if (is_handle(argument.kind) && !find_object_of(call, i, call.words[i], call.objects[i])) {
      return false;
    }
    if (argument.kind != Kind::kBindings || call.words[i] == 0) {
      continue;
    }
    const auto count = static_cast<std::uint32_t>(call.number(static_cast<std::size_t>(argument.partner)));
    const auto* bindings = call.pointer<const yoke_binding>(i);
    for (std::uint32_t b = 0; b < count; ++b) {
      const auto word = reinterpret_cast<std::uint64_t>(bindings[b].buffer);
      std::shared_ptr<Object> buffer;
      if (!find_object_of(call, i, word, buffer)) {
        return false;
      }
      if (buffer != nullptr) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): the plugin's own pointer
        call.bindings.push_back({reinterpret_cast<yoke_buffer*>(buffer->inner), bindings[b].offset});
      } else {
        call.bindings.push_back({nullptr, bindings[b].offset});
      }
      call.bound.push_back(std::move(buffer));
    }
  }
  return true;
}

void Layer::pass_shadow(Call& call, std::size_t i) {
  const Argument& argument = call.row.arguments[i];
  call.passed[i] = call.words[i];
  std::uint64_t size = 0;
  if (call.words[i] == 0) {
    return;
  }
  if (argument.kind == Kind::kOutText) {
    size = call.number(static_cast<std::size_t>(argument.partner));
  } else {
    size = size_at(call.pointer<void>(i));
    if (is_list(argument.kind)) {
      const std::uint64_t rows = call.number(static_cast<std::size_t>(argument.partner));
      size = rows == 0 || size > kMostShadowBytes / std::max<std::uint64_t>(rows, 1) ? 0 : size * rows;
    }
  }
  if (size == 0 || size > kMostShadowBytes) {
    return;
  }
  Shadow& shadow = call.shadows[i];
  shadow.size = size;
  shadow.bytes.resize(size + kCanaryByteCount, kCanary);
  std::memcpy(shadow.bytes.data(), call.pointer<void>(i), size);
  shadow.before = shadow.bytes;
  call.passed[i] = reinterpret_cast<std::uint64_t>(shadow.bytes.data());
}

// What the plugin gets for each argument.
void Layer::pass(Call& call) {
  for (std::size_t i = 0; i < call.row.argument_count; ++i) {
    switch (call.row.arguments[i].kind) {
      case Kind::kPlugin:
        call.passed[i] = reinterpret_cast<std::uint64_t>(inner_);
        break;
      case Kind::kOutNumber:
      case Kind::kOutHandle:
        call.outs[i] = kUnwritten;
        call.passed[i] = reinterpret_cast<std::uint64_t>(&call.outs[i]);
        break;
      case Kind::kOutInfo:
      case Kind::kOutRows:
      case Kind::kOutText:
        pass_shadow(call, i);
        break;
      case Kind::kBindings:
        call.passed[i] = call.words[i] == 0 ? 0 : reinterpret_cast<std::uint64_t>(call.bindings.data());
        break;
      case Kind::kStatus:
        call.passed[i] = reinterpret_cast<std::uint64_t>(call.status->get());
        break;
      default:
        call.passed[i] = call.objects[i] != nullptr ? call.objects[i]->inner : call.words[i];
        break;
    }
  }
}

// Makes the object of a new handle.
void Layer::take_results(Call& call) {
  for (std::size_t i = 0; i < call.row.argument_count; ++i) {
    const Argument& argument = call.row.arguments[i];
    if (argument.kind != Kind::kOutHandle || !call.is_ok() || !call.wrote(i) || call.outs[i] == 0) {
      continue;
    }
    call.made = make_object(argument.makes);
    Object& made = *call.made;
    made.inner = call.outs[i];
    made.number = handle_count_.fetch_add(1) + 1;
    if (argument.makes == Kind::kDevice) {
      made.ordinal = static_cast<std::uint32_t>(call.number(1));
    } else {
      const auto& parent = call.objects[0];
      made.device = parent->kind == Kind::kDevice ? parent : parent->device;
      made.ordinal = made.device->ordinal;
    }
    if (argument.makes == Kind::kBuffer) {
      made.byte_count = call.number(1);
    }
  }
}

// How far streams are, as the host may know it after this call.
void Layer::note_progress(Call& call) {
  const auto& first = call.objects[0];
  if (first == nullptr || (!call.is_ok() && call.code == YOKE_DEADLINE_EXCEEDED)) {
    return;
  }
  if (call.row.thread == Thread::kStreamSerial && first->kind == Kind::kStream && call.is_ok() &&
      call.row.time == Time::kAsynchronous) {
    const std::lock_guard lock(first->mutex);
    if (call.made != nullptr) {
      call.made->stream = first;
      call.made->ticket = first->issued;
    } else {
      call.ticket = ++first->issued;
    }
    return;
  }
  const bool is_query = call.function() == Function::stream_query || call.function() == Function::event_query;
  const bool is_wait = call.function() == Function::stream_wait || call.function() == Function::event_wait;
  if (!(is_wait || (is_query && (!call.is_ok() || call.out(1) == 1)))) {
    return;
  }
  const auto& stream = first->kind == Kind::kEvent ? first->stream : first;
  const std::uint64_t reached = first->kind == Kind::kEvent ? first->ticket : call.issued_before;
  if (stream != nullptr) {
    const std::lock_guard lock(stream->mutex);
    stream->completed = std::max(stream->completed, reached);
    completed(*stream, call.is_ok());
  }
}

// What the host sees: handles of this layer, and the plugin's answers where the call went well.
void Layer::give_results(const Call& call) {
  for (std::size_t i = 0; i < call.row.argument_count; ++i) {
    const Argument& argument = call.row.arguments[i];
    if (!call.is_ok() || call.words[i] == 0) {
      continue;
    }
    if (argument.kind == Kind::kOutNumber && call.wrote(i)) {
      std::memcpy(call.pointer<void>(i), &call.outs[i], argument.byte_count);
    } else if (argument.kind == Kind::kOutHandle && call.wrote(i)) {
      const std::uint64_t word = call.made == nullptr ? 0 : call.made->word;
      std::memcpy(call.pointer<void>(i), &word, sizeof(word));
    } else if (call.shadows[i].size != 0) {
      std::memcpy(call.pointer<void>(i), call.shadows[i].bytes.data(), call.shadows[i].size);
    }
  }
}

void Layer::count_devices(std::int64_t change) noexcept {
  device_count_ += change;
  open_devices += change;
}

std::int32_t Layer::run_on(Call& call, Issue issue) {
  const OpenSlot slot(*this, call);
  if (is_destroyed()) {
    refused_handle(call, 0, "the plugin was destroyed before");
    answer(call, YOKE_FAILED_PRECONDITION, "the plugin was destroyed before");
    return call.code;
  }
  if (!find_objects(call)) {
    return call.code;
  }
  const auto& first = call.objects[0];
  if (first != nullptr && first->kind == Kind::kStream) {
    const std::lock_guard lock(first->mutex);
    call.issued_before = first->issued;
  }
  if (!before(call)) {
    return call.code;
  }
  const bool ends = call.row.arguments[0].ownership == Ownership::kEnded && first != nullptr;
  if (ends && !first->alive.exchange(false)) {
    refused_handle(call, 0, first->name() + " is ended by two threads at once");
    return call.code = YOKE_FAILED_PRECONDITION;
  }
  pass(call);
  call.begin_ns = now_ns();
  issuing(call);
  try {
    call.code = issue(slots_[static_cast<std::size_t>(call.function())], call.passed.data());
  } catch (const std::exception& thrown) {
    note_thrown(call.row.name);
    answer(call, YOKE_INTERNAL, std::string("the plugin threw an exception: ") + thrown.what());
  } catch (...) {
    note_thrown(call.row.name);
    answer(call, YOKE_INTERNAL, "the plugin threw something that is no std::exception");
  }
  call.end_ns = now_ns();
  if (ends) {
    if (call.is_ok()) {
      count_devices(first->kind == Kind::kDevice ? -1 : 0);
      retire_handle(*first);
    } else {
      first->alive.store(true);  // device_close that was refused
    }
  }
  take_results(call);
  if (call.made != nullptr) {
    insert_handle(call.made);
    if (call.made->kind == Kind::kDevice) {
      opener.store(::getpid());
      count_devices(1);
    }
  }
  note_progress(call);
  after(call);
  give_results(call);
  return call.code;
}
}  // namespace yoke::layers
