// SPDX-License-Identifier: Apache-2.0
// timeline.cpp: counts finished commands and propagates errors.
#include "timeline.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ocl {
namespace {

using yoke::sdk::Failure;

std::mutex mutex;  // guards every Hub and Timeline

std::chrono::steady_clock::time_point deadline_after(std::uint64_t timeout_ns) {
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 60;  // 36 years; the sum must not overflow
  return std::chrono::steady_clock::now() +
         std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(timeout_ns, kLongest)));
}

}  // namespace

Gate::Gate(cl_context context) {
  cl_int status = CL_SUCCESS;
  event_.reset(api().clCreateUserEvent(context, &status));
  check(status, "clCreateUserEvent", "making a stream wait");
}

void Gate::open() noexcept {
  std::call_once(once_, [&] { (void)api().clSetUserEventStatus(event_.get(), CL_COMPLETE); });
}

std::shared_ptr<Timeline> Hub::make_timeline() {
  const std::lock_guard lock(mutex);
  auto timeline = std::make_shared<Timeline>(ended_);
  std::erase_if(timelines_, [](const auto& one) { return one.expired(); });
  timelines_.push_back(timeline);
  return timeline;
}

void Hub::abort() {
  std::vector<std::shared_ptr<Timeline>> timelines;
  const Failure aborted(YOKE_STATUS_ABORTED, "the device was aborted; close it and open it again");
  {
    const std::lock_guard lock(mutex);
    ended_.emplace(aborted);
    for (const auto& one : timelines_) {
      if (auto timeline = one.lock()) {
        timelines.push_back(std::move(timeline));
      }
    }
  }
  for (const auto& timeline : timelines) {
    timeline->fail(aborted);
  }
}

Timeline::Timeline(std::optional<Failure> failed) {
  if (failed) {
    problem_.emplace(Problem{0, std::move(*failed)});
  }
}

std::unique_ptr<Timeline::Command> Timeline::prepare(Label label) {
  auto command = std::make_unique<Command>();
  command->timeline = shared_from_this();
  command->label = std::move(label);
  const std::lock_guard lock(mutex);
  scattered_.reserve(last_ + 1 - completed_);
  return command;
}

void Timeline::add(std::unique_ptr<Command> command, const OwnedEvent& event) noexcept {
  {
    const std::lock_guard lock(mutex);
    command->number = ++last_;
  }
  if (api().clSetEventCallback(event.get(), CL_COMPLETE, on_end, command.get()) == CL_SUCCESS) {
    (void)command.release();  // on_end owns it now
    return;
  }
  // Out of memory. The command must not count as ended before it is.
  cl_event waited = event.get();
  const cl_int status = api().clWaitForEvents(1, &waited);
  on_end(waited, std::min(status, cl_int{CL_COMPLETE}), command.release());
}

void CL_CALLBACK Timeline::on_end(cl_event, cl_int status, void* command) {
  const std::unique_ptr<Command> own(static_cast<Command*>(command));
  try {
    own->timeline->ended(*own, status);
  } catch (...) {
    // Out of memory for the error's text. A callback must not throw; the command counts as failed.
    own->timeline->settle(own->number, Failure(YOKE_STATUS_RESOURCE_EXHAUSTED, {}));
  }
}

void Timeline::ended(const Command& command, cl_int status) {
  if (command.other != nullptr) {
    // The callback of the other timeline may run after this one.
    const auto self = shared_from_this();
    const auto other = command.other;
    other->when_done(command.other_number,
                     [self, other, number = command.number, other_number = command.other_number] {
                       std::optional<Failure> inherited;
                       {
                         const std::lock_guard lock(mutex);
                         if (const Problem* problem = other->problem_up_to(other_number)) {
                           inherited = problem->failure;
                         }
                       }
                       self->settle(number, std::move(inherited));
                     });
    return;
  }
  std::optional<Failure> failure;
  if (status < 0) {
    failure.emplace(code_of(status), *command.label + " failed on the device: " + status_name(status),
                    status);
  }
  settle(command.number, std::move(failure));
}

// Does not allocate: the memory of scattered_ is reserved.
void Timeline::count(std::uint64_t number) {
  scattered_.push_back(number);
  const auto next = [&] { return std::find(scattered_.begin(), scattered_.end(), completed_ + 1); };
  for (auto one = next(); one != scattered_.end(); one = next()) {
    ++completed_;
    scattered_.erase(one);
  }
  changed_.notify_all();
}

void Timeline::settle(std::uint64_t number, std::optional<Failure> failure) {
  std::unique_lock lock(mutex);
  if (failure && (!problem_ || number < problem_->number)) {
    problem_.emplace(Problem{number, std::move(*failure)});
  }
  count(number);
  const auto reached = [&](const Waiter& waiter) { return waiter.number <= completed_; };
  for (auto waiter = std::find_if(waiters_.begin(), waiters_.end(), reached); waiter != waiters_.end();
       waiter = std::find_if(waiters_.begin(), waiters_.end(), reached)) {
    auto then = std::move(waiter->then);
    waiters_.erase(waiter);
    lock.unlock();
    then();
    then = nullptr;  // destroys its captures while the mutex is unlocked, because they may lock it
    lock.lock();
  }
}

void Timeline::add_call(std::function<std::optional<Failure>()> work) {
  const auto self = shared_from_this();
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex);
    scattered_.reserve(last_ + 1 - completed_);
    number = ++last_;
  }
  try {
    when_done(number - 1, [self, number, work = std::move(work)] { self->settle(number, work()); });
  } catch (...) {
    settle(number, Failure(YOKE_STATUS_RESOURCE_EXHAUSTED, "the plugin is out of host memory"));
    throw;
  }
}

void Timeline::include(const std::shared_ptr<Timeline>& other, std::uint64_t included) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex);
    scattered_.reserve(last_ + 1 - completed_);
    number = ++last_;
  }
  other->when_done(included, [self = shared_from_this(), number] { self->settle(number, {}); });
}

void Timeline::sleep_after(std::uint64_t number, std::uint64_t delay_ns) const {
  std::unique_lock lock(mutex);
  const auto given_up = [&] { return abandoned_ || problem_; };
  changed_.wait(lock, [&] { return completed_ >= number || given_up(); });
  changed_.wait_until(lock, deadline_after(delay_ns), given_up);
}

void Timeline::abandon() {
  const std::lock_guard lock(mutex);
  abandoned_ = true;
  changed_.notify_all();
}

void Timeline::fail(const Failure& failure) {
  const std::lock_guard lock(mutex);
  if (problem_) {
    return;
  }
  // On an idle timeline the failure counts as work, so that events recorded before it stay good.
  if (completed_ == last_) {
    ++last_;
    ++completed_;
    problem_.emplace(Problem{last_, failure});
  } else {
    problem_.emplace(Problem{completed_ + 1, failure});
  }
  changed_.notify_all();
}

std::uint64_t Timeline::last() const {
  const std::lock_guard lock(mutex);
  return last_;
}

bool Timeline::failed() const {
  const std::lock_guard lock(mutex);
  return problem_.has_value();
}

const Timeline::Problem* Timeline::problem_up_to(std::uint64_t number) const {
  return problem_ && problem_->number <= number ? &*problem_ : nullptr;
}

std::int32_t Timeline::state(std::uint64_t number) const {
  const std::lock_guard lock(mutex);
  if (completed_ < number) {
    return YOKE_STATE_PENDING;
  }
  return problem_up_to(number) != nullptr ? YOKE_STATE_FAILED : YOKE_STATE_DONE;
}

std::int32_t Timeline::status(std::uint64_t number) const {
  const std::lock_guard lock(mutex);
  const Problem* problem = problem_up_to(number);
  return problem != nullptr ? problem->failure.code() : YOKE_STATUS_OK;
}

void Timeline::wait(std::uint64_t number, std::uint64_t timeout_ns) const {
  std::unique_lock lock(mutex);
  // After a failure, too: until its end, a command may access memory.
  if (!changed_.wait_until(lock, deadline_after(timeout_ns), [&] { return completed_ >= number; })) {
    throw Failure(YOKE_STATUS_DEADLINE_EXCEEDED, "deadline of " + std::to_string(timeout_ns) +
                                                     " ns exceeded: " + std::to_string(completed_) + " of " +
                                                     std::to_string(number) + " commands are done");
  }
  if (const Problem* problem = problem_up_to(number)) {
    throw Failure(problem->failure);
  }
}

bool Timeline::drained(std::uint64_t timeout_ns) const {
  std::unique_lock lock(mutex);
  return changed_.wait_until(lock, deadline_after(timeout_ns), [&] { return completed_ >= last_; });
}

void Timeline::when_done(std::uint64_t number, std::function<void()> then) {
  {
    const std::lock_guard lock(mutex);
    if (completed_ < number) {
      waiters_.push_back({number, std::move(then)});
      return;
    }
  }
  then();
}

std::string Timeline::text() const {
  const std::lock_guard lock(mutex);
  return std::to_string(completed_) + " of " + std::to_string(last_) + " commands are done" +
         (problem_ ? "; failed: " + problem_->failure.text() : "");
}

}  // namespace ocl
