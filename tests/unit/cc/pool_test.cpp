// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/pool_test.cpp: the threads that help the launching thread.
#include "pool.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int count);

namespace yoke::cc {
namespace {

TEST(PoolTest, RunsEveryPieceOnce) {
  Pool pool;
  for (int job = 0; job < 5000; ++job) {
    const int count = job % 7;
    std::vector<int> runs(static_cast<std::size_t>(count));
    pool.run(count, [&](int piece) { ++runs[static_cast<std::size_t>(piece)]; });
    ASSERT_EQ(runs, std::vector<int>(runs.size(), 1)) << "job " << job;
  }
}

// Runs `count` pieces that wait for each other for at most 20 s. Returns how many ran at once.
int run_together(Pool& pool, int count) {
  std::atomic<int> together = 0;
  pool.run(count, [&](int) {
    ++together;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (together < count && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
  });
  return together;
}

TEST(PoolTest, HelpersWakeUpAfterASleep) {
  Pool pool;
  for (int job = 0; job < 3; ++job) {
    EXPECT_EQ(run_together(pool, 2), 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST(PoolTest, FinishesAllPiecesAndRethrowsTheFirstException) {
  Pool pool;
  for (int job = 0; job < 100; ++job) {
    std::atomic<int> runs = 0;
    EXPECT_THROW(pool.run(4,
                          [&](int piece) {
                            ++runs;
                            if (piece % 2 == 0) {
                              throw std::runtime_error("piece");
                            }
                          }),
                 std::runtime_error);
    EXPECT_EQ(runs, 4);
    pool.run(4, [&](int) { ++runs; });
    EXPECT_EQ(runs, 8);
  }
}

TEST(PoolTest, SharesAllOfTheWorkAmongTheThreads) {
  for (const int threads : {1, 2, 5}) {
    for (const std::int64_t count : {0, 1, 3, 100}) {
      std::vector<std::atomic<int>> runs(100);
      share(threads, count, [&](int thread, std::int64_t first, std::int64_t last) {
        EXPECT_LT(thread, threads);
        for (; first < last; ++first) {
          ++runs[static_cast<std::size_t>(first)];
        }
      });
      EXPECT_EQ(std::accumulate(runs.begin(), runs.end(), std::int64_t{0}), count);
    }
  }
}

// A forked child has no helpers at first. When it exits, it must not wait for its parent's helpers.
TEST(PoolTest, ForkedChildRunsJobsAndExits) {
  // All helpers have started: a sanitizer's locks, which a starting thread takes, would stay locked in the child.
  ASSERT_EQ(run_together(Pool::mine(), 3), 3);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> runs = 0;
    Pool::mine().run(5, [&](int) { ++runs; });
    Pool::mine().~Pool();
    ::_exit(runs == 5 ? 0 : 1);
  }
  int status = 0;
  for (int wait = 0; wait < 2000 && ::waitpid(child, &status, WNOHANG) == 0; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    status = -1;
  }
  EXPECT_EQ(status, 0);
  if (status == -1) {
    ::kill(child, SIGKILL);  // a child that hangs would keep the output of the test open
    ::waitpid(child, nullptr, 0);
  }
}

TEST(OneOpenMpThreadTest, LimitsOpenMpToThisThreadWhileItExists) {
  omp_set_num_threads(3);
  {
    const OneOpenMpThread one;
    EXPECT_EQ(omp_get_max_threads(), 1);
  }
  EXPECT_EQ(omp_get_max_threads(), 3);
  omp_set_num_threads(1);
}

}  // namespace
}  // namespace yoke::cc
