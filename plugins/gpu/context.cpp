// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/context.cpp: opens a device, passes on errors of its driver, and captures graphs.
#include "context.h"

#include <chrono>
#include <exception>
#include <limits>
#include <utility>

#include "timeline.h"

namespace yoke::gpu {

namespace {

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

Current::Current(const Driver& driver, void* context) noexcept
    : driver_(driver), call_(driver.context_get.name), code_(driver.context_get(&earlier_)) {
  if (code_ == 0 && earlier_ != context) [[unlikely]] {
    call_ = driver.context_set.name;
    code_ = driver.context_set(context);
    has_changed_ = code_ == 0;
  }
}

Current::~Current() {
  if (has_changed_) {
    (void)driver_.context_set(earlier_);
  }
}

Context::Context(std::shared_ptr<Machine> machine, const Hardware& hardware)
    : machine_(std::move(machine)),
      hardware_(hardware),
      serial_(next_serial()),
      pool_(vendor(), driver()),
      products_(std::make_unique<Products>(*this)),
      convolutions_(std::make_unique<Convolutions>(*this)),
      attentions_(std::make_unique<Attentions>(*this)) {
  check(driver().context_retain.name, driver().context_retain(&handle_, hardware.device));
  try {
    const Current current = enter();
    call(driver().stream_create, &immediate_, kNonBlockingStream, 0);
    call(driver().stream_create, &capturing_, kNonBlockingStream, 0);
  } catch (...) {
    if (const Current current = try_enter(); immediate_ != nullptr) {
      (void)driver().stream_destroy(immediate_);
    }
    (void)driver().context_release(hardware.device);
    throw;
  }
}

Context::~Context() {
  anchor_.reset();
  products_.reset();
  convolutions_.reset();
  attentions_.reset();
  if (const Current current = try_enter()) {
    pool_.trim();
    for (const std::vector<void*>& events : events_) {
      for (void* event : events) {
        (void)driver().event_destroy(event);
      }
    }
    (void)driver().stream_destroy(immediate_);
    (void)driver().stream_destroy(capturing_);
  }
  (void)driver().context_release(hardware_.device);
}

Current Context::enter() {
  if (lost()) [[unlikely]] {
    const std::lock_guard lock(mutex_);
    throw sdk::Failure(*loss_);
  }
  Current current = try_enter();
  check(current.call(), current.code());
  return current;
}

sdk::Failure Context::with_name(const sdk::Failure& failure) const {
  return {failure.code(), hardware_.info.name + ": " + failure.text(), failure.vendor_code()};
}

void Context::fail(const char* name, int code) {
  const sdk::Failure failure = with_name(failure_of(vendor(), name, code));
  if (failure.code() == YOKE_STATUS_DEVICE_LOST) {
    lose(failure, name);
  }
  throw sdk::Failure(failure);
}

void Context::lose(const sdk::Failure& failure, const char* call) {
  std::vector<std::shared_ptr<Timeline>> timelines;
  {
    const std::lock_guard losing(
        losing_mutex_);  // no thread learns of the loss before every timeline has failed
    {
      const std::lock_guard lock(mutex_);
      if (loss_) {
        return;
      }
      loss_.emplace(failure);
      for (const std::weak_ptr<Timeline>& weak : timelines_) {
        if (auto timeline = weak.lock()) {
          timelines.push_back(std::move(timeline));
        }
      }
    }
    for (const auto& timeline : timelines) {
      timeline->lose(failure);
    }
    is_lost_.store(true, std::memory_order_release);
  }
  machine_->host().log(YOKE_LOG_ERROR, "device.lost backend=" + std::string(vendor().facts().name) +
                                           " device=" + std::to_string(hardware_.ordinal) + " call=" + call);
  for (const auto& timeline : timelines) {
    timeline->rescue_tasks();
  }
}

bool Context::is_done(const Function<int(void*)>& query, void* handle) {
  const int code = query(handle);
  // Another library may capture a graph in a mode that forbids queries on every thread.
  const bool is_answer = code == 0 || code == kNotReady || code == kCaptureUnsupported;
  if (is_answer && has_failing_.load(std::memory_order_relaxed)) [[unlikely]] {
    const std::lock_guard lock(mutex_);
    failing_.erase(handle);
    has_failing_ = !failing_.empty();
  }
  if (!is_answer) [[unlikely]] {
    if (!is_sticky(code) && !keeps_failing(handle)) {
      return false;
    }
    const sdk::Failure failure = with_name(failure_of(vendor(), query.name, code, true));
    lose(failure, query.name);
    throw sdk::Failure(failure);
  }
  return code == 0;
}

bool Context::keeps_failing(void* handle) {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  const auto since = failing_.emplace(handle, now).first->second;
  has_failing_ = true;
  return now - since >= kPatience;
}

void Context::finish(void* stream) {
  void* event = take_event(false);
  const int code = driver().event_record(event, stream);
  if (code == 0) {
    try {
      poll_until(~std::uint64_t{0}, [&] { return is_done(driver().event_query, event); });
    } catch (...) {
      give_event(event, false);
      throw;
    }
  }
  give_event(event, false);
  check(driver().event_record.name, code);
}

void* Context::take_event(bool timing) {
  {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& events = events_[timing ? 1 : 0];
    if (!events.empty()) {
      void* event = events.back();
      events.pop_back();
      return event;
    }
  }
  void* event = nullptr;
  call(driver().event_create, &event, timing ? 0U : kEventWithoutTiming);
  return event;
}

void Context::give_event(void* event, bool timing) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    failing_.erase(event);  // its next use is another query
    events_[timing ? 1 : 0].push_back(event);
  } catch (const std::bad_alloc&) {
    if (const Current current = try_enter()) {
      (void)driver().event_destroy(event);
    }
  }
}

Anchor::Anchor(Context& of) : context(of), event(of.take_event(true)) {}

Anchor::~Anchor() {
  context.give_event(event, true);
}

std::shared_ptr<const Anchor> Context::anchor() {
  constexpr std::chrono::seconds kLifetime(
      10);  // times in milliseconds are floats, exact to 1 microsecond then
  constexpr std::uint64_t kFirstWait = 1'000'000'000;
  constexpr std::uint64_t kLongestWait = 1'000'000;  // an old anchor is better than a late event
  constexpr std::uint64_t kExactEnough = 50'000;
  constexpr int kTries = 64;  // on a busy machine, another thread may run between the two times of the host
  const auto now_ns = [] {
    return static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  };
  const std::lock_guard lock(anchor_mutex_);
  if (anchor_ != nullptr &&
      now_ns() - anchor_->host_ns < static_cast<std::uint64_t>(std::chrono::nanoseconds(kLifetime).count())) {
    return anchor_;
  }
  std::shared_ptr<Anchor> best;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < kTries && least > kExactEnough; ++i) {
    const auto next = std::make_shared<Anchor>(*this);
    const std::uint64_t before = now_ns();
    call(driver().event_record, next->event, immediate_);
    if (!poll_until(anchor_ == nullptr ? kFirstWait : kLongestWait,
                    [&] { return is_done(driver().event_query, next->event); })) {
      break;
    }
    const std::uint64_t span = now_ns() - before;
    if (span < least) {
      next->host_ns = before + span / 2;
      least = span;
      best = next;
    }
  }
  if (best != nullptr) {
    anchor_ = best;
  }
  return anchor_;
}

bool Context::can_access(Context& other) {
  if (this == &other) {
    return true;
  }
  {
    const std::lock_guard lock(mutex_);
    const auto known = peers_.find(other.serial_);  // a context that was closed and opened again is another
    if (known != peers_.end()) {
      return known->second;
    }
  }
  int allowed = 0;
  bool enabled =
      driver().peer_can_access(&allowed, hardware_.device, other.hardware_.device) == 0 && allowed != 0;
  if (const Current current = try_enter(); enabled && current) {
    const int code = vendor().enable_peer(other.peer());
    enabled = code == 0 || code == kPeerAlreadyEnabled;
  }
  const std::lock_guard lock(mutex_);
  return peers_[other.serial_] = enabled;
}

void Context::add(const std::shared_ptr<Timeline>& timeline) {
  std::optional<sdk::Failure> loss;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(timelines_, [](const auto& weak) { return weak.expired(); });
    timelines_.push_back(timeline);
    loss = loss_;
  }
  if (loss) {
    timeline->poison(*loss);
  }
}

void* Context::capture(const std::function<void(void* stream)>& work, std::string& why_not) {
  const std::lock_guard lock(capture_mutex_);
  // A device that cannot capture still launches kernel by kernel.
  const auto succeeds = [&](const char* name, int code) {
    if (is_sticky(code)) {
      fail(name, code);
    }
    why_not = code != 0 ? failure_of(vendor(), name, code).text() : why_not;
    return code == 0;
  };
  if (!succeeds(driver().capture_begin.name, driver().capture_begin(capturing_, kCaptureOfThread))) {
    return nullptr;
  }
  std::exception_ptr thrown;
  try {
    work(capturing_);
  } catch (...) {  // also out of memory: the capture must end
    thrown = std::current_exception();
  }
  void* graph = nullptr;
  void* executable = nullptr;
  const int ended = driver().capture_end(capturing_, &graph);
  const std::unique_ptr<void, std::function<void(void*)>> owned(
      graph, [this](void* one) { (void)driver().graph_destroy(one); });
  if (thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const sdk::Failure& failure) {
      why_not = failure.text();
    }
  } else if (succeeds(driver().capture_end.name, ended)) {
    const int code = driver().graph_instantiate(&executable, graph, 0ULL);
    executable = succeeds(driver().graph_instantiate.name, code) ? executable : nullptr;
  }
  return executable;
}

}  // namespace yoke::gpu
