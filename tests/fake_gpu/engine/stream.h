// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/stream.h: devices, streams with a thread each, events, captures and graphs.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "memory.h"
#include "objects.h"

namespace fake_gpu {

struct Device {
  std::atomic<int> error = 0;  // sticky: the number that every later call returns
  std::atomic<int> retained = 0;
  int physical = 0;
};
// The visible devices; throws Error(kInvalidDevice) for other numbers.
Device& device_at(int index);

// Something that a stream does, or that a graph repeats.
struct Work {
  const char* name = "";            // "kernel", "copy", "fill" or "" for what FAKE_GPU_FAIL does not count
  std::function<void()> run = {};   // may throw KernelFault
  std::vector<Range> ranges = {};   // pinned from now until it has run
  std::shared_ptr<void> uses = {};  // a module or a graph
  bool also_when_lost = false;
};

// Thrown when a kernel does something that hangs or fails on a GPU.
struct KernelFault {
  std::string sentence;
};

struct Graph {
  int device = 0;
  std::vector<Work> nodes;
};

struct Executable {
  int device = 0;
  std::shared_ptr<const Graph> graph;
  std::mutex runs;  // launches of one executable do not overlap
};

enum class CaptureMode { kGlobal, kThreadLocal, kRelaxed };

class Stream {
 public:
  explicit Stream(int device_index);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  // Queues the work, or adds it to the graph that is being captured.
  void push(Work work);
  void wait();
  bool is_idle();

  void begin_capture(CaptureMode mode);
  std::shared_ptr<Graph> end_capture();
  // Throws, and invalidates the capture, if the stream is capturing.
  void refuse_capture(const char* call);
  bool is_capturing();

  const int device;

 private:
  struct Queued {
    Work work;
    Pins pins;
  };

  void run_all();
  void run(Queued& queued) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Queued> queue_;
  bool busy_ = false;
  bool closing_ = false;
  std::shared_ptr<Graph> capture_;
  CaptureMode mode_ = CaptureMode::kGlobal;
  std::thread::id capturer_;
  bool invalid_ = false;
  std::thread thread_;
};

// Throws if a capture forbids calls that may synchronize: any capture in global mode, or one of this thread
// in thread-local mode.
void refuse_during_capture(const char* call);

// The driver serves one call at a time, so a call may wait for another one that waits for the device. Threads
// must not hold what host functions need while they call the driver.
std::mutex& driver_lock();
// Waits for all streams of the device, as functions do that free memory. No other call is served meanwhile.
void wait_for_device(int device);

// The state of one cuEventRecord.
struct Recording {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::chrono::steady_clock::time_point time;

  void finish();
  void wait();
  bool is_done();
};

struct Event {
  int device = 0;
  bool timing = true;
  std::mutex mutex;
  std::shared_ptr<Recording> recording;  // null: never recorded
  bool captured = false;                 // the last record is part of a graph
};

Objects<Stream>& streams();
Objects<Event>& events();
Objects<Graph>& graphs();
Objects<Executable>& executables();

// True on a thread that runs a host function, which must not call the driver.
bool& in_host_function();

}  // namespace fake_gpu
