// SPDX-License-Identifier: Apache-2.0
// runtime/layers/validate_plugin.cpp: what a plugin may not answer.
#include <algorithm>
#include <cstring>

#include "layers/error_slots.h"
#include "layers/validate.h"

namespace yoke::layers {
namespace {

using F = Function;

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kMostRows = std::uint64_t{1} << 20U;  // as the runtime takes

bool is_wait(F function) {
  return function == F::stream_wait || function == F::event_wait;
}
bool is_query(F function) {
  return function == F::stream_query || function == F::event_query;
}

std::string milliseconds(std::uint64_t ns) {
  return std::to_string(ns / kMillisecond) + " ms";
}

std::uint64_t size_at(const std::byte* memory) {
  std::uint64_t size = 0;
  std::memcpy(&size, memory, sizeof(size));
  return size;
}

}  // namespace

void Validate::blame_plugin(Call& call, int rule, std::string text, bool warn) {
  if (!warn && ledger_->fail_calls() && call.has_result() && call.made == nullptr &&
      call.row.arguments[0].ownership != Ownership::kEnded) {
    answer(call, YOKE_FAILED_PRECONDITION,
           "the plugin broke rule " + std::to_string(rule) + " in " + call.row.name + ": " + text);
  }
  report(rule, Culprit::kPlugin, call.row.name, std::move(text), warn);
}

void Validate::check_surroundings(Call& call) {
  auto& note = static_cast<Note&>(*call.note);
  const std::string changed = difference(note.surroundings, look_around(note.surroundings.is_whole));
  if (!changed.empty()) {
    blame_plugin(call, 22, "the call changed " + changed);
  }
  if (call.function() == F::device_open) {
    check_tables(call.row.name);
  } else if (const std::uint64_t before = threads_at_entry_.load(); owner_.load() == 0 && before != 0) {
    // Whose they are nobody can tell: the application may have started them.
    const std::uint64_t now = thread_count();
    if (now > before && threads_at_entry_.exchange(0) != 0) {
      blame_plugin(call, 22,
                   std::to_string(now - before) +
                       " threads were started since the plugin was entered, and no device is open",
                   true);
    }
  }
}

void Validate::check_answer(Call& call) {
  if (!call.has_result()) {
    return;
  }
  const ErrorSlot& status = *call.status;
  const std::int32_t code = call.code;
  if (code < YOKE_OK || code > YOKE_OUT_OF_DEVICE_MEMORY) {
    blame_plugin(call, 11, "it answered the code " + std::to_string(code) + ", which is none");
  }
  if (code == YOKE_OK) {
    // device_count's 0 is an answer whose reason stands in the text.
    if (status.set_count > 0 && call.function() != F::device_count) {
      blame_plugin(call, 10, "it answered OK and set an error: " + status.text);
    }
  } else if (status.set_count == 0 || status.text.empty()) {
    blame_plugin(call, 10, "it failed with code " + std::to_string(code) + " and without a text");
  } else if (status.code != code) {
    blame_plugin(call, 10,
                 "it answered the code " + std::to_string(code) + ", and the code " +
                     std::to_string(status.code) + " in its error");
  }
  auto& note = static_cast<Note&>(*call.note);
  if (code == YOKE_OK && note.out_of_range) {
    blame_plugin(call, 16, "it answered OK to a range that leaves the buffer");
  }
  if (in_child_.load() && code != YOKE_FAILED_PRECONDITION) {
    blame_plugin(call, 23, "called in a forked child it did not answer FAILED_PRECONDITION");
  }
}

void Validate::check_shadow(Call& call, std::size_t i) {
  const Shadow& shadow = call.shadows[i];
  const Argument& argument = call.row.arguments[i];
  if (shadow.size == 0) {
    return;
  }
  const auto* const end = shadow.bytes.data() + shadow.size;
  if (std::any_of(end, end + kCanaryByteCount, [](std::byte b) { return b != kCanary; })) {
    blame_plugin(call, argument.kind == Kind::kOutRows ? 12 : 5,
                 std::string("it wrote behind the end of ") + argument.name);
  }
  if (argument.kind == Kind::kOutText) {
    if (call.is_ok() && std::memchr(shadow.bytes.data(), 0, shadow.size) == nullptr) {
      blame_plugin(call, 12, std::string(argument.name) + " is not closed by a zero");
    }
    return;
  }
  const std::uint64_t stride = size_at(shadow.before.data());
  for (std::uint64_t at = 0; stride >= sizeof(stride) && at + sizeof(stride) <= shadow.size; at += stride) {
    if (size_at(shadow.bytes.data() + at) != size_at(shadow.before.data() + at)) {
      blame_plugin(call, 5, std::string("it changed the struct_size of ") + argument.name);
      break;
    }
  }
  if (!call.is_ok() && !std::equal(shadow.before.begin(), shadow.before.end(), shadow.bytes.begin())) {
    blame_plugin(call, 10, std::string("it failed, and wrote to ") + argument.name);
  }
}

void Validate::check_outs(Call& call) {
  const bool was_ok = call.is_ok();
  for (std::size_t i = 0; i < call.row.argument_count; ++i) {
    const Argument& argument = call.row.arguments[i];
    check_shadow(call, i);
    if (argument.kind != Kind::kOutNumber && argument.kind != Kind::kOutHandle) {
      continue;
    }
    if (!was_ok && call.wrote(i)) {
      blame_plugin(call, 10, std::string("it failed, and wrote to ") + argument.name);
    } else if (was_ok && (!call.wrote(i) || (argument.kind == Kind::kOutHandle && call.outs[i] == 0))) {
      blame_plugin(call, 12, std::string("it answered OK without a result in ") + argument.name);
    } else if (was_ok && std::strcmp(argument.name, "out_count") == 0 && call.out(i) > kMostRows) {
      blame_plugin(call, 12, "it counts " + std::to_string(call.out(i)) + ", which cannot be");
    } else if (was_ok && is_query(call.function()) && call.out(i) > 1) {
      blame_plugin(call, 12, "out_done is " + std::to_string(call.out(i)) + ", and is 0 or 1");
    }
  }
  if (was_ok && call.function() == F::from_host && call.wrote(5)) {
    const std::uint64_t source = call.out(5);
    if (source != YOKE_SOURCE_COPIED && source != YOKE_SOURCE_UNTIL_EVENT) {
      blame_plugin(call, 16, "there is no YOKE_SOURCE_ " + std::to_string(source));
    } else if (source != YOKE_SOURCE_COPIED && call.objects[0] == nullptr) {
      blame_plugin(call, 16, "without a stream the source is copied when the call returns");
    }
  }
}

void Validate::check_time(Call& call) {
  constexpr std::uint64_t kBoundedMost = 100 * kMillisecond;
  constexpr std::uint64_t kAsynchronousMost = 1000 * kMillisecond;
  const std::uint64_t spent = call.end_ns - call.begin_ns;
  if (call.row.time == Time::kBounded && spent > kBoundedMost) {
    blame_plugin(call, 20, "a bounded call took " + milliseconds(spent), true);
  } else if (call.row.time == Time::kAsynchronous && call.objects[0] != nullptr &&
             spent > kAsynchronousMost) {
    blame_plugin(call, 20, "an asynchronous call took " + milliseconds(spent), true);
  }
}

bool Validate::is_finished(const Call& call, const std::shared_ptr<Object>& event) {
  const Slot function = slot(F::event_query);
  if (function == nullptr) {
    return true;
  }
  const OpenSlot status(*this, nullptr, call.row.name);
  std::int32_t done = 1;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the plugin's own pointer
  auto* const inner = reinterpret_cast<yoke_event*>(event->inner);
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto query = reinterpret_cast<decltype(yoke_stream_api::event_query)>(function);
  const auto code = query(inner, &done, status.get()->get());
  return code != YOKE_OK || done != 0;
}

void Validate::check_wait(Call& call) {
  if (!is_wait(call.function())) {
    return;
  }
  constexpr std::uint64_t kCoarseClock = 20 * kMillisecond;
  constexpr std::uint64_t kLate = 500 * kMillisecond;
  constexpr std::uint64_t kFarTooLate = 10'000 * kMillisecond;
  const std::uint64_t timeout = call.number(1);
  const std::uint64_t spent = call.end_ns - call.begin_ns;
  if (call.code == YOKE_DEADLINE_EXCEEDED && spent + kCoarseClock < timeout) {
    blame_plugin(call, 21, "it gave up after " + milliseconds(spent) + " of " + milliseconds(timeout));
  }
  if (spent > timeout && spent - timeout > kLate) {
    blame_plugin(
        call, 21,
        "it returned " + milliseconds(spent - timeout) + " after its deadline of " + milliseconds(timeout),
        spent - timeout < kFarTooLate);
  }
  if (call.is_ok() && call.function() == F::event_wait && call.objects[0]->is_alive() &&
      !is_finished(call, call.objects[0])) {
    blame_plugin(call, 21, "it answered OK, and event_query says that the event is not done");
  }
}

void Validate::check_sticky(Call& call) {
  auto& note = static_cast<Note&>(*call.note);
  const auto& first = call.objects[0];
  if (first == nullptr || call.code == YOKE_FAILED_PRECONDITION) {
    return;
  }
  const std::int32_t code = call.code;
  const auto& device = first->kind == Kind::kDevice ? first : first->device;
  if (is_wait(call.function()) || is_query(call.function())) {
    const bool is_not_over = code == YOKE_OK && is_query(call.function()) && call.out(1) == 0;
    if (note.failure != YOKE_OK && code == YOKE_OK && !is_not_over) {
      blame_plugin(
          call, 19,
          first->name() + " failed with code " + std::to_string(note.failure) + ", and now it answers OK");
    } else if (code != YOKE_OK && code != YOKE_DEADLINE_EXCEEDED && code != YOKE_UNIMPLEMENTED &&
               code != YOKE_INVALID_ARGUMENT) {
      const std::lock_guard lock(first->mutex);
      checked(first).failure = code;
    }
  }
  const bool uses_device = is_wait(call.function()) || call.row.time == Time::kAsynchronous ||
                           call.function() == F::buffer_create || call.function() == F::stream_create;
  if (note.was_lost && uses_device && code == YOKE_OK) {
    blame_plugin(call, 19, device->name() + " was lost, and now it answers OK");
  }
  if (code == YOKE_DEVICE_LOST) {
    checked(device).is_lost.store(true);
  }
}

void Validate::check_counts(const Call& call, const yoke_live_counts& counts) {
  const auto& note = static_cast<const Note&>(*call.note);
  if (!is_quiet(note.changes, changing_.load())) {
    return;  // objects came and went meanwhile
  }
  const std::uint64_t all[] = {counts.devices, counts.buffers, counts.streams,
                               counts.events,  counts.codes,   counts.routines};
  for (std::size_t i = 0; i < std::size(all); ++i) {
    const auto known = static_cast<std::uint64_t>(note.live[i + 1]);
    if (all[i] != known) {
      report(14, Culprit::kPlugin, call.row.name,
             "it counts " + std::to_string(all[i]) + " live " + kind_name(static_cast<Kind>(i + 1)) +
                 " handles, and " + std::to_string(known) + " are alive");
    }
  }
}

void Validate::check_infos(Call& call) {
  const auto& note = static_cast<const Note&>(*call.note);
  if (call.function() == F::device_close && call.objects[0] != nullptr) {
    if (call.is_ok() && note.children != 0) {
      blame_plugin(call, 14, "it closed a device with " + std::to_string(note.children) + " objects alive");
    } else if (!call.is_ok() && note.children == 0 && is_quiet(note.device_changes, note.device_changes) &&
               call.code == YOKE_FAILED_PRECONDITION && !in_child_.load()) {
      blame_plugin(call, 14, "it does not close a device that has no objects: " + call.status->text);
    }
  }
  if (!call.is_ok()) {
    return;
  }
  const auto read = [&](std::size_t i, auto& info) {
    const Shadow& shadow = call.shadows[i];
    std::memcpy(&info, shadow.bytes.data(), std::min(sizeof(info), shadow.size));
    return shadow.size >= sizeof(info);
  };
  if (yoke_live_counts counts{}; call.function() == F::live_counts && read(1, counts)) {
    check_counts(call, counts);
  }
  if (yoke_memory_info info{}; call.function() == F::device_memory && read(1, info)) {
    const Checked& device = checked(call.objects[0]);
    const bool is_quiet_now = is_quiet(note.device_changes, device.changing.load());
    if (info.peak_bytes < info.used_bytes || (info.limit_bytes != 0 && info.used_bytes > info.limit_bytes) ||
        (is_quiet_now && info.used_bytes < note.live_bytes)) {
      blame_plugin(call, 26,
                   "its figures contradict each other: used " + std::to_string(info.used_bytes) + ", peak " +
                       std::to_string(info.peak_bytes) + ", limit " + std::to_string(info.limit_bytes) +
                       ", in live buffers " + std::to_string(note.live_bytes));
    }
  }
  if (yoke_buffer_info info{}; call.function() == F::buffer_describe && read(1, info)) {
    if (info.byte_count != call.objects[0]->byte_count) {
      blame_plugin(call, 14,
                   "it gives a buffer of " + std::to_string(call.objects[0]->byte_count) + " bytes " +
                       std::to_string(info.byte_count));
    }
  }
}

}  // namespace yoke::layers
