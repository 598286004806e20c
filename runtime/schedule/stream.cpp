// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/stream.cpp: the public calls of streams and events.
// Arguments are checked before anything is queued.
#include <yoke/runtime/stream.h>

#include <algorithm>
#include <cstring>

#include "device/call.h"
#include "schedule/queue_copies.h"
#include "schedule/range.h"
#include "schedule/stream_state.h"

namespace yoke {

namespace {

using detail::Access;
using detail::Command;
using detail::CommandKind;
using detail::refuse;
using detail::StreamState;

void check_range(const StreamState& state, const char* what, const BufferView& view) {
  if (view.buffer == nullptr) {
    refuse(state, ErrorCode::kInvalidArgument, what, "the buffer is null");
  }
  if (!detail::is_in_range(view)) {
    refuse(state, ErrorCode::kOutOfRange, what, detail::range_text(view));
  }
}

void check_view(const StreamState& state, const char* what, const BufferView& view) {
  check_range(state, what, view);
  if (!state.reaches(*view.buffer)) {
    refuse(state, ErrorCode::kInvalidArgument, what,
           "the buffer is on '" + view.buffer->device()->name() + "'; use a stream of that device");
  }
}

void check_host(const StreamState& state, const char* what, const void* memory, std::uint64_t byte_count) {
  if (memory == nullptr && byte_count != 0) {
    refuse(state, ErrorCode::kInvalidArgument, what, "the host pointer is null");
  }
}

Access access_of(const BufferView& view, bool writes) {
  return {&view.buffer->hazards(), view.offset, view.offset + view.byte_count, !writes, writes};
}

void set_label(Command& command, std::string_view label) {
  const std::size_t length = std::min(label.size(), command.label.size() - 1);
  std::copy_n(label.data(), length, command.label.begin());
  command.label[length] = '\0';
}

}  // namespace

namespace detail {

void queue_from_host(StreamState& state, const BufferView& dst, const void* src, std::string_view label) {
  check_view(state, "from_host", dst);
  check_host(state, "from_host", src, dst.byte_count);
  if (dst.byte_count == 0) {
    return;
  }
  const Access access = access_of(dst, true);
  state.begin({&access, 1}, 1);
  state.emit([&](Command& command) {
    command.kind = CommandKind::kFromHost;
    command.dst = dst.buffer->get();
    command.dst_offset = dst.offset;
    command.from = src;
    command.byte_count = dst.byte_count;
    set_label(command, label);
  });
}

void queue_to_host(StreamState& state, void* dst, const BufferView& src, std::string_view label) {
  check_view(state, "to_host", src);
  check_host(state, "to_host", dst, src.byte_count);
  if (src.byte_count == 0) {
    return;
  }
  const Access access = access_of(src, false);
  state.begin({&access, 1}, 1);
  state.emit([&](Command& command) {
    command.kind = CommandKind::kToHost;
    command.src = src.buffer->get();
    command.src_offset = src.offset;
    command.to = dst;
    command.byte_count = src.byte_count;
    set_label(command, label);
  });
}

std::array<Access, 2> in_order(const Access& a, const Access& b) {
  return std::less<>()(b.hazards, a.hazards) ? std::array{b, a} : std::array{a, b};
}

bool is_staged(const Device& dst, const Device& src) {
  return dst.backend() != src.backend() ||
         !offers<&yoke_backend_api::device_to_device>(dst.backend()->state());
}

void queue_copy(StreamState& state, const BufferView& dst, const BufferView& src, std::string_view label) {
  check_range(state, "copy", dst);
  check_range(state, "copy", src);
  if (dst.byte_count != src.byte_count) {
    refuse(state, ErrorCode::kInvalidArgument, "copy",
           "the source has " + detail::counted(src.byte_count, "byte") + " and the destination " +
               std::to_string(dst.byte_count));
  }
  if (!state.reaches(*dst.buffer) && !state.reaches(*src.buffer)) {
    refuse(state, ErrorCode::kInvalidArgument, "copy",
           "neither '" + src.buffer->device()->name() + "' nor '" + dst.buffer->device()->name() +
               "' is the stream's device; use a stream of one of them");
  }
  if (dst.buffer == src.buffer && dst.offset < src.offset + src.byte_count &&
      src.offset < dst.offset + dst.byte_count) {
    refuse(state, ErrorCode::kInvalidArgument, "copy", "source and destination overlap");
  }
  if (dst.byte_count == 0) {
    return;
  }
  if (is_staged(*dst.buffer->device(), *src.buffer->device())) {
    state.stage(dst, src);
    return;
  }
  state.begin(in_order(access_of(src, false), access_of(dst, true)), 1);
  state.emit([&](Command& command) {
    command.kind = CommandKind::kDeviceToDevice;
    command.dst = dst.buffer->get();
    command.dst_offset = dst.offset;
    command.src = src.buffer->get();
    command.src_offset = src.offset;
    command.byte_count = dst.byte_count;
    set_label(command, label);
  });
}

}  // namespace detail

bool Event::is_done() const {
  if (stream_ == nullptr) {
    return true;
  }
  stream_->refresh();
  if (!stream_->is_complete(ticket_)) {
    return false;
  }
  stream_->check_alive(ticket_);
  return true;
}

void Event::wait(std::chrono::nanoseconds timeout) const {
  if (stream_ != nullptr) {
    stream_->wait(ticket_, timeout);
  }
}

void Event::wait() const {
  if (stream_ != nullptr) {
    stream_->wait(ticket_, stream_->wait_timeout);
  }
}

Stream::Stream(std::shared_ptr<Device> device, std::string name, std::int32_t priority)
    : device_(std::move(device)), name_(std::move(name)), priority_(priority), state_(open(*this)) {}

Stream::~Stream() {
  state_->close();
}

std::shared_ptr<StreamState> Stream::open(const Stream& stream) {
  auto state = std::make_shared<StreamState>(stream.device_, stream.name_);
  try {
    state->open(stream.priority_);
  } catch (...) {
    state->close();
    throw;
  }
  return state;
}

std::shared_ptr<Stream> Stream::create(std::shared_ptr<Device> device, std::string name,
                                       std::int32_t priority) {
  if (device == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "Stream::create: the device is null");
  }
  if (name.empty()) {
    name = device->name() + "/stream" + std::to_string(device->next_stream_number());
  }
  std::shared_ptr<Stream> stream(new Stream(std::move(device), std::move(name), priority));
  stream->device()->backend()->state().runtime->add_stream(stream);
  return stream;
}

const std::shared_ptr<Device>& Stream::device() const {
  return device_;
}
std::uint64_t Stream::id() const {
  return state_->id;
}
const std::string& Stream::name() const {
  return name_;
}

void Stream::from_host(const BufferView& dst, const void* src) {
  detail::queue_from_host(*state_, dst, src, {});
}
void Stream::to_host(void* dst, const BufferView& src) {
  detail::queue_to_host(*state_, dst, src, {});
}
void Stream::copy(const BufferView& dst, const BufferView& src) {
  detail::queue_copy(*state_, dst, src, {});
}

void Stream::fill(const BufferView& dst, const void* pattern, std::uint32_t pattern_byte_count) {
  check_view(*state_, "fill", dst);
  check_host(*state_, "fill", pattern, pattern_byte_count);
  const bool is_supported = pattern_byte_count == 1 || pattern_byte_count == 2 || pattern_byte_count == 4 ||
                            pattern_byte_count == 8;
  if (!is_supported || dst.byte_count % pattern_byte_count != 0) {
    refuse(*state_, ErrorCode::kInvalidArgument, "fill",
           "a " + std::to_string(pattern_byte_count) + "-byte pattern cannot fill " +
               detail::counted(dst.byte_count, "byte") +
               "; use a pattern of 1, 2, 4 or 8 bytes that divides the range");
  }
  if (dst.byte_count == 0) {
    return;
  }
  const Access access = access_of(dst, true);
  state_->begin({&access, 1}, 1);
  state_->emit([&](Command& command) {
    command.kind = CommandKind::kFill;
    command.dst = dst.buffer->get();
    command.dst_offset = dst.offset;
    command.byte_count = dst.byte_count;
    command.pattern_byte_count = static_cast<std::uint8_t>(pattern_byte_count);
    std::memcpy(command.pattern.data(), pattern, pattern_byte_count);
  });
}

void Stream::join(const BufferView& view) {
  check_view(*state_, "join", view);
  const std::uint64_t end = view.offset + view.byte_count + view.padding;
  if (end == view.offset) {
    return;
  }
  const Access access = {&view.buffer->hazards(), view.offset, end, true, true, nullptr, true};
  state_->begin({&access, 1}, 1);
  state_->emit([](Command& command) {
    command.kind = CommandKind::kWait;
    command.other.reset();
  });
}

void Stream::host_callback(std::function<void(ErrorCode)> callback) {
  if (!callback) {
    refuse(*state_, ErrorCode::kInvalidArgument, "host_callback", "the callback is empty");
  }
  state_->queue_callback(std::move(callback));
}

Event Stream::record() {
  Event event;
  event.stream_ = state_;
  event.ticket_ = state_->last_ticket();
  state_->mark();
  return event;
}

void Stream::wait_for(const Event& event) {
  if (event.stream_ == nullptr || event.stream_ == state_) {
    return;
  }
  state_->begin({}, 1);
  state_->depend({event.stream_, event.ticket_, true});
  state_->emit([](Command& command) { command.kind = CommandKind::kWait; });
}

void Stream::begin_step(std::int64_t number) {
  state_->begin_step(number);
}

bool Stream::is_idle() const {
  state_->refresh();
  const std::uint64_t last = state_->last_ticket();
  if (!state_->is_complete(last)) {
    return false;
  }
  state_->check_alive(state_->has_failed() ? std::numeric_limits<std::uint64_t>::max() : last);
  return true;
}

void Stream::wait(std::chrono::nanoseconds timeout) const {
  state_->wait(state_->last_ticket(), timeout);
  if (state_->has_failed()) {
    throw state_->error();  // aborted while idle
  }
}

void Stream::wait() const {
  wait(state_->wait_timeout);
}

void Stream::abort() {
  state_->abort(state_->wait_timeout);
}

void Stream::renew() {
  StreamState& old = *state_;
  old.refresh();
  if (!old.wait_complete(old.last_ticket(),
                         std::min(detail::deadline_after(old.wait_timeout), old.last_deadline()))) {
    old.note_late();
    refuse(old, ErrorCode::kDeadlineExceeded, "renew",
           "its work has not ended" + old.activity_text() + "; abort the stream, or wait longer");
  }
  if (device_->is_lost()) {
    refuse(old, ErrorCode::kDeviceLost, "renew", "device '" + device_->name() + "' was lost; reopen it");
  }
  std::shared_ptr<StreamState> state = open(*this);
  state->merge_buffer = std::move(old.merge_buffer);  // transfers and routines are linked with it
  state_.swap(state);
  state->close();
}

void Stream::finish(std::span<const std::shared_ptr<Stream>> streams) noexcept {
  using detail::Clock;
  Clock::time_point deadline = Clock::time_point::max();
  bool is_late = false;
  for (const auto& stream : streams) {
    if (stream == nullptr) {
      continue;
    }
    StreamState& state = *stream->state_;
    state.refresh();
    deadline = std::min({deadline, detail::deadline_after(state.wait_timeout), state.last_deadline()});
  }
  for (const auto& stream : streams) {
    is_late =
        (stream != nullptr && !stream->state_->wait_complete(stream->state_->last_ticket(), deadline)) ||
        is_late;
  }
  for (const auto& stream : streams) {
    if (is_late && stream != nullptr) {
      stream->state_->abort(std::chrono::seconds(1));
    }
  }
}

NativeHandle Stream::native() const {
  return state_->native_handle();
}

}  // namespace yoke
