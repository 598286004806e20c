// SPDX-License-Identifier: Apache-2.0
// tests/abi_gate/print_functions.cpp: the validation layer's table as text: name, thread, time,
// argument=ownership ...
#include <cstdio>

#include "layers/functions.h"

namespace {

const char* text_of(yoke::layers::Time time) {
  constexpr const char* kNames[] = {"bounded", "may-block", "asynchronous"};
  return kNames[static_cast<std::size_t>(time)];
}

const char* text_of(yoke::layers::Ownership ownership) {
  constexpr const char* kNames[] = {"none", "call", "until-event", "owned", "ended"};
  return kNames[static_cast<std::size_t>(ownership)];
}

}  // namespace

int main() {
  for (const yoke::layers::Row& row : yoke::layers::rows()) {
    std::printf("%s %s %s", row.name, yoke::layers::thread_name(row.thread), text_of(row.time));
    for (std::size_t i = 0; i < row.argument_count; ++i) {
      std::printf(" %s=%s", row.arguments[i].name, text_of(row.arguments[i].ownership));
    }
    std::printf("\n");
  }
  return 0;
}
