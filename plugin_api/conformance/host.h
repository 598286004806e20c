// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/host.h: the host that the plugin under test calls; it records how it is called.
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

// The kit's definition of the ABI's opaque error object.
struct yoke_error {
  std::int32_t code = 0;
  std::int64_t vendor_code = 0;
  std::string text;
  int times_set = 0;
  std::thread::id owner = std::this_thread::get_id();  // the calling thread
  bool set_elsewhere = false;                          // another thread filled it
};

namespace yoke::conformance {

std::string code_name(std::int32_t code);
bool is_utf8(std::string_view text);

// One object per entered plugin. Wrong calls are recorded in faults() and fail the test.
class Host {
 public:
  Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  yoke_host_api& api() { return api_; }
  // Arguments for the entry: this host and the ABI versions of the kit's headers.
  yoke_entry_args args() const;

  // Makes the `nth` host allocation from now on (counted from 1) return NULL, once; 0: none.
  void fail_allocation(std::uint64_t nth);
  bool allocation_failed() const;  // whether that allocation was made
  std::size_t allocations_alive() const;
  std::uint64_t allocations_made() const;

  std::vector<std::string> lines() const;  // "WARN event key=value ..."
  void forget_lines();
  std::vector<std::string> faults() const;  // "log got a NULL text", ...

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
  std::uint64_t fails_at_ = 0;  // remaining allocations, counted down
  bool allocation_failed_ = false;
};

}  // namespace yoke::conformance
