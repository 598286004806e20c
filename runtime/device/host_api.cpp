// SPDX-License-Identifier: Apache-2.0
// runtime/device/host_api.cpp: called by plugins, from any thread; nothing is thrown back into them.
#include "device/host_api.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <string>

#include "device/status.h"

namespace yoke::detail {
namespace {

constexpr std::uint64_t kMostLogBytes = 16384;

// What `host` of a table points to. Few and small, and never freed: nobody knows when a plugin calls last.
struct HostLink {
  yoke_host_api table;
  std::string name;
  bool own_memory = false;  // the application brings allocate_host_memory of its own
  std::weak_ptr<RuntimeState> runtime_when_late;
  std::mutex mutex;
  std::shared_ptr<RuntimeState> runtime;  // null: detached
  HostLink* next = nullptr;
};

// Keeps all of them reachable, for leak checkers.
constinit std::atomic<HostLink*> links{
    nullptr};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// Null: the call is late.
std::shared_ptr<RuntimeState> runtime_of(void* host, const char* call) noexcept {
  auto& link = *static_cast<HostLink*>(host);
  {
    const std::lock_guard lock(link.mutex);
    if (link.runtime != nullptr) {
      return link.runtime;
    }
  }
  if (const auto runtime = link.runtime_when_late.lock()) {
    try {
      runtime->logger.log(LogLevel::kWarn,
                          "plugin.late_call name=" + link.name + " call=" + call +
                              " reason=\"it called the host after its destroy had returned\"");
    } catch (...) {  // out of memory: the line is lost
    }
  }
  return nullptr;
}

void log(void* host, std::int32_t level, const char* text, std::uint64_t length) noexcept {
  const auto runtime = runtime_of(host, "log");
  const auto known = static_cast<LogLevel>(std::clamp(level, YOKE_LOG_TRACE, YOKE_LOG_ERROR));
  if (runtime == nullptr || text == nullptr || !runtime->logger.logs(known)) {
    return;
  }
  try {
    std::string line(text, std::min(length, kMostLogBytes));
    if (line.find(" backend=") == std::string::npos) {
      line.append(" backend=").append(static_cast<const HostLink*>(host)->name);
    }
    runtime->logger.log(known, line);
  } catch (...) {  // out of memory: the line is lost
  }
}

// Plain aligned memory, where the application gives none of its own.
void* system_allocate(std::uint64_t byte_count, std::uint64_t alignment) noexcept {
  const std::uint64_t unit = std::max<std::uint64_t>(alignment, sizeof(void*));
  const std::uint64_t blocks =
      std::max<std::uint64_t>(byte_count / unit + (byte_count % unit != 0 ? 1 : 0), 1);
  return blocks > std::numeric_limits<std::size_t>::max() / unit ? nullptr
                                                                 : std::aligned_alloc(unit, blocks * unit);
}

void* allocate(void* host, std::uint64_t byte_count, std::uint64_t alignment) noexcept {
  const auto runtime = runtime_of(host, "allocate");
  if (runtime == nullptr || !std::has_single_bit(alignment)) {
    return nullptr;
  }
  const auto& given = runtime->options.allocate_host_memory;
  if (!given) {
    return system_allocate(byte_count, alignment);
  }
  try {
    return given(byte_count, alignment);
  } catch (...) {
    return nullptr;
  }
}

void deallocate(void* host, void* memory) noexcept {
  if (memory == nullptr) {
    return;
  }
  const auto runtime = runtime_of(host, "deallocate");
  if (!static_cast<const HostLink*>(host)->own_memory) {
    std::free(memory);
    return;
  }
  if (runtime == nullptr) {
    return;  // who could free it may be gone
  }
  const auto& given = runtime->options.free_host_memory;
  try {
    given(memory);
  } catch (...) {  // nobody to tell: the memory is the application's matter
  }
}

void trace_begin(void*, const char*) noexcept {}
void trace_end(void*) noexcept {}

}  // namespace

const yoke_host_api* attach_host(const BackendState& state) {
  auto* const link = new HostLink;
  link->name = state.name;
  link->own_memory = static_cast<bool>(state.runtime->options.free_host_memory);
  link->runtime_when_late = state.runtime;
  link->runtime = state.runtime;
  link->table = YOKE_HOST_API_INIT;
  link->table.host = link;
  link->table.log = &log;
  link->table.error_set = &error_set;
  link->table.trace_begin = &trace_begin;
  link->table.trace_end = &trace_end;
  link->table.allocate = &allocate;
  link->table.deallocate = &deallocate;
  link->next = links.load();
  while (!links.compare_exchange_weak(link->next, link)) {
  }
  return &link->table;
}

void detach_host(const yoke_host_api* table) noexcept {
  if (table == nullptr) {
    return;
  }
  auto& link = *static_cast<HostLink*>(table->host);
  std::shared_ptr<RuntimeState> last;  // freed outside the lock
  {
    const std::lock_guard lock(link.mutex);
    last.swap(link.runtime);
  }
}

}  // namespace yoke::detail
