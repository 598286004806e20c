// SPDX-License-Identifier: Apache-2.0
// runtime/layers/functions.h: the one table that states for every function of the ABI its thread tag, how
// long it may take, and what each argument is and who owns it.
#pragma once

#include <yoke/backend.h>
#include <yoke/ext/fault.h>
#include <yoke/ext/peer.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

// Every function of every table that layers know. A table that is not here is not passed through: handles of
// a layer would get into it.
#define YOKE_LAYERS_FUNCTIONS(X) \
  YOKE_BACKEND_API_FUNCTIONS(X)  \
  YOKE_STREAM_API_FUNCTIONS(X)   \
  YOKE_PROGRAM_API_FUNCTIONS(X)  \
  YOKE_PEER_API_FUNCTIONS(X)     \
  YOKE_FAULT_API_FUNCTIONS(X)

// X(struct, id, list)
#define YOKE_LAYERS_TABLES(X)                                         \
  X(yoke_backend_api, YOKE_BACKEND_TABLE, YOKE_BACKEND_API_FUNCTIONS) \
  X(yoke_stream_api, YOKE_STREAM_TABLE, YOKE_STREAM_API_FUNCTIONS)    \
  X(yoke_program_api, YOKE_PROGRAM_TABLE, YOKE_PROGRAM_API_FUNCTIONS) \
  X(yoke_peer_api, YOKE_PEER_TABLE, YOKE_PEER_API_FUNCTIONS)          \
  X(yoke_fault_api, YOKE_FAULT_TABLE, YOKE_FAULT_API_FUNCTIONS)

namespace yoke::layers {

// Named as the members of the tables: Function::from_host.
enum class Function : std::uint16_t {
#define YOKE_LAYERS_ENUMERATOR(table, member, need) member,
  YOKE_LAYERS_FUNCTIONS(YOKE_LAYERS_ENUMERATOR)
#undef YOKE_LAYERS_ENUMERATOR
      kCount
};
constexpr std::size_t kFunctionCount = static_cast<std::size_t>(Function::kCount);

enum class Thread : std::uint8_t { kAny, kDeviceSerial, kStreamSerial, kLoadTime };
enum class Time : std::uint8_t { kBounded, kMayBlock, kAsynchronous };

// What an argument is. A count belongs to the argument beside it, as `partner` says.
enum class Kind : std::uint8_t {
  kPlugin,  // handles; the order of these six is that of the live counters
  kDevice,
  kBuffer,
  kStream,
  kEvent,
  kCode,
  kRoutine,
  kNumber,
  kOutNumber,    // an integer that the plugin writes
  kOutHandle,    // a handle that the plugin makes
  kOutInfo,      // one struct with a struct_size
  kOutRows,      // an array of them; partner: its capacity
  kOptions,      // const yoke_option*; partner: count
  kBindings,     // const yoke_binding*; partner: count
  kSymbols,      // const int64_t*; partner: count
  kProgramText,  // const yoke_program_text*
  kSource,       // host memory that is read; partner: byte count
  kTarget,       // host memory that is written; partner: byte count
  kOutText,      // char*; partner: capacity
  kStatus
};

enum class Ownership : std::uint8_t {
  kNone,        // a number
  kCall,        // borrowed until return
  kUntilEvent,  // borrowed until an event recorded behind it is done
  kOwned,       // made for the host
  kEnded        // given back: the handle is dead after the call
};

struct Argument {
  const char* name = nullptr;
  Kind kind = Kind::kNumber;
  Ownership ownership = Ownership::kNone;
  bool nullable = false;
  std::int8_t partner = -1;     // the argument that counts this one
  Kind makes = Kind::kNumber;   // kOutHandle: what
  std::uint8_t byte_count = 4;  // kOutNumber: how long it is
};

constexpr std::size_t kMostArguments = 8;

struct Row {
  Function function;
  const char* table;
  const char* name;
  Thread thread;
  Time time;
  std::uint8_t argument_count;  // the status object included
  Argument arguments[kMostArguments];
};

// In the order of Function.
std::span<const Row> rows();
inline const Row& row_of(Function function) {
  return rows()[static_cast<std::size_t>(function)];
}

constexpr bool is_handle(Kind kind) {
  return kind >= Kind::kDevice && kind <= Kind::kRoutine;
}
// May a backend answer UNIMPLEMENTED to it: the function is optional, or has a case that a device need not
// have.
bool is_optional(Function function);
const char* kind_name(Kind kind);        // "device"
Kind kind_by_name(const char* name);     // kNumber: none of them
const char* thread_name(Thread thread);  // "stream-serial"

}  // namespace yoke::layers
