// SPDX-License-Identifier: Apache-2.0
// runtime/layers/call.h: one call of the host on its way to the plugin, and its status object.
#pragma once

#include <yoke/plugin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "abi/functions.h"
#include "layers/handles.h"

namespace yoke::layers {

struct CallNote;

// The status object of one call. Its memory is never freed, so that a late write by the plugin is detected.
struct ErrorSlot {
  std::atomic<bool> is_open{false};
  Interposer* owner = nullptr;
  std::thread::id thread;
  const char* call = nullptr;
  yoke_error* outer = nullptr;  // the host's
  std::uint32_t set_count = 0;
  std::int32_t code = YOKE_STATUS_OK;
  std::int64_t vendor_code = 0;
  std::string text;

  yoke_error* get() noexcept { return reinterpret_cast<yoke_error*>(this); }
};

// Owns a slot for the time of one call.
class OpenSlot {
 public:
  OpenSlot(Interposer& owner, yoke_error* outer, const char* call);
  ~OpenSlot();
  OpenSlot(const OpenSlot&) = delete;
  OpenSlot& operator=(const OpenSlot&) = delete;

  ErrorSlot* get() const noexcept { return slot_; }
  ErrorSlot* operator->() const noexcept { return slot_; }

 private:
  ErrorSlot* slot_;
};

// Fills out-parameters before the plugin is called.
constexpr std::uint64_t kUnwritten = 0x5a5a5a5a5a5a5a50;
constexpr std::byte kCanary{0xa5};
constexpr std::size_t kCanaryByteCount = 64;

// Memory to which a plugin writes an info struct, rows or a text, in place of the host's memory.
struct Shadow {
  std::vector<std::byte> bytes;   // the host's contents, then canaries
  std::vector<std::byte> before;  // a copy of `bytes` before the call
  std::size_t size = 0;           // without the canaries; 0: the host's memory is used directly
};

// One range that a routine is linked to.
struct Bound {
  yoke_binding binding;
  std::shared_ptr<Object> buffer;  // null: the handle is NULL
};

// One row of a collectives_queue.
struct Member {
  yoke_collective row;
  std::shared_ptr<Object> communicator;
  std::shared_ptr<Object> stream;
  std::shared_ptr<Object> source;  // null: the handle is NULL
  std::shared_ptr<Object> target;
  std::uint64_t ticket = 0;  // of the work that was queued; 0: none
};

struct Call {
  Call(Interposer& to, const Row& of, const std::uint64_t* given);

  Function function() const { return row.function; }
  std::uint64_t number(std::size_t i) const { return words[i]; }
  std::uint64_t number(std::string_view argument) const { return words[row.find(argument)]; }
  template <class T>
  T* pointer(std::size_t i) const {
    return reinterpret_cast<T*>(words[i]);  // NOLINT(performance-no-int-to-ptr): a wrapper made it
  }
  // The elements of an array, each as long as both sides know it.
  template <class T>
  std::vector<T> rows_at(std::size_t i) const;
  // The value that the plugin wrote to an out-parameter. Precondition: the plugin has returned.
  std::uint64_t out(std::size_t i) const;
  bool wrote(std::size_t i) const;
  bool is_ok() const { return code == YOKE_STATUS_OK; }
  // The object that the call ends. Null if there is none or the handle is NULL.
  std::shared_ptr<Object> ended() const {
    return row.ends_handle() ? objects[static_cast<std::size_t>(row.ended)] : nullptr;
  }
  // Sets the result of a call that is not passed on, or replaces the plugin's.
  void answer(std::int32_t result, const std::string& text);

  Interposer& plugin;
  const Row& row;
  const OpenSlot status;
  yoke_error* const error;                                       // the host's
  bool has_args = true;                                          // false: the struct with arguments is NULL
  std::array<std::uint64_t, abi::kMostParameters> parameters{};  // the plugin's; at first the host's
  std::array<std::uint64_t, abi::kMostArguments> words{};        // the host's arguments
  std::array<std::uint64_t, abi::kMostArguments> outs{};
  std::array<std::shared_ptr<Object>, abi::kMostArguments> objects;  // of the arguments that are handles
  std::array<Shadow, abi::kMostArguments> shadows;
  std::vector<Bound> bindings;  // of a routine_link: one per argument
  Bound workspace{};
  std::vector<Member> members;  // of a collectives_queue
  std::shared_ptr<Object> made;
  std::shared_ptr<Object> replaced;  // the live object that had the handle of `made`
  std::int32_t code = YOKE_STATUS_OK;
  std::uint64_t begin_ns = 0;  // steady clock
  std::uint64_t end_ns = 0;
  std::uint64_t issued_before = 0;  // by the stream that is waited for
  std::uint64_t ticket = 0;         // of the work that the call queued; 0: none
  std::shared_ptr<CallNote> note;   // data of the validate layer; null if it is off
};

template <class T>
std::vector<T> Call::rows_at(std::size_t i) const {
  const Argument& argument = row.arguments[i];
  const auto* at = pointer<const std::byte>(i);
  const auto of = [&](std::int16_t other, std::uint64_t fallback) {
    return other < 0 ? fallback : words[static_cast<std::size_t>(other)];
  };
  const std::uint64_t stride = of(argument.stride_argument, sizeof(T));
  std::vector<T> all(at == nullptr ? 0 : of(argument.count_argument, 1));
  for (T& one : all) {
    one = T{};
    std::memcpy(&one, at, std::min<std::uint64_t>(stride, sizeof(T)));
    at += stride;
  }
  return all;
}

// "a", 1, "b" -> "a1b"
inline void append(std::string& to, std::string_view part) {
  to += part;
}
inline void append(std::string& to, std::integral auto number) {
  to += std::to_string(number);
}
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  (append(text, parts), ...);
  return text;
}

// Runs one call of the host on the plugin that its arguments belong to.
std::int32_t run_call(Function function, const std::uint64_t* given) noexcept;
// The functions that the host receives in place of the plugin's, in the order of Function.
std::array<Slot, abi::kFunctionCount> wrappers() noexcept;

std::uint64_t now_ns() noexcept;  // steady clock

}  // namespace yoke::layers
