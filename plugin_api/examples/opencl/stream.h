// SPDX-License-Identifier: Apache-2.0
// stream.h: in-order queues of one device, and the events between them.
#pragma once

#include <yoke/sdk/plugin.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hardware.h"
#include "timeline.h"

namespace ocl {

// The OpenCL context of one device, shared by all its handles. Devices do not share a
// context: OpenCL moves a buffer of a shared context between devices as a whole, so writes of
// two devices to different parts would be lost.
struct Context {
  explicit Context(const Hardware& device);

  const Hardware& hardware;
  OwnedContext handle;
};

// Queues a command and returns its event. Throws if the command could not be queued.
using Enqueue = std::function<OwnedEvent(cl_command_queue)>;

// A queue of the context's device.
OwnedQueue make_queue(const Context& context);

class Stream final : public yoke::sdk::Stream {
 public:
  Stream(std::shared_ptr<Context> context, std::shared_ptr<Hub> hub);
  ~Stream() override;

  std::int32_t state() override { return timeline_->state(timeline_->last()); }
  void wait(std::uint64_t timeout_ns) override { timeline_->wait(timeline_->last(), timeout_ns); }
  std::unique_ptr<yoke::sdk::Event> record(bool timing) override;
  void wait_event(yoke::sdk::Event& event) override;
  void abort() override;
  void host_callback(yoke_host_callback_fn callback, void* user) override;
  yoke::sdk::Native native() override;
  std::string debug_text() override;
  // For yoke.fault/1.
  void poison(const yoke::sdk::Failure& failure) override;
  void pause(std::uint64_t delay_ns) override;

  // Queues work. `keep` is host memory that stays alive until the work has ended. After a failure of the
  // stream, does nothing: waits report the failure.
  void enqueue(const Label& label, const Enqueue& work, std::shared_ptr<void> keep = nullptr);
  // Makes work queued from now on wait until `other`, of any context, has
  // finished `number`, and inherit its error.
  void follow(const std::shared_ptr<Timeline>& other, std::uint64_t number);

  // A stream of another device, owned by this stream, for copies between the devices.
  Stream& on(const std::shared_ptr<Context>& other);

  Context& context() const noexcept { return *context_; }
  const std::shared_ptr<Timeline>& timeline() const noexcept { return timeline_; }

 private:
  // Queues a barrier that waits for `event`, and for `number` of `other` if there is one.
  void wait_for(cl_event event, const Label& label, const std::shared_ptr<Timeline>& other = nullptr,
                std::uint64_t number = 0);

  std::shared_ptr<Context> context_;
  std::shared_ptr<Hub> hub_;
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

  std::int32_t state() override { return timeline_->state(number_); }
  void wait(std::uint64_t timeout_ns) override { timeline_->wait(number_, timeout_ns); }
  std::uint64_t elapsed_since(yoke::sdk::Event& start) override;

 private:
  friend class Stream;
  std::uint64_t device_time() const;

  std::shared_ptr<Context> context_;
  std::shared_ptr<Timeline> timeline_;
  std::uint64_t number_;
  OwnedEvent marker_;  // null if the stream had failed
};

// Runs work that has no stream: it is done on return. Thread-safe.
class Immediate {
 public:
  explicit Immediate(const Context& context);
  void run(const Label& label, const Enqueue& work);

 private:
  OwnedQueue queue_;
};

}  // namespace ocl
