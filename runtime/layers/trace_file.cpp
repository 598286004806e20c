// SPDX-License-Identifier: Apache-2.0
// runtime/layers/trace_file.cpp: records are appended to the file under a lock.
#include "layers/trace_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yoke/plugin.h>
#include <yoke/runtime/error.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "abi/functions.h"
#include "layers/call.h"

namespace yoke::layers {
std::uint64_t thread_number() noexcept {
  static std::atomic<std::uint64_t> count{0};
  thread_local const std::uint64_t mine = ++count;
  return mine;
}

std::shared_ptr<TraceWriter> TraceWriter::open(std::filesystem::path path, bool with_data, LogSink sink,
                                               OnProblem on_problem) {
  if (path.empty()) {
    path = "yoke-trace-" + std::to_string(::getpid()) + ".yoketrace";
  }
  const std::filesystem::path wanted = std::filesystem::absolute(path);
  path = wanted;
  for (int number = 2;; ++number) {
    constexpr mode_t kOwnerOnly = 0600;  // contents may be private
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, kOwnerOnly);
    if (file < 0) {
      const int why = errno;
      throw Error(why == EACCES || why == EROFS ? ErrorCode::kPermissionDenied : ErrorCode::kNotFound,
                  "cannot create the trace file " + path.string() + ": " +
                      std::generic_category().message(why) + "; set YOKE_TRACE_FILE to another path");
    }
    if (::flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
      static_cast<void>(::ftruncate(file, 0));  // a device has no length
      return std::shared_ptr<TraceWriter>(
          new TraceWriter(file, std::move(path), with_data, std::move(sink), std::move(on_problem)));
    }
    ::close(file);  // another writer has it
    path = wanted;
    path.replace_extension("." + std::to_string(number) + wanted.extension().string());
  }
}

TraceWriter::TraceWriter(int file, std::filesystem::path path, bool with_data, LogSink sink,
                         OnProblem on_problem)
    : file_(file),
      path_(std::move(path)),
      with_data_(with_data),
      sink_(std::move(sink)),
      on_problem_(std::move(on_problem)),
      start_ns_(now_ns()),
      process_(::getpid()) {
  const auto unix_time = std::chrono::system_clock::now().time_since_epoch();
  TraceHeader header{};
  std::memcpy(header.magic, kTraceMagic, sizeof(header.magic));
  header.version = kTraceVersion;
  header.flags = with_data ? kTraceHasData : 0;
  header.unix_ns =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(unix_time).count());
  header.process = static_cast<std::uint32_t>(process_);
  write(std::as_bytes(std::span(&header, 1)));
  describe_functions();
  if (sink_) {
    sink_(LogLevel::kInfo, "trace.open file=\"" + path_.string() + "\" data=" + (with_data ? "1" : "0"));
  }
}

TraceWriter::~TraceWriter() {
  if (!is_child()) {
    std::vector<std::byte> payload;
    Encoder end(payload, RecordType::kEnd);
    end.numbers({calls_, lost_});
    add(payload);
    try {
      if (!failed_ && is_file_gone()) {
        stop("the file was removed while it was written");
      }
    } catch (const std::bad_alloc&) {  // no memory for the sentence
    }
  }
  ::close(file_);
}

bool TraceWriter::is_file_gone() const noexcept {
  struct stat open = {};
  struct stat named = {};
  return ::fstat(file_, &open) == 0 &&
         (::stat(path_.c_str(), &named) != 0 || open.st_ino != named.st_ino || open.st_dev != named.st_dev);
}

// Reports the first failure.
void TraceWriter::stop(const std::string& reason) {
  failed_ = true;
  if (sink_) {
    sink_(LogLevel::kError, "trace.stop file=\"" + path_.string() + "\" reason=\"" + reason + "\"");
  }
  if (on_problem_) {
    try {
      on_problem_("the trace " + path_.string() + " is incomplete: " + reason);
    } catch (...) {  // it may be called anywhere
    }
  }
}

// The file describes its functions, so that readers can print functions that they do not know.
void TraceWriter::describe_functions() {
  for (const Row& row : abi::rows()) {
    std::vector<std::byte> payload;
    Encoder encoder(payload, RecordType::kFunction);
    encoder.number(static_cast<std::uint64_t>(row.function));
    encoder.text(row.table);
    encoder.text(row.name);
    const std::size_t count = row.argument_count - std::size_t{row.has_status() ? 1U : 0U};
    encoder.number(count);
    for (std::size_t i = 0; i < count; ++i) {
      encoder.byte(static_cast<std::uint8_t>(row.arguments[i].kind));
      encoder.byte(static_cast<std::uint8_t>(row.arguments[i].makes));
      encoder.text(row.arguments[i].name);
    }
    add(payload);
  }
}

std::uint64_t TraceWriter::next_plugin() noexcept {
  const std::lock_guard lock(mutex_);
  return ++plugins_;
}

// A forked child shares the parent's file, so it must not write or wait for a lock.
bool TraceWriter::is_child() const noexcept {
  return ::getpid() != process_;
}

std::uint64_t TraceWriter::add(std::span<const std::byte> payload) noexcept {
  if (is_child()) {
    return 0;
  }
  const std::lock_guard lock(mutex_);
  append(payload, {});
  return payload[0] == static_cast<std::byte>(RecordType::kCall) ? calls_++ : calls_;
}

void TraceWriter::log(std::uint64_t plugin, std::int32_t level, std::string_view text) noexcept {
  try {
    std::vector<std::byte> payload;
    Encoder to(payload, RecordType::kLog);
    to.numbers({plugin, thread_number(), now_ns() - start_ns_, static_cast<std::uint32_t>(level)});
    to.text(text);
    add(payload);
  } catch (const std::bad_alloc&) {  // the line is lost
  }
}

void TraceWriter::add_blob(const Hash& hash, const void* memory, std::uint64_t byte_count) noexcept {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30U;
  if (is_child() || byte_count > kMostBytes) {
    return;  // the hash alone is recorded
  }
  const std::lock_guard lock(mutex_);
  try {
    if (blobs_.insert(hash).second) {
      std::vector<std::byte> head;
      Encoder encoder(head, RecordType::kBlob);
      encoder.hash(hash);
      encoder.number(byte_count);
      append(head, {static_cast<const std::byte*>(memory), static_cast<std::size_t>(byte_count)});
    }
  } catch (const std::bad_alloc&) {
    ++lost_;
  }
}

// One record: its head, `payload` and `rest`.
void TraceWriter::append(std::span<const std::byte> payload, std::span<const std::byte> rest) noexcept {
  constexpr std::size_t kMostKept = std::size_t{1} << 20U;  // bytes of memory between two records
  try {
    record_.resize(kRecordHead);
    record_.insert(record_.end(), payload.begin(), payload.end());
    record_.insert(record_.end(), rest.begin(), rest.end());
    const auto count = static_cast<std::uint32_t>(record_.size() - kRecordHead);
    const std::uint32_t check = checksum_of(record_.data() + kRecordHead, count);
    std::memcpy(record_.data(), &count, sizeof(count));
    std::memcpy(record_.data() + sizeof(count), &check, sizeof(check));
    write(record_);
    if (record_.capacity() > kMostKept) {
      record_ = {};
    }
  } catch (const std::bad_alloc&) {
    ++lost_;
  }
}

void TraceWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty() && !failed_) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      stop(std::generic_category().message(errno));
    }
    bytes = bytes.subspan(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
}

}  // namespace yoke::layers
