// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/run/isolate.h: a part of a test in a process of its own, which may crash or hang.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace yoke::conformance {

class Outlet {
 public:
  explicit Outlet(int descriptor) : descriptor_(descriptor) {}
  void send(char kind, const std::string& text) const;

 private:
  int descriptor_;
};

struct Message {
  char kind;
  std::string text;
};

// How the process ended.
struct Ending {
  bool crashed = false;
  bool hung = false;
  std::string words;  // "died of SIGSEGV", "did not answer for 20 s"
  bool well() const { return !crashed && !hung; }
};

// Forks; `body` runs in the child, which never returns from here. The caller must not have opened a device.
// `receive` gets each message as it comes. Killed when nothing came for `silence_s`, or after `seconds` in
// all.
Ending isolate(const std::function<void(const Outlet&)>& body,
               const std::function<void(const Message&)>& receive, double silence_s, double seconds);

}  // namespace yoke::conformance
