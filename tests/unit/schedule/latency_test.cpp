// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/latency_test.cpp: how quickly an idle stream runs a command, compared with a condition
// variable in the same process.
#include <algorithm>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <thread>

#include "rig.h"

namespace yoke::test {
namespace {

using Clock = std::chrono::steady_clock;

double median_us(std::vector<double>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double since_us(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Round trips: one thread wakes another, and sleeps until it is woken itself.
std::vector<double> condition_variable_round_trips(int count) {
  std::mutex mutex;
  std::condition_variable changed;
  int sent = 0;
  int answered = 0;
  std::thread other([&] {
    std::unique_lock lock(mutex);
    while (answered < count) {
      changed.wait(lock, [&] { return sent > answered; });
      ++answered;
      changed.notify_all();
    }
  });
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const auto start = Clock::now();
    std::unique_lock lock(mutex);
    ++sent;
    changed.notify_all();
    changed.wait(lock, [&] { return answered == sent; });
    times.push_back(since_us(start));
  }
  other.join();
  return times;
}

// Round trips through a stream: a one-byte fill, and a wait for it.
std::vector<double> stream_round_trips(const Rig& rig, int count, std::chrono::microseconds idle) {
  const auto stream = rig.stream();
  const BufferView buffer = buffer_of<std::uint8_t>(rig.device, 1);
  const std::uint8_t one = 1;
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    std::this_thread::sleep_for(idle);
    const auto start = Clock::now();
    stream->fill(buffer, &one, 1);
    stream->wait();
    times.push_back(since_us(start));
  }
  return times;
}

TEST(LatencyTest, IdleStreamIsAboutAsFastAsAConditionVariable) {
  constexpr int kCount = 1000;
  constexpr int kAttempts = 5;
  const Rig rig;
  bool is_soon = false;
  // Other load on the machine may disturb single attempts.
  for (int attempt = 0; attempt < kAttempts && !is_soon; ++attempt) {
    std::vector<double> plain = condition_variable_round_trips(kCount);
    std::vector<double> hot = stream_round_trips(rig, kCount, std::chrono::microseconds(0));
    std::vector<double> cold = stream_round_trips(rig, kCount, std::chrono::microseconds(200));
    const double plain_us = median_us(plain);
    const double hot_us = median_us(hot);
    const double cold_us = median_us(cold);
    std::cout << "round trip, median of " << kCount << ": condition variable " << plain_us
              << " us, busy stream " << hot_us << " us, sleeping stream " << cold_us << " us\n";
    // Generous, because on a loaded machine a spinning thread may delay the others.
    is_soon = hot_us < 2 * plain_us + 20 && cold_us < 3 * plain_us + 50;
  }
  EXPECT_TRUE(is_soon) << "in none of " << kAttempts << " attempts";
}

}  // namespace
}  // namespace yoke::test
