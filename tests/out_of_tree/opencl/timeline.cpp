// SPDX-License-Identifier: Apache-2.0
// timeline.cpp: counts what has ended, and hands on errors.
#include "timeline.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ocl {
namespace {

using yoke::sdk::Failure;

std::mutex mutex;  // guards every Hub and Timeline

// What already runs cannot be stopped and may still write where the host told it to; a wait that ends because
// of an abort lets it come to its end, for this long.
constexpr std::uint64_t kGraceNs = 1'000'000'000;

std::chrono::steady_clock::time_point deadline_after(std::uint64_t timeout_ns) {
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 60;  // 36 years; the sum must fit
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

void Hub::check() const {
  const std::lock_guard lock(mutex);
  if (ended_) {
    throw Failure(*ended_);
  }
}

void Hub::abort() {
  std::vector<std::weak_ptr<Gate>> gates;
  {
    const std::lock_guard lock(mutex);
    ended_.emplace(YOKE_ABORTED, "the device was aborted; close it and open it again");
    gates.swap(gates_);
    changed_.notify_all();
  }
  for (const std::weak_ptr<Gate>& one : gates) {
    if (const std::shared_ptr<Gate> gate = one.lock()) {
      gate->open();
    }
  }
}

void Hub::watch(const std::shared_ptr<Gate>& gate) {
  const std::lock_guard lock(mutex);
  std::erase_if(gates_, [](const std::weak_ptr<Gate>& one) { return one.expired(); });
  gates_.push_back(gate);
}

// What the callback needs to know about the work that ended.
struct Timeline::Report {
  std::shared_ptr<Timeline> timeline;
  std::uint64_t number;
  std::shared_ptr<const std::string> label;
  std::shared_ptr<Timeline> other;
  std::uint64_t other_number;
};

void Timeline::add(const OwnedEvent& event, std::shared_ptr<const std::string> label,
                   std::shared_ptr<Timeline> other, std::uint64_t other_number) {
  auto report = std::make_unique<Report>(
      Report{shared_from_this(), 0, std::move(label), std::move(other), other_number});
  {
    const std::lock_guard lock(mutex);
    scattered_.reserve(last_ + 1 - completed_);
    report->number = ++last_;
  }
  const cl_int status = api().clSetEventCallback(event.get(), CL_COMPLETE, on_end, report.get());
  if (status == CL_SUCCESS) {
    (void)report.release();  // on_end has it now
    return;
  }
  settle(report->number,
         Failure(code_of(status), *report->label + ": clSetEventCallback answered " + status_name(status),
                 status));
}

void CL_CALLBACK Timeline::on_end(cl_event, cl_int status, void* report) {
  const std::unique_ptr<Report> own(static_cast<Report*>(report));
  try {
    own->timeline->ended(*own, status);
  } catch (...) {
    // No memory for the error's text. Nothing may leave a callback; the work counts as ended, and as failed.
    own->timeline->settle(own->number, Failure(YOKE_RESOURCE_EXHAUSTED, {}));
  }
}

void Timeline::ended(const Report& report, cl_int status) {
  if (report.other != nullptr) {
    // The other timeline's own callback may come later than this one.
    const auto self = shared_from_this();
    const auto other = report.other;
    other->when_done(report.other_number,
                     [self, other, number = report.number, other_number = report.other_number](bool) {
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
    failure.emplace(code_of(status), *report.label + " failed on the device: " + status_name(status), status);
  }
  settle(report.number, std::move(failure));
}

// Allocates nothing: add() has made room.
void Timeline::settle(std::uint64_t number, std::optional<Failure> failure) {
  std::unique_lock lock(mutex);
  if (failure && (!problem_ || number < problem_->number)) {
    problem_.emplace(Problem{number, std::move(*failure)});
  }
  scattered_.push_back(number);
  const auto next = [&] { return std::find(scattered_.begin(), scattered_.end(), completed_ + 1); };
  for (auto one = next(); one != scattered_.end(); one = next()) {
    ++completed_;
    scattered_.erase(one);
  }
  hub_->changed_.notify_all();
  const auto reached = [&](const Waiter& waiter) { return waiter.number <= completed_; };
  for (auto waiter = std::find_if(waiters_.begin(), waiters_.end(), reached); waiter != waiters_.end();
       waiter = std::find_if(waiters_.begin(), waiters_.end(), reached)) {
    auto then = std::move(waiter->then);
    const bool good = problem_up_to(waiter->number) == nullptr;
    waiters_.erase(waiter);
    lock.unlock();
    then(good);
    then = nullptr;  // what it holds may take the mutex when it goes
    lock.lock();
  }
}

void Timeline::add_failure(Failure failure) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex);
    scattered_.reserve(last_ + 1 - completed_);
    number = ++last_;
  }
  const auto self = shared_from_this();
  when_done(number - 1,
            [self, number, failure = std::move(failure)](bool) { self->settle(number, failure); });
}

void Timeline::sleep_behind(std::uint64_t number, std::uint64_t delay_ns) const {
  std::unique_lock lock(mutex);
  const auto given_up = [&] { return abandoned_ || hub_->ended_; };
  hub_->changed_.wait(lock, [&] { return completed_ >= number || given_up(); });
  hub_->changed_.wait_until(lock, deadline_after(delay_ns), given_up);
}

void Timeline::abandon() {
  const std::lock_guard lock(mutex);
  abandoned_ = true;
  hub_->changed_.notify_all();
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

void Timeline::throw_problem_up_to(std::uint64_t number) const {
  if (hub_->ended_) {
    throw Failure(*hub_->ended_);
  }
  if (const Problem* problem = problem_up_to(number)) {
    throw Failure(problem->failure);
  }
}

bool Timeline::done(std::uint64_t number) const {
  const std::lock_guard lock(mutex);
  if (completed_ < number && !hub_->ended_) {
    return false;
  }
  throw_problem_up_to(number);
  return true;
}

bool Timeline::ends(std::unique_lock<std::mutex>& lock, std::uint64_t number,
                    std::uint64_t timeout_ns) const {
  const auto deadline = deadline_after(timeout_ns);
  const auto has_ended = [&] { return completed_ >= number; };
  hub_->changed_.wait_until(lock, deadline, [&] { return has_ended() || hub_->ended_; });
  if (!has_ended() && hub_->ended_) {
    hub_->changed_.wait_until(lock, std::min(deadline, deadline_after(kGraceNs)), has_ended);
  }
  return has_ended();
}

void Timeline::wait(std::uint64_t number, std::uint64_t timeout_ns) const {
  std::unique_lock lock(mutex);
  const bool ended = ends(lock, number, timeout_ns);
  throw_problem_up_to(number);
  if (!ended) {
    throw Failure(YOKE_DEADLINE_EXCEEDED, "the work was not done within " + std::to_string(timeout_ns) +
                                              " ns: " + std::to_string(completed_) + " of " +
                                              std::to_string(number) + " pieces are");
  }
}

bool Timeline::drained(std::uint64_t timeout_ns) const {
  std::unique_lock lock(mutex);
  return hub_->changed_.wait_until(lock, deadline_after(timeout_ns), [&] { return completed_ >= last_; });
}

void Timeline::when_done(std::uint64_t number, std::function<void(bool good)> then) {
  bool good = false;
  {
    const std::lock_guard lock(mutex);
    if (completed_ < number) {
      waiters_.push_back({number, std::move(then)});
      return;
    }
    good = problem_up_to(number) == nullptr;
  }
  then(good);
}

std::string Timeline::text() const {
  const std::lock_guard lock(mutex);
  return std::to_string(completed_) + " of " + std::to_string(last_) + " pieces of work are done" +
         (problem_ ? "; failed: " + problem_->failure.text() : "") +
         (hub_->ended_ ? "; " + hub_->ended_->text() : "");
}

}  // namespace ocl
