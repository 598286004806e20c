// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/stream.cpp: the streams of a device handle, and their events.
#include <algorithm>
#include <utility>

#include "../bugs.h"
#include "queue.h"

namespace yoke::strip {

using handmade::bug;

std::shared_ptr<Queue> Group::make_queue() {
  const std::lock_guard lock(mutex_);
  auto queue = std::make_shared<Queue>(
      pool_, [this](const sdk::Failure& lost) { fail(lost); }, failure_);
  std::erase_if(queues_, [](const auto& weak) { return weak.expired(); });
  queues_.push_back(queue);
  return queue;
}

void Group::fail(const sdk::Failure& failure) {
  std::vector<std::shared_ptr<Queue>> queues;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) {
      failure_.emplace(failure);
    }
    for (const auto& weak : queues_) {
      if (auto queue = weak.lock()) {
        queues.push_back(std::move(queue));
      }
    }
  }
  for (const auto& queue : queues) {
    queue->fail(failure);
  }
}

Event::~Event() {
  if (bug("event_pool")) {
    Fences::of_plugin().give(fence_);
  }
}

std::uint64_t Event::elapsed_since(sdk::Event& start) {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, fence_->stamp() - static_cast<Event&>(start).fence_->stamp()));
}

Stream::~Stream() {
  try {
    queue_->wait(~std::uint64_t{0});
  } catch (const sdk::Failure&) {  // the stream had failed
  }
}

void Stream::run(sdk::Stream* stream, std::function<void()> work, const void* fills,
                 std::shared_ptr<Copy> copy) {
  if (stream == nullptr) {
    work();
  } else {
    static_cast<Stream*>(stream)->queue_->post(
        {.work = std::move(work), .fills = fills, .copy = std::move(copy)});
  }
}

void Stream::abort() {
  queue_->fail(sdk::Failure(YOKE_STATUS_ABORTED, "the stream was aborted; destroy it and create another"));
}

}  // namespace yoke::strip
