// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/trace.h: reads what the layer trace wrote: as records, as text, as a picture;
// and runs it once more.
#pragma once

#include <yoke/runtime/runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace yoke {

namespace layers {
class Decoder;
}

// A hash of contents: XXH3, 128 bits.
struct TraceHash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in there
  friend auto operator<=>(const TraceHash&, const TraceHash&) = default;
};

// One argument of a recorded call. What is set follows from what the argument is.
struct TraceValue {
  std::uint64_t number = 0;         // numbers, handles (the n-th of their plugin; 0: NULL), counts, strides
  bool was_asked = false;           // a number that the plugin writes: the host wanted it
  bool was_written = false;         //   and the plugin wrote it
  std::string_view text;            // texts; the format of a program text
  std::vector<std::uint64_t> list;  // symbols; bindings as buffer, offset, ...
  std::vector<Option> options;
  std::span<const std::byte> bytes;  // info structs, rows: as the plugin left them
  int memory = 0;                    // host memory: 0 none, 1 with its hash, 2 the hash comes later
  std::uint64_t byte_count = 0;      // of host memory or a program text
  TraceHash hash;
};

struct TraceFunction {
  struct Argument {
    std::uint8_t kind = 0;   // as in runtime/layers/functions.h
    std::uint8_t makes = 0;  // an out-handle: the kind that it makes
    std::string name;
  };
  std::string table;
  std::string name;
  std::vector<Argument> arguments;
};

// One record; views point into the file. Reused from record to record.
struct TraceRecord {
  enum class Type { kPlugin, kCall, kContent, kSpan, kLog };
  Type type = Type::kCall;
  std::uint64_t plugin = 0;
  std::uint64_t thread = 0;
  std::uint64_t begin_ns = 0;     // since the trace began
  std::uint64_t duration_ns = 0;  // calls, spans
  std::string_view text;          // calls: the error; spans: the name; logs: the line; plugins: the backend
  // Calls.
  std::uint64_t number = 0;  // the n-th call, from 0; of a content record: whose it is
  const TraceFunction* function = nullptr;
  std::int32_t code = 0;
  std::int64_t vendor_code = 0;
  std::vector<TraceValue> values;
  // Contents.
  std::uint64_t argument = 0;
  TraceHash hash;
  std::int32_t level = 0;  // logs
};

// A call, or a span of a plugin, that began, and of whose end the trace says nothing: the plugin crashed in
// it, hung, or the trace was cut before. Its arguments are not known.
struct TraceUnfinished {
  std::uint64_t plugin = 0;
  std::uint64_t thread = 0;
  std::uint64_t begin_ns = 0;
  const TraceFunction* function = nullptr;  // null: a span
  std::string_view text;                    // spans: the name
  std::string_view name() const { return function == nullptr ? text : std::string_view(function->name); }
};

// Reads a file that lies in memory, which must stay. Nothing is believed: a record that does not fit ends the
// trace, and memory grows with what is there, not with what is claimed.
class TraceReader {
 public:
  // Throws Error kDataLoss when it is no trace, kUnimplemented for a version that this yoke does not read.
  explicit TraceReader(std::span<const std::byte> file);

  bool next(TraceRecord& out);  // false: at the end
  void rewind();
  // After next() was false: why the trace is not whole, or empty: it is.
  const std::string& cut() const { return cut_; }
  // After next() was false: in the order in which they began.
  std::vector<TraceUnfinished> unfinished() const;

  bool has_data() const { return has_data_; }
  std::uint64_t unix_ns() const { return unix_ns_; }
  std::uint32_t process() const { return process_; }
  std::uint64_t lost() const { return lost_; }  // records that could not be written
  // Contents that were read past so far (a whole pass finds all); false: they are not in the file.
  bool blob(const TraceHash& hash, std::span<const std::byte>& out) const;

 private:
  bool next_payload(std::span<const std::byte>& out);
  bool stop(std::string why);
  bool read(std::span<const std::byte> payload, TraceRecord& out, bool& is_for_caller);
  bool read_begin(layers::Decoder& from);
  bool finish(const TraceRecord& record);

  // Time of begin, thread, plugin, function (null: a span), name of the span.
  using Begun =
      std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, const TraceFunction*, std::string_view>;

  std::span<const std::byte> file_;
  std::size_t at_ = 0;
  bool has_data_ = false;
  std::uint64_t unix_ns_ = 0;
  std::uint32_t process_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t calls_ = 0;
  bool ended_ = false;
  std::string cut_;
  std::map<std::uint64_t, TraceFunction> functions_;
  std::map<TraceHash, std::span<const std::byte>> blobs_;
  std::set<Begun> begun_;
};

// One line per record.
void print_trace(std::span<const std::byte> file, std::ostream& out);
// For chrome://tracing and Perfetto: calls, and the plugin's own spans inside of them, per thread; what never
// ended as an event that begins ("B").
void write_chrome_trace(std::span<const std::byte> file, std::ostream& out);

struct ReplayOptions {
  std::string backend;
  // Contents that differ in bits still agree when every float differs by at most tolerance * max(1, |value|);
  // which bytes are floats is known from the programs they are bound to. Other bytes must be equal.
  double tolerance = 1e-5;
  bool compare_contents = true;                                 // only where the trace has data
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);  // the most that any wait gets
  // A trace may ask for anything. What it wants at once of the host's memory (buffers that lie there, the
  // host's side of copies, programs) ends at this many bytes; 0: three quarters of the machine's memory, or
  // of the container's (cgroup v2).
  std::uint64_t memory_limit = 0;
  std::uint32_t stream_limit = 2048;                            // alive at once; each may be a thread
  std::chrono::nanoseconds time_limit = std::chrono::hours(1);  // between two calls, or in a wait, it ends
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;  // calls
};

struct ReplayDifference {
  std::uint64_t call = 0;
  std::string function;
  std::string text;
};

struct ReplayFunction {
  std::string name;
  std::uint64_t calls = 0;
  double recorded_seconds = 0, replayed_seconds = 0;
  double slowest_seconds = 0;  // replayed
};

// Calls that were skipped or done in another way, and why.
struct ReplayNote {
  std::string function;
  std::string text;
  std::uint64_t calls = 0;
};

struct ReplayReport {
  std::uint64_t calls = 0;  // in the trace
  std::uint64_t replayed = 0;
  std::uint64_t emulated = 0;  // of those replayed: by other functions, as the backend does not offer them
  // The backend does not offer them; what they need was skipped or failed, or is not in the trace; they
  // failed when recorded, and want more than the memory limit leaves; a buffer under a routine that is bound
  // to it.
  std::uint64_t skipped = 0;
  std::uint64_t differences = 0;
  std::uint64_t contents_equal = 0;    // bit by bit
  std::uint64_t contents_close = 0;    // within the tolerance
  std::uint64_t contents_unknown = 0;  // not compared
  std::string why_unknown;
  std::vector<ReplayNote> notes;  // most calls first
  double recorded_seconds = 0, replayed_seconds = 0;
  std::vector<ReplayDifference> first;    // at most 100
  std::vector<ReplayFunction> functions;  // most time first
  std::string cut;                        // as TraceReader::cut
  std::vector<std::string> unfinished;    // calls and spans that never returned when recorded; at most 100
};

// Calls again what was recorded, on one thread and in the order in which the calls ended, which keeps what
// one call has to wait for of another. Contents that the trace does not hold are made up from their hash.
// A function or a capability that the backend may leave out and does is no difference: fill and
// device_to_device are done by copies, other calls skipped, and what they would have written is not compared.
// Throws Error for a backend that is not there and for a file that is no trace; kResourceExhausted where the
// trace wants more than memory_limit, or more devices or streams than anybody needs; kDeadlineExceeded behind
// time_limit, and where work does not end within `timeout` whose memory has to be free. Whatever was made is
// ended before.
ReplayReport replay(Runtime& runtime, std::span<const std::byte> file, const ReplayOptions& options);

}  // namespace yoke
