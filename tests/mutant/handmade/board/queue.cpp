// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/queue.cpp: order, errors and deadlines of queues.
#include "queue.h"

#include <yoke/sdk/worker_stream.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

namespace yoke::board {
namespace {

using sdk::Failure;
using Clock = std::chrono::steady_clock;

Clock::time_point after(std::uint64_t timeout_ns) {
  constexpr std::uint64_t kTenYears = 315'360'000'000'000'000;  // now() plus more would overflow
  return Clock::now() + std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(timeout_ns, kTenYears)));
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

}  // namespace

std::thread start_thread(std::function<void()> body) {
  const sdk::detail::SignalsBlocked inherited;
  return std::thread(std::move(body));
}

Failure aborted() {
  return Failure(YOKE_STATUS_ABORTED,
                 "the work was aborted; create another stream, or open the device again");
}

std::uint64_t Queue::post(Command command) {
  std::unique_lock lock(hub.mutex);
  hub.finished.wait(lock, [&] { return !bug("full_queue") || commands.size() < 1024; });
  commands.insert(place_of(command), std::move(command));
  ++posted;
  // With the bug batched_submit only: nothing submits the last commands if the caller only queries.
  if (!bug("batched_submit") || posted - submitted >= 8) {
    submitted = posted;
    workers->wake(workers);
  }
  return posted;
}

// The place of a new command, after all others. With the bug transfer_queue only: a copy from the host must wait for
// events, too.
std::deque<Queue::Command>::iterator Queue::place_of(const Command& command) {
  auto place = commands.end();
  for (std::uint64_t number = posted;
       bug("transfer_queue") && command.is_upload && place != commands.begin() &&
       std::prev(place)->awaited != nullptr && number > recorded;
       --number) {
    --place;
  }
  return place;
}

void Queue::flush() {
  const std::lock_guard lock(hub.mutex);
  submitted = posted;
  workers->wake(workers);
}

bool Queue::has_reached(std::uint64_t number) const {
  return bug("sequence16") ? static_cast<std::int16_t>(finished - number) >= 0 : finished >= number;
}

bool Queue::is_ready() const {
  if (is_running || commands.empty() || (bug("batched_submit") && finished >= submitted)) {
    return false;
  }
  const Command& next = commands.front();
  return next.awaited == nullptr || next.awaited->has_reached(next.number) ||
         (failure && !bug("abort_waiting"));
}

std::int32_t Queue::state(std::uint64_t number) {
  const std::lock_guard lock(hub.mutex);
  return !has_reached(number)    ? YOKE_STATE_PENDING
         : has_failed_at(number) ? YOKE_STATE_FAILED
                                 : YOKE_STATE_DONE;
}

void Queue::wait(std::uint64_t number, std::uint64_t timeout_ns) {
  if (timeout_ns == 0 && bug("zero_timeout")) {
    return;
  }
  if (bug("batched_submit")) {
    flush();
  }
  const Clock::time_point deadline = after(timeout_ns);
  std::unique_lock lock(hub.mutex);
  while (!has_reached(number)) {
    const Clock::time_point end = bug("restarted_timeout") ? after(timeout_ns) : deadline;
    if (hub.finished.wait_until(lock, end) == std::cv_status::timeout && !has_reached(number)) {
      if (timeout_ns != 0 && bug("timeout_aborts")) {
        fail(aborted());  // for a device that hangs; others are only slow
      }
      throw Failure(YOKE_STATUS_DEADLINE_EXCEEDED, "queued work did not finish in time");
    }
  }
  if (has_failed_at(number)) {
    throw Failure(*failure);
  }
}

void Queue::fail(const Failure& first) {
  if (failure) {
    return;
  }
  if (finished == posted) {  // counts as work, so that events recorded from now on carry the error
    finished = ++posted;
    failed_from = posted;
  } else {
    const bool is_spared = bug("abort_spares_running") && is_running && first.code() == YOKE_STATUS_ABORTED;
    failed_from = finished + (is_spared ? 2 : 1);
  }
  failure.emplace(first);
  submitted = posted;
  is_cancelled = true;
  hub.finished.notify_all();
  workers->wake(workers);
}

void Queue::land() {
  std::vector<std::function<void()>> all;
  {
    const std::lock_guard lock(hub.mutex);
    all.swap(landings);
  }
  for (const std::function<void()>& landing : all) {
    landing();
  }
}

Workers::Workers(std::shared_ptr<Hub> hub) : hub_(std::move(hub)) {
  const std::lock_guard lock(hub_->mutex);
  hub_->engines.push_back(this);
}

Workers::~Workers() {
  {
    const std::lock_guard lock(hub_->mutex);
    std::erase(hub_->engines, this);
    is_closing_ = true;
    ready_.notify_all();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

std::shared_ptr<Queue> Workers::open(const void* owner, bool is_aborted, std::int32_t priority) {
  auto queue = std::make_shared<Queue>(*hub_, *this, owner, priority);
  const std::lock_guard lock(hub_->mutex);
  if (is_aborted) {
    queue->fail(aborted());
  }
  if (threads_.size() <= queues_.size() || bug("thread_growth")) {
    threads_.push_back(start_thread([this] { serve(); }));
  }
  queues_.push_back(queue);
  return queue;
}

// Precondition: no work is pending. Commands that are still queued are skipped.
void Workers::close(const std::shared_ptr<Queue>& queue) {
  std::unique_lock lock(hub_->mutex);
  if (queue->finished != queue->posted) {
    queue->fail(aborted());  // which also submits what is left
  }
  hub_->finished.wait(lock, [&] { return queue->finished == queue->posted; });  // commands are finite loops
  std::erase(queues_, queue);
}

void Workers::fail(const void* owner, const Failure& failure) {
  const std::lock_guard lock(hub_->mutex);
  fail_locked(owner, failure);
}

void Workers::fail_locked(const void* owner, const Failure& failure) {
  for (const std::shared_ptr<Queue>& queue : queues_) {
    if (queue->owner == owner || bug("abort_both")) {
      queue->fail(failure);
    }
  }
}

void Workers::wake(const Workers* by) {
  for (Workers* engine : hub_->engines) {
    if (engine == by || !bug("other_device_wake")) {
      engine->ready_.notify_all();
    }
  }
}

// Whether a stream of higher priority has work. With the bug priority_inversion only: that may wait for this queue.
bool Workers::is_outranked(const Queue& queue) const {
  return std::any_of(queues_.begin(), queues_.end(), [&](const auto& other) {
    return other->priority > queue.priority && !other->commands.empty();
  });
}

void Workers::serve() {
  std::unique_lock lock(hub_->mutex);
  for (;;) {
    std::shared_ptr<Queue> queue;
    ready_.wait(lock, [&] {
      const auto found = std::find_if(queues_.begin(), queues_.end(), [&](const auto& one) {
        return one->is_ready() && !(bug("priority_inversion") && is_outranked(*one));
      });
      queue = found == queues_.end() ? nullptr : *found;
      return is_closing_ || queue != nullptr;
    });
    if (queue == nullptr) {
      return;
    }
    Queue::Command command = std::move(queue->commands.front());
    queue->commands.pop_front();
    const bool is_dropped =
        bug("abort_drops_callbacks") && queue->failure && queue->failure->code() == YOKE_STATUS_ABORTED;
    const bool runs = !queue->failure || (command.always && !is_dropped);
    const bool is_early = command.always && bug("callback_order");
    queue->is_running = !is_early;
    lock.unlock();
    const std::optional<Failure> failure = runs ? attempt(command.run) : std::nullopt;
    command = {};  // destroys what it holds before it counts as finished
    lock.lock();
    if (failure && failure->code() == YOKE_STATUS_DEVICE_LOST) {
      fail_locked(queue->owner, *failure);
    } else if (failure) {
      queue->fail(*failure);
    }
    ++queue->finished;
    queue->is_running = queue->is_running && is_early;
    hub_->finished.notify_all();
    wake(this);
  }
}

Event::Event(std::shared_ptr<Queue> queue, bool timing) : queue_(std::move(queue)) {
  if (bug("event_history")) {
    const std::lock_guard lock(queue_->hub.mutex);
    queue_->history.push_back(stamp_ = std::make_shared<std::uint64_t>(0));
  }
  if (!timing) {
    const std::lock_guard lock(queue_->hub.mutex);
    number_ = queue_->recorded = queue_->posted;
    return;
  }
  const auto now = [] {  // yoke.profile/1 reports it as a time of the steady clock
    const std::chrono::nanoseconds time = bug("wall_clock")
                                              ? std::chrono::system_clock::now().time_since_epoch()
                                              : Clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(time.count());
  };
  stamp_ = stamp_ != nullptr ? stamp_ : std::make_shared<std::uint64_t>(0);
  *stamp_ = now();
  number_ =
      queue_->post({.run = [now, stamp = stamp_] { *stamp = bug("time_when_queued") ? *stamp : now(); }});
}

void Stream::post(sdk::Stream* stream, std::function<void(const std::atomic<bool>&)> work, bool is_upload) {
  if (stream == nullptr) {
    work(false);
    return;
  }
  Queue* queue = static_cast<Stream*>(stream)->queue_.get();
  queue->post(
      {.run = [queue, work = std::move(work)] { work(queue->is_cancelled); }, .is_upload = is_upload});
}

bool Stream::is_idle(sdk::Stream* stream) {
  if (stream != nullptr && bug("inline_running")) {
    const Queue& queue = *static_cast<Stream*>(stream)->queue_;
    const std::lock_guard lock(queue.hub.mutex);
    return queue.commands.empty() && !queue.failure;
  }
  const std::int32_t state = stream == nullptr ? YOKE_STATE_DONE : stream->state();
  return bug("failed_inline") ? state != YOKE_STATE_PENDING : state == YOKE_STATE_DONE;
}

bool Stream::is_of(sdk::Stream* stream, const Workers& workers) {
  return stream == nullptr || static_cast<Stream*>(stream)->queue_->workers == &workers;
}

std::uint64_t Stream::last() const {
  const std::lock_guard lock(queue_->hub.mutex);
  return queue_->posted;
}

void Stream::wait_event(sdk::Event& event) {
  const Event& awaited = static_cast<Event&>(event);
  if (awaited.queue_ == queue_) {
    return;
  }
  Queue::Command command{.run =
                             [queue = awaited.queue_, number = awaited.number_] {
                               const std::lock_guard lock(queue->hub.mutex);
                               // With the bug inherits_later_errors only: later work may have failed.
                               // With the bug join_drops_errors only: the event carries the error.
                               const bool has_failed =
                                   queue->has_failed_at(number) && !bug("join_drops_errors");
                               if (has_failed || (queue->failure && bug("inherits_later_errors"))) {
                                 throw Failure(*queue->failure);
                               }
                             },
                         .awaited = awaited.queue_,
                         .number = awaited.number_};
  if (bug("batched_submit")) {
    awaited.queue_->flush();
  }
  if (bug("merged_waits")) {
    const std::lock_guard lock(queue_->hub.mutex);
    if (!queue_->commands.empty() && queue_->commands.back().awaited != nullptr) {
      queue_->commands.back() = std::move(command);
      return;
    }
  }
  queue_->post(std::move(command));
}

void Stream::abort() {
  const std::lock_guard lock(queue_->hub.mutex);
  queue_->fail(aborted());
}

void Stream::host_callback(yoke_host_callback_fn callback, void* user) {
  queue_->post({.run =
                    [callback, user, queue = queue_.get()] {
                      std::unique_lock lock(queue->hub.mutex);
                      const std::int32_t status = queue->failure ? queue->failure->code() : YOKE_STATUS_OK;
                      lock.unlock();
                      callback(user, status);
                    },
                .always = true});
}

void Stream::poison(const Failure& failure) {
  queue_->post({.run = [failure] { throw Failure(failure); }});
}

void Stream::pause(std::uint64_t delay_ns) {
  queue_->post({.run = [queue = queue_.get(), delay_ns] {
    std::unique_lock lock(queue->hub.mutex);
    queue->hub.finished.wait_until(lock, after(delay_ns), [&] { return queue->is_cancelled.load(); });
  }});
}

}  // namespace yoke::board
