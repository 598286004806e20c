// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/worker_pool.cpp: gives tasks to workers.
#include "schedule/worker_pool.h"

#include <pthread.h>
#include <sched.h>
#include <yoke/runtime/error.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "schedule/signals_blocked.h"

namespace yoke::detail {

namespace {

constexpr std::chrono::milliseconds kTurn{1};  // a task runs this long while others wait
constexpr std::chrono::seconds kSpareIdle{1};  // then the thread of a spare worker ends
constexpr int kSearched = 8;                   // tasks in the queue

}  // namespace

thread_local WorkerPool::Worker* WorkerPool::current_ = nullptr;

WorkerPool::WorkerPool(std::uint32_t limit, std::chrono::nanoseconds patience)
    : limit_(limit != 0 ? limit : core_count()), patience_(patience) {}

std::uint32_t WorkerPool::core_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool is_known = ::sched_getaffinity(0, sizeof(set), &set) == 0;
  return std::max(1U,
                  is_known ? static_cast<unsigned>(CPU_COUNT(&set)) : std::thread::hardware_concurrency());
}

void WorkerPool::add(Task& task) {
  const std::lock_guard lock(mutex_);
  if (workers_.size() < std::min(limit_, task_count_ + 1)) {
    try {
      start(nullptr);
    } catch (const std::exception& error) {
      if (workers_.empty()) {
        throw Error(ErrorCode::kResourceExhausted,
                    std::string("could not start a worker thread: ") + error.what() +
                        "; end other threads, or raise the limit of processes (ulimit -u)");
      }
    }
  }
  ++task_count_;
  task.home_ = next_home_++;
  task.state_.store(Task::kIdle);
}

void WorkerPool::remove() noexcept {
  std::vector<std::unique_ptr<Worker>> leaving;
  {
    const std::lock_guard lock(mutex_);
    if (--task_count_ != 0) {
      return;
    }
    leaving.swap(workers_);
    for (const auto& worker : leaving) {
      worker->is_leaving = true;
      for (std::uintptr_t state : {kFree, kSpare}) {
        worker->slot.compare_exchange_strong(state, kLeave);
      }
      worker->bed.notify();
    }
  }
  for (auto& worker : leaving) {
    if (worker.get() != current_) {
      worker->thread.join();
    } else {
      worker->thread.detach();
      worker->is_detached = true;
      (void)worker.release();  // NOLINT(bugprone-unused-return-value): work() deletes it
    }
  }
}

void WorkerPool::start(Task* first) {
  const SignalsBlocked inherited_by_the_worker;
  workers_.reserve(workers_.size() + 1);
  auto worker = std::make_unique<Worker>(*this);
  worker->number = static_cast<std::uint32_t>(workers_.size());
  worker->next = first;
  worker->thread = std::thread([pool = shared_from_this(), me = worker.get()] { pool->work(*me); });
  std::array<char, 16> title{};  // the system's limit
  (void)std::snprintf(title.data(), title.size(), "yk worker %u", worker->number);
  pthread_setname_np(worker->thread.native_handle(), title.data());
  workers_.push_back(std::move(worker));
}

void WorkerPool::work(Worker& me) noexcept {
  current_ = &me;
  for (;;) {
    Task* const task = me.next != nullptr ? std::exchange(me.next, nullptr) : next_task(me);
    if (task == nullptr) {
      break;
    }
    me.command_count.fetch_add(1, std::memory_order_relaxed);
    me.began = Clock::now();
    task->home_ = me.number;
    task->state_.store(Task::kRunning);
    task->run_commands();
  }
  current_ = nullptr;
  if (me.is_detached) {
    delete &me;
  }
}

Task* WorkerPool::next_task(Worker& me) noexcept {
  std::unique_lock lock(mutex_);
  while (!me.is_leaving) {
    Clock::time_point deadline = wake_expired();
    const bool is_spare = active_count() > limit_;
    if (!is_spare) {
      if (Task* const task = dequeue(me.number)) {
        return task;
      }
    }
    const std::uintptr_t state = is_spare ? kSpare : kFree;
    deadline =
        std::min(deadline, Clock::now() + (is_spare ? Clock::duration(kSpareIdle) : std::chrono::hours(1)));
    me.slot.store(state);
    lock.unlock();
    const bool is_called = me.bed.sleep_until(deadline, [&] { return me.slot.load() != state; });
    lock.lock();
    const std::uintptr_t given = me.slot.exchange(kBusy);
    if (given > kLeave) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): give() stored a pointer
      return reinterpret_cast<Task*>(given);
    }
    if (is_spare && !is_called && retire(me)) {
      return nullptr;
    }
  }
  return nullptr;
}

// Ends the thread of a spare worker. Only the last one, because tasks know workers by number.
bool WorkerPool::retire(Worker& me) noexcept {
  if (me.is_leaving || workers_.back().get() != &me || workers_.size() <= limit_) {
    return false;
  }
  me.thread.detach();
  me.is_detached = true;
  (void)workers_.back().release();  // NOLINT(bugprone-unused-return-value): work() deletes it
  workers_.pop_back();
  return true;
}

// If the worker was given a task while it lingered, it runs it next.
void WorkerPool::take_slot(Worker& me) noexcept {
  me.command_count.fetch_add(1, std::memory_order_relaxed);
  me.began = Clock::now();
  const std::uintptr_t given = me.slot.exchange(kBusy);
  if (given > kLeave) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): give() stored a pointer
    me.next = reinterpret_cast<Task*>(given);
  }
}

void WorkerPool::go_on() noexcept {
  if (current_->next != nullptr) {
    push(*std::exchange(current_->next, nullptr));
  }
}

void WorkerPool::push(Task& task) noexcept {
  const std::lock_guard lock(mutex_);
  unlist_locked(task);
  dispatch(task);
}

void WorkerPool::dispatch(Task& task) noexcept {
  if (!place(task)) {
    enqueue(task);
  }
}

bool WorkerPool::give(Worker& worker, std::uintptr_t state, Task& task) noexcept {
  if (!worker.slot.compare_exchange_strong(state, reinterpret_cast<std::uintptr_t>(&task))) {
    return false;
  }
  worker.bed.notify();
  return true;
}

// Prefers the worker whose caches have the task's data, then one that is awake.
bool WorkerPool::place(Task& task) noexcept {
  if (!workers_.empty() && give(*workers_[task.home_ % workers_.size()], kFree, task)) {
    return true;
  }
  for (const bool asleep : {false, true}) {
    for (const auto& worker : workers_) {
      if (worker->bed.has_sleepers() == asleep && give(*worker, kFree, task)) {
        return true;
      }
    }
  }
  if (active_count() >= limit_) {
    return false;
  }
  for (const auto& worker : workers_) {
    if (give(*worker, kSpare, task)) {
      return true;
    }
  }
  try {
    start(&task);
    return true;
  } catch (const std::exception&) {
    return false;  // the workers that exist run it later
  }
}

void WorkerPool::place_queued() noexcept {
  while (first_ready_ != nullptr) {
    const int passed_over = passed_over_;
    Task& task = *dequeue(first_ready_->home_);
    if (!place(task)) {  // it stays the first one, and its turn comes no later
      task.next_ready_ = std::exchange(first_ready_, &task);
      last_ready_ = last_ready_ == nullptr ? &task : last_ready_;
      urgency_.store(task.priority_, std::memory_order_relaxed);
      queued_.fetch_add(1);
      passed_over_ = passed_over;
      return;
    }
  }
}

std::uint32_t WorkerPool::active_count() const noexcept {
  return static_cast<std::uint32_t>(std::count_if(workers_.begin(), workers_.end(), [](const auto& worker) {
    return !worker->is_absent && worker->slot.load(std::memory_order_relaxed) != kSpare;
  }));
}

void WorkerPool::enqueue(Task& task) noexcept {
  Task** link = &first_ready_;
  if (last_ready_ != nullptr && last_ready_->priority_ >= task.priority_) {
    link = &last_ready_->next_ready_;
  }
  while (*link != nullptr && (*link)->priority_ >= task.priority_) {
    link = &(*link)->next_ready_;
  }
  task.next_ready_ = *link;
  *link = &task;
  if (task.next_ready_ == nullptr) {
    last_ready_ = &task;
  }
  urgency_.store(first_ready_->priority_, std::memory_order_relaxed);
  queued_.fetch_add(1);
}

// Takes one of the first kSearched tasks, preferably one that this worker ran last; takes the first task after passing
// over it kSearched times in a row.
Task* WorkerPool::dequeue(std::uint32_t home) noexcept {
  if (first_ready_ == nullptr) {
    return nullptr;
  }
  Task* before = nullptr;
  Task* found = first_ready_;
  const int most = passed_over_ < kSearched ? kSearched : 0;
  int searched = 0;
  for (Task *at = first_ready_, *last = nullptr;
       at != nullptr && at->priority_ == first_ready_->priority_ && searched < most; ++searched) {
    if (at->home_ == home) {
      before = last;
      found = at;
      break;
    }
    last = at;
    at = at->next_ready_;
  }
  passed_over_ = before != nullptr ? passed_over_ + 1 : 0;
  (before != nullptr ? before->next_ready_ : first_ready_) = found->next_ready_;
  if (last_ready_ == found) {
    last_ready_ = before;
  }
  found->next_ready_ = nullptr;
  if (first_ready_ != nullptr) {
    urgency_.store(first_ready_->priority_, std::memory_order_relaxed);
  }
  queued_.fetch_sub(1);
  return found;
}

void WorkerPool::list(Task& task, Clock::time_point deadline) noexcept {
  const std::lock_guard lock(mutex_);
  task.deadline_ = deadline;
  task.parked_ = {last_parked_, nullptr};
  (last_parked_ != nullptr ? last_parked_->parked_[1] : first_parked_) = &task;
  last_parked_ = &task;
  task.is_listed_ = true;
}

void WorkerPool::unlist(Task& task) noexcept {
  const std::lock_guard lock(mutex_);
  unlist_locked(task);
}

void WorkerPool::unlist_locked(Task& task) noexcept {
  if (!std::exchange(task.is_listed_, false)) {
    return;
  }
  const auto [before, after] = task.parked_;
  (before != nullptr ? before->parked_[1] : first_parked_) = after;
  (after != nullptr ? after->parked_[0] : last_parked_) = before;
}

// Runs parked tasks whose deadline has passed. Returns the next deadline. All waits of a runtime have the same
// timeout, so the list is sorted.
Clock::time_point WorkerPool::wake_expired() noexcept {
  while (first_parked_ != nullptr) {
    Task& task = *first_parked_;
    const Clock::time_point now = Clock::now();
    if (task.deadline_ > now) {
      return task.deadline_;
    }
    Task::State parked = Task::kParked;
    if (!task.state_.compare_exchange_strong(parked, Task::kReady)) {
      return now + std::chrono::milliseconds(1);  // it is about to park, or another thread is pushing it
    }
    unlist_locked(task);
    dispatch(task);
  }
  return Clock::time_point::max();
}

bool WorkerPool::should_yield(const Task& task) noexcept {
  if (queued_.load(std::memory_order_relaxed) == 0) {
    return false;
  }
  return urgency_.load(std::memory_order_relaxed) > task.priority_ || Clock::now() - current_->began > kTurn;
}

void WorkerPool::count_command() noexcept {
  Worker& me = *current_;
  me.command_count.fetch_add(1, std::memory_order_relaxed);
  if (me.is_stuck.load(std::memory_order_relaxed)) [[unlikely]] {
    const std::lock_guard lock(mutex_);
    me.is_stuck.store(false);
    me.is_absent = false;
  }
}

void WorkerPool::relieve() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    return;
  }
  wake_expired();
  if (first_ready_ == nullptr) {
    return;
  }
  const Clock::time_point now = Clock::now();
  for (const auto& worker : workers_) {
    const std::uint64_t count = worker->command_count.load(std::memory_order_relaxed);
    if (worker->seen_count != count) {
      worker->seen_count = count;
      worker->seen_at = now;
    } else if (!worker->is_absent && worker->slot.load() == kBusy && now - worker->seen_at >= patience_) {
      worker->is_stuck.store(true);
      worker->is_absent = true;
    }
  }
  place_queued();
}

WorkerPool::Blocking::Blocking() noexcept : worker_(current_) {
  if (worker_ != nullptr) {
    const std::lock_guard lock(worker_->pool.mutex_);
    worker_->is_absent = true;
    worker_->pool.place_queued();
  }
}

WorkerPool::Blocking::~Blocking() {
  if (worker_ != nullptr) {
    const std::lock_guard lock(worker_->pool.mutex_);
    worker_->is_absent = false;
  }
}

}  // namespace yoke::detail
