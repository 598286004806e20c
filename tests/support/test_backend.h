// SPDX-License-Identifier: Apache-2.0
// tests/support/test_backend.h: a backend inside the test's process: host memory, the reference executor, and
// switches for trouble.
#pragma once

#include <yoke/runtime/runtime.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace yoke::test {

// Shared by a test and its backend; change it at any time.
struct Control {
  // What the backend is; before it is first used.
  bool has_streams = false;  // asynchronous ones of its own, each a thread
  bool has_peers = true;     // devices read each other's memory in place
  bool has_programs = true;
  std::string unsupported;  // statements with this text do not run; empty: all do
  bool is_bare = false;     // no device_to_device, no fill, no memory that the host addresses
  std::uint32_t device_count = 2;

  // What its copies, fills and launches do, each one "call".
  std::atomic<std::uint32_t> delay_us{0};    // sleep this long first
  std::atomic<std::int64_t> fail_after{-1};  // so many calls more succeed, the next one fails; -1: none fails
  std::atomic<std::int32_t> fail_code{YOKE_INTERNAL};
  std::atomic<bool> is_blocked{false};       // wait until it is false, at most 20 s
  std::atomic<std::uint64_t> call_count{0};  // calls begun
  std::atomic<std::uint64_t> launch_count{0};

  std::atomic<bool> is_aborted{false};        // a device of it was, at some time
  std::atomic<bool> abort_ends_waits{false};  // also those for work that still runs

  void call();  // throws what `fail_after` asks for
};

// Registers a backend called "test<slot>", slot 0 to 7, for this runtime. The slot is taken over from any
// earlier one when the backend is first asked for.
std::shared_ptr<Control> register_backend(Runtime& runtime, int slot,
                                          std::shared_ptr<Control> control = nullptr);

}  // namespace yoke::test
