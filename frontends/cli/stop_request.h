// SPDX-License-Identifier: Apache-2.0
// frontends/cli/stop_request.h: treats the first Ctrl-C, and a closed pipe, as
// a request to stop; the second Ctrl-C ends the process.
#pragma once

#include <chrono>

namespace yoke::cli {

// While an object exists, the first SIGINT, SIGTERM or SIGHUP only sets a flag, and writing to a closed pipe
// fails without a signal. Signals that the caller of the command ignores, as nohup does, stay ignored.
// Precondition: there is at most one object.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // Whether a signal came, or the reader of standard output or standard error closed its pipe, which is
  // checked ten times a second.
  bool made();
  // Whether a signal came.
  static bool has_signal();

 private:
  bool pipe_closed_ = false;
  std::chrono::steady_clock::time_point checked_;
};

// Whether the descriptor is a pipe or socket whose reader has closed it.
bool is_closed_pipe(int descriptor);

}  // namespace yoke::cli
