// SPDX-License-Identifier: Apache-2.0
// tests/conformance/plugin.h: the plugin under test at its ABI: mapped with dlopen, entered, called through
// its raw tables.
#pragma once

#include <yoke/backend.h>
#include <yoke/ext/fault.h>
#include <yoke/ext/peer.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>

#include "check.h"
#include "host.h"

namespace yoke::conformance {

// Every function of every table has a number, so that the driver learns which one a dead process was in.
#define YOKE_CONFORMANCE_FUNCTIONS(X) \
  YOKE_BACKEND_API_FUNCTIONS(X)       \
  YOKE_STREAM_API_FUNCTIONS(X)        \
  YOKE_PROGRAM_API_FUNCTIONS(X)       \
  YOKE_PEER_API_FUNCTIONS(X)          \
  YOKE_FAULT_API_FUNCTIONS(X)
enum FunctionId : std::uint32_t {
  kNoFunction = 0,
  kDlopen,
  kEntry,
  kDestroy,
  kGetTable,
#define YOKE_CONFORMANCE_ID(table, member, need) k_##table##_##member,
  YOKE_CONFORMANCE_FUNCTIONS(YOKE_CONFORMANCE_ID)
#undef YOKE_CONFORMANCE_ID
      kFunctionCount
};
const char* function_name(std::uint32_t id);  // "buffer_create", "the entry"; "" where there is none

// The function that the plugin is in; in memory that the driver shares.
std::atomic<std::uint32_t>& current_function();
void share_current_function(int file_descriptor);

template <auto Member>
struct Function;
#define YOKE_CONFORMANCE_FUNCTION(table, member, need)      \
  template <>                                               \
  struct Function<&table::member> {                         \
    using Table = table;                                    \
    static constexpr const char* kName = #member;           \
    static constexpr FunctionId kId = k_##table##_##member; \
  };
YOKE_CONFORMANCE_FUNCTIONS(YOKE_CONFORMANCE_FUNCTION)
#undef YOKE_CONFORMANCE_FUNCTION

template <class Table>
inline constexpr const char* kTableId = nullptr;
template <>
inline constexpr const char* kTableId<yoke_backend_api> = YOKE_BACKEND_TABLE;
template <>
inline constexpr const char* kTableId<yoke_stream_api> = YOKE_STREAM_TABLE;
template <>
inline constexpr const char* kTableId<yoke_program_api> = YOKE_PROGRAM_TABLE;
template <>
inline constexpr const char* kTableId<yoke_peer_api> = YOKE_PEER_TABLE;
template <>
inline constexpr const char* kTableId<yoke_fault_api> = YOKE_FAULT_TABLE;

// What a call answered.
struct Answer {
  const char* function = "";
  std::int32_t code = YOKE_OK;
  yoke_error status;  // as the plugin filled it

  bool ok() const { return code == YOKE_OK; }
  // "buffer_create answered OUT_OF_RANGE: ..."
  std::string words() const;
};

// Answered as due: OK, or `code` with a text (UTF-8, one line's worth, and the same code in the status).
void expect_ok(const Answer& answer, const std::string& doing = {});
void expect_code(const Answer& answer, std::int32_t code, const std::string& doing);
// Refused, whatever the code; the text is checked in the same way.
void expect_refused(const Answer& answer, const std::string& doing);

// Throws Failed where yoke's loader refuses the file, in its words: why, and what would help. Maps it, for
// good.
void check_loadable(const std::filesystem::path& file);

// The mapped file. It stays mapped.
class Library {
 public:
  explicit Library(std::filesystem::path path);  // Failed: what the linker says
  const std::filesystem::path& path() const { return path_; }
  void* handle() const { return handle_; }
  yoke_plugin_entry_fn entry() const { return entry_; }

 private:
  std::filesystem::path path_;
  void* handle_ = nullptr;
  yoke_plugin_entry_fn entry_ = nullptr;
};

// The entry and destroy, for tests that are about them.
Answer call_entry(const Library& library, const yoke_entry_args* args, yoke_plugin** out_plugin);
void destroy_plugin(yoke_plugin* plugin);

// One entered instance of the plugin. Tables that are shorter than ours are completed with NULL.
class Plugin {
 public:
  explicit Plugin(const Library& library);
  // As above, with other arguments than host().args(); they must hold its host table, or one made from it.
  Plugin(const Library& library, const yoke_entry_args& args, std::unique_ptr<Host> host);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  Host& host() const { return *host_; }
  yoke_plugin* get() const { return plugin_; }
  std::string name() const { return plugin_->backend_name; }

  template <class Table>
  bool has_table() const {
    return std::get<Slot<Table>>(tables_).offered;
  }
  // Throws Unsupported where the plugin does not have it.
  template <class Table>
  const Table& table() const {
    const auto& slot = std::get<Slot<Table>>(tables_);
    if (!slot.offered) {
      unsupported(text("the plugin does not have the table ", kTableId<Table>));
    }
    return slot.table;
  }
  template <auto Member>
  bool has() const {
    using Table = typename Function<Member>::Table;
    const auto& slot = std::get<Slot<Table>>(tables_);
    return slot.offered && slot.table.*Member != nullptr;
  }

  // Throws Unsupported where table or function is absent.
  template <auto Member>
  void need() const {
    if (table<typename Function<Member>::Table>().*Member == nullptr) {
      unsupported(text("the plugin leaves out the optional function ", Function<Member>::kName));
    }
  }

  // plugin.call<&yoke_backend_api::buffer_create>(device, 64, YOKE_MEMORY_DEVICE, &buffer): pass every
  // argument but the closing yoke_error*. Throws Unsupported where table or function is absent.
  template <auto Member, class... Args>
  Answer call(Args... args) const {
    using Table = typename Function<Member>::Table;
    const auto function = this->template table<Table>().*Member;
    if (function == nullptr) [[unlikely]] {
      need<Member>();
    }
    Answer answer;
    answer.function = Function<Member>::kName;
    auto& current = current_function();
    current.store(Function<Member>::kId, std::memory_order_relaxed);
    if constexpr (std::is_void_v<decltype(destroy_result(function))>) {
      function(args...);
    } else {
      answer.code = function(args..., &answer.status);
    }
    current.store(kNoFunction, std::memory_order_relaxed);
    return answer;
  }

  // Destroys the plugin; what its host then still holds for it, or was told wrong, fails. Once.
  void leave();

  yoke_live_counts live_counts() const;
  std::uint32_t device_count() const;

 private:
  template <class T>
  struct Slot {
    bool offered = false;
    T table{};
  };
  template <class Result, class... Args>
  static Result destroy_result(Result (*)(Args...));
  template <class Table>
  void read_table();

  void enter(const Library& library, const yoke_entry_args& args);

  std::unique_ptr<Host> host_;
  yoke_plugin* plugin_ = nullptr;
  std::tuple<Slot<yoke_backend_api>, Slot<yoke_stream_api>, Slot<yoke_program_api>, Slot<yoke_peer_api>,
             Slot<yoke_fault_api>>
      tables_;
};

}  // namespace yoke::conformance
