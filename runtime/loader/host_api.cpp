// SPDX-License-Identifier: Apache-2.0
// runtime/loader/host_api.cpp: functions that plugins call, from any thread. They do not throw.
#include "loader/host_api.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <string>

#include "loader/status.h"

namespace yoke::loader {
namespace {

constexpr std::uint64_t kMaxLogBytes = 16384;

// The object that a table's `host` points to. Never freed: a plugin may call the host at any time.
struct HostLink {
  yoke_host_api table;
  std::string name;
  bool own_memory = false;  // the application supplies allocate_host_memory
  std::weak_ptr<const Host> host_when_late;
  std::mutex mutex;
  std::shared_ptr<const Host> host;  // null: detached
  HostLink* next = nullptr;
};

// Keeps every link reachable, for leak checkers.
constinit std::atomic<HostLink*> links{
    nullptr};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// Returns null if the plugin is detached.
std::shared_ptr<const Host> host_of(void* opaque, const char* call) noexcept {
  auto& link = *static_cast<HostLink*>(opaque);
  {
    const std::lock_guard lock(link.mutex);
    if (link.host != nullptr) {
      return link.host;
    }
  }
  if (const auto host = link.host_when_late.lock()) {
    try {
      host->logger.log(LogLevel::kWarn, "plugin.late_call name=" + link.name + " call=" + call +
                                            " reason=\"it called the host after its destroy had returned\"");
    } catch (...) {  // out of memory: the line is dropped
    }
  }
  return nullptr;
}

void log(void* opaque, std::int32_t level, const char* text, std::uint64_t length) noexcept {
  const auto host = host_of(opaque, "log");
  const auto known = static_cast<LogLevel>(std::clamp(level, YOKE_LOG_TRACE, YOKE_LOG_ERROR));
  if (host == nullptr || text == nullptr || !host->logger.logs(known)) {
    return;
  }
  try {
    std::string line(text, std::min(length, kMaxLogBytes));
    if (line.find(" backend=") == std::string::npos) {
      line.append(" backend=").append(static_cast<const HostLink*>(opaque)->name);
    }
    host->logger.log(known, line);
  } catch (...) {  // out of memory: the line is dropped
  }
}

// Used when the application supplies no allocator.
void* system_allocate(std::uint64_t byte_count, std::uint64_t alignment) noexcept {
  const std::uint64_t unit = std::max<std::uint64_t>(alignment, sizeof(void*));
  const std::uint64_t blocks =
      std::max<std::uint64_t>(byte_count / unit + (byte_count % unit != 0 ? 1 : 0), 1);
  return blocks > std::numeric_limits<std::size_t>::max() / unit ? nullptr
                                                                 : std::aligned_alloc(unit, blocks * unit);
}

void* allocate(void* opaque, std::uint64_t byte_count, std::uint64_t alignment) noexcept {
  const auto host = host_of(opaque, "allocate");
  if (host == nullptr || !std::has_single_bit(alignment)) {
    return nullptr;
  }
  const auto& supplied = host->options.allocate_host_memory;
  if (!supplied) {
    return system_allocate(byte_count, alignment);
  }
  try {
    return supplied(byte_count, alignment);
  } catch (...) {
    return nullptr;
  }
}

void deallocate(void* opaque, void* memory) noexcept {
  if (memory == nullptr) {
    return;
  }
  const auto host = host_of(opaque, "deallocate");
  if (!static_cast<const HostLink*>(opaque)->own_memory) {
    std::free(memory);
    return;
  }
  if (host == nullptr) {
    return;  // the application's free_host_memory may no longer exist
  }
  try {
    host->options.free_host_memory(memory);
  } catch (...) {  // the plugin cannot handle it, and the memory is the application's
  }
}

const void* get_table(void* opaque, const char* id) noexcept {
  const auto host = host_of(opaque, "get_table");
  if (host == nullptr || id == nullptr) {
    return nullptr;
  }
  const auto& tables = host->options.host_tables;
  const auto found = tables.find(std::string_view(id));
  return found == tables.end() ? nullptr : found->second;
}

void trace_begin(void*, const char*) noexcept {}
void trace_end(void*) noexcept {}

}  // namespace

AttachedHost attach_host(const std::shared_ptr<const Host>& host, const std::string& name) {
  auto owned = std::make_unique<HostLink>();
  auto* const link = owned.get();
  link->name = name;
  link->own_memory = static_cast<bool>(host->options.free_host_memory);
  link->host_when_late = host;
  link->host = host;
  link->table = YOKE_HOST_API_INIT;
  link->table.host = link;
  link->table.log = &log;
  link->table.error_set = &detail::error_set;
  link->table.trace_begin = &trace_begin;
  link->table.trace_end = &trace_end;
  link->table.allocate = &allocate;
  link->table.deallocate = &deallocate;
  link->table.get_table = &get_table;
  link->next = links.load();
  while (!links.compare_exchange_weak(link->next, link)) {
  }
  (void)owned.release();  // NOLINT(bugprone-unused-return-value): `links` keeps it
  return AttachedHost(&link->table);
}

void DetachHost::operator()(const yoke_host_api* table) const noexcept {
  auto& link = *static_cast<HostLink*>(table->host);
  std::shared_ptr<const Host> last;  // freed outside the lock
  {
    const std::lock_guard lock(link.mutex);
    last.swap(link.host);
  }
}

}  // namespace yoke::loader
