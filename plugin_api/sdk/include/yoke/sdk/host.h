// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/host.h: the host's services for a
// plugin: log, trace, status objects, memory, tables.
#pragma once

#include <yoke/plugin.h>
#include <yoke/sdk/sized.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace yoke::sdk {

// Valid for as long as the Backend lives. Every function may be called from any thread.
class Host {
 public:
  Host() = default;
  explicit Host(const yoke_host_api* api) noexcept {
    if (api != nullptr) {
      read_table(api_, api);
    }
  }

  // Logs one line, `event key=value ...`. `level` is YOKE_LOG_*.
  void log(std::int32_t level, std::string_view line) const noexcept {
    if (api_.log != nullptr) {
      api_.log(api_.host, level, line.data(), line.size());
    }
  }

  // Sets the status object, unless it is null, and returns `code`.
  std::int32_t report(yoke_error* error, std::int32_t code, std::string_view text,
                      std::int64_t vendor_code = 0) const noexcept {
    if (error != nullptr && api_.error_set != nullptr) {
      api_.error_set(error, code, vendor_code, text.data(), text.size());
    }
    return code;
  }

  // Allocates host memory with undefined contents. Returns null if there is not enough memory. Free it with
  // `deallocate` of this object or of a copy. Uses the C library if the host does not offer memory.
  // `alignment` is a power of two.
  void* allocate(std::uint64_t byte_count, std::uint64_t alignment) const noexcept {
    if (offers_memory()) {
      return api_.allocate(api_.host, byte_count, alignment);
    }
    const std::uint64_t unit = std::max<std::uint64_t>(alignment, sizeof(void*));
    const std::uint64_t blocks = std::max<std::uint64_t>(byte_count / unit + (byte_count % unit != 0), 1);
    return blocks > SIZE_MAX / unit ? nullptr : std::aligned_alloc(unit, blocks * unit);
  }
  void deallocate(void* memory) const noexcept {
    if (offers_memory()) {
      api_.deallocate(api_.host, memory);
    } else {
      std::free(memory);
    }
  }

  // Returns the host's table `id`, or null. Its first field is its
  // struct_size; copy the table with read_table.
  const void* table(const char* id) const noexcept {
    return api_.get_table != nullptr ? api_.get_table(api_.host, id) : nullptr;
  }

  const yoke_host_api& api() const noexcept { return api_; }

 private:
  bool offers_memory() const noexcept { return api_.allocate != nullptr && api_.deallocate != nullptr; }

  yoke_host_api api_{};
};

// A span in the host's trace on this thread, from construction to destruction. `name` must be a literal.
class TraceSpan {
 public:
  TraceSpan(const Host& host, const char* name) noexcept : api_(host.api()) {
    if (api_.trace_begin != nullptr) {
      api_.trace_begin(api_.host, name);
    }
  }
  ~TraceSpan() {
    if (api_.trace_end != nullptr) {
      api_.trace_end(api_.host);
    }
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  const yoke_host_api& api_;
};

}  // namespace yoke::sdk
