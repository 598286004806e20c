// SPDX-License-Identifier: Apache-2.0
// runtime/layers/validate_host.cpp: what the host may not do, and what is noted of each call to know it.
#include <unistd.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "layers/hash.h"
#include "layers/validate.h"

namespace yoke::layers {
namespace {

using F = Function;

std::string bytes_text(std::uint64_t begin, std::uint64_t byte_count) {
  return std::to_string(byte_count) + " bytes from byte " + std::to_string(begin);
}

std::size_t this_thread() {
  const std::size_t hash = std::hash<std::thread::id>()(std::this_thread::get_id());
  return hash == 0 ? 1 : hash;
}

// May the host know that this work is done?
bool is_done(const Queued& work) {
  const std::lock_guard lock(work.stream->mutex);
  return !work.stream->is_alive() || work.stream->completed >= work.ticket;
}

// The first work of `uses` that may still be queued.
std::string unfinished(const std::shared_ptr<Object>& object) {
  std::vector<Queued> uses;
  {
    const std::lock_guard lock(object->mutex);
    uses = checked(object).uses;
  }
  for (const Queued& work : uses) {
    if (!is_done(work)) {
      return work.stream->name();
    }
  }
  return {};
}

void add_use(const std::shared_ptr<Object>& object, const Queued& work) {
  const std::lock_guard lock(object->mutex);
  auto& uses = checked(object).uses;
  std::erase_if(uses, [](const Queued& one) { return !one.stream->is_alive(); });
  const auto same =
      std::find_if(uses.begin(), uses.end(), [&](const Queued& one) { return one.stream == work.stream; });
  if (same == uses.end()) {
    uses.push_back(work);
  } else {
    same->ticket = work.ticket;
  }
}

void merge(Order& into, const Order& from) {
  for (const auto& [stream, ticket] : from) {
    std::uint64_t& mine = into[stream];
    mine = std::max(mine, ticket);
  }
}

}  // namespace

void Validate::blame_host(Call& call, int rule, std::string text) {
  auto& note = static_cast<Note&>(*call.note);
  if (note.host_text.empty()) {
    note.host_text = std::string(call.row.name) + ": " + text + " (rule " + std::to_string(rule) + ")";
  }
  report(rule, Culprit::kHost, call.row.name, std::move(text));
}

void Validate::check_process(Call& call) {
  if (layer_calling_back() == this) {
    blame_host(call, 20, "the host called the plugin from inside of a function that the plugin called");
  }
  const int owner = owner_.load();
  if (owner != 0 && owner != ::getpid()) {
    in_child_.store(true);
    blame_host(call, 23, "this process was forked after a device was opened; it may only exec");
  }
  if (call.function() == F::device_open && owner == 0) {
    owner_.store(::getpid());
  }
}

void Validate::enter_serial(Call& call) {
  const auto& first = call.objects[0];
  if (first == nullptr ||
      (call.row.thread != Thread::kStreamSerial && call.row.thread != Thread::kDeviceSerial)) {
    return;
  }
  std::size_t free = 0;
  if (checked(first).caller.compare_exchange_strong(free, this_thread(), std::memory_order_acquire)) {
    static_cast<Note&>(*call.note).serial = first;
  } else {
    blame_host(call, 20,
               "two threads are in [" + std::string(thread_name(call.row.thread)) + "] calls of " +
                   first->name() + " at once");
  }
}

void Validate::check_stream_device(Call& call, const Object& buffer) {
  const auto& stream = call.objects[0];
  if (stream != nullptr && stream->ordinal != buffer.ordinal) {
    blame_host(call, 18,
               stream->name() + " is of device " + std::to_string(stream->ordinal) + ", and " +
                   buffer.name() + " of device " + std::to_string(buffer.ordinal));
  }
}

// `buffer`: the argument. Also marks the range when no stream orders the call.
void Validate::check_range(Call& call, std::size_t buffer, std::uint64_t offset, std::uint64_t byte_count,
                           bool is_written) {
  const auto& object = call.objects[buffer];
  auto& note = static_cast<Note&>(*call.note);
  if (offset > object->byte_count || byte_count > object->byte_count - offset) {
    note.out_of_range = true;
    blame_host(call, 16,
               bytes_text(offset, byte_count) + " leave " + object->name() + " of " +
                   std::to_string(object->byte_count) + " bytes");
    return;
  }
  if (call.objects[0] != nullptr || byte_count == 0) {
    return;
  }
  const Range range{offset, offset + byte_count, is_written};
  bool is_met = false;
  {
    const std::lock_guard lock(object->mutex);
    auto& direct = checked(object).direct;
    is_met = std::any_of(direct.begin(), direct.end(), [&](const Range& other) {
      return (other.is_written || is_written) && other.meets(range);
    });
    direct.push_back(range);
  }
  note.direct.emplace_back(object, range);
  if (is_met) {
    blame_host(call, 20,
               "without a stream, " + bytes_text(offset, byte_count) + " of " + object->name() +
                   " are used while another thread uses them");
  }
}

void Validate::check_copy(Call& call) {
  if (call.function() == F::device_to_device) {
    check_range(call, 1, call.number(2), call.number(5), true);
    if (call.objects[1] == call.objects[3]) {
      const Range dst{call.number(2), call.number(2) + call.number(5)};
      const Range src{call.number(4), call.number(4) + call.number(5)};
      if (dst.meets(src)) {
        blame_host(call, 16, "source and destination overlap in " + call.objects[1]->name());
        return;
      }
    }
    check_range(call, 3, call.number(4), call.number(5), false);
    const auto& stream = call.objects[0];
    if (stream != nullptr && stream->ordinal != call.objects[1]->ordinal &&
        stream->ordinal != call.objects[3]->ordinal) {
      check_stream_device(call, *call.objects[1]);
    }
    return;
  }
  check_range(call, 1, call.number(2), call.number(4), call.function() == F::from_host);
  check_stream_device(call, *call.objects[1]);
  if (call.number(3) == 0 && call.number(4) != 0) {
    blame_host(call, 15, "the host memory is NULL");
  }
}

void Validate::check_fill(Call& call) {
  check_range(call, 1, call.number(2), call.number(3), true);
  check_stream_device(call, *call.objects[1]);
  const std::uint64_t size = call.number(5);
  if (size != 1 && size != 2 && size != 4 && size != 8) {
    blame_host(call, 16, "the pattern has " + std::to_string(size) + " bytes; it has 1, 2, 4 or 8");
  } else if (call.number(3) % size != 0) {
    blame_host(
        call, 16,
        std::to_string(call.number(3)) + " bytes are no multiple of the pattern's " + std::to_string(size));
  } else if (call.number(4) == 0) {
    blame_host(call, 15, "the pattern is NULL");
  }
}

void Validate::check_destroy(Call& call) {
  const auto& object = call.objects[0];
  if (object == nullptr) {
    return;
  }
  if (object->kind == Kind::kDevice) {
    if (const auto count = checked(object).children.load(); count != 0) {
      blame_host(call, 14, object->name() + " is closed with " + std::to_string(count) + " objects alive");
    }
  } else if (object->kind == Kind::kStream) {
    const std::lock_guard lock(object->mutex);
    if (object->completed < object->issued && checked(object).failure == YOKE_OK) {
      blame_host(call, 18, object->name() + " is destroyed, and nobody found out whether its work is done");
    }
  } else if (object->kind == Kind::kBuffer || object->kind == Kind::kRoutine) {
    if (const std::string stream = unfinished(object); !stream.empty()) {
      blame_host(call, 15,
                 object->name() + " is destroyed while work that uses it may be queued on " + stream);
    }
    if (checked(object).bound.load() != 0) {
      blame_host(call, 15, object->name() + " is destroyed while routines are linked against it");
    }
  }
}

void Validate::check_link(Call& call) {
  const Checked& code = checked(call.objects[0]);
  const auto entry = static_cast<std::uint32_t>(call.number(1));
  if (code.module == nullptr || entry >= code.module->programs.size()) {
    if (code.module != nullptr) {
      blame_host(call, 26, "there is no entry " + std::to_string(entry));
    }
    return;
  }
  const auto& program = code.module->programs[entry];
  const auto arguments = program.arguments();
  if (arguments.size() != call.bound.size()) {
    blame_host(call, 26,
               std::to_string(call.bound.size()) + " bindings for " + std::to_string(arguments.size()) +
                   " arguments");
    return;
  }
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto& tensor = program.tensors[arguments[i]];
    const std::uint64_t offset = call.bindings[i].offset;
    const Object* const buffer = call.bound[i].get();
    ranges.push_back({offset, offset + tensor.byte_count(), tensor.role != program::Role::kIn});
    if (buffer == nullptr) {
      blame_host(call, 15, "argument '" + tensor.name + "' has no buffer");
    } else if (offset > buffer->byte_count || tensor.byte_count() > buffer->byte_count - offset) {
      blame_host(call, 16,
                 "argument '" + tensor.name + "', " + bytes_text(offset, tensor.byte_count()) + ", leaves " +
                     buffer->name());
    } else if (offset % program::byte_size(tensor.type) != 0) {
      blame_host(call, 16, "argument '" + tensor.name + "' begins between two of its elements");
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (call.bound[k] == call.bound[i] && ranges[k].meets(ranges[i]) &&
          (ranges[k].is_written || ranges[i].is_written)) {
        blame_host(call, 26,
                   "argument '" + tensor.name + "' shares bytes with another, and one of them is written");
      }
    }
  }
}

void Validate::check_symbols(Call& call, const program::Program& program) {
  const auto count = static_cast<std::size_t>(static_cast<std::uint32_t>(call.number(3)));
  if (count != program.symbols.size()) {
    blame_host(
        call, 26,
        std::to_string(count) + " symbol values for " + std::to_string(program.symbols.size()) + " symbols");
    return;
  }
  const auto* const values = call.pointer<const std::int64_t>(2);
  if (values == nullptr && count != 0) {
    blame_host(call, 15, "the symbol values are NULL");
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto& symbol = program.symbols[i];
    const auto distance = static_cast<std::uint64_t>(values[i]) - static_cast<std::uint64_t>(symbol.low);
    if (values[i] < symbol.low || values[i] >= symbol.high ||
        (symbol.step > 1 && distance % static_cast<std::uint64_t>(symbol.step) != 0)) {
      blame_host(call, 26,
                 "symbol '" + symbol.name + "' is " + std::to_string(values[i]) + ", outside of its range");
    }
  }
}

void Validate::check_launch(Call& call) {
  const auto& object = call.objects[1];
  Checked& routine = checked(object);
  if (routine.module != nullptr) {
    check_symbols(call, routine.module->programs[routine.entry]);
  }
  check_stream_device(call, *object);
  if (routine.is_launching.exchange(true, std::memory_order_acquire)) {
    blame_host(call, 20, object->name() + " is launched by two threads at once");
  } else {
    static_cast<Note&>(*call.note).launching = object;
  }
  const auto& stream = call.objects[0];
  std::vector<Queued> uses;
  {
    const std::lock_guard lock(object->mutex);
    uses = routine.uses;
  }
  Order order;
  if (stream != nullptr) {
    const std::lock_guard lock(stream->mutex);
    order = checked(stream).order;
  }
  for (const Queued& last : uses) {
    const auto known = order.find(last.stream->number);
    const bool is_ordered =
        last.stream == stream || is_done(last) || (known != order.end() && known->second >= last.ticket);
    if (!is_ordered) {
      blame_host(
          call, 20,
          object->name() + " is launched while its launch on " + last.stream->name() + " may still run");
    }
  }
}

void Validate::check_host(Call& call) {
  switch (call.function()) {
    case F::from_host:
    case F::to_host:
    case F::device_to_device:
      return check_copy(call);
    case F::fill:
      return check_fill(call);
    case F::device_close:
    case F::buffer_destroy:
    case F::stream_destroy:
    case F::routine_destroy:
      return check_destroy(call);
    case F::routine_link:
      return check_link(call);
    case F::routine_launch:
      return check_launch(call);
    default:
      break;
  }
  for (std::size_t i = 0; i < call.row.argument_count; ++i) {
    const Argument& argument = call.row.arguments[i];
    const bool is_out = argument.kind == Kind::kOutNumber || argument.kind == Kind::kOutHandle ||
                        argument.kind == Kind::kOutInfo || argument.kind == Kind::kProgramText;
    if (is_out && !argument.nullable && call.words[i] == 0) {
      blame_host(call, 15, std::string(argument.name) + " is NULL");
    }
  }
}

// The plugin did what it was asked for: what is alive, and what follows from it.
void Validate::note_handle(Call& call) {
  const auto& first = call.objects[0];
  if (call.made != nullptr) {
    ++live_[static_cast<std::size_t>(call.made->kind)];
    if (call.made->device != nullptr) {
      Checked& device = checked(call.made->device);
      ++device.children;
      device.live_bytes += call.made->byte_count;
    }
  }
  if (call.row.arguments[0].ownership == Ownership::kEnded && first != nullptr && call.is_ok()) {
    --live_[static_cast<std::size_t>(first->kind)];
    if (first->device != nullptr) {
      Checked& device = checked(first->device);
      --device.children;
      device.live_bytes -= first->byte_count;
    }
    for (const auto& buffer : checked(first).buffers) {
      --checked(buffer).bound;
    }
    checked(first).buffers.clear();
  }
  if (call.function() == F::code_compile && call.made != nullptr) {
    const auto* const text = call.pointer<const yoke_program_text>(1);
    if (text->format != nullptr && std::strcmp(text->format, YOKE_PROGRAM_FORMAT) == 0 &&
        text->version == YOKE_PROGRAM_VERSION && text->bytes != nullptr) {
      try {
        checked(call.made).module = std::make_shared<program::Module>(
            program::parse_and_verify({text->bytes, static_cast<std::size_t>(text->byte_count)}));
      } catch (const program::ProgramError& error) {
        blame_plugin(call, 25, std::string("it compiled a text that is no valid program: ") + error.what());
      }
    }
  } else if (call.function() == F::routine_link && call.made != nullptr) {
    Checked& routine = checked(call.made);
    routine.module = checked(call.objects[0]).module;
    routine.entry = static_cast<std::uint32_t>(call.number(1));
    routine.buffers = call.bound;
    routine.buffers.push_back(call.objects[4]);
    std::erase(routine.buffers, nullptr);
    for (const auto& buffer : routine.buffers) {
      ++checked(buffer).bound;
    }
  }
}

void Validate::note_work(Call& call) {
  const auto& stream = call.objects[0];
  if (call.function() == F::event_record && call.made != nullptr) {
    const std::lock_guard lock(stream->mutex);
    Order& order = checked(call.made).order;
    order = checked(stream).order;
    order[stream->number] = call.made->ticket;
  }
  if (call.ticket == 0) {
    return;
  }
  const Queued work{stream, call.ticket};
  for (std::size_t i = 1; i < call.row.argument_count; ++i) {
    if (call.objects[i] != nullptr && call.objects[i]->kind == Kind::kBuffer) {
      add_use(call.objects[i], work);
    }
  }
  if (call.function() == F::routine_launch) {
    add_use(call.objects[1], work);
    for (const auto& buffer : checked(call.objects[1]).buffers) {
      add_use(buffer, work);
    }
  }
  if (call.function() == F::stream_wait_event) {
    const auto& event = call.objects[1];
    const std::lock_guard lock(stream->mutex);
    merge(checked(stream).order, checked(event).order);  // written once, before the event was given out
    checked(stream).waits.emplace_back(call.ticket, event);
  }
  if (call.function() == F::to_host) {
    constexpr std::size_t kMostTargets = 256;
    const Range target{call.number(3), call.number(3) + call.number(4), true};
    const std::lock_guard lock(mutex_);
    if (targets_.size() < kMostTargets) {
      targets_.push_back(target);
    } else {
      targets_[next_target_++ % kMostTargets] = target;
    }
  }
  const bool keeps =
      call.function() == F::from_host && call.wrote(5) && call.out(5) == YOKE_SOURCE_UNTIL_EVENT;
  if (keeps && call.number(3) != 0) {
    const auto* const memory = call.pointer<const void>(3);
    const Source source{call.ticket, memory, call.number(4), hash_of(memory, call.number(4))};
    const std::lock_guard lock(stream->mutex);
    checked(stream).sources.push_back(source);
  }
}

// Work that waited for an event of another stream is done: so is what the event stood for.
void Validate::spread_completion(Call& call) {
  const auto& first = call.objects[0];
  if (first == nullptr || call.row.time == Time::kAsynchronous ||
      (first->kind != Kind::kStream && first->kind != Kind::kEvent)) {
    return;
  }
  std::vector<std::shared_ptr<Object>> streams = {first->kind == Kind::kEvent ? first->stream : first};
  for (std::size_t i = 0; i < streams.size() && streams[i] != nullptr; ++i) {
    std::vector<std::shared_ptr<Object>> reached;
    {
      const std::lock_guard lock(streams[i]->mutex);
      std::erase_if(checked(streams[i]).waits, [&](const auto& wait) {
        const bool is_over = wait.first <= streams[i]->completed;
        if (is_over) {
          reached.push_back(wait.second);
        }
        return is_over;
      });
    }
    for (const auto& event : reached) {
      const auto& other = event->stream;
      const std::lock_guard lock(other->mutex);
      if (other->completed < event->ticket) {
        other->completed = event->ticket;
        completed(*other, call.is_ok());
        streams.push_back(other);
      }
    }
  }
}

}  // namespace yoke::layers
