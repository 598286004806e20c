// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/native.cpp: native streams. A ticket gets an event of the backend when a thread or stream
// waits for it. A wait of the backend that returns anything but DEADLINE_EXCEEDED, and a query that answers
// DONE or FAILED, mean that the work no longer uses memory (yoke/backend.h), so only these complete tickets.
#include <algorithm>
#include <new>

#include "device/call.h"
#include "device/native_handle.h"
#include "device/profile.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

// Keeps the backend's stream open while a thread uses it without holding issue_mutex_.
class StreamState::NativeUse {
 public:
  explicit NativeUse(StreamState& state) : state_(state) {
    const std::lock_guard lock(state_.native_mutex_);
    stream_ = state_.native_;
    state_.native_users_ += stream_ != nullptr ? 1 : 0;
  }
  ~NativeUse() {
    if (stream_ != nullptr) {
      const std::lock_guard lock(state_.native_mutex_);
      --state_.native_users_;
    }
  }
  NativeUse(const NativeUse&) = delete;
  NativeUse& operator=(const NativeUse&) = delete;

  yoke_stream* stream() const { return stream_; }  // null: closed

 private:
  StreamState& state_;
  yoke_stream* stream_;
};

void StreamState::open_native(std::int32_t priority) {
  const yoke_stream_args args = {sizeof(args), 0, priority, 0};
  call<&yoke_stream_api::stream_create>(*device, device->get(), &args, &native_);
  issued_work_.allocate();
  if (WorkProfile* const profile = device->profile()) {
    profile->name_stream(native_, name);
  }
}

bool StreamState::wait_on_device(const Dependency& dependency, std::uint64_t ticket) {
  StreamState& other = *dependency.stream;
  const bool is_issued = other.issued_.load() >= dependency.ticket;
  const auto handle_failure = [&] {  // returns whether nothing is left to wait for
    if (dependency.inherits) {
      inherit(ticket, other);
    }
    return dependency.inherits || other.is_complete(dependency.ticket);
  };
  if (other.has_failed(dependency.ticket)) {  // not earlier: work fails before it counts as issued
    try_refresh_native();
    return handle_failure();
  }
  if (!other.is_native_ || &other.backend() != &backend() || !is_issued) {
    return false;
  }
  std::scoped_lock lock(issue_mutex_, other.issue_mutex_);
  const NativeEvent* event = other.event_for(dependency.ticket);
  if (event == nullptr) {
    if (!other.has_failed(dependency.ticket)) {
      return other.is_complete(dependency.ticket);
    }
    if (!is_complete(last_ticket())) {
      query_native(native_);
    }
    return handle_failure();
  }
  Status status;
  const std::int32_t code =
      attempt<&yoke_stream_api::stream_wait_event>(backend(), status, native_, event->event);
  if (code != YOKE_STATUS_OK) {
    fail(ticket, code_of(code), [&]() -> std::string {
      return make_error(title(ticket), "stream_wait_event", code, status).what();
    });
  } else {
    issued_work_.add({ticket, dependency.stream, dependency.ticket});
  }
  return true;
}

// Precondition: issue_mutex_ is held. Returns null if the stream is closed or an event cannot be recorded,
// or if every event has a waiter.
StreamState::NativeEvent* StreamState::event_for(std::uint64_t ticket) {
  // From the newest event back. Most calls look at one, which matters with many streams: all 8 are 4 lines of cache.
  NativeEvent* best = nullptr;
  for (std::size_t i = 1; i <= events_.size(); ++i) {
    NativeEvent& event = events_[(next_event_ + events_.size() - i) % events_.size()];
    if (event.ticket < ticket) {  // an unused one has ticket 0
      break;
    }
    best = &event;
  }
  if (best != nullptr || native_ == nullptr || cannot_record_) {
    return best;
  }
  std::size_t place = next_event_;
  for (std::size_t i = 1; events_[place].users != 0; ++i) {
    if (i == events_.size()) {
      return nullptr;
    }
    place = (place + 1) % events_.size();
  }
  // Replaces the oldest event without a waiter. Later waits for its ticket use a later event, which is correct but less
  // exact.
  NativeEvent* const spare = &events_[place];
  destroy<&yoke_stream_api::event_destroy>(backend(), spare->event);
  *spare = {};
  Status status;
  const yoke_event_args args = {sizeof(args), 0};
  const std::uint64_t issued = issued_.load();
  const std::int32_t code =
      attempt<&yoke_stream_api::event_record>(backend(), status, native_, &args, &spare->event);
  if (code != YOKE_STATUS_OK) {
    // Without events, waits are for the whole stream. The abort makes its work finish soon. The work of a lost
    // device ends by itself, and other streams must inherit its error rather than that of an abort.
    spare->event = nullptr;
    cannot_record_ = true;
    native_failed(code, status, nullptr, "event_record");
    if (code != YOKE_STATUS_DEVICE_LOST) {
      abort_native();
    }
    return nullptr;
  }
  spare->ticket = issued;
  spare->order = next_order();
  next_event_ = (place + 1) % events_.size();
  return spare;
}

bool StreamState::wait_native(std::uint64_t ticket, std::chrono::nanoseconds slice) noexcept {
  const NativeUse use(*this);
  if (use.stream() == nullptr) {
    return is_complete(ticket);
  }
  NativeEvent* event = nullptr;
  std::uint64_t reached = 0;
  bool waits_for_stream = false;
  {
    const std::lock_guard lock(issue_mutex_);
    event = event_for(ticket);
    waits_for_stream = event == nullptr && cannot_record_;
    reached = event != nullptr ? event->ticket : issued_.load();
    if (event != nullptr) {
      ++event->users;
    }
  }
  if (event == nullptr && !waits_for_stream) {
    if (!is_complete(ticket)) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // until another waiter releases its event
    }
    return is_complete(ticket);
  }
  Status status;
  NativeEvent first_failed;
  const auto timeout_ns = static_cast<std::uint64_t>(slice.count());
  const std::int32_t code =
      waits_for_stream ? attempt<&yoke_stream_api::stream_wait>(backend(), status, use.stream(), timeout_ns)
                       : attempt<&yoke_stream_api::event_wait>(backend(), status, event->event, timeout_ns);
  {
    const std::lock_guard lock(issue_mutex_);
    if (event != nullptr) {
      --event->users;
    }
    if (code != YOKE_STATUS_OK && code != YOKE_STATUS_DEADLINE_EXCEEDED) {
      const NativeEvent* const failed = query_events();  // earlier work may have succeeded
      first_failed = failed != nullptr ? *failed : event != nullptr ? *event : NativeEvent();
    }
  }
  if (code == YOKE_STATUS_DEADLINE_EXCEEDED) {
    return false;
  }
  if (code != YOKE_STATUS_OK) {
    native_failed(code, status, &first_failed);
  }
  raise_to(completed_, reached);
  progress_.notify();
  return true;
}

void StreamState::mark() noexcept {
  const std::uint64_t last = last_ticket();
  if (is_native_ && !is_complete(last) && issued_.load() == last) {
    const std::lock_guard lock(issue_mutex_);
    event_for(last);
  }
}

void StreamState::native_failed(std::int32_t code, const Status& status, const NativeEvent* event,
                                const char* call) noexcept {
  const std::uint64_t first = completed_.load() + 1;
  std::string sentence;
  try {
    const std::string text = status.text().empty() ? "the plugin gave no reason" : std::string(status.text());
    const std::string member = code == YOKE_STATUS_ABORTED ? group_failure() : std::string();
    const bool is_known = event != nullptr && event->ticket != 0;
    const std::string work = issued_work_.text(first, is_known ? event->ticket : issued_.load());
    const std::string after = work.empty() || *call == '\0' ? "" : " after ";
    sentence = title(first) + ": " + (work.empty() && *call == '\0' ? "queued work" : call + after + work) +
               " failed: " + text + " (" + code_name(code_of(code)) + ")" +
               (member.empty() ? "" : ": " + member);
  } catch (const std::exception&) {  // out of memory
  }
  set_failed(first, code_of(code), std::move(sentence), event != nullptr ? event->order : 0);
}

// A stream that waits for one of a lost device fails with DEVICE_LOST too, but new streams of its device work.
bool StreamState::is_device_lost() const noexcept {
  if (!is_native_ || device->is_lost()) {
    return true;
  }
  Status status;
  yoke_stream* probe = nullptr;
  const yoke_stream_args args = {sizeof(args), 0, 0, 0};
  if (attempt<&yoke_stream_api::stream_create>(backend(), status, device->get(), &args, &probe) !=
      YOKE_STATUS_OK) {
    return true;
  }
  const std::int32_t code =
      attempt<&yoke_stream_api::stream_wait>(backend(), status, probe, std::uint64_t{0});
  destroy<&yoke_stream_api::stream_destroy>(backend(), probe);
  return code != YOKE_STATUS_OK;
}

// Precondition: issue_mutex_ is held. Completes the tickets of events that are done. Returns the first
// failed event whose ticket is not complete.
const StreamState::NativeEvent* StreamState::query_events() noexcept {
  const NativeEvent* failed = nullptr;
  Status status;
  for (const NativeEvent& event : events_) {
    std::int32_t state = YOKE_STATE_PENDING;
    if (is_complete(event.ticket) ||  // an unused one has ticket 0
        attempt<&yoke_stream_api::event_query>(backend(), status, event.event, &state) != YOKE_STATUS_OK) {
      continue;
    }
    if (state == YOKE_STATE_DONE) {
      raise_to(completed_, event.ticket);
    } else if (state == YOKE_STATE_FAILED && (failed == nullptr || event.ticket < failed->ticket)) {
      failed = &event;
    }
  }
  return failed;
}

void StreamState::refresh() noexcept {
  refresh_native();
  if (!is_complete(last_ticket())) {
    poll_groups();
  }
}

void StreamState::refresh_native() noexcept {
  if (!is_native_ || is_complete(last_ticket())) {
    return;
  }
  if (const NativeUse use(*this); use.stream() != nullptr) {
    const std::lock_guard lock(issue_mutex_);
    query_native(use.stream());
  }
}

void StreamState::try_refresh_native() noexcept {
  if (!is_native_ || is_complete(last_ticket())) {
    return;
  }
  const NativeUse use(*this);
  const std::unique_lock lock(issue_mutex_, std::try_to_lock);
  if (use.stream() != nullptr && lock.owns_lock()) {
    query_native(use.stream());
  }
}

void StreamState::query_native(yoke_stream* stream) noexcept {
  const std::uint64_t issued = issued_.load();
  Status status;
  if (const NativeEvent* failed = query_events()) {  // the wait does not block, and returns the error
    const std::int32_t code =
        attempt<&yoke_stream_api::event_wait>(backend(), status, failed->event, std::uint64_t{0});
    native_failed(code, status, failed);
    raise_to(completed_, failed->ticket);
  }
  std::int32_t state = YOKE_STATE_PENDING;
  const std::int32_t code = attempt<&yoke_stream_api::stream_query>(backend(), status, stream, &state);
  if (code != YOKE_STATUS_OK) {
    native_failed(code, status, nullptr, "stream_query");  // a wait determines when the work is complete
  } else if (state != YOKE_STATE_PENDING) {
    if (state == YOKE_STATE_FAILED) {
      native_failed(attempt<&yoke_stream_api::stream_wait>(backend(), status, stream, std::uint64_t{0}),
                    status);
    }
    raise_to(completed_, issued);
  }
  progress_.notify();
}

NativeHandle StreamState::native_handle() {
  const NativeUse use(*this);
  if (use.stream() == nullptr) {
    throw Error(ErrorCode::kUnimplemented,
                "stream '" + name + "' runs on a thread of yoke, so it has no native handle");
  }
  yoke_native_info info{};
  info.struct_size = sizeof(info);
  call<&yoke_memory_api::stream_native>(*device, use.stream(), &info);
  return to_native_handle(info);
}

void StreamState::abort_native() noexcept {
  const NativeUse use(*this);
  Status status;
  if (use.stream() == nullptr) {
    return;
  }
  if (offers<&yoke_stream_api::stream_abort>(backend())) {
    attempt<&yoke_stream_api::stream_abort>(backend(), status, use.stream());
  } else if (offers<&yoke_stream_api::device_abort>(backend())) {
    attempt<&yoke_stream_api::device_abort>(backend(), status, device->get());
  }
}

void StreamState::close_native() noexcept {
  const auto has_users = [this] {
    const std::lock_guard lock(native_mutex_);
    return native_users_ != 0;
  };
  // Waiting threads keep this object alive and return soon.
  const Clock::time_point deadline = deadline_after(std::chrono::seconds(1));
  while (has_users() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const bool is_idle = is_complete(last_ticket()) && state_.load() == kStopped;
  const std::scoped_lock lock(issue_mutex_, native_mutex_);
  if (WorkProfile* const profile = device->profile()) {
    profile->fetch();  // another stream may get this one's handle
  }
  if (is_idle && native_users_ == 0) {
    for (NativeEvent& event : events_) {
      destroy<&yoke_stream_api::event_destroy>(backend(), event.event);
      event = {};
    }
    destroy<&yoke_stream_api::stream_destroy>(backend(), native_);
    native_ = nullptr;
  } else {
    // Work may still use memory and call back, so leak the backend's stream and this object.
    (void)new (std::nothrow) std::shared_ptr<StreamState>(weak_from_this().lock());
    backend().runtime->log_leak([&] {
      return "stream.abandon stream=\"" + name + "\" reason=\"its work did not finish; it stays open\"";
    });
  }
}

}  // namespace yoke::detail
