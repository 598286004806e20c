// SPDX-License-Identifier: Apache-2.0
// frontends/cli/stop_request.h: treats the first Ctrl-C as a request
// to stop; the second one ends the process.
#pragma once

namespace yoke::cli {

// While an object exists, the first SIGINT or SIGTERM only sets a flag.
// Precondition: there is at most one object.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool made() const;
};

}  // namespace yoke::cli
