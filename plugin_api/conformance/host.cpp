// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/host.cpp: the host's functions; the plugin may call them from any thread.
#include "host.h"

#include <yoke/runtime/error.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "check.h"

namespace yoke::conformance {

std::string code_name(std::int32_t code) {
  if (code < YOKE_STATUS_OK || code > YOKE_STATUS_OUT_OF_DEVICE_MEMORY) {
    return "the unknown status code " + std::to_string(code);
  }
  return yoke::code_name(static_cast<ErrorCode>(code));
}

bool is_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  std::size_t at = 0;
  while (at < text.size()) {
    const unsigned first = byte(at);
    const std::size_t size = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
    if (size == 0 || size > text.size() - at) {
      return false;
    }
    for (std::size_t i = 1; i < size; ++i) {
      if ((byte(at + i) & 0xc0U) != 0x80U) {
        return false;
      }
    }
    const unsigned second = size > 1 ? byte(at + 1) : 0x80;
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90)) {
      return false;
    }
    at += size;
  }
  return true;
}

Host::Host() {
  api_.host = this;
  api_.log = [](void* host, std::int32_t level, const char* text, std::uint64_t length) {
    static_cast<Host*>(host)->log(level, text, length);
  };
  api_.error_set = [](yoke_error* error, std::int32_t code, std::int64_t vendor_code, const char* text,
                      std::uint64_t length) {
    if (error != nullptr) {
      error->code = code;
      error->vendor_code = vendor_code;
      error->text = text == nullptr ? std::string() : std::string(text, length);
      ++error->times_set;
      error->set_elsewhere = error->set_elsewhere || error->owner != std::this_thread::get_id();
    }
  };
  api_.trace_begin = [](void* host, const char* name) {
    if (name == nullptr) {
      static_cast<Host*>(host)->fault("trace_begin got a NULL name");
    }
  };
  api_.trace_end = [](void*) {};
  api_.allocate = [](void* host, std::uint64_t byte_count, std::uint64_t alignment) {
    return static_cast<Host*>(host)->allocate(byte_count, alignment);
  };
  api_.deallocate = [](void* host, void* memory) { static_cast<Host*>(host)->deallocate(memory); };
  api_.get_table = [](void* host, const char* id) -> const void* {
    if (id == nullptr || *id == '\0') {
      static_cast<Host*>(host)->fault("get_table got a NULL or empty id");
    }
    return nullptr;
  };
}

void* Host::allocate(std::uint64_t byte_count, std::uint64_t alignment) {
  const std::lock_guard lock(mutex_);
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    faults_.push_back(
        conformance::text("allocate got the alignment ", alignment, ", which is not a power of two"));
    return nullptr;
  }
  ++allocations_made_;
  if (fails_at_ != 0 && --fails_at_ == 0) {
    allocation_failed_ = true;
    return nullptr;
  }
  const std::uint64_t unit = std::max<std::uint64_t>(alignment, sizeof(void*));
  if (byte_count > UINT64_MAX - unit) {
    return nullptr;
  }
  void* memory = std::aligned_alloc(unit, std::max<std::uint64_t>((byte_count + unit - 1) / unit, 1) * unit);
  if (memory != nullptr) {
    allocations_.insert(memory);
  }
  return memory;
}

void Host::deallocate(void* memory) {
  const std::lock_guard lock(mutex_);
  if (memory == nullptr) {
    return;
  }
  if (allocations_.erase(memory) == 0) {
    faults_.emplace_back("deallocate got a pointer that allocate did not return, or that was already freed");
    return;
  }
  std::free(memory);
}

void Host::fail_allocation(std::uint64_t nth) {
  const std::lock_guard lock(mutex_);
  fails_at_ = nth;
  allocation_failed_ = false;
}

bool Host::allocation_failed() const {
  const std::lock_guard lock(mutex_);
  return allocation_failed_;
}

std::size_t Host::allocations_alive() const {
  const std::lock_guard lock(mutex_);
  return allocations_.size();
}

std::uint64_t Host::allocations_made() const {
  const std::lock_guard lock(mutex_);
  return allocations_made_;
}

yoke_entry_args Host::args() const {
  yoke_entry_args args = YOKE_ENTRY_ARGS_INIT;
  args.host = &api_;
  return args;
}

void Host::log(std::int32_t level, const char* text, std::uint64_t length) {
  static constexpr const char* kLevels[] = {"TRACE", "DEBUG", "INFO", "WARN", "ERROR"};
  if (text == nullptr) {
    fault("log got a NULL text");
    return;
  }
  const std::string line(text, length);
  if (level < YOKE_LOG_TRACE || level > YOKE_LOG_ERROR) {
    fault(conformance::text("log got the unknown level ", level, " for the line '", line, "'"));
    return;
  }
  if (!is_utf8(line) || line.find_first_of(std::string_view("\n\0", 2)) != std::string::npos) {
    fault("log got a text that is not a single line of UTF-8: '" + line + "'");
  }
  const std::lock_guard lock(mutex_);
  lines_.push_back(std::string(kLevels[level]) + " " + line);
}

void Host::fault(const std::string& text) {
  const std::lock_guard lock(mutex_);
  faults_.push_back(text);
}

std::vector<std::string> Host::lines() const {
  const std::lock_guard lock(mutex_);
  return lines_;
}

void Host::forget_lines() {
  const std::lock_guard lock(mutex_);
  lines_ = {};
}

std::vector<std::string> Host::faults() const {
  const std::lock_guard lock(mutex_);
  return faults_;
}

}  // namespace yoke::conformance
