// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/stream.cpp: order, errors and deadlines of streams.
#include "stream.h"

#include <pthread.h>
#include <signal.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "bugs.h"

namespace yoke::handmade {
namespace {

using sdk::Failure;

Failure aborted() {
  return Failure(YOKE_STATUS_ABORTED, "the stream was aborted; create another");
}

std::optional<Failure> attempt(const std::function<void()>& run) {
  try {
    run();
    return std::nullopt;
  } catch (const Failure& failure) {
    return failure;
  } catch (const std::bad_alloc&) {
    return Failure(YOKE_STATUS_RESOURCE_EXHAUSTED, "out of host memory");
  } catch (const std::exception& exception) {
    return Failure(YOKE_STATUS_INTERNAL, exception.what());
  }
}

std::chrono::nanoseconds span_of(std::uint64_t timeout_ns) {
  constexpr std::uint64_t kTenYears = 315'360'000'000'000'000;  // now() plus more would overflow
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(bug("timeout_overflow") ? timeout_ns : std::min(timeout_ns, kTenYears)));
}

void set_float_mode() {
#if defined(__SSE2__)
  if (bug("flush_denormals")) {
    _mm_setcsr(_mm_getcsr() | 0x8040U);
  }
#endif
}

}  // namespace

std::thread start_thread(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  int failed = 0;
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    failed = error.code().value();
  }
  if (!bug("signals_left_blocked")) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  if (failed != 0) {
    throw Failure(YOKE_STATUS_RESOURCE_EXHAUSTED, "could not start a thread", failed);
  }
  return thread;
}

Timeline::Timeline(std::shared_ptr<Hub> hub, const std::optional<Failure>& failed) : hub_(std::move(hub)) {
  if (failed) {
    failure_.emplace(*failed);
    cancelled_ = true;
  }
}

std::uint64_t Timeline::post(std::function<void()> run, bool always) {
  const std::lock_guard lock(hub_->mutex);
  queue_.push_back({std::move(run), always});
  hub_->changed.notify_all();
  return ++posted_;
}

std::uint64_t Timeline::posted() const {
  const std::lock_guard lock(hub_->mutex);
  return posted_;
}

std::uint64_t Timeline::mark() const {
  const std::lock_guard lock(hub_->mutex);
  return bug("record_running") && queue_.empty() ? finished_ : posted_;
}

std::int32_t Timeline::state(std::uint64_t number, bool by_start) const {
  const std::lock_guard lock(hub_->mutex);
  if ((by_start ? started_ : finished_) < number) {
    return YOKE_STATE_PENDING;
  }
  return has_failed_at(number) ? YOKE_STATE_FAILED : YOKE_STATE_DONE;
}

std::int32_t Timeline::status() const {
  const std::lock_guard lock(hub_->mutex);
  return failure_ ? failure_->code() : YOKE_STATUS_OK;
}

void Timeline::wait(std::uint64_t number, std::uint64_t timeout_ns) const {
  std::unique_lock lock(hub_->mutex);
  const bool is_synced = bug("synced_early") && number <= synced_;
  const auto is_over = [&] { return finished_ >= number || (bug("abort_early") && failure_) || is_synced; };
  synced_ = std::max(synced_, number);  // with the bug synced_early only: this is known after the wait
  if (!is_over() &&
      !hub_->changed.wait_until(lock, std::chrono::steady_clock::now() + span_of(timeout_ns), is_over)) {
    throw Failure(YOKE_STATUS_DEADLINE_EXCEEDED, "queued work did not finish in time");
  }
  if (has_failed_at(number) && !(was_reported_ && bug("error_once"))) {
    was_reported_ = true;
    throw Failure(*failure_);
  }
}

void Timeline::fail(const Failure& failure) {
  const std::lock_guard lock(hub_->mutex);
  fail_locked(failure);
}

void Timeline::fail_locked(const Failure& failure) {
  const bool is_idle = finished_ == posted_ && !failure_;
  if (is_idle && bug("idle_abort")) {
    return;
  }
  set_failure(failure);
  if (is_idle) {  // counts as work, so that events recorded from now on carry the error
    started_ = finished_ = ++posted_;
  }
  hub_->changed.notify_all();
}

void Timeline::set_failure(const Failure& failure) {
  if (!failure_) {
    failure_.emplace(failure);
    failed_from_ = bug("failed_from_last") ? std::max(posted_, finished_ + 1) : finished_ + 1;
    cancelled_ = true;
  } else if (bug("last_error")) {
    failure_.emplace(failure);
  }
}

void Timeline::forget() {
  const std::lock_guard lock(hub_->mutex);
  failure_.reset();
}

void Timeline::close() {
  const std::lock_guard lock(hub_->mutex);
  closing_ = true;
  hub_->changed.notify_all();
}

std::shared_ptr<std::int64_t> Timeline::stamp() {
  const std::lock_guard lock(hub_->mutex);
  std::shared_ptr<std::int64_t>& slot = stamps_[next_stamp_++ % stamps_.size()];
  if (slot == nullptr || (slot.use_count() > 1 && !bug("stamp_reuse"))) {
    slot = std::make_shared<std::int64_t>(0);
  }
  return slot;
}

void Timeline::await(const Timeline& other, std::uint64_t number, bool inherits) {
  std::unique_lock lock(hub_->mutex);
  const auto progress = [&] { return bug("wait_started") ? other.started_ : other.finished_; };
  hub_->changed.wait(lock, [&] { return progress() >= number || failure_; });
  if (!failure_ && inherits && other.has_failed_at(number)) {
    const Failure inherited = bug("inherited_code") ? aborted() : *other.failure_;
    lock.unlock();
    throw Failure(inherited);
  }
}

void Timeline::pause(std::uint64_t delay_ns) {
  std::unique_lock lock(hub_->mutex);
  hub_->changed.wait_for(lock, span_of(delay_ns), [&] { return failure_ || closing_; });
}

void Timeline::serve(const std::function<void(const Failure&)>& on_lost) {
  set_float_mode();
  std::unique_lock lock(hub_->mutex);
  for (;;) {
    hub_->changed.wait(lock, [&] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) {
      return;
    }
    Item item = std::move(queue_.front());
    queue_.pop_front();
    ++started_;
    if (!bug("wake_when_idle")) {
      hub_->changed.notify_all();
    }
    const bool runs = !failure_ || item.always;
    lock.unlock();
    std::optional<Failure> failure = runs ? attempt(item.run) : std::nullopt;
    item.run = nullptr;  // destroys what it holds before it counts as finished
    if (failure && failure->code() == YOKE_STATUS_DEVICE_LOST) {
      on_lost(*failure);
    }
    lock.lock();
    if (failure) {
      set_failure(*failure);
    }
    if (failure && bug("failure_unsignaled")) {  // with it only: waits count finished work
      continue;
    }
    ++finished_;
    if (queue_.empty() || !bug("wake_when_idle")) {
      hub_->changed.notify_all();
    }
  }
}

std::shared_ptr<Timeline> Group::add() {
  const std::lock_guard lock(mutex_);
  auto timeline = std::make_shared<Timeline>(hub_, failure_);
  std::erase_if(timelines_, [](const auto& weak) { return weak.expired(); });
  timelines_.push_back(timeline);
  return timeline;
}

void Group::fail(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) {
    failure_.emplace(failure);
  }
  const std::lock_guard hub_lock(hub_->mutex);  // no stream reports a lost device before all have failed
  for (const auto& weak : timelines_) {
    if (const auto timeline = weak.lock()) {
      timeline->fail_locked(failure);
    }
  }
}

Event::Event(std::shared_ptr<Timeline> timeline, bool timing) : timeline_(std::move(timeline)) {
  if (!timing) {
    number_ = timeline_->mark();
    return;
  }
  stamp_ = timeline_->stamp();
  number_ = timeline_->post([stamp = stamp_] {
    *stamp = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  });
}

std::uint64_t Event::elapsed_since(sdk::Event& start) {
  const std::int64_t elapsed = std::max<std::int64_t>(0, *stamp_ - *static_cast<Event&>(start).stamp_);
  // With the bug elapsed32 only: work may take more than 4.3 s.
  return bug("elapsed32") ? static_cast<std::uint32_t>(elapsed) : static_cast<std::uint64_t>(elapsed);
}

Stream::Stream(const std::shared_ptr<Group>& group) : timeline_(group->add()) {
  thread_ = start_thread(
      [timeline = timeline_, group] { timeline->serve([&](const Failure& lost) { group->fail(lost); }); });
}

Stream::~Stream() {
  timeline_->close();
  thread_.join();
  if (bug("failure_forgotten")) {
    timeline_->forget();
  }
}

void Stream::run(sdk::Stream* stream, std::function<void(const Timeline*)> work, bool always) {
  if (stream == nullptr) {
    work(nullptr);
    return;
  }
  Timeline* timeline = static_cast<Stream*>(stream)->timeline_.get();
  timeline->post([timeline, work = std::move(work)] { work(timeline); }, always);
}

void Stream::wait_event(sdk::Event& event) {
  Event& awaited = static_cast<Event&>(event);
  const bool is_known = bug("wait_once") && awaited.timeline_ == awaited_;
  if (awaited.timeline_ != timeline_ && !is_known) {
    awaited_ = bug("wait_once") ? awaited.timeline_ : nullptr;
    const bool inherits = !bug("late_inherit") || awaited.state() == YOKE_STATE_FAILED;
    const std::weak_ptr<bool> alive = awaited.alive_;
    timeline_->post([=, mine = timeline_.get(), other = awaited.timeline_, number = awaited.number_] {
      if (!bug("destroyed_event") || !alive.expired()) {
        mine->await(*other, bug("waits_for_all") ? other->posted() : number, inherits);
      }
    });
  }
}

void Stream::abort() {
  timeline_->fail(aborted());
}

void Stream::host_callback(yoke_host_callback_fn callback, void* user) {
  const std::int32_t early = timeline_->status();
  timeline_->post(
      [=, mine = timeline_.get()] { callback(user, bug("callback_status") ? early : mine->status()); }, true);
}

void Stream::poison(const Failure& failure) {
  timeline_->post([failure] { throw Failure(failure); });
}

void Stream::pause(std::uint64_t delay_ns) {
  timeline_->post([mine = timeline_.get(), delay_ns] { mine->pause(delay_ns); });
}

Pool::Pool(std::size_t thread_count) {
  for (std::size_t i = 0; i < thread_count; ++i) {
    threads_.push_back(start_thread([this] { serve(); }));
  }
}

Pool::~Pool() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void Pool::step(std::unique_lock<std::mutex>& lock, Job& job) {
  const std::size_t number = job.next++;
  if (job.next == job.count) {
    std::erase(jobs_, &job);
  }
  lock.unlock();
  std::exception_ptr failure;
  try {
    (*job.part)(number);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  job.failure = failure != nullptr ? failure : job.failure;
  if (++job.done == job.count) {
    bug("pool_notify_one") ? changed_.notify_one() : changed_.notify_all();
  }
}

void Pool::run(std::size_t count, const std::function<void(std::size_t)>& part) {
  Job job{.part = &part, .count = count};
  std::unique_lock lock(mutex_);
  jobs_.push_back(&job);
  changed_.notify_all();
  while (job.next < job.count) {
    step(lock, job);
  }
  changed_.wait(lock, [&] { return job.done == job.count; });  // parts are finite loops
  if (job.failure != nullptr) {
    std::rethrow_exception(job.failure);
  }
}

void Pool::serve() {
  std::unique_lock lock(mutex_);
  closing_ = closing_ && !bug("early_close");  // with it only: the pool may close before this thread starts
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || !jobs_.empty(); });
    if (closing_) {
      return;
    }
    step(lock, *jobs_.front());
  }
}

}  // namespace yoke::handmade
