// SPDX-License-Identifier: Apache-2.0
// tests/support/thread_count.h: the number of threads of this process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <thread>

namespace yoke::test {

inline std::size_t thread_count() {
  // The thread sanitizer starts its own thread together with the first thread of a process.
  static const bool has_started_one = (std::thread([] {}).join(), true);
  (void)has_started_one;
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

}  // namespace yoke::test
