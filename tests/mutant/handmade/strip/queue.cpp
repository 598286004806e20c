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

// The fences of destroyed events. With the bug event_pool only: streams may still complete them or wait for them.
class Fences {
 public:
  static Fences& of_plugin() {
    static auto* const fences = new Fences;  // nothing runs at exit
    return *fences;
  }
  std::shared_ptr<Fence> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      return std::make_shared<Fence>();
    }
    std::shared_ptr<Fence> fence = std::move(free_.back());
    free_.pop_back();
    fence->reset();
    return fence;
  }
  void give(std::shared_ptr<Fence> fence) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(fence));
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Fence>> free_;
};

}  // namespace

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

void Queue::post(Command command) {
  const std::lock_guard lock(mutex_);
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
  if (failure_) {
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

std::shared_ptr<Queue> Group::make_queue() {
  const std::lock_guard lock(mutex_);
  auto queue = std::make_shared<Queue>(
      pool_, [this](const sdk::Failure& lost) { fail(lost); }, failure_);
  std::erase_if(queues_, [](const auto& weak) { return weak.expired(); });
  queues_.push_back(queue);
  return queue;
}

void Group::fail(const sdk::Failure& failure) {
  std::vector<std::shared_ptr<Queue>> queues;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) {
      failure_.emplace(failure);
    }
    for (const auto& weak : queues_) {
      if (auto queue = weak.lock()) {
        queues.push_back(std::move(queue));
      }
    }
  }
  for (const auto& queue : queues) {
    queue->fail(failure);
  }
}

Event::~Event() {
  if (bug("event_pool")) {
    Fences::of_plugin().give(fence_);
  }
}

std::uint64_t Event::elapsed_since(sdk::Event& start) {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, fence_->stamp() - static_cast<Event&>(start).fence_->stamp()));
}

Stream::~Stream() {
  try {
    queue_->wait(~std::uint64_t{0});
  } catch (const sdk::Failure&) {  // the stream had failed
  }
}

void Stream::run(sdk::Stream* stream, std::function<void()> work, const void* fills,
                 std::shared_ptr<Copy> copy) {
  if (stream == nullptr) {
    work();
  } else {
    static_cast<Stream*>(stream)->queue_->post(
        {.work = std::move(work), .fills = fills, .copy = std::move(copy)});
  }
}

void Stream::abort() {
  queue_->fail(sdk::Failure(YOKE_STATUS_ABORTED, "the stream was aborted; destroy it and create another"));
}

}  // namespace yoke::strip
