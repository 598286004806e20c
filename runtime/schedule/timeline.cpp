// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/timeline.cpp: the progress and the error of a stream, and waits for it.
#include <yoke/runtime/counted.h>
#include <yoke/runtime/stream.h>

#include <algorithm>

#include "device/call.h"
#include "device/profile.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

namespace {

// The workers of a runtime are shared by its streams, and end with the last one.
std::shared_ptr<WorkerPool> workers_of(RuntimeState& runtime) {
  const std::lock_guard lock(runtime.workers_mutex);
  std::shared_ptr<WorkerPool> workers = runtime.workers.lock();
  if (workers == nullptr) {
    using std::chrono::milliseconds;
    const std::chrono::nanoseconds timeout = runtime.options.wait_timeout;
    const auto patience =
        std::clamp<std::chrono::nanoseconds>(timeout / 8, milliseconds(20), milliseconds(1000));
    workers = std::make_shared<WorkerPool>(runtime.options.worker_threads, patience);
    runtime.workers = workers;
  }
  return workers;
}

// How long destructors wait for aborted or late work and for a call into a plugin, which cannot be interrupted.
constexpr std::chrono::seconds kGrace{1};

std::string milliseconds(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) + " ms";
}

}  // namespace

StreamState::StreamState(std::shared_ptr<Device> on, std::string called)
    : device(std::move(on)),
      id(device->backend()->state().runtime->stream_count.fetch_add(1)),
      name(std::move(called)),
      wait_timeout(device->backend()->state().runtime->options.wait_timeout),
      workers_(workers_of(*device->backend()->state().runtime)) {
  const RuntimeOptions& options = backend().runtime->options;
  on_work_ = options.on_work ? &options.on_work : nullptr;
  delay_us_ = options.injected_delay_us;
  delay_seed_ = options.injected_delay_seed ^ std::hash<std::string>()(name);
  waits_.reserve(64);
}

StreamState::~StreamState() = default;

const BackendState& StreamState::backend() const {
  return device->backend()->state();
}

void StreamState::open(std::int32_t priority) {
  priority_ = priority;
  is_native_ = device->backend()->has_streams();
  if (is_native_) {
    open_native(priority);
  } else {
    join_workers();
  }
}

StreamState& StreamState::fallback_lane() {
  if (!is_native_) {
    return *this;
  }
  if (lane_ == nullptr) {
    ensure_worker();  // it waits for the lane
    auto lane = std::make_shared<StreamState>(device, name + "/fallback");
    lane->join_workers();
    const std::lock_guard lock(error_mutex_);
    lane_ = std::move(lane);
  }
  return *lane_;
}

void StreamState::close() noexcept {
  refresh();
  if (is_late() && !is_complete(last_ticket())) {
    abort(kGrace);  // at once, because a wait has already missed its deadline
  }
  if (!wait_complete(last_ticket(), std::min(deadline_after(wait_timeout), last_deadline())) &&
      Clock::now() < last_deadline()) {
    abort(kGrace);
    wait_complete(last_ticket(), last_deadline());
  }
  if (!leave_workers(is_complete(last_ticket()) ? deadline_after(kGrace) : Clock::now())) {
    backend().runtime->log_leak([&] {
      return "stream.abandon stream=\"" + name + "\" reason=\"a call into the backend did not return\"";
    });
  }
  if (is_complete(last_ticket())) {  // else pending copies use their memory
    stagings_.clear();
  }
  if (lane_ != nullptr) {
    lane_->close();
  }
  merge_buffer.reset();
  merge_content = {};
  if (is_native_) {
    close_native();
  }
}

bool StreamState::wait_slice(std::uint64_t ticket, Clock::time_point deadline) noexcept {
  const Clock::time_point end = std::min(deadline, Clock::now() + kSlice);
  if (is_native_) {
    if (!progress_.sleep_until(end, [&] { return issued_.load() >= ticket || is_complete(ticket); })) {
      workers_->relieve();
      return false;
    }
    if (is_complete(ticket) || wait_native(ticket, std::max(end - Clock::now(), Clock::duration::zero()))) {
      return true;
    }
    poll_groups();
    return false;
  }
  const bool is_over = progress_.sleep_until(end, [&] { return is_complete(ticket); });
  if (!is_over) {
    workers_->relieve();
  }
  return is_over;
}

bool StreamState::wait_complete(std::uint64_t ticket, Clock::time_point deadline) noexcept {
  while (!is_complete(ticket)) {
    wait_slice(ticket, deadline);
    if (Clock::now() >= deadline) {
      return is_complete(ticket);
    }
  }
  return true;
}

void StreamState::wait(std::uint64_t ticket, std::chrono::nanoseconds timeout) {
  const Clock::time_point deadline = deadline_after(timeout);
  if (!is_complete(ticket) && timeout > timeout.zero()) {
    if (is_native_ || !host_spin_([&] { return is_complete(ticket); })) {
      wait_complete(ticket, deadline);
    }
  }
  refresh();
  if (WorkProfile* const profile = device->profile(); profile != nullptr && is_native_) {
    profile->fetch();
  }
  if (timeout >= wait_timeout && !is_complete(ticket)) {
    note_late();
  }
  if (is_complete(ticket)) {  // not earlier: until then the work uses memory, even if it has failed
    check_alive(ticket);
  } else if (has_failed(ticket)) {
    throw Error(ErrorCode::kDeadlineExceeded,
                title(ticket) + ": failed or aborted work still uses its memory after " +
                    milliseconds(timeout) + "; keep the memory, and wait again");
  } else {
    throw Error(ErrorCode::kDeadlineExceeded,
                title(ticket) +
                    (timeout > timeout.zero() ? ": work did not finish within " + milliseconds(timeout)
                                              : std::string(": work has not finished")) +
                    " (" + counted(ticket - std::min(ticket, completed_.load()), "pending command") +
                    activity_text() + "); wait longer, or abort the stream");
  }
}

void StreamState::check_alive(std::uint64_t ticket) {
  if (device->is_lost() && !has_failed(ticket)) [[unlikely]] {
    fail_as_lost(ticket);
  }
  if (has_failed(ticket)) [[unlikely]] {
    throw error();
  }
}

void StreamState::fail_as_lost(std::uint64_t ticket) noexcept {
  fail(ticket, ErrorCode::kDeviceLost,
       [&] { return title(ticket) + ": device '" + device->name() + "' was lost; reopen it"; });
}

void StreamState::begin_step(std::int64_t number) noexcept {
  const std::lock_guard lock(error_mutex_);
  steps_[step_count_ % steps_.size()] = {last_ticket(), number};
  ++step_count_;
}

std::optional<std::int64_t> StreamState::step_of(std::uint64_t ticket) const {
  const std::lock_guard lock(error_mutex_);
  for (std::size_t i = step_count_; i > 0 && step_count_ - i < steps_.size(); --i) {
    const StepMark& mark = steps_[(i - 1) % steps_.size()];
    if (mark.ticket_before < ticket) {
      return mark.number;
    }
  }
  return {};
}

std::string StreamState::title(std::uint64_t ticket) const {
  const std::optional<std::int64_t> step = step_of(ticket);
  return "stream '" + name + "'" + (step ? ", step " + std::to_string(*step) : std::string());
}

std::uint64_t StreamState::next_order() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1) + 1;
}

void StreamState::set_failed(std::uint64_t ticket, ErrorCode code, std::string sentence, std::uint64_t order,
                             const StreamState* cause) noexcept {
  std::shared_ptr<Device> failed = cause != nullptr ? cause->failed_device() : device;
  {
    const std::lock_guard lock(error_mutex_);
    if (failed_from_.load() == kNever) {
      error_code_ = code;
      error_text_ = std::move(sentence);
      failure_order_ = order != 0 ? order : next_order();
      failed_device_ = std::move(failed);
    }
    failed_from_.store(std::min(failed_from_.load(), ticket));
  }
  if (code == ErrorCode::kDeviceLost && cause == nullptr && is_device_lost()) {
    device->set_lost();
  }
  progress_.notify();
  if (awaited_ticket_.load() != kNever) {
    wake_waiters();
  }
  resume();
}

// A native stream was queried before, unless another thread was queuing: if its own work has failed, perhaps before that
// of `other`, it keeps its own error.
void StreamState::inherit(std::uint64_t ticket, const StreamState& other) noexcept {
  std::string sentence;
  try {
    sentence = title(ticket) + ": it waited for work that failed: " + other.error().what();
  } catch (const std::exception&) {  // out of memory
  }
  set_failed(ticket, other.error_code(), std::move(sentence), /*order=*/0, &other);
}

Error StreamState::error() const {
  const std::lock_guard lock(error_mutex_);
  return error_locked();
}

Error StreamState::error_locked() const {
  return {error_code_, error_text_.empty() ? "stream '" + name + "': queued work failed; the host had no " +
                                                 "memory left for a description of the failure"
                                           : error_text_};
}

ErrorCode StreamState::error_code() const noexcept {
  const std::lock_guard lock(error_mutex_);
  return error_code_;
}

std::shared_ptr<Device> StreamState::failed_device() const noexcept {
  const std::lock_guard lock(error_mutex_);
  return failed_device_;
}

std::optional<StreamFailure> StreamState::failure() const {
  const std::lock_guard lock(error_mutex_);
  if (failed_from_.load() == kNever || error_code_ == ErrorCode::kAborted) {
    return {};
  }
  return StreamFailure{failure_order_, failed_device_, error_locked()};
}

void StreamState::note_late() noexcept {
  const std::lock_guard lock(error_mutex_);
  const std::uint64_t completed = completed_.load();
  if (late_deadline_ == Clock::time_point::max() || late_completed_ != completed) {
    late_deadline_ = deadline_after(kGrace);
    late_completed_ = completed;
  }
}

bool StreamState::is_late() const noexcept {
  const std::lock_guard lock(error_mutex_);
  return late_deadline_ != Clock::time_point::max() && late_completed_ == completed_.load();
}

Clock::time_point StreamState::last_deadline() const noexcept {
  const std::lock_guard lock(error_mutex_);
  return late_completed_ == completed_.load() ? std::min(abort_deadline_, late_deadline_) : abort_deadline_;
}

void StreamState::abort(std::chrono::nanoseconds patience) noexcept {
  {
    const std::lock_guard lock(error_mutex_);
    abort_deadline_ = std::min(abort_deadline_, deadline_after(patience));
  }
  fail(completed_.load() + 1, ErrorCode::kAborted, [&] { return "stream '" + name + "' was aborted"; });
  std::shared_ptr<StreamState> lane;
  {
    const std::lock_guard lock(error_mutex_);
    lane = lane_;
  }
  if (lane != nullptr) {
    lane->abort(patience);
  }
  if (is_native_) {
    abort_native();
  }
}

}  // namespace yoke::detail

std::optional<yoke::StreamFailure> yoke::Stream::failure() const {
  return state_->failure();
}
