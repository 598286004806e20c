// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/waits.cpp: states and waits of streams and events.
#include <algorithm>

#include "timeline.h"

namespace yoke::gpu {

bool poll_until(std::uint64_t timeout_ns, const std::function<bool()>& is_done) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kSpin = std::chrono::microseconds(200);
  constexpr std::chrono::nanoseconds kLongestPause = std::chrono::microseconds(200);
  constexpr std::uint64_t kTenYears = 315'360'000'000'000'000;  // more could overflow the clock
  if (is_done()) {
    return true;
  }
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end = begin + std::chrono::nanoseconds(std::min(timeout_ns, kTenYears));
  for (Clock::time_point now = begin; now < end; now = Clock::now()) {
    if (now - begin < kSpin) {
      std::this_thread::yield();
    } else {  // at most an eighth longer than the work
      std::this_thread::sleep_for(std::min({(now - begin) / 8, kLongestPause, end - now}));
    }
    if (is_done()) {
      return true;
    }
  }
  return is_done();
}

void throw_late(std::uint64_t timeout_ns) {
  throw sdk::Failure(YOKE_STATUS_DEADLINE_EXCEEDED,
                     "queued work did not finish within " + std::to_string(timeout_ns / 1'000'000) + " ms");
}

bool Timeline::is_quiescent(const Function<int(void*)>& query, void* handle, std::uint64_t number) {
  try {
    if (!context_->lost()) {
      const Current current = context_->try_enter();  // cuStreamQuery needs one
      return context_->is_done(query, handle);
    }
  } catch (const sdk::Failure& failure) {
    if (failure.code() != YOKE_STATUS_DEVICE_LOST) {
      throw;
    }
  }
  const std::lock_guard lock(mutex_);
  return !has_calls_before(number);
}

std::int32_t Timeline::state() {
  if (!is_quiescent(context_->driver().stream_query, stream_, kAllCalls)) {
    return YOKE_STATE_PENDING;
  }
  return has_failed_ ? YOKE_STATE_FAILED : YOKE_STATE_DONE;
}

// Null if the driver cannot record an event now.
std::unique_ptr<Point> Timeline::now() {
  try {
    if (const Current current = context_->try_enter()) {
      auto point = std::make_unique<Point>(shared_from_this(), context_->take_event(false), false, 0);
      context_->call(context_->driver().event_record, point->event_, stream_);
      return point;
    }
  } catch (const sdk::Failure&) {  // a wait must not end with an error before the work has ended
  }
  return nullptr;
}

void Timeline::wait(std::uint64_t timeout_ns) {
  const Driver& driver = context_->driver();
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = posted_ + 1;
  }
  if (!is_quiescent(driver.stream_query, stream_, number)) {
    // Work that other threads queue during the wait does not extend it.
    const std::unique_ptr<Point> last = timeout_ns != 0 ? now() : nullptr;
    const auto is_done = [&] {
      return last != nullptr ? is_quiescent(driver.event_query, last->event_, number)
                             : is_quiescent(driver.stream_query, stream_, number);
    };
    if (timeout_ns == 0 || !poll_until(timeout_ns, is_done)) {
      throw_late(timeout_ns);
    }
  }
  const std::lock_guard lock(mutex_);
  if (failure_) {
    throw sdk::Failure(*failure_);
  }
}

Point::~Point() {
  timeline_->context().give_event(event_, timing_);
}

bool Point::is_quiescent() {
  if (is_done_.load(std::memory_order_acquire)) {
    return true;
  }
  if (!timeline_->is_quiescent(timeline_->context().driver().event_query, event_, number_)) {
    return false;
  }
  timeline_->note_done(number_);
  is_done_.store(true, std::memory_order_release);
  return true;
}

std::int32_t Point::state() {
  if (!is_quiescent()) {
    return YOKE_STATE_PENDING;
  }
  return timeline_->failure_at(number_) ? YOKE_STATE_FAILED : YOKE_STATE_DONE;
}

void Point::wait(std::uint64_t timeout_ns) {
  if (!poll_until(timeout_ns, [&] { return is_quiescent(); })) {
    throw_late(timeout_ns);
  }
  if (const auto failure = timeline_->failure_at(number_)) {
    throw sdk::Failure(*failure);
  }
}

std::uint64_t Point::elapsed_since(const Point& start) const {
  Context& context = timeline_->context();
  const Current current = context.enter();
  float milliseconds = 0;
  context.call(context.driver().event_elapsed, &milliseconds, start.event_, event_);
  return static_cast<std::uint64_t>(std::max(0.0, static_cast<double>(milliseconds) * 1e6));
}

std::uint64_t Point::time_ns() const {
  if (anchor_ == nullptr) {
    throw sdk::Failure(YOKE_STATUS_UNAVAILABLE,
                       "the device was too busy to compare its clock with the host's; profile again");
  }
  Context& context = timeline_->context();
  const Current current = context.enter();
  float milliseconds = 0;
  context.call(context.driver().event_elapsed, &milliseconds, anchor_->event, event_);
  return anchor_->host_ns +
         static_cast<std::uint64_t>(std::max(0.0, static_cast<double>(milliseconds) * 1e6));
}

}  // namespace yoke::gpu
