// SPDX-License-Identifier: Apache-2.0
// frontends/cli/stop_request.cpp: a signal handler that sets a flag.
#include "stop_request.h"

#include <csignal>

namespace yoke::cli {
namespace {

volatile std::sig_atomic_t stop_made = 0;

void note_stop(int signal) {
  stop_made = 1;
  std::signal(signal, SIG_DFL);  // the second signal ends the process
}

}  // namespace

StopRequest::StopRequest() {
  stop_made = 0;
  std::signal(SIGINT, note_stop);
  std::signal(SIGTERM, note_stop);
}

StopRequest::~StopRequest() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool StopRequest::made() const {
  return stop_made != 0;
}

}  // namespace yoke::cli
