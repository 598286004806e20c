// SPDX-License-Identifier: Apache-2.0
// runtime/abi/functions.cpp: the rows. The kinds of arguments follow from the C types; names, ownership
// and tags are written here, as in backend.h and its extensions.
#include "abi/functions.h"

#include <cstddef>
#include <utility>

namespace yoke::abi {
namespace {

template <class Type>
constexpr Kind kKindOf = std::is_integral_v<Type>                          ? Kind::kNumber
                         : std::is_integral_v<std::remove_pointer_t<Type>> ? Kind::kOutNumber
                         : std::is_pointer_v<std::remove_pointer_t<Type>>  ? Kind::kOutHandle
                                                                           : Kind::kOutInfo;
#define YOKE_ABI_KIND(type, kind) \
  template <>                     \
  constexpr Kind kKindOf<type> = Kind::kind;
YOKE_ABI_KIND(yoke_plugin*, kPlugin)
YOKE_ABI_KIND(yoke_device*, kDevice)
YOKE_ABI_KIND(yoke_buffer*, kBuffer)
YOKE_ABI_KIND(yoke_stream*, kStream)
YOKE_ABI_KIND(yoke_event*, kEvent)
YOKE_ABI_KIND(yoke_code*, kCode)
YOKE_ABI_KIND(yoke_routine*, kRoutine)
YOKE_ABI_KIND(yoke_communicator*, kCommunicator)
YOKE_ABI_KIND(const yoke_collective*, kCollectives)
YOKE_ABI_KIND(void (*)(void*), kOpaque)
YOKE_ABI_KIND(yoke_host_callback_fn, kCallback)
YOKE_ABI_KIND(const yoke_option*, kOptions)
YOKE_ABI_KIND(const yoke_binding*, kBindings)
YOKE_ABI_KIND(const std::int64_t*, kSymbols)
YOKE_ABI_KIND(const char*, kText)
YOKE_ABI_KIND(const void*, kSource)
YOKE_ABI_KIND(void*, kTarget)
YOKE_ABI_KIND(char*, kOutText)
YOKE_ABI_KIND(yoke_error*, kStatus)
#undef YOKE_ABI_KIND

template <class Type>
constexpr Argument field(std::string_view name, std::size_t offset, Kind kind = kKindOf<Type>) {
  const Ownership ownership = kind == Kind::kNumber ? Ownership::kNone : Ownership::kCall;
  constexpr std::size_t kByteCount = sizeof(Type);  // NOLINT(bugprone-sizeof-expression): pointers, too
  Argument argument{name, kind, ownership, true, std::is_signed_v<Type>, kByteCount};
  argument.field = static_cast<std::int16_t>(offset);
  return argument;
}

// The fields of the structs with arguments, without struct_size and reserved ones.
#define F(member, ...) \
  field<decltype(Args::member)>(#member, offsetof(Args, member) __VA_OPT__(, ) __VA_ARGS__)
#define YOKE_ABI_FIELDS(type, ...)              \
  constexpr auto fields(const type* /*args*/) { \
    using Args = type;                          \
    return std::array{__VA_ARGS__};             \
  }
YOKE_ABI_FIELDS(yoke_device_args, F(flags), F(options), F(option_count), F(option_stride), F(ordinal))
YOKE_ABI_FIELDS(yoke_buffer_args, F(flags), F(byte_count), F(kind))
YOKE_ABI_FIELDS(yoke_stream_args, F(flags), F(priority))
YOKE_ABI_FIELDS(yoke_event_args, F(flags))
YOKE_ABI_FIELDS(yoke_compile_args, F(flags), F(format), F(text, Kind::kProgramText), F(byte_count),
                F(version))
YOKE_ABI_FIELDS(yoke_link_args, F(flags), F(bindings), F(binding_count), F(binding_stride),
                F(workspace, Kind::kWorkspace), F(entry))
YOKE_ABI_FIELDS(yoke_pinned_args, F(flags), F(byte_count))
YOKE_ABI_FIELDS(yoke_import_args, F(flags), F(address), F(byte_count), F(kind), F(release),
                F(user, Kind::kOpaque))
YOKE_ABI_FIELDS(yoke_profile_args, F(flags), F(capacity))
YOKE_ABI_FIELDS(yoke_communicator_args, F(flags), F(id, Kind::kOpaque), F(rank), F(size))
#undef YOKE_ABI_FIELDS
#undef F

template <class Type>
concept HasFields = requires(Type args) {
  fields(args);
};

// `word` is a name followed by marks: ? may be NULL, ~ released by the call, @ borrowed until a later event
// is done, * array of structs, ! opaque.
template <class Type>
constexpr Argument parameter(std::string_view word) {
  const char mark = word.find_last_of("?~@*!") == word.size() - 1 ? word.back() : ' ';
  Argument argument;
  argument.name = word.substr(0, word.size() - (mark == ' ' ? 0 : 1));
  argument.kind = mark == '*' ? Kind::kOutRows : mark == '!' ? Kind::kOpaque : kKindOf<Type>;
  if (argument.kind == Kind::kTarget && mark == '~') {
    argument.kind = Kind::kPinned;
  }
  argument.ownership = mark == '~'                         ? Ownership::kEnded
                       : mark == '@'                       ? Ownership::kUntilEvent
                       : argument.kind == Kind::kNumber    ? Ownership::kNone
                       : argument.kind == Kind::kOutHandle ? Ownership::kOwned
                                                           : Ownership::kCall;
  argument.nullable = mark == '?' || mark == '~' || mark == '!' ||
                      (argument.kind >= Kind::kOutRows && argument.kind <= Kind::kStatus);
  if constexpr (kKindOf<Type> == Kind::kOutHandle) {
    constexpr Kind kMade = kKindOf<std::remove_pointer_t<Type>>;
    argument.makes = kMade == Kind::kTarget ? Kind::kPinned : kMade;
  } else if constexpr (kKindOf<Type> == Kind::kOutNumber) {
    argument.byte_count = sizeof(std::remove_pointer_t<Type>);
  }
  return argument;
}

// Sets the arguments that hold the count and the stride of argument `i`, which are next to it.
constexpr void find_counts(Argument& argument, std::size_t i) {
  const auto at = static_cast<std::int16_t>(i);
  switch (argument.kind) {
    case Kind::kOutRows:
      argument.count_argument = static_cast<std::int16_t>(at - 2);
      argument.stride_argument = static_cast<std::int16_t>(at - 1);
      return;
    case Kind::kWorkspace:
      argument.stride_argument = static_cast<std::int16_t>(at - 1);
      return;
    case Kind::kOptions:
    case Kind::kBindings:
    case Kind::kCollectives:
      argument.stride_argument = static_cast<std::int16_t>(at + 2);
      [[fallthrough]];
    case Kind::kSymbols:
    case Kind::kProgramText:
    case Kind::kSource:
    case Kind::kTarget:
    case Kind::kOutText:
      argument.count_argument = static_cast<std::int16_t>(at + 1);
      return;
    default:
      return;
  }
}

constexpr void add(Row& row, Argument argument) {
  argument.parameter = row.parameter_count;
  find_counts(argument, row.argument_count);
  if (argument.ownership == Ownership::kEnded) {
    row.ended = static_cast<std::int16_t>(row.argument_count);
  }
  row.arguments[row.argument_count++] = argument;
}

template <class Type>
constexpr void add_parameter(Row& row, std::string_view& words) {
  const std::string_view word = words.substr(0, words.find(' '));
  words.remove_prefix(word.size() == words.size() ? word.size() : word.size() + 1);
  if constexpr (HasFields<Type>) {
    row.args_byte_count = sizeof(std::remove_pointer_t<Type>);
    for (const Argument& one : fields(Type{})) {
      add(row, one);
    }
  } else {
    add(row, parameter<Type>(word));
  }
  ++row.parameter_count;
}

// `words`: one word per parameter; another number of words fails to compile.
template <class Result, class... Types>
constexpr Row describe(Function function, Result (*)(Types...), const char* table, const char* name,
                       Thread thread, Time time, std::string_view words) {
  Row row{function, table, name, thread, time};
  (add_parameter<Types>(row, words), ...);
  if (row.arguments[row.argument_count - 1U].name.empty() || !words.empty()) {
    throw "a row must name each parameter once";
  }
  return row;
}

using enum Thread;
using enum Time;
#define YOKE_ABI_ROW(type, id, member, ...) \
  describe(Function::member, decltype(type::member){}, id, #member, __VA_ARGS__)
#define B(member, ...) YOKE_ABI_ROW(yoke_backend_api, YOKE_BACKEND_TABLE, member, __VA_ARGS__)
#define S(member, ...) YOKE_ABI_ROW(yoke_stream_api, YOKE_STREAM_TABLE, member, __VA_ARGS__)
#define P(member, ...) YOKE_ABI_ROW(yoke_program_api, YOKE_PROGRAM_TABLE, member, __VA_ARGS__)
#define M(member, ...) YOKE_ABI_ROW(yoke_memory_api, YOKE_MEMORY_TABLE, member, __VA_ARGS__)
#define C(member, ...) YOKE_ABI_ROW(yoke_collectives_api, YOKE_COLLECTIVES_TABLE, member, __VA_ARGS__)

constexpr Row kRows[] = {
    B(device_count, kAny, kMayBlock, "plugin out_count out_reason reason_capacity error"),
    B(device_describe, kAny, kMayBlock, "plugin ordinal info error"),
    B(device_open, kAny, kMayBlock, "plugin args out_device error"),
    B(device_close, kDeviceSerial, kMayBlock, "device~ error"),
    B(device_memory, kAny, kBounded, "device info error"),
    B(buffer_create, kAny, kMayBlock, "device args out_buffer error"),
    B(buffer_destroy, kAny, kMayBlock, "buffer~"),
    B(buffer_describe, kAny, kBounded, "buffer info error"),
    B(from_host, kStreamSerial, kAsynchronous, "stream? dst dst_offset src@ byte_count out_source? error"),
    B(to_host, kStreamSerial, kAsynchronous, "stream? src src_offset dst@ byte_count error"),
    B(device_to_device, kStreamSerial, kAsynchronous,
      "stream? dst dst_offset src src_offset byte_count error"),
    B(fill, kStreamSerial, kAsynchronous,
      "stream? dst dst_offset byte_count pattern pattern_byte_count error"),
    B(live_counts, kAny, kBounded, "plugin counts error"),
    B(option_specs, kAny, kBounded, "plugin capacity stride specs* out_count error"),

    S(stream_create, kAny, kMayBlock, "device args out_stream error"),
    S(stream_destroy, kStreamSerial, kMayBlock, "stream~"),
    S(stream_query, kAny, kBounded, "stream out_state error"),
    S(stream_wait, kAny, kMayBlock, "stream timeout_ns error"),
    S(event_record, kStreamSerial, kAsynchronous, "stream args out_event error"),
    S(event_destroy, kAny, kBounded, "event~"),
    S(event_query, kAny, kBounded, "event out_state error"),
    S(event_wait, kAny, kMayBlock, "event timeout_ns error"),
    S(stream_wait_event, kStreamSerial, kAsynchronous, "stream event error"),
    S(event_elapsed, kAny, kBounded, "start stop out_ns error"),
    S(stream_abort, kAny, kBounded, "stream error"),
    S(device_abort, kAny, kBounded, "device error"),
    S(stream_host_callback, kStreamSerial, kAsynchronous, "stream callback user! error"),
    S(stream_debug_text, kAny, kBounded, "stream text capacity error"),

    P(formats, kAny, kBounded, "plugin capacity stride formats* out_count error"),
    P(can_compile, kAny, kMayBlock, "device args capacity stride verdicts* out_count error"),
    P(code_compile, kAny, kMayBlock, "device args out_code error"),
    P(code_destroy, kAny, kMayBlock, "code~"),
    P(code_entry_count, kAny, kBounded, "code out_count error"),
    P(code_describe, kAny, kBounded, "code entry info error"),
    P(code_argument, kAny, kBounded, "code entry argument info error"),
    P(routine_link, kAny, kMayBlock, "code args out_routine error"),
    P(routine_destroy, kAny, kMayBlock, "routine~"),
    P(routine_launch, kStreamSerial, kAsynchronous, "stream? routine symbol_values symbol_count error"),

    YOKE_ABI_ROW(yoke_peer_api, YOKE_PEER_TABLE, peer_access, kAny, kBounded,
                 "device other out_allowed error"),

    M(pinned_allocate, kAny, kMayBlock, "device args out_memory error"),
    M(pinned_free, kAny, kMayBlock, "device memory~"),
    M(buffer_device_address, kAny, kBounded, "buffer out_address error"),
    M(buffer_import, kAny, kMayBlock, "device args out_buffer error"),
    M(device_native, kAny, kBounded, "device info error"),
    M(stream_native, kAny, kBounded, "stream info error"),

    YOKE_ABI_ROW(yoke_fault_api, YOKE_FAULT_TABLE, fault_arm, kAny, kBounded,
                 "device kind nth delay_ns error"),
    YOKE_ABI_ROW(yoke_fault_api, YOKE_FAULT_TABLE, fault_clear, kAny, kBounded, "device error"),

    C(collectives_describe, kAny, kMayBlock, "device info error"),
    C(group_id_create, kAny, kMayBlock, "device id error"),
    C(communicator_create, kAny, kMayBlock, "device args out_communicator error"),
    C(communicator_destroy, kAny, kMayBlock, "communicator~"),
    C(communicator_query, kAny, kBounded, "communicator out_state error"),
    C(communicator_wait, kAny, kMayBlock, "communicator timeout_ns error"),
    C(communicator_abort, kAny, kBounded, "communicator error"),
    C(collectives_queue, kStreamSerial, kAsynchronous, "rows count stride error"),

    YOKE_ABI_ROW(yoke_profile_api, YOKE_PROFILE_TABLE, profile_start, kAny, kBounded, "device args error"),
    YOKE_ABI_ROW(yoke_profile_api, YOKE_PROFILE_TABLE, profile_stop, kAny, kBounded, "device error"),
    YOKE_ABI_ROW(yoke_profile_api, YOKE_PROFILE_TABLE, profile_fetch, kAny, kMayBlock,
                 "device capacity stride records* out_count out_lost error"),
};
#undef B
#undef S
#undef P
#undef M
#undef C

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<std::size_t>(kRows[i].function) != i) {
      return false;
    }
  }
  return std::size(kRows) == kFunctionCount;
}
template <class T>
T from_word(std::uint64_t word) noexcept {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(word);  // NOLINT(performance-no-int-to-ptr): to_word made it
  } else {
    return static_cast<T>(word);
  }
}

template <class Result, class... Types, std::size_t... kAt>
std::int32_t spread(Result (*function)(Types...), const std::uint64_t* words,
                    std::index_sequence<kAt...> /*at*/) {
  if constexpr (std::is_void_v<Result>) {
    function(from_word<Types>(words[kAt])...);
    return YOKE_STATUS_OK;
  } else {
    return function(from_word<Types>(words[kAt])...);
  }
}

template <class Result, class... Types>
std::int32_t call_as(Result (*type)(Types...), Slot slot, const std::uint64_t* words) {
  return spread(reinterpret_cast<decltype(type)>(slot), words, std::index_sequence_for<Types...>());
}

static_assert(is_in_order(), "every function has one row, in the order of the lists");

}  // namespace

std::span<const Row> rows() {
  return kRows;
}

std::int32_t call(Function function, Slot slot, const std::uint64_t* words) {
  switch (function) {
#define YOKE_ABI_CALL(table, member, need) \
  case Function::member:                   \
    return call_as(decltype(table::member){}, slot, words);
    YOKE_ABI_FUNCTIONS(YOKE_ABI_CALL)
#undef YOKE_ABI_CALL
    case Function::kCount:
      break;
  }
  return YOKE_STATUS_UNIMPLEMENTED;
}

const char* kind_name(Kind kind) {
  if (kind == Kind::kCommunicator) {
    return "communicator";
  }
  constexpr const char* kNames[] = {"plugin", "device", "buffer",  "stream",
                                    "event",  "code",   "routine", "pinned memory"};
  const auto index = static_cast<std::size_t>(kind);
  return index < std::size(kNames) ? kNames[index] : "value";
}

const char* thread_name(Thread thread) {
  constexpr const char* kNames[] = {"any-thread", "device-serial", "stream-serial", "load-time"};
  return kNames[static_cast<std::size_t>(thread)];
}

}  // namespace yoke::abi
