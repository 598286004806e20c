// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/callback.cpp: host callbacks in a stream, run by the
// backend if it offers them, else by a worker.
#include <yoke/runtime/keep_until_done.h>

#include <exception>
#include <optional>

#include "device/call.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

void StreamState::queue_callback(std::function<void(ErrorCode)> callback) {
  auto owned = std::make_unique<HostCallback>();
  owned->function = std::move(callback);
  owned->stream = this;
  promise({}, 1);  // also on a failed stream, so that the callback can free what the work used
  const bool on_worker = is_native_ && !offers<&yoke_stream_api::stream_host_callback>(backend());
  emit(
      [&](Command& command) {
        command.kind = CommandKind::kCallback;
        owned->ticket = command.ticket;
        command.callback = std::move(owned);
      },
      on_worker);
}

void StreamState::call_back(const HostCallback& callback, ErrorCode code) noexcept {
  try {
    callback.function(has_failed(callback.ticket) ? error_code() : code);
  } catch (const std::exception& e) {
    fail(callback.ticket, ErrorCode::kUnknown,
         [&] { return title(callback.ticket) + ": a host callback threw an exception: " + e.what(); });
  } catch (...) {
    fail(callback.ticket, ErrorCode::kUnknown,
         [&] { return title(callback.ticket) + ": a host callback threw an exception"; });
  }
}

// Runs on a worker.
void StreamState::run_callback(Command& command) noexcept {
  const std::uint64_t before = command.ticket - 1;
  std::optional<WorkerPool::Blocking> may_block;
  if (!is_complete(before) || command.callback->function.target<KeepUntilDone>() == nullptr) {
    may_block.emplace();
  }
  while (!is_complete(before)) {  // work of a native stream
    wait_slice(before, deadline_after(wait_timeout));
  }
  call_back(*command.callback, ErrorCode::kOk);
  command.callback.reset();
}

// Runs on the caller's thread, for a native stream whose backend offers callbacks. If the backend refuses,
// the command goes to the workers, and the result is false. If there is no
// worker, the callback is called here.
bool StreamState::issue_callback(Command& command) noexcept {
  constexpr yoke_host_callback_fn kRun = [](void* user, std::int32_t status) {
    const std::unique_ptr<HostCallback> callback(static_cast<HostCallback*>(user));
    callback->stream->call_back(*callback, code_of(status));
  };
  Status status;
  std::int32_t code = YOKE_STATUS_OK;
  {
    const std::lock_guard lock(issue_mutex_);
    code = attempt<&yoke_stream_api::stream_host_callback>(backend(), status, native_, kRun,
                                                           static_cast<void*>(command.callback.get()));
  }
  if (code == YOKE_STATUS_OK) {
    (void)command.callback.release();  // NOLINT(bugprone-unused-return-value): kRun deletes it
    return true;
  }
  native_failed(code, status, nullptr, "stream_host_callback");
  try {
    Command& queued = next_slot();
    queued.kind = CommandKind::kCallback;
    queued.completes = true;
    queued.ticket = command.ticket;
    queued.callback = std::move(command.callback);
    hand_over(queued);
    return false;
  } catch (const std::exception&) {  // no worker can be started
    wait_complete(command.ticket - 1, deadline_after(wait_timeout));
    call_back(*command.callback, code_of(code));
    command.callback.reset();
    return true;
  }
}

}  // namespace yoke::detail
