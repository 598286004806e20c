// SPDX-License-Identifier: Apache-2.0
// runtime/layers/trace_writer.cpp: a bounded buffer in front of a file that only grows.
#include "layers/trace_writer.h"

#include <fcntl.h>
#include <unistd.h>
#include <yoke/runtime/error.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "layers/layer.h"

namespace yoke::layers {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} * 1024;
constexpr std::uint64_t kOldest = 1'000'000'000;  // ns: a record takes along what waits for longer
constexpr std::size_t kMostBlobs = 1'000'000;     // remembered; more are written again
constexpr std::uint64_t kMostBlobBytes = std::uint64_t{1} << 30U;

// The paths that this process writes to: two runtimes with one variable must not write to one file.
struct Paths {
  std::mutex mutex;
  std::set<std::filesystem::path> taken;
};
Paths& paths() {
  static Paths* const only = new Paths;
  return *only;
}

std::filesystem::path take_path(const std::filesystem::path& wanted) {
  Paths& all = paths();
  const std::lock_guard lock(all.mutex);
  std::filesystem::path path = wanted;
  for (int number = 2; !all.taken.insert(path).second; ++number) {
    path = wanted;
    path.replace_extension("." + std::to_string(number) + wanted.extension().string());
  }
  return path;
}

void release_path(const std::filesystem::path& path) {
  Paths& all = paths();
  const std::lock_guard lock(all.mutex);
  all.taken.erase(path);
}

}  // namespace

std::uint64_t thread_number() noexcept {
  static std::atomic<std::uint64_t> count{0};
  thread_local const std::uint64_t mine = ++count;
  return mine;
}

std::shared_ptr<TraceWriter> TraceWriter::open(std::filesystem::path path, bool with_data, LogSink sink) {
  if (path.empty()) {
    path = "yoke-trace-" + std::to_string(::getpid()) + ".yoketrace";
  }
  path = take_path(std::filesystem::absolute(path));
  constexpr mode_t kOwnerOnly = 0600;  // contents may be private
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kOwnerOnly);
  if (file < 0) {
    const int why = errno;
    release_path(path);
    throw Error(why == EACCES || why == EROFS ? ErrorCode::kPermissionDenied : ErrorCode::kNotFound,
                "the trace file " + path.string() + " cannot be made: " +
                    std::generic_category().message(why) + "; name another one in YOKE_TRACE_FILE");
  }
  return std::shared_ptr<TraceWriter>(new TraceWriter(file, std::move(path), with_data, std::move(sink)));
}

TraceWriter::TraceWriter(int file, std::filesystem::path path, bool with_data, LogSink sink)
    : file_(file),
      path_(std::move(path)),
      with_data_(with_data),
      sink_(std::move(sink)),
      start_ns_(now_ns()),
      process_(::getpid()) {
  TraceHeader header{};
  std::memcpy(header.magic, kTraceMagic, sizeof(header.magic));
  header.version = kTraceVersion;
  header.flags = with_data ? kTraceHasData : 0;
  header.unix_ns = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                  std::chrono::system_clock::now().time_since_epoch())
                                                  .count());
  header.process = static_cast<std::uint32_t>(process_);
  buffer_.reserve(kBufferBytes);
  const auto bytes = std::as_bytes(std::span(&header, 1));
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  describe_functions();
  write_out();
  if (sink_) {
    sink_(LogLevel::kInfo, "trace.open file=\"" + path_.string() + "\" data=" + (with_data ? "1" : "0"));
  }
}

TraceWriter::~TraceWriter() {
  if (!is_child()) {
    std::vector<std::byte> payload;
    Encoder end(payload, RecordType::kEnd);
    end.number(calls_);
    end.number(lost_);
    add(payload);
    flush();
    release_path(path_);
  }
  ::close(file_);
}

// A file says for itself what its calls are.
void TraceWriter::describe_functions() {
  for (const Row& row : rows()) {
    std::vector<std::byte> payload;
    Encoder encoder(payload, RecordType::kFunction);
    encoder.number(static_cast<std::uint64_t>(row.function));
    encoder.text(row.table);
    encoder.text(row.name);
    const bool has_status = row.arguments[row.argument_count - 1].kind == Kind::kStatus;
    const std::size_t count = row.argument_count - std::size_t{has_status ? 1U : 0U};
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

// A forked child has the parent's buffer, and not its file: it writes nothing, and waits for no lock.
bool TraceWriter::is_child() const noexcept {
  return ::getpid() != process_;
}

std::uint64_t TraceWriter::add(std::span<const std::byte> payload, Write when) noexcept {
  if (is_child()) {
    return 0;
  }
  const std::lock_guard lock(mutex_);
  const bool is_call = payload[0] == static_cast<std::byte>(RecordType::kCall);
  const std::uint64_t number = calls_;
  try {
    append(payload, {});
    calls_ += is_call ? 1 : 0;
    if (when == Write::kNow) {
      write_out();
    }
  } catch (...) {
    ++lost_;
  }
  return number;
}

void TraceWriter::log(std::uint64_t plugin, std::int32_t level, std::string_view text) noexcept {
  try {
    std::vector<std::byte> payload;
    Encoder to(payload, RecordType::kLog);
    to.number(plugin);
    to.number(thread_number());
    to.number(now_ns() - start_ns_);
    to.number(static_cast<std::uint32_t>(level));
    to.text(text);
    add(payload);
  } catch (...) {  // out of memory
    if (!is_child()) {
      const std::lock_guard lock(mutex_);
      ++lost_;
    }
  }
}

void TraceWriter::add_blob(const Hash& hash, const void* memory, std::uint64_t byte_count) noexcept {
  if (is_child() || byte_count > kMostBlobBytes) {
    return;  // the hash is there
  }
  const std::lock_guard lock(mutex_);
  try {
    if (blobs_.size() < kMostBlobs && !blobs_.insert(hash).second) {
      return;
    }
    std::vector<std::byte> head;
    Encoder encoder(head, RecordType::kBlob);
    encoder.hash(hash);
    encoder.number(byte_count);
    append(head, {static_cast<const std::byte*>(memory), static_cast<std::size_t>(byte_count)});
  } catch (...) {
    ++lost_;
  }
}

// One record, in two parts so that contents are not copied together with their head first.
void TraceWriter::append(std::span<const std::byte> head, std::span<const std::byte> rest) {
  if (failed_) {
    ++lost_;
    return;
  }
  const std::size_t begin = buffer_.size();
  buffer_.resize(begin + kRecordHead);
  buffer_.insert(buffer_.end(), head.begin(), head.end());
  buffer_.insert(buffer_.end(), rest.begin(), rest.end());
  const std::size_t size = buffer_.size() - begin - kRecordHead;
  const auto count = static_cast<std::uint32_t>(size);
  const auto check = static_cast<std::uint32_t>(hash_of(buffer_.data() + begin + kRecordHead, size));
  std::memcpy(buffer_.data() + begin, &count, sizeof(count));
  std::memcpy(buffer_.data() + begin + sizeof(count), &check, sizeof(check));
  const std::uint64_t now = now_ns();
  if (buffer_.size() >= kBufferBytes || now - written_ns_ > kOldest) {
    write_out();
    written_ns_ = now;
  }
}

void TraceWriter::write_out() noexcept {
  std::span<const std::byte> left = buffer_;
  while (!left.empty() && !failed_) {
    const ssize_t written = ::write(file_, left.data(), left.size());
    if (written < 0 && errno != EINTR) {
      failed_ = true;
      if (sink_) {
        sink_(LogLevel::kError, "trace.stop file=\"" + path_.string() + "\" reason=\"" +
                                    std::generic_category().message(errno) + "\"");
      }
    }
    left = left.subspan(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
  buffer_.clear();
  if (buffer_.capacity() > 4 * kBufferBytes) {
    buffer_.shrink_to_fit();  // a large blob went through
  }
}

void TraceWriter::flush() noexcept {
  if (!is_child()) {
    const std::lock_guard lock(mutex_);
    write_out();
  }
}

}  // namespace yoke::layers
