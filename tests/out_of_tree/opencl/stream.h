// SPDX-License-Identifier: Apache-2.0
// stream.h: in-order queues of one device, and the events between them.
#pragma once

#include <yoke/sdk/plugin.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hardware.h"
#include "timeline.h"

namespace ocl {

// One OpenCL context for each device, shared by all handles onto it. Not one for several devices: a buffer of
// a shared context moves between devices as a whole, so that two devices writing different parts of it would
// lose one part.
struct Context {
  explicit Context(const Hardware& device);

  const Hardware& hardware;
  OwnedContext handle;
};

// Queues one piece of work and gives the event of its end; throws if it could not be queued.
using Enqueue = std::function<OwnedEvent(cl_command_queue)>;
using Label = std::shared_ptr<const std::string>;

class Stream final : public yoke::sdk::Stream {
 public:
  Stream(std::shared_ptr<Context> context, std::shared_ptr<Hub> hub);
  ~Stream() override;

  bool done() override { return timeline_->done(timeline_->last()); }
  void wait(std::uint64_t timeout_ns) override { timeline_->wait(timeline_->last(), timeout_ns); }
  std::unique_ptr<yoke::sdk::Event> record() override;
  void wait_event(yoke::sdk::Event& event) override;
  std::string debug_text() override;
  // For yoke.fault/1.
  void poison(const yoke::sdk::Failure& failure) override;
  void pause(std::uint64_t delay_ns) override;

  // Queues work behind all that is there. On a stream that has failed nothing is queued: its waits tell.
  void enqueue(const Label& label, const Enqueue& work);
  // Work queued from now on waits until `other`, of any context, has come to `number`, and takes over its
  // error.
  void follow(const std::shared_ptr<Timeline>& other, std::uint64_t number);

  // A stream of another device that helps this one, and lives as long.
  Stream& on(const std::shared_ptr<Context>& other);

  Context& context() const noexcept { return *context_; }
  const std::shared_ptr<Timeline>& timeline() const noexcept { return timeline_; }

 private:
  void wait_behind(cl_event event, const Label& label, const std::shared_ptr<Timeline>& other,
                   std::uint64_t number);

  std::shared_ptr<Context> context_;
  OwnedQueue queue_;
  std::shared_ptr<Timeline> timeline_;
  std::vector<std::unique_ptr<Stream>> helpers_;
  std::vector<std::thread> pauses_;
};

class Event final : public yoke::sdk::Event {
 public:
  Event(std::shared_ptr<Context> context, std::shared_ptr<Timeline> timeline, std::uint64_t number,
        OwnedEvent marker)
      : context_(std::move(context)),
        timeline_(std::move(timeline)),
        number_(number),
        marker_(std::move(marker)) {}

  bool done() override { return timeline_->done(number_); }
  void wait(std::uint64_t timeout_ns) override { timeline_->wait(number_, timeout_ns); }
  std::uint64_t elapsed_since(yoke::sdk::Event& start) override;

 private:
  friend class Stream;
  std::uint64_t device_time() const;

  std::shared_ptr<Context> context_;
  std::shared_ptr<Timeline> timeline_;
  std::uint64_t number_;
  OwnedEvent marker_;  // null on a stream that had failed
};

// Work without a stream: done on return. Any number of threads.
class Immediate {
 public:
  Immediate(const std::shared_ptr<Context>& context, std::shared_ptr<Hub> hub);
  void run(const Label& label, const Enqueue& work);

 private:
  OwnedQueue queue_;
  std::shared_ptr<Hub> hub_;
};

}  // namespace ocl
