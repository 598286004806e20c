// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/timeline.cpp: host functions, events and failures of streams.
#include "timeline.h"

#include <yoke/sdk/worker_stream.h>

#include <algorithm>
#include <exception>

namespace yoke::gpu {

Timeline::Timeline(std::shared_ptr<Context> context, int priority, std::optional<sdk::Failure> failure)
    : context_(std::move(context)), failure_(std::move(failure)) {
  has_failed_ = failure_.has_value();
  failed_from_ = 1;
  const Current current = context_->enter();
  context_->call(context_->driver().stream_create, &stream_, kNonBlockingStream, priority);
}

Timeline::~Timeline() {
  close();
}

void Timeline::close() noexcept {
  if (context_->lost()) {  // another thread may be about to do so
    try {
      rescue_tasks();
    } catch (const std::exception&) {  // no thread can be started
    }
  }
  if (rescue_.joinable()) {
    rescue_.join();
  }
  const bool is_lost = context_->lost();
  std::deque<std::shared_ptr<Point>> points;  // destroyed without the lock
  std::list<Task> tasks;
  void* stream = nullptr;
  {
    const std::lock_guard lock(mutex_);
    points.swap(points_);
    tasks.swap(tasks_);
    for (Task& task : tasks) {
      task.is_held = is_lost;
    }
    std::swap(stream, stream_);
  }
  if (is_lost) {
    for (Task& task : tasks) {
      if (!task.is_claimed.exchange(true)) {
        task.release();
      }
    }
    keep_forever(tasks);
  }
  if (stream != nullptr) {
    if (const Current current = context_->try_enter()) {
      (void)context_->driver().stream_destroy(stream);
    }
  }
}

// The driver of a lost device may still call run_task, or be running it.
void Timeline::keep_forever(std::list<Task>& tasks) {
  static std::mutex mutex;
  static auto* const kept = new std::list<Task>;
  const std::lock_guard lock(mutex);
  kept->splice(kept->end(), tasks);
}

void Timeline::Task::release() {
  work = {};
  timeline.reset();
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
    // The task may own the last reference.
    const std::shared_ptr<Timeline> timeline = std::move(one->timeline);
    timeline->run(*one);
    std::list<Task> removed;  // destroyed without the lock
    const std::lock_guard lock(timeline->mutex_);
    timeline->done_ = std::max(timeline->done_, one->number);
    one->has_run = true;
    timeline->changed_.notify_all();
    if (!one->is_held) {
      removed.splice(removed.begin(), timeline->tasks_, one->place);
    }
  }
}

void Timeline::run(Task& task) {
  const auto failure = failure_at(task.number);
  if (task.always || !failure) {
    task.work(failure ? failure->code() : YOKE_STATUS_OK);
  }
  task.work = {};  // destroys its captures before it counts as finished
}

bool Timeline::has_calls_before(std::uint64_t number) const {
  return std::any_of(tasks_.begin(), tasks_.end(),
                     [&](const Task& task) { return !task.has_run && task.number < number; });
}

void Timeline::post(std::function<void(std::int32_t status)> work, bool always) {
  const Current current = context_->enter();
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
  const int code = context_->vendor().launch_host(stream_, task->call);
  // If the device was lost meanwhile, another thread may have called the function.
  const bool is_refused = code != 0 && !task->is_claimed.exchange(true);
  std::list<Task> ended;  // destroyed without the lock
  {
    const std::lock_guard lock(mutex_);
    task->is_held = false;
    if (is_refused || task->has_run) {
      ended.splice(ended.begin(), tasks_, task->place);
    }
  }
  if (is_refused) {
    task->release();
    if (is_sticky(code)) {
      keep_forever(ended);
    }
    context_->fail(context_->vendor().facts().host_function, code);
  }
  if (context_->lost()) {
    rescue_tasks();
  }
}

std::shared_ptr<Point> Timeline::record(bool timing) {
  const Current current = context_->enter();
  const std::shared_ptr<const Anchor> anchor = timing ? context_->anchor() : nullptr;
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
  auto point = std::make_shared<Point>(shared_from_this(), event, timing, number, anchor);
  prune();
  const std::lock_guard lock(mutex_);
  points_.push_back(point);
  return point;
}

bool Timeline::is_finished(const Point& point) const {
  return point.is_done_ || context_->driver().event_query(point.event_) == 0;
}

// Forgets finished points at the front. Amortized: the list doubles between two calls that do work.
void Timeline::prune() {
  {
    const std::lock_guard lock(mutex_);
    if (points_.size() < prune_at_) {
      return;
    }
  }
  for (;;) {
    std::shared_ptr<Point> first;  // destroyed without the lock
    {
      const std::lock_guard lock(mutex_);
      first = points_.empty() ? nullptr : points_.front();
    }
    if (first == nullptr || !is_finished(*first)) {
      break;
    }
    const std::lock_guard lock(mutex_);
    done_ = std::max(done_, first->number_);
    if (!points_.empty() && points_.front() == first) {
      points_.pop_front();
    }
  }
  const std::lock_guard lock(mutex_);
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

std::uint64_t Timeline::first_unfinished(bool can_ask) {
  std::vector<std::shared_ptr<Point>> points;  // destroyed without the lock
  {
    const std::lock_guard lock(mutex_);
    points.assign(points_.begin(), points_.end());
  }
  std::uint64_t done = 0;
  for (const auto& point : points) {
    if (can_ask ? is_finished(*point) : point->is_done_.load()) {
      done = point->number_;
    }
  }
  const std::lock_guard lock(mutex_);
  done_ = std::max(done_, done);
  return done_ + 1;
}

std::vector<Point::Waiter> Timeline::fail_from(const sdk::Failure& failure, std::uint64_t number) {
  std::vector<Point::Waiter> waiters;
  const std::lock_guard lock(mutex_);
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

void Timeline::spread(const sdk::Failure& failure, bool can_ask) {
  std::vector<Point::Waiter> waiters = fail_from(failure, first_unfinished(can_ask));
  while (!waiters.empty()) {
    const Point::Waiter next = std::move(waiters.back());
    waiters.pop_back();
    if (const auto timeline = next.timeline.lock()) {
      const std::vector<Point::Waiter> more = timeline->fail_from(failure, next.number);
      waiters.insert(waiters.end(), more.begin(), more.end());
    }
  }
}

void Timeline::cancel(const sdk::Failure& failure) {
  const Current current = context_->try_enter();
  spread(failure, !context_->lost() && current);
  if (context_->lost()) {
    rescue_tasks();
  }
}

void Timeline::rescue_tasks() {
  const auto next = [this]() -> Task* {  // precondition: the lock is held
    const auto found = std::find_if(tasks_.begin(), tasks_.end(),
                                    [](Task& task) { return !task.is_claimed.exchange(true); });
    return found != tasks_.end() ? &*found : nullptr;
  };
  const std::lock_guard lock(mutex_);
  Task* const first = is_rescuing_ ? nullptr : next();
  if (first == nullptr) {
    return;  // the thread runs new tasks too
  }
  if (rescue_.joinable()) {
    rescue_.join();  // it has no task left and does not take the lock again
  }
  is_rescuing_ = true;
  const sdk::detail::SignalsBlocked inherited;
  rescue_ = std::thread([this, first, next] {
    std::unique_lock taken(mutex_);
    for (Task* task = first; task != nullptr; task = next()) {
      // The driver may be calling an earlier one.
      changed_.wait(taken, [&] { return !has_calls_before(task->number); });
      taken.unlock();
      run(*task);
      task->release();  // the stream still has this timeline
      taken.lock();
      task->has_run = true;
    }
    is_rescuing_ = false;
  });
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

std::string Timeline::debug_text() const {
  const std::lock_guard lock(mutex_);
  return std::to_string(points_.size()) + " events and " + std::to_string(tasks_.size()) +
         " host functions may be pending" + (failure_ ? "; failed: " + failure_->text() : std::string());
}

}  // namespace yoke::gpu
