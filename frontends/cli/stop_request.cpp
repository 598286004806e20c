// SPDX-License-Identifier: Apache-2.0
// frontends/cli/stop_request.cpp: a signal handler that sets a flag, and a poll of the pipes.
#include "stop_request.h"

#include <poll.h>
#include <unistd.h>

#include <csignal>

namespace yoke::cli {
namespace {

volatile std::sig_atomic_t stop_made = 0;

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

// The second signal of any kind ends the process.
void note_stop(int first) {
  if (stop_made != 0) {
    std::signal(first, SIG_DFL);
    std::raise(first);
  }
  stop_made = 1;
}

}  // namespace

StopRequest::StopRequest() {
  stop_made = 0;
  for (const int signal : kSignals) {
    if (std::signal(signal, note_stop) == SIG_IGN) {
      std::signal(signal, SIG_IGN);
    }
  }
  std::signal(SIGPIPE, SIG_IGN);
}

StopRequest::~StopRequest() {
  for (const int signal : kSignals) {
    if (std::signal(signal, SIG_DFL) == SIG_IGN) {
      std::signal(signal, SIG_IGN);
    }
  }
}

bool StopRequest::has_signal() {
  return stop_made != 0;
}

bool StopRequest::made() {
  constexpr std::chrono::milliseconds kBetweenChecks(100);
  const auto now = std::chrono::steady_clock::now();
  if (now - checked_ >= kBetweenChecks) {
    checked_ = now;
    pipe_closed_ = is_closed_pipe(STDOUT_FILENO) || is_closed_pipe(STDERR_FILENO);
  }
  return stop_made != 0 || pipe_closed_;
}

bool is_closed_pipe(int descriptor) {
  pollfd file{.fd = descriptor, .events = 0, .revents = 0};
  return ::poll(&file, 1, 0) == 1 && (file.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace yoke::cli
