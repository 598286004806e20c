// SPDX-License-Identifier: Apache-2.0
// stream.cpp: command queues, markers and barriers.
#include "stream.h"

#include <optional>

namespace ocl {
namespace {

using yoke::sdk::Failure;

// How long the destructor waits for running work. The stream should be idle by then.
constexpr std::uint64_t kDrainNs = 10'000'000'000;

Label label_of(const char* text) {
  return std::make_shared<const std::string>(text);
}

}  // namespace

OwnedQueue make_queue(const Context& context) {
  cl_int status = CL_SUCCESS;
  OwnedQueue queue(api().clCreateCommandQueue(context.handle.get(), context.hardware.id,
                                              CL_QUEUE_PROFILING_ENABLE, &status));
  check(status, "clCreateCommandQueue", "creating a queue");
  return queue;
}

Context::Context(const Hardware& device) : hardware(device) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(device.platform), 0};
  cl_int status = CL_SUCCESS;
  handle.reset(api().clCreateContext(properties, 1, &device.id, nullptr, nullptr, &status));
  check(status, "clCreateContext", "opening '" + device.info.name + "'");
}

Stream::Stream(std::shared_ptr<Context> context, std::shared_ptr<Hub> hub)
    : context_(std::move(context)),
      hub_(std::move(hub)),
      queue_(make_queue(*context_)),
      timeline_(hub_->make_timeline()) {}

Stream::~Stream() {
  (void)timeline_->drained(kDrainNs);
  timeline_->abandon();
  for (std::thread& pause : pauses_) {
    pause.join();
  }
}

void Stream::enqueue(const Label& label, const Enqueue& work, std::shared_ptr<void> keep) {
  if (timeline_->failed()) {
    return;
  }
  auto command = timeline_->prepare(label);
  command->keep = std::move(keep);
  const OwnedEvent event = work(queue_.get());
  timeline_->add(std::move(command), event);
  check(api().clFlush(queue_.get()), "clFlush", *label);
}

// Drivers time every command of the queue, so `timing` makes no difference.
std::unique_ptr<yoke::sdk::Event> Stream::record(bool) {
  static const Label& label = *new Label(label_of("an event"));
  OwnedEvent marker;
  enqueue(label, [&](cl_command_queue queue) {
    cl_event raw = nullptr;
    check(api().clEnqueueMarkerWithWaitList(queue, 0, nullptr, &raw), "clEnqueueMarkerWithWaitList",
          "recording an event");
    marker.reset(raw);
    return share(marker);
  });
  return std::make_unique<Event>(context_, timeline_, timeline_->last(), std::move(marker));
}

void Stream::wait_for(cl_event event, const Label& label, const std::shared_ptr<Timeline>& other,
                      std::uint64_t number) {
  auto command = timeline_->prepare(label);
  command->other = other;
  command->other_number = number;
  cl_event raw = nullptr;
  check(api().clEnqueueBarrierWithWaitList(queue_.get(), 1, &event, &raw), "clEnqueueBarrierWithWaitList",
        *label);
  timeline_->add(std::move(command), OwnedEvent(raw));
  check(api().clFlush(queue_.get()), "clFlush", *label);
}

void Stream::follow(const std::shared_ptr<Timeline>& other, std::uint64_t number) {
  static const Label& label = *new Label(label_of("waiting for another stream"));
  if (timeline_->failed()) {
    return;
  }
  // An abort does not open this gate: work after it could overwrite memory that the other stream uses.
  const auto gate = std::make_shared<Gate>(context_->handle.get());
  wait_for(gate->event(), label, other, number);
  other->when_done(number, [gate] { gate->open(); });
}

void Stream::wait_event(yoke::sdk::Event& event) {
  static const Label& label = *new Label(label_of("waiting for an event"));
  auto& point = static_cast<Event&>(event);
  if (point.timeline_ == timeline_) {
    return;
  }
  // Queues of the same context synchronize on the device; others need the host.
  if (point.context_ != context_ || point.marker_ == nullptr) {
    follow(point.timeline_, point.number_);
  } else if (!timeline_->failed()) {
    wait_for(point.marker_.get(), label, point.timeline_, point.number_);
  }
}

void Stream::abort() {
  timeline_->fail(Failure(YOKE_STATUS_ABORTED, "the stream was aborted; destroy it and create another"));
}

// Later work waits at a gate until the callback has returned. A stream that has failed runs no later work.
void Stream::host_callback(yoke_host_callback_fn callback, void* user) {
  static const Label& label = *new Label(label_of("a host callback"));
  const std::uint64_t before = timeline_->last();
  const auto call = [callback, user, before, timeline = timeline_.get()] {
    callback(user, timeline->status(before));
  };
  if (timeline_->failed()) {
    timeline_->add_call([call]() -> std::optional<Failure> {
      call();
      return {};
    });
    return;
  }
  const auto gate = std::make_shared<Gate>(context_->handle.get());
  wait_for(gate->event(), label);
  timeline_->when_done(before, [call, gate] {
    call();
    gate->open();
  });
}

Stream& Stream::on(const std::shared_ptr<Context>& other) {
  for (const auto& helper : helpers_) {
    if (helper->context_ == other) {
      return *helper;
    }
  }
  return *helpers_.emplace_back(std::make_unique<Stream>(other, hub_));
}

void Stream::poison(const Failure& failure) {
  timeline_->add_call(
      [failure]() mutable -> std::optional<Failure> { return std::optional(std::move(failure)); });
}

void Stream::pause(std::uint64_t delay_ns) {
  static const Label& label = *new Label(label_of("a pause"));
  if (timeline_->failed()) {
    return;
  }
  const auto gate = std::make_shared<Gate>(context_->handle.get());
  const std::uint64_t before = timeline_->last();
  wait_for(gate->event(), label);
  pauses_.emplace_back([gate, before, delay_ns, timeline = timeline_] {
    timeline->sleep_after(before, delay_ns);
    gate->open();
  });
}

yoke::sdk::Native Stream::native() {
  return {"opencl", reinterpret_cast<std::uintptr_t>(queue_.get()),
          reinterpret_cast<std::uintptr_t>(context_->handle.get())};
}

std::string Stream::debug_text() {
  return "OpenCL queue on " + context_->hardware.info.name + ": " + timeline_->text();
}

std::uint64_t Event::device_time() const {
  cl_ulong nanoseconds = 0;
  check(api().clGetEventProfilingInfo(marker_.get(), CL_PROFILING_COMMAND_END, sizeof nanoseconds,
                                      &nanoseconds, nullptr),
        "clGetEventProfilingInfo", "the time of an event");
  return nanoseconds;
}

// The SDK has checked that both events are done, so they have a marker.
std::uint64_t Event::elapsed_since(yoke::sdk::Event& start) {
  auto& from = static_cast<Event&>(start);
  if (from.context_ != context_) {
    throw Failure(YOKE_STATUS_UNIMPLEMENTED, "the events belong to different devices, whose clocks differ");
  }
  const std::uint64_t begin = from.device_time();
  const std::uint64_t end = device_time();
  if (end < begin) {
    throw Failure(YOKE_STATUS_INVALID_ARGUMENT, "the start event happened after the stop event");
  }
  return end - begin;
}

Immediate::Immediate(const Context& context) : queue_(make_queue(context)) {}

void Immediate::run(const Label& label, const Enqueue& work) {
  const OwnedEvent event = work(queue_.get());
  cl_event waited = event.get();
  cl_int status = api().clWaitForEvents(1, &waited);
  if (status == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) {
    check(api().clGetEventInfo(waited, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr),
          "clGetEventInfo", *label);
  }
  check(status, "clWaitForEvents", *label);
}

}  // namespace ocl
