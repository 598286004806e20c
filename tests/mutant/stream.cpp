// SPDX-License-Identifier: Apache-2.0
// tests/mutant/stream.cpp: streams with a worker thread each.
#include "stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <semaphore>

#include "bug.h"

namespace yoke::mutant {
namespace {

// A delay before each command, so that a caller that forgets to wait sees old data.
constexpr std::chrono::microseconds kLatency{50};
constexpr std::uint64_t kLongest = 1'000'000'000'000'000'000U;  // ns; avoids an overflow of the clock

Clock::time_point after(std::uint64_t timeout_ns) {
  return Clock::now() + std::chrono::nanoseconds(std::min(timeout_ns, kLongest));
}

// For the bug new_stream_keeps_the_failure_of_the_last.
std::atomic<bool> the_last_has_failed{false};

// Bug: as many streams as there are threads can wait at the same time.
class RunsOnOneOfSix {
 public:
  RunsOnOneOfSix() {
    if (on<"six_threads_run_all_streams">()) {
      threads().acquire();
    }
  }
  ~RunsOnOneOfSix() {
    if (on<"six_threads_run_all_streams">()) {
      threads().release();
    }
  }
  RunsOnOneOfSix(const RunsOnOneOfSix&) = delete;
  RunsOnOneOfSix& operator=(const RunsOnOneOfSix&) = delete;

 private:
  static std::counting_semaphore<>& threads() {
    static auto* const all = new std::counting_semaphore<>(6);
    return *all;
  }
};

// Bug: one stream at a time can wait for another device.
class WaitsForOtherDevice {
 public:
  explicit WaitsForOtherDevice(bool waits) {
    static auto* const turn = new std::mutex;
    if (waits && on<"one_stream_waits_for_another_device">()) {
      lock_ = std::unique_lock(*turn);
    }
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

// Bug: a row of the table is used again while an event still refers to it.
std::shared_ptr<Mark> new_mark() {
  if (!on<"events_are_in_a_table_of_256">()) {
    return std::make_shared<Mark>();
  }
  static auto* const table = new std::array<std::shared_ptr<Mark>, 256>;
  static std::atomic<std::size_t> next{0};
  std::shared_ptr<Mark>& row = (*table)[next++ % table->size()];
  if (row == nullptr) {
    row = std::make_shared<Mark>();
  }
  return row;
}

}  // namespace

void Timeline::check(std::uint64_t ticket) {
  device->check_not_lost();
  if (failure && ticket >= failed_from) {
    const sdk::Failure first(*failure);
    if (on<"stream_forgets_error">()) {
      failure.reset();
    }
    throw sdk::Failure(first);
  }
  if ((aborted || device->aborted.load() || device->hub.all_aborted.load()) &&
      (ticket > succeeded || on<"stream_abort_fails_earlier_events">())) {
    aborted = aborted && !on<"aborted_stream_works_again">();
    throw sdk::Failure(YOKE_STATUS_ABORTED, "the mutant's work was aborted; use another stream or device");
  }
}

std::int32_t Timeline::status() {
  try {
    check(kAll);
  } catch (const sdk::Failure& failed) {
    return failed.code();
  }
  return YOKE_STATUS_OK;
}

bool Timeline::is_over(std::uint64_t ticket, bool is_query) const {
  const bool ends_too_early =
      (on<"query_ends_before_aborted_work">() && aborted && is_query) ||
      (on<"wait_ends_before_aborted_work">() && device->aborted.load() && !is_query) ||
      (on<"query_ends_before_lost_work">() && device->lost.load() && is_query);
  return finished >= std::min(ticket, posted) || ends_too_early;
}

std::int32_t Timeline::state(std::uint64_t ticket) {
  const std::lock_guard lock(device->hub.mutex);
  if (!is_over(demand(ticket), /*is_query=*/true)) {
    return YOKE_STATE_PENDING;
  }
  try {
    check(ticket);
  } catch (const sdk::Failure&) {
    return YOKE_STATE_FAILED;
  }
  return YOKE_STATE_DONE;
}

void Timeline::wait(std::uint64_t ticket, std::uint64_t timeout_ns) {
  Hub& hub = device->hub;
  std::unique_lock lock(hub.mutex);
  const std::uint64_t last = demand(ticket);
  const auto over = [&] { return is_over(last, /*is_query=*/false); };
  if (on<"wait_ignores_deadline">()) {
    hub.changed.wait(lock, over);
  } else if (on<"wait_gives_up_early">()) {
    timeout_ns /= 1'000'000;
  }
  last_deadline = after(timeout_ns);
  const auto give_up = [&, mine = last_deadline] {
    return on<"waits_share_the_last_deadline">() ? last_deadline : mine;
  };
  waiting += on<"at_most_64_threads_wait">() ? 1 : 0;
  if (waiting > 64) {
    lock.unlock();
    std::this_thread::sleep_until(last_deadline);  // no one wakes the others
    lock.lock();
    throw sdk::Failure(YOKE_STATUS_DEADLINE_EXCEEDED, "the mutant stream has pending work");
  }
  while (!over() && Clock::now() < give_up()) {
    hub.changed.wait_until(lock, give_up());
  }
  waiting -= on<"at_most_64_threads_wait">() ? 1 : 0;
  if (!over()) {
    if (on<"wait_returns_ok_at_deadline">()) {
      return;
    }
    throw sdk::Failure(YOKE_STATUS_DEADLINE_EXCEEDED, "the mutant stream has pending work after " +
                                                          std::to_string(timeout_ns) + " ns; wait longer");
  }
  check(ticket);
}

std::int32_t Event::state() {
  if (on<"event_is_done_at_once">()) {
    return YOKE_STATE_DONE;
  }
  return mark_->timeline->state(mark_->ticket);
}

void Event::wait(std::uint64_t timeout_ns) {
  if (on<"event_is_done_at_once">()) {
    return;
  }
  try {
    mark_->timeline->wait(mark_->ticket, timeout_ns);
  } catch (const sdk::Failure& failure) {
    if (on<"event_drops_error">() && failure.code() != YOKE_STATUS_DEADLINE_EXCEEDED) {
      return;
    }
    throw;
  }
}

std::uint64_t Event::elapsed_since(sdk::Event& start) {
  const Mark& from = *static_cast<Event&>(start).mark_;
  for (const Mark* mark : {&from, static_cast<const Mark*>(mark_.get())}) {
    if (mark->timeline->state(mark->ticket) != YOKE_STATE_DONE) {
      throw sdk::Failure(YOKE_STATUS_FAILED_PRECONDITION, "an event is not done yet; wait for it first");
    }
  }
  const std::lock_guard lock(mark_->timeline->device->hub.mutex);
  const auto elapsed = mark_->reached - from.reached;
  if (elapsed.count() < 0) {
    throw sdk::Failure(YOKE_STATUS_INVALID_ARGUMENT, "the start event was done after the stop event");
  }
  const auto ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(elapsed).count());
  return on<"event_elapsed_in_microseconds">() ? ns / 1000 : ns;
}

std::uint64_t Event::time_ns() {
  if (on<"profile_times_are_those_of_the_call">()) {
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(recorded_.time_since_epoch()).count());
  }
  const std::lock_guard lock(mark_->timeline->device->hub.mutex);
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(mark_->reached.time_since_epoch()).count());
}

Stream::Stream(std::shared_ptr<DeviceState> device)
    : timeline_(std::make_shared<Timeline>(std::move(device))) {
  timeline_->aborted = the_last_has_failed.exchange(false);
  thread_ = std::thread([timeline = timeline_] { run(*timeline); });
}

Stream::~Stream() {
  Hub& hub = timeline_->device->hub;
  {
    const std::lock_guard lock(hub.mutex);
    timeline_->closing = !on<"stream_leaves_its_thread">();
    the_last_has_failed =
        on<"new_stream_keeps_the_failure_of_the_last">() && (timeline_->aborted || timeline_->failure);
    if (on<"events_forget_errors_with_their_stream">()) {
      timeline_->failure.reset();
      timeline_->aborted = false;
    }
    hub.changed.notify_all();
  }
  if (on<"stream_leaves_its_thread">()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void Stream::post(std::function<void()> work, bool always) {
  const std::lock_guard lock(timeline_->device->hub.mutex);
  if (on<"stream_runs_out_of_order">()) {
    timeline_->work.push_front({std::move(work), always});
  } else {
    timeline_->work.push_back({std::move(work), always});
  }
  ++timeline_->posted;
  timeline_->device->hub.changed.notify_all();
}

std::uint64_t Stream::last() const {
  const std::lock_guard lock(timeline_->device->hub.mutex);
  return timeline_->posted;
}

std::int32_t Stream::state() {
  if (on<"stream_query_lies">()) {
    return YOKE_STATE_DONE;
  }
  return timeline_->state(Timeline::kAll);
}

void Stream::abort() {
  if (on<"stream_abort_does_nothing">()) {
    return;
  }
  const std::lock_guard lock(timeline_->device->hub.mutex);
  timeline_->aborted = true;
  for (Timeline::Command& command : timeline_->work) {
    command.always = command.always || on<"query_ends_before_aborted_work">();
  }
  if (on<"stream_abort_ends_the_device">()) {
    timeline_->device->aborted.store(true);
  }
  timeline_->device->hub.changed.notify_all();
}

void Stream::wait(std::uint64_t timeout_ns) {
  const std::uint64_t ticket = last();
  timeline_->wait(on<"stream_wait_misses_last_command">() && ticket != 0 ? ticket - 1 : Timeline::kAll,
                  timeout_ns);
}

void Stream::host_callback(yoke_host_callback_fn callback, void* user) {
  const auto call = [callback, user, timeline = timeline_.get()] {
    std::int32_t status = YOKE_STATUS_OK;
    {
      const std::lock_guard lock(timeline->device->hub.mutex);
      status = timeline->status();
    }
    if ((on<"callback_gets_ok_on_poisoned_streams">() && timeline->failure) ||
        (on<"callback_gets_ok_on_aborted_streams">() && timeline->aborted)) {
      status = YOKE_STATUS_OK;
    }
    callback(user, status);
    if (on<"callback_is_called_twice">() && status == YOKE_STATUS_OK) {
      callback(user, status);
    }
  };
  if (on<"callback_runs_before_earlier_work">()) {
    call();
  } else if (on<"callback_does_not_hold_its_stream">()) {
    post([call] { std::thread(call).detach(); });
  } else {
    post(call, !on<"callback_is_skipped_on_aborted_streams">());
  }
}

std::unique_ptr<sdk::Event> Stream::record(bool) {
  timeline_->device->check_not_lost();
  auto mark = new_mark();
  mark->timeline = timeline_;
  if (on<"event_ignores_last_command">()) {
    const std::uint64_t ticket = last();
    mark->ticket = ticket == 0 ? 0 : ticket - 1;
    return std::make_unique<Event>(std::move(mark));
  }
  if (const auto delay = timeline_->device->faults.next(YOKE_FAULT_EVENT_LATE)) {
    post([timeline = timeline_, ns = *delay] {
      std::unique_lock lock(timeline->device->hub.mutex);
      timeline->device->hub.changed.wait_until(lock, after(ns), [&] { return timeline->gives_up(); });
    });
  }
  post([raw = mark] {
    const std::lock_guard lock(raw->timeline->device->hub.mutex);
    raw->reached = Clock::now();
  });
  mark->ticket = last();
  return std::make_unique<Event>(std::move(mark));
}

void Stream::wait_event(sdk::Event& event) {
  timeline_->device->check_not_lost();
  const std::shared_ptr<Mark>& awaited = static_cast<Event&>(event).mark();
  const bool is_foreign = awaited->timeline->device != timeline_->device;
  if (on<"stream_ignores_wait_event">() || (on<"events_of_other_devices_are_ignored">() && is_foreign)) {
    return;
  }
  const bool inherits =
      !on<"stream_does_not_inherit_error">() && !(on<"errors_of_other_devices_are_ignored">() && is_foreign);
  post([mine = timeline_, mark = awaited, inherits, is_foreign] {
    Timeline& theirs = *mark->timeline;
    const WaitsForOtherDevice turn(is_foreign);
    std::unique_lock lock(mine->device->hub.mutex);
    theirs.demand(mark->ticket);
    mine->device->hub.changed.wait(lock, [&] { return mine->gives_up() || theirs.finished >= mark->ticket; });
    if (inherits && theirs.finished >= mark->ticket) {
      theirs.check(mark->ticket);
    }
  });
}

std::string Stream::debug_text() {
  const std::lock_guard lock(timeline_->device->hub.mutex);
  return "mutant stream: " + std::to_string(timeline_->finished) + " of " +
         std::to_string(timeline_->posted) + " commands are done" +
         (timeline_->failure ? ", failed: " + timeline_->failure->text() : std::string());
}

// Runs the next command without holding the lock.
void Stream::run_one(Timeline& timeline, std::unique_lock<std::mutex>& lock) {
  auto [work, always] = std::move(timeline.work.front());
  timeline.work.pop_front();
  const bool failed = timeline.failure.has_value() || timeline.aborted || timeline.device->aborted.load() ||
                      timeline.device->lost.load();
  const bool runs = !failed || always ||
                    (on<"wait_ends_before_aborted_work">() && timeline.device->aborted.load()) ||
                    (on<"query_ends_before_lost_work">() && timeline.device->lost.load()) ||
                    (on<"poisoned_stream_runs_later_work">() && timeline.failure);
  std::optional<sdk::Failure> failure;
  lock.unlock();
  const RunsOnOneOfSix thread;
  try {
    if (runs) {
      std::this_thread::sleep_for(kLatency);
      work();
    }
  } catch (const sdk::Failure& thrown) {
    failure.emplace(thrown);
  } catch (const std::exception& thrown) {
    failure.emplace(YOKE_STATUS_INTERNAL, thrown.what());
  }
  work = nullptr;  // releases its buffers before the wait for it ends
  lock.lock();
  if (failure && !timeline.failure && !on<"stream_swallows_error">()) {
    timeline.failure.emplace(*failure);
    timeline.failed_from = timeline.finished + 1;
  }
  ++timeline.finished;
  if (!failed && !failure) {
    timeline.succeeded = timeline.finished;
  }
  timeline.device->hub.changed.notify_all();
}

void Stream::run(Timeline& timeline) {
  std::unique_lock lock(timeline.device->hub.mutex);
  for (;;) {
    timeline.device->hub.changed.wait(lock, [&] { return timeline.closing || timeline.may_start(); });
    if (timeline.work.empty()) {
      return;
    }
    run_one(timeline, lock);
  }
}

}  // namespace yoke::mutant
