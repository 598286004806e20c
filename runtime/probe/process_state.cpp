// SPDX-License-Identifier: Apache-2.0
// runtime/probe/process_state.cpp: reads and compares process-wide settings.
#include "probe/process_state.h"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction
#include <unistd.h>
#include <yoke/runtime/folder.h>

#include <algorithm>
#include <cfenv>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "loader/memory_reader.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace yoke::probe {
namespace {

std::uint64_t float_mode() {
  auto mode = static_cast<std::uint64_t>(std::fegetround()) << 32U;
  mode |= static_cast<std::uint64_t>(::fegetexcept()) << 16U;
#if defined(__x86_64__)
  constexpr unsigned kStickyFlags = 0x3f;
  mode ^= std::uint64_t{_mm_getcsr() & ~kStickyFlags} << 40U;
#elif defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__)
  mode ^= std::uint64_t{__builtin_aarch64_get_fpcr()} << 32U;
#endif
  return mode;
}

std::string quoted(const std::string& text) {
  return "'" + loader::printable(text, 60) + "'";
}

std::string changed_variables(const ProcessState& before, const ProcessState& after) {
  std::vector<std::string> differ;
  std::set_symmetric_difference(before.environment.begin(), before.environment.end(),
                                after.environment.begin(), after.environment.end(),
                                std::back_inserter(differ));
  std::string names;
  for (const std::string& one : differ) {
    const std::string name = one.substr(0, one.find('='));
    if (names.find(name) == std::string::npos) {
      names.append(names.empty() ? "" : ", ").append(loader::printable(name, 40));
    }
  }
  return names;
}

}  // namespace

ProcessState process_state() {
  ProcessState state;
  for (int number = 1; number < static_cast<int>(state.signals.size()); ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0) {
      state.signals[static_cast<std::size_t>(number)] = {reinterpret_cast<std::uintptr_t>(action.sa_handler),
                                                         action.sa_flags};
    }
  }
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  for (int number = 1; number < static_cast<int>(state.signals.size()); ++number) {
    if (::sigismember(&blocked, number) == 1) {
      state.blocked_signals += " " + std::to_string(number);
    }
  }
  const char* locale = std::setlocale(LC_ALL, nullptr);
  state.locale = locale == nullptr ? "" : locale;
  state.float_mode = float_mode();
  std::error_code failed;
  state.working_directory = std::filesystem::current_path(failed).string();
  for (char** variable = ::environ; variable != nullptr && *variable != nullptr; ++variable) {
    state.environment.emplace_back(*variable);
  }
  std::sort(state.environment.begin(), state.environment.end());
  state.thread_count = detail::names_in("/proc/self/task").size();
  return state;
}

std::vector<std::string> differences(const ProcessState& before, const ProcessState& after) {
  std::vector<std::string> found;
  std::string signals;
  for (std::size_t number = 1; number < before.signals.size(); ++number) {
    if (before.signals[number] != after.signals[number]) {
      const char* name = ::sigabbrev_np(static_cast<int>(number));
      signals.append(signals.empty() ? "" : ", ")
          .append(name == nullptr ? std::to_string(number) : std::string("SIG") + name);
    }
  }
  if (!signals.empty()) {
    found.push_back("the handler of " + signals);
  }
  if (before.blocked_signals != after.blocked_signals) {
    found.emplace_back("the set of blocked signals");
  }
  if (before.locale != after.locale) {
    found.push_back("the locale (from " + quoted(before.locale) + " to " + quoted(after.locale) + ")");
  }
  if (before.float_mode != after.float_mode) {
    found.emplace_back("the floating-point mode (rounding, traps or flushing to zero)");
  }
  if (before.working_directory != after.working_directory) {
    found.push_back("the working directory (from " + quoted(before.working_directory) + " to " +
                    quoted(after.working_directory) + ")");
  }
  if (const auto names = changed_variables(before, after); !names.empty()) {
    found.push_back("the environment (" + names + ")");
  }
  if (before.thread_count != after.thread_count) {
    found.push_back("the number of threads (from " + std::to_string(before.thread_count) + " to " +
                    std::to_string(after.thread_count) + ")");
  }
  return found;
}

}  // namespace yoke::probe
