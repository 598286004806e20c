// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/run/isolate.cpp: fork, a pipe, poll with deadlines.
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

// Takes whole messages from the front of what was read.
void deliver(std::string& pending, const std::function<void(const Message&)>& receive) {
  std::size_t at = 0;
  std::uint32_t length = 0;
  while (pending.size() - at >= 1 + sizeof length) {
    std::memcpy(&length, pending.data() + at + 1, sizeof length);
    if (pending.size() - at < 1 + sizeof length + length) {
      break;
    }
    receive({pending[at], pending.substr(at + 1 + sizeof length, length)});
    at += 1 + sizeof length + length;
  }
  pending.erase(0, at);
}

Ending ending_of(pid_t child, bool killed, double silence_s) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Ending ending;
  if (killed) {
    ending.hung = true;
    ending.words = "did not answer for " + std::to_string(static_cast<int>(silence_s)) + " s and was killed";
  } else if (WIFSIGNALED(status)) {
    ending.crashed = true;
    ending.words = std::string("died of SIG") + ::sigabbrev_np(WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0) {
    ending.crashed = true;
    ending.words = "ended its process with exit code " + std::to_string(WEXITSTATUS(status));
  }
  return ending;
}

}  // namespace

void Outlet::send(char kind, const std::string& text) const {
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string message(1, kind);
  message.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
  std::size_t sent = 0;
  while (sent < message.size()) {
    const ssize_t count = ::write(descriptor_, message.data() + sent, message.size() - sent);
    if (count < 0 && errno != EINTR) {
      return;
    }
    sent += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
}

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
      code = kThrew;  // the body tells what it knows itself
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
      deliver(pending, receive);
    }
  }
  ::close(ends[0]);
  return ending_of(child, killed, silence_s);
}

}  // namespace yoke::conformance
