// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/run/isolate.cpp: fork, a pipe, and poll with a deadline.
#include "isolate.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

namespace yoke::conformance {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kThrew = 70;

Ending ending_of(pid_t child, bool killed, double silence_s) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Ending ending;
  if (killed) {
    ending.hung = true;
    ending.words = "sent no message for " + std::to_string(static_cast<int>(silence_s)) + " s and was killed";
  } else if (WIFSIGNALED(status)) {
    ending.crashed = true;
    ending.words = std::string("was killed by SIG") + ::sigabbrev_np(WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0) {
    ending.crashed = true;
    ending.words = "ended with exit code " + std::to_string(WEXITSTATUS(status));
  }
  return ending;
}

}  // namespace

Ending isolate(const std::function<void(const Outlet&)>& body,
               const std::function<void(const Message&)>& receive, double silence_s, double seconds) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  const pid_t child = ::fork();
  if (child < 0) {
    throw std::system_error(errno, std::generic_category(), "fork");
  }
  if (child == 0) {
    ::close(ends[0]);
    int code = 0;
    try {
      body(Outlet(ends[1]));
    } catch (...) {
      code = kThrew;  // the body has reported its error
    }
    ::_exit(code);
  }
  ::close(ends[1]);
  const auto start = Clock::now();
  auto last = start;
  bool killed = false;
  std::string pending;
  char bytes[4096];
  for (;;) {
    const auto now = Clock::now();
    const double left = std::min(silence_s - std::chrono::duration<double>(now - last).count(),
                                 seconds - std::chrono::duration<double>(now - start).count());
    if (left <= 0) {
      killed = true;
      ::kill(child, SIGKILL);
      break;
    }
    pollfd poll{ends[0], POLLIN, 0};
    const int ready = ::poll(&poll, 1, static_cast<int>(left * 1000) + 1);
    if (ready <= 0) {
      continue;
    }
    const ssize_t count = ::read(ends[0], bytes, sizeof bytes);
    if (count == 0) {
      break;
    }
    if (count > 0) {
      last = Clock::now();
      pending.append(bytes, static_cast<std::size_t>(count));
      take_messages(pending, receive);
    }
  }
  ::close(ends[0]);
  return ending_of(child, killed, silence_s);
}

}  // namespace yoke::conformance
