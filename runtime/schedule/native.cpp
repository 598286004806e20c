// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/native.cpp: streams that the backend brings: tickets become events of the backend's where
// somebody waits for them.
#include <algorithm>

#include "device/call.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

bool StreamState::wait_on_device(const Dependency& dependency, std::uint64_t ticket) {
  StreamState& other = *dependency.stream;
  if (other.has_failed(dependency.ticket)) {
    if (dependency.inherits) {
      inherit(ticket, other);
    }
    return dependency.inherits || other.is_complete(dependency.ticket);
  }
  if (!other.is_native_ || &other.backend() != &backend() || other.issued_.load() < dependency.ticket) {
    return false;
  }
  std::scoped_lock lock(issue_mutex_, other.issue_mutex_);
  const NativeEvent* event = other.event_for(dependency.ticket);
  if (event == nullptr) {
    return other.is_complete(dependency.ticket);
  }
  Status status;
  const std::int32_t code =
      attempt<&yoke_stream_api::stream_wait_event>(backend(), status, native_, event->event);
  if (code != YOKE_OK) {
    fail(ticket, code_of(code),
         make_error("stream '" + name + "'", "stream_wait_event", code, status).what());
  }
  return true;
}

// With issue_mutex_ held. Null: the stream is closed or failed, or every event has a waiter.
StreamState::NativeEvent* StreamState::event_for(std::uint64_t ticket) {
  NativeEvent* best = nullptr;
  NativeEvent* spare = nullptr;
  for (NativeEvent& event : events_) {
    if (event.event != nullptr && event.ticket >= ticket &&
        (best == nullptr || event.ticket < best->ticket)) {
      best = &event;
    }
    if (event.users == 0 && (spare == nullptr || event.ticket < spare->ticket)) {
      spare = &event;
    }
  }
  if (best != nullptr || spare == nullptr || native_ == nullptr) {
    return best;
  }
  // The oldest goes: whoever asks for it later gets a later one, which is as right and only less exact.
  destroy<&yoke_stream_api::event_destroy>(backend(), spare->event);
  *spare = {};
  Status status;
  const std::uint64_t issued = issued_.load();
  const std::int32_t code =
      attempt<&yoke_stream_api::event_record>(backend(), status, native_, &spare->event);
  if (code != YOKE_OK) {
    spare->event = nullptr;
    native_failed(code, status);
    constexpr std::uint64_t kOneSecond = 1'000'000'000;  // what is queued gets the time to leave the buffers
    attempt<&yoke_stream_api::stream_wait>(backend(), status, native_, kOneSecond);
    raise_to(completed_, issued);
    return nullptr;
  }
  spare->ticket = issued;
  return spare;
}

bool StreamState::wait_native(std::uint64_t ticket, std::chrono::nanoseconds slice) noexcept {
  NativeEvent* event = nullptr;
  {
    const std::lock_guard lock(issue_mutex_);
    event = event_for(ticket);
    if (event != nullptr) {
      ++event->users;
    }
  }
  if (event == nullptr) {
    if (!is_complete(ticket)) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // until another waiter leaves its event
    }
    return is_complete(ticket);
  }
  const std::uint64_t reached = event->ticket;
  Status status;
  const std::int32_t code = attempt<&yoke_stream_api::event_wait>(backend(), status, event->event,
                                                                  static_cast<std::uint64_t>(slice.count()));
  {
    const std::lock_guard lock(issue_mutex_);
    --event->users;
  }
  if (code == YOKE_DEADLINE_EXCEEDED) {
    return false;
  }
  if (code != YOKE_OK) {
    native_failed(code, status);
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

void StreamState::native_failed(std::int32_t code, const Status& status) noexcept {
  const std::string text = status.text().empty() ? "the plugin gave no reason" : std::string(status.text());
  fail(completed_.load() + 1, code_of(code),
       "stream '" + name + "': queued work failed: " + text + " (" + code_name(code_of(code)) + ")");
}

void StreamState::refresh() noexcept {
  if (!is_native_ || is_complete(last_ticket())) {
    return;
  }
  const std::lock_guard lock(issue_mutex_);
  if (native_ == nullptr) {
    return;
  }
  const std::uint64_t issued = issued_.load();
  Status status;
  for (NativeEvent& event : events_) {
    std::int32_t done = 0;
    if (event.event != nullptr && !is_complete(event.ticket) &&
        attempt<&yoke_stream_api::event_query>(backend(), status, event.event, &done) == YOKE_OK &&
        done != 0) {
      raise_to(completed_, event.ticket);
    }
  }
  std::int32_t done = 0;
  const std::int32_t code = attempt<&yoke_stream_api::stream_query>(backend(), status, native_, &done);
  if (code != YOKE_OK) {
    native_failed(code, status);  // a wait finds out when it is over
  } else if (done != 0) {
    raise_to(completed_, issued);
  }
  progress_.notify();
}

void StreamState::close_native() noexcept {
  // Its waiters hold this object but return within a slice of time.
  const Clock::time_point deadline = deadline_after(std::chrono::seconds(1));
  for (;;) {
    {
      const std::lock_guard lock(issue_mutex_);
      const bool has_users =
          std::any_of(events_.begin(), events_.end(), [](const NativeEvent& e) { return e.users != 0; });
      const bool is_idle = is_complete(last_ticket()) && stopped_.load();
      if (!has_users) {
        for (NativeEvent& event : events_) {
          destroy<&yoke_stream_api::event_destroy>(backend(), event.event);
          event = {};
        }
        if (is_idle) {
          destroy<&yoke_stream_api::stream_destroy>(backend(), native_);
        } else {
          backend().runtime->logger.log(
              LogLevel::kError,
              "stream.abandon stream=" + name + " reason=\"its work did not end; it stays open\"");
        }
        native_ = nullptr;
        return;
      }
    }
    if (Clock::now() >= deadline) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace yoke::detail
