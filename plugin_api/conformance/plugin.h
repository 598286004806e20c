// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/plugin.h: the plugin under test: loaded with dlopen,
// entered, and called through the tables of the ABI.
#pragma once

#include <yoke/backend.h>
#include <yoke/ext/collectives.h>
#include <yoke/ext/fault.h>
#include <yoke/ext/memory.h>
#include <yoke/ext/peer.h>
#include <yoke/ext/profile.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "check.h"
#include "host.h"

namespace yoke::conformance {

// Numbers every function of every table, so that the driver can name the function in which a process died.
#define YOKE_CONFORMANCE_FUNCTIONS(X) \
  YOKE_BACKEND_API_FUNCTIONS(X)       \
  YOKE_STREAM_API_FUNCTIONS(X)        \
  YOKE_PROGRAM_API_FUNCTIONS(X)       \
  YOKE_PEER_API_FUNCTIONS(X)          \
  YOKE_MEMORY_API_FUNCTIONS(X)        \
  YOKE_FAULT_API_FUNCTIONS(X)         \
  YOKE_COLLECTIVES_API_FUNCTIONS(X)   \
  YOKE_PROFILE_API_FUNCTIONS(X)
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
const char* function_name(std::uint32_t id);  // "buffer_create", "the entry"; "" for kNoFunction

// The plugin function that is running, in memory shared with the driver.
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
template <>
inline constexpr const char* kTableId<yoke_memory_api> = YOKE_MEMORY_TABLE;
template <>
inline constexpr const char* kTableId<yoke_collectives_api> = YOKE_COLLECTIVES_TABLE;
template <>
inline constexpr const char* kTableId<yoke_profile_api> = YOKE_PROFILE_TABLE;

// A struct with its struct_size set.
template <class T>
T sized() {
  T made{};
  made.struct_size = sizeof(T);
  return made;
}

// The result of a call.
struct Answer {
  const char* function = "";
  std::int32_t code = YOKE_STATUS_OK;
  yoke_error status;  // as the plugin filled it

  bool ok() const { return code == YOKE_STATUS_OK; }
  // "buffer_create returned OUT_OF_RANGE: ..."
  std::string words() const;
};

// A call that must return OK did not.
struct Refused : Failed {
  Refused(const Answer& of, const std::string& text) : Failed(text), answer(of) {}
  Answer answer;
};

// Throws Refused unless the call returned OK. Fails if it returned OK but filled the error object.
void expect_ok(const Answer& answer, const std::string& doing = {});
// Fails unless the call returned `code` and set the same code and a UTF-8 text in the error object.
void expect_code(const Answer& answer, std::int32_t code, const std::string& doing);
// As above, for any error code.
void expect_refused(const Answer& answer, const std::string& doing);

// Throws Unsupported with the text if the call returned UNIMPLEMENTED; otherwise as expect_ok.
void expect_supported(const Answer& answer, const std::string& doing);

// Fails with the reason and the fix if yoke's loader rejects the file. The file stays mapped.
void check_loadable(const std::filesystem::path& file);

class Library;

// Argument structs with their sizes set. They borrow arrays and strings.
yoke_device_args device_args(std::uint32_t ordinal, std::span<const yoke_option> options);
yoke_buffer_args buffer_args(std::uint64_t byte_count, std::int32_t kind);
// Without a workspace if its buffer is NULL.
yoke_link_args link_args(std::uint32_t entry, std::span<const yoke_binding> bindings,
                         const yoke_binding& workspace);

// The arguments for the entry, including the options of `library`.
yoke_entry_args entry_args(const Host& host, const Library& library);

// An option at the default of its schema.
yoke_option default_option(const yoke_option_spec& spec);

using NamesAndValues = std::vector<std::pair<std::string, std::string>>;

// The mapped file. It stays mapped.
class Library {
 public:
  // Fails with the dynamic linker's error. `options` are passed to the entry, as text.
  explicit Library(std::filesystem::path path, NamesAndValues options = {});
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void* handle() const { return handle_; }
  yoke_plugin_entry_fn entry() const { return entry_; }
  std::span<const yoke_option> options() const { return options_; }

 private:
  std::filesystem::path path_;
  NamesAndValues names_and_values_;
  std::vector<yoke_option> options_;
  void* handle_ = nullptr;
  yoke_plugin_entry_fn entry_ = nullptr;
};

// Call the entry and destroy, for the tests of these two.
Answer call_entry(const Library& library, const yoke_entry_args* args, yoke_plugin** out_plugin);
void destroy_plugin(yoke_plugin* plugin);

// One entered instance of the plugin. Functions that the plugin's tables are too short to hold are NULL.
class Plugin {
 public:
  explicit Plugin(const Library& library);
  // Enters with other arguments. `args` must contain the host's table, or a copy of it.
  Plugin(const Library& library, const yoke_entry_args& args, std::unique_ptr<Host> host);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  Host& host() const { return *host_; }
  yoke_plugin* get() const { return plugin_; }
  std::string name() const { return plugin_->name; }

  template <class Table>
  bool has_table() const {
    return std::get<Slot<Table>>(tables_).offered;
  }
  // Throws Unsupported if the plugin does not have the table.
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

  // Throws Unsupported if the plugin does not have the table or the function.
  template <auto Member>
  void need() const {
    if (table<typename Function<Member>::Table>().*Member == nullptr) {
      unsupported(text("the plugin does not have the optional function ", Function<Member>::kName));
    }
  }

  // plugin.call<&yoke_backend_api::buffer_describe>(buffer, &info): takes every argument except the last,
  // the yoke_error*. Throws Unsupported if the plugin does not have the table or the function.
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

  // Calls that need argument structs or many casts, by their names in the ABI.
  // They only return what the plugin returned.
  Answer device_describe(std::uint32_t ordinal, yoke_device_info* info) const;
  Answer device_open(std::uint32_t ordinal, std::span<const yoke_option> options, yoke_device** out) const;
  Answer device_close(yoke_device* device) const;
  Answer buffer_create(yoke_device* device, std::uint64_t byte_count, std::int32_t kind,
                       yoke_buffer** out) const;
  Answer from_host(yoke_stream* stream, yoke_buffer* target, std::uint64_t offset, const void* source,
                   std::uint64_t byte_count, std::int32_t* out_source) const;
  Answer to_host(yoke_stream* stream, yoke_buffer* source, std::uint64_t offset, void* target,
                 std::uint64_t byte_count) const;
  Answer device_to_device(yoke_stream* stream, yoke_buffer* target, std::uint64_t target_offset,
                          yoke_buffer* source, std::uint64_t source_offset, std::uint64_t byte_count) const;
  Answer fill(yoke_stream* stream, yoke_buffer* target, std::uint64_t offset, std::uint64_t byte_count,
              const void* pattern, std::uint32_t pattern_byte_count) const;
  Answer stream_create(yoke_device* device, std::int32_t priority, yoke_stream** out) const;
  Answer event_record(yoke_stream* stream, yoke_event** out, std::uint64_t flags = YOKE_EVENT_TIMING) const;
  Answer can_compile(yoke_device* device, const yoke_compile_args& args, std::span<yoke_verdict> verdicts,
                     std::uint32_t* out_count) const;
  Answer code_compile(yoke_device* device, const yoke_compile_args& args, yoke_code** out) const;
  // `workspace`: its buffer is NULL if there is none.
  Answer routine_link(yoke_code* code, std::uint32_t entry, std::span<const yoke_binding> bindings,
                      const yoke_binding& workspace, yoke_routine** out) const;
  Answer routine_launch(yoke_stream* stream, yoke_routine* routine,
                        std::span<const std::int64_t> symbols) const;

  // These fail the test if the call fails.
  yoke_live_counts live_counts() const;
  std::uint32_t device_count() const;
  std::uint32_t some_devices() const;  // device_count(); Unsupported with the plugin's reason if it is 0
  // All options, or those of one YOKE_OPTION_SCOPE_*. Empty if the plugin lacks option_specs.
  std::vector<yoke_option_spec> option_specs(std::optional<std::int32_t> scope = std::nullopt) const;

  // Destroys the plugin. Fails if the plugin keeps host memory or
  // misused a function of the host. Call it once.
  void leave();

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
             Slot<yoke_fault_api>, Slot<yoke_memory_api>, Slot<yoke_collectives_api>, Slot<yoke_profile_api>>
      tables_;
};

}  // namespace yoke::conformance
