// SPDX-License-Identifier: Apache-2.0
// runtime/abi/functions.h: one row per function of the ABI: its thread tag, how long it may take, and the
// kind and ownership of each argument.
#pragma once

#include <yoke/backend.h>
#include <yoke/ext/collectives.h>
#include <yoke/ext/fault.h>
#include <yoke/ext/memory.h>
#include <yoke/ext/peer.h>
#include <yoke/ext/profile.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

// Every table of plugin_api: X(struct, id, list of functions).
#define YOKE_ABI_TABLES(X)                                                        \
  X(yoke_backend_api, YOKE_BACKEND_TABLE, YOKE_BACKEND_API_FUNCTIONS)             \
  X(yoke_stream_api, YOKE_STREAM_TABLE, YOKE_STREAM_API_FUNCTIONS)                \
  X(yoke_program_api, YOKE_PROGRAM_TABLE, YOKE_PROGRAM_API_FUNCTIONS)             \
  X(yoke_peer_api, YOKE_PEER_TABLE, YOKE_PEER_API_FUNCTIONS)                      \
  X(yoke_memory_api, YOKE_MEMORY_TABLE, YOKE_MEMORY_API_FUNCTIONS)                \
  X(yoke_fault_api, YOKE_FAULT_TABLE, YOKE_FAULT_API_FUNCTIONS)                   \
  X(yoke_collectives_api, YOKE_COLLECTIVES_TABLE, YOKE_COLLECTIVES_API_FUNCTIONS) \
  X(yoke_profile_api, YOKE_PROFILE_TABLE, YOKE_PROFILE_API_FUNCTIONS)

// Their functions, in that order.
#define YOKE_ABI_FUNCTIONS(X)       \
  YOKE_BACKEND_API_FUNCTIONS(X)     \
  YOKE_STREAM_API_FUNCTIONS(X)      \
  YOKE_PROGRAM_API_FUNCTIONS(X)     \
  YOKE_PEER_API_FUNCTIONS(X)        \
  YOKE_MEMORY_API_FUNCTIONS(X)      \
  YOKE_FAULT_API_FUNCTIONS(X)       \
  YOKE_COLLECTIVES_API_FUNCTIONS(X) \
  YOKE_PROFILE_API_FUNCTIONS(X)

namespace yoke::abi {

// Named as the members of the tables: Function::from_host.
enum class Function : std::uint16_t {
#define YOKE_ABI_ENUMERATOR(table, member, need) member,
  YOKE_ABI_FUNCTIONS(YOKE_ABI_ENUMERATOR)
#undef YOKE_ABI_ENUMERATOR
      kCount
};
constexpr std::size_t kFunctionCount = static_cast<std::size_t>(Function::kCount);

enum class Thread : std::uint8_t { kAny, kDeviceSerial, kStreamSerial, kLoadTime };
enum class Time : std::uint8_t { kBounded, kMayBlock, kAsynchronous };

// What an argument is. The values are written to trace files: append only.
enum class Kind : std::uint8_t {
  kPlugin,  // handles; the six after the plugin are in the order of yoke_live_counts
  kDevice,
  kBuffer,
  kStream,
  kEvent,
  kCode,
  kRoutine,
  kPinned,  // pinned host memory
  kNumber,
  kOpaque,       // a pointer that only its owner understands
  kCallback,     // yoke_host_callback_fn
  kOutNumber,    // an integer that the plugin writes
  kOutHandle,    // a handle that the plugin creates
  kOutInfo,      // a struct that starts with its size
  kOutRows,      // an array of structs
  kOptions,      // const yoke_option*
  kBindings,     // const yoke_binding*
  kWorkspace,    // const yoke_binding*: one or NULL
  kSymbols,      // const int64_t*
  kText,         // const char* that ends in a zero
  kProgramText,  // const char* with a count
  kSource,       // host memory that is read
  kTarget,       // host memory that is written
  kOutText,      // char*
  kStatus,
  kCommunicator,  // a handle
  kCollectives    // const yoke_collective*
};

enum class Ownership : std::uint8_t {
  kNone,        // a number
  kCall,        // borrowed until the call returns
  kUntilEvent,  // borrowed until an event recorded after the call is done
  kOwned,       // created for the host
  kEnded        // released: the handle is invalid after the call
};

// A parameter of a function, or a field of the struct that a parameter points to.
struct Argument {
  std::string_view name;
  Kind kind = Kind::kNumber;
  Ownership ownership = Ownership::kNone;
  bool nullable = false;
  bool is_signed = false;
  std::uint8_t byte_count = 8;        // of the value; out-numbers: of what is written
  Kind makes = Kind::kNumber;         // kOutHandle: the kind of handle
  std::uint8_t parameter = 0;         // of the function, from 0
  std::int16_t field = -1;            // the offset in the struct; -1: the parameter itself
  std::int16_t count_argument = -1;   // the argument that counts this one: elements or bytes
  std::int16_t stride_argument = -1;  // the argument with the bytes from one element to the next
};

constexpr std::size_t kMostArguments = 12;
constexpr std::size_t kMostParameters = 8;

struct Row {
  Function function = Function::kCount;
  const char* table = nullptr;
  const char* name = nullptr;
  Thread thread = Thread::kAny;
  Time time = Time::kBounded;
  std::uint8_t parameter_count = 0;
  std::uint8_t argument_count = 0;   // the status object included
  std::uint8_t args_byte_count = 0;  // of the struct with the fields; 0: none
  std::int16_t ended = -1;           // the argument whose handle is invalid after the call
  std::array<Argument, kMostArguments> arguments{};

  bool has_status() const { return arguments[argument_count - 1U].kind == Kind::kStatus; }
  bool ends_handle() const { return ended >= 0; }
  // Precondition: the function has such an argument.
  std::size_t find(std::string_view argument) const {
    std::size_t i = 0;
    while (arguments[i].name != argument) {
      ++i;
    }
    return i;
  }
};

// In the order of Function.
std::span<const Row> rows();
inline const Row& row_of(Function function) {
  return rows()[static_cast<std::size_t>(function)];
}

constexpr bool is_handle(Kind kind) {
  return (kind >= Kind::kDevice && kind <= Kind::kPinned) || kind == Kind::kCommunicator;
}
constexpr bool is_wait(Function function) {
  return function == Function::stream_wait || function == Function::event_wait ||
         function == Function::communicator_wait;
}
constexpr bool is_query(Function function) {
  return function == Function::stream_query || function == Function::event_query ||
         function == Function::communicator_query;
}
const char* kind_name(Kind kind);        // "device"
const char* thread_name(Thread thread);  // "stream-serial"

// A function of a table without its type.
using Slot = void (*)();

// Functions called with words in place of their parameters. Signed integers are extended to 64 bits.
template <class T>
std::uint64_t to_word(T value) noexcept {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<std::uint64_t>(value);
  } else {
    return static_cast<std::uint64_t>(value);
  }
}
// Functions without a result return YOKE_STATUS_OK.
std::int32_t call(Function function, Slot slot, const std::uint64_t* words);

}  // namespace yoke::abi
