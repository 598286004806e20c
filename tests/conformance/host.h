// SPDX-License-Identifier: Apache-2.0
// tests/conformance/host.h: the host that a plugin under test sees: it remembers what it is told and how.
#pragma once

#include <yoke/plugin.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <vector>

// What is behind the ABI's opaque status object in the kit.
struct yoke_error {
  std::int32_t code = 0;
  std::int64_t vendor_code = 0;
  std::string text;
  int times_set = 0;
  std::thread::id owner = std::this_thread::get_id();  // who made the call, and reads the answer
  bool set_elsewhere = false;                          // another thread filled it
};

namespace yoke::conformance {

std::string code_name(std::int32_t code);
bool is_utf8(std::string_view text);

// One per entered plugin. What the plugin does wrong with it is kept in faults(), and fails the test.
class Host {
 public:
  Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  yoke_host_api& api() { return api_; }
  // The arguments of an entry, with this host and the versions that this header speaks.
  yoke_entry_args args() const;

  // The `nth` (from 1) host allocation from now on answers NULL, once; 0: none does.
  void fail_allocation(std::uint64_t nth);
  bool allocation_failed() const;  // did it come to that?
  std::size_t allocations_alive() const;
  std::uint64_t allocations_made() const;

  std::vector<std::string> lines() const;   // "WARN event key=value ..."
  std::vector<std::string> faults() const;  // a line with a newline, a wrong host pointer, ...

 private:
  void log(std::int32_t level, const char* text, std::uint64_t length);
  void fault(const std::string& text);
  void* allocate(std::uint64_t byte_count, std::uint64_t alignment);
  void deallocate(void* memory);

  yoke_host_api api_ = YOKE_HOST_API_INIT;
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  std::vector<std::string> faults_;
  std::unordered_set<void*> allocations_;
  std::uint64_t allocations_made_ = 0;
  std::uint64_t fails_at_ = 0;  // counted down
  bool allocation_failed_ = false;
};

}  // namespace yoke::conformance
