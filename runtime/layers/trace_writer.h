// SPDX-License-Identifier: Apache-2.0
// runtime/layers/trace_writer.h: one trace file: records from any thread, buffered, at the end of the file.
#pragma once

#include <yoke/runtime/log.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/functions.h"
#include "layers/hash.h"
#include "layers/trace_format.h"

namespace yoke::layers {

// A small number for the calling thread, in the order in which threads first ask.
std::uint64_t thread_number() noexcept;

class TraceWriter {
 public:
  // Empty path: yoke-trace-<pid>.yoketrace. A path that another writer of the process has gets a number.
  // Throws Error.
  static std::shared_ptr<TraceWriter> open(std::filesystem::path path, bool with_data, LogSink sink);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  bool with_data() const noexcept { return with_data_; }
  std::uint64_t start_ns() const noexcept { return start_ns_; }  // steady clock, of time 0 in the file
  std::uint64_t next_plugin() noexcept;

  // kNow: in the file when this returns, with all that came before, so that no crash of the process loses it.
  enum class Write { kLater, kNow };
  // `payload` begins with its type. Gives back the number of a call among the calls. Never throws: what
  // cannot be written is counted, and logged once.
  std::uint64_t add(std::span<const std::byte> payload, Write when = Write::kLater) noexcept;
  // A line of a plugin, or of a layer about it; 0: of none.
  void log(std::uint64_t plugin, std::int32_t level, std::string_view text) noexcept;
  // Writes contents once per hash.
  void add_blob(const Hash& hash, const void* memory, std::uint64_t byte_count) noexcept;
  void flush() noexcept;

 private:
  TraceWriter(int file, std::filesystem::path path, bool with_data, LogSink sink);
  bool is_child() const noexcept;
  void append(std::span<const std::byte> head, std::span<const std::byte> rest);
  void write_out() noexcept;
  void describe_functions();

  const int file_;
  const std::filesystem::path path_;
  const bool with_data_;
  const LogSink sink_;
  const std::uint64_t start_ns_;
  const int process_;
  std::mutex mutex_;  // of what follows
  std::vector<std::byte> buffer_;
  std::uint64_t written_ns_ = 0;
  std::uint64_t plugins_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t lost_ = 0;
  bool failed_ = false;
  std::set<Hash> blobs_;
};

}  // namespace yoke::layers
