// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/messages.h: messages from a test's process to its parent over a
// pipe: a kind, four bytes of length, the text.
#pragma once

#include <functional>
#include <string>

namespace yoke::conformance {

struct Message {
  char kind;
  std::string text;
};

// Writes whole messages to a pipe. Does nothing if the descriptor is negative or the reader is gone.
class Outlet {
 public:
  explicit Outlet(int descriptor) : descriptor_(descriptor) {}
  void send(char kind, const std::string& text) const;

 private:
  int descriptor_;
};

// Removes every complete message from the front of `received` and passes it to `receive`.
void take_messages(std::string& received, const std::function<void(Message)>& receive);

}  // namespace yoke::conformance
