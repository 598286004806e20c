// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/pool.cpp: the threads of a device.
#include <yoke/sdk/worker_stream.h>

#include <chrono>
#include <utility>

#include "../bugs.h"
#include "queue.h"

namespace yoke::strip {

using handmade::bug;

namespace {

constexpr std::size_t kThreads = 6;

}  // namespace

Pool::~Pool() {
  if (bug("detached_threads")) {
    for (std::thread& thread : threads_) {
      thread.detach();  // an idle thread ends by itself
    }
    return;
  }
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->is_closing = true;
    shared_->changed.notify_all();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void Pool::submit(std::function<void()> job) {
  const std::lock_guard lock(shared_->mutex);
  shared_->jobs.push_back(std::move(job));
  // At least some, because a thread that has just finished its job does not count as idle yet.
  while (threads_.size() < kThreads || (shared_->jobs.size() > shared_->idle && !bug("pool_cap"))) {
    const sdk::detail::SignalsBlocked inherited;
    threads_.emplace_back([shared = shared_] { work(shared); });
    ++shared_->idle;  // until it takes its first job
  }
  shared_->changed.notify_one();
}

void Pool::work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    const auto is_wanted = [&] { return !shared->jobs.empty() || shared->is_closing; };
    if (bug("detached_threads")) {
      if (!shared->changed.wait_for(lock, std::chrono::seconds(10), is_wanted)) {
        --shared->idle;
        return;
      }
    } else {
      shared->changed.wait(lock, is_wanted);
    }
    if (shared->jobs.empty()) {
      return;
    }
    std::function<void()> job = std::move(shared->jobs.front());
    shared->jobs.pop_front();
    --shared->idle;
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
    ++shared->idle;
  }
}

void Pool::parallel(int parts, const std::function<void(int)>& body) {
  struct Left {
    std::mutex mutex;
    std::condition_variable changed;
    int count;
  };
  const auto left = std::make_shared<Left>();
  left->count = parts - 1;
  for (int part = 1; part < parts; ++part) {
    submit([left, part, body] {
      body(part);
      const std::lock_guard lock(left->mutex);
      --left->count;
      left->changed.notify_all();
    });
  }
  body(0);
  std::unique_lock lock(left->mutex);
  left->changed.wait(lock, [&] { return left->count == 0; });
}

}  // namespace yoke::strip
