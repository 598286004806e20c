// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/stream.cpp: see stream.h.
#include "stream.h"

#include <utility>

namespace fake_gpu {
namespace {

// Captures in progress: in global mode, and of each thread in thread-local mode.
std::atomic<int> global_captures = 0;
thread_local int local_captures = 0;

}  // namespace

Device& device_at(int index) {
  static auto* const all = new std::array<Device, 8>;
  const auto& visible = settings().devices;
  if (index < 0 || index >= static_cast<int>(visible.size())) {
    throw Error{kInvalidDevice};
  }
  return all->at(static_cast<std::size_t>(index));
}

void Recording::finish() {
  {
    const std::scoped_lock lock(mutex);
    done = true;
    time = std::chrono::steady_clock::now();
  }
  changed.notify_all();
}

void Recording::wait() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done; });
}

bool Recording::is_done() {
  const std::scoped_lock lock(mutex);
  return done;
}

Stream::Stream(int device_index) : device(device_index), thread_([this] { run_all(); }) {}

Stream::~Stream() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::push(Work work) {
  Pins pins = memory().pin(work.ranges, device, work.name);
  const std::scoped_lock lock(mutex_);
  if (capture_ != nullptr) {
    if (invalid_) {
      throw Error{kCaptureInvalidated};
    }
    capture_->nodes.push_back(std::move(work));
    return;
  }
  queue_.push_back({std::move(work), std::move(pins)});
  changed_.notify_all();
}

void Stream::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
}

bool Stream::is_idle() {
  const std::scoped_lock lock(mutex_);
  return queue_.empty() && !busy_;
}

void Stream::run_all() {
  for (;;) {
    Queued queued;
    {
      std::unique_lock lock(mutex_);
      busy_ = false;
      if (queue_.empty()) {
        changed_.notify_all();
      }
      changed_.wait(lock, [&] { return closing_ || !queue_.empty(); });
      if (queue_.empty()) {
        return;
      }
      busy_ = true;
      queued = std::move(queue_.front());
      queue_.pop_front();
    }
    delay();
    run(queued);
  }
}

void Stream::run(Queued& queued) const {
  Device& state = device_at(device);
  if (queued.work.name[0] != '\0') {
    if (const int code = count_call(queued.work.name); code != 0) {
      state.error = is_sticky(code) ? code : kLaunchFailed;
    }
  }
  if (state.error != 0 && !queued.work.also_when_lost) {
    return;
  }
  try {
    queued.work.run();
  } catch (const KernelFault& fault) {
    complain(fault.sentence);
    state.error = kLaunchFailed;
  }
}

void Stream::begin_capture(CaptureMode mode) {
  const std::scoped_lock lock(mutex_);
  if (capture_ != nullptr) {
    complain("a capture begins on a stream that is already capturing");
    throw Error{kCaptureUnsupported};
  }
  capture_ = std::make_shared<Graph>();
  capture_->device = device;
  mode_ = mode;
  capturer_ = std::this_thread::get_id();
  invalid_ = false;
  global_captures += mode == CaptureMode::kGlobal ? 1 : 0;
  local_captures += mode == CaptureMode::kThreadLocal ? 1 : 0;
}

std::shared_ptr<Graph> Stream::end_capture() {
  const std::scoped_lock lock(mutex_);
  if (capture_ == nullptr) {
    complain("a capture ends that did not begin");
    throw Error{kCaptureUnmatched};
  }
  if (mode_ != CaptureMode::kRelaxed && capturer_ != std::this_thread::get_id()) {
    complain("a capture ends on another thread than it began");
    throw Error{kCaptureWrongThread};
  }
  global_captures -= mode_ == CaptureMode::kGlobal ? 1 : 0;
  local_captures -= mode_ == CaptureMode::kThreadLocal ? 1 : 0;
  auto graph = std::exchange(capture_, nullptr);
  if (invalid_) {
    throw Error{kCaptureInvalidated};
  }
  return graph;
}

void Stream::refuse_capture(const char* call) {
  const std::scoped_lock lock(mutex_);
  if (capture_ != nullptr) {
    invalid_ = true;
    complain(std::string(call) + " on a stream that is capturing");
    throw Error{kCaptureUnsupported};
  }
}

bool Stream::is_capturing() {
  const std::scoped_lock lock(mutex_);
  return capture_ != nullptr;
}

void refuse_during_capture(const char* call) {
  if (global_captures > 0 || local_captures > 0) {
    complain(std::string(call) + " while a capture forbids it");
    throw Error{kCaptureUnsupported};
  }
}

std::mutex& driver_lock() {
  static auto* const lock = new std::mutex;
  return *lock;
}

void wait_for_device(int device) {
  const auto all = streams().of_device(device);
  const std::scoped_lock lock(driver_lock());
  for (const auto& stream : all) {
    stream->wait();
  }
}

Objects<Stream>& streams() {
  static auto* const all = new Objects<Stream>("stream", 0x51);
  return *all;
}

Objects<Event>& events() {
  static auto* const all = new Objects<Event>("event", 0x52);
  return *all;
}

Objects<Graph>& graphs() {
  static auto* const all = new Objects<Graph>("graph", 0x53);
  return *all;
}

Objects<Executable>& executables() {
  static auto* const all = new Objects<Executable>("executable graph", 0x54);
  return *all;
}

bool& in_host_function() {
  static thread_local bool inside = false;
  return inside;
}

}  // namespace fake_gpu
