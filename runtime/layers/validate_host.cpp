// SPDX-License-Identifier: Apache-2.0
// runtime/layers/validate_host.cpp: preconditions of a call, which the host must meet.
#include <yoke/runtime/counted.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "layers/interposer.h"
#include "layers/validate.h"

namespace yoke::layers {
namespace {

using F = Function;

bool exceeds(std::uint64_t offset, std::uint64_t byte_count, const Object& buffer) {
  return offset > buffer.byte_count || byte_count > buffer.byte_count - offset;
}

// Whether the work may still be pending as far as the host can tell.
bool is_pending(const Queued& work) {
  const std::lock_guard lock(work.stream->mutex);
  return work.stream->is_alive && work.stream->completed < work.ticket;
}

std::vector<Queued> uses_of(const std::shared_ptr<Object>& object) {
  const std::lock_guard lock(object->mutex);
  return checked(object).uses;
}

void enter_serial(Call& call) {
  const auto& first = call.objects[0];
  if (first == nullptr ||
      (call.row.thread != abi::Thread::kStreamSerial && call.row.thread != abi::Thread::kDeviceSerial)) {
    return;
  }
  const std::size_t thread = std::hash<std::thread::id>()(std::this_thread::get_id());
  std::size_t free = 0;
  if (checked(first).caller.compare_exchange_strong(free, thread | 1U, std::memory_order_acquire)) {
    call.note->serial = first;
  } else {
    blame_host(call, Rule::kThreads, "two threads are in [", abi::thread_name(call.row.thread), "] calls of ",
               first->name(), " at once");
  }
}

void check_device(Call& call, const Object& object) {
  const auto& stream = call.objects[0];
  if (stream != nullptr && stream->ordinal != object.ordinal) {
    blame_host(call, Rule::kStreamOrder, stream->name(), " belongs to device ", stream->ordinal, ", but ",
               object.name(), " to device ", object.ordinal);
  }
}

// A range of the buffer in argument `i`.
void check_range(Call& call, std::size_t i, std::uint64_t offset, std::uint64_t byte_count) {
  const Object& buffer = *call.objects[i];
  if (exceeds(offset, byte_count, buffer)) {
    call.note->out_of_range = true;
    blame_host(call, Rule::kCopy, range_text(offset, byte_count, buffer));
  }
}

void check_copy(Call& call) {
  check_range(call, 1, call.number(2), call.number(4));
  check_device(call, *call.objects[1]);
  if (call.number(3) == 0 && call.number(4) != 0) {
    blame_host(call, Rule::kOwnership, call.row.arguments[3].name, " is NULL");
  }
}

void check_device_copy(Call& call) {
  const auto& dst = call.objects[1];
  const auto& src = call.objects[3];
  check_range(call, 1, call.number(2), call.number(5));
  const Range to{call.number(2), call.number(2) + call.number(5)};
  const Range from{call.number(4), call.number(4) + call.number(5)};
  if (dst == src && to.overlaps(from)) {
    return blame_host(call, Rule::kCopy, "source and destination overlap in ", dst->name());
  }
  check_range(call, 3, call.number(4), call.number(5));
  if (call.objects[0] != nullptr && call.objects[0]->ordinal != src->ordinal) {  // it may be of either device
    check_device(call, *dst);
  }
}

void check_fill(Call& call) {
  check_range(call, 1, call.number(2), call.number(3));
  check_device(call, *call.objects[1]);
  const std::uint64_t size = call.number(5);
  if (size != 1 && size != 2 && size != 4 && size != 8) {
    blame_host(call, Rule::kCopy, "the pattern has ", detail::counted(size, "byte"),
               "; it must have 1, 2, 4 or 8");
  } else if (call.number(3) % size != 0) {
    blame_host(call, Rule::kCopy, detail::counted(call.number(3), "byte"), " is not a multiple of the ", size,
               "-byte pattern");
  } else if (call.number(4) == 0) {
    blame_host(call, Rule::kOwnership, "pattern is NULL");
  }
}

void check_destroy(Call& call) {
  const auto object = call.ended();  // not null: a call with NULL belongs to no plugin
  if (object->kind == Kind::kDevice) {
    if (const auto count = checked(object).children.load(); count != 0) {
      blame_host(call, Rule::kLiveObjects, object->name(), " is closed while ", count,
                 " of its objects are alive");
    }
  } else if (object->kind == Kind::kStream) {
    const std::lock_guard lock(object->mutex);
    if (object->completed < object->issued && checked(object).failure == YOKE_STATUS_OK) {
      blame_host(call, Rule::kStreamOrder, object->name(),
                 " is destroyed while work may be pending; wait for it first");
    }
  } else if (object->kind == Kind::kBuffer || object->kind == Kind::kRoutine ||
             object->kind == Kind::kCommunicator) {
    const auto uses = uses_of(object);
    if (const auto use = std::find_if(uses.begin(), uses.end(), is_pending); use != uses.end()) {
      blame_host(call, Rule::kOwnership, object->name(), " is destroyed while work on ", use->stream->name(),
                 " may use it");
    }
    if (checked(object).bound.load() != 0) {
      blame_host(call, Rule::kOwnership, object->name(), " is destroyed while routines are linked to it");
    }
  }
}

// Reads the plugin's description of an entry of the code or of an
// argument. Returns false if the plugin fails.
template <class Info, class... Numbers>
bool describe(const Call& call, Function function, Info& info, Numbers... numbers) {
  using Describe = std::int32_t (*)(yoke_code*, Numbers..., Info*, yoke_error*);
  const auto ask = reinterpret_cast<Describe>(call.plugin.slot(function));
  const OpenSlot status(call.plugin, nullptr, call.row.name);
  info = {};
  info.struct_size = sizeof(info);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the plugin's own pointer
  auto* const code = reinterpret_cast<yoke_code*>(call.objects[0]->word);
  return ask != nullptr && ask(code, numbers..., &info, status->get()) == YOKE_STATUS_OK;
}

// Checks one range against the plugin's description of the argument.
void check_binding(Call& call, std::uint32_t i, const yoke_argument_info& info) {
  const auto& [binding, buffer] = call.bindings[i];
  if (buffer == nullptr) {
    return blame_host(call, Rule::kOwnership, "argument ", i, " has no buffer");
  }
  if (exceeds(binding.offset, binding.byte_count, *buffer)) {
    blame_host(call, Rule::kCopy, "argument ", i, ": ",
               range_text(binding.offset, binding.byte_count, *buffer));
  } else if (binding.byte_count < info.byte_count) {
    blame_host(call, Rule::kRoutineMemory, "argument ", i, " needs ",
               detail::counted(info.byte_count, "byte"), ", but its binding has ", binding.byte_count);
  }
  if (!buffer->is_imported && info.alignment > 1 && binding.offset % info.alignment != 0) {
    blame_host(call, Rule::kAlignment, "argument ", i, " is bound at offset ", binding.offset,
               ", which is not a multiple of its alignment of ", info.alignment);
  }
}

void check_link(Call& call) {
  const auto entry = static_cast<std::uint32_t>(call.number("entry"));
  const Bound& workspace = call.workspace;
  yoke_entry_info about;
  if (!describe(call, F::code_describe, about, entry)) {
    return;
  }
  call.note->symbol_count = about.symbol_count;
  if (about.argument_count != call.bindings.size()) {
    return blame_host(call, Rule::kRoutineMemory, detail::counted(call.bindings.size(), "binding"), " for ",
                      detail::counted(about.argument_count, "argument"));
  }
  if (workspace.buffer != nullptr && workspace.binding.offset % YOKE_BUFFER_ALIGNMENT != 0) {
    blame_host(call, Rule::kAlignment, "the workspace is at offset ", workspace.binding.offset,
               ", which is not a multiple of ", YOKE_BUFFER_ALIGNMENT);
  }
  std::vector<Range> ranges;
  for (std::uint32_t i = 0; i < about.argument_count; ++i) {
    yoke_argument_info info;
    if (!describe(call, F::code_argument, info, entry, i)) {
      return;
    }
    check_binding(call, i, info);
    const std::uint64_t offset = call.bindings[i].binding.offset;
    ranges.push_back({offset, offset + info.byte_count, info.access != YOKE_ACCESS_IN});
    for (std::uint32_t k = 0; k < i; ++k) {
      if (call.bindings[k].buffer == call.bindings[i].buffer && ranges[k].conflicts(ranges[i])) {
        blame_host(call, Rule::kRoutineMemory, "arguments ", k, " and ", i,
                   " overlap, and one of them is written");
      }
    }
  }
}

void check_launch(Call& call) {
  const auto& stream = call.objects[0];
  const auto& object = call.objects[1];
  Checked& routine = checked(object);
  if (const auto count = static_cast<std::uint32_t>(call.number(3)); count != routine.symbol_count) {
    blame_host(call, Rule::kRoutineMemory, detail::counted(count, "symbol value"), " for ",
               detail::counted(routine.symbol_count, "symbol"));
  }
  check_device(call, *object);
  if (routine.is_launching.exchange(true, std::memory_order_acquire)) {
    blame_host(call, Rule::kThreads, object->name(), " is launched by two threads at once");
  } else {
    call.note->launching = object;
  }
  Order order;
  if (stream != nullptr) {
    const std::lock_guard lock(stream->mutex);
    order = checked(stream).order;
  }
  for (const Queued& last : uses_of(object)) {
    const auto known = order.find(last.stream->number);
    const bool is_before = last.stream == stream || (known != order.end() && known->second >= last.ticket);
    if (!is_before && is_pending(last)) {
      blame_host(call, Rule::kThreads, object->name(), " is launched while its launch on ",
                 last.stream->name(), " may be pending");
    }
  }
}

// A source or target of a collective, which has `parts` parts.
void check_parts(Call& call, const Member& member, const std::shared_ptr<Object>& buffer,
                 std::uint64_t offset, std::uint64_t parts) {
  constexpr std::uint64_t kBytes[] = {0, 8, 4, 2, 2, 8, 4, 4, 1, 1};  // by YOKE_TYPE_*
  const yoke_collective& row = member.row;
  if (buffer == nullptr || row.type < YOKE_TYPE_F64 || row.type > YOKE_TYPE_BOOL) {
    return;  // the plugin refuses it
  }
  const std::uint64_t element = kBytes[row.type] * parts;
  const std::uint64_t most = std::uint64_t{1} << 62U;
  const std::uint64_t byte_count = row.count > most / element ? most : row.count * element;
  if (exceeds(offset, byte_count, *buffer)) {
    call.note->out_of_range = true;
    blame_host(call, Rule::kCopy, range_text(offset, byte_count, *buffer));
  }
  if (buffer->ordinal != member.stream->ordinal) {
    blame_host(call, Rule::kStreamOrder, member.stream->name(), " belongs to device ", member.stream->ordinal,
               ", but ", buffer->name(), " to device ", buffer->ordinal);
  }
}

void check_collectives(Call& call) {
  for (const Member& member : call.members) {
    const yoke_collective& row = member.row;
    const std::uint64_t size = checked(member.communicator).member_count;
    const bool reads = row.kind != YOKE_COLLECTIVE_BROADCAST || row.root == checked(member.communicator).rank;
    check_parts(call, member, reads ? member.source : nullptr, row.source_offset,
                row.kind == YOKE_COLLECTIVE_REDUCE_SCATTER ? size : 1);
    check_parts(call, member, member.target, row.target_offset,
                row.kind == YOKE_COLLECTIVE_ALL_GATHER ? size : 1);
    if (member.communicator->ordinal != member.stream->ordinal) {
      blame_host(call, Rule::kStreamOrder, member.communicator->name(), " belongs to device ",
                 member.communicator->ordinal, ", but ", member.stream->name(), " to device ",
                 member.stream->ordinal);
    }
    call.note->has_unknown_flags = call.note->has_unknown_flags || row.flags != 0;
  }
  if (call.note->has_unknown_flags) {
    blame_host(call, Rule::kFlags, "unknown flags in a row");
  }
}

void check_elapsed(Call& call) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (!call.objects[i]->has_timing) {
      blame_host(call, Rule::kTiming, call.objects[i]->name(), " was recorded without YOKE_EVENT_TIMING");
    }
  }
}

void check_pointers(Call& call) {
  if (!call.has_args) {
    blame_host(call, Rule::kOwnership, "args is NULL");
  }
  for (std::size_t i = 0; i < call.row.argument_count; ++i) {
    const Argument& argument = call.row.arguments[i];
    const bool is_pointer = argument.kind == Kind::kOutNumber || argument.kind == Kind::kOutHandle ||
                            argument.kind == Kind::kOutInfo || argument.kind == Kind::kCallback;
    if (is_pointer && !argument.nullable && call.words[i] == 0) {
      blame_host(call, Rule::kOwnership, argument.name, " is NULL");
    }
    if (argument.stride_argument >= 0 && call.words[i] != 0 &&
        call.words[static_cast<std::size_t>(argument.stride_argument)] == 0) {
      blame_host(call, Rule::kStride, "the stride of ", argument.name, " is 0");
    }
  }
}

void check_flags(Call& call) {
  if (call.row.args_byte_count == 0) {
    return;
  }
  const std::uint64_t known = call.function() == F::event_record ? YOKE_EVENT_TIMING : 0;
  std::uint64_t unknown = call.number("flags") & ~known;
  for (const Bound& one : call.bindings) {
    unknown |= one.binding.flags;
  }
  call.note->has_unknown_flags = unknown != 0;
  if (unknown != 0) {
    blame_host(call, Rule::kFlags, "unknown flags ", unknown);
  }
}

}  // namespace

std::string range_text(std::uint64_t offset, std::uint64_t byte_count, const Object& buffer) {
  return concat(detail::counted(byte_count, "byte"), " at offset ", offset,
                byte_count == 1 ? " exceeds the " : " exceed the ", buffer.byte_count, "-byte ",
                buffer.name());
}

void check_host(Call& call) {
  if (calling_back() == &call.plugin) {
    blame_host(call, Rule::kThreads, "called from inside a call of the plugin to its host");
  }
  enter_serial(call);
  check_pointers(call);
  check_flags(call);
  switch (call.function()) {
    case F::from_host:
    case F::to_host:
      return check_copy(call);
    case F::device_to_device:
      return check_device_copy(call);
    case F::fill:
      return check_fill(call);
    case F::device_close:
    case F::buffer_destroy:
    case F::stream_destroy:
    case F::routine_destroy:
    case F::communicator_destroy:
      return check_destroy(call);
    case F::routine_link:
      return check_link(call);
    case F::routine_launch:
      return check_launch(call);
    case F::event_elapsed:
      return check_elapsed(call);
    case F::collectives_queue:
      return check_collectives(call);
    default:
      return;
  }
}

}  // namespace yoke::layers
