// SPDX-License-Identifier: Apache-2.0
// runtime/layers/validate_process.cpp: the settings of thread and process.
#include <signal.h>

#include <cfenv>
#include <clocale>
#include <cstring>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "layers/validate.h"

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
    std::memcpy(&mask, &set, sizeof(mask));  // Linux: the first 64 signals
  }
  return mask;
}

std::vector<std::uint64_t> signal_handlers() {
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

Surroundings look_around(bool with_process) {
  Surroundings now;
  now.float_mode = float_mode();
  now.signal_mask = signal_mask();
  now.has_process = with_process;
  if (with_process) {
    const char* const locale = std::setlocale(LC_ALL, nullptr);
    now.locale = locale == nullptr ? "" : locale;
    now.handlers = signal_handlers();
  }
  return now;
}

std::string difference(const Surroundings& before, const Surroundings& after) {
  std::string text;
  const auto add = [&](bool is_same, const char* what) {
    if (!is_same) {
      text.append(text.empty() ? "" : ", ").append(what);
    }
  };
  add(before.float_mode == after.float_mode, "the floating-point mode");
  add(before.signal_mask == after.signal_mask, "the thread's signal mask");
  if (before.has_process && after.has_process) {
    add(before.locale == after.locale, "the locale");
    add(before.handlers == after.handlers, "a signal handler");
  }
  return text;
}

}  // namespace yoke::layers
