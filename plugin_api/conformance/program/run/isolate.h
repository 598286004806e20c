// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/run/isolate.h: runs a part of a test in
// a forked process, which may crash or hang.
#pragma once

#include <functional>
#include <string>

#include "../../messages.h"

namespace yoke::conformance {

// How the process ended.
struct Ending {
  bool crashed = false;
  bool hung = false;
  std::string words;  // "was killed by SIGSEGV", "sent no message for 20 s and was killed"
  bool well() const { return !crashed && !hung; }
};

// Runs `body` in a forked child and passes each of its messages to `receive`. The child ends when `body`
// returns or throws. It is killed if it sends no message for `silence_s`, or after `seconds`. A plugin
// that is used in the child must not have been used before the fork: a device must not be open.
Ending isolate(const std::function<void(const Outlet&)>& body,
               const std::function<void(const Message&)>& receive, double silence_s, double seconds);

}  // namespace yoke::conformance
