// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/worker_pool.h: the threads that run the commands of a runtime's streams: at most one for each
// core that the process may use, however many streams there are.
//
// A stream is a Task. One worker at a time runs it, until its queue is empty or its next command waits for
// another stream; a waiting task is parked and does not occupy a worker. A worker creates a Blocking around a call that
// may block for long (a callback, a wait for a backend's stream): another worker then replaces it.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "schedule/parking.h"

namespace yoke::detail {

class WorkerPool;

class Task {
 public:
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

 protected:
  // kIdle: has nothing to run. kReady: in the pool's queue, or given to a worker. kParked: waits for other work.
  enum State : std::uint8_t { kIdle, kReady, kRunning, kParked, kStopped };

  Task() = default;
  ~Task() = default;

  std::atomic<State> state_{kStopped};
  std::int32_t priority_ = 0;  // tasks with higher numbers run first

 private:
  friend class WorkerPool;
  // Runs commands. Afterwards the task may be destroyed, or running on another worker.
  virtual void run_commands() noexcept = 0;

  Task* next_ready_ = nullptr;
  std::array<Task*, 2> parked_ = {};  // the neighbors in the list of parked tasks
  Clock::time_point deadline_;
  bool is_listed_ = false;
  std::uint32_t home_ = 0;  // the worker that ran it last, for its caches
};

class WorkerPool : public std::enable_shared_from_this<WorkerPool> {
  struct Worker;

 public:
  // `limit`: the most workers that run at once; 0: one per core. `patience`: a worker whose command takes longer
  // is replaced while tasks wait for a worker.
  WorkerPool(std::uint32_t limit, std::chrono::nanoseconds patience);
  ~WorkerPool() = default;
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // The cores that the process may use.
  static std::uint32_t core_count();

  // A task may be pushed between add() and remove(). The first calls of add() start threads; if none can be started,
  // throws Error kResourceExhausted. The last remove() ends the threads, and waits for them unless it runs on one.
  void add(Task& task);
  void remove() noexcept;
  // Runs the task soon. Precondition: the caller has changed its state to kReady.
  void push(Task& task) noexcept;
  // To be called by threads that wait: see `patience`.
  void relieve() noexcept;

  // The rest is for tasks, while a worker runs them.

  // Spins until is_ready(), for a short time, and only while no other task needs this worker.
  template <class IsReady>
  bool linger(Spin& spin, const IsReady& is_ready) noexcept {
    Worker& me = *current_;
    if (queued_.load(std::memory_order_relaxed) != 0) {
      return is_ready();
    }
    me.slot.store(kFree);
    spin([&] {
      return me.slot.load(std::memory_order_relaxed) != kFree ||
             queued_.load(std::memory_order_relaxed) != 0 || is_ready();
    });
    take_slot(me);
    return is_ready();
  }
  // The worker continues with its task; a task that it was given meanwhile runs on another worker.
  void go_on() noexcept;
  // Whether the worker should run another task next, because this one has run for a while or another is more urgent.
  bool should_yield(const Task& task) noexcept;
  // To be called after each command.
  void count_command() noexcept;
  // For a task that is about to be parked: it runs again at the deadline.
  void list(Task& task, Clock::time_point deadline) noexcept;
  // For a task that is not parked after all.
  void unlist(Task& task) noexcept;
  // Makes the task idle. Returns false if it has work after all: the worker then continues with it.
  // Holds the lock of stop_idle and stop, because an idle task may be stopped and destroyed.
  template <class HasWork>
  bool rest(Task& task, const HasWork& has_work) noexcept {
    const std::lock_guard lock(mutex_);
    task.state_.store(Task::kIdle);
    Task::State idle = Task::kIdle;
    return !has_work() || !task.state_.compare_exchange_strong(idle, Task::kRunning);
  }
  // To be called by the thread that pushes the task. Returns false if the task is not idle.
  bool stop_idle(Task& task) noexcept {
    const std::lock_guard lock(mutex_);
    Task::State idle = Task::kIdle;
    return task.state_.compare_exchange_strong(idle, Task::kStopped);
  }
  // Sets the task's state to kStopped, wakes wait_stopped, and returns the result of leave(), called under the lock.
  template <class Leave>
  auto stop(Task& task, const Leave& leave) noexcept {
    const std::lock_guard lock(mutex_);
    task.state_.store(Task::kStopped);
    stopped_.notify_all();
    return leave();
  }
  // Returns false at the deadline, after calling give_up() under the lock of stop().
  template <class GiveUp>
  bool wait_stopped(const Task& task, Clock::time_point deadline, const GiveUp& give_up) {
    std::unique_lock lock(mutex_);
    const bool is_stopped =
        stopped_.wait_until(lock, deadline, [&] { return task.state_.load() == Task::kStopped; });
    if (!is_stopped) {
      give_up();
    }
    return is_stopped;
  }

  // While it exists, the calling worker counts as absent. Has no effect on other threads.
  class Blocking {
   public:
    Blocking() noexcept;
    ~Blocking();
    Blocking(const Blocking&) = delete;
    Blocking& operator=(const Blocking&) = delete;

   private:
    Worker* const worker_;
  };

 private:
  // The value of a worker's slot: one of these, or the address of the task that it was given.
  static constexpr std::uintptr_t kBusy = 0;
  static constexpr std::uintptr_t kFree = 1;   // it may be given a task
  static constexpr std::uintptr_t kSpare = 2;  // as kFree, but only in place of an absent worker
  static constexpr std::uintptr_t kLeave = 3;  // its thread ends

  struct Worker {
    explicit Worker(WorkerPool& of) : pool(of) {}
    WorkerPool& pool;
    std::uint32_t number = 0;
    std::thread thread;
    std::atomic<std::uintptr_t> slot{kBusy};
    Parking bed;
    std::atomic<std::uint64_t> command_count{0};
    std::atomic<bool> is_stuck{false};
    Clock::time_point began;  // when it began to run its task
    Task* next = nullptr;     // used by its thread only
    // Under the pool's mutex.
    bool is_absent = false;
    bool is_leaving = false;
    bool is_detached = false;  // its thread deletes it
    std::uint64_t seen_count = ~std::uint64_t{0};
    Clock::time_point seen_at;
  };

  void work(Worker& me) noexcept;
  Task* next_task(Worker& me) noexcept;
  void take_slot(Worker& me) noexcept;
  // Precondition of the following functions: the mutex is held.
  void start(Task* first);  // throws std::system_error and std::bad_alloc
  bool retire(Worker& me) noexcept;
  void dispatch(Task& task) noexcept;
  bool place(Task& task) noexcept;
  void place_queued() noexcept;
  static bool give(Worker& worker, std::uintptr_t state, Task& task) noexcept;
  std::uint32_t active_count() const noexcept;
  void enqueue(Task& task) noexcept;
  Task* dequeue(std::uint32_t home) noexcept;
  void unlist_locked(Task& task) noexcept;
  Clock::time_point wake_expired() noexcept;

  static thread_local Worker* current_;

  const std::uint32_t limit_;
  const std::chrono::nanoseconds patience_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::uint32_t task_count_ = 0;
  std::uint32_t next_home_ = 0;
  std::atomic<std::uint32_t> queued_{0};
  std::atomic<std::int32_t> urgency_{0};  // the priority of the first task in the queue
  Task* first_ready_ = nullptr;
  Task* last_ready_ = nullptr;
  int passed_over_ = 0;  // tasks taken in a row ahead of the first one
  Task* first_parked_ = nullptr;
  Task* last_parked_ = nullptr;
};

}  // namespace yoke::detail
