// SPDX-License-Identifier: Apache-2.0
// frontends/cli/stop_request.h: Ctrl-C as a wish: the first is noted, the second ends the process as usual.
#pragma once

namespace yoke::cli {

// While it lives, SIGINT and SIGTERM only set a flag. One at a time.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool made() const;
};

}  // namespace yoke::cli
