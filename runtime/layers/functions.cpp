// SPDX-License-Identifier: Apache-2.0
// runtime/layers/functions.cpp: the rows, as backend.h and its extensions state them, checked against the
// signatures when compiled.
#include "layers/functions.h"

#include <cstring>
#include <string_view>
#include <tuple>

namespace yoke::layers {
namespace {

using F = Function;
using T = Thread;

constexpr Argument handle(const char* name, Kind kind, bool nullable = false) {
  return {name, kind, Ownership::kCall, nullable};
}
constexpr Argument ended(const char* name, Kind kind) {
  return {name, kind, Ownership::kEnded, true};
}
constexpr Argument number(const char* name) {
  return {name, Kind::kNumber};
}
constexpr Argument out_number(const char* name, bool nullable = false) {
  return {name, Kind::kOutNumber, Ownership::kCall, nullable};
}
constexpr Argument out_wide(const char* name) {
  return {name, Kind::kOutNumber, Ownership::kCall, false, -1, Kind::kNumber, 8};
}
constexpr Argument made(const char* name, Kind what) {
  return {name, Kind::kOutHandle, Ownership::kOwned, false, -1, what};
}
constexpr Argument counted(const char* name, Kind kind, std::int8_t partner,
                           Ownership ownership = Ownership::kCall) {
  return {name, kind, ownership, true, partner};  // NULL where the count is 0
}
constexpr Argument info(const char* name) {
  return {name, Kind::kOutInfo, Ownership::kCall};
}

constexpr Argument kPlugin = handle("plugin", Kind::kPlugin);
constexpr Argument kDevice = handle("device", Kind::kDevice);
constexpr Argument kStream = handle("stream", Kind::kStream);
constexpr Argument kAnyStream = handle("stream", Kind::kStream, true);  // NULL: done on return
constexpr Argument kCode = handle("code", Kind::kCode);
constexpr Argument kText = {"text", Kind::kProgramText, Ownership::kCall};
constexpr Argument kStatus = {"error", Kind::kStatus, Ownership::kCall, true};
constexpr Argument kDst = handle("dst", Kind::kBuffer);
constexpr Argument kSrc = handle("src", Kind::kBuffer);

template <class... Arguments>
constexpr Row row(F function, const char* table, const char* name, T thread, Time time, Arguments... all) {
  return {function, table, name, thread, time, sizeof...(all), {all...}};
}

#define YOKE_LAYERS_ROW(id, member, thread, time, ...) row(F::member, id, #member, thread, time, __VA_ARGS__)
#define B(member, ...) YOKE_LAYERS_ROW(YOKE_BACKEND_TABLE, member, __VA_ARGS__)
#define S(member, ...) YOKE_LAYERS_ROW(YOKE_STREAM_TABLE, member, __VA_ARGS__)
#define P(member, ...) YOKE_LAYERS_ROW(YOKE_PROGRAM_TABLE, member, __VA_ARGS__)

constexpr Row kRows[] = {
    B(device_count, T::kAny, Time::kBounded, kPlugin, out_number("out_count"), kStatus),
    B(device_describe, T::kAny, Time::kBounded, kPlugin, number("ordinal"), info("info"), kStatus),
    B(device_open, T::kAny, Time::kMayBlock, kPlugin, number("ordinal"),
      counted("options", Kind::kOptions, 3), number("option_count"), made("out_device", Kind::kDevice),
      kStatus),
    B(device_close, T::kDeviceSerial, Time::kMayBlock, ended("device", Kind::kDevice), kStatus),
    B(device_memory, T::kAny, Time::kBounded, kDevice, info("info"), kStatus),
    B(buffer_create, T::kAny, Time::kMayBlock, kDevice, number("byte_count"), number("kind"),
      made("out_buffer", Kind::kBuffer), kStatus),
    B(buffer_destroy, T::kAny, Time::kMayBlock, ended("buffer", Kind::kBuffer)),
    B(buffer_describe, T::kAny, Time::kBounded, handle("buffer", Kind::kBuffer), info("info"), kStatus),
    B(from_host, T::kStreamSerial, Time::kAsynchronous, kAnyStream, kDst, number("dst_offset"),
      counted("src", Kind::kSource, 4, Ownership::kUntilEvent), number("byte_count"),
      out_number("out_source", true), kStatus),
    B(to_host, T::kStreamSerial, Time::kAsynchronous, kAnyStream, kSrc, number("src_offset"),
      counted("dst", Kind::kTarget, 4, Ownership::kUntilEvent), number("byte_count"), kStatus),
    B(device_to_device, T::kStreamSerial, Time::kAsynchronous, kAnyStream, kDst, number("dst_offset"), kSrc,
      number("src_offset"), number("byte_count"), kStatus),
    B(fill, T::kStreamSerial, Time::kAsynchronous, kAnyStream, kDst, number("dst_offset"),
      number("byte_count"), counted("pattern", Kind::kSource, 5), number("pattern_byte_count"), kStatus),
    B(live_counts, T::kAny, Time::kBounded, kPlugin, info("counts"), kStatus),
    B(option_specs, T::kAny, Time::kBounded, kPlugin, number("capacity"), counted("specs", Kind::kOutRows, 1),
      out_number("out_count"), kStatus),

    S(stream_create, T::kAny, Time::kMayBlock, kDevice, number("priority"), made("out_stream", Kind::kStream),
      kStatus),
    S(stream_destroy, T::kStreamSerial, Time::kMayBlock, ended("stream", Kind::kStream)),
    S(stream_query, T::kAny, Time::kBounded, kStream, out_number("out_done"), kStatus),
    S(stream_wait, T::kAny, Time::kMayBlock, kStream, number("timeout_ns"), kStatus),
    S(event_record, T::kStreamSerial, Time::kAsynchronous, kStream, made("out_event", Kind::kEvent), kStatus),
    S(event_destroy, T::kAny, Time::kBounded, ended("event", Kind::kEvent)),
    S(event_query, T::kAny, Time::kBounded, handle("event", Kind::kEvent), out_number("out_done"), kStatus),
    S(event_wait, T::kAny, Time::kMayBlock, handle("event", Kind::kEvent), number("timeout_ns"), kStatus),
    S(stream_wait_event, T::kStreamSerial, Time::kAsynchronous, kStream, handle("event", Kind::kEvent),
      kStatus),
    S(event_elapsed, T::kAny, Time::kBounded, handle("start", Kind::kEvent), handle("stop", Kind::kEvent),
      out_wide("out_ns"), kStatus),
    S(device_abort, T::kAny, Time::kBounded, kDevice, kStatus),
    S(stream_debug_text, T::kAny, Time::kBounded, kStream, counted("text", Kind::kOutText, 2),
      number("capacity"), kStatus),

    P(formats, T::kAny, Time::kBounded, kPlugin, number("capacity"), counted("formats", Kind::kOutRows, 1),
      out_number("out_count"), kStatus),
    P(can_compile, T::kAny, Time::kMayBlock, kDevice, kText, number("capacity"),
      counted("verdicts", Kind::kOutRows, 2), out_number("out_count"), kStatus),
    P(code_compile, T::kAny, Time::kMayBlock, kDevice, kText, made("out_code", Kind::kCode), kStatus),
    P(code_destroy, T::kAny, Time::kBounded, ended("code", Kind::kCode)),
    P(code_entry_count, T::kAny, Time::kBounded, kCode, out_number("out_count"), kStatus),
    P(code_describe, T::kAny, Time::kBounded, kCode, number("entry"), info("info"), kStatus),
    P(code_argument, T::kAny, Time::kBounded, kCode, number("entry"), number("argument"), info("info"),
      kStatus),
    P(routine_link, T::kAny, Time::kMayBlock, kCode, number("entry"), counted("bindings", Kind::kBindings, 3),
      number("binding_count"), handle("workspace", Kind::kBuffer, true), number("workspace_offset"),
      made("out_routine", Kind::kRoutine), kStatus),
    P(routine_destroy, T::kAny, Time::kBounded, ended("routine", Kind::kRoutine)),
    P(routine_launch, T::kStreamSerial, Time::kAsynchronous, kAnyStream, handle("routine", Kind::kRoutine),
      counted("symbol_values", Kind::kSymbols, 3), number("symbol_count"), kStatus),

    YOKE_LAYERS_ROW(YOKE_PEER_TABLE, peer_access, T::kAny, Time::kBounded, kDevice,
                    handle("other", Kind::kDevice), out_number("out_allowed"), kStatus),

    YOKE_LAYERS_ROW(YOKE_FAULT_TABLE, fault_arm, T::kAny, Time::kBounded, kDevice, number("kind"),
                    number("nth"), number("delay_ns"), kStatus),
    YOKE_LAYERS_ROW(YOKE_FAULT_TABLE, fault_clear, T::kAny, Time::kBounded, kDevice, kStatus),
};
#undef B
#undef S
#undef P

// The C type that an argument of some kind has.
template <class Type>
constexpr bool fits(const Argument& argument) {
  using std::is_same_v;
  switch (argument.kind) {
    case Kind::kPlugin:
      return is_same_v<Type, yoke_plugin*>;
    case Kind::kDevice:
      return is_same_v<Type, yoke_device*>;
    case Kind::kBuffer:
      return is_same_v<Type, yoke_buffer*>;
    case Kind::kStream:
      return is_same_v<Type, yoke_stream*>;
    case Kind::kEvent:
      return is_same_v<Type, yoke_event*>;
    case Kind::kCode:
      return is_same_v<Type, yoke_code*>;
    case Kind::kRoutine:
      return is_same_v<Type, yoke_routine*>;
    case Kind::kNumber:
      return std::is_integral_v<Type>;
    case Kind::kOutNumber:
      return argument.byte_count == 8 ? is_same_v<Type, std::uint64_t*>
                                      : is_same_v<Type, std::uint32_t*> || is_same_v<Type, std::int32_t*>;
    case Kind::kOutHandle:
      return std::is_pointer_v<Type> && std::is_pointer_v<std::remove_pointer_t<Type>> &&
             fits<std::remove_pointer_t<Type>>({argument.name, argument.makes});
    case Kind::kOutInfo:
    case Kind::kOutRows:
      return std::is_pointer_v<Type> && std::is_class_v<std::remove_pointer_t<Type>> &&
             !std::is_const_v<std::remove_pointer_t<Type>>;
    case Kind::kOptions:
      return is_same_v<Type, const yoke_option*>;
    case Kind::kBindings:
      return is_same_v<Type, const yoke_binding*>;
    case Kind::kSymbols:
      return is_same_v<Type, const std::int64_t*>;
    case Kind::kProgramText:
      return is_same_v<Type, const yoke_program_text*>;
    case Kind::kSource:
      return is_same_v<Type, const void*>;
    case Kind::kTarget:
      return is_same_v<Type, void*>;
    case Kind::kOutText:
      return is_same_v<Type, char*>;
    case Kind::kStatus:
      return is_same_v<Type, yoke_error*>;
  }
  return false;
}

template <class Signature>
struct Shape;
template <class Result, class... Types>
struct Shape<Result (*)(Types...)> {
  static constexpr bool fits_row(const Row& row) {
    std::size_t i = 0;
    return row.argument_count == sizeof...(Types) && (fits<Types>(row.arguments[i++]) && ...);
  }
};

static_assert(std::size(kRows) == kFunctionCount, "a function of the ABI has no row, or a row no function");
#define YOKE_LAYERS_CHECK(table, member, need)                                                            \
  static_assert(kRows[static_cast<std::size_t>(F::member)].function == F::member &&                       \
                    Shape<decltype(table::member)>::fits_row(kRows[static_cast<std::size_t>(F::member)]), \
                #member " has a row that is not its own");
YOKE_LAYERS_FUNCTIONS(YOKE_LAYERS_CHECK)
#undef YOKE_LAYERS_CHECK

constexpr const char* kKindNames[] = {"plugin", "device", "buffer", "stream", "event", "code", "routine"};

}  // namespace

std::span<const Row> rows() {
  return kRows;
}

bool is_optional(Function function) {
  constexpr bool R = false;
  constexpr bool O = true;
#define YOKE_LAYERS_NEED(table, member, need) need,
  constexpr bool kAll[] = {YOKE_LAYERS_FUNCTIONS(YOKE_LAYERS_NEED)};
#undef YOKE_LAYERS_NEED
  // A kind of memory, a statement.
  return kAll[static_cast<std::size_t>(function)] || function == F::buffer_create ||
         function == F::code_compile;
}

const char* kind_name(Kind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < std::size(kKindNames) ? kKindNames[index] : "value";
}

Kind kind_by_name(const char* name) {
  for (std::size_t i = 0; i < std::size(kKindNames); ++i) {
    if (std::string_view(kKindNames[i]) == name) {
      return static_cast<Kind>(i);
    }
  }
  return Kind::kNumber;
}

const char* thread_name(Thread thread) {
  constexpr const char* kNames[] = {"any-thread", "device-serial", "stream-serial", "load-time"};
  return kNames[static_cast<std::size_t>(thread)];
}

}  // namespace yoke::layers
