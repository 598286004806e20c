// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/issue.cpp: issues a command as one call of the backend. A failing call poisons the stream.
#include <yoke/runtime/counted.h>
#include <yoke/runtime/stream.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>

#include "device/call.h"
#include "schedule/collective_call.h"
#include "schedule/fallback_routine.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

namespace {

// "launch of 'dense'", "from_host of 1024 bytes to 'w'".
std::string describe(const Command& command) {
  if (command.kind == CommandKind::kLaunch) {
    return "launch of '" + command.routine->entry().name + "'";
  }
  if (command.kind == CommandKind::kCollective) {
    return command.collective->describe(command.member);
  }
  const char* call = command.kind == CommandKind::kFromHost         ? "from_host"
                     : command.kind == CommandKind::kToHost         ? "to_host"
                     : command.kind == CommandKind::kDeviceToDevice ? "device_to_device"
                                                                    : "fill";
  std::string text = std::string(call) + " of " + detail::counted(command.byte_count, "byte");
  if (command.label[0] != '\0') {
    text += std::string(" of tensor '") + command.label.data() + "'";
  }
  return text;
}

}  // namespace

void StreamState::issue(const Command& command) noexcept {
  Status status;
  std::int32_t code = YOKE_STATUS_OK;
  try {
    code = call_backend(command, status);
  } catch (const std::bad_alloc&) {
    code = YOKE_STATUS_RESOURCE_EXHAUSTED;
    status.set(code, 0, "the host is out of memory");
  } catch (const std::exception& error) {
    code = YOKE_STATUS_INTERNAL;
    status.set(code, 0, error.what());
  }
  if (code != YOKE_STATUS_OK) [[unlikely]] {
    fail(command.ticket, code_of(code), [&] {
      const std::string text =
          status.text().empty() ? "the plugin gave no reason" : std::string(status.text());
      return title(command.ticket) + ": " + describe(command) + " failed: " + text + " (" +
             code_name(code_of(code)) + ")";
    });
  }
}

std::int32_t StreamState::call_backend(const Command& command, Status& status) {
  const BackendState& on = backend();
  std::int32_t code = YOKE_STATUS_OK;
  // Calls on a native stream come from several threads; a worker's come from one.
  std::unique_lock lock(issue_mutex_, std::defer_lock);
  if (is_native_) {
    lock.lock();
  }
  switch (command.kind) {
    case CommandKind::kFromHost: {
      std::int32_t source = 0;
      code = attempt<&yoke_backend_api::from_host>(on, status, native_, command.dst, command.dst_offset,
                                                   command.from, command.byte_count, &source);
      break;
    }
    case CommandKind::kToHost:
      code = attempt<&yoke_backend_api::to_host>(on, status, native_, command.src, command.src_offset,
                                                 command.to, command.byte_count);
      break;
    case CommandKind::kDeviceToDevice:
      code =
          attempt<&yoke_backend_api::device_to_device>(on, status, native_, command.dst, command.dst_offset,
                                                       command.src, command.src_offset, command.byte_count);
      break;
    case CommandKind::kFill:
      code = offers<&yoke_backend_api::fill>(on)
                 ? attempt<&yoke_backend_api::fill>(on, status, native_, command.dst, command.dst_offset,
                                                    command.byte_count,
                                                    static_cast<const void*>(command.pattern.data()),
                                                    std::uint32_t{command.pattern_byte_count})
                 : fill_by_copies(command, status, lock);
      break;
    case CommandKind::kLaunch:
      code = command.routine->fallback() != nullptr
                 ? command.routine->fallback()->run(status, command.symbol_values(), command.symbol_count,
                                                    command.unchanged)
                 : attempt<&yoke_program_api::routine_launch>(on, status, native_, command.routine->get(),
                                                              command.symbol_values(), command.symbol_count);
      break;
    case CommandKind::kCollective:
      code = attempt<&yoke_collectives_api::collectives_queue>(
          on, status, command.collective->row(command.member), std::uint32_t{1},
          static_cast<std::uint32_t>(sizeof(yoke_collective)));
      break;
    case CommandKind::kCallback:  // callback.cpp
    case CommandKind::kWait:
      break;
  }
  return code;
}

std::int32_t StreamState::fill_by_copies(const Command& command, Status& status,
                                         std::unique_lock<std::mutex>& lock) {
  constexpr std::uint64_t kBlock = std::uint64_t{64} * 1024;  // a multiple of every pattern's size
  const std::uint64_t block_byte_count = std::min(kBlock, command.byte_count);
  auto block = std::make_unique<std::byte[]>(block_byte_count);
  for (std::uint64_t i = 0; i < block_byte_count; i += command.pattern_byte_count) {
    std::memcpy(block.get() + i, command.pattern.data(), command.pattern_byte_count);
  }
  std::int32_t code = YOKE_STATUS_OK;
  for (std::uint64_t done = 0; done < command.byte_count && code == YOKE_STATUS_OK;
       done += block_byte_count) {
    std::int32_t source = 0;
    code = attempt<&yoke_backend_api::from_host>(
        backend(), status, native_, command.dst, command.dst_offset + done,
        static_cast<const void*>(block.get()), std::min(block_byte_count, command.byte_count - done),
        &source);
  }
  if (native_ == nullptr) {
    return code;
  }
  // The backend may still read the block, also after a failure. Without
  // the lock, so that other threads can abort.
  yoke_stream* const stream = native_;
  lock.unlock();
  Status waited;
  const std::int32_t ended = attempt<&yoke_stream_api::stream_wait>(
      backend(), waited, stream, static_cast<std::uint64_t>(wait_timeout.count()));
  if (ended == YOKE_STATUS_DEADLINE_EXCEEDED) {
    (void)block.release();  // NOLINT(bugprone-unused-return-value): leaked, because it is in use
  }
  if (code == YOKE_STATUS_OK && ended != YOKE_STATUS_OK) {
    status.set(ended, waited.vendor_code(), waited.text());
    return ended;
  }
  return code;
}

}  // namespace yoke::detail
