// SPDX-License-Identifier: Apache-2.0
// runtime/layers/validate_plugin.cpp: postconditions of a call, which the plugin must meet.
#include <yoke/runtime/counted.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "layers/interposer.h"
#include "layers/validate.h"

namespace yoke::layers {
namespace {

using F = Function;

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kMostRows = std::uint64_t{1} << 20U;  // the runtime's limit

std::string milliseconds(std::uint64_t ns) {
  return std::to_string(ns / kMillisecond) + " ms";
}

std::uint64_t size_at(const std::byte* memory) {
  std::uint64_t size = 0;
  std::memcpy(&size, memory, sizeof(size));
  return size;
}

void check_shadow(Call& call, std::size_t i) {
  const Shadow& shadow = call.shadows[i];
  const Argument& argument = call.row.arguments[i];
  const std::string_view name = argument.name;
  const auto* const end = shadow.bytes.data() + shadow.size;
  if (std::any_of(end, end + kCanaryByteCount, [](std::byte b) { return b != kCanary; })) {
    blame_plugin(call, argument.kind == Kind::kOutRows ? Rule::kResult : Rule::kStructSize,
                 "wrote past the end of ", name);
  }
  if (argument.kind == Kind::kOutText) {
    if (call.is_ok() && std::memchr(shadow.bytes.data(), 0, shadow.size) == nullptr) {
      blame_plugin(call, Rule::kResult, name, " is not closed by a zero");
    }
    return;
  }
  if (argument.kind == Kind::kOutInfo && shadow.size >= sizeof(std::uint64_t) &&
      size_at(shadow.bytes.data()) != size_at(shadow.before.data())) {
    blame_plugin(call, Rule::kStructSize, "changed the struct_size of ", name);
  }
  if (!call.is_ok() && !std::equal(shadow.before.begin(), shadow.before.end(), shadow.bytes.begin())) {
    blame_plugin(call, Rule::kErrorText, "failed but wrote to ", name);
  }
}

void check_out(Call& call, std::size_t i, bool was_ok) {
  const Argument& argument = call.row.arguments[i];
  const std::string_view name = argument.name;
  const std::uint64_t value = call.out(i);
  if (!was_ok && call.wrote(i)) {
    blame_plugin(call, Rule::kErrorText, "failed but wrote to ", name);
  } else if (was_ok && (!call.wrote(i) || (argument.kind == Kind::kOutHandle && call.outs[i] == 0))) {
    blame_plugin(call, Rule::kResult, "returned OK without a result in ", name);
  } else if (was_ok && name == "out_count" && value > kMostRows) {
    blame_plugin(call, Rule::kResult, "out_count is ", value, "; the most is ", kMostRows);
  } else if (was_ok && abi::is_query(call.function()) && value > YOKE_STATE_FAILED) {
    blame_plugin(call, Rule::kState, name, " is ", value, ", which is not a YOKE_STATE_ value");
  } else if (was_ok && call.function() == F::from_host && value != YOKE_SOURCE_COPIED) {
    if (value != YOKE_SOURCE_UNTIL_EVENT) {
      blame_plugin(call, Rule::kCopy, name, " is ", value, ", which is not a YOKE_SOURCE_ value");
    } else if (call.objects[0] == nullptr) {
      blame_plugin(call, Rule::kCopy, name, " must be YOKE_SOURCE_COPIED without a stream");
    }
  }
}

void check_outs(Call& call) {
  const bool was_ok = call.is_ok();
  for (std::size_t i = 0; i < call.row.argument_count; ++i) {
    const Kind kind = call.row.arguments[i].kind;
    if (call.shadows[i].size != 0) {
      check_shadow(call, i);
    } else if (kind == Kind::kOutNumber || kind == Kind::kOutHandle) {
      check_out(call, i, was_ok);
    }
  }
}

void check_time(Call& call) {
  constexpr std::uint64_t kMostBounded = 100 * kMillisecond;
  constexpr std::uint64_t kMostAsynchronous = 1000 * kMillisecond;
  const std::uint64_t spent = call.end_ns - call.begin_ns;
  if (call.row.time == abi::Time::kBounded && spent > kMostBounded) {
    warn_plugin(call, Rule::kThreads, "a bounded call took ", milliseconds(spent));
  } else if (call.row.time == abi::Time::kAsynchronous && call.objects[0] != nullptr &&
             spent > kMostAsynchronous) {
    warn_plugin(call, Rule::kThreads, "an asynchronous call took ", milliseconds(spent));
  }
}

// Queries the plugin directly, without the layers.
bool is_pending(const Call& call, const Object& event) {
  const auto query =
      reinterpret_cast<decltype(yoke_stream_api::event_query)>(call.plugin.slot(F::event_query));
  const OpenSlot status(call.plugin, nullptr, call.row.name);
  std::int32_t state = YOKE_STATE_DONE;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the plugin's own pointer
  auto* const handle = reinterpret_cast<yoke_event*>(event.word);
  return query != nullptr && query(handle, &state, status->get()) == YOKE_STATUS_OK &&
         state == YOKE_STATE_PENDING;
}

void check_wait(Call& call) {
  constexpr std::uint64_t kClock = 20 * kMillisecond;  // its resolution, generously
  constexpr std::uint64_t kLate = 500 * kMillisecond;
  constexpr std::uint64_t kFarTooLate = 10'000 * kMillisecond;
  const std::uint64_t timeout = call.number(1);
  const std::uint64_t spent = call.end_ns - call.begin_ns;
  if (call.code == YOKE_STATUS_DEADLINE_EXCEEDED && spent + kClock < timeout) {
    blame_plugin(call, Rule::kDeadline, "gave up after ", milliseconds(spent), " of ", milliseconds(timeout));
  }
  if (spent > timeout && spent - timeout > kLate) {
    blame(
        call, Rule::kDeadline, Culprit::kPlugin,
        concat("returned ", milliseconds(spent - timeout), " after its deadline of ", milliseconds(timeout)),
        spent - timeout < kFarTooLate);
  }
  const Object& object = *call.objects[0];
  if (call.code != YOKE_STATUS_DEADLINE_EXCEEDED && call.function() == F::event_wait && object.is_alive &&
      is_pending(call, object)) {
    blame_plugin(call, Rule::kDeadline, "returned code ", call.code,
                 ", but event_query reports pending work");
  }
}

// Whether the error may be that of another device: of a stream that waits for one there, or of a copy from there.
bool uses_another_device(const Call& call, const Object& device, bool waits) {
  return (waits && checked(call.objects[0]).inherits) ||
         std::any_of(call.objects.begin(), call.objects.end(), [&](const std::shared_ptr<Object>& object) {
           return object != nullptr && object->device != nullptr && object->device.get() != &device;
         });
}

void check_sticky(Call& call) {
  const auto& first = call.objects[0];
  if (first == nullptr || call.code == YOKE_STATUS_FAILED_PRECONDITION) {
    return;
  }
  const auto& device = first->kind == Kind::kDevice ? first : first->device;
  const bool can_be_aborted = first->kind == Kind::kStream || first->kind == Kind::kCommunicator;
  const bool waits = abi::is_wait(call.function());
  const bool is_good =
      call.is_ok() && (waits || (abi::is_query(call.function()) && call.out(1) == YOKE_STATE_DONE));
  const bool has_failed =
      waits ? !call.is_ok() && call.code != YOKE_STATUS_DEADLINE_EXCEEDED &&
                  call.code != YOKE_STATUS_UNIMPLEMENTED && call.code != YOKE_STATUS_INVALID_ARGUMENT
            : abi::is_query(call.function()) && call.is_ok() && call.out(1) == YOKE_STATE_FAILED;
  if (is_good && call.note->failure != YOKE_STATUS_OK) {
    blame_plugin(call, Rule::kStickyError, first->name(), " failed before, but now the call reports success");
  } else if (is_good && can_be_aborted && (checked(first).is_aborted || checked(device).is_aborted)) {
    blame_plugin(call, Rule::kAbort, first->name(), " was aborted, but the call reports success");
  } else if (has_failed) {
    const std::lock_guard lock(first->mutex);
    checked(first).failure = waits ? call.code : YOKE_STATUS_UNKNOWN;
  }
  const bool uses_device = waits || call.row.time == abi::Time::kAsynchronous ||
                           call.function() == F::buffer_create || call.function() == F::stream_create;
  if (call.note->was_lost && uses_device && call.is_ok()) {
    blame_plugin(call, Rule::kStickyError, device->name(), " was lost before, but now the call returns OK");
  }
  if (call.code == YOKE_STATUS_DEVICE_LOST && !uses_another_device(call, *device, waits)) {
    checked(device).is_lost.store(true);
  }
}

void check_close(Call& call) {
  const CallNote& note = *call.note;
  if (call.is_ok() && note.children != 0) {
    blame_plugin(call, Rule::kLiveObjects, "closed a device with ",
                 detail::counted(note.children, "live object"));
  } else if (call.code == YOKE_STATUS_FAILED_PRECONDITION && note.children == 0) {
    blame_plugin(call, Rule::kLiveObjects,
                 "does not close a device without live objects: ", call.status->text);
  }
}

// The struct that the plugin wrote to argument `i`. Empty if the call failed or the host's struct is shorter.
template <class Info>
std::optional<Info> info_at(const Call& call, std::size_t i) {
  Info info{};
  const Shadow& shadow = call.shadows[i];
  if (!call.is_ok() || shadow.size < sizeof(info)) {
    return std::nullopt;
  }
  std::memcpy(&info, shadow.bytes.data(), sizeof(info));
  return info;
}

// The reason must be empty exactly if there are devices.
void check_reason(Call& call) {
  const Shadow& reason = call.shadows[2];
  if (call.is_ok() && call.wrote(1) && reason.size != 0 &&
      (reason.bytes[0] == std::byte{0}) != (call.out(1) != 0)) {
    blame_plugin(call, Rule::kNoDevices, "reports ", detail::counted(call.out(1), "device"), " and ",
                 call.out(1) == 0 ? "no reason" : "a reason why there are none");
  }
}

void check_alignment(Call& call) {
  std::uint64_t address = 0;
  if (call.function() == F::buffer_describe) {
    const auto info = info_at<yoke_buffer_info>(call, 1);
    address = info ? info->host_address : 0;
  } else if (call.function() == F::buffer_device_address) {
    address = call.is_ok() && call.wrote(1) ? call.out(1) : 0;
  } else if (const auto info = info_at<yoke_argument_info>(call, 3);
             info && (info->alignment == 0 || (info->alignment & (info->alignment - 1)) != 0 ||
                      info->alignment > YOKE_BUFFER_ALIGNMENT)) {
    return blame_plugin(call, Rule::kAlignment, "the alignment ", info->alignment,
                        " is not a power of two up to ", YOKE_BUFFER_ALIGNMENT);
  }
  if (address % YOKE_BUFFER_ALIGNMENT != 0 && !call.objects[0]->is_imported) {
    blame_plugin(call, Rule::kAlignment, call.objects[0]->name(), " is at ", address,
                 ", which is not a multiple of ", YOKE_BUFFER_ALIGNMENT);
  }
}

// Checks for single functions.
void check_function(Call& call) {
  switch (call.function()) {
    case F::device_close:
      return check_close(call);
    case F::device_count:
      return check_reason(call);
    case F::buffer_describe:
    case F::buffer_device_address:
    case F::code_argument:
      return check_alignment(call);
    case F::event_elapsed:
      if (call.is_ok() && !(call.objects[0]->has_timing && call.objects[1]->has_timing)) {
        blame_plugin(call, Rule::kTiming, "returned OK for an event without YOKE_EVENT_TIMING");
      }
      return;
    default:
      return;
  }
}

}  // namespace

std::optional<Broken> broken_status(std::int32_t code, const ErrorSlot& status) {
  if (code < YOKE_STATUS_OK || code > YOKE_STATUS_OUT_OF_DEVICE_MEMORY) {
    return Broken{Rule::kKnownCode, concat("returned the unknown code ", code)};
  }
  if (code == YOKE_STATUS_OK) {
    return status.set_count == 0
               ? std::nullopt
               : std::optional(Broken{Rule::kErrorText, "returned OK but set an error: " + status.text});
  }
  if (status.text.empty()) {
    return Broken{Rule::kErrorText, concat("failed with code ", code, " but set no error text")};
  }
  if (status.code != code) {
    return Broken{Rule::kErrorText,
                  concat("returned code ", code, " but set code ", status.code, " in its error")};
  }
  return std::nullopt;
}

void check_plugin(Call& call) {
  if (const std::string changed =
          difference(call.note->surroundings, look_around(call.note->surroundings.has_process));
      !changed.empty()) {
    blame_plugin(call, Rule::kProcessSettings, "changed ", changed);
  }
  const auto broken = broken_status(call.code, *call.status.get());
  if (call.row.has_status() && broken) {
    blame_plugin(call, broken->rule, broken->text);
  }
  if (call.is_ok() && call.note->out_of_range) {
    blame_plugin(call, Rule::kCopy, "returned OK for a range that exceeds the buffer");
  }
  if (call.is_ok() && call.note->has_unknown_flags) {
    blame_plugin(call, Rule::kFlags, "returned OK for unknown flags");
  }
  if (call.replaced != nullptr) {
    blame_plugin(call, Rule::kResult, "returned the handle of ", call.replaced->name(), ", which is alive");
  }
  check_outs(call);
  check_time(call);
  if (abi::is_wait(call.function())) {
    check_wait(call);
  }
  check_sticky(call);
  check_function(call);
}

}  // namespace yoke::layers
