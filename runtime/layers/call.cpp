// SPDX-License-Identifier: Apache-2.0
// runtime/layers/call.cpp: a call through the layers: looks up handles, lets the plugin write to shadow
// memory, and copies the results to the host.
#include "layers/call.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <optional>

#include "layers/interposer.h"

namespace yoke::layers {
namespace {

constexpr std::size_t kMostShadowBytes = std::size_t{16}
                                         << 20U;  // larger ones use the host's memory directly

std::uint64_t word_of(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

// The plugin that the parameters of a call belong to.
Interposer* owner_of(const Row& row, const std::uint64_t* given) {
  for (std::size_t i = 0; i < row.argument_count; ++i) {
    const Argument& argument = row.arguments[i];
    const std::uint64_t word = argument.field < 0 ? given[argument.parameter] : 0;
    Interposer* owner = nullptr;
    if (argument.kind == Kind::kPlugin) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      owner = Interposer::find(reinterpret_cast<const yoke_plugin*>(word));
    } else if (argument.kind == Kind::kCollectives && word != 0 && given[argument.parameter + 1U] != 0) {
      std::uint64_t communicator = 0;  // of the first row
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      std::memcpy(&communicator, reinterpret_cast<const void*>(word), sizeof(communicator));
      const auto object =
          Handles::instance().find(Kind::kCommunicator, communicator, !Interposer::is_any_forked_child());
      owner = object == nullptr ? nullptr : &object->owner;
    } else if (abi::is_handle(argument.kind) && word != 0) {
      const bool may_wait = !Interposer::is_any_forked_child();
      auto object = Handles::instance().find(argument.kind, word, may_wait);
      if (object == nullptr && may_wait) {
        object = Handles::instance().find_alive(word);  // a handle of another kind
      }
      owner = object == nullptr ? nullptr : &object->owner;
    }
    if (owner != nullptr) {
      return owner;
    }
  }
  return nullptr;
}

yoke_error* host_error(const Row& row, const std::uint64_t* given) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return row.has_status() ? reinterpret_cast<yoke_error*>(given[row.parameter_count - 1U]) : nullptr;
}

void set_error(const Interposer& plugin, yoke_error* error, std::int32_t code, std::string_view text) {
  const auto error_set = plugin.outer_host().error_set;
  if (error_set != nullptr) {
    error_set(error, code, 0, text.data(), text.size());
  }
}

// The value of a field, or 0 when the host's struct is too short for it.
std::uint64_t read_field(const Argument& argument, std::uint64_t args) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto* const from = reinterpret_cast<const std::byte*>(args);
  const auto offset = static_cast<std::uint64_t>(argument.field);
  std::uint64_t size = 0;
  std::memcpy(&size, from, sizeof(size));
  std::uint64_t value = 0;
  if (offset + argument.byte_count <= size) {
    std::memcpy(&value, from + offset, argument.byte_count);
  }
  return argument.is_signed && argument.byte_count == 4
             ? static_cast<std::uint64_t>(static_cast<std::int32_t>(value))
             : value;
}

void refuse(Call& call, std::size_t argument, std::int32_t code, const std::string& why) {
  call.plugin.each(&Layer::refused, call, argument, why);
  call.answer(code, why);
}

// Returns false if the handle is invalid; the call then has its result.
bool find_handle(Call& call, std::size_t i, Kind kind, std::uint64_t word, std::shared_ptr<Object>& out) {
  const Argument& argument = call.row.arguments[i];
  if (word == 0) {
    if (!argument.nullable) {
      refuse(call, i, YOKE_STATUS_INVALID_ARGUMENT, concat(argument.name, " is NULL"));
    }
    return argument.nullable;
  }
  out = Handles::instance().find(kind, word);
  std::string why;
  if (out != nullptr && out->is_alive && &out->owner == &call.plugin) {
    return true;
  }
  if (out == nullptr || !out->is_alive) {
    const auto other = Handles::instance().find_alive(word);
    why = other != nullptr
              ? concat(argument.name, " is ", other->name(), ", but the call takes a ", abi::kind_name(kind))
          : out == nullptr
              ? concat(argument.name, " is not a handle of any plugin, or was destroyed long ago")
              : concat(argument.name, " is ", out->name(), ", which is already ",
                       kind == Kind::kDevice ? "closed" : "destroyed");
  } else {
    why = concat(argument.name, " is ", out->name(), " of another plugin, '", out->owner.backend(), "'");
  }
  refuse(call, i, YOKE_STATUS_FAILED_PRECONDITION, why);
  return false;
}

bool find_bindings(Call& call, std::size_t i) {
  for (const yoke_binding& binding : call.rows_at<yoke_binding>(i)) {
    Bound bound{binding, nullptr};
    if (!find_handle(call, i, Kind::kBuffer, word_of(binding.buffer), bound.buffer)) {
      return false;
    }
    if (call.row.arguments[i].kind == Kind::kWorkspace) {
      call.workspace = std::move(bound);
    } else {
      call.bindings.push_back(std::move(bound));
    }
  }
  return true;
}

bool find_members(Call& call, std::size_t i) {
  for (const yoke_collective& row : call.rows_at<yoke_collective>(i)) {
    Member& member = call.members.emplace_back(Member{row, nullptr, nullptr, nullptr, nullptr});
    const auto find = [&](Kind kind, const void* handle, std::shared_ptr<Object>& out) {
      return (handle == nullptr && kind == Kind::kBuffer) || find_handle(call, i, kind, word_of(handle), out);
    };
    if (!find(Kind::kCommunicator, row.communicator, member.communicator) ||
        !find(Kind::kStream, row.stream, member.stream) || !find(Kind::kBuffer, row.source, member.source) ||
        !find(Kind::kBuffer, row.target, member.target)) {
      return false;
    }
  }
  return true;
}

bool find_handles(Call& call) {
  for (std::size_t i = 0; i < call.row.argument_count; ++i) {
    const Kind kind = call.row.arguments[i].kind;
    const bool is_found = abi::is_handle(kind) ? find_handle(call, i, kind, call.words[i], call.objects[i])
                          : kind == Kind::kBindings || kind == Kind::kWorkspace ? find_bindings(call, i)
                          : kind == Kind::kCollectives                          ? find_members(call, i)
                                                                                : true;
    if (!is_found) {
      return false;
    }
  }
  return true;
}

// The number of bytes that the plugin may write to argument `i`; 0 if unknown or too large for a shadow.
std::uint64_t shadow_size(const Call& call, std::size_t i) {
  const Argument& argument = call.row.arguments[i];
  const std::uint64_t count =
      argument.count_argument < 0 ? 1 : call.words[static_cast<std::size_t>(argument.count_argument)];
  std::uint64_t size = 1;
  if (argument.kind == Kind::kOutRows) {
    size = call.words[static_cast<std::size_t>(argument.stride_argument)];
  } else if (argument.kind == Kind::kOutInfo) {  // its struct_size
    std::memcpy(&size, call.pointer<const void>(i), sizeof(size));
  }
  return count == 0 || size > kMostShadowBytes / count ? 0 : size * count;
}

std::uint64_t lay_shadow(Call& call, std::size_t i) {
  const std::uint64_t size = call.words[i] == 0 ? 0 : shadow_size(call, i);
  if (size == 0) {
    return call.words[i];
  }
  Shadow& shadow = call.shadows[i];
  shadow.size = size;
  shadow.bytes.resize(size + kCanaryByteCount, kCanary);
  std::memcpy(shadow.bytes.data(), call.pointer<void>(i), size);
  shadow.before = shadow.bytes;
  return word_of(shadow.bytes.data());
}

// The value that the plugin receives for an argument that is a parameter.
std::uint64_t passed_word(Call& call, std::size_t i) {
  switch (call.row.arguments[i].kind) {
    case Kind::kPlugin:
      return word_of(call.plugin.inner());
    case Kind::kOutNumber:
    case Kind::kOutHandle:
      call.outs[i] = kUnwritten;
      return word_of(&call.outs[i]);
    case Kind::kOutInfo:
    case Kind::kOutRows:
    case Kind::kOutText:
      return lay_shadow(call, i);
    case Kind::kStatus:
      return word_of(call.status->get());
    default:
      return call.words[i];
  }
}

void issue_call(Call& call) {
  for (std::size_t i = 0; i < call.row.argument_count; ++i) {
    const Argument& argument = call.row.arguments[i];
    if (argument.field < 0) {
      call.parameters[argument.parameter] = passed_word(call, i);
    }
  }
  std::optional<std::string> thrown;
  call.begin_ns = now_ns();
  call.plugin.each(&Layer::issuing, call);
  try {
    call.code = abi::call(call.function(), call.plugin.slot(call.function()), call.parameters.data());
  } catch (const std::exception& exception) {
    thrown = exception.what();
  } catch (...) {
    thrown = "an object that is not a std::exception";
  }
  call.end_ns = now_ns();
  if (thrown) {
    call.plugin.each(&Layer::threw, call.row.name, thrown->c_str());
    call.answer(YOKE_STATUS_INTERNAL, "the plugin threw an exception: " + *thrown);
  }
}

// Creates the object of a new handle.
void adopt_handle(Call& call, std::size_t i) {
  const Kind kind = call.row.arguments[i].makes;
  call.made = std::make_shared<Object>(kind, call.outs[i], call.plugin);
  Object& made = *call.made;
  made.number = call.plugin.next_handle_number();
  if (kind == Kind::kDevice) {
    made.ordinal = static_cast<std::uint32_t>(call.number("ordinal"));
  } else {
    const auto& parent = call.objects[0];
    made.device = parent->kind == Kind::kDevice ? parent : parent->device;
    made.ordinal = made.device->ordinal;
  }
  made.byte_count = kind == Kind::kBuffer || kind == Kind::kPinned ? call.number("byte_count") : 0;
  made.is_imported = call.function() == Function::buffer_import;
  made.has_timing = kind == Kind::kEvent && (call.number("flags") & YOKE_EVENT_TIMING) != 0;
  call.replaced = Handles::instance().insert(call.made);
  if (call.replaced != nullptr && !call.replaced->is_alive.exchange(false)) {
    call.replaced = nullptr;  // a handle may be reused
  }
}

// Counts queued work, and work that has ended as far as the host can tell.
void note_progress(Call& call) {
  for (Member& member : call.members) {
    const std::lock_guard lock(member.stream->mutex);
    member.ticket = call.is_ok() ? ++member.stream->issued : 0;
  }
  const auto& first = call.objects[0];
  if (first == nullptr || first->kind == Kind::kCommunicator || call.code == YOKE_STATUS_DEADLINE_EXCEEDED) {
    return;
  }
  if (first->kind == Kind::kStream && call.is_ok() && call.row.time == abi::Time::kAsynchronous) {
    const std::lock_guard lock(first->mutex);
    if (call.made != nullptr) {  // an event
      call.made->stream = first;
      call.made->ticket = first->issued;
    } else {
      call.ticket = ++first->issued;
    }
  } else if (abi::is_wait(call.function()) ||
             (abi::is_query(call.function()) && (!call.is_ok() || call.out(1) == 1))) {
    const bool is_event = first->kind == Kind::kEvent;
    Object& stream = is_event ? *first->stream : *first;
    const std::lock_guard lock(stream.mutex);
    stream.completed = std::max(stream.completed, is_event ? first->ticket : call.issued_before);
    call.plugin.each(&Layer::completed, stream,
                     call.is_ok() && (abi::is_wait(call.function()) || call.out(1) == YOKE_STATE_DONE));
  }
}

// Copies the plugin's results to the host's memory, after success only.
void give_results(const Call& call) {
  for (std::size_t i = 0; call.is_ok() && i < call.row.argument_count; ++i) {
    const Argument& argument = call.row.arguments[i];
    if (call.words[i] == 0) {
      continue;
    }
    if ((argument.kind == Kind::kOutNumber || argument.kind == Kind::kOutHandle) && call.wrote(i)) {
      std::memcpy(call.pointer<void>(i), &call.outs[i], argument.byte_count);
    } else if (call.shadows[i].size != 0) {
      std::memcpy(call.pointer<void>(i), call.shadows[i].bytes.data(), call.shadows[i].size);
    }
  }
}

std::int32_t run(Call& call) {
  if (call.plugin.is_destroyed()) {
    refuse(call, 0, YOKE_STATUS_FAILED_PRECONDITION, "the plugin is already destroyed");
    return call.code;
  }
  if (!find_handles(call)) {
    return call.code;
  }
  const auto& first = call.objects[0];
  if (first != nullptr && first->kind == Kind::kStream) {
    const std::lock_guard lock(first->mutex);
    call.issued_before = first->issued;
  }
  if (!call.plugin.all(&Layer::before, call)) {
    return call.code;
  }
  const auto ended = call.ended();
  if (ended != nullptr && !ended->is_alive.exchange(false)) {
    refuse(call, 0, YOKE_STATUS_FAILED_PRECONDITION, "two threads destroy " + ended->name() + " at once");
    return call.code;
  }
  if (call.function() == Function::device_count || call.function() == Function::device_describe ||
      call.function() == Function::device_open) {
    call.plugin.set_started();
  }
  issue_call(call);
  if (ended != nullptr && call.is_ok()) {
    Handles::instance().retire(ended);
  } else if (ended != nullptr) {  // a device_close that failed
    ended->is_alive = true;
  }
  for (std::size_t i = 0; i < call.row.argument_count; ++i) {
    if (call.row.arguments[i].kind == Kind::kOutHandle && call.is_ok() && call.wrote(i) &&
        call.outs[i] != 0) {
      adopt_handle(call, i);
    }
  }
  note_progress(call);
  call.plugin.after(call);
  give_results(call);
  return call.code;
}

}  // namespace

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

Call::Call(Interposer& to, const Row& of, const std::uint64_t* given)
    : plugin(to), row(of), status(to, host_error(of, given), of.name), error(host_error(of, given)) {
  std::copy_n(given, row.parameter_count, parameters.begin());
  for (std::size_t i = 0; i < row.argument_count; ++i) {
    const Argument& argument = row.arguments[i];
    const std::uint64_t word = given[argument.parameter];
    has_args = has_args && (argument.field < 0 || word != 0);
    words[i] = argument.field < 0 || word == 0 ? (argument.field < 0 ? word : 0) : read_field(argument, word);
  }
}

std::uint64_t Call::out(std::size_t i) const {
  const Argument& argument = row.arguments[i];
  return argument.kind == Kind::kOutNumber && argument.byte_count == 4 ? outs[i] & 0xffffffffU : outs[i];
}

bool Call::wrote(std::size_t i) const {
  const Argument& argument = row.arguments[i];
  return argument.kind == Kind::kOutNumber && argument.byte_count == 4 ? out(i) != (kUnwritten & 0xffffffffU)
                                                                       : outs[i] != kUnwritten;
}

void Call::answer(std::int32_t result, const std::string& text) {
  code = result;
  status->code = result;
  status->text = text;
  set_error(plugin, error, result, text);
}

std::int32_t run_call(Function function, const std::uint64_t* given) noexcept {
  const Row& row = abi::row_of(function);
  try {
    Interposer* const plugin = owner_of(row, given);
    if (plugin == nullptr) {  // a destroy of NULL, garbage, or the lock is held in a forked child
      const bool ends_null =
          row.ends_handle() && given[row.arguments[static_cast<std::size_t>(row.ended)].parameter] == 0;
      return Interposer::is_any_forked_child() ? YOKE_STATUS_FAILED_PRECONDITION
             : ends_null                       ? YOKE_STATUS_OK
                                               : YOKE_STATUS_INVALID_ARGUMENT;
    }
    if (plugin->is_forked_child()) {
      set_error(*plugin, host_error(row, given), YOKE_STATUS_FAILED_PRECONDITION, kForked);
      return YOKE_STATUS_FAILED_PRECONDITION;
    }
    Call call(*plugin, row, given);
    return run(call);
  } catch (const std::exception&) {  // out of memory in a layer
    return YOKE_STATUS_RESOURCE_EXHAUSTED;
  }
}

}  // namespace yoke::layers
