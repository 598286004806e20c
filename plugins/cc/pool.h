// SPDX-License-Identifier: Apache-2.0
// plugins/cc/pool.h: the threads that help the launching thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace yoke::cc {

// Runs the pieces of one job at a time. The calling thread works too and takes every piece that no helper has
// started, so a job never waits for a thread that the operating system has not scheduled yet. Idle helpers
// spin for a moment and then sleep. OpenMP's threads spin much longer, which made training 15 times slower on
// a busy machine.
class Pool {
 public:
  Pool() = default;
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // The pool of the calling thread.
  static Pool& mine();

  // Calls work(piece) once for every piece in [0, count), on up to `count` threads, and returns when all are
  // done. Starts missing helpers; if the system refuses, fewer threads do the work. Rethrows the first
  // exception.
  template <class Work>
  void run(int count, const Work& work) {
    if (count <= 1) {
      for (int piece = 0; piece < count; ++piece) {
        work(piece);
      }
      return;
    }
    run(
        count, [](const void* of, int piece) { (*static_cast<const Work*>(of))(piece); }, &work);
  }

 private:
  using Call = void (*)(const void*, int);
  void run(int count, Call call, const void* work);
  void forget_helpers_of_parent();
  void start_helpers(std::size_t count);
  void help();
  bool run_piece();

  // From the highest bits to the lowest: the job's number (32 bits), its piece count (16), its next free
  // piece (16).
  std::atomic<std::uint64_t> job_ = 0;
  std::atomic<int> done_ = 0;      // finished pieces of the job
  std::atomic<int> news_ = 0;      // counts jobs; sleeping helpers wait until it changes
  std::atomic<int> sleepers_ = 0;  // helpers that sleep
  std::atomic<bool> stops_ = false;
  Call call_ = nullptr;  // valid until all pieces are done
  const void* work_ = nullptr;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> helpers_;
  int process_ = 0;  // the process that started the helpers
};

// Divides [0, count) into equal pieces, at most one for each thread, and calls work(thread, first, last) for
// each.
template <class Work>
void share(int threads, std::int64_t count, const Work& work) {
  const int pieces = static_cast<int>(threads < count ? threads : count);
  Pool::mine().run(pieces,
                   [&](int piece) { work(piece, count * piece / pieces, count * (piece + 1) / pieces); });
}

// While it exists, oneDNN uses only the calling thread.
class OneOpenMpThread {
 public:
  OneOpenMpThread();
  ~OneOpenMpThread();
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  int before_;
};

}  // namespace yoke::cc
