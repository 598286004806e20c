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
constexpr std::size_t kSmallStack = 256 * 1024;  // too little for values 200 operations deep

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
  for (const pthread_t thread : small_threads_) {
    pthread_join(thread, nullptr);
  }
}

// With the bug small_stacks.
void Pool::add_small_thread() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kSmallStack);
  const auto serve = [](void* shared) -> void* {
    work(*std::unique_ptr<std::shared_ptr<Shared>>(static_cast<std::shared_ptr<Shared>*>(shared)));
    return nullptr;
  };
  auto shared = std::make_unique<std::shared_ptr<Shared>>(shared_);
  pthread_t thread;
  const int failed = pthread_create(&thread, &attributes, serve, shared.get());
  pthread_attr_destroy(&attributes);
  if (failed != 0) {
    throw sdk::Failure(YOKE_STATUS_RESOURCE_EXHAUSTED, "could not start a thread", failed);
  }
  static_cast<void>(shared.release());  // the thread has it
  small_threads_.push_back(thread);
}

void Pool::submit(std::function<void()> job) {
  const std::lock_guard lock(shared_->mutex);
  shared_->jobs.push_back(std::move(job));
  // At least some, because a thread that has just finished its job does not count as idle yet.
  while (threads_.size() + small_threads_.size() < kThreads ||
         (shared_->jobs.size() > shared_->idle && !bug("pool_cap"))) {
    const sdk::detail::SignalsBlocked inherited;
    if (bug("small_stacks")) {
      add_small_thread();
    } else {
      threads_.emplace_back([shared = shared_] { work(shared); });
    }
    ++shared_->idle;  // until it takes its first job
  }
  shared_->changed.notify_one();
}

void Pool::work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    const auto is_wanted = [&] { return !shared->jobs.empty() || shared->is_closing; };
    if (bug("detached_threads") || bug("idle_count_kept")) {
      const std::chrono::seconds most(bug("idle_count_kept") ? 2 : 10);
      if (!shared->changed.wait_for(lock, most, is_wanted)) {
        shared->idle -= bug("idle_count_kept") ? 0U : 1U;  // or submit() relies on a thread that has ended
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
