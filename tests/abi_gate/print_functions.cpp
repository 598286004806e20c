// SPDX-License-Identifier: Apache-2.0
// tests/abi_gate/print_functions.cpp: prints the table of the validation layer, one
// function per line: name, thread, time, argument=ownership ...
#include <cstdio>

#include "abi/functions.h"

namespace {

const char* text_of(yoke::abi::Time time) {
  constexpr const char* kNames[] = {"bounded", "may-block", "asynchronous"};
  return kNames[static_cast<std::size_t>(time)];
}

const char* text_of(yoke::abi::Ownership ownership) {
  constexpr const char* kNames[] = {"none", "call", "until-event", "owned", "ended"};
  return kNames[static_cast<std::size_t>(ownership)];
}

}  // namespace

int main() {
  for (const yoke::abi::Row& row : yoke::abi::rows()) {
    std::printf("%s %s %s", row.name, yoke::abi::thread_name(row.thread), text_of(row.time));
    for (std::size_t i = 0; i < row.argument_count; ++i) {
      std::printf(" %.*s=%s", static_cast<int>(row.arguments[i].name.size()), row.arguments[i].name.data(),
                  text_of(row.arguments[i].ownership));
    }
    std::printf("\n");
  }
  return 0;
}
