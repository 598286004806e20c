// SPDX-License-Identifier: Apache-2.0
// runtime/layers/surroundings.cpp: floating-point mode, signals, folder, locale, threads.
#include "layers/surroundings.h"

#include <signal.h>
#include <unistd.h>

#include <cfenv>
#include <climits>
#include <clocale>
#include <filesystem>
#include <system_error>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace yoke::layers {
namespace {

std::uint32_t float_mode() {
  auto mode = static_cast<std::uint32_t>(std::fegetround());
#if defined(__SSE__)
  constexpr std::uint32_t kStickyFlags = 0x3f;  // set by every inexact result
  mode = (mode << 16U) | (_mm_getcsr() & ~kStickyFlags);
#endif
  return mode;
}

std::uint64_t signal_mask() {
  sigset_t set;
  std::uint64_t mask = 0;
  if (pthread_sigmask(SIG_BLOCK, nullptr, &set) == 0) {
    for (int signal = 1; signal < 64; ++signal) {
      mask |= sigismember(&set, signal) == 1 ? std::uint64_t{1} << static_cast<unsigned>(signal) : 0;
    }
  }
  return mask;
}

std::vector<std::uint64_t> handlers() {
  std::vector<std::uint64_t> all;
  for (int signal = 1; signal < 32; ++signal) {
    struct sigaction action = {};
    ::sigaction(signal, nullptr, &action);
    all.push_back(reinterpret_cast<std::uint64_t>(action.sa_handler) ^
                  static_cast<std::uint64_t>(static_cast<unsigned>(action.sa_flags)));
  }
  return all;
}

}  // namespace

Surroundings look_around(bool whole) {
  Surroundings now;
  now.float_mode = float_mode();
  now.signal_mask = signal_mask();
  now.is_whole = whole;
  if (whole) {
    char folder[PATH_MAX];
    now.folder = ::getcwd(folder, sizeof(folder)) == nullptr ? "" : folder;
    const char* const locale = std::setlocale(LC_ALL, nullptr);
    now.locale = locale == nullptr ? "" : locale;
    now.handlers = handlers();
  }
  return now;
}

std::string difference(const Surroundings& before, const Surroundings& after) {
  std::string text;
  const auto add = [&](bool same, const char* what) {
    if (!same) {
      text.append(text.empty() ? "" : ", ").append(what);
    }
  };
  add(before.float_mode == after.float_mode, "the floating-point mode");
  add(before.signal_mask == after.signal_mask, "the thread's signal mask");
  if (before.is_whole && after.is_whole) {
    add(before.folder == after.folder, "the working directory");
    add(before.locale == after.locale, "the locale");
    add(before.handlers == after.handlers, "a signal handler");
  }
  return text;
}

std::uint64_t thread_count() {
  std::error_code failed;
  std::uint64_t count = 0;
  std::filesystem::directory_iterator entry("/proc/self/task", failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    ++count;
  }
  return count;
}

}  // namespace yoke::layers
