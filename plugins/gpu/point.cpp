// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/point.cpp: states and waits of events.
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

Point::~Point() {
  timeline_->context().give_event(event_, timing_);
}

bool Point::is_quiescent() {
  if (is_done_.load(std::memory_order_acquire)) {
    return true;
  }
  Context& context = timeline_->context();
  try {
    if (!context.lost() && !context.is_done(context.driver().event_query, event_)) {
      return false;
    }
  } catch (const sdk::Failure& failure) {
    if (failure.code() != YOKE_STATUS_DEVICE_LOST) {
      throw;
    }
    return true;
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
