// SPDX-License-Identifier: Apache-2.0
// runtime/layers/replay.h: one run of a trace: what stands for the recorded handles, and what is still
// awaited.
#pragma once

#include <yoke/runtime/trace.h>

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "device/state.h"
#include "device/status.h"
#include "layers/contents.h"
#include "layers/functions.h"
#include "layers/layer.h"
#include "layers/taint.h"

namespace yoke::layers {

// What a replay takes of the host's memory where nobody said how much.
std::uint64_t usual_memory_limit();

class Replayer {
 public:
  // `specs`: the backend's options.
  Replayer(const detail::BackendState& backend, std::vector<OptionSpec> specs,
           std::span<const std::byte> file, const ReplayOptions& options);
  ~Replayer();
  Replayer(const Replayer&) = delete;
  Replayer& operator=(const Replayer&) = delete;

  ReplayReport run();

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // plugin, number
  using Program = std::shared_ptr<const program::Module>;
  struct Live {
    Kind kind = Kind::kNumber;
    std::uint64_t word = 0;  // 0: of a kind that this backend does without
    std::uint64_t byte_count = 0;
    std::uint64_t host_bytes = 0;             // that it takes of the host's memory, as far as that is limited
    bool is_host_memory = false;              // a device: its buffers lie in the host's memory
    std::vector<std::uint64_t> buffers = {};  // a routine: what it is bound to
  };
  // Host memory that a recorded call has read or written, until it is compared or no longer needed.
  struct Target {
    std::vector<std::byte> bytes;
    std::uint64_t stream = 0;
    Key buffer;
    std::uint64_t offset = 0;
    bool is_known = false;  // all of it was written as when recorded
  };
  // An argument of a routine.
  struct Bound {
    Key buffer;
    std::uint64_t begin = 0;
    std::uint64_t byte_count = 0;
    program::Role role = program::Role::kInOut;
  };
  struct Prepared {
    std::array<std::uint64_t, kMostArguments> words{};
    std::array<std::uint64_t, kMostArguments> outs{};
    std::deque<std::vector<std::byte>> areas;
    std::vector<Option> options;
    std::vector<std::uint64_t> bound;  // buffers, by their words
    std::vector<std::byte> target;
    std::uint64_t stream = 0;
    bool has_stream = false;
    bool is_made_up = false;                                    // the source
    const char* why = "the trace does not hold what it needs";  // where it cannot be prepared
  };

  void scan();
  void scan_call(const TraceRecord& record, std::map<TraceHash, Program>& texts,
                 std::map<Key, Program>& codes);
  const Row* row_for(const TraceRecord& record) const;
  void replay_call(const TraceRecord& record);
  bool prepare(const Row& row, const TraceRecord& record, Prepared& call);
  bool prepare_value(const Row& row, const TraceRecord& record, std::size_t i, Prepared& call);
  bool prepare_handle(const TraceRecord& record, Kind kind, std::uint64_t number, std::uint64_t& word,
                      Prepared& call) const;
  bool prepare_memory(const Row& row, const TraceRecord& record, std::size_t i, Prepared& call);
  bool prepare_rows(const Row& row, const TraceRecord& record, std::size_t i, Prepared& call);
  void prepare_options(const TraceRecord& record, const TraceValue& value, std::size_t i, Prepared& call);
  std::vector<Option> known_options(const TraceRecord& record, const std::vector<Option>& given);
  bool prepare_bindings(const TraceRecord& record, const TraceValue& value, std::size_t i, Prepared& call);
  bool prepare_text(const TraceValue& value, std::size_t i, Prepared& call);
  // What the backend does without (replay_lack.cpp).
  const char* lacking(const Row& row) const;
  void stand_in(const Row& row, const TraceRecord& record);
  void note(const TraceRecord& record, const std::string& text);
  void skip(const Row* row, const TraceRecord& record, const std::string& why);
  bool emulate(const Row& row, Prepared& call, detail::Status& status, std::int32_t& code);
  std::int32_t fill_by_copies(const Prepared& call, detail::Status& status);
  std::int32_t copy_by_host(const Prepared& call, detail::Status& status);
  bool leaves(std::uint64_t buffer, std::uint64_t offset, std::uint64_t byte_count) const;
  void note_writes(const Row& row, const TraceRecord& record, bool is_done, bool is_made_up);
  void finish(const Row& row, const TraceRecord& record, Prepared& call, std::int32_t code,
              const detail::Status& status);
  void compare_result(const Row& row, const TraceRecord& record, const Prepared& call, std::int32_t code,
                      const detail::Status& status);
  void hold(const Row& row, const TraceRecord& record, Prepared& call);
  void keep(std::vector<std::byte>&& bytes);
  void drop_target(std::uint64_t call);
  void take_target(const TraceRecord& record, const TraceHash* hash);
  void compare_contents(const TraceRecord& record, const Target& target, const TraceHash& hash);
  void content(const TraceRecord& record);
  bool compares() const { return reader_.has_data() && options_.compare_contents; }
  void list_functions_and_notes();
  // Throw where the work does not end in time: its memory cannot be freed then. False: it was given up, and
  // may still use its memory until the stream is destroyed.
  bool sync(std::uint64_t stream);
  void sync_all();
  std::int32_t wait_for(std::uint64_t stream, std::uint64_t timeout_ns) const;
  bool streams_end_within(std::uint64_t timeout_ns) const;
  void end_all() noexcept;
  void end_all(Kind kind, Function function) noexcept;
  void put(const Key& key, Live live);
  void remove(const Key& key);
  // What a trace may ask for (replay_limits.cpp).
  void check_time() const;
  std::uint64_t most_wait() const;
  bool fits(std::uint64_t more) const;
  void check_memory(const TraceRecord& record, std::uint64_t more);
  bool may_take(const TraceRecord& record, std::uint64_t more, Prepared& call);
  bool may_make(const Row& row, const TraceRecord& record, Prepared& call);
  static std::uint64_t program_bytes(std::uint64_t letters);
  std::uint64_t host_bytes(const Row& row, const TraceRecord& record, const Prepared& call) const;
  bool is_host_memory(const Prepared& open) const;
  void differ(const TraceRecord& record, std::string text);
  const Types& types_of(const Key& buffer) const;
  std::int32_t issue(Function function, const std::uint64_t* words) const;
  void count_time(const TraceRecord& record, std::uint64_t ns);

  const detail::BackendState& backend_;
  const std::vector<OptionSpec> specs_;
  const ReplayOptions& options_;
  TraceReader reader_;
  std::array<Slot, kFunctionCount> slots_{};
  const std::uint64_t memory_limit_;
  const std::uint64_t end_ns_;
  std::uint64_t at_ = 0;  // the call
  std::map<Key, Live> live_;
  std::vector<Live> nameless_;       // the trace has no name for them, or gave it to another one since
  std::set<std::uint64_t> streams_;  // the words of all that live
  std::uint64_t devices_ = 0;
  std::map<std::uint64_t, std::uint64_t> bound_words_;  // buffers: how many live routines are bound to them
  std::uint64_t host_bytes_ = 0;                        // of live_, nameless_, targets_; of what scan() has
  std::map<Key, Types> types_;
  std::map<std::uint64_t, Target> targets_;  // by call
  std::deque<std::vector<std::byte>> kept_;  // what streams may still read, or write for nobody
  std::uint64_t kept_bytes_ = 0;
  std::map<Key, std::vector<Bound>> bound_;  // by routine
  Taint taint_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> notes_;  // function, text
  std::map<std::string, ReplayFunction> functions_;
  ReplayReport report_;
};

}  // namespace yoke::layers
