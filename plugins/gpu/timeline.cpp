// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/timeline.cpp: states, failures and waits of streams and events.
#include "timeline.h"

#include <yoke/sdk/worker_stream.h>

#include <algorithm>

namespace yoke::gpu {

bool poll_until(std::uint64_t timeout_ns, const std::function<bool()>& is_done) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kSpin = std::chrono::microseconds(200);
  constexpr std::chrono::nanoseconds kLongestPause = std::chrono::microseconds(200);
  constexpr std::uint64_t kTenYears = 315'360'000'000'000'000;  // now plus more would overflow
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

namespace {

[[noreturn]] void throw_late(std::uint64_t timeout_ns) {
  throw sdk::Failure(YOKE_STATUS_DEADLINE_EXCEEDED,
                     "queued work did not finish within " + std::to_string(timeout_ns / 1'000'000) + " ms");
}

}  // namespace

Point::~Point() {
  timeline_->context().give_event(event_, timing_);
}

bool Point::is_quiescent() {
  if (is_done_.load(std::memory_order_acquire)) {
    return true;
  }
  Context& context = timeline_->context();
  try {
    context.enter();
    if (!context.is_done(context.driver().event_query, event_)) {
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
  context.enter();
  float milliseconds = 0;
  context.call(context.driver().event_elapsed, &milliseconds, start.event_, event_);
  return static_cast<std::uint64_t>(std::max(0.0, static_cast<double>(milliseconds) * 1e6));
}

Timeline::Timeline(std::shared_ptr<Context> context, int priority, std::optional<sdk::Failure> failure)
    : context_(std::move(context)), failure_(std::move(failure)) {
  has_failed_ = failure_.has_value();
  failed_from_ = 1;
  context_->enter();
  context_->call(context_->driver().stream_create, &stream_, kNonBlockingStream, priority);
}

Timeline::~Timeline() {
  close();
}

void Timeline::close() noexcept {
  if (rescue_.joinable()) {
    rescue_.join();
  }
  std::deque<std::shared_ptr<Point>> points;  // destroyed without the lock
  std::list<Task> tasks;
  void* stream = nullptr;
  {
    const std::lock_guard lock(mutex_);
    points.swap(points_);
    tasks.swap(tasks_);
    std::swap(stream, stream_);
  }
  if (stream != nullptr && context_->try_enter()) {
    (void)context_->driver().stream_destroy(stream);
  }
}

void Timeline::note_done(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  done_ = std::max(done_, number);
}

std::optional<sdk::Failure> Timeline::failure_at(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return failure_ && number >= failed_from_ ? failure_ : std::nullopt;
}

void Timeline::run_task(void* task) {
  auto* one = static_cast<Task*>(task);
  if (!one->is_claimed.exchange(true)) {
    const std::shared_ptr<Timeline> timeline = one->timeline;  // the task may own the last reference
    timeline->run(*one);
    Task* const finished = one;
    std::list<Task> removed;  // destroyed without the lock
    const std::lock_guard lock(timeline->mutex_);
    timeline->done_ = std::max(timeline->done_, finished->number);
    removed.splice(removed.begin(), timeline->tasks_, finished->place);
  }
}

void Timeline::run(Task& task) {
  const auto failure = failure_at(task.number);
  if (task.always || !failure) {
    task.work(failure ? failure->code() : YOKE_STATUS_OK);
  }
}

void Timeline::post(std::function<void(std::int32_t status)> work, bool always) {
  context_->enter();
  Task* task = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto place = tasks_.emplace(tasks_.end());
    task = &*place;
    task->place = place;
    task->timeline = shared_from_this();
    task->number = ++posted_;
    task->always = always;
    task->work = std::move(work);
  }
  const int code = context_->vendor().launch_host(stream_, run_task, task);
  if (code != 0) {
    std::list<Task> removed;
    {
      const std::lock_guard lock(mutex_);
      removed.splice(removed.begin(), tasks_, task->place);
    }
    context_->fail(context_->vendor().facts().host_function, code);
  }
}

std::shared_ptr<Point> Timeline::record(bool timing) {
  context_->enter();
  void* event = context_->take_event(timing);
  const int code = context_->driver().event_record(event, stream_);
  if (code != 0) {
    context_->give_event(event, timing);
    context_->fail(context_->driver().event_record.name, code);
  }
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++posted_;
  }
  auto point = std::make_shared<Point>(shared_from_this(), event, timing, number);
  prune();
  const std::lock_guard lock(mutex_);
  points_.push_back(point);
  return point;
}

// Forgets finished points at the front. Amortized: the list doubles between two calls that do work.
void Timeline::prune() {
  std::vector<std::shared_ptr<Point>> finished;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (points_.size() < prune_at_) {
    return;
  }
  while (!points_.empty() &&
         (points_.front()->is_done_ || context_->driver().event_query(points_.front()->event_) == 0)) {
    done_ = std::max(done_, points_.front()->number_);
    finished.push_back(std::move(points_.front()));
    points_.pop_front();
  }
  prune_at_ = std::max<std::size_t>(64, 2 * points_.size());
}

void Timeline::wait_for(const std::shared_ptr<Point>& point) {
  Timeline& other = *point->timeline_;
  if (&other == this) {
    return;
  }
  submit([&](void* stream) {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = posted_ + 1;
    }
    std::optional<sdk::Failure> failure;
    {
      const std::lock_guard lock(other.mutex_);
      if (other.failure_ && point->number_ >= other.failed_from_) {
        failure = other.failure_;
      } else if (!point->is_done_) {
        point->waiters_.push_back({weak_from_this(), number});
      }
    }
    if (!other.context_->lost()) {
      context_->call(context_->driver().stream_wait_event, stream, point->event_, 0U);
    }
    if (failure) {
      poison(*failure);
    }
  });
}

void Timeline::poison(const sdk::Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) {
    failure_.emplace(failure);
    failed_from_ = posted_ + 1;
    has_failed_.store(true, std::memory_order_release);
  }
}

std::vector<Point::Waiter> Timeline::fail_from(const sdk::Failure& failure, std::uint64_t number) {
  std::vector<Point::Waiter> waiters;
  const std::lock_guard lock(mutex_);
  if (number == 0) {
    const bool can_ask = !context_->lost() && context_->try_enter();
    for (const auto& point : points_) {
      if (point->is_done_ || (can_ask && context_->driver().event_query(point->event_) == 0)) {
        done_ = std::max(done_, point->number_);
      }
    }
    number = done_ + 1;
  }
  if (failure_ && failed_from_ <= number) {
    return waiters;
  }
  if (!failure_) {
    failure_.emplace(failure);
  }
  failed_from_ = number;
  has_failed_.store(true, std::memory_order_release);
  for (const auto& point : points_) {
    if (point->number_ >= number) {
      waiters.insert(waiters.end(), point->waiters_.begin(), point->waiters_.end());
      point->waiters_.clear();
    }
  }
  changed_.notify_all();
  return waiters;
}

void Timeline::cancel(const sdk::Failure& failure) {
  std::vector<Point::Waiter> waiters = fail_from(failure, 0);
  while (!waiters.empty()) {
    const Point::Waiter next = std::move(waiters.back());
    waiters.pop_back();
    if (const auto timeline = next.timeline.lock()) {
      const std::vector<Point::Waiter> more = timeline->fail_from(failure, next.number);
      waiters.insert(waiters.end(), more.begin(), more.end());
    }
  }
  if (context_->lost()) {
    rescue_tasks();
  }
}

void Timeline::rescue_tasks() {
  const std::lock_guard lock(mutex_);
  std::vector<Task*> left;
  for (Task& task : tasks_) {
    if (!task.is_claimed.exchange(true)) {
      left.push_back(&task);
    }
  }
  if (!left.empty() && !rescue_.joinable()) {
    const sdk::detail::SignalsBlocked inherited;
    rescue_ = std::thread([this, left] {
      for (Task* task : left) {
        run(*task);
      }
    });
  }
}

void Timeline::pause(std::uint64_t delay_ns) {
  if (has_failed_) {
    return;
  }
  post(
      [this, delay_ns](std::int32_t) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::nanoseconds(delay_ns), [&] { return has_failed_.load(); });
      },
      false);
}

std::int32_t Timeline::state() {
  try {
    context_->enter();
    if (!context_->is_done(context_->driver().stream_query, stream_)) {
      return YOKE_STATE_PENDING;
    }
  } catch (const sdk::Failure& failure) {
    if (failure.code() != YOKE_STATUS_DEVICE_LOST) {
      throw;
    }
  }
  return has_failed_ ? YOKE_STATE_FAILED : YOKE_STATE_DONE;
}

void Timeline::wait(std::uint64_t timeout_ns) {
  try {
    context_->enter();
    if (!context_->is_done(context_->driver().stream_query, stream_)) {
      if (timeout_ns == 0) {
        throw_late(timeout_ns);
      }
      // Work that other threads queue during the wait does not prolong it.
      const Point now(shared_from_this(), context_->take_event(false), false, 0);
      context_->call(context_->driver().event_record, now.event_, stream_);
      if (!poll_until(timeout_ns,
                      [&] { return context_->is_done(context_->driver().event_query, now.event_); })) {
        throw_late(timeout_ns);
      }
    }
  } catch (const sdk::Failure& failure) {
    if (failure.code() != YOKE_STATUS_DEVICE_LOST) {
      throw;
    }
  }
  const std::lock_guard lock(mutex_);
  if (failure_) {
    throw sdk::Failure(*failure_);
  }
}

std::string Timeline::debug_text() const {
  const std::lock_guard lock(mutex_);
  return std::to_string(points_.size()) + " events and " + std::to_string(tasks_.size()) +
         " host functions may be pending" + (failure_ ? "; failed: " + failure_->text() : std::string());
}

}  // namespace yoke::gpu
