// SPDX-License-Identifier: Apache-2.0
// frontends/replay/trace.h: reads and prints the files that the layer trace writes.
#pragma once

#include <yoke/runtime/runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "abi/functions.h"
#include "layers/trace_file.h"

namespace yoke::replay {

using abi::Kind;
using layers::Hash;
using layers::Memory;

// One argument of a recorded call. Its kind determines which members are set.
struct Value {
  std::uint64_t number = 0;         // numbers, counts; handles by their number, 0: NULL
  bool was_requested = false;       // out-numbers: the host passed a pointer
  bool was_written = false;         // out-numbers: the plugin wrote to it
  std::string_view text;            // texts
  std::vector<std::uint64_t> list;  // symbol values; bindings, each as buffer, offset, byte count, flags
  std::vector<Option> options;
  std::span<const std::byte> bytes;  // structs and rows as the plugin wrote them
  Memory memory = Memory::kNone;     // sources and targets
  std::uint64_t byte_count = 0;      // of the memory
  Hash hash;
};

constexpr std::uint64_t kStreamLanes = 1'000'000;  // the thread of work on stream 0, for viewers
constexpr std::size_t kBindingWords = 4;           // of a binding in Value::list
constexpr std::size_t kCollectiveWords = 12;       // of a row of collectives_queue

struct RecordedFunction {
  struct Argument {
    Kind kind = Kind::kNumber;
    Kind makes = Kind::kNumber;  // out-handles: the kind of handle
    std::string name;
  };
  std::string table;
  std::string name;
  std::vector<Argument> arguments;
};

// One record. Views point into the file.
struct Record {
  enum class Type { kPlugin, kCall, kContent, kSpan, kLog, kWork };
  Type type = Type::kCall;
  std::uint64_t plugin = 0;
  std::uint64_t thread = 0;
  std::uint64_t begin_ns = 0;     // since the trace began
  std::uint64_t duration_ns = 0;  // calls, spans, work
  std::string_view text;     // calls: the error; plugins: the backend; spans, work: the name; logs: the line
  std::uint64_t number = 0;  // calls count from 0; contents: the call that they belong to; work: the stream
  const RecordedFunction* function = nullptr;  // calls
  std::int32_t code = 0;
  std::vector<Value> values;
  Hash hash;               // of the contents
  std::int32_t level = 0;  // logs
};

// A call or span without an end: the plugin crashed or hung in it.
struct Unfinished {
  std::uint64_t plugin = 0;
  std::uint64_t thread = 0;
  std::uint64_t begin_ns = 0;
  const RecordedFunction* function = nullptr;  // null: a span
  bool is_host_span = false;                   // entry, get_table or destroy
  std::string_view text;                       // spans: the name
  std::string_view name() const { return function == nullptr ? text : std::string_view(function->name); }
};

// Reads a file in memory, which must stay valid. Memory use is bounded by the size of the file.
class Reader {
 public:
  // Throws Error kDataLoss when the file is not a trace, kUnimplemented for an unknown version.
  explicit Reader(std::span<const std::byte> file);

  // Returns false at the end. Throws Error kDataLoss for a damaged record.
  bool next(Record& out);
  void rewind();
  // After next() has returned false: why the file is incomplete; empty if it is complete.
  const std::string& cut() const { return cut_; }
  // After next() has returned false: calls and spans without an end, in the order in which they began.
  std::vector<Unfinished> unfinished() const;

  bool has_data() const { return has_data_; }
  std::uint32_t process() const { return process_; }
  std::uint64_t lost() const { return lost_; }  // records that could not be written
  // Returns false if the records read so far do not have the contents.
  bool blob(const Hash& hash, std::span<const std::byte>& out) const;

 private:
  bool next_payload(std::span<const std::byte>& out);
  bool read(std::span<const std::byte> payload, Record& out);
  void read_begin(class Decoder& from);
  bool end_span(class Decoder& from, Record& out);
  void end_call(const Record& call);

  std::span<const std::byte> file_;
  std::size_t at_ = 0;
  bool has_data_ = false;
  std::uint32_t process_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t calls_ = 0;
  bool ended_ = false;
  std::string cut_;
  std::map<std::uint64_t, RecordedFunction> functions_;
  std::map<Hash, std::span<const std::byte>> blobs_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<Unfinished>> open_;  // by plugin and thread
};

// Prints one line per record.
void print(std::span<const std::byte> file, std::ostream& out);
// Prints JSON for chrome://tracing and ui.perfetto.dev. Calls and spans without an end become "B" events.
void write_chrome(std::span<const std::byte> file, std::ostream& out);

}  // namespace yoke::replay
