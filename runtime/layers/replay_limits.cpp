// SPDX-License-Identifier: Apache-2.0
// runtime/layers/replay_limits.cpp: what a trace may ask for: it comes from somewhere, and runs here.
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "layers/replay.h"

namespace yoke::layers {
namespace {

using F = Function;

constexpr std::uint64_t kMostDevices = 64;
constexpr std::uint64_t kBytesPerLetter = 64;  // of a program that was compiled or parsed

std::string milliseconds(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) + " ms";
}

std::string call_text(const TraceRecord& record) {
  return "the replay ends at call #" + std::to_string(record.number) + ", " + record.function->name + ": ";
}

}  // namespace

// Of a container's memory where it is in one (version 2 of control groups), else of the machine's.
std::uint64_t usual_memory_limit() {
  const auto pages = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 0L));
  std::uint64_t most = pages * static_cast<std::uint64_t>(std::max(::sysconf(_SC_PAGESIZE), 0L));
  std::uint64_t allowed = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> allowed) {  // "max" is no number
    most = std::min(most, allowed);
  }
  constexpr std::uint64_t kUnknown = std::uint64_t{4} << 30U;
  return most == 0 ? kUnknown : most / 4 * 3;
}

std::uint64_t Replayer::most_wait() const {
  const std::uint64_t now = now_ns();
  const auto timeout = static_cast<std::uint64_t>(options_.timeout.count());
  return now < end_ns_ ? std::min(timeout, end_ns_ - now) : 0;
}

void Replayer::check_time() const {
  if (now_ns() >= end_ns_) {
    throw Error(ErrorCode::kDeadlineExceeded, "the replay ends at call #" + std::to_string(at_) +
                                                  ": it may take " + milliseconds(options_.time_limit) +
                                                  "; give it a larger time limit");
  }
}

bool Replayer::fits(std::uint64_t more) const {
  return more <= memory_limit_ && host_bytes_ + kept_bytes_ <= memory_limit_ - more;
}

void Replayer::check_memory(const TraceRecord& record, std::uint64_t more) {
  if (!fits(more) && kept_bytes_ != 0) {
    sync_all();  // their streams may have done with them long ago
  }
  if (!fits(more)) {
    throw Error(ErrorCode::kResourceExhausted,
                call_text(record) + "the trace wants " + std::to_string(more) +
                    " bytes of the host's memory beside " + std::to_string(host_bytes_ + kept_bytes_) +
                    ", and may have " + std::to_string(memory_limit_) + "; give it a larger memory limit");
  }
}

// False, as below: it is too much, and nobody had it when recorded.
bool Replayer::may_take(const TraceRecord& record, std::uint64_t more, Prepared& call) {
  if (record.code != YOKE_OK && !fits(more)) {
    call.why = "it wants more than the memory limit leaves, and failed when recorded";
    return false;
  }
  if (more != 0) {
    check_memory(record, more);
  }
  return true;
}

// False: it is not called, and `why` says the reason.
bool Replayer::may_make(const Row& row, const TraceRecord& record, Prepared& call) {
  if (row.function == F::buffer_destroy && bound_words_.count(call.words[0]) != 0) {
    call.why = "a routine that is bound to it is alive";
    return false;
  }
  if (!may_take(record, host_bytes(row, record, call), call)) {
    return false;
  }
  if (row.function == F::stream_create && streams_.size() >= options_.stream_limit) {
    throw Error(ErrorCode::kResourceExhausted, call_text(record) + "the trace wants more than " +
                                                   std::to_string(options_.stream_limit) +
                                                   " streams at once");
  }
  if (row.function == F::device_open && devices_ >= kMostDevices) {
    throw Error(ErrorCode::kResourceExhausted, call_text(record) + "the trace wants more than " +
                                                   std::to_string(kMostDevices) + " open devices at once");
  }
  return true;
}

std::uint64_t Replayer::program_bytes(std::uint64_t letters) {
  return kBytesPerLetter * letters;
}

// What the handle that the call makes takes of it as long as it lives, as far as a trace could make it much.
std::uint64_t Replayer::host_bytes(const Row& row, const TraceRecord& record, const Prepared& call) const {
  if (row.function == F::code_compile) {
    return program_bytes(record.values[1].byte_count);
  }
  if (row.function != F::buffer_create) {
    return 0;
  }
  const auto device = live_.find({record.plugin, record.values[0].number});
  const bool is_device_memory =
      call.words[2] == YOKE_MEMORY_DEVICE && device != live_.end() && !device->second.is_host_memory;
  return is_device_memory ? 0 : call.words[1];
}

bool Replayer::is_host_memory(const Prepared& open) const {
  yoke_device_info info{};
  info.struct_size = sizeof(info);
  detail::Status status;
  const std::uint64_t words[] = {open.words[0], open.words[1], reinterpret_cast<std::uint64_t>(&info),
                                 reinterpret_cast<std::uint64_t>(status.get())};
  return issue(F::device_describe, words) != YOKE_OK || info.host_visible != 0;
}

}  // namespace yoke::layers
