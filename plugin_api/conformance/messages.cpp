// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/messages.cpp: framing of the messages between a test's process and its parent.
#include "messages.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace yoke::conformance {

void Outlet::send(char kind, const std::string& text) const {
  if (descriptor_ < 0) {
    return;
  }
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

void take_messages(std::string& received, const std::function<void(Message)>& receive) {
  std::uint32_t length = 0;
  constexpr std::size_t kHead = 1 + sizeof length;
  std::size_t at = 0;
  while (received.size() - at >= kHead) {
    std::memcpy(&length, received.data() + at + 1, sizeof length);
    if (received.size() - at - kHead < length) {
      break;
    }
    Message message{received[at], received.substr(at + kHead, length)};
    at += kHead + length;
    receive(std::move(message));
  }
  received.erase(0, at);
}

}  // namespace yoke::conformance
