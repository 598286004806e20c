// SPDX-License-Identifier: Apache-2.0
// runtime/layers/validate.h: the layer that checks host and plugin against the rules of the ABI.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layers/layer.h"
#include "layers/memory.h"
#include "layers/session.h"

namespace yoke::layers {

// The rules that this layer checks, with their numbers in plugin_api/RULES.md.
enum class Rule : int {
  kStructSize = 5,        // a plugin does not write beyond a struct's size
  kErrorText = 10,        // a failure has a code and a text, a success has neither
  kKnownCode = 11,        // a result is one of the known codes
  kResult = 12,           // OK comes with a result
  kNoException = 13,      // no exception crosses
  kLiveObjects = 14,      // parents outlive their objects, which are counted
  kOwnership = 15,        // pointers and handles are valid for as long as they are used
  kCopy = 16,             // copies stay inside their buffers, and sources unchanged
  kStreamOrder = 18,      // streams are in order
  kStickyError = 19,      // an error of a stream or device stays
  kThreads = 20,          // thread tags and blocking classes hold
  kDeadline = 21,         // waits end at their deadline
  kProcessSettings = 22,  // settings of the process and its log belong to the host
  kRoutineMemory = 26,    // routines use the memory that they are given
  kLifetime = 35,         // no call before entry or after destroy
  kFlags = 40,            // unknown flags fail with UNIMPLEMENTED
  kStride = 41,           // arrays have a stride
  kAlignment = 42,        // buffers and arguments are aligned
  kTiming = 43,           // event_elapsed needs events with timing
  kState = 44,            // a query returns pending, done or failed
  kQuiescence = 45,       // work that has ended does not access memory
  kAbort = 46,            // an aborted stream stays poisoned
  kNoDevices = 48,        // no devices come with a reason
  kHostCallback = 58      // a host callback is called once
};

// Reports violations of one plugin and its host to the ledger.
class Reporter {
 public:
  Reporter(const Interposer& plugin, std::shared_ptr<Ledger> ledger)
      : plugin_(plugin), ledger_(std::move(ledger)) {}

  bool fail_calls() const { return ledger_->fail_calls(); }
  void report(Rule rule, Culprit who, const char* call, std::string text, bool is_warning = false) const;
  template <class... Parts>
  void host(Rule rule, const char* call, const Parts&... text) const {
    report(rule, Culprit::kHost, call, concat(text...));
  }
  template <class... Parts>
  void plugin(Rule rule, const char* call, const Parts&... text) const {
    report(rule, Culprit::kPlugin, call, concat(text...));
  }

 private:
  const Interposer& plugin_;
  const std::shared_ptr<Ledger> ledger_;
};

// A range of a buffer or of host memory.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_written = false;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
  bool conflicts(const Range& other) const { return (is_written || other.is_written) && overlaps(other); }
};

// Work that was queued on a stream, by its number there.
struct Queued {
  std::shared_ptr<Object> stream;
  std::uint64_t ticket = 0;
};
// The work that happens before a point: the last ticket of each stream, by the stream's number.
using Order = std::map<std::uint64_t, std::uint64_t>;

class HostMemory;

// A pending stream_host_callback. The plugin calls run() in place of the host's function.
struct HostCallback {
  static void run(void* self, std::int32_t status);

  const Reporter& reporter;
  yoke_host_callback_fn function = nullptr;
  void* user = nullptr;
  HostMemory& memory;
  std::shared_ptr<Object> stream;  // null after the call
  std::uint64_t after = 0;         // the ticket of the work before it
  std::atomic<int> call_count{0};
};

// The validate layer's data of one handle. Object::mutex guards the members that are not atomic.
struct Checked {
  std::atomic<std::size_t> caller{0};     // streams, devices: hash of the thread in a serial call; 0: none
  std::int32_t failure = YOKE_STATUS_OK;  // streams, events: the sticky error
  std::atomic<bool> is_lost{false};       // devices: returned DEVICE_LOST
  std::atomic<bool> inherits{false};      // streams, events: may have the error of another device
  std::atomic<bool> is_aborted{false};    // devices, streams
  std::atomic<std::int64_t> children{0};  // devices: live objects

  std::vector<std::pair<std::uint64_t, std::shared_ptr<Object>>> waits;  // streams: tickets, events
  std::map<std::uint64_t, HostCallback*> callbacks;                      // streams: by ticket
  Order order;                                                           // streams, events

  std::vector<Queued> uses;               // buffers, routines: the last of each stream
  std::atomic<std::uint32_t> bound{0};    // buffers: live routines that are linked to them
  std::atomic<bool> is_launching{false};  // routines

  std::vector<std::shared_ptr<Object>> buffers;  // routines
  std::uint32_t symbol_count = 0;                // routines
  std::uint32_t rank = 0;                        // communicators
  std::uint32_t member_count = 0;
};

inline Checked& checked(const std::shared_ptr<Object>& object) {
  return *object->checked;
}

// The settings of thread and process that a plugin must not change (validate_process.cpp).
struct Surroundings {
  std::uint32_t float_mode = 0;  // rounding, flushing, exception masks of this thread
  std::uint64_t signal_mask = 0;
  bool has_process = false;  // the members below are set, which takes a few microseconds
  std::string locale;
  std::vector<std::uint64_t> handlers;  // one word per signal
};
Surroundings look_around(bool with_process);
// The names of the settings that differ, separated by commas.
std::string difference(const Surroundings& before, const Surroundings& after);

// The validate layer's data of one call. The destructor clears the marks that the call set.
struct CallNote {
  explicit CallNote(const Reporter& to) : reporter(to) {}
  ~CallNote();
  CallNote(const CallNote&) = delete;
  CallNote& operator=(const CallNote&) = delete;

  const Reporter& reporter;
  std::shared_ptr<Object> serial;     // marked with this thread
  std::shared_ptr<Object> launching;  // the routine
  bool out_of_range = false;
  bool has_unknown_flags = false;
  std::uint32_t symbol_count = 0;    // of the entry that is linked
  HostCallback* callback = nullptr;  // of a stream_host_callback
  std::string host_text;             // the host's first violation
  // Before the call:
  std::int64_t children = 0;              // of the device
  bool was_lost = false;                  // the device
  std::int32_t failure = YOKE_STATUS_OK;  // of the first argument
  Surroundings surroundings;
};

// Reports a violation in a call. With fail_calls, a violation of the plugin
// also replaces its result, unless it is a warning.
void blame(Call& call, Rule rule, Culprit who, std::string text, bool is_warning = false);
template <class... Parts>
void blame_host(Call& call, Rule rule, const Parts&... text) {
  blame(call, rule, Culprit::kHost, concat(text...));
}
template <class... Parts>
void blame_plugin(Call& call, Rule rule, const Parts&... text) {
  blame(call, rule, Culprit::kPlugin, concat(text...));
}
template <class... Parts>
void warn_plugin(Call& call, Rule rule, const Parts&... text) {
  blame(call, rule, Culprit::kPlugin, concat(text...), true);
}

// validate_host.cpp: preconditions of the call.
void check_host(Call& call);
std::string range_text(std::uint64_t offset, std::uint64_t byte_count, const Object& buffer);

// The host memory of pending copies. Sources must not change until the copy has ended, targets not after.
class HostMemory {
 public:
  void add(const Object& stream, std::uint64_t ticket, const void* memory, std::uint64_t byte_count,
           bool is_target);
  // Ends the copies of the stream up to stream.completed; `ok`: without failure.
  void finish(const Object& stream, bool ok, const Reporter& reporter);
  // Ends the copies from sources up to this ticket. A host callback of the stream may then free the sources.
  void finish_sources(const Object& stream, std::uint64_t last, bool ok, const Reporter& reporter);

 private:
  struct Part {
    const void* memory = nullptr;
    std::uint64_t byte_count = 0;
    Hash hash;  // sources
    bool is_target = false;
  };
  static void check_source(const Part& part, const Object& stream, const Reporter& reporter);
  static void check_targets(std::vector<Part>& targets, const Object& stream, const Reporter& reporter);

  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Part> all_;  // by stream and ticket
};

// validate_work.cpp: updates live objects, bindings and queued work after the call.
void note_handles(Call& call);
void note_work(Call& call, HostMemory& memory);
void finish_callbacks(const Object& stream, const Reporter& reporter);
void spread_completion(Call& call);

// validate_plugin.cpp: postconditions of the call.
void check_plugin(Call& call);
struct Broken {
  Rule rule;
  std::string text;
};
// The rule that a result and its error text break, if any.
std::optional<Broken> broken_status(std::int32_t code, const ErrorSlot& status);

}  // namespace yoke::layers
