// SPDX-License-Identifier: Apache-2.0
// runtime/layers/validate_work.cpp: tracks live objects, links, queued work and its order.
#include <algorithm>
#include <chrono>
#include <thread>

#include "layers/interposer.h"
#include "layers/validate.h"

namespace yoke::layers {
namespace {

using F = Function;

void add_use(const std::shared_ptr<Object>& object, const Queued& work) {
  const std::lock_guard lock(object->mutex);
  auto& uses = checked(object).uses;
  std::erase_if(uses, [&](const Queued& one) { return one.stream == work.stream || !one.stream->is_alive; });
  uses.push_back(work);
}

void note_routine(Call& call) {
  Checked& routine = checked(call.made);
  routine.symbol_count = call.note->symbol_count;
  for (const Bound& one : call.bindings) {
    routine.buffers.push_back(one.buffer);
  }
  routine.buffers.push_back(call.workspace.buffer);
  std::erase(routine.buffers, nullptr);
  for (const auto& buffer : routine.buffers) {
    ++checked(buffer).bound;
  }
}

void note_wait(const Call& call) {
  const auto& stream = call.objects[0];
  const auto& event = call.objects[1];
  const std::lock_guard lock(stream->mutex);
  Checked& waiting = checked(stream);
  for (const auto& [number, ticket] : checked(event).order) {  // does not change after event_record
    std::uint64_t& mine = waiting.order[number];
    mine = std::max(mine, ticket);
  }
  waiting.waits.emplace_back(call.ticket, event);
  if (event->device != stream->device || checked(event).inherits) {
    waiting.inherits = true;
  }
}

}  // namespace

void note_handles(Call& call) {
  if (call.made != nullptr) {
    call.made->checked = std::make_shared<Checked>();
    if (call.made->device != nullptr) {
      ++checked(call.made->device).children;
    }
    if (call.function() == F::routine_link) {
      note_routine(call);
    } else if (call.function() == F::communicator_create) {
      checked(call.made).rank = static_cast<std::uint32_t>(call.number("rank"));
      checked(call.made).member_count = static_cast<std::uint32_t>(call.number("size"));
    }
  }
  if (const auto ended = call.ended(); ended != nullptr && call.is_ok()) {
    if (ended->device != nullptr) {
      --checked(ended->device).children;
    }
    for (const auto& buffer : checked(ended).buffers) {
      --checked(buffer).bound;
    }
    checked(ended).buffers.clear();
  }
  const bool is_abort = call.function() == F::stream_abort || call.function() == F::device_abort ||
                        call.function() == F::communicator_abort;
  if (is_abort && call.is_ok()) {
    checked(call.objects[0]).is_aborted = true;
  }
}

void note_work(Call& call, HostMemory& memory) {
  const auto& stream = call.objects[0];
  if (call.function() == F::event_record && call.made != nullptr) {
    const std::lock_guard lock(stream->mutex);
    Order& order = checked(call.made).order;
    order = checked(stream).order;
    order[stream->number] = call.made->ticket;
    checked(call.made).inherits = checked(stream).inherits.load();
  }
  for (const Member& member : call.members) {
    for (const auto& object : {member.communicator, member.source, member.target}) {
      if (object != nullptr && member.ticket != 0) {
        add_use(object, {member.stream, member.ticket});
      }
    }
  }
  if (call.ticket == 0) {
    return;
  }
  const Queued work{stream, call.ticket};
  for (std::size_t i = 1; i < call.row.argument_count; ++i) {
    if (call.objects[i] != nullptr && call.objects[i]->kind != Kind::kEvent) {
      add_use(call.objects[i], work);
      if (call.objects[i]->device != nullptr && call.objects[i]->device != stream->device) {
        checked(stream).inherits = true;
      }
    }
  }
  if (call.function() == F::routine_launch) {
    for (const auto& buffer : checked(call.objects[1]).buffers) {
      add_use(buffer, work);
    }
  } else if (call.function() == F::stream_wait_event) {
    note_wait(call);
  } else if (call.function() == F::to_host) {
    memory.add(*stream, call.ticket, call.pointer<const void>(3), call.number(4), true);
  } else if (call.function() == F::from_host && call.wrote(5) && call.out(5) == YOKE_SOURCE_UNTIL_EVENT) {
    memory.add(*stream, call.ticket, call.pointer<const void>(3), call.number(4), false);
  } else if (call.note->callback != nullptr) {
    const std::lock_guard lock(stream->mutex);
    checked(stream).callbacks[call.ticket] = call.note->callback;
  }
}

// If work that waited for an event of another stream has ended, the work before that event has ended too.
void spread_completion(Call& call) {
  const auto& first = call.objects[0];
  if (first == nullptr || call.row.time == abi::Time::kAsynchronous ||
      (first->kind != Kind::kStream && first->kind != Kind::kEvent)) {
    return;
  }
  std::vector<std::shared_ptr<Object>> streams = {first->kind == Kind::kEvent ? first->stream : first};
  for (std::size_t i = 0; i < streams.size(); ++i) {
    std::vector<std::shared_ptr<Object>> reached;
    {
      const std::lock_guard lock(streams[i]->mutex);
      std::erase_if(checked(streams[i]).waits, [&](const auto& wait) {
        const bool is_done = wait.first <= streams[i]->completed;
        if (is_done) {
          reached.push_back(wait.second);
        }
        return is_done;
      });
    }
    for (const auto& event : reached) {
      const auto& other = event->stream;
      const std::lock_guard lock(other->mutex);
      if (other->completed < event->ticket) {
        other->completed = event->ticket;
        call.plugin.each(&Layer::completed, *other, call.is_ok());
        streams.push_back(other);
      }
    }
  }
}

// Precondition: stream.mutex is held.
void finish_callbacks(const Object& stream, const Reporter& reporter) {
  std::erase_if(stream.checked->callbacks, [&](const auto& one) {
    const bool has_ended = one.first <= stream.completed;
    if (has_ended && one.second->call_count == 0) {
      reporter.plugin(Rule::kHostCallback, "stream_host_callback", "the callback on ", stream.name(),
                      " was not called, but the work after it has ended");
    }
    return has_ended;
  });
}

void HostMemory::add(const Object& stream, std::uint64_t ticket, const void* memory, std::uint64_t byte_count,
                     bool is_target) {
  const Hash hash = is_target ? Hash{} : hash_of(memory, byte_count);
  const auto begin = reinterpret_cast<std::uint64_t>(memory);
  const std::lock_guard lock(mutex_);
  if (is_target) {  // sources there may change, in order
    std::erase_if(all_, [&](const auto& one) {
      const auto source = reinterpret_cast<std::uint64_t>(one.second.memory);
      return !one.second.is_target &&
             Range{begin, begin + byte_count}.overlaps({source, source + one.second.byte_count});
    });
  }
  all_[{stream.number, ticket}] = {memory, byte_count, hash, is_target};
}

void HostMemory::finish(const Object& stream, bool ok, const Reporter& reporter) {
  std::vector<Part> targets;
  {
    const std::lock_guard lock(mutex_);
    const auto first = all_.lower_bound({stream.number, 0});
    const auto last = all_.upper_bound({stream.number, stream.completed});
    for (auto at = first; at != last; ++at) {
      if (!at->second.is_target && ok) {
        check_source(at->second, stream, reporter);
      } else if (at->second.is_target && !ok) {
        targets.push_back(at->second);
      }
    }
    all_.erase(first, last);
  }
  check_targets(targets, stream, reporter);
}

void HostMemory::finish_sources(const Object& stream, std::uint64_t last, bool ok, const Reporter& reporter) {
  const std::lock_guard lock(mutex_);
  const auto end = all_.upper_bound({stream.number, last});
  for (auto at = all_.lower_bound({stream.number, 0}); at != end;) {
    if (at->second.is_target) {
      ++at;
      continue;
    }
    if (ok) {
      check_source(at->second, stream, reporter);
    }
    at = all_.erase(at);
  }
}

void HostMemory::check_source(const Part& part, const Object& stream, const Reporter& reporter) {
  Hash hash;
  const bool is_mapped = hash_mapped(part.memory, part.byte_count, hash);
  if (!is_mapped || hash != part.hash) {
    reporter.host(Rule::kCopy, "from_host", "the ", part.byte_count, "-byte source was ",
                  is_mapped ? "changed" : "unmapped", " before the copy on ", stream.name(), " had ended");
  }
}

// Watches the targets of failed copies for a short time. The host is
// waiting, so only the plugin can change them.
void HostMemory::check_targets(std::vector<Part>& targets, const Object& stream, const Reporter& reporter) {
  constexpr std::chrono::milliseconds kMoment(5);
  std::erase_if(targets, [](Part& part) { return !hash_mapped(part.memory, part.byte_count, part.hash); });
  if (targets.empty()) {
    return;
  }
  std::this_thread::sleep_for(kMoment);
  for (const Part& part : targets) {
    Hash hash;
    if (hash_mapped(part.memory, part.byte_count, hash) && hash != part.hash) {
      reporter.plugin(
          Rule::kQuiescence, "to_host", "the ", part.byte_count,
          "-byte target is still written, although a wait or query reported the end of the work on ",
          stream.name());
    }
  }
}

}  // namespace yoke::layers
