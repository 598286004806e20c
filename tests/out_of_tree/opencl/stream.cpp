// SPDX-License-Identifier: Apache-2.0
// stream.cpp: queues, markers, barriers.
#include "stream.h"

#include <limits>
#include <utility>

namespace ocl {
namespace {

using yoke::sdk::Failure;

// How long a stream may take to end what still runs when it is destroyed: it should be idle.
constexpr std::uint64_t kDrainNs = 10'000'000'000;

const Label& stream_label() {
  static const Label& label = *new Label(std::make_shared<const std::string>("waiting for another stream"));
  return label;
}

OwnedQueue make_queue(const Context& context) {
  cl_int status = CL_SUCCESS;
  OwnedQueue queue(api().clCreateCommandQueue(context.handle.get(), context.hardware.id,
                                              CL_QUEUE_PROFILING_ENABLE, &status));
  check(status, "clCreateCommandQueue", "making a stream");
  return queue;
}

Label label_of(const char* text) {
  return std::make_shared<const std::string>(text);
}

}  // namespace

Context::Context(const Hardware& device) : hardware(device) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(device.platform), 0};
  cl_int status = CL_SUCCESS;
  handle.reset(api().clCreateContext(properties, 1, &device.id, nullptr, nullptr, &status));
  check(status, "clCreateContext", "opening '" + device.info.name + "'");
}

Stream::Stream(std::shared_ptr<Context> context, std::shared_ptr<Hub> hub)
    : context_(std::move(context)),
      queue_(make_queue(*context_)),
      timeline_(std::make_shared<Timeline>(std::move(hub))) {}

Stream::~Stream() {
  (void)timeline_->drained(kDrainNs);
  timeline_->abandon();
  for (std::thread& pause : pauses_) {
    pause.join();
  }
}

void Stream::enqueue(const Label& label, const Enqueue& work) {
  timeline_->hub()->check();
  if (timeline_->failed()) {
    return;
  }
  const OwnedEvent event = work(queue_.get());
  timeline_->add(event, label);
  check(api().clFlush(queue_.get()), "clFlush", *label);
}

std::unique_ptr<yoke::sdk::Event> Stream::record() {
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

void Stream::wait_behind(cl_event event, const Label& label, const std::shared_ptr<Timeline>& other,
                         std::uint64_t number) {
  cl_event raw = nullptr;
  check(api().clEnqueueBarrierWithWaitList(queue_.get(), 1, &event, &raw), "clEnqueueBarrierWithWaitList",
        *label);
  timeline_->add(OwnedEvent(raw), label, other, number);
  check(api().clFlush(queue_.get()), "clFlush", *label);
}

void Stream::follow(const std::shared_ptr<Timeline>& other, std::uint64_t number) {
  timeline_->hub()->check();
  if (timeline_->failed()) {
    return;
  }
  const auto gate = std::make_shared<Gate>(context_->handle.get());
  timeline_->hub()->watch(gate);
  wait_behind(gate->event(), stream_label(), other, number);
  other->when_done(number, [gate](bool) { gate->open(); });
}

void Stream::wait_event(yoke::sdk::Event& event) {
  auto& point = static_cast<Event&>(event);
  if (point.timeline_ == timeline_) {
    return;
  }
  // Queues of one context wait for each other without the host.
  if (point.context_ != context_ || point.marker_ == nullptr) {
    follow(point.timeline_, point.number_);
    return;
  }
  timeline_->hub()->check();
  if (!timeline_->failed()) {
    wait_behind(point.marker_.get(), stream_label(), point.timeline_, point.number_);
  }
}

Stream& Stream::on(const std::shared_ptr<Context>& other) {
  for (const auto& helper : helpers_) {
    if (helper->context_ == other) {
      return *helper;
    }
  }
  return *helpers_.emplace_back(std::make_unique<Stream>(other, timeline_->hub()));
}

void Stream::poison(const Failure& failure) {
  timeline_->hub()->check();
  timeline_->add_failure(failure);
}

void Stream::pause(std::uint64_t delay_ns) {
  static const Label& label = *new Label(label_of("a pause"));
  timeline_->hub()->check();
  if (timeline_->failed()) {
    return;
  }
  const auto gate = std::make_shared<Gate>(context_->handle.get());
  timeline_->hub()->watch(gate);
  const std::uint64_t before = timeline_->last();
  wait_behind(gate->event(), label, nullptr, 0);
  pauses_.emplace_back([gate, before, delay_ns, timeline = timeline_] {
    timeline->sleep_behind(before, delay_ns);
    gate->open();
  });
}

std::string Stream::debug_text() {
  return "OpenCL queue on " + context_->hardware.info.name + ": " + timeline_->text();
}

std::uint64_t Event::device_time() const {
  cl_ulong nanoseconds = 0;
  if (marker_ == nullptr) {
    throw Failure(YOKE_FAILED_PRECONDITION,
                  "the event was recorded on a stream that had failed, and has no time");
  }
  check(api().clGetEventProfilingInfo(marker_.get(), CL_PROFILING_COMMAND_END, sizeof nanoseconds,
                                      &nanoseconds, nullptr),
        "clGetEventProfilingInfo", "the time of an event");
  return nanoseconds;
}

std::uint64_t Event::elapsed_since(yoke::sdk::Event& start) {
  auto& from = static_cast<Event&>(start);
  if (from.context_ != context_) {
    throw Failure(YOKE_UNIMPLEMENTED, "the events are of two devices, whose clocks differ");
  }
  if (!from.done() || !done()) {
    throw Failure(YOKE_FAILED_PRECONDITION,
                  "time between events: one of them is not done; wait for it first");
  }
  const std::uint64_t begin = from.device_time();
  const std::uint64_t end = device_time();
  if (end < begin) {
    throw Failure(YOKE_INVALID_ARGUMENT, "the start event happened after the stop event");
  }
  return end - begin;
}

Immediate::Immediate(const std::shared_ptr<Context>& context, std::shared_ptr<Hub> hub)
    : queue_(make_queue(*context)), hub_(std::move(hub)) {}

void Immediate::run(const Label& label, const Enqueue& work) {
  hub_->check();
  // A timeline of its own: a failure stays with this call.
  const auto timeline = std::make_shared<Timeline>(hub_);
  const OwnedEvent event = work(queue_.get());
  timeline->add(event, label);
  check(api().clFlush(queue_.get()), "clFlush", *label);
  // No deadline, as the call has none; abort ends it.
  timeline->wait(timeline->last(), std::numeric_limits<std::uint64_t>::max());
}

}  // namespace ocl
