// SPDX-License-Identifier: Apache-2.0
// runtime/layers/trace_file.h: the bytes of a .yoketrace file, and their writer. README.md
// describes the format; frontends/replay/trace.h reads it.
#pragma once

#include <yoke/runtime/log.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "layers/memory.h"

namespace yoke::layers {

// The start of the file; all numbers are little-endian.
struct TraceHeader {
  char magic[8];  // "yoketrac"
  std::uint32_t version;
  std::uint32_t flags;  // kTraceHasData
  std::uint64_t unix_ns;
  std::uint32_t process;
  std::uint32_t reserved;
};
static_assert(sizeof(TraceHeader) == 32);
inline constexpr char kTraceMagic[] = "yoketrac";
constexpr std::uint32_t kTraceVersion = 2;
constexpr std::uint32_t kTraceHasData = 1;

// Records follow. Each starts with the byte count of its payload and the payload's checksum, 4 bytes each.
constexpr std::size_t kRecordHead = 8;
enum class RecordType : std::uint8_t {
  kFunction = 1,
  kPlugin,
  kBegin,    // of a span, or of a call, whose record has the same plugin, thread and begin
  kSpanEnd,  // of the last span of this thread that began
  kCall,
  kContent,
  kBlob,
  kLog,
  kEnd,
  kWork  // that a device has finished
};
// The event that begins: a span of the plugin; its entry, get_table or
// destroy; or a function, numbered from kFirstFunction.
constexpr std::uint64_t kPluginSpan = 0;
constexpr std::uint64_t kHostSpan = 1;
constexpr std::uint64_t kFirstFunction = 2;

// How the memory of a source or target is recorded.
enum class Memory : std::uint8_t {
  kNone,  // NULL, or the call failed
  kHere,  // byte count and hash follow
  kLater  // byte count follows; a kContent record has the hash
};

// Builds a payload: the type of the record and its fields. Numbers are LEB128; texts start with their length.
class Encoder {
 public:
  // Reuses the memory of `to`.
  Encoder(std::vector<std::byte>& to, RecordType type) : to_(to) {
    to_.clear();
    byte(static_cast<std::uint8_t>(type));
  }

  void byte(std::uint8_t value) { to_.push_back(static_cast<std::byte>(value)); }
  void number(std::uint64_t value) {
    while (value >= 0x80) {
      byte(static_cast<std::uint8_t>(value | 0x80U));
      value >>= 7U;
    }
    byte(static_cast<std::uint8_t>(value));
  }
  void numbers(std::initializer_list<std::uint64_t> values) {
    for (const std::uint64_t value : values) {
      number(value);
    }
  }
  void bytes(const void* memory, std::size_t count) {
    number(count);
    const auto* const from = static_cast<const std::byte*>(memory);
    to_.insert(to_.end(), from, from + count);
  }
  void text(std::string_view value) { bytes(value.data(), value.size()); }
  void hash(const Hash& value) {
    fixed(value.high);
    fixed(value.low);
  }
  void fixed(std::uint64_t value) {
    for (unsigned shift = 0; shift < 64; shift += 8) {
      byte(static_cast<std::uint8_t>(value >> shift));
    }
  }

 private:
  std::vector<std::byte>& to_;
};

// The number of the calling thread, counted from 1.
std::uint64_t thread_number() noexcept;

// One trace file. A record is written before its call returns, so that a later crash does not lose it.
// Threads: any.
class TraceWriter {
 public:
  // An empty path means yoke-trace-<pid>.yoketrace. A path in use by another writer gets a number appended.
  // Throws Error.
  // `on_problem` may be empty; see LayerOptions::on_trace_problem.
  using OnProblem = std::function<void(const std::string&)>;
  static std::shared_ptr<TraceWriter> open(std::filesystem::path path, bool with_data, LogSink sink,
                                           OnProblem on_problem);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  bool with_data() const noexcept { return with_data_; }
  std::uint64_t start_ns() const noexcept { return start_ns_; }  // steady clock: time 0 of the file
  std::uint64_t next_plugin() noexcept;

  // `payload` comes from an Encoder. Returns the number of the call. Never throws: the first failure is
  // logged, and later records are dropped.
  std::uint64_t add(std::span<const std::byte> payload) noexcept;
  // A log line of a plugin, or of a layer if `plugin` is 0.
  void log(std::uint64_t plugin, std::int32_t level, std::string_view text) noexcept;
  // Writes contents, once per hash.
  void add_blob(const Hash& hash, const void* memory, std::uint64_t byte_count) noexcept;

 private:
  TraceWriter(int file, std::filesystem::path path, bool with_data, LogSink sink, OnProblem on_problem);
  bool is_child() const noexcept;
  void append(std::span<const std::byte> payload, std::span<const std::byte> rest) noexcept;
  void write(std::span<const std::byte> bytes);
  void stop(const std::string& reason);
  bool is_file_gone() const noexcept;
  void describe_functions();

  const int file_;
  const std::filesystem::path path_;
  const bool with_data_;
  const LogSink sink_;
  const OnProblem on_problem_;
  const std::uint64_t start_ns_;
  const int process_;
  std::mutex mutex_;  // guards the members below
  std::vector<std::byte> record_;
  std::uint64_t plugins_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t lost_ = 0;
  bool failed_ = false;
  std::set<Hash> blobs_;
};

}  // namespace yoke::layers
