// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/queue.cpp: threads, fences, and the order of a stream's commands.
#include "queue.h"

#include <yoke/sdk/worker_stream.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "../bugs.h"

namespace yoke::strip {

using handmade::bug;

namespace {

constexpr int kTurn = 16;  // commands that a queue runs before other queues get the thread

std::chrono::nanoseconds capped(std::uint64_t timeout_ns) {
  constexpr std::uint64_t kTenYears = 315'360'000'000'000'000;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(timeout_ns, kTenYears)));
}

std::int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

std::chrono::nanoseconds timeout(std::uint64_t timeout_ns) {
  constexpr std::uint64_t kUnit = 1'000'000;
  return capped(bug("timeout_ms") ? timeout_ns / kUnit * kUnit : timeout_ns);
}

[[noreturn]] void deadline(std::uint64_t timeout_ns) {
  throw sdk::Failure(YOKE_STATUS_DEADLINE_EXCEEDED,
                     "queued work did not finish within " + std::to_string(timeout_ns / 1'000'000) + " ms");
}

std::optional<sdk::Failure> attempt(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const sdk::Failure& failure) {
    return failure;
  } catch (const std::bad_alloc&) {
    return sdk::Failure(YOKE_STATUS_RESOURCE_EXHAUSTED, "the plugin is out of host memory");
  } catch (const std::exception& exception) {
    return sdk::Failure(YOKE_STATUS_INTERNAL, exception.what());
  }
}

}  // namespace

Fences& Fences::of_plugin() {
  static auto* const fences = new Fences;  // nothing runs at exit
  return *fences;
}

void Fence::complete(const std::optional<sdk::Failure>& failure, std::int64_t stamp) {
  std::vector<std::function<void()>> parked;
  {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    stamp_ = stamp;
    is_complete_ = true;
    parked.swap(parked_);
    if (bug("one_waiter")) {
      changed_.notify_one();
    } else {
      changed_.notify_all();
    }
  }
  for (const std::function<void()>& resume : parked) {
    resume();
  }
}

std::int32_t Fence::state() {
  const std::lock_guard lock(mutex_);
  return !is_complete_ ? YOKE_STATE_PENDING : failure_ ? YOKE_STATE_FAILED : YOKE_STATE_DONE;
}

void Fence::wait(std::uint64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  if (!is_complete_ && !changed_.wait_for(lock, timeout(timeout_ns), [&] { return is_complete_; })) {
    deadline(timeout_ns);
  }
  if (failure_) {
    throw sdk::Failure(*failure_);
  }
}

bool Fence::park(std::function<void()> resume) {
  const std::lock_guard lock(mutex_);
  if (is_complete_) {
    return false;
  }
  if (bug("one_parked")) {
    parked_.clear();
  }
  parked_.push_back(std::move(resume));
  return true;
}

std::optional<sdk::Failure> Fence::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::int64_t Fence::stamp() {
  const std::lock_guard lock(mutex_);
  return stamp_;
}

void Fence::reset() {
  const std::lock_guard lock(mutex_);
  is_complete_ = false;
  failure_ = std::nullopt;
}

void Queue::submit_run() {
  pool_.submit([self = shared_from_this()] { self->run(); });
}

// Throws the failure of earlier work, once. With the bug error_at_enqueue only: the stream must keep it.
void Queue::take_failure(std::unique_lock<std::mutex>& lock) {
  const sdk::Failure failure = *failure_;
  failure_.reset();
  has_failed_work_ = false;
  lock.unlock();
  throw sdk::Failure(failure);
}

void Queue::post(Command command) {
  std::unique_lock lock(mutex_);
  if (has_failed_work_ && command.work != nullptr) {
    take_failure(lock);
  }
  // With the bug device_event only: a device has one event for all its streams, but they are apart here.
  if (bug("device_event") && command.await != nullptr && !commands_.empty() &&
      commands_.back().await != nullptr && commands_.back().device == command.device &&
      !commands_.back().was_parked) {
    commands_.back().await = command.await;
    return;
  }
  if (command.copy != nullptr && !commands_.empty() && commands_.back().copy != nullptr &&
      commands_.back().copy->append(*command.copy)) {
    return;
  }
  if (bug("fill_superseded") && command.fills != nullptr && !commands_.empty() &&
      commands_.back().fills == command.fills) {
    commands_.back().work = [] {};
  }
  commands_.push_back(std::move(command));
  ++posted_;
  if (!is_scheduled_) {
    is_scheduled_ = true;
    submit_run();
  }
}

std::shared_ptr<Fence> Queue::record() {
  auto fence = bug("event_pool") ? Fences::of_plugin().take() : std::make_shared<Fence>();
  {
    const std::lock_guard lock(mutex_);
    if (finished_ == posted_) {  // nothing to wait for
      fence->complete(bug("idle_event_error") ? std::nullopt : failure_,
                      bug("idle_event_time") && finish_time_ != 0 ? finish_time_ : now());
      return fence;
    }
  }
  post({.signal = fence});
  return fence;
}

void Queue::run() {
  std::unique_lock lock(mutex_);
  for (int turn = 0; turn < kTurn; ++turn) {
    if (commands_.empty()) {
      is_scheduled_ = false;
      return;
    }
    if (commands_.front().await != nullptr && !failure_ && park(commands_.front())) {
      return;
    }
    Command command = std::move(commands_.front());
    commands_.pop_front();
    execute(lock, std::move(command));
  }
  if (commands_.empty() && bug("lost_wakeup")) {
    lock.unlock();  // for other threads, this one still serves the queue
    std::this_thread::yield();
    lock.lock();
    is_scheduled_ = false;
    return;
  }
  is_scheduled_ = !commands_.empty() && !bug("two_workers");
  if (!commands_.empty()) {
    submit_run();
  }
}

// Precondition: the mutex is locked. Returns whether the queue continues when the fence is complete.
bool Queue::park(const Command&) {
  Command& command = commands_.front();
  is_parked_ = true;
  if (!command.await->park([weak = weak_from_this()] {
        if (const auto self = weak.lock()) {
          self->resume();
        }
      })) {
    is_parked_ = false;
    return false;
  }
  command.was_parked = true;
  if (bug("parked_done") && !command.is_counted) {
    command.is_counted = true;
    ++finished_;
    changed_.notify_all();
  }
  return true;
}

void Queue::resume() {
  const std::lock_guard lock(mutex_);
  if (is_parked_) {
    is_parked_ = false;
    submit_run();
  }
}

void Queue::execute(std::unique_lock<std::mutex>& lock, Command command) {
  std::optional<sdk::Failure> failure;
  if (command.callback != nullptr) {
    const std::int32_t status = failure_ ? failure_->code() : YOKE_STATUS_OK;
    lock.unlock();
    command.callback(command.user, status);
    lock.lock();
  } else if (command.await != nullptr) {
    if (!failure_ && (command.was_parked || !bug("inherit_if_parked"))) {
      failure = command.await->failure();
    }
  } else if (command.signal != nullptr && failure_ && bug("skipped_events")) {
    // Skips the event like other work, so that it stays pending.
  } else if (command.signal != nullptr) {
    const std::optional<sdk::Failure> first = failure_;
    lock.unlock();  // continues queues that wait for it
    command.signal->complete(first, now());
    lock.lock();
  } else if (!failure_) {
    if (bug("query_behind_fill") && command.fills != nullptr) {
      failure = attempt(command.work);
    } else {
      lock.unlock();
      failure = attempt(command.work);
      if (failure && failure->code() == YOKE_STATUS_DEVICE_LOST) {
        on_lost_(*failure);
      }
      lock.lock();
    }
  }
  command.work = nullptr;  // destroys its captures before the work counts as finished
  if (failure && !failure_) {
    failure_ = std::move(failure);
    has_failed_work_ = bug("error_at_enqueue") && command.await == nullptr;
  }
  if (!command.is_counted) {
    ++finished_;
  }
  finish_time_ = now();
  changed_.notify_all();
}

void Queue::fail(const sdk::Failure& failure) {
  std::vector<Command> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) {
      failure_.emplace(failure);
    }
    if (is_parked_) {
      is_parked_ = false;
      submit_run();
    }
    changed_.notify_all();
    if (bug("abort_calls_back")) {
      for (Command& command : commands_) {
        if (command.callback != nullptr) {
          callbacks.push_back({.callback = std::exchange(command.callback, nullptr), .user = command.user});
        }
      }
    }
  }
  for (const Command& command : callbacks) {
    command.callback(command.user, failure.code());
  }
}

std::int32_t Queue::state() {
  const std::lock_guard lock(mutex_);
  if (failure_ && bug("failed_first")) {  // running work still uses memory
    return YOKE_STATE_FAILED;
  }
  return finished_ < posted_ ? YOKE_STATE_PENDING : failure_ ? YOKE_STATE_FAILED : YOKE_STATE_DONE;
}

void Queue::wait(std::uint64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  const std::uint64_t number = posted_;
  const auto is_finished = [&] { return finished_ >= (bug("drain_wait") ? posted_ : number); };
  if (!is_finished() && !changed_.wait_for(lock, timeout(timeout_ns), is_finished)) {
    deadline(timeout_ns);
  }
  if (failure_ && !has_failed_work_) {
    throw sdk::Failure(*failure_);
  }
}

void Queue::pause(std::uint64_t delay_ns) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, capped(delay_ns), [&] { return failure_.has_value(); });
}

std::size_t Queue::length() {
  const std::lock_guard lock(mutex_);
  return commands_.size();
}

}  // namespace yoke::strip
