// SPDX-License-Identifier: Apache-2.0
// runtime/layers/validate.h: the layer that holds both sides to the rules of the ABI.
#pragma once

#include <yoke/program/program.h>

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "layers/layer.h"
#include "layers/session.h"
#include "layers/surroundings.h"

namespace yoke::layers {

// A part of a buffer.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_written = false;
  bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
};

// Work that was queued: the n-th on a stream.
struct Queued {
  std::shared_ptr<Object> stream;
  std::uint64_t ticket = 0;
};

// Which work of which stream comes before something, by the stream's number.
using Order = std::map<std::uint64_t, std::uint64_t>;

// Host memory that must not change until its copy is done.
struct Source {
  std::uint64_t ticket = 0;
  const void* memory = nullptr;
  std::uint64_t byte_count = 0;
  std::uint64_t hash = 0;
};

// A counter of calls that make or end handles: what holds while it does not change can be compared.
constexpr std::uint64_t kBegun = 1;
constexpr std::uint64_t kEnded = std::uint64_t{1} << 32U;
constexpr bool is_quiet(std::uint64_t before, std::uint64_t after) {
  return before == after && (before >> 32U) == (before & 0xffffffffU);
}

// What validation knows of a handle. Guarded by Object::mutex where it is no atomic.
struct Checked final : Object {
  using Object::Object;

  std::atomic<std::size_t> caller{0};  // streams, devices: the thread in a serial call, hashed; 0: none
  std::int32_t failure = YOKE_OK;      // streams, events: the error that must stay
  std::atomic<bool> is_lost{false};    // devices: answered DEVICE_LOST
  std::atomic<std::int64_t> children{0};
  std::atomic<std::uint64_t> live_bytes{0};
  std::atomic<std::uint64_t> changing{0};  // calls that make or end children: kBegun, kEnded

  std::vector<Source> sources;                                           // streams
  std::vector<std::pair<std::uint64_t, std::shared_ptr<Object>>> waits;  // streams: by ticket, events
  Order order;                                                           // streams, events

  std::vector<Queued> uses;               // buffers, routines: the last of each stream
  std::vector<Range> direct;              // buffers: ranges of calls without a stream, now
  std::atomic<std::uint32_t> bound{0};    // buffers: routines linked against them
  std::atomic<bool> is_launching{false};  // routines

  std::shared_ptr<const program::Module> module;  // code, routines; null: a text that we do not read
  std::uint32_t entry = 0;                        // routines
  std::vector<std::shared_ptr<Object>> buffers;   // routines, with their ranges
  std::vector<Range> ranges;
};

inline Checked& checked(const std::shared_ptr<Object>& object) {
  return static_cast<Checked&>(*object);
}

class Validate final : public Layer {
 public:
  explicit Validate(std::shared_ptr<Ledger> ledger) : ledger_(std::move(ledger)) {}

  // One broken rule; `warn`: it may be innocent.
  void report(int rule, Culprit who, const char* call, std::string text, bool warn = false);

 protected:
  std::shared_ptr<Object> make_object(Kind kind) override;
  void entering() override;
  void entered(std::int32_t code, const ErrorSlot& status) override;
  void table_given(const char* id, const void* table, const std::vector<std::byte>& bytes) override;
  void threw(const char* call, const char* what) override;
  void destroying() override;
  void destroyed() override;
  void refused_handle(const Call& call, std::size_t argument, const std::string& what) override;
  void refused_child(const char* call, const char* what) override;
  bool before(Call& call) override;
  void after(Call& call) override;
  void completed(Object& stream, bool ok) override;
  bool logging(std::int32_t level, const char* text, std::uint64_t length) override;
  void error_setting(ErrorSlot& slot, const char* text, std::uint64_t length, bool in_time) override;
  void span_begin(const char* name) override;
  void span_end() override;
  void allocated(void* memory, std::uint64_t byte_count, std::uint64_t alignment) override;
  bool deallocating(void* memory) override;
  void late_callback(const char* what) override;

 private:
  struct Note;
  struct TableSeen {
    const void* address = nullptr;
    std::vector<std::byte> bytes;
  };

  // The host's side (validate_host.cpp): the first broken rule of a call is kept in its note.
  void blame_host(Call& call, int rule, std::string text);
  void check_process(Call& call);
  void enter_serial(Call& call);
  void check_host(Call& call);
  void check_copy(Call& call);
  void check_range(Call& call, std::size_t buffer, std::uint64_t offset, std::uint64_t byte_count,
                   bool is_written);
  void check_stream_device(Call& call, const Object& buffer);
  void check_fill(Call& call);
  void check_destroy(Call& call);
  void check_link(Call& call);
  void check_launch(Call& call);
  void check_symbols(Call& call, const program::Program& program);
  void note_work(Call& call);
  void note_handle(Call& call);
  void spread_completion(Call& call);

  // The plugin's side (validate_plugin.cpp).
  void blame_plugin(Call& call, int rule, std::string text, bool warn = false);
  void check_answer(Call& call);
  void check_outs(Call& call);
  void check_shadow(Call& call, std::size_t i);
  void check_time(Call& call);
  void check_wait(Call& call);
  void check_sticky(Call& call);
  void check_infos(Call& call);
  void check_counts(const Call& call, const yoke_live_counts& counts);
  void check_tables(const char* call);
  void check_surroundings(Call& call);
  bool is_target(const void* memory, std::uint64_t byte_count);
  bool is_finished(const Call& call, const std::shared_ptr<Object>& event);

  const std::shared_ptr<Ledger> ledger_;
  std::atomic<int> owner_{0};  // the process that opened a device; 0: none was
  std::atomic<bool> in_child_{false};
  Surroundings around_entry_;
  std::atomic<std::uint64_t> threads_at_entry_{0};  // 0: not known, or told already
  std::mutex mutex_;                                // of what follows
  std::map<std::string, TableSeen> tables_;
  // Host memory that streams write to, the last ones: copied out of again, it changes in order.
  std::vector<Range> targets_;
  std::size_t next_target_ = 0;
  std::map<void*, std::uint64_t> memory_;            // allocated by the plugin through the host
  std::array<std::atomic<std::int64_t>, 7> live_{};  // by Kind
  std::atomic<std::uint64_t> changing_{0};           // as Checked::changing, for the whole plugin
};

// What `before` found and `after` needs. The end of it is the end of the call: serial marks go.
struct Validate::Note final : CallNote {
  Note() = default;
  ~Note() override;
  Note(const Note&) = delete;
  Note& operator=(const Note&) = delete;
  std::shared_ptr<Object> serial;     // marked with this thread
  std::shared_ptr<Object> launching;  // the routine
  std::vector<std::pair<std::shared_ptr<Object>, Range>> direct;
  std::atomic<std::uint64_t>* changing = nullptr;
  std::atomic<std::uint64_t>* device_changing = nullptr;
  std::uint64_t changes = 0;  // of the plugin, before the call
  std::uint64_t device_changes = 0;
  std::uint64_t live_bytes = 0;
  std::array<std::int64_t, 7> live{};
  std::int64_t children = 0;
  std::int32_t failure = YOKE_OK;  // that had to stay when the call began
  bool was_lost = false;
  bool out_of_range = false;
  Surroundings surroundings;
  std::string host_text;  // the first broken rule of the host
};

bool is_utf8(std::string_view text);

}  // namespace yoke::layers
