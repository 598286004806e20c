// SPDX-License-Identifier: Apache-2.0
// plugins/cc/pool.cpp: the threads that help the launching thread.
#include "pool.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <utility>

#include "tile/kernels.h"

// Compilers without OpenMP link GNU OpenMP by name.
extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int count);

namespace yoke::cc {
namespace {

// A waiting thread spins about this long before it sleeps: longer than the serial parts of a training step.
constexpr std::chrono::microseconds kSpin{50};

constexpr std::uint64_t kCountShift = 16;
constexpr std::uint64_t kNumberShift = 32;
constexpr std::uint64_t kPieces = 0xFFFF;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until is_over() returns true, but only for about kSpin. Returns the last result of is_over().
template <class IsOver>
bool spin(const IsOver& is_over) {
  static const bool has_other_cores = std::thread::hardware_concurrency() > 1;
  if (!has_other_cores) {
    return is_over();
  }
  const auto until = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (is_over()) {
        return true;
      }
      pause();
    }
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

}  // namespace

Pool& Pool::mine() {
  thread_local Pool pool;
  return pool;
}

Pool::~Pool() {
  forget_helpers_of_parent();
  stops_ = true;
  ++news_;
  news_.notify_all();
  for (std::thread& helper : helpers_) {
    helper.join();
  }
}

// A forked process has a copy of this object, but not its helpers.
void Pool::forget_helpers_of_parent() {
  if (::getpid() != process_) {
    for (std::thread& helper : helpers_) {
      helper.detach();
    }
    helpers_.clear();
    sleepers_ = 0;
    process_ = ::getpid();
  }
}

void Pool::start_helpers(std::size_t count) {
  forget_helpers_of_parent();
  // The application's own threads handle its signals, not the helpers.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    while (helpers_.size() < count) {
      helpers_.emplace_back([this] { help(); });
    }
  } catch (const std::exception&) {
    // No thread or no memory is left: the threads that exist do the work.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Pool::run(int count, Call call, const void* work) {
  const auto pieces = static_cast<std::uint64_t>(count);
  if (helpers_.size() + 1 < pieces) {
    start_helpers(pieces - 1);
  }
  call_ = call;
  work_ = work;
  done_.store(0, std::memory_order_relaxed);
  const std::uint64_t number = (job_.load(std::memory_order_relaxed) >> kNumberShift) + 1;
  job_.store(number << kNumberShift | pieces << kCountShift, std::memory_order_release);
  news_.fetch_add(1);
  if (sleepers_.load() > 0) {
    news_.notify_all();
  }
  while (run_piece()) {
  }
  const auto is_over = [&] { return done_.load(std::memory_order_acquire) == count; };
  if (!spin(is_over)) {
    for (int done = done_.load(std::memory_order_acquire); done != count;
         done = done_.load(std::memory_order_acquire)) {
      done_.wait(done, std::memory_order_acquire);
    }
  }
  if (failed_.load(std::memory_order_relaxed)) {
    failed_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

// Takes a piece and runs it. Returns false if none is left.
bool Pool::run_piece() {
  std::uint64_t job = job_.load(std::memory_order_acquire);
  do {
    if ((job & kPieces) == (job >> kCountShift & kPieces)) {
      return false;
    }
  } while (!job_.compare_exchange_weak(job, job + 1, std::memory_order_acquire));
  const auto count = static_cast<int>(job >> kCountShift & kPieces);
  try {
    call_(work_, static_cast<int>(job & kPieces));
  } catch (...) {
    if (!failed_.exchange(true, std::memory_order_relaxed)) {
      error_ = std::current_exception();
    }
  }
  stores_are_visible();
  if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
    done_.notify_one();
  }
  return true;
}

void Pool::help() {
  omp_set_num_threads(1);
  for (;;) {
    const int news = news_.load();
    if (stops_.load()) {  // set before the news that wakes this thread
      return;
    }
    while (run_piece()) {
    }
    if (spin([&] { return news_.load(std::memory_order_relaxed) != news; })) {
      continue;
    }
    ++sleepers_;
    news_.wait(news);
    --sleepers_;
  }
}

OneOpenMpThread::OneOpenMpThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) {
    omp_set_num_threads(1);
  }
}

OneOpenMpThread::~OneOpenMpThread() {
  if (before_ != 1) {
    omp_set_num_threads(before_);
  }
}

}  // namespace yoke::cc
